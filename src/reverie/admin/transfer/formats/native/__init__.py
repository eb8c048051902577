"""Readers and writers of formats that Reverie defines. Imports `domain` and `files.parsing`."""
