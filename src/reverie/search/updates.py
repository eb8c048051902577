"""Order of records of which one says what became of another.

Two records of one scope and category tell of the same thing if they share words that hardly any other has, if
they match the same words of a query, or if their vectors are far nearer than most. Then the newer one tells what holds
now, and stands first, unless the query asks for the past, or for what only the older one names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import NamedTuple

from reverie.domain.filter import is_valid_at
from reverie.domain.passage import Passage
from reverie.domain.record import SUPERSEDED_BY, Record
from reverie.domain.similarity.supersession import may_supersede
from reverie.domain.text.calendar_words import MONTHS, WEEKDAYS
from reverie.domain.text.languages import DEFAULT, WIDESPREAD, get_function_words
from reverie.domain.text.tokenizer import STOP_WORDS, stem, tokenize
from reverie.search.common_words import get_shares
from reverie.search.hits import Explanation, Hit

__all__ = [
    "COMPARED",
    "HEAD",
    "NOT_HOLDING",
    "Matched",
    "RareWords",
    "asks_for_past",
    "is_later",
    "is_not_holding",
    "order_by_time",
    "put_successors_first",
]

NOT_HOLDING = 0.5
"""What the score of a record counts for that held before, or will hold later."""

COMPARED = 12
"""Hits at the head of the list among which a newer one is looked for."""

HEAD = 5
"""Hits at the head of the list for which a newer one is looked for."""

_LONGEST = 60
"""Tokens; what is longer tells of several things, and shares words with anything."""

_SAME_MATCH = 0.8
"""Share of the older record's matched weight that the newer one must match, too."""

_COMPARABLE = 0.6
"""Share of the older record's score that the newer one must have if they are known by the words of the query."""

_LEAST = 0.1
"""The same if they share a rare word that the query lacks."""

_SIMILAR = 0.4
"""The same if they share the rarest word of the query that the older one has, or are alike."""

_ALIKE = 0.25
"""Share of their words that two records have in common which are alike. On the open questions, what is outdated stands
first in .077 of the cases, and in .103 without; from .2 to .3 nothing changes."""

_PARALLEL = 0.5
"""The same of two records that differ in a name or a value and otherwise say the same of two things."""

_SURE = 2
"""Rare words that a record shares which the query does not find, or hardly."""

_ANSWERED = 0.8
"""Share of the query's weight that a record has which answers it by itself, and of a record's words that a query has
which quotes it."""

_SEVERAL = 2.0
"""How much more the words of the query weigh than the heaviest of them, in a record that answers it by itself, so that
one without a word of it does not replace it."""

_HOLDERS = 2
"""Records that have a rare word: these two."""

_RARE = 0.03
"""Share of all records that have a rare word, at most, if that is more."""

_MOST_HOLDERS = 8
"""Records that have a rare word, at most, however many there are."""

_BEGINNING = 3
"""Content words at the beginning of a record that name what it tells of."""

_LATER = 3_600.0
"""Seconds that must lie between them: what is saved within an hour is usually told at once."""

_MOST_ENDED = 8
"""Records that ended each other and are followed from one to the next, at most."""

_SHORTEST_SHARED = 3
_HIRAGANA = re.compile("[\u3040-\u309f]")

_PAST = re.compile(
    r"\b(?:before|previous(?:ly)?|former(?:ly)?|used to|earlier|originally|at first|back then|no longer|any ?more"
    r"|antes|anterior(?:mente)?|fr(?:ü|ue)her|vorher|damals|zuvor|avant|autrefois|prima|vroeger|dawniej|раньше)\b"
    r"|以前|まえは|前は|もともと|原来|从前|之前",
    re.IGNORECASE,
)


class Matched(NamedTuple):
    """A record's passage, its score, what gives the weight of each word of the query that it has, and their share."""

    passage: Passage
    score: float
    get_weights: Callable[[], Mapping[int, float]]
    coverage: float = 0.0


def asks_for_past(text: str) -> bool:
    """Return whether a query asks for what held before.

    Example:
        >>> asks_for_past("Where did I live before?"), asks_for_past("Where do I live?")
        (True, False)
    """
    return _PAST.search(text) is not None


class RareWords:
    """The words of short passages that another passage has, and hardly any more. For one query.

    Numbers, months and weekdays are none: what happens at one time need not be one thing.
    """

    def __init__(
        self, count: Callable[[Sequence[str]], Mapping[str, int]], passages: int, language: str = DEFAULT
    ) -> None:
        """Take how the words of the searched scopes are counted.

        Args:
            count: Gives how many records of the searched scopes have each token.
            passages: How many records the searched scopes have.
            language: The query's; words that are common in it are not rare, however few records have them.
        """
        self._count = count
        self._language = language
        self._most = max(_HOLDERS, min(_MOST_HOLDERS, _RARE * passages))
        self._known: dict[int, Sequence[str]] = {}
        self._held: dict[str, int] = {}

    def get(self, passage: Passage) -> Sequence[str]:
        """Return those of one passage; none for a long one."""
        known = self._known.get(passage.key)
        return self.of([passage])[0] if known is None else known

    def of(self, passages: Sequence[Passage]) -> list[Sequence[str]]:
        """Return those of each passage, counted at once; none for a long one."""
        unknown: dict[int, Sequence[str]] = {
            passage.key: _list_words(passage, self._language) if passage.length <= _LONGEST else ()
            for passage in passages
            if passage.key not in self._known
        }
        if words := list(dict.fromkeys(word for each in unknown.values() for word in each)):
            held = self._count(words)
            common = get_shares(words, self._language)
            self._held |= held
            unknown = {
                key: [
                    word
                    for word in each
                    if 2 <= held[word] <= self._most and word not in common and _names_a_thing(word)
                ]
                for key, each in unknown.items()
            }
        self._known |= unknown
        return [self._known[passage.key] for passage in passages]

    def select_missing(self, words: Collection[str], passages: Sequence[Passage]) -> list[str]:
        """Return those of the rare words, in order, that stand in other passages than these, too."""
        texts = [passage.terms for passage in passages]
        return sorted(word for word in words if self._held[word] > sum(f" {word} " in text for text in texts))


def is_not_holding(value: object, now: datetime | None) -> bool:
    """Return whether it is a record that held before, or will hold later; without a time nothing is."""
    return now is not None and isinstance(value, Record) and not is_valid_at(value, now)


def order_by_time(
    matches: Sequence[Matched],
    asked: Mapping[str, int],
    *,
    get_records: Callable[[Sequence[int]], Sequence[Record | None]],
    rare_words: RareWords,
    alike: Collection[tuple[int, int]] = frozenset(),
    language: str = DEFAULT,
) -> list[int]:
    """Return the places of the matches, best first, with what is newer before what it seems to replace.

    Args:
        matches: Best first.
        asked: The tokens of the query, and how many records of the searched scopes have each.
        get_records: Gives the records of passages by their keys; None for one that has gone. Called at most once.
        rare_words: The rare words of passages.
        alike: The pairs of keys of passages whose vectors are far nearer than most.
        language: The query's.
    """
    order = list(range(len(matches)))
    records: Sequence[Record | None] = ()
    for place in range(1, len(matches)):
        newer = matches[place]
        for older in order[: min(HEAD, order.index(place))]:
            before = matches[older]
            if not is_later(newer.passage, before.passage):
                continue
            shared = [word for word in rare_words.get(before.passage) if f" {word} " in newer.passage.terms]
            is_similar = newer.score >= _SIMILAR * before.score
            if not (shared or is_similar) or _is_quoted(before, newer, asked, language):
                continue
            if newer.score < _LEAST * before.score and _answers(before):
                continue
            overlap = _compute_overlap(newer.passage, before.passage, language)
            names_the_old = overlap < _PARALLEL and any(word not in asked for word in shared)
            if not names_the_old and _lacks_subject(newer, before):
                continue
            is_alike = is_similar and ((newer.passage.key, before.passage.key) in alike or overlap >= _ALIKE)
            if not (shared or is_alike or _matches_the_same(newer, before)):
                continue
            records = records or get_records([match.passage.key for match in matches])
            one, other = records[place], records[older]
            if one is None or other is None or (one.category, one.scope) != (other.category, other.scope):
                continue
            of_category = tokenize(one.category or "")
            shared = [word for word in shared if word not in of_category]
            names_the_old = overlap < _PARALLEL and any(word not in asked for word in shared)
            beginning = _list_words(newer.passage, language)[:_BEGINNING]
            is_of_subject = any(word in asked and word in beginning for word in shared)
            has_subject = is_of_subject and not _lacks_subject(newer, before)
            tells_of_change = may_supersede(one.content)
            if not tells_of_change and _has_digit(other.content) and not _has_digit(one.content):
                continue  # what the older one says in numbers, the newer one does not say
            ends_it = tells_of_change and (names_the_old or has_subject)
            if is_alike or ends_it or _replaces(newer, before, shared, asked):
                order.remove(place)
                order.insert(order.index(older), place)
                break
    return order


def is_later(newer: Passage, older: Passage) -> bool:
    """Return whether a short passage was told later than another, and not together with it."""
    return newer.at - older.at >= _LATER and max(newer.length, older.length) <= _LONGEST


def put_successors_first(
    hits: Sequence[Hit],
    now: datetime,
    get_records: Callable[[Sequence[str]], Sequence[Record | None]],
    is_wanted: Callable[[Record], bool],
) -> list[Hit]:
    """Return the hits with what holds now before each record that it ended, whether it was found or not.

    Args:
        hits: Best first; of what does not hold now the score counts `NOT_HOLDING`.
        now: The moment.
        get_records: Gives records by their ids; None for one that is missing.
        is_wanted: Whether a record may be shown.
    """
    found = {hit.id: hit for hit in hits}
    successors = _read_successors([hit.record for hit in hits if hit.record], now, get_records)
    for hit in hits:
        record = hit.record
        for _ in range(_MOST_ENDED):
            if record is None or is_valid_at(record, now):
                break
            record = successors.get(record.metadata.get(SUPERSEDED_BY, ""))
        if record is None or record is hit.record or not is_valid_at(record, now) or not is_wanted(record):
            continue
        score = min(1.0, hit.score / NOT_HOLDING)
        known = found.get(record.id)
        if known is None or known.score < score:
            own = Explanation(parts=hit.explanation.parts, note="holds now in place of a hit")
            why = known.explanation if known else own
            found[record.id] = Hit(score=score, explanation=why, record=record)
    return sorted(found.values(), key=lambda hit: -hit.score)


def _read_successors(
    records: Sequence[Record],
    now: datetime,
    get_records: Callable[[Sequence[str]], Sequence[Record | None]],
) -> dict[str, Record | None]:
    """Return the records, those that ended them, and those that ended these, by their ids.

    They are read together: one at a time, a search under load waited for the database a hundred times.
    """
    known: dict[str, Record | None] = {record.id: record for record in records}
    latest: Sequence[Record | None] = records
    for _ in range(_MOST_ENDED):
        ended_by = [
            each.metadata.get(SUPERSEDED_BY, "") for each in latest if each and not is_valid_at(each, now)
        ]
        missing = [name for name in dict.fromkeys(ended_by) if name and name not in known]
        if not missing:
            break
        latest = get_records(missing)
        known.update(zip(missing, latest, strict=True))
    return known


def _compute_overlap(one: Passage, other: Passage, language: str) -> float:
    """Return the share of the words of two passages that both have, 0 to 1."""
    words, others = _list_words(one, language), _list_words(other, language)
    return 2 * len(set(words).intersection(others)) / ((len(words) + len(others)) or 1)


def _list_words(passage: Passage, language: str) -> tuple[str, ...]:
    return _select_content(passage.terms, language)


@lru_cache(maxsize=512)  # of short passages: each is compared with several others
def _select_content(terms: str, language: str) -> tuple[str, ...]:
    function_words = STOP_WORDS if language == DEFAULT else get_function_words(language)
    return tuple([word for word in dict.fromkeys(terms.split()) if _is_content(word, function_words)])


def _is_content(word: str, function_words: Collection[str]) -> bool:
    """Return whether a word can tell what a text is about; pairs with hiragana are often grammar."""
    if word.isascii():
        return len(word) >= _SHORTEST_SHARED and word not in function_words
    return len(word) > 1 and _HIRAGANA.search(word) is None


def _names_a_thing(word: str) -> bool:
    return any(map(str.isalpha, word)) and word not in _list_calendar_words()


@cache
def _list_calendar_words() -> frozenset[str]:
    return frozenset(stem(word, language) for word in (*MONTHS, *WEEKDAYS) for language in WIDESPREAD)


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def _replaces(newer: Matched, older: Matched, shared: Sequence[str], asked: Mapping[str, int]) -> bool:
    """Return whether a newer record tells of the same thing as an older one, with which it shares some rare words."""
    if _matches_the_same(newer, older):
        return True
    unasked = sum(word not in asked for word in shared)
    if newer.score < _LEAST * older.score:  # at 0, it was only looked up by the rare words
        return newer.score > 0.0 and older.coverage < _ANSWERED and unasked >= _SURE
    if unasked:
        return True
    if newer.score < _SIMILAR * older.score:
        return False
    matched = {word: number for word, number in asked.items() if f" {word} " in older.passage.terms}
    rarest = min(matched.values(), default=0)
    return any(matched.get(word) == rarest for word in shared)


def _is_quoted(older: Matched, newer: Matched, asked: Collection[str], language: str) -> bool:
    """Return whether the query has nearly all words of the older record, and the newer one has much less of it."""
    if newer.coverage >= _SAME_MATCH * older.coverage:
        return False
    words = _list_words(older.passage, language)
    return sum(word in asked for word in words) >= _ANSWERED * len(words)


def _answers(match: Matched) -> bool:
    """Return whether a record has nearly all of a query of several words."""
    weights = match.get_weights().values()
    return match.coverage >= _ANSWERED and sum(weights) >= _SEVERAL * max(weights, default=1.0)


def _lacks_subject(newer: Matched, older: Matched) -> bool:
    """Return whether the newer record has none of the rarest words of the query that the older one has.

    A question for Leo's dentist is answered by "Leo's dentist is Dr Marsh", whatever was said of Nora's since.
    """
    weights, others = older.get_weights(), newer.get_weights()
    rarest = {term for term, weight in weights.items() if weight == max(weights.values())}
    return bool(rarest) and rarest.isdisjoint(others)


def _matches_the_same(newer: Matched, older: Matched) -> bool:
    """Return whether two records match the same words of the query."""
    if newer.score < _COMPARABLE * older.score:
        return False
    weights, others = older.get_weights(), newer.get_weights()
    common = sum(weight for term, weight in weights.items() if term in others)
    return 0.0 < _SAME_MATCH * sum(weights.values()) <= common
