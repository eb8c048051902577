"""Import of edits that people make in the folder.

Imports `files.scan`, `files.disk`, `stores` and `domain`.
"""
