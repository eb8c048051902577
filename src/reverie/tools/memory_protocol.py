"""Protocols of what tools need from a memory.

No tool decides about scopes: the memory that it is made for does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from reverie.domain.conversation import Turn
from reverie.domain.page import Paragraph
from reverie.domain.record import Origin, Record
from reverie.repositories.pages import Pages
from reverie.repositories.records import SaveResult
from reverie.repositories.working_memory import WorkingMemory
from reverie.search.hits import Hit

if TYPE_CHECKING:
    from reverie.repositories.knowledge_graph import KnowledgeGraph


class SessionLike(Protocol):
    """Conversation, as tools use it."""

    id: str
    working: WorkingMemory

    def determine_origin(self, text: str) -> Origin:
        """Return the origin of a text that the model wants to save."""
        ...


class MemoryLike(Protocol):
    """Memory, or a scope of one, as tools use it. The methods and their arguments are those of `Memory`."""

    scratchpad: WorkingMemory
    pages: Pages

    def save(self, content: str, *args: Any, **fields: Any) -> SaveResult:
        """Save a record."""
        ...

    def save_many(self, notes: Iterable[Any]) -> list[SaveResult]:
        """Save records."""
        ...

    def search(self, query: str | None = None, *args: Any, **filters: Any) -> list[Hit]:
        """Return what answers a query, best first."""
        ...

    def get(self, id: str) -> Record | None:
        """Return the record with this id."""
        ...

    def get_turn(self, id: str) -> Turn | None:
        """Return the turn with this id."""
        ...

    def get_paragraph(self, id: str) -> Paragraph | None:
        """Return the paragraph with this id."""
        ...

    def update(self, id: str, *args: Any, **changes: Any) -> Record:
        """Change fields of a record."""
        ...

    def archive(self, id: str, *, reason: str = "") -> Record:
        """Archive a record."""
        ...

    def categories(self) -> dict[str, int]:
        """Return the number of live records by category."""
        ...

    def knowledge_graph(self) -> KnowledgeGraph:
        """Return the knowledge graph."""
        ...

    def session(self, id: str) -> SessionLike:
        """Return a conversation."""
        ...
