"""Order of records of which one says what became of another.

Two records of one scope and category tell of the same thing if they share a word that hardly any other has, or if
they match the same words of a query. Then the newer one tells what holds now, and stands first, unless the query asks
for the past.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from reverie.domain.passage import Passage
from reverie.domain.record import Record
from reverie.domain.text.tokenizer import STOP_WORDS, tokenize

__all__ = ["COMPARED", "Matched", "asks_for_past", "order_by_time"]

COMPARED = 12
"""Hits at the head of the list among which a newer one is looked for."""

_HEAD = 5
"""Hits at the head of the list for which a newer one is looked for."""

_LONGEST = 60
"""Tokens; what is longer tells of several things, and shares words with anything."""

_SAME_MATCH = 0.8
"""Share of the older record's matched weight that the newer one must match, too."""

_COMPARABLE = 0.6
"""Share of the older record's score that the newer one must have if they are known by the words of the query."""

_LEAST = 0.1
"""The same if they are known by a rare word."""

_HOLDERS = 2
"""Candidates that have a rare word: these two."""

_RARE = 0.03
"""Share of all records that have a rare word, at most."""

_LATER = 3_600.0
"""Seconds that must lie between them: what is saved within an hour is usually told at once."""

_SHORTEST_SHARED = 3

_PAST = re.compile(
    r"\b(?:before|previous(?:ly)?|former(?:ly)?|used to|earlier|originally|at first|back then|no longer|any ?more"
    r"|antes|anterior(?:mente)?|fr(?:ü|ue)her|vorher|damals|zuvor|avant|autrefois|prima|vroeger|dawniej|раньше)\b"
    r"|以前|まえは|前は|もともと|原来|从前|之前",
    re.IGNORECASE,
)


class Matched(NamedTuple):
    """A record's passage, its score, and what gives the weight of each word of the query that it has."""

    passage: Passage
    score: float
    get_weights: Callable[[], Mapping[int, float]]


def asks_for_past(text: str) -> bool:
    """Return whether a query asks for what held before.

    Example:
        >>> asks_for_past("Where did I live before?"), asks_for_past("Where do I live?")
        (True, False)
    """
    return _PAST.search(text) is not None


def order_by_time(
    matches: Sequence[Matched],
    asked: Collection[str],
    *,
    get_records: Callable[[Sequence[int]], Sequence[Record | None]],
    count: Callable[[Sequence[str]], Mapping[str, int]],
    passages: int,
) -> list[int]:
    """Return the places of the matches, best first, with what is newer before what it seems to replace.

    Args:
        matches: Best first.
        asked: The tokens of the query.
        get_records: Gives the records of passages by their keys; None for one that has gone. Called at most once.
        count: Gives how many records of the searched scopes have each token.
        passages: How many records the searched scopes have.
    """
    order = list(range(len(matches)))
    words: dict[int, list[str]] = {}
    records: Sequence[Record | None] = ()
    for place in range(1, min(COMPARED, len(matches))):
        newer = matches[place]
        for older in order[: min(_HEAD, order.index(place))]:
            if not _may_replace(newer, matches[older]):
                continue
            terms = newer.passage.terms
            if older not in words:
                words[older] = _list_words(matches[older].passage)
            shared = [word for word in words[older] if f" {word} " in terms]
            rare = {
                word for word in shared if word not in asked and _count_holders(word, matches) <= _HOLDERS
            }
            by_query = len(shared) > 1 and _matches_the_same(newer, matches[older])
            if not rare and not by_query:
                continue
            records = records or get_records([match.passage.key for match in matches[:COMPARED]])
            one, other = records[place], records[older]
            if one is None or other is None or (one.category, one.scope) != (other.category, other.scope):
                continue
            rare.difference_update(tokenize(one.category or ""))
            if by_query or any(
                held <= max(_HOLDERS, _RARE * passages) for held in count(sorted(rare)).values()
            ):
                order.remove(place)
                order.insert(order.index(older), place)
                break
    return order


def _may_replace(newer: Matched, older: Matched) -> bool:
    return (
        newer.passage.at - older.passage.at >= _LATER
        and newer.score >= _LEAST * older.score
        and max(newer.passage.length, older.passage.length) <= _LONGEST
    )


def _matches_the_same(newer: Matched, older: Matched) -> bool:
    """Return whether two records match the same words of the query."""
    if newer.score < _COMPARABLE * older.score:
        return False
    weights, others = older.get_weights(), newer.get_weights()
    common = sum(weight for term, weight in weights.items() if term in others)
    return 0.0 < _SAME_MATCH * sum(weights.values()) <= common


def _count_holders(word: str, matches: Sequence[Matched]) -> int:
    return sum(f" {word} " in match.passage.terms for match in matches)


def _list_words(passage: Passage) -> list[str]:
    """Return the words of a passage that can tell what it is about."""
    words = dict.fromkeys(passage.terms.split())
    return [word for word in words if len(word) >= _SHORTEST_SHARED and word not in STOP_WORDS]
