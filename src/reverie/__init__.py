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


_NAMES = {
    "reverie.admin.administration": "Administration",
    "reverie.admin.erasure.matching": "ErasureItem",
    "reverie.admin.erasure.request": "ErasureReport",
    "reverie.admin.history": "Blame Difference FieldChange History Journal",
    "reverie.admin.history.undo": "UndoResult",
    "reverie.admin.stats": "ScopeStats Stats",
    "reverie.admin.transfer.backup": "Backup RecoveryReport recover",
    "reverie.admin.transfer.export": "ExportReport",
    "reverie.admin.transfer.importer": "ImportReport",
    "reverie.admin.transfer.items": "Skipped",
    "reverie.aio": "AsyncMemory AsyncScopedMemory AsyncSession",
    "reverie.consolidation.plan": "Plan",
    "reverie.consolidation.worker": "Worker",
    "reverie.context.pack": "Pack",
    "reverie.domain.change": "Change JournalEntry",
    "reverie.domain.conversation": "SessionOverview SessionState ToolCall Turn",
    "reverie.domain.entry": "Entry",
    "reverie.domain.errors": "Conflict InvalidInput MissingExtra ModelError ModelRefused ModelUnavailable "
    "NotFound ReverieError StoreCorrupt StoreError StoreIncompatible StoreUnavailable WorkingMemoryFull",
    "reverie.domain.filter": "Filter",
    "reverie.domain.page": "Page Paragraph",
    "reverie.domain.record": "Record",
    "reverie.domain.scope": "EVERY_SCOPE",
    "reverie.memory": "Memory",
    "reverie.reader": "MemoryReader",
    "reverie.repositories.pages": "PageOverview PageWriteResult Pages",
    "reverie.repositories.records": "NewRecord SaveResult",
    "reverie.repositories.working_memory": "WorkingMemory",
    "reverie.scoped": "ScopedMemory",
    "reverie.search.hits": "Explanation Hit",
    "reverie.session": "Session",
    "reverie.settings": "Settings",
    "reverie.snapshot": "Snapshot",
}
"""The public names of each module. They are imported on first use."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name on first use, which keeps `import reverie` fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'reverie' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return [*globals(), *_MODULES]
