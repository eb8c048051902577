"""Protocols of what tools need from a memory.

No tool decides about scopes: the memory that it is made for does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Unpack

from reverie.domain.filter import SearchFilters
from reverie.domain.record import Kind, Layer, Origin, Record
from reverie.repositories.pages import Pages
from reverie.repositories.records import NewRecord, RecordChanges, SaveResult
from reverie.repositories.working_memory import WorkingMemory
from reverie.search.hits import Hit, SearchMode, Source


class SessionLike(Protocol):
    """Conversation, as tools use it."""

    id: str
    working: WorkingMemory

    def determine_origin(self, text: str) -> Origin:
        """Return the origin of a text that the model wants to save."""


class MemoryLike(Protocol):
    """Memory, or a scope of one, as tools use it. The methods are those of `Memory`."""

    scratchpad: WorkingMemory
    pages: Pages

    def save(
        self,
        content: str,
        *,
        category: str | None = None,
        kind: Kind | None = None,
        layer: Layer | None = None,
        tags: Iterable[str] = (),
        confidence: float = 0.8,
        importance: float = 0.5,
        source: str = "",
        origin: Origin = "owner",
        draft: bool = False,
    ) -> SaveResult:
        """Save a record."""

    def save_many(self, notes: Iterable[NewRecord]) -> list[SaveResult]:
        """Save records."""

    def search(
        self,
        query: str | None = None,
        *,
        sources: Source | Sequence[Source] = "records",
        limit: int = 10,
        mode: SearchMode = "words",
        **filters: Unpack[SearchFilters],
    ) -> list[Hit]:
        """Return what answers a query, best first."""

    def get(self, id: str) -> Record | None:
        """Return the record with this id."""

    def update(self, id: str, *, expected: Record | None = None, **changes: Unpack[RecordChanges]) -> Record:
        """Change fields of a record."""

    def archive(self, id: str, *, reason: str = "") -> Record:
        """Archive a record."""

    def categories(self) -> dict[str, int]:
        """Return the number of live records by category."""

    def session(self, id: str) -> SessionLike:
        """Return a conversation."""
