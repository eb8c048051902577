"""Which of a few passages hold these words? An inverted index in memory, for what no commit holds yet.

Holds thousands, not millions, of passages. Ranks only roughly: the exact ranker comes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from reverie.passages import Analysis
from reverie.records import Record
from reverie.turns import Turn


@dataclass(frozen=True, slots=True)
class Leaf:
    """One passage as the index takes it in.

    Attributes:
        key: The store's own number of it.
        value: The record or turn, for filters.
        analysis: Its tokens, dates and speaker.
    """

    key: int
    value: Record | Turn
    analysis: Analysis


class Lexicon:
    """An inverted index of a few passages. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._leaves: dict[int, Leaf] = {}
        self._words: dict[str, set[int]] = {}
        self._dates: dict[str, set[int]] = {}
        self._speakers: dict[str, set[int]] = {}

    def __len__(self) -> int:
        return len(self._leaves)

    def __contains__(self, key: int) -> bool:
        return key in self._leaves

    def leaves(self) -> list[Leaf]:
        """All passages, in the order they came."""
        return list(self._leaves.values())

    def add(self, leaf: Leaf) -> None:
        """Add a passage, replacing an earlier one of the same key."""
        self.remove(leaf.key)
        self._leaves[leaf.key] = leaf
        for postings, tokens in self._postings(leaf):
            for token in tokens:
                postings.setdefault(token, set()).add(leaf.key)

    def remove(self, key: int) -> None:
        """Remove a passage; an unknown key is fine."""
        leaf = self._leaves.pop(key, None)
        if leaf is None:
            return
        for postings, tokens in self._postings(leaf):
            for token in tokens:
                holders = postings[token]
                holders.discard(key)
                if not holders:
                    del postings[token]

    def frequency(self, word: str, scopes: Collection[str] | None) -> int:
        """How many passages in those scopes (None: in all) have the word."""
        holders = self._words.get(word, ())
        if scopes is None:
            return len(holders)
        return sum(self._leaves[key].value.scope in scopes for key in holders)

    def any_of(
        self,
        words: Sequence[tuple[str, float]],
        dates: Iterable[tuple[str, float]],
        speakers: Iterable[tuple[str, float]],
        passes: Callable[[Record | Turn], bool],
        limit: int,
    ) -> list[int]:
        """Keys of passages with at least one of the words, dates or speakers, by the summed weights."""
        weights: dict[int, float] = {}
        for postings, wanted in ((self._words, words), (self._dates, dates), (self._speakers, speakers)):
            for token, weight in wanted:
                for key in postings.get(token, ()):
                    weights[key] = weights.get(key, 0.0) + weight
        best = sorted(weights, key=lambda key: (-weights[key], -key))
        return list(islice((key for key in best if passes(self._leaves[key].value)), limit))

    def all_of(self, words: Collection[str], passes: Callable[[Record | Turn], bool]) -> list[int]:
        """Keys of passages that have every one of the words."""
        postings = [self._words.get(word, set()) for word in words]
        if not postings:
            return []
        postings.sort(key=len)
        common = postings[0].intersection(*postings[1:])
        return [key for key in common if passes(self._leaves[key].value)]

    def _postings(self, leaf: Leaf) -> tuple[tuple[dict[str, set[int]], Iterable[str]], ...]:
        analysis = leaf.analysis
        return (
            (self._words, set(analysis.terms.split())),
            (self._dates, set(analysis.dates.split())),
            (self._speakers, (analysis.speaker,) if analysis.speaker else ()),
        )
