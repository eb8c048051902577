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

if TYPE_CHECKING:  # each name `as` itself: it is public here
    from reverie.admin.administration import Administration as Administration
    from reverie.admin.erasure.request import ErasureItem as ErasureItem
    from reverie.admin.erasure.request import ErasureReport as ErasureReport
    from reverie.admin.history import Blame as Blame
    from reverie.admin.history import Difference as Difference
    from reverie.admin.history import FieldChange as FieldChange
    from reverie.admin.history import History as History
    from reverie.admin.history import Journal as Journal
    from reverie.admin.history.undo import UndoResult as UndoResult
    from reverie.admin.stats import ScopeStats as ScopeStats
    from reverie.admin.stats import Stats as Stats
    from reverie.admin.transfer.backup import Backup as Backup
    from reverie.admin.transfer.backup import RecoveryReport as RecoveryReport
    from reverie.admin.transfer.backup import recover as recover
    from reverie.admin.transfer.batch import Revision as Revision
    from reverie.admin.transfer.batch import Skipped as Skipped
    from reverie.admin.transfer.export import ExportReport as ExportReport
    from reverie.admin.transfer.importer import ImportReport as ImportReport
    from reverie.aio import AsyncMemory as AsyncMemory
    from reverie.aio import AsyncScopedMemory as AsyncScopedMemory
    from reverie.aio import AsyncSession as AsyncSession
    from reverie.consolidation.plan import Plan as Plan
    from reverie.consolidation.worker import Worker as Worker
    from reverie.context.pack import Pack as Pack
    from reverie.domain.change import Change as Change
    from reverie.domain.change import JournalEntry as JournalEntry
    from reverie.domain.conversation import SessionOverview as SessionOverview
    from reverie.domain.conversation import SessionState as SessionState
    from reverie.domain.conversation import ToolCall as ToolCall
    from reverie.domain.conversation import Turn as Turn
    from reverie.domain.entry import Entry as Entry
    from reverie.domain.errors import Conflict as Conflict
    from reverie.domain.errors import ForgettingUnfinished as ForgettingUnfinished
    from reverie.domain.errors import InvalidInput as InvalidInput
    from reverie.domain.errors import MissingExtra as MissingExtra
    from reverie.domain.errors import ModelError as ModelError
    from reverie.domain.errors import ModelRefused as ModelRefused
    from reverie.domain.errors import ModelTimeout as ModelTimeout
    from reverie.domain.errors import ModelUnavailable as ModelUnavailable
    from reverie.domain.errors import NotFound as NotFound
    from reverie.domain.errors import ReverieError as ReverieError
    from reverie.domain.errors import StoreCorrupt as StoreCorrupt
    from reverie.domain.errors import StoreError as StoreError
    from reverie.domain.errors import StoreIncompatible as StoreIncompatible
    from reverie.domain.errors import StoreUnavailable as StoreUnavailable
    from reverie.domain.errors import WorkingMemoryFull as WorkingMemoryFull
    from reverie.domain.filter import Filter as Filter
    from reverie.domain.page import Page as Page
    from reverie.domain.page import Paragraph as Paragraph
    from reverie.domain.record import Record as Record
    from reverie.domain.scope import EVERY_SCOPE as EVERY_SCOPE
    from reverie.memory import Memory as Memory
    from reverie.reader import MemoryReader as MemoryReader
    from reverie.repositories.pages import PageOverview as PageOverview
    from reverie.repositories.pages import Pages as Pages
    from reverie.repositories.pages import PageWriteResult as PageWriteResult
    from reverie.repositories.records import NewRecord as NewRecord
    from reverie.repositories.records import SaveResult as SaveResult
    from reverie.repositories.working_memory import WorkingMemory as WorkingMemory
    from reverie.scoped import ScopedMemory as ScopedMemory
    from reverie.search.hits import Explanation as Explanation
    from reverie.search.hits import Hit as Hit
    from reverie.session import Session as Session
    from reverie.settings import Settings as Settings
    from reverie.snapshot import Snapshot as Snapshot

__version__ = "0.2.0"

_NAMES = {
    "reverie.admin.administration": "Administration",
    "reverie.admin.erasure.request": "ErasureItem ErasureReport",
    "reverie.admin.history": "Blame Difference FieldChange History Journal",
    "reverie.admin.history.undo": "UndoResult",
    "reverie.admin.stats": "ScopeStats Stats",
    "reverie.admin.transfer.backup": "Backup RecoveryReport recover",
    "reverie.admin.transfer.export": "ExportReport",
    "reverie.admin.transfer.importer": "ImportReport",
    "reverie.admin.transfer.batch": "Revision Skipped",
    "reverie.aio": "AsyncMemory AsyncScopedMemory AsyncSession",
    "reverie.consolidation.plan": "Plan",
    "reverie.consolidation.worker": "Worker",
    "reverie.context.pack": "Pack",
    "reverie.domain.change": "Change JournalEntry",
    "reverie.domain.conversation": "SessionOverview SessionState ToolCall Turn",
    "reverie.domain.entry": "Entry",
    "reverie.domain.errors": "Conflict ForgettingUnfinished InvalidInput MissingExtra ModelError "
    "ModelRefused ModelTimeout ModelUnavailable NotFound ReverieError StoreCorrupt StoreError StoreIncompatible "
    "StoreUnavailable WorkingMemoryFull",
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

__all__ = ["__version__", *sorted(_MODULES)]


def __getattr__(name: str) -> object:
    """Import a public name on first use, which keeps `import reverie` fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'reverie' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return [*globals(), *_MODULES]
