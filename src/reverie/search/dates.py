"""Dates of a question, and how close a time is to them."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from reverie.domain.text.tokenizer import MONTHS

__all__ = ["AMBIGUOUS", "Closeness", "QueryDate", "find_dates"]

_DAY = 86_400.0
_EPOCH = date(1970, 1, 1).toordinal()

_MONTH = "|".join(MONTHS)
_DATE = re.compile(
    rf"(?P<iso>\b(?P<y>(?:19|20)\d\d)-(?P<m>\d\d)(?:-(?P<d>\d\d))?\b)"
    rf"|(?:\b(?P<before>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?\b(?P<month>{_MONTH})\b"
    rf"(?: (?P<after>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?(?:,? ?(?P<year>(?:19|20)\d\d)\b)?"
    rf"|\b(?P<alone>(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
#: Months that are English words too: a month only with a number beside it, a preposition before it, or a
#: capital inside a sentence.
AMBIGUOUS = frozenset({"march", "may"})
_PREPOSITION = re.compile(
    r"\b(?:in|of|on|by|since|until|till|during|before|after|last|next|this) $", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryDate:
    """A day, month or year named in a question; what is not said is None."""

    year: int | None = None
    month: int | None = None
    day: int | None = None

    @property
    def token(self) -> str:
        """The same in the words of :func:`reverie.domain.text.tokenizer.tokenize_date`."""
        if self.month is None:
            return f"@{self.year:04d}"
        if self.day is None:
            return f"@{MONTHS[self.month - 1]}" if self.year is None else f"@{self.year:04d}-{self.month:02d}"
        return (
            f"@{self.month:02d}-{self.day:02d}"
            if self.year is None
            else f"@{self.year:04d}-{self.month:02d}-{self.day:02d}"
        )


def find_dates(text: str) -> tuple[tuple[QueryDate, ...], list[tuple[int, int]]]:
    """Return the days named in ``text`` and where they stand."""
    dates: dict[QueryDate, None] = {}
    spans: list[tuple[int, int]] = []
    for match in _DATE.finditer(text):
        if match["iso"]:
            day = _build_day(int(match["y"]), int(match["m"]), int(match["d"]) if match["d"] else None)
        elif match["alone"]:
            day = QueryDate(year=int(match["alone"]))
        else:
            number = match["before"] or match["after"]
            if match["month"].casefold() in AMBIGUOUS and not (
                number or match["year"] or _is_month(text, match)
            ):
                continue
            month = MONTHS.index(match["month"].casefold()) + 1
            day = _build_day(
                int(match["year"]) if match["year"] else None, month, int(number) if number else None
            )
        if day is not None:
            dates.setdefault(day)
            spans.append(match.span())
    return tuple(dates), spans


def _build_day(year: int | None, month: int, day: int | None) -> QueryDate | None:
    """Return the day, or its month where there is no such day, or None where there is no such month."""
    if not 1 <= month <= 12:
        return None
    return QueryDate(year=year, month=month, day=day if day is not None and 1 <= day <= 31 else None)


def _is_month(text: str, match: re.Match[str]) -> bool:
    """Return whether "may" or "march", without a number, means the month."""
    start = match.start("month")
    if _PREPOSITION.search(text[max(0, start - 12) : start]):
        return True
    return start > 0 and text[start].isupper() and not text[:start].rstrip().endswith((".", "?", "!"))


class Closeness:
    """Closeness of a time to the nearest of some days: 1 on the day, falling on both sides."""

    __slots__ = ("days", "days_after", "days_before", "known")

    def __init__(self, days: Sequence[QueryDate], *, days_before: float, days_after: float) -> None:
        """Compare with `days`; closeness falls to 1/e in so many days before and after them."""
        self.days = days
        self.days_before = days_before
        self.days_after = days_after
        self.known: dict[int, float] = {}  # day number -> closeness: a session's turns share their day

    def of(self, at: float) -> float:
        """Return the closeness of a time in seconds since 1970."""
        number = int(at // _DAY)
        if number not in self.known:
            self.known[number] = max(self._compute_closeness(day, number) for day in self.days)
        return self.known[number]

    def _compute_closeness(self, day: QueryDate, number: int) -> float:
        here = _EPOCH + number
        year = date.fromordinal(here).year
        years = (day.year,) if day.year is not None else (year - 1, year, year + 1)
        near = 0.0
        for year in years:
            first, last = _compute_span(day, year)
            if here < first:
                near = max(near, math.exp((here - first) / self.days_before))
            elif here > last:
                near = max(near, math.exp((last - here) / self.days_after))
            else:
                return 1.0
        return near


def _compute_span(day: QueryDate, year: int) -> tuple[int, int]:
    """Return the first and last day of a date in `year`, as ordinals."""
    year = min(max(year, 1), 9999)
    if day.month is None:
        return date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal()
    last = calendar.monthrange(year, day.month)[1]
    if day.day is None:
        return date(year, day.month, 1).toordinal(), date(year, day.month, last).toordinal()
    only = date(year, day.month, min(day.day, last)).toordinal()
    return only, only
