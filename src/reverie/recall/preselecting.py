"""Which of many matches are worth ranking? The best by BM25 over one word at a time, within a scope.

An index that knows only the frequencies of all scopes must not choose for one of them: what others hold
would decide. So more matches are fetched than are ranked, and chosen here by the scope's own statistics,
with the constants that the index has for its own choice (k1 1.2, b .75). `ranking` looks at those closely.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import log

from reverie.passages import Passage, Wanted
from reverie.recall.ranking import Statistics, idf

_K1, _B = 1.2, 0.75


def preselected(
    wanted: Wanted, passages: Iterable[Passage], *, statistics: Statistics, limit: int
) -> list[Passage]:
    """The passages that fit best, at most `limit`; of those that fit equally well the newest keys.

    Args:
        wanted: What to look for.
        passages: The matches.
        statistics: Counts over the caller's scopes.
        limit: At most so many.
    """
    known = list(passages)
    if len(known) <= limit:
        return known
    words = [
        (f" {token} ", weight * idf(frequency, statistics.passages))
        for token, weight in wanted.words
        if (frequency := statistics.frequencies.get(token, 0))
    ]
    days = [(f" {token} ", weight * log(1 + statistics.passages)) for token, weight in wanted.dates]
    flat, slope = _K1 * (1 - _B), _K1 * _B / statistics.mean_length
    scored = []
    for passage in known:
        score = sum(weight for needle, weight in days if needle in passage.dates)
        norm = flat + slope * passage.length
        for needle, weight in words:
            if times := passage.terms.count(needle):
                score += weight * times / (times + norm)
        scored.append((score, passage.key, passage))
    scored.sort(key=lambda one: one[:2], reverse=True)
    return [passage for _, _, passage in scored[:limit]]
