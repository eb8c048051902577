"""Indexes of candidates: their protocol, state and cache of counts, weights by rarity, and a check of their keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import log
from typing import Any, Literal, Protocol

from reverie.domain.change import JournalEntry
from reverie.domain.filter import Filter
from reverie.domain.passage import SEARCHABLE, Among, CandidateQuery, Searchable, TermWeight
from reverie.search.index.inverted_index import BRIEFEST, OFTEN, compute_emphasis
from reverie.stores.protocol import Store

_FINENESS = 32  # weights are rounded to multiples of 1/32
_MAX_COUNTS = 100_000
_BATCH = 1_000
_ROUNDS = 5
_LARGEST_SUM = (1 << 23) // (BRIEFEST * compute_emphasis(OFTEN[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """State of the index.

    Attributes:
        state: `current`; `rebuilding` while a lost index is built again (searches stay correct);
            `in memory` if the disk refuses it.
        committed: Passages in the commit on disk, or in the tables of the database.
        waiting: Passages changed since, held in memory.
        segments: Number of segments of the commit.
        sequence: Number of the last journal entry that searches cover.
        problem: The error, if there was one.
    """

    state: Literal["current", "rebuilding", "in memory"]
    committed: int
    waiting: int
    segments: int
    sequence: int
    problem: str = ""


class CountCache:
    """Counts that are valid until the memory changes. Not thread-safe; its owner has a lock."""

    def __init__(self) -> None:
        self._sequence = -1
        self._counts: dict[Any, Any] = {}

    def at(self, sequence: int) -> dict[Any, Any]:
        """Return the counts as of a journal entry, to read and to add to."""
        if self._sequence != sequence or len(self._counts) > _MAX_COUNTS:
            self._sequence = sequence
            self._counts = {}
        return self._counts


class CandidateIndex(Protocol):
    """Candidates and exact word statistics over a store, with the newest changes."""

    def reading(self) -> AbstractContextManager[None]:
        """Use one state for all answers to this thread until the block ends. Call it inside `Store.reading`."""

    def search_any(
        self,
        subject: Searchable,
        query: CandidateQuery,
        allowed: Filter,
        limit: int,
        *,
        category: str | None = None,
    ) -> list[int]:
        """Return the keys of passages that may answer best (see `SearchIndex.search_any`)."""

    def frequencies(
        self,
        subject: Searchable,
        words: Sequence[str],
        scopes: Collection[str] | None,
        category: str | None = None,
    ) -> dict[str, int]:
        """Return the exact number of live passages in those scopes (None: in all) with each word."""

    def collect_words(
        self, subject: Searchable, word: str, allowed: Filter, *, category: str | None = None
    ) -> set[str]:
        """Return words of passages, including those near a word."""

    def status(self) -> IndexStatus:
        """Return the state of the index."""

    def collect_keys(self, subject: Searchable) -> set[int]:
        """Return the keys of all searchable passages."""

    def notice(self, rows: Sequence[JournalEntry]) -> None:
        """Apply changes of this process."""

    def scrub(self) -> bool:
        """Remove every word of erased text; return False if other processes prevented it."""

    def rebuild(self) -> None:
        """Build the index again from the store."""

    def close(self) -> None:
        """Finish pending work."""


def compute_rarities(
    query: CandidateQuery, passages: int, frequencies: Mapping[str, int]
) -> list[TermWeight]:
    """Return the terms of a query that passages have, each weighted by its rarity.

    Args:
        query: The query.
        passages: Number of passages in the scopes.
        frequencies: Number of these passages with each word.
    """
    rarities: list[tuple[Among, str, float]] = [
        (
            "words",
            word,
            weight * log(1 + max(0, passages - frequencies[word] + 0.5) / (frequencies[word] + 0.5)),
        )
        for word, weight in query.words
        if frequencies[word]
    ]
    rarities += [("dates", token, weight * log(1 + passages)) for token, weight in query.dates]
    rarities += [("speakers", token, weight * log(1 + passages)) for token, weight in query.speakers]
    # Coarser for large queries, so that a sum times the largest brevity fits into 24 bits.
    fineness = min(_FINENESS, _LARGEST_SUM / (1 + sum(weight for _, _, weight in rarities)))
    return [
        TermWeight(among=among, token=token, weight=max(1, round(fineness * weight)))
        for among, token, weight in rarities
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMismatch:
    """Differences between an index and its store.

    Attributes:
        missing: Number of live passages that a search cannot find.
        surplus: Number of passages in the index that are not live.
        passages: Number of compared passages.
    """

    missing: int
    surplus: int
    passages: int


def compare_index(index: CandidateIndex, store: Store) -> IndexMismatch:
    """Compare the passages of an index and its store, which may change at the same time.

    Raises:
        IndexCorrupt: the index cannot be read.
        StoreUnavailable: the store cannot be read.
    """
    for _ in range(_ROUNDS):
        stored: set[int] = set()
        indexed: set[int] = set()
        with store.reading(), index.reading():
            sequence = store.sequence()
            for subject in SEARCHABLE:
                stored |= _collect_live_keys(store, subject)
                indexed |= index.collect_keys(subject)
        if stored == indexed or store.sequence() == sequence:  # else the index may be ahead of this view
            break
    return IndexMismatch(missing=len(stored - indexed), surplus=len(indexed - stored), passages=len(stored))


def _collect_live_keys(store: Store, subject: Searchable) -> set[int]:
    keys: set[int] = set()
    after = 0
    while batch := store.live(subject, after=after, limit=_BATCH):
        keys.update(passage.key for passage, _ in batch)
        after = batch[-1][0].key
    return keys
