"""Repositories: reading and writing one kind of content each.

Imports `context`, `search`, `stores`, `domain`.
"""
