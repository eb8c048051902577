"""Index of candidates in the tables of the database of the memory, for machines without files.

Nothing has to be built or followed here, since each change updates its postings in its transaction. Candidates have the
same weights and the same order as within a scope in `SearchIndex`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from reverie.domain.change import JournalEntry
from reverie.domain.filter import Filter
from reverie.domain.passage import SEARCHABLE, CandidateQuery, Searchable, TermWeight
from reverie.search.index.candidates import compute_rarities
from reverie.stores.forks import renew_lock_after_fork
from reverie.stores.protocol import Store

if TYPE_CHECKING:
    from reverie.search.index.status import IndexStatus
    from reverie.stores.postgres.postings import PostingTables

_MOST_COUNTS = 20_000  # words that are remembered

_Selection = tuple[Searchable, tuple[str, ...] | None, str | None]


class TableIndex:
    """Candidates and exact word statistics from postings in a database. Safe to use from several threads.

    Args:
        store: The store.
        postings: Its postings.
    """

    def __init__(self, store: Store, postings: PostingTables) -> None:
        self._store = store
        self._postings = postings
        self._lock = threading.RLock()
        renew_lock_after_fork(self)
        self._counts: dict[tuple[_Selection, str], int] = {}
        self._passages: dict[_Selection, int] = {}
        self._counted_at = 0

    def _reset_after_fork(self) -> None:
        self._counts.clear()
        self._passages.clear()

    def reading(self) -> AbstractContextManager[None]:
        """Do nothing, since `Store.reading` shows one state of the postings too."""
        return nullcontext()

    def search_any(
        self,
        subject: Searchable,
        query: CandidateQuery,
        allowed: Filter,
        limit: int,
        *,
        category: str | None = None,
    ) -> list[int]:
        """Return the keys of at most `limit` passages that may answer best (see `SearchIndex.search_any`)."""
        frequencies = self.frequencies(subject, [word for word, _ in query.words], allowed.scopes, category)
        passages = self._count_passages(subject, allowed.scopes, category)
        weights = compute_rarities(query, passages, frequencies)
        return self._postings.find_heaviest(subject, weights, allowed, limit, is_brief=True)

    def alike(self, cues: Sequence[str], allowed: Filter, limit: int) -> tuple[list[int], int]:
        """Return the keys of records with some of the cues, and the number of the last journal entry covered."""
        sequence = self._store.sequence()  # first, since later changes may be missing in the answer
        weights = [TermWeight(among="cues", token=cue, weight=1) for cue in cues]
        return self._postings.find_heaviest("record", weights, allowed, limit, is_brief=False), sequence

    def frequencies(
        self,
        subject: Searchable,
        words: Sequence[str],
        scopes: Collection[str] | None,
        category: str | None = None,
    ) -> dict[str, int]:
        """Return the exact number of live passages in those scopes (None: in all) with each word.

        With a category, only records of it and those below it count. Counts are cached until the memory changes.
        """
        selection = (subject, None if scopes is None else tuple(scopes), category)
        sequence = self._store.sequence()
        with self._lock:
            self._forget_older(sequence)
            counts = {
                word: self._counts[selection, word] for word in words if (selection, word) in self._counts
            }
        if unknown := [word for word in dict.fromkeys(words) if word not in counts]:
            counted = self._postings.count_words(subject, unknown, scopes, category)
            counts.update((word, counted.get(word, 0)) for word in unknown)
            if self._store.sequence() == sequence:
                with self._lock:
                    if self._counted_at == sequence:
                        self._counts.update(((selection, word), counts[word]) for word in unknown)
        return {word: counts[word] for word in words}

    def _count_passages(
        self, subject: Searchable, scopes: Collection[str] | None, category: str | None
    ) -> int:
        """Return the number of live passages in some scopes, cached until the memory changes."""
        selection = (subject, None if scopes is None else tuple(scopes), category)
        sequence = self._store.sequence()
        with self._lock:
            self._forget_older(sequence)
            known = self._passages.get(selection)
        if known is None:
            known = self._store.measure(subject, selection[1], category=category).passages
            if self._store.sequence() == sequence:
                with self._lock:
                    if self._counted_at == sequence:
                        self._passages[selection] = known
        return known

    def _forget_older(self, sequence: int) -> None:
        if self._counted_at != sequence or len(self._counts) + len(self._passages) > _MOST_COUNTS:
            self._counted_at = sequence
            self._counts.clear()
            self._passages.clear()

    def collect_words(
        self, subject: Searchable, word: str, allowed: Filter, *, category: str | None = None
    ) -> set[str]:
        """Return the words of the scopes that are similar to a word, and some more."""
        del category  # the caller counts the words there
        return self._postings.list_similar_words(subject, word, allowed.scopes)

    def status(self) -> IndexStatus:
        """Return the state of the index, which is always that of the store."""
        from reverie.search.index.status import IndexStatus  # here: seldom needed

        with self._store.reading():
            return IndexStatus(
                state="current",
                committed=sum(self._store.measure(subject, None).passages for subject in SEARCHABLE),
                waiting=0,
                segments=0,
                sequence=self._store.sequence(),
            )

    def collect_keys(self, subject: Searchable, after: int, until: int | None) -> set[int]:
        """Return the keys of passages in a range that have all their postings."""
        return self._postings.collect_keys(subject, after, until)

    def notice(self, rows: Sequence[JournalEntry]) -> None:
        """Do nothing, since the transaction of the changes has updated the postings."""

    def scrub(self) -> bool:
        """Do nothing, since `Store.scrub` rewrites the postings too."""
        return True

    def rebuild(self) -> None:
        """Build the postings of the memory again, and clear the cached counts."""
        self._postings.rebuild()
        with self._lock:
            self._counts.clear()
            self._passages.clear()

    def close(self) -> None:
        """Do nothing, since the store closes the connections."""
