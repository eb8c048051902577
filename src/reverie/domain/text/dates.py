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

import pkgutil
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache, partial
from typing import Any, NamedTuple

from reverie.domain.lazy_regex import defer_regex

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
        mentions += map(_widen_count, _find_relative(folded, today))
        mentions += _find_weekdays(folded, today)
    if len(mentions) > 1:
        mentions = _join_ranges(folded, _drop_overlapping(mentions))
    return mentions[:_MAX_MENTIONS]


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
    return _find_relative(fold_text(text[:_MAX_CHARACTERS]), get_local_day(said_at, zone))


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
    """Return the words of each section of a file with their meaning; each line has a meaning and its words."""
    text = (pkgutil.get_data(package, file) or b"").decode()
    sections: dict[str, dict[str, str]] = {}
    for block in text.strip().split("\n\n"):
        title, *lines = block.replace("\n    ", " ").split("\n")
        meanings = (line.split(": ", 1) for line in lines)
        sections[title.strip("[]")] = {
            word: meaning for meaning, words in meanings for word in words.split(", ")
        }
    return sections


def _load_numbers(section: str) -> dict[str, int]:
    return {word: int(number) for word, number in _WORDS[section].items()}


_WORDS = load_words(__package__, "calendar.txt")
MONTHS, WEEKDAYS, NUMBERS, _DAYS, _STEPS, _HAN_DAYS, _HAN_STEPS, _HAN_YEARS, _SHORT_MONTHS = map(
    _load_numbers,
    ("months", "weekdays", "numbers", "days", "steps", "han_days", "han_steps", "han_years", "short_months"),
)
_UNITS, _HAN_UNITS = _WORDS["units"], _WORDS["han_units"]
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
_LATIN_WORD = defer_regex(r"[a-z]+")
_HAS_HAN = defer_regex("[\u3040-\u30ff\u4e00-\u9fff]")


def fold_text(text: str) -> str:
    """Return the text in small letters without accents. Its length, and the place of each character, stay."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    if lower.isascii():
        return lower
    return _OTHER_DIGIT.sub(lambda match: str(unicodedata.decimal(match.group())), lower).translate(_ACCENTS)


@lru_cache(maxsize=8)  # each kind of date is looked for by its words
def _list_latin_words(folded: str) -> frozenset[str]:
    return frozenset(_LATIN_WORD.findall(folded))


def _list_last_words(phrases: Iterable[str]) -> frozenset[str]:
    """Return the last word of each phrase, without an expression: this runs when the module is imported."""
    spaced = (
        "".join(letter if letter.isascii() and letter.isalpha() else " " for letter in each)
        for each in phrases
    )
    return frozenset(each.split()[-1] for each in spaced)


def _build_alternatives(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=len, reverse=True))


# -- dates with a month or a year ------------------------------------------------------------------------------

_YEAR = r"(?:19|20)\d\d"
_full = _build_alternatives(MONTHS)
_any = _build_alternatives([*MONTHS, *_SHORT_MONTHS])
_and = r"(?:(?:and|und|y|et|e)\b|&)"
_to = r"(?:[-–]|to|until|till|through(?:\s+to)?|bis(?:\s+zum)?|al?|au|ao)"
_the = r"(?:(?:the|de[mn]|el|le|il|o)\s+)?"
_of = r"(?:of\s+|de\s+|del\s+|d['’]\s*)"
_DAY_MONTH = (
    rf"(?<![\w.,:/-])(?:(?P<first>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?\s*(?:{_to}|{_and})\s*{_the})?"
    rf"(?P<before>\d{{1,2}})(?P<ordinal>st|nd|rd|th|er|\.|º|°)?\s*(?:{_of})?(?P<month>{_any})\b\.?"
    rf"(?:,?\s*{_of}?(?P<year>{_YEAR})\b)?"
    rf"(?:\s*{_to}\s*{_the}(?P<until>\d{{1,2}})(?:st|nd|rd|th)\b(?!\s*(?:{_of})?(?:{_any})\b))?"
)
_MONTH_DAY = (
    rf"\b(?P<named>{_any})\b\.?\s+(?:the\s+)?(?P<after>\d{{1,2}})(?P<nth>st|nd|rd|th)?(?![\w%:]|\.\d|,\d(?!\d{{3}}\b))"
    rf"(?:\s*(?:{_to}|{_and})\s*{_the}(?P<last>\d{{1,2}})(?:st|nd|rd|th)?(?![\w%:]|[.,]\d))?"
    rf"(?:,?\s*(?P<named_year>{_YEAR})\b)?"
)
_MONTH = rf"\b(?P<alone>{_full})\b(?:,?\s+{_of}?(?P<alone_year>{_YEAR})\b)?"
_ISO = rf"(?<![\w./-])(?P<iso>{_YEAR})(?P<by>[-/.])(?P<iso_month>\d\d?)(?:(?P=by)(?P<iso_day>\d\d?))?(?!\d|[-/.]\d)"
_NUMERIC = (
    r"(?<![\w./-])(?P<one>\d{1,2})(?P<sep>[-/.])[ ]?(?P<two>\d{1,2})(?P=sep)[ ]?"
    r"(?P<full>(?:19|20)\d\d)(?!\d|[-/.]\d)"
)
_SHORT = (
    r"\b(?:am|vom|zum|bis|ab|seit|dem|den|der|el|dia|le|il)\s+"
    r"(?P<dd>\d{1,2})(?:\.[ ]?(?P<mm>\d{1,2})\.(?!\d)|/(?P<slash>\d{1,2})(?![\d/]))"
)
_HAN = (
    rf"(?:(?P<han_year>{_YEAR})\s*年\s*)?(?<![\d{_HAN_DIGITS}])(?P<han_month>\d{{1,2}}|[{_HAN_DIGITS}]{{1,3}})\s*月"
    rf"(?!間)(?:\s*(?P<han_day>\d{{1,2}}|[{_HAN_DIGITS}]{{1,3}})\s*[日号號])?"
    rf"|(?P<han_only>{_YEAR})\s*年"
    rf"|(?P<han_near>今月|本月|[这這][个個]?月|先月|上[个個]?月|来月|下[个個]?月)の?(?P<near_day>\d{{1,2}})\s*[日号號]"
)
_LONE = rf"(?<![\w.,:$€£¥/#-])(?P<lone>{_YEAR})(?![\w:/€%-]|[.,]\d)"
_PLACE = r"(?:(?=\d|[^\x00-\x7f])|\b(?=[a-z]))"
"""Where a date may begin. It is tried first, because all eight forms would fail in the middle of a word."""

_ABSOLUTE = defer_regex(
    f"{_PLACE}(?:{'|'.join((_ISO, _NUMERIC, _SHORT, _DAY_MONTH, _MONTH_DAY, _MONTH, _HAN, _LONE))})"
)
_LIST = defer_regex(rf"(?<![a-z]){_and}")
_BETWEEN = defer_regex(rf"\b(?:between|zwischen|entre|fra|tra)\s+{_the}(?:[a-z]+\s+)?$")
_NTH = defer_regex(
    r"\b(?:on|by|until|is|for|since)\s+the\s+(?P<nth>\d{1,2})(?:st|nd|rd|th)\b(?:\s+of\s+(?P<which>this|next|last)\s+month)?"
    r"(?!\s+(?:of\s+)?[a-z])"
    r"|\bthe\s+(?P<day>\d{1,2})(?:st|nd|rd|th)\s+of\s+(?P<of>this|next|last)\s+month"
)
_HAS_DIGIT = defer_regex(r"[\d月年]")
_WORTH_READING = defer_regex(rf"{_YEAR}|\d(?:[-/.]|(?:st|nd|rd|th|er)[a-z])|\bthe\s+\d|[月年]")
_MONTH_WORDS = frozenset([*MONTHS, *_SHORT_MONTHS])
_AMBIGUOUS = frozenset({"march", "may", "mars", "marco", "mar"})
"""Months that are also other words. Alone they need a preposition or, in English, a capital inside a sentence."""
_PREPOSITION = defer_regex(
    r"\b(?:in|of|on|by|since|until|till|during|before|after|last|next|this|en|em|fin|debut|mi|im|ab|seit|bis)[ -]$"
)
_ROMANCE = defer_regex(r"\b(?:en|em|fin|début|debut|mi)[ -]$")
_NEAR_MONTHS = {"先": -1, "上": -1, "来": 1, "下": 1}


def _find_absolute(text: str, folded: str, today: date) -> Iterator[DateMention]:
    if _MONTH_WORDS.isdisjoint(_list_latin_words(folded)) and (
        _HAS_DIGIT.search(folded) is None or _WORTH_READING.search(folded) is None
    ):
        return
    for match in _ABSOLUTE.finditer(folded):
        yield from _read(match, text, today)
    for match in _NTH.finditer(folded):
        step = {"next": 1, "last": -1}.get(match["which"] or match["of"] or "", 0)
        day = int(match["nth"] or match["day"])
        if (built := _build_near_day(step, day, today)) is not None:
            yield _build_mention(match, built, built)


def _read(match: re.Match[str], text: str, today: date) -> Iterator[DateMention]:
    """Yield the meanings of one match: none, a day, a month, a year, or two possible days."""
    if match["month"]:
        if _is_day_of_month(match, text):
            month, day, year = _get_month(match["month"]), match["before"], match["year"]
            begin = _get_first(match, "first", "before")
            if match["until"]:
                begin, day = day, match["until"]
            yield from _build(match, year, month, day, today, first=begin)
    elif match["named"]:
        if _is_month_with_day(match, text):
            begin = _get_first(match, "after", "last") if match["last"] else None
            month, year = _get_month(match["named"]), match["named_year"]
            day = match["last"] if begin else match["after"]
            yield from _build(match, year, month, day, today, first=begin)
    elif match["alone"]:
        if match["alone"] not in _AMBIGUOUS or match["alone_year"] or _is_month(text, match.start("alone")):
            yield from _build(match, match["alone_year"], MONTHS[match["alone"]], None, today)
    elif year := match["han_only"] or match["lone"]:
        first = date(int(year), 1, 1)
        yield _build_mention(match, first, first.replace(month=12, day=31), unit="year", firm=False)
    else:
        yield from _read_numbers(match, today)


def _get_first(match: re.Match[str], one: str, other: str) -> str | None:
    """Return the first of two days if they are a range.

    "5-20 June", "5 and 6 June" and "between 5 and 20 June" are ranges, not "5 and 20 June".
    """
    is_list = match[one] and _LIST.search(match.string, match.end(one), match.start(other))
    if is_list and _BETWEEN.search(match.string[max(0, match.start() - 20) : match.start(one)]):
        return match[one]
    return match[one] if not is_list or int(match[other]) == int(match[one]) + 1 else None


def _read_numbers(match: re.Match[str], today: date) -> Iterator[DateMention]:
    if match["iso"]:
        if match["iso_day"] or match["by"] == "-":
            yield from _build(match, match["iso"], match["iso_month"], match["iso_day"], today)
    elif match["one"]:
        one, two = match["one"], match["two"]
        yield from _build(match, match["full"], two, one, today, exact=True)
        if match["sep"] != "." and one != two:
            yield from _build(match, match["full"], one, two, today, exact=True)
    elif match["dd"]:
        yield from _build(match, None, match["mm"] or match["slash"], match["dd"], today, exact=True)
    elif match["han_month"]:
        month, day = _parse_han_number(match["han_month"]), match["han_day"]
        yield from _build(match, match["han_year"], month, _parse_han_number(day) if day else None, today)
    else:
        step = _NEAR_MONTHS.get(match["han_near"][0], 0)
        near = _build_near_day(step, int(match["near_day"]), today)
        if near is not None:
            yield _build_mention(match, near, near)


def _get_month(word: str) -> int:
    return MONTHS.get(word) or _SHORT_MONTHS[word]


def _is_day_of_month(match: re.Match[str], text: str) -> bool:
    """Return whether a number and the name of a month are a date, unlike "2 may come"."""
    if match["month"] not in _AMBIGUOUS or match["ordinal"] or match["year"]:
        return True
    start, end = match.span("month")
    written = text[start:end]
    if written[0].isupper() or text[match.end("before") : start].strip():
        return True
    after = text[end : end + 2].strip()
    return (
        not after
        or not after[0].isalnum()
        or bool(_PREPOSITION.search(text[: match.start("before")].lower()[-12:]))
    )


def _is_month_with_day(match: re.Match[str], text: str) -> bool:
    if match["named"] not in _AMBIGUOUS and match["named"] in MONTHS:
        return True
    return bool(match["nth"] or match["named_year"]) or text[match.start("named")].isupper()


def _is_month(text: str, start: int) -> bool:
    """Return whether "may" or "march", without a number, means the month."""
    before = text[max(0, start - 12) : start].lower()
    if text[start : start + 4].lower() in {"mars", "marc", "març"}:  # a planet, a name
        return _ROMANCE.search(before) is not None
    if _PREPOSITION.search(before):
        return True
    return start > 0 and text[start].isupper() and not text[:start].rstrip().endswith((".", "?", "!"))


def _build(
    match: re.Match[str],
    year: str | None,
    month: str | int,
    day: str | int | None,
    today: date,
    *,
    first: str | None = None,
    exact: bool = False,
) -> Iterator[DateMention]:
    """Yield the day, or its month if there is no such day, or nothing if there is no such month."""
    number, ordinal = int(month), int(day) if day is not None else 0
    if not 1 <= number <= 12:
        return
    years = (int(year),) if year else (today.year - 1, today.year, today.year + 1)
    if ordinal:
        ends = [built for one in years if (built := _build_day(one, number, ordinal)) is not None]
        if not ends and not year and (number, ordinal) == (2, 29):
            ends = [
                date(one, 2, 29) for one in range(today.year - 4, today.year + 5) if _build_day(one, 2, 29)
            ]
        if ends:
            end = _get_nearest(ends, today)
            begin = _build_day(end.year, number, int(first)) if first else None
            begin = begin if begin is not None and begin < end else end
            yield _build_mention(match, begin, end, yearly=not year)
            return
        if exact:
            return
    start = _get_nearest([date(one, number, 1) for one in years if 1 <= one <= 9999], today)
    start, end = get_month_bounds(start)
    yield _build_mention(match, start, end, unit="month", yearly=not year, firm=False)


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


def _build_near_day(step: int, day: int, today: date) -> date | None:
    """Return a day of the month that is some months away; None if there is no such day."""
    years, month = divmod(today.month - 1 + step, 12)
    return _build_day(today.year + years, month + 1, day)


def _get_nearest(days: list[date], today: date) -> date:
    return min(days, key=lambda day: abs((day - today).days))


# -- dates that depend on the day of the text ----------------------------------------------------------------

_Days = tuple[date, date, str, bool]
"""First day, last day, precision, and whether the days are counted."""


def _resolve_day(part: dict[str, str], today: date) -> _Days | None:
    number = _DAYS[part["day"].replace("’", "'")]
    if "way" not in part:
        return _count(number, "day", today, 1)
    sign = -1 if part["way"] in {"before", "vor", "avant", "prima di"} else 1
    return _resolve_count(part, today + timedelta(days=number), sign=sign)


def _resolve_count(part: dict[str, str], today: date, *, sign: int) -> _Days | None:
    count = part["count"]
    number = int(count) if count.isdecimal() else NUMBERS[count]
    return _count(number, _UNITS[part["unit"]], today, sign)


def _resolve_han_count(part: dict[str, str], today: date) -> _Days | None:
    count = _parse_han_number(part["count"])
    return _count(count, _HAN_UNITS[part["unit"]], today, -1 if part["way"] == "前" else 1) if count else None


def _count(number: int, unit: str, today: date, sign: int) -> _Days | None:
    length = {"day": 1, "week": 7, "fortnight": 14, "month": 31, "year": 366}[unit]
    if length * number > _MAX_DISTANCE_DAYS:
        return None
    if unit in {"month", "year"}:
        day = _add_months(today, sign * number * (12 if unit == "year" else 1))
        return day, day, unit, True
    day = today + timedelta(days=sign * length * number)
    return day, day, "day" if unit == "day" or number < 3 else "week", True


def _add_months(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of a shorter month."""
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return date(year, month + 1, min(day.day, _count_days(year, month + 1)))


def _resolve_step(part: dict[str, str], today: date) -> _Days:
    step = _STEPS.get(part["step"], 0)
    if "period" in part:
        return _shift_period(_UNITS[part["period"]], step, today)
    day = WEEKDAYS[part["weekday"]]
    if part["step"] == "next":
        return _get_weekday(today, 1, day)
    if step < 0:
        target = today - timedelta(days=(today.weekday() - day - 1) % 7 + 1)
    else:
        target = today + timedelta(days=(day - today.weekday() - step) % 7 + step)
    return target, target, "day", False


def _shift_period(period: str, step: int, today: date) -> _Days:
    if period in {"week", "weekend"}:
        start, end = (_get_weekday(today, step, day)[0] for day in (0 if period == "week" else 5, 6))
        return start, end, "day", False
    if period == "month":
        return (*get_month_bounds(_add_months(today.replace(day=1), step)), "month", False)
    if period == "quarter":
        start = _add_months(today.replace(day=1), 3 * step - (today.month - 1) % 3)
        return start, get_month_bounds(_add_months(start, 2))[1], "month", False
    return date(today.year + step, 1, 1), date(today.year + step, 12, 31), "year", False


def _get_weekday(today: date, weeks: int, day: int) -> _Days:
    target = today + timedelta(days=7 * weeks + day - today.weekday())
    return target, target, "day", False


def _resolve_week_from(part: dict[str, str], today: date) -> _Days:
    target = today + timedelta(days=(WEEKDAYS[part["weekday"]] - today.weekday()) % 7 + 7)
    return target, target, "day", False


def _resolve_named_month(part: dict[str, str], today: date) -> _Days:
    """Return the latest or the next such month outside the current one."""
    month = MONTHS[part["month"]]
    if part["step"] == "last":
        year = today.year if month < today.month else today.year - 1
    else:
        year = today.year if month > today.month else today.year + 1
    return (*get_month_bounds(date(year, month, 1)), "month", False)


def _resolve_period_end(part: dict[str, str], today: date) -> _Days:
    end = _shift_period(part["period"], 0, today)[1]
    return end, end, "day", False


def _resolve_han_week(part: dict[str, str], today: date) -> _Days:
    step = _HAN_STEPS[part["step"]]
    if weekday := part.get("kana") or part.get("weekday"):
        return _get_weekday(today, step, _HAN_WEEKDAYS[weekday])
    return _shift_period("weekend" if "end" in part else "week", step, today)


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


def _count_days(year: int, month: int) -> int:
    """Return the number of days of a month. The module `calendar` has it too, but its import is slow."""
    return 31 if month == 12 else (date(year, month + 1, 1) - date(year, month, 1)).days


def get_month_bounds(day: date) -> tuple[date, date]:
    """Return the first and the last day of a day's month."""
    return day.replace(day=1), day.replace(day=_count_days(day.year, day.month))


_number = rf"(?P<count>\d{{1,4}}|{_build_alternatives(NUMBERS)})"
_counted = [word for word, unit in _UNITS.items() if unit not in {"weekend", "quarter"}]
_amount = rf"{_number}\s+(?P<unit>{_build_alternatives(_counted)})"
_periods = [word for word, unit in _UNITS.items() if unit not in {"day", "fortnight"}]
_weekday = rf"(?P<weekday>{_build_alternatives(WEEKDAYS)})"
_near = rf"(?:{_weekday}|(?P<period>{_build_alternatives(_periods)}))"
_following_steps = [word for word in _STEPS if _STEPS[word] and word not in {"last", "next"}]

_counted_words = _list_last_words(_counted)
_weekday_words = _list_last_words(WEEKDAYS)
_near_words = _weekday_words | _list_last_words(_periods)

_han_step = rf"(?P<step>{_build_alternatives(_HAN_STEPS)})"


class _Form(NamedTuple):
    """One form of relative dates. Only a text with a word of each set in `words` has such a date."""

    pattern: re.Pattern[str]
    resolve: Callable[[dict[str, str], date], _Days | None]
    words: tuple[frozenset[str], ...]


def _define_form(
    source: str, resolve: Callable[[dict[str, str], date], _Days | None], *words: frozenset[str]
) -> _Form:
    return _Form(defer_regex(rf"\b(?:{source})\b(?!\s+of\b)", re.VERBOSE), resolve, words)


# One pattern of all forms would take 11 ms to compile; a text has words of few of them.
_FORMS = (
    _define_form(
        rf"""(?:{_amount}\s+(?P<way>before|after|from|vor|nach|prima\s+di|dopo|avant|apres|despues\s+de|depois\s+de)\s+)?
        (?P<day>{_build_alternatives(_DAYS)})""",
        _resolve_day,
        _list_last_words(_DAYS),
    ),
    _define_form(
        rf"{_amount}\s+(?:ago|earlier|fa|atras)",
        partial(_resolve_count, sign=-1),
        frozenset({"ago", "earlier", "fa", "atras"}),
        _counted_words,
    ),
    _define_form(
        rf"(?:vor|hace|il\s+y\s+a|ha|faz)\s+{_amount}",
        partial(_resolve_count, sign=-1),
        frozenset({"vor", "hace", "il", "ha", "faz"}),
        _counted_words,
    ),
    _define_form(
        rf"(?:in|dentro\s+de|en|dans|fra|tra|daqui\s+a|em)\s+{_amount}(?:'\s+time)?",
        partial(_resolve_count, sign=1),
        frozenset({"in", "dentro", "en", "dans", "fra", "tra", "daqui", "em"}),
        _counted_words,
    ),
    _define_form(
        rf"{_amount}\s+from\s+now", partial(_resolve_count, sign=1), frozenset({"now"}), _counted_words
    ),
    _define_form(
        rf"{_weekday}\s+(?P<step>next|last|this)\s+week",
        lambda part, today: _get_weekday(today, _STEPS[part["step"]], WEEKDAYS[part["weekday"]]),
        frozenset({"week"}),
        _weekday_words,
    ),
    _define_form(rf"a\s+week\s+from\s+{_weekday}", _resolve_week_from, frozenset({"week"}), _weekday_words),
    _define_form(
        rf"(?P<step>{_build_alternatives(_STEPS)}|coming)\s+{_near}",
        _resolve_step,
        _list_last_words((*_STEPS, "coming")),
        _near_words,
    ),
    _define_form(
        rf"(?P<step>last|next)\s+(?P<month>{_build_alternatives(MONTHS)})",
        _resolve_named_month,
        frozenset({"last", "next"}),
        _list_last_words(MONTHS),
    ),
    _define_form(
        rf"{_near}\s+(?P<step>{_build_alternatives(_following_steps)})",
        _resolve_step,
        _list_last_words(_following_steps),
        _near_words,
    ),
    _define_form(
        r"(?:at\s+|by\s+)?the\s+end\s+of\s+(?:the|this)\s+(?P<period>week|month|year)",
        _resolve_period_end,
        frozenset({"end"}),
        frozenset({"week", "month", "year"}),
    ),
)
_HAN_FORMS = tuple(
    _Form(defer_regex(source), resolve, ())
    for source, resolve in (
        (
            f"(?P<day>{_build_alternatives(_HAN_DAYS)})",
            lambda part, today: _count(_HAN_DAYS[part["day"]], "day", today, 1),
        ),
        (
            rf"(?P<count>\d{{1,4}}|[{_HAN_DIGITS}]{{1,3}})(?P<unit>{_build_alternatives(_HAN_UNITS)})(?:以|之)?(?P<way>[前后後])",
            _resolve_han_count,
        ),
        (
            rf"{_han_step}[个個]?(?:星期|礼拜|禮拜|[周週])"
            r"(?:の?(?P<kana>[月火水木金土日])曜日?|(?P<weekday>[一二三四五六日天])(?![个個回次])|(?P<end>末))?",
            _resolve_han_week,
        ),
        (
            f"{_han_step}[个個]?月",
            lambda part, today: _shift_period("month", _HAN_STEPS[part["step"]], today),
        ),
        (
            f"(?P<year>{_build_alternatives(_HAN_YEARS)})",
            lambda part, today: _shift_period("year", _HAN_YEARS[part["year"]], today),
        ),
    )
)


def _find_relative(folded: str, today: date) -> list[DateMention]:
    """Return the first 20 relative dates of a text from `fold_text`; `counted` ones are single days."""
    mentions: list[DateMention] = []
    for form, match in _find_forms(folded):
        part = {name: " ".join(words.split()) for name, words in match.groupdict().items() if words}
        try:
            days = form.resolve(part, today) if _is_meant(match, folded) else None
        except (OverflowError, ValueError):  # outside the calendar
            days = None
        if days is not None:
            start, end, unit, counted = days
            mentions.append(
                DateMention(start, end, match.start(), match.end(), unit, counted=counted, firm=counted)
            )
            if len(mentions) == _MAX_RELATIVE:
                break
    return mentions


@lru_cache(maxsize=8)  # a save asks for its resolved dates and for its date tokens
def _find_forms(folded: str) -> Sequence[tuple[_Form, re.Match[str]]]:
    """Return the matches in their order; of two at one place, that of the first form."""
    words = _list_latin_words(folded)
    forms = [form for form in _FORMS if not any(each.isdisjoint(words) for each in form.words)]
    if not folded.isascii() and _HAS_HAN.search(folded):
        forms += _HAN_FORMS
    following = [(form, form.pattern.search(folded)) for form in forms]
    found: list[tuple[_Form, re.Match[str]]] = []
    while matches := [(form, match) for form, match in following if match]:
        first, match = min(matches, key=lambda each: each[1].start())
        found.append((first, match))
        following = [
            (form, form.pattern.search(folded, match.end()) if other.start() < match.end() else other)
            for form, other in matches
        ]
    return found


def _widen_count(mention: DateMention) -> DateMention:
    """Return a mention of the days that a number of weeks, months or years may mean."""
    start, end, unit = mention.start, mention.end, mention.unit
    if mention.counted and unit != "day":
        if unit == "month":
            start, end = get_month_bounds(start)
        elif unit == "year":
            start, end = date(start.year, 1, 1), date(start.year, 12, 31)
        else:
            start, end, unit = shift_day(start, -3), shift_day(end, 3), "day"
        return mention._replace(start=start, end=end, unit=unit, counted=unit == "day")
    return mention._replace(unit="month") if unit == "quarter" else mention


_FRENCH = defer_regex(
    r"\b(?:je|nous|vous|elle|les|du|chez|avec|pour|fait|soir|matin|quoi|est-ce|dit)\b|\b[jlcdnq]u?['’]"
)
_GERMAN = defer_regex(r"\b(?:ich|wir|ist|sind|war|der|das|und|nicht|ein|eine|was|wer|wo)\b")
_MORNING = defer_regex(
    r"(?:\b(?:heute|gestern|guten|jeden|am|diesen|nachsten|la|las|esta|una|cada|por)|tag|woch)\s+$"
)


def _is_meant(match: re.Match[str], folded: str) -> bool:
    """Return whether a word with another meaning, such as "Morgen", means the day here."""
    word = match.group()
    if word.endswith(("morgen", "manana")) and match.lastgroup == "day":
        return not _MORNING.search(folded[max(0, match.start() - 12) : match.start()])
    if word == "hier":  # "here" in German
        return bool(_FRENCH.search(folded)) and not _GERMAN.search(folded)
    return True


_WEEKDAY = defer_regex(
    rf"\b(?P<latin>{_build_alternatives(WEEKDAYS)})\b"
    rf"(?!,?\s*(?:the\s+|de[nmr]\s+|el\s+|le\s+)?(?:\d{{1,2}}(?:st|nd|rd|th|er|\.)?\s*{_of}?(?:{_any})|(?:{_any})\s+\d)\b)"
    r"|(?:星期|[周週])(?P<han>[一二三四五六日天])|(?P<kana>[月火水木金土日])曜日?"
)
_EVERY = defer_regex(
    r"(?:\b(?:every|each|jede[nrs]?|cada|los|las|chaque|tous\s+les|toda[s]?|todos|os|as|ogni|tutti\s+i)\s+|[每毎])$"
)


def _find_weekdays(folded: str, today: date) -> Iterator[DateMention]:
    """Yield for a weekday the last one and the next one; nothing for "every Friday"."""
    if _weekday_words.isdisjoint(_list_latin_words(folded)) and not _HAS_HAN.search(folded):
        return
    for match in _WEEKDAY.finditer(folded):
        if _EVERY.search(folded[max(0, match.start() - 12) : match.start()]):
            continue
        han = match["han"] or match["kana"]
        weekday = _HAN_WEEKDAYS[han] if han else WEEKDAYS[match["latin"]]
        ahead = (weekday - today.weekday()) % 7
        for offset in dict.fromkeys((ahead, ahead - 7)):
            day = shift_day(today, offset)
            yield _build_mention(match, day, day, firm=False)


# -- several dates -------------------------------------------------------------------------------------------

_RANGE = defer_regex(rf"\s*(?:{_to}|hasta|ate|[~〜]|から|到|至)\s*{_the}")


def _drop_overlapping(mentions: list[DateMention]) -> list[DateMention]:
    """Return the mentions in order, without those within the words of a longer one."""
    mentions.sort(key=lambda one: (one.at, -one.stop))
    kept: list[DateMention] = []
    for one in mentions:
        if kept and one.at < kept[-1].stop and (one.at, one.stop) != (kept[-1].at, kept[-1].stop):
            continue
        kept.append(one)
    return kept


def _is_range(folded: str, before: DateMention, one: DateMention) -> bool:
    """Return whether the words between two dates make them a range."""
    words = folded[before.stop : one.at]
    if _RANGE.fullmatch(words):
        return True
    is_pair = _LIST.fullmatch(words.strip().removesuffix(" the"))
    return bool(is_pair and _BETWEEN.search(folded[max(0, before.at - 20) : before.at]))


def _join_ranges(folded: str, mentions: list[DateMention]) -> list[DateMention]:
    """Return the mentions with "3 May to 7 June" as one."""
    joined: list[DateMention] = []
    meanings = Counter(one.at for one in mentions)
    for one in mentions:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.stop < one.at
            and _is_range(folded, before, one)
            and before.start < one.end
            and (one.end - before.start).days <= 400
            and meanings[before.at] == meanings[one.at] == 1
        ):
            joined[-1] = DateMention(
                start=before.start, end=one.end, at=before.at, stop=one.stop,
                yearly=before.yearly and one.yearly, unit="day" if "day" in {before.unit, one.unit} else one.unit,
            )  # fmt: skip
        else:
            joined.append(one)
    return joined
