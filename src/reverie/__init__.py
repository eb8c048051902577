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

if TYPE_CHECKING:
    from reverie.admin.administration import Administration
    from reverie.admin.erasure.matching import ErasureItem
    from reverie.admin.erasure.request import ErasureReport
    from reverie.admin.history import Blame, Difference, FieldChange, History, Journal
    from reverie.admin.history.undo import UndoResult
    from reverie.admin.stats import ScopeStats, Stats
    from reverie.admin.transfer.backup import Backup, RecoveryReport, recover
    from reverie.admin.transfer.export import ExportReport
    from reverie.admin.transfer.importer import ImportReport
    from reverie.admin.transfer.items import Skipped
    from reverie.aio import AsyncMemory, AsyncScopedMemory, AsyncSession
    from reverie.consolidation.plan import Plan
    from reverie.consolidation.worker import Worker
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


_MODULES = {
    "Administration": "reverie.admin.administration",
    "AsyncMemory": "reverie.aio",
    "AsyncScopedMemory": "reverie.aio",
    "AsyncSession": "reverie.aio",
    "Backup": "reverie.admin.transfer.backup",
    "Blame": "reverie.admin.history",
    "Change": "reverie.domain.change",
    "Conflict": "reverie.domain.errors",
    "Difference": "reverie.admin.history",
    "EVERY_SCOPE": "reverie.domain.scope",
    "Entry": "reverie.domain.entry",
    "ErasureItem": "reverie.admin.erasure.matching",
    "ErasureReport": "reverie.admin.erasure.request",
    "Explanation": "reverie.search.hits",
    "ExportReport": "reverie.admin.transfer.export",
    "FieldChange": "reverie.admin.history",
    "Filter": "reverie.domain.filter",
    "History": "reverie.admin.history",
    "Hit": "reverie.search.hits",
    "ImportReport": "reverie.admin.transfer.importer",
    "InvalidInput": "reverie.domain.errors",
    "Journal": "reverie.admin.history",
    "JournalEntry": "reverie.domain.change",
    "Memory": "reverie.memory",
    "MemoryReader": "reverie.reader",
    "MissingExtra": "reverie.domain.errors",
    "ModelError": "reverie.domain.errors",
    "ModelRefused": "reverie.domain.errors",
    "ModelUnavailable": "reverie.domain.errors",
    "NewRecord": "reverie.repositories.records",
    "NotFound": "reverie.domain.errors",
    "Pack": "reverie.context.pack",
    "Page": "reverie.domain.page",
    "PageOverview": "reverie.repositories.pages",
    "PageWriteResult": "reverie.repositories.pages",
    "Pages": "reverie.repositories.pages",
    "Paragraph": "reverie.domain.page",
    "Plan": "reverie.consolidation.plan",
    "Record": "reverie.domain.record",
    "RecoveryReport": "reverie.admin.transfer.backup",
    "ReverieError": "reverie.domain.errors",
    "SaveResult": "reverie.repositories.records",
    "ScopeStats": "reverie.admin.stats",
    "ScopedMemory": "reverie.scoped",
    "Session": "reverie.session",
    "SessionOverview": "reverie.domain.conversation",
    "SessionState": "reverie.domain.conversation",
    "Settings": "reverie.settings",
    "Skipped": "reverie.admin.transfer.items",
    "Snapshot": "reverie.snapshot",
    "Stats": "reverie.admin.stats",
    "StoreCorrupt": "reverie.domain.errors",
    "StoreError": "reverie.domain.errors",
    "StoreIncompatible": "reverie.domain.errors",
    "StoreUnavailable": "reverie.domain.errors",
    "ToolCall": "reverie.domain.conversation",
    "Turn": "reverie.domain.conversation",
    "UndoResult": "reverie.admin.history.undo",
    "Worker": "reverie.consolidation.worker",
    "WorkingMemory": "reverie.repositories.working_memory",
    "WorkingMemoryFull": "reverie.domain.errors",
    "recover": "reverie.admin.transfer.backup",
}
"""The public names and the module of each. They are imported on first use."""


def __getattr__(name: str) -> object:
    """Import a public name on first use, which keeps `import reverie` fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'reverie' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return [*globals(), *_MODULES]
