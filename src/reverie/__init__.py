"""Memory for AI agents: open a folder, and remember.

    from reverie import Memory

    memory = Memory.open("~/agent")
    memory.save("Prefers short answers", category="user-preferences/style")
    memory.search("how should I answer?")

Importing opens nothing, reads no environment and starts no thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reverie.admin.stats import ScopeStats, Stats
from reverie.consolidation.plan import Plan
from reverie.context.pack import Pack
from reverie.domain.change import Edit, JournalRow
from reverie.domain.conversation import SessionOverview, SessionState, ToolCall, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import (
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
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE
from reverie.memory import Memory
from reverie.repositories.pages import PageOverview, Pages, Written
from reverie.repositories.records import Note, Saved
from reverie.repositories.working_memory import WorkingMemory
from reverie.search.hits import FIL, Hit, Why
from reverie.session import Session
from reverie.settings import Settings

if TYPE_CHECKING:
    from reverie.admin.erasure.eraser import Forgetting
    from reverie.admin.erasure.matching import Trace
    from reverie.admin.history import Blame, Difference, FieldChange, Journal
    from reverie.admin.history.undo import Undone
    from reverie.admin.transfer.backup import Backup, Recovered, recover
    from reverie.admin.transfer.export import Exported
    from reverie.admin.transfer.importer import Imported
    from reverie.admin.transfer.items import Skipped
    from reverie.aio import AsyncMemory, AsyncScoped, AsyncSession
    from reverie.scoped import Scoped
    from reverie.snapshot import Past

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
        from reverie.admin.erasure.eraser import Forgetting

        return Forgetting
    if name == "Scoped":
        from reverie.scoped import Scoped

        return Scoped
    if name == "Trace":
        from reverie.admin.erasure.matching import Trace

        return Trace
    if name in ("Blame", "Difference", "FieldChange", "Journal"):
        from reverie.admin import history as journal

        return getattr(journal, name)
    if name == "Undone":
        from reverie.admin.history.undo import Undone

        return Undone
    if name == "Past":
        from reverie.snapshot import Past

        return Past
    if name in ("Backup", "Recovered", "recover"):
        from reverie.admin.transfer import backup as backups

        return getattr(backups, name)
    if name == "Exported":
        from reverie.admin.transfer.export import Exported

        return Exported
    if name == "Imported":
        from reverie.admin.transfer.importer import Imported

        return Imported
    if name == "Skipped":
        from reverie.admin.transfer.items import Skipped

        return Skipped
    raise AttributeError(f"module 'reverie' has no attribute {name!r}")
