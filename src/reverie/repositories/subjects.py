"""People and subjects of a memory, and how many records each filter of a list finds.

Names are those in the newest records, and categories those of all records.
"""

from __future__ import annotations

import builtins
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import NamedTuple

from reverie.domain.filter import Filter
from reverie.domain.record import ORIGINS, Record
from reverie.domain.text.dates import MONTHS, WEEKDAYS
from reverie.domain.text.specifics import extract_specifics
from reverie.domain.text.timestamps import Clock
from reverie.stores.protocol import Store

MAX_RECORDS = 3_000
"""Newest records whose names are counted."""

MAX_TITLE = 72
"""Characters of the title of a conversation."""

_MIN_RECORDS = 2  # that a name is in
_LONGEST = 2_000  # characters of a record that are looked at
_DAYS = frozenset([*MONTHS, *WEEKDAYS])


class Subject(NamedTuple):
    """A person or a subject.

    Attributes:
        name: The name as it is written, or the category.
        records: Number of live records about it.
        is_category: Whether it is a category.
    """

    name: str
    records: int
    is_category: bool = False


class FilterCounts(NamedTuple):
    """Number of records that each filter of a list finds.

    Attributes:
        live: Live records.
        archived: Archived records.
        pinned: Pinned records.
        ended: Live records that are not valid now.
        kinds: Live records of each kind.
        origins: Live records of each origin.
        days: Live records created within the last 1, 7 and 30 days.
    """

    live: int
    archived: int
    pinned: int
    ended: int
    kinds: Mapping[str, int]
    origins: Mapping[str, int]
    days: Mapping[int, int]


class SubjectIndex:
    """People and subjects of the records of some scopes. Safe to use from several threads."""

    def __init__(self, store: Store, scopes: tuple[str, ...] | None, *, clock: Clock) -> None:
        """Read the subjects of a store.

        Args:
            store: The store.
            scopes: Scopes whose records are counted; None for all.
            clock: The clock.
        """
        self._store = store
        self._scopes = scopes
        self._clock = clock

    def list(self) -> list[Subject]:
        """Return the names that at least two records have and all categories, those of most records first."""
        names = [Subject(name, len(ids)) for name, ids in self._find_names().items()]
        categories = self._store.tally("category", Filter(scopes=self._scopes, alive_at=self._clock()))
        subjects = [Subject(name, count, True) for name, count in categories.items() if name]
        return sorted([*names, *subjects], key=lambda each: (-each.records, each.name))

    def find(self, name: str) -> builtins.list[Record]:
        """Return the live records about a name, those created last first."""
        ids = self._find_names().get(name, frozenset())
        live = [each for each in self._store.records(sorted(ids)) if not each.archived]
        return sorted(live, key=lambda each: (each.created_at, each.id), reverse=True)

    def counts(self) -> FilterCounts:
        """Return the number of records that each filter of `list` finds."""
        moment = self._clock()
        live = Filter(scopes=self._scopes, alive_at=moment)

        def count(wanted: Filter) -> int:
            return sum(self._store.tally("kind", wanted).values())

        kinds = self._store.tally("kind", live)
        total = sum(kinds.values())
        origins = {name: count(replace(live, origins=(name,))) for name in ORIGINS}
        days = {n: count(replace(live, created_after=moment - timedelta(days=n))) for n in (1, 7, 30)}
        return FilterCounts(
            live=total,
            archived=count(Filter(scopes=self._scopes, archived=True)),
            pinned=count(replace(live, pinned=True)),
            ended=total - count(replace(live, valid_at=moment)),
            kinds=kinds,
            origins={name: number for name, number in origins.items() if number},
            days=days,
        )

    def _find_names(self) -> dict[str, frozenset[str]]:
        """Return the ids of the records that each name is in, by the name as it is usually written."""
        live = Filter(scopes=self._scopes, alive_at=self._clock(), headlines=False)
        by_name: dict[str, set[str]] = defaultdict(set)
        for record in self._store.find(live, order="created", limit=MAX_RECORDS):
            for name in list_names(record.content[:_LONGEST]):
                by_name[name].add(record.id)
        return _join_names(by_name)


@lru_cache(maxsize=10_000)
def list_names(text: str) -> frozenset[str]:
    """Return the names in a text as they are written there; not days and months.

    >>> sorted(list_names("Priya met Leon Marsh on Friday"))
    ['Leon Marsh', 'Priya']
    """
    names = sorted(extract_specifics(text).names, key=len, reverse=True)
    written: list[str] = []
    for name in names:
        found = re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE)
        if found is None or any(name.casefold() in longer.casefold().split() for longer in written):
            continue
        if found.group()[:1].isupper() and name.casefold() not in _DAYS:
            written.append(found.group())
    return frozenset(written)


def _join_names(by_name: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """Return names with the records of their parts: those of `Leon` count for `Leon Marsh`, if no other has it."""
    longer: dict[str, list[str]] = defaultdict(list)
    for name in by_name:
        for word in name.split() if " " in name else ():
            longer[word].append(name)
    joined = {name: set(ids) for name, ids in by_name.items()}
    for word, names in longer.items():
        if len(names) == 1 and word in joined:
            joined[names[0]] |= joined.pop(word)
    return {name: frozenset(ids) for name, ids in joined.items() if len(ids) >= _MIN_RECORDS}


def find_title(given: str, messages: Iterable[str]) -> str:
    """Return the title of a conversation: the given one, else the beginning of its first message.

    >>> find_title("", ["How do I cook rice? I have a pot.", "Boil it."])
    'How do I cook rice?'
    """
    first = next((line for text in messages for line in text.split("\n") if line.strip()), "")
    sentence = re.split(r"(?<=[.?!])\s", first.strip(), maxsplit=1)[0]
    text = given.strip() or sentence
    return text if len(text) <= MAX_TITLE else f"{text[: MAX_TITLE - 1].rsplit(' ', 1)[0].rstrip(',;:')}…"
