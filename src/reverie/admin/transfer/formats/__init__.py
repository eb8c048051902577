"""Readers and writers of file formats, one module each.

Imports `repositories`, `files`, `domain`; opens no store.
"""
