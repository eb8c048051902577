"""Order of records of which one says what became of another.

Two records tell of the same thing if they match the same words of a query and share another word. Then the newer one
tells what holds now, and stands first, unless the query asks for the past.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reverie.domain.passage import Passage
from reverie.domain.text.tokenizer import STOP_WORDS

__all__ = ["COMPARED", "Matched", "asks_for_past", "order_by_time"]

COMPARED = 5
"""Hits at the head of the list that are compared."""

_SAME_MATCH = 0.8
"""Share of the older record's matched weight that the newer one must match, too."""

_COMPARABLE = 0.6
"""Share of the older record's score that the newer one must have."""

_LATER = 3_600.0
"""Seconds that must lie between them: what is saved within an hour is usually told at once."""

_SHORTEST_SHARED = 3

_PAST = re.compile(
    r"\b(?:before|previous(?:ly)?|former(?:ly)?|used to|earlier|originally|at first|back then|no longer|any ?more"
    r"|antes|anterior(?:mente)?|fr(?:ü|ue)her|vorher|damals|zuvor|avant|autrefois|prima|vroeger|dawniej|раньше)\b"
    r"|以前|まえは|前は|もともと|原来|从前|之前",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Matched:
    """A record's passage, its score, and the weight of each word of the query that it has."""

    passage: Passage
    score: float
    weights: dict[int, float]


def asks_for_past(text: str) -> bool:
    """Return whether a query asks for what held before.

    Example:
        >>> asks_for_past("Where did I live before?"), asks_for_past("Where do I live?")
        (True, False)
    """
    return _PAST.search(text) is not None


def order_by_time(matches: Sequence[Matched], asked: Collection[str]) -> list[int]:
    """Return the places of the matches, best first, with what is newer before what it seems to replace.

    Args:
        matches: Best first.
        asked: The tokens of the query.
    """
    order = list(range(len(matches)))
    for place in range(1, min(COMPARED, len(matches))):
        newer = matches[place]
        for position, other in enumerate(order[: order.index(place)]):
            if _replaces(newer, matches[other], asked):
                order.remove(place)
                order.insert(position, place)
                break
    return order


def _replaces(newer: Matched, older: Matched, asked: Collection[str]) -> bool:
    if newer.passage.at - older.passage.at < _LATER or newer.score < _COMPARABLE * older.score:
        return False
    total = sum(older.weights.values())
    common = sum(weight for term, weight in older.weights.items() if term in newer.weights)
    return total > 0.0 and common >= _SAME_MATCH * total and _share_word(newer.passage, older.passage, asked)


def _share_word(one: Passage, other: Passage, asked: Collection[str]) -> bool:
    """Return whether both passages have a word beside function words and those that were asked for."""
    shared = (set(one.terms.split()) & set(other.terms.split())).difference(asked)
    return any(len(word) >= _SHORTEST_SHARED and word not in STOP_WORDS for word in shared)
