"""Protocol of the indexes of candidates, and their weights of words by rarity."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from math import log
from typing import TYPE_CHECKING, Protocol

from reverie.domain.change import JournalEntry
from reverie.domain.filter import Filter
from reverie.domain.passage import Among, CandidateQuery, Searchable, TermWeight
from reverie.search.index.inverted_index import BRIEFEST, OFTEN, compute_emphasis

if TYPE_CHECKING:
    from reverie.search.index.status import IndexStatus

_FINENESS = 32  # weights are rounded to multiples of 1/32
_LARGEST_SUM = (1 << 23) // (BRIEFEST * compute_emphasis(OFTEN[-1]))


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

    def alike(self, cues: Sequence[str], allowed: Filter, limit: int) -> tuple[list[int], int]:
        """Return the keys of records that share cues, and up to which journal row (see `SearchIndex.alike`)."""

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

    def collect_keys(self, subject: Searchable, after: int, until: int | None) -> set[int]:
        """Return the keys of all searchable passages in a range."""

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
