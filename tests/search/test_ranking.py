"""Which candidate comes first, and why."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.passage import Passage
from reverie.domain.text.tokenizer import extract_cues, pack, tokenize
from reverie.search.query import parse_query
from reverie.search.ranking import (
    RankedPassage,
    RankingSettings,
    TermStatistics,
    compute_relevance,
    idf,
    rank,
)

PLAIN = RankingSettings(
    k1=1.2, b=0.75, background=0, pair=0, before=(), after=(), session=0, date=0, other_speaker=1,
    not_the_user=1, asking=1, no_time=1, no_number=1, short=0,
)  # fmt: skip
"""Nothing but BM25."""

DAY = datetime(2023, 5, 8, 12, tzinfo=UTC)


def record(key: int, text: str, *, at: float = 0.0) -> Passage:
    found = tokenize(text)
    return Passage(key, pack(found), len(found), at=at, cues=extract_cues(text))


def turn(
    key: int,
    text: str,
    *,
    thread: int = 1,
    position: int | None = None,
    speaker: str = "user",
    at: datetime = DAY,
) -> Passage:
    found = tokenize(text)
    return Passage(
        key,
        pack(found),
        len(found),
        thread=thread,
        position=key if position is None else position,
        speaker=speaker,
        at=at.timestamp(),
        cues=extract_cues(text),
    )


def counted(passages: Sequence[Passage]) -> TermStatistics:
    frequencies = Counter(token for passage in passages for token in set(passage.terms.split()))
    return TermStatistics(
        passages=len(passages),
        mean_length=sum(passage.length for passage in passages) / max(1, len(passages)),
        frequencies=frequencies,
    )


def ranked(
    question: str,
    passages: Sequence[Passage],
    *,
    settings: RankingSettings | None = None,
    speakers: Sequence[str] = (),
    limit: int | None = None,
) -> list[RankedPassage]:
    return rank(
        parse_query(question, speakers=speakers),
        passages,
        statistics=counted(passages),
        settings=settings or RankingSettings(),
        limit=limit,
    )


def keys(found: Sequence[RankedPassage]) -> list[int]:
    return [entry.key for entry in found]


def shown(found: Sequence[RankedPassage]) -> list[object]:
    return [(e.key, e.relevance, e.share, tuple(e.list_matches()), e.parts, e.coverage) for e in found]


VOCABULARY = ["rock", "music", "cat", "garden", "train", "paint", "lamp", "river"]
TEXTS = st.lists(
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=9).map(" ".join), min_size=1, max_size=9
)
QUESTION = st.lists(st.sampled_from([*VOCABULARY, "unheard"]), min_size=1, max_size=4).map(" ".join)


# -- the base ------------------------------------------------------------------------------------------


def okapi(question: list[str], texts: list[list[str]], *, k1: float, b: float) -> list[float]:
    """BM25 written down once more, from the formula, sharing nothing with the product."""
    n = len(texts)
    mean = sum(len(text) for text in texts) / n
    scores = []
    for text in texts:
        score = 0.0
        for word in dict.fromkeys(question):
            df = sum(word in other for other in texts)
            tf = text.count(word)
            weight = math.log(1 + (n - df + 0.5) / (df + 0.5))
            score += weight * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(text) / mean))
        scores.append(score)
    return scores


def test_without_bonuses_it_is_bm25_to_six_digits() -> None:
    for k1, b in [(1.2, 0.75), (2.5, 0.8), (0.9, 0.0), (1.0, 1.0)]:
        for as_turns in (False, True):
            compare_with_okapi(k1, b, as_turns=as_turns)


def compare_with_okapi(k1: float, b: float, *, as_turns: bool) -> None:
    dice = random.Random(7)
    texts = [[dice.choice(VOCABULARY) for _ in range(dice.randint(1, 12))] for _ in range(60)]
    make = turn if as_turns else record
    passages = [make(i, " ".join(text)) for i, text in enumerate(texts)]
    settings = PLAIN._replace(k1=k1, b=b)
    for question in (["rock", "music"], ["garden"], ["train", "paint", "lamp", "unheard"]):
        words = [tokenize(word)[0] for word in question]
        expected = okapi(words, [passage.terms.split() for passage in passages], k1=k1, b=b)
        weights = counted(passages).frequencies
        attainable = sum(idf(weights.get(word, 0), len(passages)) for word in words)
        found = {
            entry.key: entry.share * attainable
            for entry in ranked(" ".join(question), passages, settings=settings)
        }
        assert set(found) == {i for i, score in enumerate(expected) if score}
        for i, score in found.items():
            assert score == pytest.approx(expected[i], abs=1e-6)


def test_nothing_comes_of_nothing() -> None:
    passages = [record(1, "rock music")]
    assert ranked("", passages) == []
    assert ranked("of ?", passages) == []
    assert ranked("unheard", passages) == []
    assert ranked("rock", []) == []
    assert (
        rank(parse_query("rock"), passages, statistics=TermStatistics(passages=0, mean_length=0.0))[0].key
        == 1
    )


# -- records -------------------------------------------------------------------------------------------


def test_words_together_stand_above_the_same_words_apart() -> None:
    passages = [record(2, "plays rock. He enjoys music"), record(1, "Rocky loves rock music")]
    found = ranked("rock music", passages)
    assert keys(found) == [1, 2]
    assert found[0].parts["pairs"] > 0
    assert "pairs" not in found[1].parts


def test_a_rule_stands_first_where_something_is_asked_to_be_done() -> None:
    fact = record(1, "the letter to the teachers is in the drawer")
    rule = record(2, "letters to teachers are signed with the full name of both parents")
    rule = rule._replace(kind="preference")
    assert keys(ranked("where is the letter to the teachers?", [fact, rule])) == [1, 2]
    assert keys(ranked("write a letter to the teachers", [fact, rule])) == [2, 1]


# -- turns ---------------------------------------------------------------------------------------------


def test_a_turn_answers_the_question_before_it() -> None:
    talk = [
        "Which instrument do you play?",
        "The violin, since childhood.",
        "Lovely weather today, is it?",
        "Yes indeed.",
    ]
    found = ranked("instrument", [turn(i, text) for i, text in enumerate(talk)])
    answer = next(entry for entry in found if entry.key == 1)
    assert answer.parts["neighbours"] > 0
    assert list(answer.list_matches()) == ["instrument"]
    assert "words" not in answer.parts


def test_in_my_question_my_own_turn_comes_first_where_somebody_is_the_user() -> None:
    talk = [turn(0, "paint the river blue"), turn(9, "paint the river blue", speaker="assistant")]
    assert keys(ranked("How do I paint my river?", talk)) == [0, 9]
    assert keys(ranked("How to paint the river?", talk)) == [9, 0]
    named = [passage._replace(speaker=name) for passage, name in zip(talk, ("ann", "bob"), strict=True)]
    assert "speaker" not in ranked("How do I paint my river?", named)[0].parts


def test_a_turn_of_the_day_named_comes_first_and_one_after_it_before_one_before_it() -> None:
    talk = [
        turn(0, "river trip", at=DAY - timedelta(days=4), thread=1),
        turn(1, "river trip", at=DAY, thread=2),
        turn(2, "river trip", at=DAY + timedelta(days=4), thread=3),
        turn(3, "river trip", at=DAY + timedelta(days=400), thread=4),
    ]
    assert keys(ranked("river on 8 May 2023", talk))[:3] == [1, 2, 0]
    assert keys(ranked("river on 8 May", talk))[0] == 1
    assert keys(ranked("river in May 2023", talk))[-1] == 3
    assert keys(ranked("river in 2024", talk))[0] == 3


def test_short_orders() -> None:
    rocks = [record(1, "rock", at=5), record(2, "rock", at=9), record(3, "rock", at=5)]
    lengths = [record(i, "rock " * i) for i in range(1, 6)]
    rivers = [turn(0, "painting a river", speaker="bob"), turn(9, "painting a river", speaker="ann")]
    long = " ".join(f"word{i}" for i in range(RankingSettings().enough))
    names = ["Ann", "Bob"]
    for why, question, passages, expected in [
        ("the beginning of a word is not the word", "rock", [record(1, "rocket"), record(2, "a rock")], [2]),
        (
            "the name of a speaker is a word of records",
            "What does Ann paint?",
            [record(1, "Ann paints"), record(2, "Bob paints")],
            [1, 2],
        ),
        ("of equals the newest, then the larger key", "rock", rocks, [2, 3, 1]),
        (
            "no neighbour from another session",
            "violin",
            [turn(0, "the violin", thread=1, position=0), turn(1, "yes", thread=2, position=1)],
            [0],
        ),
        ("no neighbour from far away", "violin", [turn(0, "the violin"), turn(9, "yes")], [0]),
        (
            "a long turn needs no neighbour",
            "violin",
            [turn(0, "the violin"), turn(1, long), turn(2, "yes indeed")],
            [0, 2],
        ),
        ("the named speaker", "What did Bob paint?", rivers, [0, 9]),
        ("the named speaker", "What did Ann paint?", rivers, [9, 0]),
        (
            "a time for a question for a time",
            "When was the river trip?",
            [turn(0, "the river trip was last Friday"), turn(9, "the river trip was surely lovely")],
            [0, 9],
        ),
        (
            "a number for a question for a number",
            "How many cats?",
            [turn(0, "saw seven cats at the river"), turn(9, "saw several cats at the river")],
            [0, 9],
        ),
        (
            "a turn that tells before one that asks",
            "river garden",
            [turn(0, "The river garden is open"), turn(9, "Is the river garden open?")],
            [0, 9],
        ),
    ]:
        assert keys(ranked(question, passages, speakers=names)) == expected, why
    mixed = ranked("violin", [turn(0, "the violin"), turn(1, "yes"), record(2, "a violin")])
    assert set(keys(mixed)) == {0, 1, 2}
    assert keys(ranked("rock", lengths, limit=2)) == keys(ranked("rock", lengths))[:2]


# -- laws ----------------------------------------------------------------------------------------------


@given(QUESTION, TEXTS, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_pool_and_repeats_in_it_change_nothing(
    question: str, texts: list[str], as_turns: bool, dice: random.Random
) -> None:
    passages = [(turn if as_turns else record)(i, text) for i, text in enumerate(texts)]
    mixed = [*passages, *passages[:3]]
    dice.shuffle(mixed)
    again = rank(parse_query(question), mixed, statistics=counted(passages))
    assert shown(again) == shown(ranked(question, passages))


@given(QUESTION, TEXTS, st.booleans())
def test_scores_are_in_range_and_their_parts_add_up(question: str, texts: list[str], as_turns: bool) -> None:
    found = ranked(question, [(turn if as_turns else record)(i, text) for i, text in enumerate(texts)])
    for entry in found:
        assert 0 < entry.relevance < 1
        assert 0 < entry.coverage <= 1
        assert sum(entry.parts.values()) == pytest.approx(entry.share)
        assert set(entry.list_matches()) <= set(parse_query(question).tokens)
    assert [entry.share for entry in found] == sorted((entry.share for entry in found), reverse=True)
    assert [entry.relevance for entry in found] == sorted((entry.relevance for entry in found), reverse=True)


@given(st.floats(0, 50), st.floats(0, 50))
def test_relevance_grows_with_the_evidence_and_stays_below_one(a: float, b: float) -> None:
    assert 0 <= compute_relevance(a) < 1
    if a < b:
        assert compute_relevance(a) <= compute_relevance(b)


def test_a_long_record_ranks_as_its_best_part() -> None:
    filler = "nothing of note happened at the harbour that day and the boats stayed in " * 40
    long = record(1, f"{filler} the spare key hangs behind the barometer {filler}")
    short = [record(key, f"the key of cabin {key} is green") for key in range(2, 6)]
    query = parse_query("where does the spare key hang?")
    statistics = TermStatistics(passages=5, mean_length=60.0, frequencies={"spare": 1, "key": 5, "hang": 1})
    assert rank(query, [long, *short], statistics=statistics)[0].key == 1
    whole = rank(query, [long], statistics=statistics, settings=RankingSettings(long=100_000))[0]
    (best,) = rank(query, [long], statistics=statistics)
    assert best.relevance > 1.5 * whole.relevance
    assert set(best.list_matches()) >= {"spare", "key"}


def test_the_form_of_a_long_text_does_not_count() -> None:
    filler = " ".join(f"word{number}" for number in range(90))
    asking, telling = f"the pump is loud? {filler}", f"the pump is loud. {filler}"
    for texts, is_equal in (((asking, telling), True), (("the pump is loud?", "the pump is loud."), False)):
        scores = [ranked("pump", [turn(1, text)])[0].share for text in texts]
        assert (scores[0] == scores[1]) is is_equal
