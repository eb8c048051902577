"""Measurement of recall on collections. Imports the root modules and below."""
