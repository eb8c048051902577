"""Memory for AI agents: open a folder, and remember.

    from reverie import Memory

    memory = Memory.open("~/agent")
    memory.save("Prefers short answers", category="user-preferences/style")
    memory.search("how should I answer?")

Importing opens nothing, reads no environment and starts no thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reverie.config import Settings
from reverie.context.pack import Pack
from reverie.edits import Edit, JournalRow
from reverie.entries import Entry
from reverie.errors import (
    Conflict,
    InvalidInput,
    MissingExtra,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    NotFound,
    ReverieError,
    ScopeNeeded,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreUnavailable,
    WorkingMemoryFull,
)
from reverie.filters import Filter
from reverie.memory import Memory
from reverie.pages import Page, Paragraph
from reverie.plans import Plan
from reverie.recall.hits import FIL, Hit, Why
from reverie.records import Record
from reverie.saving import Note, Saved
from reverie.scopes import EVERY_SCOPE
from reverie.session import Session
from reverie.stats import ScopeStats, Stats
from reverie.turns import SessionOverview, SessionState, ToolCall, Turn
from reverie.working import WorkingMemory
from reverie.writing import PageOverview, Pages, Written

if TYPE_CHECKING:
    from reverie.aio import AsyncMemory, AsyncScoped, AsyncSession
    from reverie.forgetting import Forgetting
    from reverie.journal import Blame, Difference, FieldChange, Journal
    from reverie.journal.undo import Undone
    from reverie.past import Past
    from reverie.scoped import Scoped
    from reverie.traces import Trace
    from reverie.transfer.backups import Backup, Recovered, recover
    from reverie.transfer.exports import Exported
    from reverie.transfer.importing import Imported
    from reverie.transfer.items import Skipped

__version__ = "0.1.0"

__all__ = [
    "EVERY_SCOPE",
    "FIL",
    "AsyncMemory",
    "AsyncScoped",
    "AsyncSession",
    "Backup",
    "Blame",
    "Conflict",
    "Difference",
    "Edit",
    "Entry",
    "Exported",
    "FieldChange",
    "Filter",
    "Forgetting",
    "Hit",
    "Imported",
    "InvalidInput",
    "Journal",
    "JournalRow",
    "Memory",
    "MissingExtra",
    "ModelError",
    "ModelRefused",
    "ModelUnavailable",
    "NotFound",
    "Note",
    "Pack",
    "Page",
    "PageOverview",
    "Pages",
    "Paragraph",
    "Past",
    "Plan",
    "Record",
    "Recovered",
    "ReverieError",
    "Saved",
    "ScopeNeeded",
    "ScopeStats",
    "Scoped",
    "Session",
    "SessionOverview",
    "SessionState",
    "Settings",
    "Skipped",
    "Stats",
    "StoreCorrupt",
    "StoreError",
    "StoreForeign",
    "StoreUnavailable",
    "ToolCall",
    "Trace",
    "Turn",
    "Undone",
    "Why",
    "WorkingMemory",
    "WorkingMemoryFull",
    "Written",
    "__version__",
    "recover",
]


def __getattr__(name: str) -> object:
    """Load what few programs need when it is asked for: asyncio alone would double the start-up time."""
    if name in ("AsyncMemory", "AsyncScoped", "AsyncSession"):
        from reverie import aio

        return getattr(aio, name)
    if name == "Forgetting":
        from reverie.forgetting import Forgetting

        return Forgetting
    if name == "Scoped":
        from reverie.scoped import Scoped

        return Scoped
    if name == "Trace":
        from reverie.traces import Trace

        return Trace
    if name in ("Blame", "Difference", "FieldChange", "Journal"):
        from reverie import journal

        return getattr(journal, name)
    if name == "Undone":
        from reverie.journal.undo import Undone

        return Undone
    if name == "Past":
        from reverie.past import Past

        return Past
    if name in ("Backup", "Recovered", "recover"):
        from reverie.transfer import backups

        return getattr(backups, name)
    if name == "Exported":
        from reverie.transfer.exports import Exported

        return Exported
    if name == "Imported":
        from reverie.transfer.importing import Imported

        return Imported
    if name == "Skipped":
        from reverie.transfer.items import Skipped

        return Skipped
    raise AttributeError(f"module 'reverie' has no attribute {name!r}")
