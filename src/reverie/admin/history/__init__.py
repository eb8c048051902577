"""Journal queries, differences, undo and earlier states of the store.

Imports `consolidation.plan`, `stores`, `domain`.
"""

from reverie.admin.history.blame import Blame, BlameChange, BlameLine, Repetition
from reverie.admin.history.diff import Difference, FieldChange
from reverie.admin.history.history import History
from reverie.admin.history.journal import Journal
from reverie.admin.history.positions import When

__all__ = [
    "Blame",
    "BlameChange",
    "BlameLine",
    "Difference",
    "FieldChange",
    "History",
    "Journal",
    "Repetition",
    "When",
]
