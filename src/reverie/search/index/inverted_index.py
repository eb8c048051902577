"""Inverted index in memory, for changes that are not committed yet.

It has thousands of passages, not millions. Its order is approximate, since the exact ranker follows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from itertools import islice
from typing import NamedTuple, assert_never

from reverie.domain.category import is_within_category
from reverie.domain.conversation import Turn
from reverie.domain.filter import Filter, is_paragraph_allowed, is_record_allowed, is_turn_allowed
from reverie.domain.page import Paragraph
from reverie.domain.passage import AnalyzedText, Searchable, TermWeight, get_scope
from reverie.domain.record import Record
from reverie.domain.text.tokenizer import tokenize_date

Value = Record | Turn | Paragraph


class IndexedPassage(NamedTuple):
    """One passage for an index.

    Attributes:
        key: The store's number of it.
        value: The record, turn or paragraph, for filters.
        analysis: Its tokens, dates and speaker.
    """

    key: int
    value: Value
    analysis: AnalyzedText

    def list_dates(self) -> list[str]:
        """Return the date tokens of the day when it was written, in UTC, and those of its text."""
        written = self.value.created_at if isinstance(self.value, Record) else self.value.at
        return [*tokenize_date(written.date()), *self.analysis.dates.split()]


BRIEFEST = 63
"""Weight of the shortest passages; see `compute_brevity`."""

_SHORT = 10  # tokens

ONCE = 2
"""Weight of a word that occurs once in a passage."""

OFTEN = (2, 3, 4, 6, 8, 12)
"""Frequencies from which the weight is larger by 1 each; see `compute_emphasis`."""

_Postings = dict[str, dict[int, int]]
"""Frequency of each token, by token and key of the passage."""


def compute_brevity(length: int) -> int:
    """Return the weight of a word by the number of tokens of its passage: a whole number from `BRIEFEST` down to 1.

    It depends on the passage alone, so changes of other passages do not change the results within a scope. BM25 would
    divide by the mean length.
    """
    return max(1, round(BRIEFEST / math.sqrt(1 + length / _SHORT)))


def compute_emphasis(times: int) -> int:
    """Return the weight of a word by its frequency in a passage: a whole number, `ONCE` or more.

    Most words occur once, so the steps cost little. With steps at 2 and 4 alone, up to a quarter of the best ten were
    missed in artificial texts that repeat a few words; with these steps, .02 to .06.
    """
    return ONCE + sum(times >= least for least in OFTEN)


def build_predicate(subject: Searchable, allowed: Filter) -> Callable[[Value], bool]:
    """Return a function that tells whether a value is of a kind and passes a filter."""
    match subject:
        case "record":
            return lambda value: isinstance(value, Record) and is_record_allowed(allowed, value)
        case "turn":
            return lambda value: isinstance(value, Turn) and is_turn_allowed(allowed, value)
        case "paragraph":
            return lambda value: isinstance(value, Paragraph) and is_paragraph_allowed(allowed, value)
        case _:
            assert_never(subject)


class InvertedIndex:
    """Inverted index of a few passages. Not thread-safe; its owner holds a lock."""

    def __init__(self) -> None:
        self._leaves: dict[int, IndexedPassage] = {}
        self._brevities: dict[int, int] = {}
        self._words: _Postings = {}
        self._dates: _Postings = {}
        self._speakers: _Postings = {}

    def __len__(self) -> int:
        return len(self._leaves)

    def collect_keys(self) -> Set[int]:
        """Return the keys of all passages."""
        return self._leaves.keys()

    def list_leaves(self) -> list[IndexedPassage]:
        """Return all passages in the order of their addition."""
        return list(self._leaves.values())

    def add(self, leaf: IndexedPassage) -> None:
        """Add a passage, replacing an earlier one of the same key."""
        self.remove(leaf.key)
        self._leaves[leaf.key] = leaf
        self._brevities[leaf.key] = compute_brevity(leaf.analysis.length)
        key = leaf.key
        for postings, counts in self._count_tokens(leaf):
            for token, count in counts.items():
                postings.setdefault(token, {})[key] = count

    def remove(self, key: int) -> None:
        """Remove a passage; an unknown key is fine."""
        leaf = self._leaves.pop(key, None)
        if leaf is None:
            return
        del self._brevities[key]
        for postings, counts in self._count_tokens(leaf):
            for token in counts:
                del postings[token][key]
                if not postings[token]:
                    del postings[token]

    def compute_frequency(self, word: str, scopes: Collection[str] | None, category: str | None) -> int:
        """Return the number of passages in some scopes (None: in all) with a word; see `SearchIndex`."""
        return sum(self._is_within(key, scopes, category) for key in self._words.get(word, ()))

    def list_words(self, scopes: Collection[str] | None, category: str | None) -> set[str]:
        """Return the words of passages in some scopes (None: in all); see `SearchIndex`."""
        within = {key for key in self._leaves if self._is_within(key, scopes, category)}
        return {word for word, keys in self._words.items() if not within.isdisjoint(keys)}

    def _is_within(self, key: int, scopes: Collection[str] | None, category: str | None) -> bool:
        value = self._leaves[key].value
        return (scopes is None or get_scope(value) in scopes) and (
            category is None or (isinstance(value, Record) and is_within_category(value.category, category))
        )

    def search_weighted(
        self, weights: Sequence[TermWeight], passes: Callable[[Value], bool], limit: int
    ) -> list[tuple[int, int]]:
        """Return the largest weights with the keys of their passages; see `TantivyIndex.search_weighted`."""
        postings = {"words": self._words, "dates": self._dates, "speakers": self._speakers}
        sums: dict[int, int] = {}
        for each in weights:
            once = each.weight * ONCE
            for key, times in postings[each.among].get(each.token, {}).items():
                added = once if times == 1 or each.among != "words" else each.weight * compute_emphasis(times)
                sums[key] = sums.get(key, 0) + added
        leaves, brevities = self._leaves, self._brevities
        best = [(figure * brevities[key], key) for key, figure in sums.items()]
        best.sort(reverse=True)
        passing = ((key, figure) for figure, key in best if passes(leaves[key].value))
        return list(islice(passing, limit))

    def _count_tokens(self, leaf: IndexedPassage) -> tuple[tuple[_Postings, Mapping[str, int]], ...]:
        analysis = leaf.analysis
        return (
            (self._words, _count(analysis.terms.split())),
            (self._dates, _count(leaf.list_dates())),
            (self._speakers, {analysis.speaker: 1} if analysis.speaker else {}),
        )


def _count(tokens: Sequence[str]) -> Mapping[str, int]:
    """Return the frequency of each token. Most occur once, and a `Counter` is several times slower."""
    counts = dict.fromkeys(tokens, 1)
    return counts if len(counts) == len(tokens) else Counter(tokens)
