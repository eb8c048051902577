"""Atomic file operations and the state of the mirror.

Imports `files.layout`, `stores.sqlite` and `domain`.
"""
