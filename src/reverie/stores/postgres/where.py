"""Filters as conditions on `reverie.thing`; they agree with `is_record_allowed` and `is_turn_allowed`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from reverie.domain.filter import Filter
from reverie.domain.text.timestamps import to_microseconds

_LOWER = {ord(capital): ord(capital.lower()) for capital in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


class Conditions:
    """Conditions on the rows of one memory that must all hold.

    Args:
        space: The number of the memory.
        subject: Of `reverie.thing`, only things of this kind; None for all rows.
        table: What the query calls the table.

    Attributes:
        values: What stands for the placeholders, in their order.
    """

    def __init__(self, space: int, subject: str | None = None, *, table: str = "it") -> None:
        self._conditions = [f"{table}.space = %s"]
        self.values: list[Any] = [space]
        if subject is not None:
            self.add(f"{table}.subject = %s", subject)

    def __str__(self) -> str:
        return " AND ".join(self._conditions)

    def add(self, condition: str, *values: Any) -> None:
        """Add one."""
        self._conditions.append(condition)
        self.values += values

    def add_any(self, column: str, wanted: Sequence[str]) -> None:
        """Only rows where the column is one of these."""
        self.add(f"it.{column} = ANY (%s)", list(wanted))

    def add_times(self, wanted: Filter) -> None:
        """Only rows whose time lies in the filter's."""
        if wanted.created_after is not None:
            self.add("it.at >= %s", to_microseconds(wanted.created_after))
        if wanted.created_before is not None:
            self.add("it.at < %s", to_microseconds(wanted.created_before))

    def add_text(self, text: str | None) -> None:
        """Only rows with this text in their content, whatever the case of ASCII letters."""
        if text is not None:  # in the collation "C", `lower` changes ASCII letters only
            self.add("""strpos(lower((it.body ->> 'content') COLLATE "C"), %s) > 0""", text.translate(_LOWER))


def format_limit(limit: int | None, offset: int = 0) -> str:
    """Return the end of a query; the numbers stand in the text, for plans that are made without parameters."""
    return f" LIMIT {'ALL' if limit is None else int(limit)} OFFSET {int(offset)}"


def build_record_conditions(space: int, wanted: Filter, containing: str | None = None) -> Conditions:
    """Return the filter as conditions on records."""
    where = Conditions(space, "record")
    if wanted.only_turns:
        where.add("false")
    if wanted.archived is not None:
        where.add(f"it.archived_at IS {'NOT ' if wanted.archived else ''}NULL")
    if wanted.scopes is not None:
        where.add_any("scope", wanted.scopes)
    if wanted.categories:
        # A range, for the index of categories; `0` follows `/`.
        within = "(it.category = %s OR (it.category >= %s AND it.category < %s))"
        bounds = [bound for each in wanted.categories for bound in (each, f"{each}/", f"{each}0")]
        where.add(f"({' OR '.join([within] * len(wanted.categories))})", *bounds)
    if wanted.tags:
        where.add("it.tags @> %s::text[]", [tag.casefold() for tag in wanted.tags])
    for column, allowed in (("kind", wanted.kinds), ("layer", wanted.layers), ("origin", wanted.origins)):
        if allowed:
            where.add_any(column, allowed)
    if wanted.pinned is not None:
        where.add("it.pinned = %s", wanted.pinned)
    if wanted.headlines is not None:
        where.add(f"it.body ->> 'parts' IS {'NOT ' if wanted.headlines else ''}NULL")
    if wanted.metadata is not None:
        where.add("jsonb_exists((it.body -> 'metadata')::jsonb, %s)", wanted.metadata)
    where.add_times(wanted)
    _add_validity(where, wanted.valid_at, wanted.alive_at)
    where.add_text(containing)
    return where


def build_turn_conditions(space: int, wanted: Filter, containing: str | None = None) -> Conditions:
    """Return the filter as conditions on turns."""
    where = Conditions(space, "turn")
    if wanted.only_records:
        where.add("false")
    if wanted.scopes is not None:
        where.add_any("scope", wanted.scopes)
    if wanted.sessions:
        where.add(
            "it.thread IN (SELECT key FROM reverie.thing "
            "WHERE space = %s AND subject = 'session' AND id = ANY (%s))",
            space,
            list(wanted.sessions),
        )
    if wanted.roles:
        where.add_any("kind", wanted.roles)
    where.add_times(wanted)
    where.add_text(containing)
    return where


def build_paragraph_conditions(space: int, wanted: Filter) -> Conditions:
    """Return the filter as conditions on paragraphs, which belong to everybody."""
    where = Conditions(space, "paragraph")
    if wanted.only_records or wanted.only_turns or (wanted.scopes is not None and "" not in wanted.scopes):
        where.add("false")
    where.add_times(wanted)
    return where


def _add_validity(where: Conditions, valid_at: datetime | None, alive_at: datetime | None) -> None:
    if valid_at is not None:
        moment = to_microseconds(valid_at)
        where.add("(it.valid_from IS NULL OR it.valid_from <= %s)", moment)
        where.add("(it.valid_to IS NULL OR %s < it.valid_to)", moment)
    if alive_at is not None:
        where.add("(it.expires_at IS NULL OR it.expires_at > %s)", to_microseconds(alive_at))
