"""Fusion of words and vectors: each side alone keeps its order, and neither hides what the other is sure of."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.passage import Passage
from reverie.search.fusion import fuse
from reverie.search.query import parse_query
from reverie.search.ranking import RankedPassage, RankingSettings, TermStatistics, rank


@dataclass
class Cosines:
    """Cosines by key, with a spread."""

    cosines: dict[int, float]
    mean: float = 0.8
    deviation: float = 0.02
    count: int = field(default=100)

    def get_cosines(self, keys):
        return {key: self.cosines[key] for key in keys if key in self.cosines}


def record(key, terms="", *, at=0.0):
    return Passage(key, "".join(f" {term} " for term in terms.split()), max(1, len(terms.split())), at=at)


def turn(key, position, *, speaker="ann", thread=1):
    return Passage(key, " x ", 1, thread=thread, position=position, speaker=speaker, kind="turn")


def rank_words(passages, question="harbour crane") -> list[RankedPassage]:
    statistics = TermStatistics(passages=100, mean_length=3.0, frequencies={"harbour": 3, "crane": 2})
    return rank(parse_query(question), passages, statistics=statistics, settings=RankingSettings())


def order(passages, cosines, *, floor=0.0, has_words=True):
    fused = fuse(rank_words(passages), passages, Cosines(cosines), has_words=has_words, floor=floor)
    return [entry.passage.key for entry in fused]


WORDS = [record(1, "harbour crane"), record(2, "harbour wall"), record(3, "nothing here")]


def test_without_vectors_the_order_of_words_stays():
    assert order(WORDS, {}) == [entry.key for entry in rank_words(WORDS)] == [1, 2]


def test_without_words_the_nearest_comes_first():
    passages = [record(key) for key in (1, 2, 3)]
    assert order(passages, {1: 0.84, 2: 0.88, 3: 0.86}) == [2, 3, 1]


def test_a_rule_stands_before_a_nearer_fact_only_where_something_is_asked_to_be_done():
    passages = [record(1), record(2)]

    def list_keys(rules):
        cosines = Cosines({1: 0.85, 2: 0.84})
        return [
            entry.passage.key for entry in fuse([], passages, cosines, has_words=True, rules=rules, floor=0.0)
        ]

    assert list_keys({}) == [1, 2]
    assert list_keys({1: 0.01, 2: 0.9}) == [2, 1]


def test_a_sure_vector_stands_before_a_weak_match_of_words():
    assert order(WORDS[1:], {2: 0.8, 3: 0.93})[0] == 3


def test_a_sure_match_of_words_stands_before_a_vector_that_is_near_by_chance():
    assert order(WORDS, {1: 0.8, 2: 0.8, 3: 0.83})[0] == 1


def test_what_is_near_by_chance_is_no_hit_by_itself():
    assert order([record(1), record(2)], {1: 0.805, 2: 0.8}) == []


def test_nothing_is_relevant_where_both_sides_find_little():
    passages = [record(key) for key in (1, 2)]
    assert order(passages, {1: 0.82, 2: 0.8}, floor=0.2, has_words=False) == []
    assert order(passages, {1: 0.88, 2: 0.8}, floor=0.2, has_words=False) == [1]


def test_a_turn_beside_near_ones_gains():
    apart = [turn(1, 0), turn(2, 9)]
    together = [turn(1, 0), turn(2, 9), turn(3, 8)]
    assert order(apart, {1: 0.9, 2: 0.89})[0] == 1
    assert order(together, {1: 0.9, 2: 0.89, 3: 0.88})[0] == 2


def test_a_message_gains_by_what_led_to_it_and_not_by_what_follows():
    def list_keys(beside):
        told = [turn(1, 3, speaker="user"), turn(2, 3, speaker="user", thread=2)]
        other = turn(3, beside, speaker="assistant", thread=2)
        return [key for key in order([*told, other], {1: 0.91, 2: 0.9, 3: 0.88}) if key != 3]

    assert list_keys(beside=2) == list_keys(beside=0) == [2, 1]
    assert list_keys(beside=4) == [1, 2]


def test_a_reply_counts_less_than_what_the_user_said():
    near = [turn(1, 0, speaker="assistant"), turn(2, 9, speaker="user")]
    assert order(near, {1: 0.91, 2: 0.9}) == [2, 1]


@given(st.dictionaries(st.integers(1, 6), st.floats(0.5, 1.0)), st.integers(1, 6), st.floats(0.0, 0.2))
def test_a_larger_cosine_never_lowers_a_record(cosines, key, more):
    passages = [record(1, "harbour crane"), record(2, "harbour wall"), *(record(n) for n in range(3, 7))]
    before = order(passages, {**cosines, key: cosines.get(key, 0.7)})
    after = order(passages, {**cosines, key: cosines.get(key, 0.7) + more})
    if key in before:
        assert after.index(key) <= before.index(key)


@given(st.dictionaries(st.integers(1, 3), st.floats(-1.0, 1.0)), st.floats(0.0, 1.0))
def test_what_words_have_found_is_never_lost_and_relevance_stays_in_its_range(cosines, floor):
    fused = fuse(rank_words(WORDS), WORDS, Cosines(cosines), has_words=True, floor=floor)
    assert {1, 2} <= {entry.passage.key for entry in fused}
    assert all(0.0 <= entry.relevance <= 1.0 for entry in fused)
