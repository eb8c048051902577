"""What was changed, and how is it taken back? History, blame, differences, undo, and what was there then."""

from reverie.admin.history.blame import Blame, Line, Repetition, Told
from reverie.admin.history.diff import Difference, FieldChange
from reverie.admin.history.journal import Journal
from reverie.admin.history.positions import When

__all__ = ["Blame", "Difference", "FieldChange", "Journal", "Line", "Repetition", "Told", "When"]
