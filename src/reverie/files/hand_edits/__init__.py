"""Import of edits that people make in the folder.

Imports `files.scan`, `files.state`, `stores` and `domain`.
"""
