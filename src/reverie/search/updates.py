"""Order of records of which one says what became of another.

A logistic regression tells, from the words that two records of one scope and category share and from the time between
them, whether the newer one tells what became of the older one. Then it stands first, unless the query asks for the
past, or for what only the older one names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, lru_cache
from math import log
from operator import mul
from typing import NamedTuple

from reverie.domain.filter import is_valid_at
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.passage import Passage
from reverie.domain.record import SUPERSEDED_BY, Record
from reverie.domain.text.calendar_words import MONTHS, WEEKDAYS
from reverie.domain.text.languages import DEFAULT, WIDESPREAD, get_function_words
from reverie.domain.text.tokenizer import STOP_WORDS, stem
from reverie.search.common_words import get_shares
from reverie.search.hits import Explanation, Hit

NOT_HOLDING = 0.5
"""What the score of a record counts for that held before, or will hold later."""

COMPARED = 12
"""Hits at the head of the list among which a newer one is looked for."""

HEAD = 5
"""Hits at the head of the list for which a newer one is looked for."""

_LONGEST = 60
"""Tokens; what is longer tells of several things, and shares words with anything."""

_PARALLEL = 0.5
"""Share of the words of two records that both have, from which they say the same of one thing or of two."""

_HOLDERS = 2
"""Records that have a rare word: these two."""

_RARE = 0.03
"""Share of all records that have a rare word, at most, if that is more."""

_MOST_HOLDERS = 8
"""Records that have a rare word, at most, however many there are."""

_LATER = 3_600.0
"""Seconds that must lie between them: what is saved within an hour is usually told at once."""

_DAY = 86_400.0
_MOST_DAYS = 365.0
"""Days between two records, at most, that tell something; the people of `evaluation/training` tell of hardly more."""

_LEAST_SCORE = 1e-6

_MOST_ENDED = 8
"""Records that ended each other and are followed from one to the next, at most."""

_SHORTEST_SHARED = 3
_HIRAGANA = defer_regex("[\u3040-\u309f]")

_PAST = defer_regex(
    r"\b(?:before|previous(?:ly)?|former(?:ly)?|used to|earlier|originally|at first|back then|no longer|any ?more"
    r"|antes|anterior(?:mente)?|fr(?:ü|ue)her|vorher|damals|zuvor|avant|autrefois|prima|vroeger|dawniej|раньше)\b"
    r"|以前|まえは|前は|もともと|原来|从前|之前",
    re.IGNORECASE,
)


class Matched(NamedTuple):
    """A record's passage and its score."""

    passage: Passage
    score: float


class SuccessionSettings(NamedTuple):
    """Coefficients of the logistic regression that tells whether a record replaces an older one of its category.

    `scripts/fit_succession.py` fits them to `evaluation/training`. The sum is compared with 0.

    Attributes:
        constant: The fitted constant, with 1.5 added: it pays to change places at odds of 1 to 4.5.
        contained: For the share of the words of the shorter record that the other has too, 0 to 1.
        score: For the share of the older record's score that the newer one has.
        days: For the natural logarithm of the days between them.
        place: For each hit before the older one.
        older_length: For each content word of the older one.
        newer_length: For each content word of the newer one.
        rare: For each rare word that both have; see `RareWords`.
        alike: For the nearness of their vectors, in standard deviations among the records that are compared.
        change: For a newer one that tells of a change, as "moved", "now", "no longer" do.
    """

    constant: float = -10.5
    contained: float = 10.0
    score: float = 3.0
    days: float = 0.9
    place: float = -0.55
    older_length: float = -0.24
    newer_length: float = 0.17
    rare: float = 1.9
    alike: float = 0.0
    change: float = 2.0

    def list_weights(self) -> tuple[float, ...]:
        """Return what the quantities of `measure_pair` are multiplied by, in their order."""
        return (
            self.contained,
            self.score,
            self.days,
            self.place,
            self.older_length,
            self.newer_length,
            self.rare,
            self.alike,
        )


DEFAULTS = SuccessionSettings()
"""For records without vectors."""

WITH_VECTORS = SuccessionSettings(
    constant=-12.7,
    contained=6.3,
    score=4.0,
    days=0.8,
    place=-0.7,
    older_length=-0.22,
    newer_length=0.25,
    rare=1.65,
    alike=1.3,
    change=2.0,
)
"""For two records with vectors, of which words need to tell less."""


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
    language: str = DEFAULT,
    get_likeness: Callable[[int, int], float | None] | None = None,
) -> list[int]:
    """Return the places of the matches, best first, with what is newer before what it seems to replace.

    Args:
        matches: Best first.
        asked: The tokens of the query, and how many records of the searched scopes have each.
        get_records: Gives the records of passages by their keys; None for one that has gone. Called at most once.
        rare_words: The rare words of passages.
        language: The query's.
        get_likeness: Gives how near the vectors of two records are to each other, by their keys, in standard
            deviations, or None unless both have one; None without vectors.
    """
    order = list(range(len(matches)))
    records: Sequence[Record | None] = ()
    for place in range(1, len(matches)):
        newer = matches[place]
        for older in order[: min(HEAD, order.index(place))]:
            before = matches[older]
            if not is_later(newer.passage, before.passage):
                continue
            rare = sum(f" {word} " in newer.passage.terms for word in rare_words.get(before.passage))
            alike = None if get_likeness is None else get_likeness(newer.passage.key, before.passage.key)
            settings = DEFAULTS if alike is None else WITH_VECTORS
            quantities = measure_pair(newer, before, older, rare, language, alike or 0.0)
            total = settings.constant + sum(map(mul, settings.list_weights(), quantities))
            if total + settings.change <= 0.0 or is_parallel(newer.passage, before.passage, asked, language):
                continue
            records = records or get_records([match.passage.key for match in matches])
            one, other = records[place], records[older]
            if one is None or other is None or (one.category, one.scope) != (other.category, other.scope):
                continue
            changes = tells_of_change(one.content)
            if total + settings.change * changes > 0.0 and (
                changes or not lacks_number(one.content, other.content)
            ):
                order.remove(place)
                order.insert(order.index(older), place)
                break
    return order


def measure_pair(
    newer: Matched, older: Matched, place: int, rare: int, language: str, alike: float
) -> tuple[float, ...]:
    """Return the quantities of two records, in the order of `SuccessionSettings.list_weights`.

    Args:
        newer: The record that was told later.
        older: The one that stands before it.
        place: The number of hits before the older one.
        rare: The number of rare words that both have.
        language: The query's.
        alike: The nearness of their vectors.
    """
    words, others = _list_words(older.passage, language), _list_words(newer.passage, language)
    shared = len(set(words).intersection(others))
    return (
        shared / (min(len(words), len(others)) or 1),
        newer.score / max(older.score, _LEAST_SCORE),
        log(min((newer.passage.at - older.passage.at) / _DAY, _MOST_DAYS)),
        place,
        len(words),
        len(others),
        rare,
        alike,
    )


def is_parallel(newer: Passage, older: Passage, asked: Mapping[str, int], language: str) -> bool:
    """Return whether the newer record says of another thing what the older one says of the one that is asked for.

    A question for Leo's dentist is answered by "Leo's dentist is Dr Marsh", whatever was said of Nora's since.
    """
    named = {word: count for word, count in asked.items() if f" {word} " in older.terms}
    least = min(named.values(), default=0)
    if not named or any(f" {word} " in newer.terms for word, count in named.items() if count == least):
        return False
    words, others = _list_words(older, language), _list_words(newer, language)
    return 2 * len(set(words).intersection(others)) >= _PARALLEL * (len(words) + len(others))


def tells_of_change(text: str) -> bool:
    """Return whether a text says that something is not as it was."""
    from reverie.domain.similarity.supersession import may_supersede  # here: few searches need its patterns

    return may_supersede(text)


def lacks_number(newer: str, older: str) -> bool:
    """Return whether one text has digits and a newer one has none, so that it does not tell the same."""
    return _has_digit(older) and not _has_digit(newer)


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


def put_ended_first(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, best first, with each record that was ended before the record that ended it."""
    scores = {hit.id: hit.score for hit in hits}
    for hit in hits:
        ended_by = hit.record.metadata.get(SUPERSEDED_BY, "") if hit.record else ""
        if scores.get(ended_by, 0.0) > scores[hit.id]:
            scores[hit.id], scores[ended_by] = scores[ended_by], scores[hit.id]
    return sorted((replace(hit, score=scores[hit.id]) for hit in hits), key=lambda hit: -hit.score)


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
