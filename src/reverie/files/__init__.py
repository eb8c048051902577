"""Readable folder: mirror of the store, import of hand edits, rebuild. Imports `stores` and `domain`."""
