"""What a sentence is for the memory: its kind, whom it is about, until when it matters, and what it touches.

Every door passes `classify`: saves, tools, imports, edited files and learned turns. It applies linear models over
hashed words, letters and forms of words (Weinberger et al. 2009, "Feature hashing for large scale multitask learning"),
which `scripts/fit_intake.py` fits to the labelled sentences of `evaluation/training`. One model says whether a sentence
of a conversation is worth keeping, another which kind it is. Doors differ in thresholds: somebody who saves a sentence
wants it kept, and most sentences of a conversation are not worth it.
"""

from __future__ import annotations

import pkgutil
import re
import struct
import zlib
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, tzinfo
from functools import cache, lru_cache
from itertools import combinations_with_replacement, groupby, starmap
from math import exp, log, sqrt
from operator import itemgetter, mul
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from reverie.domain.lazy_dataclass import dataclass, replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import STANDING, UNTRUSTED, Kind, Origin, Record
from reverie.domain.text.dates import (
    SIGNS,
    DateMention,
    find_dates,
    fold_text,
    get_local_day,
    load_words,
    resolve_dates,
)
from reverie.domain.text.languages import list_function_words

Door = Literal["save", "conversation", "reply"]
"""How a sentence comes in: it is saved, opens a conversation, or follows an answer in one."""

CLASSES = (
    *("rule", "health", "preference", "profile", "fact", "decision", "plan", "event"),
    *("failure", "fix", "lesson", "correction", "request", "other"),
)
"""Classes of sentences, in the order of their models; `evaluation/training/README.md` describes them."""

_WORDS = load_words(__package__, "intake_words.txt")
KINDS_OF_CLASSES = cast("Mapping[str, Kind]", MappingProxyType(_WORDS["kinds"]))
"""Kind of the record of each class; sentences of the other classes are not worth a record."""

_STANDING_CLASSES = ("rule", "health", "preference")

LONGEST = 400
"""Characters of a text that is one statement; longer ones are stored as facts."""

MIN_STANDING = 0.33
"""Least probability of a rule, preference or fact about health at a save, where a missed rule is dear."""

MARGIN = 0.1
"""By how much the probability of another class may be larger."""

MIN_PLAN = 0.6
"""Least share of a plan among the kinds of a sentence, for one that matters until the day that it names."""

MIN_OTHER_KIND = 0.3
"""Least probability of another kind than a fact at a save."""

MIN_KIND_SAID = 0.35
"""Least probability of another kind than a fact in a conversation, if the sentence is worth keeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What a sentence is.

    Attributes:
        kind: The kind of its record; None if it is not worth keeping.
        about: Whom it is about: the owner, or somebody or something else.
        until: End of the last day on which it matters, if it says so.
        permission: Whether acting on it touches money, credentials or security.
        reason: Why it is of this kind, for people.
    """

    kind: Kind | None
    about: Literal["owner", "other"]
    until: datetime | None
    permission: bool
    reason: str


def classify(
    text: str,
    *,
    origin: Origin,
    at: datetime,
    zone: tzinfo,
    door: Door = "save",
    kind: Kind | None = None,
    named_by: str = "the caller",
) -> Intake:
    """Return what a sentence is.

    Args:
        text: The sentence, without white space around it.
        origin: Who said it. Only the owner and the owner's agent state rules.
        at: When it was said; aware.
        zone: Time zone of the owner.
        door: How it comes in.
        kind: The kind if it is known; None to find it.
        named_by: Who named the kind.

    >>> from datetime import UTC
    >>> def judge(text: str) -> str | None:
    ...     return classify(text, origin="owner", at=datetime(2026, 3, 2, tzinfo=UTC), zone=UTC).kind
    >>> [judge(text) for text in ("Never book a flight before ten.", "The build runs on Jenkins.")]
    ['constraint', 'fact']
    """
    chances = rate_classes(text)
    is_sure = kind is not None or _is_sure_plan(chances.classes)
    if kind is not None:
        reason = f"{named_by} named it"
    elif len(text) > LONGEST:
        kind, reason = "fact", "it is longer than one statement"
    else:
        kind, reason = _choose(text, chances, door)
        if origin in UNTRUSTED:
            kind, reason = "fact", f"only the owner sets rules and decides, and its origin is {origin}"
    return Intake(
        kind=kind,
        about="owner" if _is_about_owner(kind, chances.classes) else "other",
        until=None if kind is None else find_until(text, kind, at=at, zone=zone, is_sure=is_sure),
        permission=needs_permission(text),
        reason=reason,
    )


def describe_intake(intake: Intake) -> dict[str, Any]:
    """Return the fields of a record that an intake sets in addition to its kind."""
    return {
        "about": "owner" if intake.about == "owner" and intake.kind not in STANDING else "",
        "until": intake.until,
        "permission": intake.permission,
    }


def reread(record: Record, before: str, *, zone: tzinfo = UTC) -> Record:
    """Return a reworded record with the fields that its new content sets; its kind stays.

    Args:
        record: The record with its new content.
        before: Its content before; without a difference the record stays as it is.
        zone: Time zone of the owner.
    """
    if record.content == before:
        return record
    is_sure = record.until is not None or _is_sure_plan(rate_classes(record.content).classes)
    until = find_until(record.content, record.kind, at=record.created_at, zone=zone, is_sure=is_sure)
    return replace(record, until=until, permission=needs_permission(record.content))


def _is_sure_plan(classes: Mapping[str, float]) -> bool:
    """Return whether a text is so surely a plan that it leaves prompts after its day, as no fact does."""
    return classes["plan"] > MIN_PLAN * sum(map(classes.__getitem__, KINDS_OF_CLASSES))


def _choose(text: str, chances: Chances, door: Door) -> tuple[Kind | None, str]:
    """Return the kind of a sentence, and why; None if it is not worth keeping."""
    classes = chances.classes
    total = sum(map(classes.__getitem__, KINDS_OF_CLASSES)) or 1.0
    sure = sum(map(classes.__getitem__, _STANDING_CLASSES))
    standing = max(_STANDING_CLASSES, key=classes.__getitem__)
    others = {name: classes[name] for name in KINDS_OF_CLASSES if name not in _STANDING_CLASSES}
    others["fact"] += others.pop("profile")
    other = max(others, key=others.__getitem__)
    share = others[other] / total
    if door != "save":
        signs = list_signs(text, chances)
        start = 2 * (MODELS + SIGN_COUNT * GATED.index(door))
        kept, rule = (sum(map(mul, signs, _load_weights()[0][at:])) for at in (start, start + SIGN_COUNT))
        if rule >= 0:
            return _describe(standing, sure)
        if kept < 0:
            return None, f"it is not worth keeping ({chances.worth:.2f})"
        return _describe(other if others[other] >= MIN_KIND_SAID else "fact", chances.worth)
    if sure / total >= max(MIN_STANDING, share - MARGIN):
        return _describe(standing, sure / total)
    return _describe(other, share) if share >= MIN_OTHER_KIND else ("fact", "it states something")


def list_signs(text: str, chances: Chances) -> tuple[float, ...]:
    """Return what tells whether a sentence of a conversation is worth keeping, after a constant.

    That is: whether it reads like it, like something of the moment, and like a rule; how much it says, how many names
    and numbers it has, whether the writer is in it, and the products of four of these.
    """
    classes, worth = chances.classes, chances.worth
    _, forms, own, *_ = zip(*_read_words(text), strict=True)
    kept = log((worth + 1e-9) / (1 - worth + 1e-9))
    passing = log(classes["request"] + classes["other"] + 0.001)
    sure = sum(classes[name] for name in _STANDING_CLASSES)
    standing = log((sure + 0.01) / (1.01 - sure))
    size, names = log(1 + chances.size), min(4, forms.count("X") + forms.count("#"))
    likely = (log(classes[name] + 0.001) for name in CLASSES)
    pairs = combinations_with_replacement((kept, passing, size, names), 2)
    return 1.0, kept, passing, standing, size, names, True in own, *likely, *starmap(mul, pairs)


def _describe(name: str, chance: float) -> tuple[Kind, str]:
    what = "fact about health" if name == "health" else name
    return KINDS_OF_CLASSES[name], f"it reads like a {what} ({chance:.2f})"


def _is_about_owner(kind: Kind | None, classes: Mapping[str, float]) -> bool:
    own = sum(classes[name] for name in ("profile", "decision", "plan", *_STANDING_CLASSES))
    return kind in STANDING or classes["fact"] < own


def rate_importance(text: str, kind: Kind) -> float:
    """Return the importance of a record: rules and facts about health come first in prompts.

    >>> [rate_importance(each, "preference") for each in ("Always call the user Bea.", "I like green tea.")]
    [0.7, 0.5]
    """
    if kind not in STANDING:
        return 0.5
    classes = rate_classes(text).classes
    return 0.7 if classes["rule"] + classes["health"] > classes["preference"] else 0.5


def concerns_health(text: str) -> bool:
    """Return whether a text reads like a fact about a diet, an allergy or a medicine.

    >>> concerns_health("I am allergic to nuts"), concerns_health("Bo runs the bakery")
    (True, False)
    """
    return rate_classes(text).classes["health"] >= MIN_STANDING


# -- the models ------------------------------------------------------------------------------------------

FILE = "intake.bin"
PLACES = 75_000
"""Number of hashed features; each has a weight of 4 bits for each model."""

MODELS = len(CLASSES) + 1
"""Number of models: one for each class, and one that says whether a sentence is worth keeping."""

SIGN_COUNT = 7 + len(CLASSES) + 10
GATED: tuple[Door, ...] = ("conversation", "reply")
"""Doors with two gates, of what is kept and of rules; a sentence passes if its weighted signs are not below zero."""

HEAD = struct.Struct(f"<{2 * MODELS + 2 * len(GATED) * SIGN_COUNT}f")
"""The constant of each model, then what its weights are multiplied with, then the weights of the signs in the gates."""

_UPPER, _LOWER = bytes(each >> 4 for each in range(256)), bytes(each & 15 for each in range(256))
"""The two weights of each byte, as tables for `bytes.translate`."""

ZERO = 8
"""A weight of zero, as it is stored."""

_TOKEN = defer_regex(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)?|[^\w\s]")
_UNSPACED_LETTER = defer_regex("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_USER = defer_regex(r"^(?:the )?user(?= |'s)('s| is| has| was| wants to be| )", re.IGNORECASE)
_OWN_WORDS = frozenset(_WORDS["own"])
"""Words by which the writer speaks of himself."""

_OWN_SIGN = defer_regex("[我咱私僕俺]|わたし")
_WORD_RUN, _FORM_RUN = zlib.crc32(b"w"), zlib.crc32(b"f")
_SPACED, _UNSPACED = (zlib.crc32(b"l "), (4,)), (zlib.crc32(b"u "), (1, 2, 3))
"""The sum with which sums of pieces begin, and the letters of pieces, for scripts with and without spaces."""


class Chances(NamedTuple):
    """Probabilities of a sentence.

    Attributes:
        classes: Of each class; they add up to 1.
        worth: That it is worth keeping if it was said in a conversation.
        size: Number of features that they are computed from.
    """

    classes: Mapping[str, float]
    worth: float
    size: int


_NO_CHANCES = Chances(dict.fromkeys(CLASSES, 0.0), 0.0, 0)


def rate_classes(text: str) -> Chances:
    """Return how likely a sentence is of each class; 0 for a text that is longer than one statement."""
    return _rate(text) if len(text) <= LONGEST else _NO_CHANCES


@lru_cache(maxsize=256)  # a learned sentence is judged when it is said and when it is saved
def _rate(text: str) -> Chances:
    head, places = _load_weights()[0], find_places(text)
    # The root of the number of features, since long sentences would be overconfident otherwise.
    root, zero = sqrt(len(places) or 1), ZERO * len(places)
    weighed = zip(head[:MODELS], head[MODELS : 2 * MODELS], _add_up(places), strict=True)
    scores = [constant + scale * (value - zero) / root for constant, scale, value in weighed]
    largest = max(scores[:-1])
    powers = [exp(score - largest) for score in scores[:-1]]
    whole = sum(powers)
    classes = dict(zip(CLASSES, (power / whole for power in powers), strict=True))
    return Chances(classes, 1 / (1 + exp(-scores[-1])), len(places))


def find_places(text: str) -> set[int]:
    """Return the places of what the models see of a sentence: runs of words, of forms of words, and pieces of words.

    The form of a function word or mark is the word itself, that of another word its capital, that of a number `#`.
    """
    words, forms, own, found, parts, part_sums, form_parts, form_sums = zip(*_read_words(text), strict=True)
    # Whether the writer is in it, and how it begins: such as with a name and a verb in the third person.
    is_own, (first, second) = True in own, (*forms[1:-1], "", "")[:2]
    whole = (
        f"p {is_own}",
        f"p {is_own} {first} {f'x{words[2][-1]}' if second == 'x' else second}",
        f"n {min(8, (len(words) - 2) // 3)}",
    )
    sums = [zlib.crc32(_encode(each)) for each in whole]
    sums += [*_hash_runs(parts, part_sums, 2), *_hash_runs(form_parts, form_sums, 3)]
    places = {each % PLACES for each in sums}
    places.update(*found)
    return places


_Word = tuple[str, str, bool, list[int], bytes, int, bytes, int]


def _read_words(text: str) -> list[_Word]:
    """Return the words of a sentence between `^` and `$`."""
    text = text[:LONGEST]
    if user := _USER.match(text):
        text = _WORDS["as_owner"].get(user[1].lower().strip(), "I ") + text[user.end() :]
    tokens = _TOKEN.findall(text)
    first = [_read_word(token, True) for token in tokens[:1]]
    return [_read_word("^"), *first, *map(_read_word, tokens[1:]), _read_word("$")]


@lru_cache(maxsize=8_192)  # most words of a sentence were in an earlier one
def _read_word(token: str, is_first: bool = False) -> _Word:
    """Return a word in small letters, its form, whether the writer speaks of himself by it, and their places.

    Then follow the word as a part of runs with the sum of the run of it alone, and the same of its form.
    """
    word = "#" if (folded := fold_text(token))[0].isdigit() else folded
    is_function_word = word in list_function_words() or not word[0].isalpha()
    form = word if is_function_word else "X" if token[0].isupper() and not is_first else "x"
    is_own = word.partition("'")[0] in _OWN_WORDS or _OWN_SIGN.search(word) is not None
    part, form_part = _encode(f" {word}"), _encode(f" {form}")
    sums = zlib.crc32(part, _WORD_RUN), zlib.crc32(form_part, _FORM_RUN)
    places = [each % PLACES for each in (*sums, *_sum_pieces(word))]
    return word, form, is_own, places, part, sums[0], form_part, sums[1]


def _encode(feature: str) -> bytes:
    return feature.encode("utf-8", "surrogatepass")


def _hash_runs(parts: Sequence[bytes], sums: Sequence[int], longest: int) -> list[int]:
    """Return the sums of the runs of 2 to `longest` parts; each continues the sum of the run before it."""
    found: list[int] = []
    for start in range(1, longest):
        sums = [*map(zlib.crc32, parts[start:], sums)]
        found += sums
    return found


def _sum_pieces(word: str) -> list[int]:
    bounded = f"<{word}>"
    if word.isascii():
        data, total = _encode(bounded), _SPACED[0]
        return [zlib.crc32(data[start : start + 4], total) for start in range(len(data) - 3)]
    total, sizes = _UNSPACED if _UNSPACED_LETTER.search(word) else _SPACED
    pieces = [bounded[start : start + size] for size in sizes for start in range(len(bounded) - size + 1)]
    return [zlib.crc32(each, total) for each in map(_encode, pieces)]


@cache
def _load_weights() -> tuple[tuple[float, ...], array[int]]:
    """Return the numbers of the head, and the weights of each place as one number."""
    content = pkgutil.get_data(__package__, FILE) or b""
    return HEAD.unpack_from(content), array("Q", content[HEAD.size :])


def _add_up(places: Collection[int]) -> list[int]:
    """Return the sums of the weights of each model.

    The low half of the checksum Adler-32 of some bytes is their sum, up to 65,520. A statement has fewer than 4,000
    places, each with weights up to 15.
    """
    packed = array("Q", itemgetter(*places)(_load_weights()[1])).tobytes()
    halves, size = (packed.translate(_UPPER), packed.translate(_LOWER)), MODELS // 2 + 1
    return [zlib.adler32(halves[model % 2][model // 2 :: size], 0) & 0xFFFF for model in range(MODELS)]


# -- until when ------------------------------------------------------------------------------------------

_ABOUT_DAYS = ("task_state", *STANDING)
"""Kinds that matter until the days that they name, without a word such as "until"."""


def find_until(text: str, kind: Kind, *, at: datetime, zone: tzinfo, is_sure: bool = True) -> datetime | None:
    """Return the end of the last day on which a sentence matters; None if it names none.

    What comes back, such as "every year until 1 December", has no last day. A day after "until" or "by" counts for
    every kind. Plans end with the last day that they name, unless it is not sure that they are plans, and rules with a
    day such as "tomorrow" or "this week".

    >>> from datetime import UTC
    >>> find_until("Out of office until Friday", "fact", at=datetime(2026, 3, 2, tzinfo=UTC), zone=UTC).isoformat()
    '2026-03-06T23:59:59+00:00'
    """
    if len(text) > LONGEST:
        return None
    today = get_local_day(at, zone)
    folded = fold_text(text)
    mentions = [each for each in find_dates(text, today) if each.end >= today]
    ends = [each.end for each in mentions if _is_last_day(each, folded)]
    if not ends and kind in _ABOUT_DAYS and (is_sure or kind != "task_state"):
        if coming := SIGNS["the next"].search(folded):
            mentions += resolve_dates(f"in {folded[coming.end() :]}", at, zone=zone)[:1]
        is_plan = kind == "task_state"
        ends = [
            each.end
            for each in mentions
            if is_plan or each.counted or (each.start <= today and each.unit != "year" and not each.yearly)
        ]
    if not ends or SIGNS["recurring"].search(folded):
        return None
    try:
        return datetime.combine(max(ends), time(23, 59, 59), zone)
    except (ValueError, OverflowError):
        return None


def _is_last_day(mention: DateMention, folded: str) -> bool:
    """Return whether words beside a day say that it is the last one."""
    before, after = folded[max(0, mention.at - 40) : mention.at], folded[mention.stop : mention.stop + 8]
    return bool(SIGNS["until"].search(before) or SIGNS["until after"].search(after))


# -- permission ------------------------------------------------------------------------------------------


def _group_words(words: Iterable[str]) -> str:
    """Return a pattern of words that compares a letter with all words that begin with it at once."""
    groups = groupby(sorted(words), key=itemgetter(0))
    return "|".join(f"{letter}(?:{'|'.join(word[1:] for word in some)})" for letter, some in groups)


_SENSITIVE = defer_regex(rf"\b(?:{_group_words(_WORDS['sensitive'])})\b")
_SENSITIVE_SIGN = defer_regex("|".join(_WORDS["unspaced_sensitive"]))
"""Words and signs of money, credentials and security."""


def needs_permission(text: str) -> bool:
    """Return whether acting on a text touches money, credentials or security, so that the owner is asked first.

    >>> [needs_permission(text) for text in ("Pay the invoices on the 1st.", "Alarmcode ist 4711", "Bo likes tea")]
    [True, True, False]
    """
    folded = fold_text(text[:LONGEST])
    return (_SENSITIVE.search(folded) or _SENSITIVE_SIGN.search(folded)) is not None
