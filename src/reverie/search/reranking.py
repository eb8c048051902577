"""New scores of candidates by what they share with the question, which BM25 does not see.

A sum over words weighs a rare word of the question more than all others. Whether a short record answers depends as much
on how much of the question it has, in its own words or related ones. A linear function of such quantities takes the
place of the score. Turns keep their order, since what suits records makes LoCoMo and BEAM worse, and get scores that
compare with those of records; from one on that has the whole question itself, they keep their own. Collections of long
texts keep their scores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from math import exp, log
from operator import mul
from pkgutil import get_data
from typing import NamedTuple

from reverie.search.ranking import RankedPassage
from reverie.search.scoring import Score

_LEAST = 1e-6
_WHOLE = 0.9  # of the question's weight: no record stands before a turn that has it


class Quantities(NamedTuple):
    """Quantities of one candidate; for a turn, those from `covered` to `rule` are 0.

    Attributes:
        score: Natural logarithm of its score.
        covered: Share of the question's weight that its words have, each as far as it is similar, 0 to 1.
        literal: The share of words of the question itself, 0 to 1.
        date: Share of the attainable score from the date.
        rule: The share for a rule if the message is a request.
        message: 1 for a turn, 0 for a record.
        message_score: `score` of a turn.
    """

    score: float
    covered: float = 0.0
    literal: float = 0.0
    date: float = 0.0
    rule: float = 0.0
    message: float = 0.0
    message_score: float = 0.0


class RerankingSettings(NamedTuple):
    """Coefficients of the linear function. `scripts/fit_reranking.py` fits them to `evaluation/training`.

    Attributes:
        weights: The coefficients, in the order of `Quantities`.
        constant: What is added, so that new scores are about as large as the old ones.
        scale: Factor of the sum, for the same reason.
    """

    weights: Quantities
    constant: float
    scale: float


Candidate = tuple[RankedPassage, Score]


@cache
def load_settings() -> RerankingSettings:
    """Return the fitted settings."""
    data = json.loads(get_data(__package__, "reranking.json") or b"")
    return RerankingSettings(Quantities(**data["weights"]), data["constant"], data["scale"])


def compute_scores(candidates: Sequence[Candidate]) -> list[float]:
    """Return the new score of each candidate, above 0 and below 1, for records or turns found by one question."""
    settings = load_settings()
    measured = measure_candidates(candidates)
    if not measured:
        return [score.total for _, score in candidates]
    totals = (settings.constant + settings.scale * sum(map(mul, settings.weights, each)) for each in measured)
    scores = [1.0 / (1.0 + exp(-total)) for total in totals]
    turns = [(ranked, score.total) for ranked, score in candidates if ranked.passage.thread is not None]
    share = _WHOLE * sum(turns[0][0].scale.weights) if turns else 0.0
    least = min((total for ranked, total in turns if _sum_literal(ranked) >= share), default=1.0)
    return [
        max(new, score.total) if ranked.passage.thread is not None and score.total >= least else new
        for new, (ranked, score) in zip(scores, candidates, strict=True)
    ]


def _sum_literal(ranked: RankedPassage) -> float:
    """Return the weight of the words of the question that a passage itself has."""
    weights = ranked.scale.weights
    return sum([weights[place] for place, count in ranked.hits if count >= 1.0])


def measure_candidates(candidates: Sequence[Candidate]) -> list[Quantities]:
    """Return the quantities of candidates; none for records of a collection of long texts."""
    measured = []
    for ranked, score in candidates:
        before = log(score.total + _LEAST)
        if ranked.passage.thread is not None:
            measured.append(Quantities(before, message=1.0, message_score=before))
            continue
        scale = ranked.scale
        if scale.long > scale.settings.long:
            return []
        weights = scale.weights
        full = sum(weights) or 1.0
        covered = sum([weights[place] * (count if count < 1.0 else 1.0) for place, count in ranked.hits])
        measured.append(
            Quantities(
                before,
                covered / full,
                _sum_literal(ranked) / full,
                ranked.date / scale.attainable,
                ranked.rule / scale.attainable,
            )
        )
    return measured
