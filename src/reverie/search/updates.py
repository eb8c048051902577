"""Order of records of which a newer one replaces an older one.

A logistic regression decides by the common words of two records of one scope and category, and by the time between
them, whether the newer one replaces the older one. Then the newer one precedes, unless the query asks for the past, or
for something that only the older one names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from math import log
from operator import mul
from typing import NamedTuple

from reverie.domain.filter import is_valid_at
from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.passage import Passage
from reverie.domain.record import Record
from reverie.domain.text import specifics
from reverie.domain.text.dates import MONTHS, WEEKDAYS
from reverie.domain.text.languages import DEFAULT, WIDESPREAD, get_function_words
from reverie.domain.text.tokenizer import STOP_WORDS, stem
from reverie.search.hits import Hit
from reverie.search.related_words import get_shares

NOT_HOLDING = 0.5
"""Factor of the score of a record that does not hold now, but held before or will hold later."""

COMPARED = 12
"""First hits that are compared as newer ones."""

HEAD = 5
"""First hits that are compared as older ones."""

_LONGEST = 60
"""Most tokens of a compared record; longer ones have several topics and common words with many others."""

_PARALLEL = 0.5
"""Share of common words from which two records say the same of one thing, or of two things."""

_HOLDERS = 2
"""Least records with a rare word: the two compared ones."""

_RARE = 0.03
"""Largest share of records with a rare word, if that is more."""

_MOST_HOLDERS = 8
"""Most records with a rare word, in a memory of any size."""

_SURE = 0.9
"""Least probability of the pair model that counts for a text without a word of change."""

_LIKELY = 0.6
"""Least probability of the pair model from which a record on another thing may replace one."""

_LATER = 3_600.0
"""Least seconds between them, since records within an hour usually belong together."""

_DAY = 86_400.0
_MOST_DAYS = 365.0
"""Days between two records from which more make no difference; `evaluation/training` hardly has more."""

_LEAST_SCORE = 1e-6

_MOST_ENDED = 8
"""Most records that are followed from one to its successor."""

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
    """Coefficients of the logistic regression for whether a record replaces an older one of its category.

    `scripts/fit_succession.py` fits them to `evaluation/training`. The sum is compared with 0.

    Attributes:
        constant: The fitted constant plus 1.5, since a change of places pays at odds of 1 to 4.5.
        contained: For the share of the words of the shorter record that the other one has, 0 to 1.
        score: For the share of the older record's score that the newer one has.
        days: For the natural logarithm of the days between them.
        place: For each hit before the older one.
        older_length: For each content word of the older one.
        newer_length: For each content word of the newer one.
        rare: For each rare word that both have; see `RareWords`.
        alike: For the nearness of their vectors, in standard deviations among the compared records.
        change: For a newer one that reports a change, with words such as "moved", "now", "no longer".
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
        """Return the factors of the quantities of `measure_pair`, in their order."""
        return self[1:-1]


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
"""For two records with vectors."""


def asks_for_past(text: str) -> bool:
    """Return whether a query asks for the past.

    Example:
        >>> asks_for_past("Where did I live before?"), asks_for_past("Where do I live?")
        (True, False)
    """
    return _PAST.search(text) is not None


class RareWords:
    """Words of short passages that few other passages have. For one query.

    Numbers, months and weekdays do not count, because different things may happen at one time.
    """

    def __init__(
        self, count: Callable[[Sequence[str]], Mapping[str, int]], passages: int, language: str = DEFAULT
    ) -> None:
        """Create the rare words of the searched scopes.

        Args:
            count: Returns the number of records in the searched scopes with each token.
            passages: Number of records in the searched scopes.
            language: Language of the query, whose common words are never rare.
        """
        self._count = count
        self._language = language
        self._most = max(_HOLDERS, min(_MOST_HOLDERS, _RARE * passages))
        self._known: dict[int, Sequence[str]] = {}
        self._held: dict[str, int] = {}

    def get(self, passage: Passage) -> Sequence[str]:
        """Return the rare words of one passage; none for a long one."""
        known = self._known.get(passage.key)
        return self.of([passage])[0] if known is None else known

    def of(self, passages: Sequence[Passage]) -> list[Sequence[str]]:
        """Return the rare words of each passage, counted together; none for a long one."""
        unknown: dict[int, Sequence[str]] = {
            passage.key: _list_words(passage.terms, self._language) if passage.length <= _LONGEST else ()
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
                    if 2 <= held[word] <= self._most
                    and any(map(str.isalpha, word))
                    and word not in common
                    and word not in _list_calendar_words()
                ]
                for key, each in unknown.items()
            }
        self._known |= unknown
        return [self._known[passage.key] for passage in passages]

    def select_missing(self, words: Collection[str], passages: Sequence[Passage]) -> list[str]:
        """Return the rare words, in order, that other passages than these have too."""
        texts = [passage.terms for passage in passages]
        return sorted(word for word in words if self._held[word] > sum(f" {word} " in text for text in texts))


def is_not_holding(value: object, now: datetime | None) -> bool:
    """Return whether a value is a record that does not hold now; False without a time."""
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
    """Return the places of the matches, best first, with newer ones before those that they seem to replace.

    Args:
        matches: The matches, best first.
        asked: The tokens of the query, each with the number of records in the searched scopes.
        get_records: Returns the records of passages by their keys; None for a deleted one. Called at most once.
        rare_words: The rare words of passages.
        language: Language of the query.
        get_likeness: Returns the nearness of the vectors of two records by their keys, in standard deviations, or
            None unless both have one; None without vectors.
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
            if total + settings.change <= 0.0:
                continue
            records = records or get_records([match.passage.key for match in matches])
            one, other = records[place], records[older]
            if one is None or other is None or (one.category, one.scope) != (other.category, other.scope):
                continue
            if may_replace(newer.passage, before.passage, asked, language, one, other) and (
                total + settings.change * measure_change(one.content, other.content) > 0.0
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
        newer: The newer record.
        older: The older record, which ranks higher.
        place: The number of hits before the older one.
        rare: The number of rare words that both have.
        language: Language of the query.
        alike: The nearness of their vectors.
    """
    words, others = _list_words(older.passage.terms, language), _list_words(newer.passage.terms, language)
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
    """Return whether the newer record says the same as the older one, but of another thing than the question.

    A question for Leo's dentist is answered by "Leo's dentist is Dr Marsh", not by a newer record on Nora's.
    """
    named = {word: count for word, count in asked.items() if f" {word} " in older.terms}
    least = min(named.values(), default=0)
    if not named or any(f" {word} " in newer.terms for word, count in named.items() if count == least):
        return False
    words, others = _list_words(older.terms, language), _list_words(newer.terms, language)
    return 2 * len(set(words).intersection(others)) >= _PARALLEL * (len(words) + len(others))


def measure_change(newer: str, older: str) -> float:
    """Return how much the newer of two texts reports a change of the older one, from 0 to 1."""
    from reverie.domain.similarity.pair_model import is_comparable, judge_pair  # here: few searches need it

    if specifics.tells_of_change(newer):
        return 1.0
    if not (is_comparable(older) and is_comparable(newer)):
        return 0.0
    return chance if (chance := judge_pair(older, newer)) >= _SURE else 0.0


def may_replace(
    newer: Passage, older: Passage, asked: Mapping[str, int], language: str, one: Record, other: Record
) -> bool:
    """Return whether a newer record may replace an older one for the question.

    One without a number does not replace one with a number, and one on another thing does not, unless it has a word
    of change. For one on another thing the pair model has to agree.
    """
    from reverie.domain.similarity.pair_model import is_comparable, judge_pair  # here: few searches need it

    changes = specifics.tells_of_change(one.content)
    if not is_parallel(newer, older, asked, language):
        return changes or not lacks_number(one.content, other.content)
    if not (changes and is_comparable(one.content) and is_comparable(other.content)):
        return False
    return judge_pair(other.content, one.content) >= _LIKELY


def lacks_number(newer: str, older: str) -> bool:
    """Return whether only the older of two texts has digits, so that the newer one is about something else."""
    return _has_digit(older) and not _has_digit(newer)


def is_later(newer: Passage, older: Passage) -> bool:
    """Return whether one of two short passages is at least an hour newer than the other."""
    return newer.at - older.at >= _LATER and max(newer.length, older.length) <= _LONGEST


def put_successors_first(
    hits: Sequence[Hit],
    now: datetime,
    get_records: Callable[[Sequence[str]], Sequence[Record | None]],
    is_wanted: Callable[[Record], bool],
) -> list[Hit]:
    """Return the hits with the valid successor before each record that it ended, even if it was not found.

    Args:
        hits: The hits, best first; `NOT_HOLDING` is already applied to their scores.
        now: The current time.
        get_records: Returns records by their ids; None for a missing one.
        is_wanted: Whether a record may be shown.
    """
    found = {hit.id: hit for hit in hits}
    successors = _read_successors([hit.record for hit in hits if hit.record], now, get_records)
    # Of equal scores the hit with the words of the query first, whose explanation the successor gets.
    for hit in sorted(hits, key=lambda each: (-each.score, -each.explanation.parts.get("relevance", 0.0))):
        record = hit.record
        for _ in range(_MOST_ENDED):
            if record is None or is_valid_at(record, now):
                break
            record = successors.get(record.replaced_by)
        if record is None or record is hit.record or not is_valid_at(record, now) or not is_wanted(record):
            continue
        score = min(1.0, hit.score / NOT_HOLDING)
        known = found.get(record.id)
        if known is None or known.score < score:
            own = replace(hit.explanation, note="holds now in place of a hit")
            why = known.explanation if known else own
            found[record.id] = Hit(score=score, explanation=why, record=record)
    return sorted(found.values(), key=lambda hit: -hit.score)


def put_ended_first(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, best first, with each ended record before its successor."""
    scores = {hit.id: hit.score for hit in hits}
    for hit in hits:
        ended_by = hit.record.replaced_by if hit.record else ""
        if scores.get(ended_by, 0.0) > scores[hit.id]:
            scores[hit.id], scores[ended_by] = scores[ended_by], scores[hit.id]
    return sorted((replace(hit, score=scores[hit.id]) for hit in hits), key=lambda hit: -hit.score)


def _read_successors(
    records: Sequence[Record],
    now: datetime,
    get_records: Callable[[Sequence[str]], Sequence[Record | None]],
) -> dict[str, Record | None]:
    """Return the records and all their successors by id.

    The successors of all records are read together, since single reads are slow for a database under load.
    """
    known: dict[str, Record | None] = {record.id: record for record in records}
    latest: Sequence[Record | None] = records
    for _ in range(_MOST_ENDED):
        ended_by = [each.replaced_by for each in latest if each and not is_valid_at(each, now)]
        missing = [name for name in dict.fromkeys(ended_by) if name and name not in known]
        if not missing:
            break
        latest = get_records(missing)
        known.update(zip(missing, latest, strict=True))
    return known


@lru_cache(maxsize=512)  # each short passage is compared with several others
def _list_words(terms: str, language: str) -> tuple[str, ...]:
    function_words = STOP_WORDS if language == DEFAULT else get_function_words(language)
    return tuple([word for word in dict.fromkeys(terms.split()) if _is_content(word, function_words)])


def _is_content(word: str, function_words: Collection[str]) -> bool:
    """Return whether a word may be a content word; pairs with hiragana are often grammar."""
    if word.isascii():
        return len(word) >= _SHORTEST_SHARED and word not in function_words
    return len(word) > 1 and _HIRAGANA.search(word) is None


@cache
def _list_calendar_words() -> frozenset[str]:
    return frozenset(stem(word, language) for word in (*MONTHS, *WEEKDAYS) for language in WIDESPREAD)


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))
