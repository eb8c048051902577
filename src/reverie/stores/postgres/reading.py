"""Filters as conditions on `reverie.thing`, and a cache of what a process has read of one state of a memory.

The conditions agree with `is_record_allowed` and `is_turn_allowed`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from reverie.domain.filter import Filter
from reverie.domain.passage import Passage
from reverie.stores.base import Conditions

_LOWER = {ord(capital): ord(capital.lower()) for capital in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


class MemoryConditions(Conditions):
    """Conditions on the rows of one memory.

    Args:
        space: The number of the memory.
        subject: Of `reverie.thing`, only things of this kind; None for all rows.
        table: What the query calls the table.
    """

    def __init__(self, space: int, subject: str | None = None, *, table: str = "it") -> None:
        super().__init__("%s")
        self.add(f"{table}.space = ?", space)
        if subject is not None:
            self.add(f"{table}.subject = ?", subject)

    def add_any(self, column: str, wanted: Sequence[str]) -> None:
        """Add that a column has one of some values; the query is the same for any number of them."""
        self.add(f"{column} = ANY (?::text[])", list(wanted))

    def add_text(self, text: str | None) -> None:
        """Add that the content has a text, whatever the case of ASCII letters; nothing for None."""
        if text is not None:  # in the collation "C", `lower` changes ASCII letters only
            self.add("""strpos(lower((it.body ->> 'content') COLLATE "C"), ?) > 0""", text.translate(_LOWER))


def format_limit(limit: int | None, offset: int = 0) -> str:
    """Return the end of a query; the numbers stand in the text, for plans that are made without parameters."""
    return f" LIMIT {'ALL' if limit is None else int(limit)} OFFSET {int(offset)}"


def build_record_conditions(space: int, wanted: Filter, containing: str | None = None) -> MemoryConditions:
    """Return the filter as conditions on records."""
    where = MemoryConditions(space, "record")
    where.add_record_filter(wanted, created_at="it.at")
    if wanted.tags:
        where.add("it.tags @> ?::text[]", [tag.casefold() for tag in wanted.tags])
    if wanted.headlines is not None:
        where.add(f"it.body ->> 'parts' IS {'NOT ' if wanted.headlines else ''}NULL")
    where.add_text(containing)
    return where


def build_turn_conditions(space: int, wanted: Filter, containing: str | None = None) -> MemoryConditions:
    """Return the filter as conditions on turns."""
    where = MemoryConditions(space, "turn")
    where.add_turn_filter(wanted, role="it.kind")
    if wanted.sessions:
        sessions = MemoryConditions(space, "session", table="thing")
        sessions.add_any("thing.id", wanted.sessions)
        where.add(f"it.thread IN (SELECT key FROM reverie.thing WHERE {sessions})", *sessions.values)
    where.add_text(containing)
    return where


def build_paragraph_conditions(space: int, wanted: Filter) -> MemoryConditions:
    """Return the filter as conditions on paragraphs, which belong to everybody."""
    where = MemoryConditions(space, "paragraph")
    if wanted.only_records or wanted.only_turns or (wanted.scopes is not None and "" not in wanted.scopes):
        where.add("false")
    where.add_times("it.at", wanted)
    return where


# -- what has been read ------------------------------------------------------------------------------------


_MAX_ITEMS = 10_000
"""Passages and documents that are remembered; a document counts twice."""

_MAX_CHARACTERS = 10_000
"""Characters of the words of a passage, or of a document, that is remembered."""


class ReadCache:
    """Cache of passages and documents of one state of a memory. Safe to use from several threads.

    Each state has dictionaries of its own, which views of that state share and fill. What an older view reads never
    gets into those of a newer state. Only what the next change leaves unchanged is taken over.
    """

    def __init__(self) -> None:
        self._state: tuple[int, dict[str, dict[Any, Any]]] = (0, {})

    def recall(self, sequence: int) -> Mapping[str, dict[Any, Any]]:
        """Return what is remembered of the state after a change, to be added to, by the name in a view's memo."""
        newest, memo = self._state
        if newest > sequence:
            return {}
        if newest < sequence or not memo or sum(map(len, memo.values())) > _MAX_ITEMS:
            memo = {"passages": {}, "record": {}, "turn": {}, "paragraph": {}, "measures": {}}
            self._state = sequence, memo
        return memo

    def note_change(self, first: int, keys: Collection[int]) -> None:
        """Keep what a commit of this process has left unchanged, for the state after it.

        Args:
            first: The number of its first change.
            keys: The keys of the things that it changed.
        """
        newest, memo = self._state
        if newest != first - 1 or not keys:
            return
        changed = frozenset(keys)
        kept: dict[str, dict[Any, Any]] = {
            name: {place: known for place, known in things.copy().items() if known[0] not in changed}
            for name, things in memo.items()
            if name != "measures"
        }
        self._state = newest + len(keys), {**kept, "measures": {}} if memo else {}

    def clear(self) -> None:
        """Remove everything, after a change that the journal does not have."""
        self._state = (0, {})


def remember_passages(memo: dict[str, Any], subject: str, passages: Iterable[Passage]) -> None:
    """Add passages to the memo of a view."""
    memo.setdefault("passages", {}).update(
        ((subject, passage.key), passage) for passage in passages if len(passage.terms) <= _MAX_CHARACTERS
    )


def remember_documents(memo: dict[str, Any], subject: str, rows: Iterable[tuple[int, str, str]]) -> None:
    """Add documents, given with their key and id, to the memo of a view."""
    known = memo.setdefault(subject, {})
    for key, name, body in rows:
        if len(body) <= _MAX_CHARACTERS:
            known[key] = known[name] = (key, body)
