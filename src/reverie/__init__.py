"""Memory for AI agents: open a folder, and remember.

    from reverie import Memory

    memory = Memory.open("~/agent")
    memory.save("Prefers short answers", category="user-preferences/style")
    memory.search("how should I answer?")

Importing opens nothing, reads no environment and starts no thread. scripts/generate_async.py writes `__init__.pyi`,
which declares the public names for type checkers.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.2.0"

_NAMES: dict[str, str] = {
    "reverie.admin.administration": "Administration",
    "reverie.admin.erasure.matching": "ErasureItem ErasureReport",
    "reverie.admin.history.diff": "Blame Difference FieldChange",
    "reverie.admin.history.journal": "Journal",
    "reverie.admin.history.undo": "History UndoResult",
    "reverie.admin.stats": "ScopeStats Stats",
    "reverie.admin.transfer.backup": "Backup RecoveryReport recover",
    "reverie.admin.transfer.export": "ExportReport",
    "reverie.admin.transfer.importer": "ImportReport",
    "reverie.admin.transfer.batch": "Revision Skipped",
    "reverie.aio": "AsyncMemory AsyncScopedMemory AsyncSession",
    "reverie.consolidation.values": "Plan",
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
