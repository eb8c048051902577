"""Public names of the package. Written by scripts/generate_async.py; do not edit."""

from reverie.admin.administration import Administration as Administration
from reverie.admin.erasure.matching import ErasureItem as ErasureItem
from reverie.admin.erasure.matching import ErasureReport as ErasureReport
from reverie.admin.history.diff import Blame as Blame
from reverie.admin.history.diff import Difference as Difference
from reverie.admin.history.diff import FieldChange as FieldChange
from reverie.admin.history.journal import Journal as Journal
from reverie.admin.history.undo import History as History
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
from reverie.consolidation.values import Plan as Plan
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

__version__: str
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
    "ForgettingUnfinished",
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
    "ModelTimeout",
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
    "Revision",
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
