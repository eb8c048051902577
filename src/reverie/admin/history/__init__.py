"""Journal queries, differences, undo and earlier states of the store.

Imports `consolidation.plan`, `stores`, `domain`.
"""

from reverie.admin.history.diff import Blame, BlameChange, BlameLine, Difference, FieldChange
from reverie.admin.history.journal import Journal, When
from reverie.admin.history.undo import History

__all__ = [
    "Blame",
    "BlameChange",
    "BlameLine",
    "Difference",
    "FieldChange",
    "History",
    "Journal",
    "When",
]
