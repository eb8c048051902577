"""Memory for AI agents: open a folder, and remember.

    from reverie import Memory

    memory = Memory.open("~/agent")
    memory.save("Prefers short answers", category="user-preferences/style")
    memory.search("how should I answer?")

Importing opens nothing, reads no environment and starts no thread.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from reverie.admin.stats import ScopeStats, Stats
from reverie.context.pack import Pack
from reverie.domain.change import Change, JournalEntry
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
    StoreCorrupt,
    StoreError,
    StoreIncompatible,
    StoreUnavailable,
    WorkingMemoryFull,
)
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE
from reverie.memory import Memory
from reverie.reader import MemoryReader
from reverie.repositories.pages import PageOverview, Pages, PageWriteResult
from reverie.repositories.records import NewRecord, SaveResult
from reverie.repositories.working_memory import WorkingMemory
from reverie.scoped import ScopedMemory
from reverie.search.hits import Explanation, Hit
from reverie.session import Session
from reverie.settings import Settings

if TYPE_CHECKING:
    from reverie.admin.administration import Administration
    from reverie.admin.erasure.matching import ErasureItem
    from reverie.admin.erasure.request import ErasureReport
    from reverie.admin.history import Blame, Difference, FieldChange, History, Journal
    from reverie.admin.history.undo import UndoResult
    from reverie.admin.transfer.backup import Backup, RecoveryReport, recover
    from reverie.admin.transfer.export import ExportReport
    from reverie.admin.transfer.importer import ImportReport
    from reverie.admin.transfer.items import Skipped
    from reverie.aio import AsyncMemory, AsyncScopedMemory, AsyncSession
    from reverie.consolidation.plan import Plan
    from reverie.consolidation.worker import Worker
    from reverie.snapshot import Snapshot

__version__ = "0.1.0"

__all__ = [
    "EVERY_SCOPE",
    "Administration",
    "AsyncMemory",
    "AsyncScopedMemory",
    "AsyncSession",
    "Backup",
    "Blame",
    "Change",
    "Conflict",
    "Difference",
    "Entry",
    "ErasureItem",
    "ErasureReport",
    "Explanation",
    "ExportReport",
    "FieldChange",
    "Filter",
    "History",
    "Hit",
    "ImportReport",
    "InvalidInput",
    "Journal",
    "JournalEntry",
    "Memory",
    "MemoryReader",
    "MissingExtra",
    "ModelError",
    "ModelRefused",
    "ModelUnavailable",
    "NewRecord",
    "NotFound",
    "Pack",
    "Page",
    "PageOverview",
    "PageWriteResult",
    "Pages",
    "Paragraph",
    "Plan",
    "Record",
    "RecoveryReport",
    "ReverieError",
    "SaveResult",
    "ScopeStats",
    "ScopedMemory",
    "Session",
    "SessionOverview",
    "SessionState",
    "Settings",
    "Skipped",
    "Snapshot",
    "Stats",
    "StoreCorrupt",
    "StoreError",
    "StoreIncompatible",
    "StoreUnavailable",
    "ToolCall",
    "Turn",
    "UndoResult",
    "Worker",
    "WorkingMemory",
    "WorkingMemoryFull",
    "__version__",
    "recover",
]


_LAZY = {
    "Administration": "reverie.admin.administration",
    "AsyncMemory": "reverie.aio",
    "AsyncScopedMemory": "reverie.aio",
    "AsyncSession": "reverie.aio",
    "Backup": "reverie.admin.transfer.backup",
    "Blame": "reverie.admin.history",
    "Difference": "reverie.admin.history",
    "ErasureItem": "reverie.admin.erasure.matching",
    "ErasureReport": "reverie.admin.erasure.request",
    "ExportReport": "reverie.admin.transfer.export",
    "FieldChange": "reverie.admin.history",
    "ImportReport": "reverie.admin.transfer.importer",
    "History": "reverie.admin.history",
    "Journal": "reverie.admin.history",
    "Plan": "reverie.consolidation.plan",
    "RecoveryReport": "reverie.admin.transfer.backup",
    "Skipped": "reverie.admin.transfer.items",
    "Snapshot": "reverie.snapshot",
    "UndoResult": "reverie.admin.history.undo",
    "Worker": "reverie.consolidation.worker",
    "recover": "reverie.admin.transfer.backup",
}
"""Names that few programs need and the module of each. They are imported on first use."""


def __getattr__(name: str) -> object:
    """Import a name of `_LAZY` on first use, which keeps `import reverie` fast."""
    if name not in _LAZY:
        raise AttributeError(f"module 'reverie' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
