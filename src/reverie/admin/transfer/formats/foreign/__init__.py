"""Readers of formats that other programs write. Imports the other formats and `domain`."""
