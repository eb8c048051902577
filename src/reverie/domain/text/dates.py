"""Dates in a text, in every common form: "7 January", "7.1.2026", "le 7 janvier", "1月7日", "next Friday", "gestern".

Every date becomes days. `find_dates` reads all dates. A date without a year is the nearest one to the time of the
text. "07/01/2026" may mean two days, and "Friday" the last or the next one: then both are returned.

`resolve_dates` reads only relative dates with one meaning, not "on Friday", "recently" or "a few days ago". Their days
are computed when a text is saved, because "yesterday" means another day a year later. Weeks begin on Monday (ISO
8601). "This Friday" is the first Friday from today on, "next Friday" that of the week after the present one, "last
Friday" the latest before today. In other languages than English the next Friday is the first after today.

The words are in `calendar.txt`: English, German, Spanish, French, Italian, Portuguese, Chinese and Japanese. Latin
words are in small letters and without accents, as `fold_text` writes them.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from reverie.domain.lazy_regex import defer_regex, load_patterns, lower_in_place, read_tables

_MAX_CHARACTERS = 20_000
_MAX_MENTIONS = 40
_MAX_RELATIVE = 20
_MAX_DISTANCE_DAYS = 36_500


class DateMention(NamedTuple):
    """Days that a text names.

    Attributes:
        start: The first day.
        end: The last day; the same for a single one.
        at: Where in the text the words begin.
        stop: Where they end.
        unit: Precision of the words: `day`, `month` or `year`.
        yearly: Whether the words name no year; `start` and `end` are then the nearest such days.
        counted: Whether the days are counted from the day of the text.
        firm: Whether the words can mean nothing else.
    """

    start: date
    end: date
    at: int
    stop: int
    unit: str = "day"
    yearly: bool = False
    counted: bool = False
    firm: bool = True

    def __str__(self) -> str:
        return f"{self.start}" if self.start == self.end else f"{self.start}/{self.end}"


def find_dates(text: str, today: date, *, relative: bool = True) -> list[DateMention]:
    """Return the dates in a text, in their order.

    Args:
        text: The text.
        today: The day on which it was said.
        relative: Whether to resolve "tomorrow" and the like.

    Example:
        >>> [str(day) for day in find_dates("From 7 Jan. to 2026-02-03, mañana", date(2026, 1, 1))]
        ['2026-01-07/2026-02-03', '2026-01-02']
    """
    text = text[:_MAX_CHARACTERS]
    folded = fold_text(text)
    mentions = list(_find_absolute(text, folded, today))
    if relative:
        mentions += (*map(_widen_count, _find_relative(folded, today)), *_find_weekdays(folded, today))
    return _join_ranges(folded, _drop_overlapping(mentions))[:_MAX_MENTIONS]


def resolve_dates(text: str, said_at: datetime, *, zone: tzinfo = UTC) -> list[DateMention]:
    """Return the relative dates in a text in their order; at most 20.

    Args:
        text: The text.
        said_at: When it was said; aware.
        zone: Time zone of the speaker.

    Example:
        >>> friday = datetime(2025, 1, 17, 9, tzinfo=UTC)
        >>> [str(when) for when in resolve_dates("Met Ann yesterday, again next week", friday)]
        ['2025-01-16', '2025-01-20/2025-01-26']
    """
    return [*_find_relative(fold_text(text[:_MAX_CHARACTERS]), get_local_day(said_at, zone))]


def get_local_day(moment: datetime, zone: tzinfo) -> date:
    """Return the day of a moment in a zone; at the ends of the calendar, its day in its own zone."""
    try:
        return moment.astimezone(zone).date()
    except OverflowError:  # the first or the last day there is
        return moment.date()


def parse_relative_day(text: str, now: datetime, *, zone: tzinfo = UTC) -> datetime | None:
    """Return the beginning of the day that a text such as "yesterday" means; None for any other text.

    Args:
        text: One expression, and nothing else.
        now: The current time; aware.
        zone: Time zone of the day.

    >>> parse_relative_day("last monday", datetime(2025, 1, 17, 9, tzinfo=UTC)).date().isoformat()
    '2025-01-13'
    """
    text = text.strip()
    mention = next(iter(resolve_dates(text, now, zone=zone)), None)
    if mention is None or (mention.at, mention.stop) != (0, len(text)):
        return None
    return datetime.combine(mention.start, time(), zone).astimezone(UTC)


def format_dates(text: str, mentions: Iterable[DateMention]) -> str:
    """Return dates of a text as one line, which `parse_dates` reads; empty without any.

    >>> format_dates("Off next week", [DateMention(date(2025, 1, 20), date(2025, 1, 26), at=4, stop=13)])
    'next week = 2025-01-20/2025-01-26'
    """
    lines = [f"{' '.join(text[each.at : each.stop].split())} = {each}" for each in mentions]
    return "; ".join(dict.fromkeys(lines))


def parse_dates(line: str) -> Iterator[tuple[str, date, date]]:
    """Yield the words, first day and last day of each date in a line of `format_dates`; skip other parts."""
    for part in line.split("; "):
        words, _, days = part.rpartition(" = ")
        first, _, last = days.partition("/")
        try:
            yield words, date.fromisoformat(first), date.fromisoformat(last or first)
        except ValueError:
            continue


# -- words ---------------------------------------------------------------------------------------------------


def load_words(package: str, file: str) -> dict[str, dict[str, str]]:
    """Return the words of each section of a file with their meaning; each entry has a meaning and its words."""
    return {
        title: {word: meaning for meaning, words in given.items() for word in words.split(", ")}
        for title, given in read_tables(package, file, joint=" ")
    }


_WORDS = load_words(__package__, "calendar.txt")
_NUMBERS_OF_WORDS = {
    name: {word: int(number) for word, number in words.items()}
    for name, words in _WORDS.items()
    if not name.endswith("units")
}
MONTHS, WEEKDAYS, NUMBERS, _DAYS, _STEPS, _HAN_DAYS, _HAN_STEPS, _HAN_YEARS = map(
    _NUMBERS_OF_WORDS.__getitem__,
    ("months", "weekdays", "numbers", "days", "steps", "han_days", "han_steps", "han_years"),
)
_ALL_MONTHS = MONTHS | _NUMBERS_OF_WORDS["short_months"]
_UNITS = _WORDS["units"]
_HAN_DIGITS = "一二两兩三四五六七八九十"
_HAN_WEEKDAYS = {
    char: number for chars in ("一二三四五六日", "月火水木金土天") for number, char in enumerate(chars)
}

_ACCENTS = str.maketrans(
    {
        char: plain
        for char in map(chr, range(0xC0, 0x180))
        if (plain := unicodedata.normalize("NFD", char)[0]) != char
    }
    | {chr(0xFF01 + code - 0x21): chr(code) for code in (0x2D, 0x2E, 0x2F)}
)
_OTHER_DIGIT = defer_regex(r"(?![0-9])\d")
# This leaves the words in Latin letters of a text, in half the time of a pattern.
_LATIN_LETTERS = bytes(code if chr(code) in "abcdefghijklmnopqrstuvwxyz" else 32 for code in range(256))
_HAS_HAN = defer_regex("[\u3040-\u30ff\u4e00-\u9fff]")


def fold_text(text: str) -> str:
    """Return the text in small letters without accents. Its length, and the place of each character, stay."""
    if text.isascii():
        return text.lower()
    lower = lower_in_place(text)
    return _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match.group())), lower).translate(_ACCENTS)


@lru_cache(maxsize=8)  # each kind of date is looked for by its words
def _list_latin_words(folded: str) -> frozenset[str]:
    return frozenset(folded.encode("ascii", "replace").translate(_LATIN_LETTERS).decode().split())


def _list_last_words(phrases: Iterable[str]) -> frozenset[str]:
    spaced = ("".join(sign if "a" <= sign <= "z" else " " for sign in phrase) for phrase in phrases)
    return frozenset(words.split()[-1] for words in spaced)


def _build_alternatives(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=len, reverse=True))


_LENGTHS = {"day": 1, "week": 7, "fortnight": 14, "month": 31, "year": 366}
_UNIT_WORDS = {unit: [word for word in _UNITS if _UNITS[word] == unit] for unit in _UNITS.values()}
_ALTERNATIVES: Mapping[str, Iterable[str]] = {
    **_WORDS,
    "months": _ALL_MONTHS,
    "whole_months": MONTHS,
    "counted": [word for unit in _LENGTHS for word in _UNIT_WORDS[unit]],
    "periods": [word for word, unit in _UNITS.items() if unit not in {"day", "fortnight"}],
    "following": [word for word, step in _STEPS.items() if step and word not in {"last", "next"}],
    "han_digits": [_HAN_DIGITS],
}
_FORMS = load_patterns(
    __package__, "date_forms.txt", {name: _build_alternatives(some) for name, some in _ALTERNATIVES.items()}
)
SIGNS = _FORMS["signs"]
"""Patterns of the text around dates, in folded text."""

# -- dates with a month or a year ------------------------------------------------------------------------------

_NUMBER = defer_regex("[0-9月年]")
_WORTH_READING = defer_regex(r"(?:19|20)\d\d|\d(?:[-/.]|st|nd|rd|th)|[月年]")
_AMBIGUOUS = frozenset({"march", "may", "mars", "marco", "mar"})
"""Months that are also other words. Alone they need a preposition or, in English, a capital inside a sentence."""


def _find_absolute(text: str, folded: str, today: date) -> Iterator[DateMention]:
    has_number = _NUMBER.search(folded) is not None
    is_worth_reading = has_number and _WORTH_READING.search(folded)
    if not is_worth_reading and _ALL_MONTHS.keys().isdisjoint(_list_latin_words(folded)):
        return
    needs = _FORMS["needs"]
    for name, form in _FORMS["absolute"].items():
        if name not in needs or (has_number and needs[name].search(folded)):
            for match in form.finditer(folded):
                yield from _read(match, text, today)


def _read(match: re.Match[str], text: str, today: date) -> Iterator[DateMention]:
    """Yield the meanings of one match: none, a day, a month, a year, or two possible days."""
    part = match.groupdict("")
    year, day = part.get("year", ""), part.get("day", "")
    if "month" not in part and day:  # "by the 20th"
        days = [_build_day(today.year, today.month, int(each)) for each in (day, part.get("last") or day)]
        if built := sorted(filter(None, days)):
            yield _build_mention(match, built[0], built[-1])
        return
    if "month" not in part:
        first = date(int(year), 1, 1)
        yield _build_mention(match, first, first.replace(month=12, day=31), unit="year", firm=False)
        return
    month = _ALL_MONTHS.get(part["month"]) or _parse_han_number(part["month"])
    is_certain = year or part.get("ordinal") or part["month"] not in _AMBIGUOUS
    if not (is_certain or _means_month(match, text, is_numbered=bool(day))):
        return
    first_day = last_day = _parse_han_number(day) if day else 0
    if part.get("last") and _is_run(match, "day", "last"):
        last_day = int(part["last"])
    elif part.get("first") and _is_run(match, "first", "day"):
        first_day = int(part["first"])
    yield from _build(match, year, month, (first_day, last_day), today)
    if part.get("sep", ".") != "." and int(day) != month:
        yield from _build(match, year, int(day), (month, month), today)


def _is_run(match: re.Match[str], one: str, other: str) -> bool:
    """Return whether two days are a range: "5-20 June", "5 and 6 June", "between 5 and 9 June"; not "5 and 9 June"."""
    if not SIGNS["list"].search(match.string, match.end(one), match.start(other)):
        return True
    is_between = SIGNS["between"].search(match.string[max(0, match.start() - 20) : match.start(one)])
    return is_between is not None or int(match[other]) == int(match[one]) + 1


def _means_month(match: re.Match[str], text: str, *, is_numbered: bool) -> bool:
    """Return whether a word such as "may" or "march" means the month, unlike "2 may come" and "March on!"."""
    start, end = match.span("month")
    if is_numbered:
        return text[start].isupper() or not text[end : end + 2].strip()[:1].isalnum()
    before = text[max(0, start - 12) : start].lower()
    if match["month"] in {"mars", "marco"}:  # a planet, a name
        return SIGNS["before mars"].search(before) is not None
    if SIGNS["before a month"].search(before):
        return True
    return start > 0 and text[start].isupper() and not text[:start].rstrip().endswith((".", "?", "!"))


def _build(
    match: re.Match[str], year: str, month: int, days: tuple[int, int], today: date
) -> Iterator[DateMention]:
    """Yield the days, or the month if they are 0; without a year, those nearest to today. Impossible ones are none."""
    years = (int(year),) if year else range(max(1, today.year - 4), min(9999, today.year + 4) + 1)
    first, last = days
    ends = [built for one in years if (built := _build_day(one, month, last or 1)) is not None]
    if not ends:
        return
    end = min(ends, key=lambda day: abs((day - today).days))
    if not last:
        start, end = get_month_bounds(end)
        yield _build_mention(match, start, end, unit="month", yearly=not year, firm=False)
        return
    begin = _build_day(end.year, month, first)
    yield _build_mention(match, begin if begin and begin < end else end, end, yearly=not year)


def _build_mention(match: re.Match[str], start: date, end: date, **more: Any) -> DateMention:
    """Return the mention of a match."""
    return DateMention(start=start, end=end, at=match.start(), stop=match.end(), **more)


def _build_day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def shift_day(day: date, days: int) -> date:
    """Return the day some days later, limited to the first and the last day of the calendar."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))


def get_month_bounds(day: date) -> tuple[date, date]:
    """Return the first and the last day of a day's month."""
    first = day.replace(day=1)
    # The module `calendar` knows the number of days, but its import is slow.
    return first, first.replace(day=31) if day.month == 12 else first.replace(month=day.month + 1) - _DAY


def _parse_han_number(text: str) -> int:
    """Return a number in digits, or of 1 to 99 in Chinese numerals; 0 for several numbers, as in "two or three".

    >>> _parse_han_number("7"), _parse_han_number("二十一"), _parse_han_number("两三")
    (7, 21, 0)
    """
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    digits = {char: value for value, char in enumerate("一二三四五六七八九", 1)} | {"两": 2, "兩": 2}
    if not ten:
        return digits.get(ones, 0) if len(ones) == 1 else 0
    return 10 * digits.get(tens, 1) + digits.get(ones, 0)


# -- dates that depend on the day of the text ----------------------------------------------------------------

_Part = Mapping[str, str]
"""Words of a relative date by their meaning."""

_Days = tuple[date, date, str, bool]
"""First day, last day, precision, and whether the days are counted."""

_DAY = timedelta(days=1)
_weekday_words = _list_last_words(WEEKDAYS)
_NEEDED_WORDS = {
    "two weeks after tomorrow": _list_last_words(_DAYS),
    "two weeks ago": _list_last_words(_ALTERNATIVES["counted"]),
    "Friday next week": {"week"},
    "the 3rd of next month": _weekday_words | _list_last_words(_ALTERNATIVES["periods"]),
    "next May": {"last", "next"},
    "el viernes que viene": _list_last_words(_ALTERNATIVES["following"]),
    "the end of the week": {"end"},
}
"""Words of each relative form, one of which is in every text that it matches."""


def _resolve(part: _Part, today: date) -> _Days | None:
    """Return the days that the words of a form mean; None if they mean none.

    Raises:
        OverflowError, ValueError: the days lie outside the calendar.
    """
    if "day" in part:
        today += (_DAYS | _HAN_DAYS)[part["day"].replace("’", "'")] * _DAY
        if "count" not in part:
            return today, today, "day", True
    if "count" in part:
        sign = -1 if part.keys() & {"past", "ago"} else int(bool(part.keys() & {"coming", "hence"}))
        return _count(part, today, sign) if sign else None
    if "year" in part:
        return _shift_period("year", _HAN_YEARS[part["year"]], today)
    step = 0 if "end" in part else (_STEPS | _HAN_STEPS)[part["step"]]
    if "month" in part:  # the latest or the next one outside the current month
        first = date(today.year, MONTHS[part["month"]], 1)
        years = int(first.month <= today.month) if step > 0 else -int(first.month >= today.month)
        return (*get_month_bounds(first.replace(year=today.year + years)), "month", False)
    if name := part.get("weekday") or part.get("kana"):
        return _find_weekday(WEEKDAYS[name] if name in WEEKDAYS else _HAN_WEEKDAYS[name], part, step, today)
    unit = _UNITS.get(part.get("period", ""), "month")
    if "week" in part:
        unit = "weekend" if "weekend" in part else "week"
    first, last, *_ = days = _shift_period(unit, step, today)
    if "nth" in part:
        first = first.replace(day=int(part["nth"]))
        return first, first, "day", False
    return (last, last, "day", False) if "end" in part else days


def _count(part: _Part, today: date, sign: int) -> _Days | None:
    words = part["count"]
    number = NUMBERS[words] if words in NUMBERS else _parse_han_number(words)
    unit = (_UNITS | _WORDS["han_units"])[part["unit"]]
    if not number or _LENGTHS[unit] * number > _MAX_DISTANCE_DAYS:
        return None
    if unit in {"month", "year"}:
        day = _add_months(today, sign * number * (12 if unit == "year" else 1))
        return day, day, unit, True
    day = today + sign * _LENGTHS[unit] * number * _DAY
    return day, day, "day" if unit == "day" or number < 3 else "week", True


def _add_months(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of a shorter month."""
    years, month = divmod(day.month - 1 + months, 12)
    first = date(day.year + years, month + 1, 1)
    return first.replace(day=min(day.day, get_month_bounds(first)[1].day))


def _find_weekday(weekday: int, part: _Part, step: int, today: date) -> _Days:
    if "week" in part or part["step"] == "next":  # in the week that is some weeks away
        day = today + (7 * step + weekday - today.weekday()) * _DAY
    elif step < 0:
        day = today - ((today.weekday() - weekday - 1) % 7 + 1) * _DAY
    else:
        day = today + ((weekday - today.weekday() - step) % 7 + step) * _DAY
    return day, day, "day", False


def _shift_period(unit: str, step: int, today: date) -> _Days:
    if unit in {"week", "weekend"}:
        monday = today + (7 * step - today.weekday()) * _DAY
        return monday + (5 * _DAY if unit == "weekend" else 0 * _DAY), monday + 6 * _DAY, "day", False
    months = {"month": 1, "year": 12}.get(unit, 3)
    start = _add_months(today.replace(day=1), months * step - (today.month - 1) % months)
    precision = "year" if unit == "year" else "month"
    return start, get_month_bounds(_add_months(start, months - 1))[1], precision, False


@lru_cache(maxsize=8)  # a save asks for its resolved dates and for its date tokens
def _find_relative(folded: str, today: date) -> Sequence[DateMention]:
    """Return the first 20 relative dates of a text from `fold_text`; `counted` ones are single days."""
    needed, words = _NEEDED_WORDS.items(), _list_latin_words(folded)
    forms = [_FORMS["relative"][name] for name, some in needed if not words.isdisjoint(some)]
    if not folded.isascii() and _HAS_HAN.search(folded):
        forms += _FORMS["relative han"].values()
    mentions: list[DateMention] = []
    for form in forms:
        for match in form.finditer(folded):
            part = {name: " ".join(words.split()) for name, words in match.groupdict().items() if words}
            try:
                days = _resolve(part, today) if _is_meant(match, folded) else None
            except (OverflowError, ValueError):  # outside the calendar
                days = None
            if days is not None:
                start, end, unit, counted = days
                mentions.append(_build_mention(match, start, end, unit=unit, counted=counted, firm=counted))
    return _drop_overlapping(mentions)[:_MAX_RELATIVE]


def _widen_count(mention: DateMention) -> DateMention:
    """Return a mention of the days that a number of weeks, months or years may mean."""
    start, end, unit = mention.start, mention.end, mention.unit
    if not mention.counted or unit == "day":
        return mention
    if unit in {"month", "year"}:
        start, end, *_ = _shift_period(unit, 0, start)
    else:
        start, end, unit = shift_day(start, -3), shift_day(end, 3), "day"
    return mention._replace(start=start, end=end, unit=unit, counted=unit == "day")


def _is_meant(match: re.Match[str], folded: str) -> bool:
    """Return whether a word with another meaning, such as "Morgen", means the day here."""
    word = match.group()
    if word.endswith(("morgen", "manana")) and match.lastgroup == "day":
        return not SIGNS["before a morning"].search(folded[max(0, match.start() - 12) : match.start()])
    if word == "hier":  # "here" in German
        return bool(SIGNS["french"].search(folded)) and not SIGNS["german"].search(folded)
    return True


def _find_weekdays(folded: str, today: date) -> Iterator[DateMention]:
    """Yield for a weekday the last one and the next one; nothing for "every Friday"."""
    has_han = not folded.isascii() and _HAS_HAN.search(folded)
    if not has_han and _weekday_words.isdisjoint(_list_latin_words(folded)):
        return
    for match in SIGNS["day of the week"].finditer(folded):
        if SIGNS["every"].search(folded[max(0, match.start() - 12) : match.start()]):
            continue
        han = match["han"] or match["kana"]
        weekday = _HAN_WEEKDAYS[han] if han else WEEKDAYS[match["weekday"]]
        ahead = (weekday - today.weekday()) % 7
        for offset in dict.fromkeys((ahead, ahead - 7)):
            day = shift_day(today, offset)
            yield _build_mention(match, day, day, firm=False)


# -- several dates -------------------------------------------------------------------------------------------


def _drop_overlapping(mentions: Iterable[DateMention]) -> list[DateMention]:
    """Return the mentions in order, without those within the words of a longer one."""
    kept: list[DateMention] = []
    for one in sorted(mentions, key=lambda one: (one.at, -one.stop)):
        if kept and one.at < kept[-1].stop and (one.at, one.stop) != (kept[-1].at, kept[-1].stop):
            continue
        kept.append(one)
    return kept


def _is_range(folded: str, before: DateMention, one: DateMention) -> bool:
    """Return whether the words between two dates make them a range."""
    words = folded[before.stop : one.at]
    if SIGNS["range"].fullmatch(words):
        return True
    is_pair = SIGNS["list"].fullmatch(words.strip().removesuffix(" the"))
    return bool(is_pair and SIGNS["between"].search(folded[max(0, before.at - 20) : before.at]))


def _join_ranges(folded: str, mentions: list[DateMention]) -> list[DateMention]:
    """Return the mentions with "3 May to 7 June" as one."""
    if len(mentions) < 2:
        return mentions
    joined: list[DateMention] = []
    meanings = Counter(one.at for one in mentions)
    for one in mentions:
        before = joined[-1] if joined else None
        year, named = (one, before) if one.unit == "year" or before is None else (before, one)
        is_whole = named is not None and named.yearly and year.unit == "year"
        if before and named and is_whole and SIGNS["of"].fullmatch(folded[before.stop : one.at]):
            days = [_add_months(day, 12 * (year.start.year - day.year)) for day in (named.start, named.end)]
            joined[-1] = named._replace(start=days[0], end=days[1], at=before.at, stop=one.stop, yearly=False)
        elif (
            before is not None
            and before.stop < one.at
            and before.start < one.end
            and (one.end - before.start).days <= 400
            and meanings[before.at] == meanings[one.at] == 1
            and _is_range(folded, before, one)
        ):
            unit = "day" if "day" in {before.unit, one.unit} else one.unit
            yearly = before.yearly and one.yearly
            joined[-1] = DateMention(before.start, one.end, before.at, one.stop, unit, yearly=yearly)
        else:
            joined.append(one)
    return joined
