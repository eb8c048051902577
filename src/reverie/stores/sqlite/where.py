"""Filters as SQL conditions; they agree with `is_record_allowed` and `is_turn_allowed`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.codec import to_json

NOTHING = "0"
EVERYTHING = "1"

SEARCHED = f"+page = '{HISTORY}'"
"""Condition for searchable paragraphs. The plus keeps SQLite from scanning a whole log to find one key."""

EACH_TAG = "json_each(CASE WHEN json_valid(tags) THEN tags ELSE '[]' END)"
"""The tags of a row of `records`, each a row with the column `value`."""

CASEFOLD = "casefold"
"""Name of the SQL function for `str.casefold`, which `connections` defines; SQLite's `lower` knows ASCII only."""

# The first condition is quick: tags in ASCII alone are compared as one text, which also finds `","` in
# `["a","b"]`. The second is exact.
_HAS_TAG = (
    "((instr(lower(tags), ?) > 0 OR tags GLOB '*[^ -~]*') "
    f"AND EXISTS (SELECT 1 FROM {EACH_TAG} WHERE {CASEFOLD}(value) = ?))"
)


class WhereClause:
    """Conditions that must all hold.

    Attributes:
        values: What stands for the question marks, in their order.
    """

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[Any] = []

    def __str__(self) -> str:
        return " AND ".join(self._conditions) or EVERYTHING

    def add_condition(self, condition: str, *values: Any) -> None:
        """Add one."""
        self._conditions.append(condition)
        self.values += values

    def among(self, column: str, wanted: Sequence[str]) -> None:
        """Only rows where the column is one of these."""
        self.add_condition(f"{column} IN ({build_placeholders(len(wanted))})" if wanted else NOTHING, *wanted)

    def since(self, column: str, wanted: Filter) -> None:
        """Only rows whose time lies in the filter's."""
        if wanted.created_after is not None:
            self.add_condition(f"{column} >= ?", to_microseconds(wanted.created_after))
        if wanted.created_before is not None:
            self.add_condition(f"{column} < ?", to_microseconds(wanted.created_before))

    def add_text_match(self, text: str | None) -> None:
        """Only rows with this text in their content; SQLite's `lower` changes ASCII letters only."""
        # Not LIKE: `%` and `_` would have to be escaped, and its patterns end at 50,000 bytes.
        if text is not None:
            self.add_condition("instr(lower(content), lower(?)) > 0", text)


def build_placeholders(count: int) -> str:
    """So many question marks."""
    return ",".join("?" * count)


def build_records_where(wanted: Filter, containing: str | None = None) -> WhereClause:
    """Return a filter as a clause for the table `records`."""
    where = WhereClause()
    if wanted.only_turns:
        where.add_condition(NOTHING)
    if wanted.archived is not None:
        where.add_condition(f"archived_at IS {'NOT ' if wanted.archived else ''}NULL")
    if wanted.scopes is not None:
        where.among("scope", wanted.scopes)
    if wanted.categories:
        # A range, for the index of categories, and less what only begins with the same signs.
        within = "(category >= ? AND category < ? AND (category = ? OR category >= ?))"
        bounds = [(each, f"{each}0", each, f"{each}/") for each in wanted.categories]  # `0` follows `/`
        where.add_condition(f"({' OR '.join([within] * len(bounds))})", *chain.from_iterable(bounds))
    for tag in wanted.tags:
        folded = tag.casefold()
        where.add_condition(_HAS_TAG, to_json(folded), folded)
    for column, allowed in (("kind", wanted.kinds), ("layer", wanted.layers), ("origin", wanted.origins)):
        if allowed:
            where.among(column, allowed)
    if wanted.pinned is not None:
        where.add_condition("pinned = ?", int(wanted.pinned))
    if wanted.headlines is not None:
        where.add_condition(f"parts IS {'NOT ' if wanted.headlines else ''}NULL")
    if wanted.metadata is not None:  # the first condition is quick, and the second exact
        where.add_condition(
            "(instr(metadata, ?) > 0 AND EXISTS (SELECT 1 FROM "
            "json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{}' END) WHERE json_each.key = ?))",
            to_json(wanted.metadata),
            wanted.metadata,
        )
    where.since("created_at", wanted)
    _add_validity(where, wanted.valid_at, wanted.alive_at)
    where.add_text_match(containing)
    return where


def build_turns_where(wanted: Filter, containing: str | None = None) -> WhereClause:
    """Return a filter as a clause for the table `turns`."""
    where = WhereClause()
    if wanted.only_records:
        where.add_condition(NOTHING)
    if wanted.scopes is not None:
        where.among("scope", wanted.scopes)
    if wanted.sessions:
        where.add_condition(
            f"session IN (SELECT key FROM sessions WHERE id IN ({build_placeholders(len(wanted.sessions))}))",
            *wanted.sessions,
        )
    if wanted.roles:
        where.among("role", wanted.roles)
    where.since("at", wanted)
    where.add_text_match(containing)
    return where


def _add_validity(where: WhereClause, valid_at: datetime | None, alive_at: datetime | None) -> None:
    if valid_at is not None:
        moment = to_microseconds(valid_at)
        where.add_condition("(valid_from IS NULL OR valid_from <= ?)", moment)
        where.add_condition("(valid_to IS NULL OR ? < valid_to)", moment)
    if alive_at is not None:
        where.add_condition("(expires_at IS NULL OR expires_at > ?)", to_microseconds(alive_at))
