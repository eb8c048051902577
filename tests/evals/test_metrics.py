"""The measures against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from evaluation.output import compute_wilson_interval

from reverie.evals import command

RANKING = ["x", "a", "y", "b", "c"]
EVIDENCE = {"a": 1.0, "b": 1.0, "d": 1.0}


def test_every_measure_of_a_question() -> None:
    found = command.compute_measures(RANKING, EVIDENCE, [1, 4])
    assert [found[f"recall@{k}"] for k in (1, 4)] == [0.0, 2 / 3]
    assert [found[f"any@{k}"] for k in (1, 4)] == [0.0, 1.0]
    assert (found["all@4"], found["mrr"]) == (0.0, 0.5)
    assert command.compute_measures(RANKING, {"a": 1.0, "b": 1.0}, [4])["all@4"] == 1.0
    assert command.compute_measures([], EVIDENCE, [1])["mrr"] == 0.0


def test_ndcg_with_grades_takes_the_grade_as_gain() -> None:
    grades = {"a": 4.0, "b": 2.0, "c": 1.0}
    found = 4 / math.log2(3) + 2 / math.log2(5) + 1 / math.log2(6)
    best = 4 + 2 / math.log2(3) + 1 / math.log2(4)
    assert command.ndcg(RANKING, grades, 10) == pytest.approx(found / best)


def test_abstention() -> None:
    answerable = [True, True, True, True, False, False, False]
    empty = [True, False, False, False, True, True, False]
    assert command.measure_abstention(answerable, empty) == {
        "abstain_precision": 2 / 3,
        "abstain_recall": 2 / 3,
        "answerable_empty": 1 / 4,
    }


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"), [(10, 10, 0.7225, 1.0), (0, 10, 0.0, 0.2775), (81, 263, 0.2553, 0.3662)]
)
def test_wilsons_interval_is_the_published_one(part: int, whole: int, low: float, high: float) -> None:
    # The last is Newcombe's example (1998, Statistics in Medicine 17, 857-872, table I, method 3).
    assert compute_wilson_interval(part, whole) == pytest.approx((low, high), abs=5e-5)
