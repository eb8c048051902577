"""What was changed, and how is it taken back? History, blame, differences, undo, and what was there then."""

from reverie.journal.account import Journal
from reverie.journal.blame import Blame, Line, Repetition, Told
from reverie.journal.differences import Difference, FieldChange
from reverie.journal.moments import When

__all__ = ["Blame", "Difference", "FieldChange", "Journal", "Line", "Repetition", "Told", "When"]
