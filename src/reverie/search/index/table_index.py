"""Index of candidates in the tables of the database of the memory, for machines without files.

Nothing has to be built or followed here, since each change updates its postings in its transaction. Candidates have the
same weights and the same order as within a scope in `SearchIndex`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from reverie.domain.filter import Filter
from reverie.domain.passage import SEARCHABLE, CandidateQuery, Searchable
from reverie.search.index.candidates import CountCache, IndexStatus, compute_rarities
from reverie.stores.forks import ForkSafeLock
from reverie.stores.protocol import Store

if TYPE_CHECKING:
    from reverie.stores.postgres.statements import PostingTables


class TableIndex:
    """Candidates and exact word statistics from postings in a database. Safe to use from several threads.

    Args:
        store: The store.
        postings: Its postings.
    """

    def __init__(self, store: Store, postings: PostingTables) -> None:
        self._store = store
        self._postings = postings
        self._lock = ForkSafeLock(self._reset_after_fork)
        self._counts = CountCache()

    def _reset_after_fork(self) -> None:
        self._counts = CountCache()

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
        return self._postings.find_heaviest(subject, weights, allowed, limit)

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
            known = self._counts.at(sequence)
            counts = {word: known[selection, word] for word in words if (selection, word) in known}
        if unknown := [word for word in dict.fromkeys(words) if word not in counts]:
            counted = self._postings.count_words(subject, unknown, scopes, category)
            counts.update((word, counted.get(word, 0)) for word in unknown)
            self._remember(sequence, {(selection, word): counts[word] for word in unknown})
        return {word: counts[word] for word in words}

    def _count_passages(
        self, subject: Searchable, scopes: Collection[str] | None, category: str | None
    ) -> int:
        """Return the number of live passages in some scopes, cached until the memory changes."""
        selection = (subject, None if scopes is None else tuple(scopes), category)
        sequence = self._store.sequence()
        with self._lock:
            known: int | None = self._counts.at(sequence).get(selection)
        if known is None:
            known = self._store.measure(subject, selection[1], category=category).passages
            self._remember(sequence, {selection: known})
        return known

    def _remember(self, sequence: int, counts: dict[Any, int]) -> None:
        """Cache counts, unless the memory has changed since `sequence`."""
        if self._store.sequence() == sequence:
            with self._lock:
                self._counts.at(sequence).update(counts)

    def collect_words(
        self, subject: Searchable, word: str, allowed: Filter, *, category: str | None = None
    ) -> set[str]:
        """Return the words of the scopes that are similar to a word, and some more."""
        del category  # the caller counts the words there
        return self._postings.list_similar_words(subject, word, allowed.scopes)

    def status(self) -> IndexStatus:
        """Return the state of the index, which is always that of the store."""
        with self._store.reading():
            return IndexStatus(
                state="current",
                committed=sum(self._store.measure(subject, None).passages for subject in SEARCHABLE),
                waiting=0,
                segments=0,
                sequence=self._store.sequence(),
            )

    def collect_keys(self, subject: Searchable) -> set[int]:
        """Return the keys of passages that have all their postings."""
        return self._postings.collect_keys(subject)

    def follow_soon(self) -> None:
        """Do nothing, since the transaction of each change has updated the postings."""

    def scrub(self) -> bool:
        """Do nothing, since `Store.scrub` rewrites the postings too."""
        return True

    def rebuild(self) -> None:
        """Build the postings of the memory again, and clear the cached counts."""
        self._postings.rebuild()
        with self._lock:
            self._counts = CountCache()

    def close(self) -> None:
        """Do nothing, since the store closes the connections."""
