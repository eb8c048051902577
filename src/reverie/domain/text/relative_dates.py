"""Relative dates in English, such as "next Friday", resolved against the moment of the text.

The words stay; their meaning is computed once, when they are saved, because "yesterday" read a year later means
another day. Only expressions with one meaning are resolved, not "on Friday", "recently" or "a few days ago".

Weeks begin on Monday (ISO 8601). "This Friday" is the first Friday from today on, "next Friday" that of the week
after the present one, "last Friday" the latest before today.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "couple of": 2, "three": 3, "four": 4, "five": 5,
    "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13,
    "fourteen": 14, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "ninety": 90,
}  # fmt: skip
_MOST_FOUND = 20
_LONGEST_TEXT = 20_000
_FARTHEST = 36_500


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedDate:
    """Days that words mean.

    Attributes:
        words: The words, as they stand in the text.
        start: The first day.
        end: The last day; the same for a single one.
        at: Where in the text the words begin.
    """

    words: str
    start: date
    end: date
    at: int

    def __str__(self) -> str:
        return f"{self.start}" if self.start == self.end else f"{self.start}/{self.end}"


def resolve_dates(text: str, said_at: datetime, *, zone: tzinfo = UTC) -> list[ResolvedDate]:
    """Return the relative dates in a text, in the order in which they stand there; at most 20.

    Args:
        text: What was said.
        said_at: When; aware.
        zone: Where the speaker's days begin and end.

    Example:
        >>> friday = datetime(2025, 1, 17, 9, tzinfo=UTC)
        >>> [f"{when.words} = {when}" for when in resolve_dates("Met Ann yesterday, again next week", friday)]
        ['yesterday = 2025-01-16', 'next week = 2025-01-20/2025-01-26']
    """
    try:
        today = said_at.astimezone(zone).date()
    except OverflowError:  # the first or the last day there is
        today = said_at.date()
    resolved: list[ResolvedDate] = []
    for match in _EXPRESSION.finditer(text[:_LONGEST_TEXT]):
        days = _resolve_days(match, today)
        if days is not None:
            resolved.append(ResolvedDate(words=match.group(), start=days[0], end=days[1], at=match.start()))
            if len(resolved) == _MOST_FOUND:
                break
    return resolved


def parse_relative_day(text: str, now: datetime, *, zone: tzinfo = UTC) -> datetime | None:
    """Return when the day begins that a text such as "yesterday" means; None for any other text.

    Args:
        text: One expression, and nothing else.
        now: The present moment; aware.
        zone: Where days begin and end.

    >>> parse_relative_day("last monday", datetime(2025, 1, 17, 9, tzinfo=UTC)).date().isoformat()
    '2025-01-13'
    """
    text = text.strip()
    match = next(iter(resolve_dates(text, now, zone=zone)), None)
    if match is None or match.words != text:
        return None
    return datetime.combine(match.start, time(), zone).astimezone(UTC)


def format_dates(dates: list[ResolvedDate]) -> str:
    """Return the dates as one line, for storing beside the text; `read` gives the pairs back.

    >>> format_dates([ResolvedDate(words="next week", start=date(2025, 1, 20), end=date(2025, 1, 26), at=0)])
    'next week = 2025-01-20/2025-01-26'
    """
    lines = dict.fromkeys(f"{' '.join(when.words.split())} = {when}" for when in dates)
    return "; ".join(lines)


def parse_dates(line: str) -> Iterator[tuple[str, date, date]]:
    """Yield the words and days that `format_dates` wrote; what is not of its form is passed over."""
    for part in line.split("; "):
        words, _, days = part.rpartition(" = ")
        first, _, last = days.partition("/")
        try:
            yield words, date.fromisoformat(first), date.fromisoformat(last or first)
        except ValueError:
            continue


# -- what the words mean ---------------------------------------------------------------------------------

_number = "|".join(
    sorted((re.escape(word).replace(r"\ ", r"\s+") for word in _NUMBERS), key=len, reverse=True)
)
_day = "|".join(_DAYS)
_month = "|".join(_MONTHS)
_EXPRESSION = re.compile(
    rf"""\b(?:
        (?P<before_yesterday>(?:the\s+)?day\s+before\s+yesterday)
      | (?P<after_tomorrow>(?:the\s+)?day\s+after\s+tomorrow)
      | (?P<yesterday>yesterday|last\s+night)
      | (?P<today>today|tonight|this\s+(?:morning|afternoon|evening))
      | (?P<tomorrow>tomorrow)
      | (?P<ago_count>\d{{1,4}}|{_number})\s+(?P<ago_unit>day|week|month|year)s?\s+(?P<ago>ago|earlier)
      | in\s+(?P<in_count>\d{{1,4}}|{_number})\s+(?P<in_unit>day|week|month|year)s?(?:'\s+time)?
      | (?P<from_count>\d{{1,4}}|{_number})\s+(?P<from_unit>day|week|month|year)s?\s+from\s+(?:now|today)
      | (?P<which>last|this|next|coming)\s+(?P<weekday>{_day})\b
      | (?P<weekday_of>{_day})\s+(?P<of_week>next|last|this)\s+week
      | a\s+week\s+from\s+(?P<week_from>{_day})
      | (?P<period_which>last|this|next)\s+(?P<period>weekend|week|month|quarter|year)
      | (?P<month_which>last|next)\s+(?P<month>{_month})\b
      | (?P<month_end>(?:at\s+|by\s+)?the\s+end\s+of\s+(?:the|this)\s+(?:week|month|year))
    )\b(?!\s+of\b)""",
    re.IGNORECASE | re.VERBOSE,
)
Days = tuple[date, date] | None


def _resolve_days(match: re.Match[str], today: date) -> Days:
    """Return the days that an expression means; None when it lies beyond a hundred years."""
    part = {name: " ".join(text.lower().split()) for name, text in match.groupdict().items() if text}
    try:
        for name, meaning in _MEANINGS.items():
            if name in part:
                return meaning(part, today)
    except (OverflowError, ValueError):
        return None
    return None


def _build_day_resolver(offset: int) -> Callable[[dict[str, str], date], Days]:
    def meaning(part: dict[str, str], today: date) -> Days:
        del part
        day = today + timedelta(days=offset)
        return day, day

    return meaning


def _resolve_count(count: str, unit: str, today: date, sign: int) -> Days:
    number = int(count) if count.isdecimal() else _NUMBERS[count]
    days = {"day": 1, "week": 7, "month": 31, "year": 366}[unit] * number
    if days > _FARTHEST:
        return None
    if unit in {"day", "week"}:
        day = today + timedelta(days=sign * days)
    else:
        day = _add_months(today, sign * number * (12 if unit == "year" else 1))
    return day, day


def _add_months(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of a shorter month."""
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _resolve_weekday(part: dict[str, str], today: date) -> Days:
    day = _DAYS.index(part["weekday"])
    if part["which"] == "last":
        target = today - timedelta(days=(today.weekday() - day - 1) % 7 + 1)
    elif part["which"] == "next":
        target = _find_monday(today) + timedelta(days=7 + day)
    else:
        target = today + timedelta(days=(day - today.weekday()) % 7)
    return target, target


def _resolve_weekday_of_week(part: dict[str, str], today: date) -> Days:
    weeks = {"last": -1, "this": 0, "next": 1}[part["of_week"]]
    target = _find_monday(today) + timedelta(days=7 * weeks + _DAYS.index(part["weekday_of"]))
    return target, target


def _resolve_week_from(part: dict[str, str], today: date) -> Days:
    day = _DAYS.index(part["week_from"])
    target = today + timedelta(days=(day - today.weekday()) % 7 + 7)
    return target, target


def _resolve_period(part: dict[str, str], today: date) -> Days:
    step = {"last": -1, "this": 0, "next": 1}[part["period_which"]]
    period = part["period"]
    if period == "week":
        start = _find_monday(today) + timedelta(days=7 * step)
        return start, start + timedelta(days=6)
    if period == "weekend":
        start = _find_monday(today) + timedelta(days=7 * step + 5)
        return start, start + timedelta(days=1)
    if period == "month":
        return _get_month_bounds(_add_months(today.replace(day=1), step))
    if period == "quarter":
        first = today.replace(month=3 * ((today.month - 1) // 3) + 1, day=1)
        start = _add_months(first, 3 * step)
        return start, _get_month_bounds(_add_months(start, 2))[1]
    return date(today.year + step, 1, 1), date(today.year + step, 12, 31)


def _resolve_named_month(part: dict[str, str], today: date) -> Days:
    """Return the latest or the first such month that does not lie in the present one."""
    month = _MONTHS.index(part["month"]) + 1
    if part["month_which"] == "last":
        year = today.year if month < today.month else today.year - 1
    else:
        year = today.year if month > today.month else today.year + 1
    return _get_month_bounds(date(year, month, 1))


def _resolve_period_end(part: dict[str, str], today: date) -> Days:
    if part["month_end"].endswith("week"):
        end = _find_monday(today) + timedelta(days=6)
    elif part["month_end"].endswith("month"):
        end = _get_month_bounds(today)[1]
    else:
        end = date(today.year, 12, 31)
    return end, end


def _find_monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _get_month_bounds(day: date) -> tuple[date, date]:
    return day.replace(day=1), day.replace(day=monthrange(day.year, day.month)[1])


_MEANINGS: dict[str, Callable[[dict[str, str], date], Days]] = {
    "before_yesterday": _build_day_resolver(-2),
    "after_tomorrow": _build_day_resolver(2),
    "yesterday": _build_day_resolver(-1),
    "today": _build_day_resolver(0),
    "tomorrow": _build_day_resolver(1),
    "ago": lambda part, today: _resolve_count(part["ago_count"], part["ago_unit"], today, -1),
    "in_count": lambda part, today: _resolve_count(part["in_count"], part["in_unit"], today, 1),
    "from_count": lambda part, today: _resolve_count(part["from_count"], part["from_unit"], today, 1),
    "weekday": _resolve_weekday,
    "weekday_of": _resolve_weekday_of_week,
    "week_from": _resolve_week_from,
    "period": _resolve_period,
    "month": _resolve_named_month,
    "month_end": _resolve_period_end,
}
