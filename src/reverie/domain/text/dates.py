"""Dates in a text, in every common form: "7 January", "7.1.2026", "le 7 janvier", "1月7日", "tomorrow".

Every date becomes days. One without a year is the nearest to the time of the text, and counts for other years too.
"07/01/2026" may mean two days, and a bare "Friday" the last one or the next one: both are returned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any, NamedTuple

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.calendar_words import MONTHS, SHORT_MONTHS, WEEKDAYS, fold_text, list_latin_words
from reverie.domain.text.relative_dates import (
    HAN_DIGITS,
    HAN_WEEKDAYS,
    build_alternatives,
    get_month_bounds,
    parse_han_number,
    resolve_folded,
)

_LONGEST_TEXT = 20_000
_MOST_FOUND = 40


class DateMention(NamedTuple):
    """Days that a text names.

    Attributes:
        start: The first day.
        end: The last day; the same for a single one.
        at: Where in the text the words begin.
        stop: Where they end.
        unit: How exactly they tell it: `day`, `month` or `year`.
        yearly: Whether no year is said: `start` and `end` are then the nearest such days.
        counted: Whether the days are counted from today, so that they move with it.
        firm: Whether the words mean these days and nothing else.
    """

    start: date
    end: date
    at: int
    stop: int
    unit: str = "day"
    yearly: bool = False
    counted: bool = False
    firm: bool = True


def find_dates(text: str, today: date, *, relative: bool = True) -> list[DateMention]:
    """Return the dates in a text, in the order in which they stand there.

    Args:
        text: What was said.
        today: The day on which it was said.
        relative: Whether to resolve "tomorrow" and the like.

    Example:
        >>> [str(day.start) for day in find_dates("From 7 Jan. to 2026-02-03, mañana", date(2026, 1, 1))]
        ['2026-01-07', '2026-01-02']
    """
    text = text[:_LONGEST_TEXT]
    folded = fold_text(text)
    mentions = list(_find_absolute(text, folded, today))
    if relative:
        mentions += _find_relative(text, folded, today)
        mentions += _find_weekdays(folded, today)
    if len(mentions) > 1:
        mentions = _join_ranges(folded, _drop_overlapping(mentions))
    return mentions[:_MOST_FOUND]


# -- dates with a month or a year ------------------------------------------------------------------------------

_YEAR = r"(?:19|20)\d\d"
_full = build_alternatives(MONTHS)
_any = build_alternatives([*MONTHS, *SHORT_MONTHS])
_and = r"(?:(?:and|und|y|et|e)\b|&)"
_of = r"(?:of\s+|de\s+|del\s+|d['’]\s*)"
_DAY_MONTH = (
    rf"(?<![\w.,:/-])(?:(?P<first>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?\s*(?:-|–|to|bis|al?|au|ao|{_and})\s*)?"
    rf"(?P<before>\d{{1,2}})(?P<ordinal>st|nd|rd|th|er|\.|º|°)?\s*(?:{_of})?(?P<month>{_any})\b\.?"
    rf"(?:,?\s*{_of}?(?P<year>{_YEAR})\b)?"
)
_MONTH_DAY = (
    rf"\b(?P<named>{_any})\b\.?\s+(?:the\s+)?(?P<after>\d{{1,2}})(?P<nth>st|nd|rd|th)?(?![\w%:]|\.\d|,\d(?!\d{{3}}\b))"
    rf"(?:\s*(?:-|–|to|{_and})\s*(?P<last>\d{{1,2}})(?:st|nd|rd|th)?(?![\w%:]|[.,]\d))?"
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
    rf"(?:(?P<han_year>{_YEAR})\s*年\s*)?(?<![\d{HAN_DIGITS}])(?P<han_month>\d{{1,2}}|[{HAN_DIGITS}]{{1,3}})\s*月"
    rf"(?!間)(?:\s*(?P<han_day>\d{{1,2}}|[{HAN_DIGITS}]{{1,3}})\s*[日号號])?"
    rf"|(?P<han_only>{_YEAR})\s*年"
    rf"|(?P<han_near>今月|本月|[这這][个個]?月|先月|上[个個]?月|来月|下[个個]?月)の?(?P<near_day>\d{{1,2}})\s*[日号號]"
)
_LONE = rf"(?<![\w.,:$€£¥/#-])(?P<lone>{_YEAR})(?![\w:/€%-]|[.,]\d)"
_PLACE = r"(?:(?=\d|[^\x00-\x7f])|\b(?=[a-z]))"
"""Where a date may begin. Asked first, because in the middle of a word eight forms would fail one by one."""

_ABSOLUTE = defer_regex(
    f"{_PLACE}(?:{'|'.join((_ISO, _NUMERIC, _SHORT, _DAY_MONTH, _MONTH_DAY, _MONTH, _HAN, _LONE))})"
)
_LIST = defer_regex(_and)
_NTH = defer_regex(
    r"\b(?:on|by|until|is|for|since)\s+the\s+(?P<nth>\d{1,2})(?:st|nd|rd|th)\b(?:\s+of\s+(?P<which>this|next|last)\s+month)?"
    r"(?!\s+(?:of\s+)?[a-z])"
    r"|\bthe\s+(?P<day>\d{1,2})(?:st|nd|rd|th)\s+of\s+(?P<of>this|next|last)\s+month"
)
_HAS_DIGIT = defer_regex(r"[\d月年]")
_WORTH_READING = defer_regex(rf"{_YEAR}|\d(?:[-/.]|(?:st|nd|rd|th|er)[a-z])|\bthe\s+\d|[月年]")
_MONTH_WORDS = frozenset([*MONTHS, *SHORT_MONTHS])
_AMBIGUOUS = frozenset({"march", "may", "mars", "marco", "mar"})
"""Months that are other words too. Alone they need a preposition or, in English, a capital inside a sentence."""
_PREPOSITION = defer_regex(
    r"\b(?:in|of|on|by|since|until|till|during|before|after|last|next|this|en|em|fin|debut|mi|im|ab|seit|bis)[ -]$"
)
_ROMANCE = defer_regex(r"\b(?:en|em|fin|début|debut|mi)[ -]$")
_NEAR_MONTHS = {"先": -1, "上": -1, "来": 1, "下": 1}


def _find_absolute(text: str, folded: str, today: date) -> Iterator[DateMention]:
    if _MONTH_WORDS.isdisjoint(list_latin_words(folded)) and (
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
    """Yield what one match means: nothing, a day, a month, a year, or two days that it may mean."""
    if match["month"]:
        if _is_day_of_month(match, text):
            month, day, year = _get_month(match["month"]), match["before"], match["year"]
            yield from _build(match, year, month, day, today, first=_get_first(match, "first", "before"))
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
    """Return the first day of two numbers before a month; of "5 and 20 June" none, "13 and 14 June" are two days."""
    is_list = match[one] and _LIST.search(match.string, match.end(one), match.start(other))
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
        month, day = parse_han_number(match["han_month"]), match["han_day"]
        yield from _build(match, match["han_year"], month, parse_han_number(day) if day else None, today)
    else:
        step = _NEAR_MONTHS.get(match["han_near"][0], 0)
        near = _build_near_day(step, int(match["near_day"]), today)
        if near is not None:
            yield _build_mention(match, near, near)


def _get_month(word: str) -> int:
    return MONTHS.get(word) or SHORT_MONTHS[word]


def _is_day_of_month(match: re.Match[str], text: str) -> bool:
    """Return whether a number and the name of a month are a date: "2 may come" is none."""
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
    """Yield the day, or its month where there is no such day, or nothing where there is no such month."""
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
    """Return what the words of a match mean."""
    return DateMention(start=start, end=end, at=match.start(), stop=match.end(), **more)


def _build_day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def shift_day(day: date, days: int) -> date:
    """Return the day some days later, or the first or the last day of the calendar."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))


def _build_near_day(step: int, day: int, today: date) -> date | None:
    """Return a day of the month, some months from now."""
    years, month = divmod(today.month - 1 + step, 12)
    return _build_day(today.year + years, month + 1, day)


def _get_nearest(days: list[date], today: date) -> date:
    return min(days, key=lambda day: abs((day - today).days))


# -- dates that depend on the day of the text ----------------------------------------------------------------


def _find_relative(text: str, folded: str, today: date) -> Iterator[DateMention]:
    for when in resolve_folded(text, folded, today):
        start, end = when.start, when.end
        unit = "month" if when.unit == "quarter" else when.unit
        if when.counted and unit == "month":
            start, end = get_month_bounds(start)
        elif when.counted and unit == "year":
            start, end = date(start.year, 1, 1), date(start.year, 12, 31)
        elif when.counted and unit == "week":
            start, end, unit = shift_day(start, -3), shift_day(end, 3), "day"
        counted = when.counted and unit == "day"
        stop = when.at + len(when.words)
        yield DateMention(
            start=start, end=end, at=when.at, stop=stop, unit=unit, counted=counted, firm=when.counted
        )


_WEEKDAY = defer_regex(
    rf"\b(?P<latin>{build_alternatives(WEEKDAYS)})\b"
    rf"(?!,?\s*(?:the\s+|de[nmr]\s+|el\s+|le\s+)?(?:\d{{1,2}}(?:st|nd|rd|th|er|\.)?\s*{_of}?(?:{_any})|(?:{_any})\s+\d)\b)"
    r"|(?:星期|[周週])(?P<han>[一二三四五六日天])|(?P<kana>[月火水木金土日])曜日?"
)
_EVERY = defer_regex(
    r"(?:\b(?:every|each|jede[nrs]?|cada|los|las|chaque|tous\s+les|toda[s]?|todos|os|as|ogni|tutti\s+i)\s+|[每毎])$"
)
_PARTS_OF_WEEKDAYS = (
    "day", "tag", "woch", "feira", "edi", "enne", "noche", "unes", "artes", "coles", "ueves", "ernes", "abado",
    "omingo", "menica", "曜", "周", "週", "期",
)  # fmt: skip


def _find_weekdays(folded: str, today: date) -> Iterator[DateMention]:
    """Yield for a weekday the last one and the next one; nothing for "every Friday"."""
    if not any([part in folded for part in _PARTS_OF_WEEKDAYS]):
        return
    for match in _WEEKDAY.finditer(folded):
        if _EVERY.search(folded[max(0, match.start() - 12) : match.start()]):
            continue
        han = match["han"] or match["kana"]
        weekday = HAN_WEEKDAYS[han] if han else WEEKDAYS[match["latin"]]
        ahead = (weekday - today.weekday()) % 7
        for offset in dict.fromkeys((ahead, ahead - 7)):
            day = shift_day(today, offset)
            yield _build_mention(match, day, day, firm=False)


# -- several dates -------------------------------------------------------------------------------------------

_RANGE = defer_regex(
    r"\s*(?:to|until|till|through|bis(?:\s+zum)?|al?|hasta(?:\s+el)?|au|ao|ate|[-–~〜]|から|到|至)\s*"
)


def _drop_overlapping(mentions: list[DateMention]) -> list[DateMention]:
    """Return the mentions in order, without those that stand within the words of a longer one."""
    mentions.sort(key=lambda one: (one.at, -one.stop))
    kept: list[DateMention] = []
    for one in mentions:
        if kept and one.at < kept[-1].stop and (one.at, one.stop) != (kept[-1].at, kept[-1].stop):
            continue
        kept.append(one)
    return kept


def _join_ranges(folded: str, mentions: list[DateMention]) -> list[DateMention]:
    """Return the mentions with "3 May to 7 June" as one."""
    joined: list[DateMention] = []
    meanings = Counter(one.at for one in mentions)
    for one in mentions:
        before = joined[-1] if joined else None
        if (
            before is not None
            and before.stop < one.at
            and _RANGE.fullmatch(folded[before.stop : one.at])
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
