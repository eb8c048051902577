"""Filters as conditions on `reverie.thing`; they agree with `is_record_allowed` and `is_turn_allowed`."""

from __future__ import annotations

from collections.abc import Sequence

from reverie.domain.filter import Filter
from reverie.stores.filter_sql import Conditions

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
