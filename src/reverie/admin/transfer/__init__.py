"""Backup, export and import.

`backup` copies and recovers everything, `export` writes files for people and other programs, and `importer`
stores what the modules of `formats` read.
"""
