"""Backup, export and import. Imports `admin.erasure`, `repositories`, `files` and what is below."""
