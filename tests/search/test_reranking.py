"""New scores of the first candidates: what they share with the question counts."""

from __future__ import annotations

from reverie.domain.passage import Passage
from reverie.search import reranking, scoring
from reverie.search.query import parse_query
from reverie.search.ranking import TermStatistics, rank


def text(words, length):
    return "".join(f" {word} " for word in [*words.split(), *["other"] * (length - len(words.split()))])


def test_of_equal_scores_the_record_with_more_of_the_question_is_better():
    passages = [Passage(1, text("harbour wall crane", 8), 8), Passage(2, text("crane", 8), 8)]
    frequencies = {"harbour": 3, "crane": 2, "boiler": 1, "wall": 9}
    statistics = TermStatistics(passages=100, mean_length=8.0, frequencies=frequencies)
    ranked = rank(parse_query("harbour wall crane boiler"), passages, statistics=statistics)
    score = scoring.score(0.4, age_days=1, importance=0.5, confidence=0.8, kind="fact")
    scores = reranking.compute_scores([(entry, score) for entry in ranked])
    by_key = dict(zip([entry.key for entry in ranked], scores, strict=True))
    assert 1.0 >= by_key[1] > by_key[2] > 0.0
