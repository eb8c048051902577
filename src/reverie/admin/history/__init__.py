"""Journal queries, differences, undo and earlier states of the store.

Imports `consolidation`, `stores`, `domain`.
"""
