"""Memory as tools use it: protocols of its methods, and a guard of the origins of what a model saves.

Through the guard, a model cannot save the text of a tool as its own: what is saved or changed gets the least trusted
origin among the texts that the model has before it. Such a text neither replaces that of a trusted record nor gets
into the pages of every prompt. Reading is unchanged. No tool decides about scopes: the memory that it is made for does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, Unpack, cast

from reverie.domain import provenance
from reverie.domain.conversation import SessionOverview, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import SearchFilters
from reverie.domain.page import MEMORY, parse_daily_note_day
from reverie.domain.record import UNTRUSTED, Origin, Record
from reverie.repositories.pages import Pages
from reverie.repositories.records import NewRecord, RecordChanges, RecordFields, SaveResult
from reverie.repositories.wishes import ForgetRequests
from reverie.repositories.working_memory import WorkingMemory
from reverie.search.hits import Hit, SearchMode, Source


class SessionLike(Protocol):
    """Conversation, as tools use it."""

    id: str
    working: WorkingMemory

    @property
    def is_recorded(self) -> bool:
        """Return whether what is said in it is stored."""

    def determine_origin(self, text: str, *, labels: Iterable[str] = ()) -> Origin:
        """Return the origin of a text, with its category and tags, that the model wants to save."""


class MemoryLike(Protocol):
    """Memory, or a scope of one, as tools use it. The methods are those of `Memory`."""

    scratchpad: WorkingMemory
    pages: Pages
    forget_requests: ForgetRequests

    def save(self, content: str, **fields: Unpack[RecordFields]) -> SaveResult:
        """Save a record."""

    def save_many(self, notes: Iterable[NewRecord]) -> list[SaveResult]:
        """Save records."""

    def search(
        self,
        query: str | None = None,
        *,
        sources: Source | Sequence[Source] | None = None,
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

    def sessions(self, *, limit: int | None = None) -> list[SessionOverview]:
        """Return the sessions, the latest active first."""

    def turns(self, session: str, *, start: int = 0, stop: int | None = None) -> list[Turn]:
        """Return turns of a session by position."""

    def session(self, id: str) -> SessionLike:
        """Return a conversation."""


def guard_trust(memory: MemoryLike, session: SessionLike) -> MemoryLike:
    """Return the memory as tools may use it in a conversation."""
    return cast(MemoryLike, _GuardedMemory(memory, session))


def _require_recorded(session: SessionLike) -> None:
    """Raise `InvalidInput` if a conversation is off the record, so that a tool stores nothing of it."""
    if not session.is_recorded:
        raise InvalidInput("This conversation is off the record, so nothing of it is saved.")


class _GuardedMemory:
    """Memory whose changes have the origin of their text."""

    def __init__(self, memory: MemoryLike, session: SessionLike) -> None:
        self._memory = memory
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    @property
    def pages(self) -> Pages:
        return cast(Pages, _GuardedPages(self._memory.pages, self._session))

    def save(self, content: str, *, origin: Origin = "owner", **more: Any) -> SaveResult:
        _require_recorded(self._session)
        lowered = provenance.least_trusted(origin, self._determine_origin(content, more))
        return self._memory.save(content, origin=lowered, **more)

    def save_many(self, notes: Iterable[NewRecord]) -> list[SaveResult]:
        def lower(note: NewRecord) -> NewRecord:
            given = {"category": note.category, "tags": note.tags}
            origin = provenance.least_trusted(note.origin, self._determine_origin(note.content, given))
            return replace(note, origin=origin)

        _require_recorded(self._session)
        return self._memory.save_many([lower(note) for note in notes])

    def update(self, id: str, *, expected: Record | None = None, **changes: Any) -> Record:
        _require_recorded(self._session)
        record = self._memory.get(id)
        if record is not None:
            content = changes.get("content") or ""
            is_new = content not in ("", record.content)
            origin = self._determine_origin(content if is_new else "", changes, record)
            if origin in UNTRUSTED and record.origin not in UNTRUSTED:
                raise InvalidInput(
                    f"{id} stays as it is, because the new text rests on what a tool said, and that is not "
                    "confirmed: save it as a memory of its own, or ask the owner"
                )
            if is_new:
                changes["origin"] = provenance.least_trusted(
                    record.origin, origin, changes.get("origin", "owner")
                )
        return self._memory.update(id, expected=expected, **changes)

    def _determine_origin(
        self, content: str, given: Mapping[str, Any], known: Record | None = None
    ) -> Origin:
        """Return the origin of a content with its labels, without those that a record has already."""
        labels = {given.get("category") or "", *given.get("tags", ())} - {""}
        if known is not None:
            labels -= {known.category, *known.tags}
        return self._session.determine_origin(content, labels=sorted(labels, key=str))


class _GuardedPages:
    """Pages that refuse untrusted text where it would get into every prompt."""

    def __init__(self, pages: Pages, session: SessionLike) -> None:
        self._pages = pages
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pages, name)

    def append(self, name: str, text: str, **more: Any) -> Any:
        self._refuse_unconfirmed(name, text)
        return self._pages.append(name, text, **more)

    def replace(self, old: str, new: str, *, name: str = MEMORY, **more: Any) -> Any:
        self._refuse_unconfirmed(name, new)
        return self._pages.replace(old, new, name=name, **more)

    def write(self, name: str, text: str, **more: Any) -> Any:
        known = set(self._pages.read(name).splitlines())
        self._refuse_unconfirmed(name, "\n".join(line for line in text.splitlines() if line not in known))
        return self._pages.write(name, text, **more)

    def _refuse_unconfirmed(self, name: str, text: str) -> None:
        _require_recorded(self._session)
        if name != MEMORY and parse_daily_note_day(name) is None:
            return
        if text.strip() and self._session.determine_origin(text) in UNTRUSTED:
            raise InvalidInput(
                f"{name} stands in every prompt, and this text rests on what a tool said, which is not "
                "confirmed: save_memory keeps it where a search finds it; or ask the owner"
            )
