"""How relevance, freshness, importance and confidence make one score."""

from __future__ import annotations

import doctest
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.passage import Passage
from reverie.domain.record import KINDS
from reverie.domain.text.tokenizer import pack, tokenize
from reverie.search import scoring
from reverie.search.query import ParsedQuery, parse_query
from reverie.search.ranking import RankedPassage, TermStatistics, rank
from reverie.search.scoring import KIND_BONUS, Score, apply_relevance_floor, compute_floor, score

SHARE = st.floats(0, 1)
AGE = st.floats(-10, 10_000)
KIND = st.sampled_from([*KINDS, "turn", "something else"])


def scored(relevance: float = 0.7, age_days: float = 10, importance: float = 0.5, confidence: float = 0.8,
           kind: str = "fact", pinned: bool = False) -> Score:  # fmt: skip
    return score(
        relevance, age_days=age_days, importance=importance, confidence=confidence, kind=kind, pinned=pinned
    )


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(scoring).failed == 0


@given(SHARE, AGE, SHARE, SHARE, KIND, st.booleans())
def test_scores_and_their_parts_are_in_range(
    relevance: float, age: float, importance: float, confidence: float, kind: str, pinned: bool
) -> None:
    found = scored(relevance, age, importance, confidence, kind, pinned)
    assert 0 <= found.total <= 1
    assert set(found.parts) == {"relevance", "recency", "importance", "confidence", "kind"}
    assert all(0 <= part <= 1 for part in found.parts.values())


@given(SHARE, SHARE, AGE, SHARE, SHARE, KIND)
def test_every_part_raises_the_score_and_never_lowers_it(
    less: float, more: float, age: float, importance: float, confidence: float, kind: str
) -> None:
    less, more = sorted((less, more))
    assert (
        scored(less, age, importance, confidence, kind).total
        <= scored(more, age, importance, confidence, kind).total
    )
    assert (
        scored(importance, age, less, confidence, kind).total
        <= scored(importance, age, more, confidence, kind).total
    )
    assert (
        scored(importance, age, confidence, less, kind).total
        <= scored(importance, age, confidence, more, kind).total
    )
    older, younger = age + 100 * more, age + 100 * less
    assert (
        scored(importance, older, 0.5, 0.5, kind).total <= scored(importance, younger, 0.5, 0.5, kind).total
    )


@given(AGE, SHARE, SHARE, KIND)
def test_what_is_not_relevant_scores_nothing_however_fresh(
    age: float, importance: float, confidence: float, kind: str
) -> None:
    assert scored(0.0, age, importance, confidence, kind, pinned=True).total == 0


def test_a_fresh_record_of_little_relevance_stays_behind_an_old_one_that_answers() -> None:
    assert scored(0.2, age_days=0, importance=1, confidence=1).total < scored(0.8, age_days=3_650).total


def test_among_equally_relevant_records_the_fresh_one_stands_first() -> None:
    assert scored(age_days=1).total > scored(age_days=30).total > scored(age_days=300).total


def test_recency_is_one_half_after_the_half_life_and_pinned_records_do_not_decay() -> None:
    assert scored(age_days=30).parts["recency"] == pytest.approx(0.5)
    assert scored(age_days=-5).parts["recency"] == 1
    assert scored(age_days=9_999, pinned=True).parts["recency"] == 1


@given(SHARE, SHARE, AGE, AGE)
def test_turns_stand_in_the_order_of_their_relevance_whatever_their_age(
    a: float, b: float, age: float, other: float
) -> None:
    first, second = scored(a, age, kind="turn").total, scored(b, other, kind="turn").total
    assert (first < second) <= (a < b)
    assert (first > second) <= (a > b)


def test_kinds_that_bind_stand_a_little_higher() -> None:
    assert scored(kind="constraint").total > scored(kind="preference").total > scored(kind="fact").total
    assert set(KIND_BONUS) <= set(KINDS)


def test_a_perfect_hit_scores_one() -> None:
    best = max(KIND_BONUS, key=lambda kind: KIND_BONUS[kind])
    assert scored(1, 0, 1, 1, best).total == pytest.approx(1)


# -- whether anything is relevant --------------------------------------------------------------------------

MEMORY = (
    "Prefers short answers in the morning",
    "The staging server runs on port 8443",
    "Her sister Klara plays the cello in an orchestra",
    "Decided to use SQLite because there is one writer",
    "The garden needs water twice a week in summer",
    "Never deploy on Fridays",
    "The cat is called Miso and eats only fish",
    "Backups are kept for ninety days",
)


def found(question: str, texts: tuple[str, ...] = MEMORY) -> tuple[list[RankedPassage], ParsedQuery]:
    passages = [Passage(i, pack(tokenize(text)), len(tokenize(text))) for i, text in enumerate(texts)]
    frequencies = Counter(token for passage in passages for token in set(passage.terms.split()))
    mean = sum(passage.length for passage in passages) / len(passages)
    query = parse_query(question)
    statistics = TermStatistics(passages=len(passages), mean_length=mean, frequencies=frequencies)
    return rank(query, passages, statistics=statistics), query


@given(st.lists(st.sampled_from(" ".join(MEMORY).split()), max_size=8).map(" ".join), st.floats(0, 1))
def test_it_is_all_or_nothing(question: str, floor: float) -> None:
    ranked, query = found(question)
    assert apply_relevance_floor(ranked, query, floor=floor) in ([], ranked)


def test_the_floor_grows_with_the_cube_of_the_memory_up_to_its_full_height() -> None:
    assert compute_floor(scoring.LARGE) == compute_floor(10_000) == scoring.FLOOR
    assert compute_floor(scoring.LARGE // 2) == scoring.FLOOR / 8
    assert compute_floor(0) == 0.0


def test_a_weak_match_counts_in_a_small_memory_and_not_in_a_large_one() -> None:
    question = "Which water polo team won the regional championship final in Lisbon on Sunday?"
    ranked, query = found(question)
    assert 0.0 < ranked[0].relevance < scoring.FLOOR
    assert apply_relevance_floor(ranked, query, floor=compute_floor(len(MEMORY))) == ranked
    assert apply_relevance_floor(ranked, query, floor=compute_floor(1_000)) == []
