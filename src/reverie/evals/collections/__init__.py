"""Readers of test collections. Imports `admin.transfer` and `domain`."""
