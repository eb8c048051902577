"""When a search says that there is nothing."""

from __future__ import annotations

import doctest
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.passage import Passage
from reverie.domain.text.tokenizer import pack, tokenize
from reverie.search import calibration
from reverie.search.calibration import apply_relevance_floor, compute_floor
from reverie.search.query import ParsedQuery, parse_query
from reverie.search.ranking import RankedPassage, TermStatistics, rank

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


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(calibration).failed == 0


def test_a_question_that_the_memory_answers_is_answered() -> None:
    for question in (
        "Which port does the staging server use?",
        "What is the cat called?",
        "cello",
        "may we deploy on friday?",
        "how long are backups kept",
    ):
        ranked, query = found(question)
        assert apply_relevance_floor(ranked, query) == ranked != []


def test_a_question_about_something_else_gets_nothing_though_a_word_of_it_stands_somewhere() -> None:
    ranked, query = found(
        "Which Portuguese restaurant near the cathedral did the plumber's nephew recommend "
        "for Saturday's water polo banquet?"
    )
    assert ranked
    assert apply_relevance_floor(ranked, query) == []


def test_a_rare_word_alone_finds_even_a_very_long_text() -> None:
    ranked, query = found("cello", (*MEMORY[:2] * 800, "cello " + "filler " * 20_000))
    assert apply_relevance_floor(ranked, query) == ranked != []


def test_a_question_without_words_has_no_relevant_hits() -> None:
    ranked, _ = found("cello")
    assert apply_relevance_floor(ranked, parse_query("?")) == []
    assert apply_relevance_floor([], parse_query("cello")) == []


def test_a_floor_of_nothing_lets_everything_pass_and_one_of_certainty_nothing() -> None:
    ranked, query = found("Which water polo team won the national championship final?")
    assert apply_relevance_floor(ranked, query, floor=0.0) == ranked
    assert apply_relevance_floor(ranked, query, floor=1.0) == []


@given(st.lists(st.sampled_from(" ".join(MEMORY).split()), max_size=8).map(" ".join), st.floats(0, 1))
def test_it_is_all_or_nothing(question: str, floor: float) -> None:
    ranked, query = found(question)
    assert apply_relevance_floor(ranked, query, floor=floor) in ([], ranked)


def test_the_floor_grows_with_the_cube_of_the_memory_up_to_its_full_height() -> None:
    assert compute_floor(calibration.LARGE) == compute_floor(10_000) == calibration.FLOOR
    assert compute_floor(calibration.LARGE // 2) == calibration.FLOOR / 8
    assert compute_floor(0) == 0.0


def test_a_weak_match_counts_in_a_small_memory_and_not_in_a_large_one() -> None:
    question = "Which water polo team won the regional championship final in Lisbon on Sunday?"
    ranked, query = found(question)
    assert 0.0 < ranked[0].relevance < calibration.FLOOR
    assert apply_relevance_floor(ranked, query, floor=compute_floor(len(MEMORY))) == ranked
    assert apply_relevance_floor(ranked, query, floor=compute_floor(1_000)) == []
