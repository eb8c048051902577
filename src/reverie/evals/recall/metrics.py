"""Standard measures of retrieval, for one question and over many. Pure.

A ranking is the ids found, best first; evidence is what should be found, id to grade. Järvelin &
Kekäläinen (2002) for nDCG, with the grade itself as gain (as trec_eval has it); Efron (1979) for the
percentile bootstrap; Wilson (1927) for the interval of a share.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence

SEED = 20_240_601
RESAMPLES = 1_000
_NORMAL_QUANTILE = 1.959964  # leaves 2.5 % on either side


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
        ranking: What was found, best first.
        evidence: What should be found; not empty.
        ks: How far to look.
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


def compute_intervals(questions: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each mean, by the percentile bootstrap over the measures of questions.

    The same questions always give the same interval.
    """
    if not questions:
        return {}
    generator = random.Random(SEED)
    count = len(questions)
    columns = {name: [one[name] for one in questions] for name in questions[0]}
    drawn: dict[str, list[float]] = {name: [] for name in columns}
    for _ in range(RESAMPLES):
        sample = generator.choices(range(count), k=count)
        for name, column in columns.items():
            drawn[name].append(sum(map(column.__getitem__, sample)) / count)
    return {name: (percentile(values, 0.025), percentile(values, 0.975)) for name, values in drawn.items()}


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
        answerable: Of each question, whether something answers it.
        empty: Of each, whether the search returned nothing.

    Returns:
        `abstain_precision`, the share of empty searches that were right to be; `abstain_recall`, the
        share of the questions nobody can answer whose search was empty; `answerable_empty`, the share of
        the answerable ones whose search was. None where there is nothing to take a share of.
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


def compute_wilson_interval(part: int, whole: int) -> tuple[float, float] | None:
    """Return Wilson's 95 % score interval of `part` of `whole` observations; None for no observations.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212.

    >>> [round(end, 3) for end in compute_wilson_interval(10, 10)]
    [0.722, 1.0]
    """
    if not whole:
        return None
    share, z = part / whole, _NORMAL_QUANTILE
    spread = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    middle, scale = share + z * z / (2 * whole), 1 + z * z / whole
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
