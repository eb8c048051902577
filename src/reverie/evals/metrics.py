"""Standard measures of retrieval, for one question and over many. Pure.

A ranking is the list of ids found, best first; evidence is a mapping of the ids to find to their grades. Sources:
Järvelin & Kekäläinen (2002) for nDCG, with the grade itself as gain (as in trec_eval).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence


def recall(ranking: Sequence[str], evidence: Mapping[str, float], k: int) -> float:
    """Return the share of the evidence among the first `k`.

    >>> recall(["a", "x", "b"], {"a": 1, "b": 1}, 2)
    0.5
    """
    return len(set(ranking[:k]) & set(evidence)) / len(evidence)


def score_any(ranking: Sequence[str], evidence: Mapping[str, float], k: int) -> float:
    """Return 1 if any of the evidence is among the first `k`, else 0."""
    return float(not evidence.keys().isdisjoint(ranking[:k]))


def score_all(ranking: Sequence[str], evidence: Mapping[str, float], k: int) -> float:
    """Return 1 if all of the evidence is among the first `k`, else 0."""
    return float(evidence.keys() <= set(ranking[:k]))


def ndcg(ranking: Sequence[str], evidence: Mapping[str, float], k: int) -> float:
    """Return the discounted gain of the first `k`, as a share of the best order's.

    >>> ndcg(["a", "b"], {"a": 1, "b": 3}, 2) < ndcg(["b", "a"], {"a": 1, "b": 3}, 2) == 1.0
    True
    """
    seen: set[str] = set()
    gains = []
    for found in ranking[:k]:
        gains.append(0.0 if found in seen else evidence.get(found, 0.0))
        seen.add(found)
    return _discount_gains(gains) / _discount_gains(sorted(evidence.values(), reverse=True)[:k])


def _discount_gains(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def reciprocal_rank(ranking: Sequence[str], evidence: Mapping[str, float]) -> float:
    """Return 1 / the rank of the first evidence, 0 if there is none.

    >>> reciprocal_rank(["x", "a"], {"a": 1})
    0.5
    """
    return next((1 / place for place, found in enumerate(ranking, start=1) if found in evidence), 0.0)


def compute_measures(
    ranking: Sequence[str], evidence: Mapping[str, float], ks: Sequence[int]
) -> dict[str, float]:
    """Return every measure of one question: `recall@k`, `any@k`, `all@k`, `ndcg@10`, `mrr`.

    Args:
        ranking: Ids found, best first.
        evidence: Ids to find, with grades; not empty.
        ks: Depths of the ranking.
    """
    found: dict[str, float] = {}
    for name, measure in (("recall", recall), ("any", score_any), ("all", score_all)):
        found |= {f"{name}@{k}": measure(ranking, evidence, k) for k in ks}
    return found | {"ndcg@10": ndcg(ranking, evidence, 10), "mrr": reciprocal_rank(ranking, evidence)}


def compute_means(questions: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every measure over the questions, each with the same weight (macro)."""
    if not questions:
        return {}
    return {name: statistics.fmean(one[name] for one in questions) for name in questions[0]}


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile, interpolated between neighbours; 0 for no values.

    >>> percentile([1.0, 2.0, 3.0], 0.5)
    2.0
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def measure_abstention(answerable: Sequence[bool], empty: Sequence[bool]) -> dict[str, float | None]:
    """Return precision and recall of the answer "nothing relevant".

    Args:
        answerable: For each question, whether it has an answer.
        empty: For each question, whether the search returned nothing.

    Returns:
        `abstain_precision`, the share of empty searches without an answer; `abstain_recall`, the share of unanswerable
        questions with an empty search; `answerable_empty`, the share of answerable questions with an empty search.
        None for a share of nothing.
    """
    right = sum(nothing and not answer for answer, nothing in zip(answerable, empty, strict=True))
    unanswerable = sum(not answer for answer in answerable)
    return {
        "abstain_precision": _compute_share(right, sum(empty)),
        "abstain_recall": _compute_share(right, unanswerable),
        "answerable_empty": _compute_share(sum(empty) - right, len(answerable) - unanswerable),
    }


def _compute_share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
