"""Filters as SQL conditions, as far as all databases have them in common.

They agree with `is_record_allowed` and `is_turn_allowed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from reverie.domain.filter import Filter
from reverie.domain.text.timestamps import to_microseconds


class Conditions:
    """Conditions that must all hold for the rows that a query calls `it`.

    Args:
        placeholder: What replaces the question marks of the conditions in the SQL of the database.

    Attributes:
        values: The values of the placeholders, in their order.
    """

    def __init__(self, placeholder: str = "?") -> None:
        self._placeholder = placeholder
        self._conditions: list[str] = []
        self.values: list[Any] = []

    def __str__(self) -> str:
        return " AND ".join(self._conditions or ["true"]).replace("?", self._placeholder)

    def add(self, condition: str, *values: Any) -> None:
        """Add a condition."""
        self._conditions.append(condition)
        self.values += values

    def add_any(self, column: str, wanted: Sequence[str]) -> None:
        """Add that a column has one of some values."""
        self.add(f"{column} IN ({build_placeholders(len(wanted))})", *wanted)

    def add_times(self, column: str, wanted: Filter) -> None:
        """Add that a time lies between those of the filter."""
        if wanted.created_after is not None:
            self.add(f"{column} >= ?", to_microseconds(wanted.created_after))
        if wanted.created_before is not None:
            self.add(f"{column} < ?", to_microseconds(wanted.created_before))

    def add_record_filter(self, wanted: Filter, *, created_at: str) -> None:
        """Add the restrictions of a filter to records, except tags, headlines and metadata.

        Args:
            wanted: The filter.
            created_at: The column with the time of creation.
        """
        if wanted.only_turns:
            self.add("false")
        if wanted.archived is not None:
            self.add(f"it.archived_at IS {'NOT ' if wanted.archived else ''}NULL")
        if wanted.scopes is not None:
            self.add_any("it.scope", wanted.scopes)
        if wanted.categories:
            # A range, for which the index of categories serves, without names that only begin alike.
            within = "(it.category >= ? AND it.category < ? AND (it.category = ? OR it.category >= ?))"
            bounds = [(each, f"{each}0", each, f"{each}/") for each in wanted.categories]  # `0` follows `/`
            self.add(f"({' OR '.join([within] * len(bounds))})", *chain.from_iterable(bounds))
        for column, allowed in (("kind", wanted.kinds), ("layer", wanted.layers), ("origin", wanted.origins)):
            if allowed:
                self.add_any(f"it.{column}", allowed)
        if wanted.pinned is not None:
            self.add("it.pinned = ?", wanted.pinned)
        self.add_times(created_at, wanted)
        if wanted.valid_at is not None:
            moment = to_microseconds(wanted.valid_at)
            self.add("(it.valid_from IS NULL OR it.valid_from <= ?)", moment)
            self.add("(it.valid_to IS NULL OR ? < it.valid_to)", moment)
        if wanted.alive_at is not None:
            self.add("(it.expires_at IS NULL OR it.expires_at > ?)", to_microseconds(wanted.alive_at))

    def add_turn_filter(self, wanted: Filter, *, role: str) -> None:
        """Add the restrictions of a filter to turns, except sessions.

        Args:
            wanted: The filter.
            role: The column with the role.
        """
        if wanted.only_records:
            self.add("false")
        if wanted.scopes is not None:
            self.add_any("it.scope", wanted.scopes)
        if wanted.roles:
            self.add_any(role, wanted.roles)
        self.add_times("it.at", wanted)


def build_placeholders(count: int) -> str:
    """Return a number of question marks, with commas between them."""
    return ",".join("?" * count)
