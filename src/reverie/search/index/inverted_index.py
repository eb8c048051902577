"""Inverted index in memory, for changes that no commit holds yet.

It holds thousands, not millions, of passages, and its order is approximate: the exact ranker follows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import NamedTuple, assert_never

from reverie.domain.category import is_within_category
from reverie.domain.conversation import Turn
from reverie.domain.filter import Filter, is_paragraph_allowed, is_record_allowed, is_turn_allowed
from reverie.domain.page import Paragraph
from reverie.domain.passage import AnalyzedText, CandidateQuery, Searchable, TermWeight, get_scope
from reverie.domain.record import Record

Value = Record | Turn | Paragraph


class IndexedPassage(NamedTuple):
    """One passage as the index takes it in.

    Attributes:
        key: The store's own number of it.
        value: The record, turn or paragraph, for filters.
        analysis: Its tokens, dates and speaker.
    """

    key: int
    value: Value
    analysis: AnalyzedText


_K1, _B = 1.2, 0.75
"""tantivy's own constants, so that both sides of the index choose candidates alike."""

BRIEFEST = 63
"""Weight of the shortest passages; see `compute_brevity`."""

_SHORT = 10  # tokens

ONCE = 2
"""Weight of a word that a passage has once."""

OFTEN = (2, 3, 4, 6, 8, 12)
"""Said so often, or more often, it counts for 1 more each; see `compute_emphasis`."""

_Postings = dict[str, dict[int, int]]
"""Token -> key of a passage -> how often it has the token."""


def compute_brevity(length: int) -> int:
    """Return the weight of a word in a passage of so many tokens: a whole number, `BRIEFEST` to 1, falling.

    It depends on the passage alone, so that others that come or go cannot change what is found within a
    scope: BM25 would divide by the mean length. A power law does without a mean.
    """
    return max(1, round(BRIEFEST / math.sqrt(1 + length / _SHORT)))


def compute_emphasis(times: int) -> int:
    """Return the weight of a word that a passage has so often: a whole number, `ONCE` or more.

    Most words are said once, so the steps cost little. With those at 2 and 4 alone, up to a quarter of the
    best ten were missed in made-up texts that repeat a few words all the time; with these, .02 to .06.
    """
    return ONCE + sum(times >= least for least in OFTEN)


def build_predicate(subject: Searchable, allowed: Filter) -> Callable[[Value], bool]:
    """Return what tells whether a value is of that kind and passes the filter."""
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
    """An inverted index of a few passages. Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._leaves: dict[int, IndexedPassage] = {}
        self._brevities: dict[int, int] = {}
        self._words: _Postings = {}
        self._dates: _Postings = {}
        self._speakers: _Postings = {}
        self._alike: _Postings = {}
        self._in_scopes: dict[str, dict[str, int]] = {}  # scope -> word -> how many have it
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._leaves)

    def __contains__(self, key: int) -> bool:
        return key in self._leaves

    def collect_keys(self) -> Set[int]:
        """Return the keys of all passages."""
        return self._leaves.keys()

    def list_leaves(self) -> list[IndexedPassage]:
        """Return all passages, in the order they came."""
        return list(self._leaves.values())

    def add(self, leaf: IndexedPassage) -> None:
        """Add a passage, replacing an earlier one of the same key."""
        self.remove(leaf.key)
        self._leaves[leaf.key] = leaf
        self._brevities[leaf.key] = compute_brevity(leaf.analysis.length)
        self._tokens += leaf.analysis.length
        key = leaf.key
        counted = self._count_tokens(leaf)
        for postings, counts in counted:
            for token, count in counts.items():
                holders = postings.get(token)
                if holders is None:
                    postings[token] = {key: count}
                else:
                    holders[key] = count
        held = self._in_scopes.setdefault(get_scope(leaf.value), {})
        for token in counted[0][1]:
            held[token] = held.get(token, 0) + 1

    def remove(self, key: int) -> None:
        """Remove a passage; an unknown key is fine."""
        leaf = self._leaves.pop(key, None)
        if leaf is None:
            return
        del self._brevities[key]
        self._tokens -= leaf.analysis.length
        counted = self._count_tokens(leaf)
        for postings, counts in counted:
            for token in counts:
                holders = postings[token]
                del holders[key]
                if not holders:
                    del postings[token]
        held = self._in_scopes[get_scope(leaf.value)]
        for token in counted[0][1]:
            held[token] -= 1
            if not held[token]:
                del held[token]

    def compute_frequency(self, word: str, scopes: Collection[str] | None, category: str | None) -> int:
        """Return how many passages in those scopes (None: in all) have the word; see `SearchIndex`."""
        if category is not None:
            values = (self._leaves[key].value for key in self._words.get(word, ()))
            return sum(
                isinstance(value, Record)
                and (scopes is None or value.scope in scopes)
                and is_within_category(value.category, category)
                for value in values
            )
        if scopes is None:
            return len(self._words.get(word, ()))
        return sum(self._in_scopes.get(scope, {}).get(word, 0) for scope in set(scopes))

    def list_words(self, scopes: Collection[str] | None, category: str | None) -> Set[str]:
        """Return the words of passages in those scopes (None: in all); see `SearchIndex`."""
        if category is not None:
            return {word for word in self._words if self.compute_frequency(word, scopes, category)}
        if scopes is None:
            return self._words.keys()
        return set().union(*(self._in_scopes.get(scope, ()) for scope in scopes))

    def search_any(self, query: CandidateQuery, passes: Callable[[Value], bool], limit: int) -> list[int]:
        """Return the keys of at most `limit` passages that fit best by BM25 over this index."""
        return self._search_best(
            ((self._words, query.words), (self._dates, query.dates), (self._speakers, query.speakers)),
            passes,
            limit,
        )

    def alike(self, cues: Sequence[str], passes: Callable[[Value], bool], limit: int) -> list[int]:
        """Return the keys of at most `limit` records that share most of the cues."""
        return self._search_best(((self._alike, [(cue, 1.0) for cue in cues]),), passes, limit)

    def search_weighted(
        self, weights: Sequence[TermWeight], passes: Callable[[Value], bool], limit: int, *, brief: bool
    ) -> list[tuple[int, int]]:
        """Return the largest weights with the keys of their passages; see `TantivyIndex.search_weighted`."""
        postings = {
            "words": self._words,
            "dates": self._dates,
            "speakers": self._speakers,
            "cues": self._alike,
        }
        sums: dict[int, int] = {}
        for each in weights:
            once = each.weight * ONCE
            for key, times in postings[each.among].get(each.token, {}).items():
                told = once if times == 1 or each.among != "words" else each.weight * compute_emphasis(times)
                sums[key] = sums.get(key, 0) + told
        leaves, brevities = self._leaves, self._brevities
        best = [(figure * brevities[key], key) if brief else (figure, key) for key, figure in sums.items()]
        best.sort(reverse=True)
        passing = ((key, figure) for figure, key in best if passes(leaves[key].value))
        return list(islice(passing, limit))

    def _search_best(
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
                    rarity = weight * math.log(1.0 + (count - len(holders) + 0.5) / (len(holders) + 0.5))
                    for key, times in holders.items():
                        part = rarity * times / (times + flat + slope * leaves[key].analysis.length)
                        scores[key] = scores.get(key, 0.0) + part
        best = sorted(scores, key=lambda key: (-scores[key], -key))
        return list(islice((key for key in best if passes(leaves[key].value)), limit))

    def _count_tokens(self, leaf: IndexedPassage) -> tuple[tuple[_Postings, Mapping[str, int]], ...]:
        analysis = leaf.analysis
        return (
            (self._words, _count(analysis.terms.split())),
            (self._dates, _count(analysis.dates.split())),
            (self._speakers, {analysis.speaker: 1} if analysis.speaker else {}),
            (self._alike, dict.fromkeys(analysis.cues.split(), 1) if isinstance(leaf.value, Record) else {}),
        )


def _count(tokens: Sequence[str]) -> Mapping[str, int]:
    """Return how often each token occurs; most occur once, and a `Counter` takes several times as long."""
    counts = dict.fromkeys(tokens, 1)
    return counts if len(counts) == len(tokens) else Counter(tokens)
