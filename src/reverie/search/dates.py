"""Dates as tokens of the index, and the closeness of passages to the dates of a question.

A day has the tokens `2026-01-07`, `01-07`, `2026-01`, `january` and `2026`, each after a sign for its origin:

| sign | meaning |
|---|---|
| `@` | when the passage was written, in UTC; only in the index |
| `#` | a date in its text |
| `+` | a day in its text that is counted from the day of writing, such as "tomorrow"; in UTC |
| `~` | a day or month in its text without a year |

The index has no time zone. So a question in another zone asks for one more day on both sides, and `Closeness` compares
the days of that zone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, tzinfo
from typing import NamedTuple

from reverie.domain.lazy_regex import defer_regex, parse_word_set
from reverie.domain.passage import Passage
from reverie.domain.text.dates import (
    DateMention,
    find_dates,
    fold_text,
    get_local_day,
    get_month_bounds,
    parse_dates,
    shift_day,
)
from reverie.domain.text.languages import list_function_words
from reverie.domain.text.tokenizer import MONTHS, pack

_NEXT = defer_regex(
    r"\b(?:next|upcoming|nachste[nrs]?|prochaine?s?|proxim[oa]s?|prossim[oaie])\b|次の|次回|下次|下一"
)
_YEAR_OR_MONTH = defer_regex(r"(?:[a-z]+\.?,?)?\s*(?:(?:19|20)\d\d)?")
_LAST_WORD = defer_regex(r"([a-z]+)\W*$")
_DETERMINERS = parse_word_set(
    """
    a an the this that my our your his her its their der die das den dem des mein meine unser unsere dein deine
    le la les mon ma mes notre nos el los las mi mis nuestro nuestra il lo gli mio mia nostro nostra o os as meu minha
    """
)
"""Words before a year or month that is the name of something."""
_SOON = 60.0
_MOST_DATES = 8
_MOST_DAYS = 31
_QUARTER_HOUR = 900
_LAST_MOMENT = 253_402_300_799  # the last second of the year 9999
_OTHER_YEAR = 0.9
"""Weight of a day without a year in another year than the nearest."""


def analyze_dates(text: str, written: datetime, noted: str = "") -> str:
    """Return the date tokens of a text, packed. The index adds those of the day when it was written.

    Args:
        text: The text.
        written: When it was written; "tomorrow" is the day after, in UTC.
        noted: Relative dates that were resolved in the owner's time zone, from `dates.format_dates`.
    """
    if not (mentions := find_dates(text, written.date())):
        return ""
    tokens: list[str] = []
    resolved = {words: (start, end) for words, start, end in parse_dates(noted)} if noted else {}
    for one in mentions:
        words = " ".join(text[one.at : one.stop].split())
        if one.counted and words in resolved:
            start, end = resolved[words]
            tokens += _name_mention(DateMention(start=start, end=end, at=one.at, stop=one.stop))
        else:
            tokens += _name_mention(one)
    return pack(dict.fromkeys(tokens))


def _name_mention(mention: DateMention) -> Iterator[str]:
    """Yield the tokens of a date that a text names."""
    start, end = mention.start, mention.end
    year, month = f"{start.year:04d}", f"{start.year:04d}-{start.month:02d}"
    if mention.unit == "year":
        yield f"#{year}"
    elif mention.unit == "month" or (end - start).days > _MOST_DAYS:
        for first in _iterate_months(start, end):
            yield from (
                f"#{first.year:04d}-{first.month:02d}",
                f"#{MONTHS[first.month - 1]}",
                f"#{first.year:04d}",
            )
            if mention.yearly:
                yield f"~{MONTHS[first.month - 1]}"
    else:
        for number in range((end - start).days + 1):
            day = shift_day(start, number)
            yield f"{'+' if mention.counted else '#'}{day}"
            yield f"{'~' if mention.yearly else '#'}{day:%m-%d}"
        yield from (f"#{month}", f"#{MONTHS[start.month - 1]}", f"#{year}")


def _iterate_months(start: date, end: date) -> Iterator[date]:
    for number in range(12 * start.year + start.month - 1, 12 * end.year + end.month):
        yield date(number // 12, number % 12 + 1, 1)


class QueryDates(NamedTuple):
    """Dates of a question, with its time zone.

    Attributes:
        days: The dates in the question.
        written: Those of them that may also be the time of writing. A year or a month alone is not, as in
            "the 2026 budget".
        today: The day of the question; None if unknown.
        zone: Time zone of the days.
        wants_next: Whether it asks for the next event.
    """

    days: tuple[DateMention, ...] = ()
    written: tuple[DateMention, ...] = ()
    today: date | None = None
    zone: tzinfo = UTC
    wants_next: bool = False

    def __bool__(self) -> bool:
        return bool(self.days)

    @property
    def tokens(self) -> list[str]:
        """Date tokens for a query of the index."""
        tokens: dict[str, None] = {}
        for mention in self.days:
            for name in _cover(mention):
                tokens[f"#{name}"] = None
                if mention in self.written:
                    tokens[f"@{name}"] = None
                if len(name) == 10:
                    tokens |= dict.fromkeys((f"+{name}", f"~{name[5:]}"))
                elif len(name) == 7 and name[0].isdecimal():
                    tokens[f"~{MONTHS[int(name[5:]) - 1]}"] = None
                elif mention.yearly:
                    tokens[f"~{name}"] = None
            if self.zone is not UTC and mention.unit != "year":
                for day in (shift_day(mention.start, -1), shift_day(mention.end, 1)):
                    tokens |= dict.fromkeys((f"@{day}", f"+{day}"))
        return list(tokens)

    def remove_from(self, text: str, *, firm: bool = False) -> str:
        """Return the text without the dates; with `firm`, only without those whose words mean nothing else."""
        for mention in self.days:
            if mention.firm or not firm:
                text = text[: mention.at] + " " * (mention.stop - mention.at) + text[mention.stop :]
        return text


NO_DATES = QueryDates()


def find_query_dates(text: str, *, today: date | None = None, zone: tzinfo = UTC) -> QueryDates:
    """Return the dates of a question.

    Args:
        text: The question.
        today: The day of the question; without it, "yesterday" has no meaning.
        zone: Time zone of the one who asks.
    """
    days = find_dates(text, today or date(2000, 1, 1), relative=today is not None)
    folded = fold_text(text)
    days = days[:_MOST_DATES]
    written = tuple(day for day in days if not _is_name(day, folded))
    found = QueryDates(days=tuple(days), written=written, today=today, zone=zone)
    if today is not None and not days and _NEXT.search(folded):
        return found._replace(wants_next=True)
    return found


def _is_name(mention: DateMention, folded: str) -> bool:
    """Return whether a date is a year or a month without a word that makes it a time, such as "in"."""
    if mention.unit == "day" or not _YEAR_OR_MONTH.fullmatch(folded, mention.at, mention.stop):
        return False
    before = _LAST_WORD.search(folded[max(0, mention.at - 40) : mention.at])
    return before is None or before[1] in _DETERMINERS or before[1] not in list_function_words()


def _cover(mention: DateMention) -> list[str]:
    """Return the years, months and days that cover a date exactly."""
    names: list[str] = []
    start, end = mention.start, mention.end
    while start <= end:
        month_end = get_month_bounds(start)[1]
        if start.day == start.month == 1 and start.replace(month=12, day=31) <= end:
            names.append(f"{start.year:04d}")
            stop = start.replace(month=12, day=31)
        elif start.day == 1 and month_end <= end:
            names.append(f"{start.year:04d}-{start.month:02d}")
            stop = month_end
        else:
            names.append(f"{start}")
            stop = start
        if stop == date.max:
            break
        start = shift_day(stop, 1)
    if mention.yearly:
        names += [
            MONTHS[int(name[5:]) - 1] if len(name) == 7 else name[5:] for name in names if len(name) > 4
        ]
    return names


class Closeness:
    """Closeness of passages to the dates of a question: 1 on the day, and less before and after it.

    A passage with one of the days in its text is on that day; other days in its text do not count.
    """

    __slots__ = ("_after", "_before", "_dates", "_known", "_locals", "_named", "_written")

    def __init__(
        self, dates: QueryDates, *, days_before: float, days_after: float, written: float = 1.0
    ) -> None:
        """Compare passages with `dates`.

        Args:
            dates: The dates of the question.
            days_before: Days before a date in which closeness falls to 1/e.
            days_after: The same after it.
            written: Closeness of a passage that was written on such a day and has none in its text.
        """
        self._dates = dates
        self._before = days_before
        self._after = days_after
        self._written = written
        self._named = _weigh_tokens(dates.days)
        self._known: dict[int, float] = {}  # day -> closeness: a session's turns share their day
        self._locals: dict[int, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._dates) or self._dates.wants_next

    def compute(self, passage: Passage) -> tuple[float, bool]:
        """Return the closeness of a passage, and whether it was written on such a day or has one in its text."""
        day, shift = self._find_local_day(passage.at)
        if not self._dates:
            return self._compute_upcoming(passage.dates, shift), False
        if day not in self._known:
            self._known[day] = max(
                (self._compute_closeness(one, day) for one in self._dates.written), default=0.0
            )
        written = self._known[day]
        named = self._weigh_named(passage.dates, shift)
        return max(self._written * written, named), named > 0.0 or (
            written >= _OTHER_YEAR and self._is_within(day)
        )

    def _find_local_day(self, at: float) -> tuple[int, int]:
        """Return the day of a time as an ordinal, and its difference from the day in UTC."""
        number = int(at // _QUARTER_HOUR)  # every zone is a number of quarters of an hour from UTC
        known = self._locals.get(number)
        if known is None:
            moment = datetime.fromtimestamp(min(number * _QUARTER_HOUR, _LAST_MOMENT), UTC)
            day, there = moment.toordinal(), get_local_day(moment, self._dates.zone).toordinal()
            known = self._locals[number] = there, there - day
        return known

    def _is_within(self, day: int) -> bool:
        here = date.fromordinal(day)
        return any(
            (mention.start <= here <= mention.end)
            or (
                mention.yearly
                and any(first <= day <= last for first, last, _ in _list_years(mention, here.year))
            )
            for mention in self._dates.written
        )

    def _compute_closeness(self, mention: DateMention, day: int) -> float:
        near = 0.0
        for first, last, weight in _list_years(mention, date.fromordinal(day).year):
            if day < first:
                weight *= math.exp((day - first) / self._before)
            elif day > last:
                weight *= math.exp((last - day) / self._after)
            near = max(near, weight)
        return near

    def _compute_upcoming(self, packed: str, shift: int) -> float:
        """Return the closeness of the next day in a text: 1 for today, .5 in the far future, 0 for none."""
        today = self._dates.today
        if today is None:
            return 0.0
        days = [token for token in packed.split() if len(token) == 11 and token[0] in "#+"]
        ahead = [
            shift_day(date.fromisoformat(token[1:]), shift if token[0] == "+" else 0).toordinal()
            - today.toordinal()
            for token in days
        ]
        soonest = min((distance for distance in ahead if distance >= 0), default=None)
        return 0.0 if soonest is None else 0.5 + 0.5 * math.exp(-soonest / _SOON)

    def _weigh_named(self, packed: str, shift: int) -> float:
        """Return the weight of the best date in a text."""
        if "#" not in packed:
            return 0.0
        best = 0.0
        for token in packed.split():
            if shift and token[0] == "+":
                token = f"+{shift_day(date.fromisoformat(token[1:]), shift)}"
            best = max(best, self._named.get(token, 0.0))
        return best


def _list_years(mention: DateMention, year: int) -> list[tuple[int, int, float]]:
    """Return first day, last day and weight of a date; without a year, those of the nearest years."""
    if not mention.yearly:
        return [(mention.start.toordinal(), mention.end.toordinal(), 1.0)]
    spans = []
    for one in (year - 1, year, year + 1):
        step = one - mention.start.year
        start, end = _move_years(mention.start, step), _move_years(mention.end, step)
        spans.append((start.toordinal(), end.toordinal(), _OTHER_YEAR if step else 1.0))
    return spans


def _move_years(day: date, years: int) -> date:
    last = get_month_bounds(date(min(max(day.year + years, 1), 9999), day.month, 1))[1]
    return last.replace(day=min(day.day, last.day))


def _weigh_tokens(mentions: Iterable[DateMention]) -> dict[str, float]:
    """Return the weight of each date token that a text may have."""
    weights: dict[str, float] = {}
    for mention in mentions:
        for name in _cover(mention):
            exact = 1.0 if name[:2].isdecimal() and len(name) != 5 else _OTHER_YEAR
            weights[f"#{name}"] = max(weights.get(f"#{name}", 0.0), exact)
            if len(name) == 10:
                weights[f"+{name}"] = 1.0
                weights.setdefault(f"~{name[5:]}", _OTHER_YEAR)
            elif len(name) == 7 and name[0].isdecimal():
                weights.setdefault(f"~{MONTHS[int(name[5:]) - 1]}", _OTHER_YEAR)
    return weights
