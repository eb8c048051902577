"""Within a scope, candidates are the same whatever is in a commit already, and are those of a plain count."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.filter import Filter
from reverie.domain.passage import CandidateQuery
from reverie.domain.record import Record
from reverie.search.analyzer import analyze
from reverie.search.index.inverted_index import BRIEFEST, compute_brevity, compute_emphasis
from reverie.search.index.search_index import SearchIndex
from reverie.stores.in_memory import InMemoryStore
from tests.profiles import examples
from tests.search.index.test_search_index import put, record

WORDS = ("tea", "oolong", "garden", "chess", "queen")
MINE = Filter(scopes=("user:ann", ""))


def wanted(*words: str) -> CandidateQuery:
    return CandidateQuery(
        words=[(token, 1.0) for word in words for token in analyze(record(1, word)).terms.split()]
    )


def test_what_is_short_and_what_is_said_often_counts_for_more() -> None:
    figures = [compute_brevity(length) for length in range(2_000)]
    assert figures[0] == BRIEFEST
    assert figures[-1] >= 1
    assert figures == sorted(figures, reverse=True)
    assert compute_brevity(10**9) == 1
    assert [compute_emphasis(times) for times in (1, 2, 3, 4, 9, 99)] == [2, 3, 4, 5, 7, 8]


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None)
@given(
    seed=st.integers(0, 10_000),
    asked=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4, unique=True),
    limit=st.integers(1, 30),
)
def test_they_do_not_depend_on_commits_nor_on_what_others_hold(
    seed: int, asked: list[str], limit: int
) -> None:
    told = []
    for crowded, fold_every in ((True, 0), (True, 25), (False, 40), (True, 1_000)):
        choose = random.Random(seed)
        store = InMemoryStore(analyse=analyze)
        index = SearchIndex(store, None, fold_at=10_000)
        live: list[Record] = []
        for number in range(1, 90):
            text = " ".join(choose.choices(WORDS, weights=(9, 1, 5, 3, 2), k=choose.randint(1, 12)))
            new = record(number, f"{text} note{number}", scope=choose.choice(MINE.scopes or ()))
            other = record(number + 1_000, f"oolong {text} {text} note{number}", scope="user:bob")
            gone = choose.random() < 0.15
            if crowded:
                put(store, None, other)
            put(store, None, new)
            live.append(new)
            if gone:
                put(store, live.pop(choose.randrange(len(live))), None)
            if fold_every and number % fold_every == 0:
                index.fold()
        if fold_every == 1_000:
            index.fold()
        keys = index.search_any("record", wanted(*asked), MINE, limit)
        told.append([one.id for one in store.records(keys)])
        assert told[-1] == told[0]
        index.close()
    assert told[0] == counted(live, asked, limit)


def counted(live: list[Record], asked: list[str], limit: int) -> list[str]:
    """The same by counting, with the weights that rarity gives."""
    figures = {}
    tokens = dict(wanted(*asked).words)
    held = Counter(token for one in live for token in set(analyze(one).terms.split()))
    weights = {
        token: max(1, round(32 * math.log(1 + (len(live) - held[token] + 0.5) / (held[token] + 0.5))))
        for token in tokens
    }
    for one in live:
        analysis = analyze(one)
        times = Counter(analysis.terms.split())
        total = sum(weights[token] * compute_emphasis(times[token]) for token in tokens if times[token])
        if total:
            figures[one.id] = total * compute_brevity(analysis.length)
    return sorted(figures, key=lambda name: (-figures[name], -int(name, 16)))[:limit]


@pytest.mark.slow
def test_of_thousands_that_fit_alike_the_newest_are_taken() -> None:
    store = InMemoryStore(analyse=analyze)
    index = SearchIndex(store, None, fold_at=10_000)
    mine = [record(number, f"tea note{number:04}", scope="user:ann") for number in range(1, 1_500)]
    for one in mine:
        put(store, None, one)
    best = record(5_000, "tea oolong", scope="user:ann")
    put(store, None, best)
    for number in range(1_500, 2_500):
        put(store, None, record(number, f"tea note{number:04}", scope="user:bob"))
    index.fold()
    for one in mine[-300:-3]:
        put(store, one, None)
    keys = index.search_any("record", wanted("tea", "oolong"), Filter(scopes=("user:ann",)), 10)
    expected = [best, *mine[:-4:-1], *mine[-301:-307:-1]]
    assert store.records(keys) == expected
    index.close()


@pytest.mark.slow
def test_a_question_of_very_many_words_stays_exact() -> None:
    store = InMemoryStore(analyse=analyze)
    index = SearchIndex(store, None)
    words = [f"word{number}" for number in range(3_000)]
    for number in range(1, 30):
        put(store, None, record(number, " ".join(words[number:]), scope="user:ann"))
    asked = CandidateQuery(
        words=[(token, 1.0) for token in analyze(record(1, " ".join(words))).terms.split()]
    )
    before = index.search_any("record", asked, Filter(scopes=("user:ann",)), 10)
    index.fold()
    assert index.search_any("record", asked, Filter(scopes=("user:ann",)), 10) == before
    assert len(before) == 10
    index.close()
