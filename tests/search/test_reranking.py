"""New scores of the first candidates: what they share with the question counts, and long texts keep their order."""

from __future__ import annotations

import pytest

from reverie.domain.passage import Passage
from reverie.search import reranking, scoring
from reverie.search.query import parse_query
from reverie.search.ranking import RankingSettings, TermStatistics, rank


def compute(passages, question, *, total=None, mean_length=8.0):
    """Return the new scores by key, those with the highest old scores first."""
    frequencies = {"harbour": 3, "crane": 2, "boiler": 1, "wall": 9}
    statistics = TermStatistics(passages=100, mean_length=mean_length, frequencies=frequencies)
    ranked = rank(parse_query(question), passages, statistics=statistics, settings=RankingSettings())
    by_key = {passage.key: passage for passage in passages}
    known = {"age_days": 1, "importance": 0.5, "confidence": 0.8, "kind": "fact"}
    candidates = [
        (by_key[entry.key], entry, scoring.score(total or entry.relevance, **known)) for entry in ranked
    ]
    scores = reranking.compute_scores(candidates)
    return dict(zip([entry.key for entry in ranked], scores, strict=True))


def text(words, length):
    return "".join(f" {word} " for word in [*words.split(), *["other"] * (length - len(words.split()))])


def test_of_equal_scores_the_record_with_more_of_the_question_is_better():
    passages = [Passage(1, text("harbour wall crane", 8), 8), Passage(2, text("crane", 8), 8)]
    scores = compute(passages, "harbour wall crane boiler", total=0.4)
    assert 1.0 >= scores[1] > scores[2] > 0.0


@pytest.mark.parametrize("speaker", ["", "ann"], ids=["long records", "turns"])
def test_long_records_and_turns_keep_the_order_of_their_scores(speaker):
    place = {"thread": 1, "speaker": speaker, "kind": "turn"} if speaker else {}
    passages = [
        Passage(key, text(words, 80), 80, position=10 * key, **place)
        for key, words in enumerate(("wall", "harbour wall crane", "boiler", "crane crane"))
    ]
    scores = list(compute(passages, "harbour wall crane boiler", mean_length=80.0).values())
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]
