"""Comparison of texts: duplicates, supersession, three-way merges. Imports all of `domain`."""
