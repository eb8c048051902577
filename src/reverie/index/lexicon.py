"""Which of a few passages hold these words? An inverted index in memory, for what no commit holds yet.

Holds thousands, not millions, of passages. Ranks only roughly: the exact ranker comes afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import log

from reverie.pages import Paragraph
from reverie.passages import Analysis, Wanted, scope_of
from reverie.records import Record
from reverie.turns import Turn

Value = Record | Turn | Paragraph


@dataclass(frozen=True, slots=True)
class Leaf:
    """One passage as the index takes it in.

    Attributes:
        key: The store's own number of it.
        value: The record, turn or paragraph, for filters.
        analysis: Its tokens, dates and speaker.
    """

    key: int
    value: Value
    analysis: Analysis


_K1, _B = 1.2, 0.75
"""tantivy's own constants, so that both sides of the index choose candidates alike."""

_Postings = dict[str, dict[int, int]]
"""Token -> key of a passage -> how often it has the token."""


class Lexicon:
    """An inverted index of a few passages. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._leaves: dict[int, Leaf] = {}
        self._words: _Postings = {}
        self._dates: _Postings = {}
        self._speakers: _Postings = {}
        self._alike: _Postings = {}
        self._tokens = 0

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
        self._tokens += leaf.analysis.length
        for postings, counts in self._counted(leaf):
            for token, count in counts.items():
                postings.setdefault(token, {})[leaf.key] = count

    def remove(self, key: int) -> None:
        """Remove a passage; an unknown key is fine."""
        leaf = self._leaves.pop(key, None)
        if leaf is None:
            return
        self._tokens -= leaf.analysis.length
        for postings, counts in self._counted(leaf):
            for token in counts:
                holders = postings[token]
                del holders[key]
                if not holders:
                    del postings[token]

    def frequency(self, word: str, scopes: Collection[str] | None) -> int:
        """How many passages in those scopes (None: in all) have the word."""
        holders = self._words.get(word, {})
        if scopes is None:
            return len(holders)
        return sum(scope_of(self._leaves[key].value) in scopes for key in holders)

    def any_of(self, wanted: Wanted, passes: Callable[[Value], bool], limit: int) -> list[int]:
        """Keys of the passages that fit best by BM25 over what is here, at most `limit`."""
        return self._best(
            ((self._words, wanted.words), (self._dates, wanted.dates), (self._speakers, wanted.speakers)),
            passes,
            limit,
        )

    def alike(self, cues: Sequence[str], passes: Callable[[Value], bool], limit: int) -> list[int]:
        """Keys of the records that share most of the cues, at most `limit`."""
        return self._best(((self._alike, [(cue, 1.0) for cue in cues]),), passes, limit)

    def _best(
        self,
        looked_for: Iterable[tuple[_Postings, Sequence[tuple[str, float]]]],
        passes: Callable[[Value], bool],
        limit: int,
    ) -> list[int]:
        scores: dict[int, float] = {}
        leaves, count = self._leaves, len(self._leaves)
        flat = _K1 * (1.0 - _B)
        slope = _K1 * _B * count / max(1, self._tokens)
        for postings, tokens in looked_for:
            for token, weight in tokens:
                holders = postings.get(token)
                if holders:
                    rarity = weight * log(1.0 + (count - len(holders) + 0.5) / (len(holders) + 0.5))
                    for key, times in holders.items():
                        part = rarity * times / (times + flat + slope * leaves[key].analysis.length)
                        scores[key] = scores.get(key, 0.0) + part
        best = sorted(scores, key=lambda key: (-scores[key], -key))
        return list(islice((key for key in best if passes(leaves[key].value)), limit))

    def _counted(self, leaf: Leaf) -> tuple[tuple[_Postings, Mapping[str, int]], ...]:
        analysis = leaf.analysis
        return (
            (self._words, Counter(analysis.terms.split())),
            (self._dates, Counter(analysis.dates.split())),
            (self._speakers, {analysis.speaker: 1} if analysis.speaker else {}),
            (self._alike, dict.fromkeys(analysis.cues.split(), 1) if isinstance(leaf.value, Record) else {}),
        )
