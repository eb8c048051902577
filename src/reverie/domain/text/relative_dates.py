"""Relative dates such as "next Friday" or "gestern", resolved against the moment of the text.

The words stay in the text. Their days are computed when the text is saved, because "yesterday" means another day a
year later. Only expressions with one meaning are resolved, not "on Friday", "recently" or "a few days ago". The
languages are those of `calendar_words`.

Weeks begin on Monday (ISO 8601). "This Friday" is the first Friday from today on, "next Friday" that of the week
after the present one, "last Friday" the latest before today. In other languages than English the next Friday is
the first after today.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.calendar_words import (
    DAYS,
    HAN_DAYS,
    HAN_STEPS,
    HAN_UNITS,
    HAN_YEARS,
    MONTHS,
    NUMBERS,
    STEPS,
    UNIT_OF,
    WEEKDAYS,
    fold_text,
    list_latin_words,
)

_MOST_FOUND = 20
_LONGEST_TEXT = 20_000
_FARTHEST = 36_500


class ResolvedDate(NamedTuple):
    """Expression in a text, with its days.

    Attributes:
        words: The expression, as in the text.
        start: The first day.
        end: The last day; the same for a single one.
        at: Where in the text the words begin.
        unit: Precision of the expression; "two months ago" names a month, although `start` is one day.
        counted: Whether the days are counted from the day of the text.
    """

    words: str
    start: date
    end: date
    at: int
    unit: str = "day"
    counted: bool = False

    def __str__(self) -> str:
        return f"{self.start}" if self.start == self.end else f"{self.start}/{self.end}"


def resolve_dates(text: str, said_at: datetime, *, zone: tzinfo = UTC) -> list[ResolvedDate]:
    """Return the relative dates in a text in their order; at most 20.

    Args:
        text: The text.
        said_at: When it was said; aware.
        zone: Time zone of the speaker.

    Example:
        >>> friday = datetime(2025, 1, 17, 9, tzinfo=UTC)
        >>> [f"{when.words} = {when}" for when in resolve_dates("Met Ann yesterday, again next week", friday)]
        ['yesterday = 2025-01-16', 'next week = 2025-01-20/2025-01-26']
    """
    text = text[:_LONGEST_TEXT]
    return resolve_folded(text, fold_text(text), get_local_day(said_at, zone))


def get_local_day(moment: datetime, zone: tzinfo) -> date:
    """Return the day of a moment in a zone; at the ends of the calendar, its day in its own zone."""
    try:
        return moment.astimezone(zone).date()
    except OverflowError:  # the first or the last day there is
        return moment.date()


def resolve_folded(text: str, folded: str, today: date) -> list[ResolvedDate]:
    """Return the relative dates of a text; `folded` is the result of `calendar_words.fold_text` for it."""
    resolved: list[ResolvedDate] = []
    for match in _find_matches(folded):
        part = {name: " ".join(words.split()) for name, words in match.groupdict().items() if words}
        meaning = _resolve(part, today) if _is_meant(match, folded) else None
        if meaning is None:
            continue
        start, end, unit, counted = meaning
        resolved.append(
            ResolvedDate(
                words=text[match.start() : match.end()],
                start=start,
                end=end,
                at=match.start(),
                unit=unit,
                counted=counted,
            )
        )
        if len(resolved) == _MOST_FOUND:
            break
    return resolved


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
    match = next(iter(resolve_dates(text, now, zone=zone)), None)
    if match is None or match.words != text:
        return None
    return datetime.combine(match.start, time(), zone).astimezone(UTC)


def format_dates(dates: list[ResolvedDate]) -> str:
    """Return the dates as one line, which `parse_dates` reads.

    >>> format_dates([ResolvedDate(words="next week", start=date(2025, 1, 20), end=date(2025, 1, 26), at=0)])
    'next week = 2025-01-20/2025-01-26'
    """
    lines = dict.fromkeys(f"{' '.join(when.words.split())} = {when}" for when in dates)
    return "; ".join(lines)


def parse_dates(line: str) -> Iterator[tuple[str, date, date]]:
    """Yield the words, first day and last day of each date in a line of `format_dates`; skip other parts."""
    for part in line.split("; "):
        words, _, days = part.rpartition(" = ")
        first, _, last = days.partition("/")
        try:
            yield words, date.fromisoformat(first), date.fromisoformat(last or first)
        except ValueError:
            continue


# -- the expressions ---------------------------------------------------------------------------------------


def build_alternatives(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in sorted(words, key=len, reverse=True))


_number = rf"(?:\d{{1,4}}|{build_alternatives(NUMBERS)})"
_counted = [word for word, unit in UNIT_OF.items() if unit in {"day", "week", "fortnight", "month", "year"}]
_count_unit = build_alternatives(_counted)
_day = build_alternatives(DAYS)
_weekday = build_alternatives(WEEKDAYS)
_periods = [word for word, unit in UNIT_OF.items() if unit not in {"day", "fortnight"}]
_period = build_alternatives(_periods)
_after = [word for word in STEPS if STEPS[word] and word not in {"last", "next"}]


class _Form(NamedTuple):
    """One form of expressions in Latin letters. Only a text with a word of each set has such an expression."""

    pattern: re.Pattern[str]
    words: tuple[frozenset[str], ...]


def _define_form(source: str, *words: frozenset[str]) -> _Form:
    return _Form(defer_regex(rf"\b(?:{source})\b(?!\s+of\b)", re.VERBOSE), words)


def _list_last_words(phrases: Iterable[str]) -> frozenset[str]:
    parts = ("".join(char if "a" <= char <= "z" else " " for char in phrase) for phrase in phrases)
    return frozenset(part.split()[-1] for part in parts)


_counted_words = _list_last_words(_counted)
_weekday_words = _list_last_words(WEEKDAYS)
_near_words = _weekday_words | _list_last_words(_periods)

# One pattern of all forms would take 11 ms to compile; a text has words of few of them.
_FORMS = (
    _define_form(
        rf"""(?:(?P<off_count>{_number})\s+(?P<off_unit>{_count_unit})
            \s+(?P<off>before|after|from|vor|nach|prima\s+di|dopo|avant|apres|despues\s+de|depois\s+de)\s+)?
        (?P<day>{_day})""",
        _list_last_words(DAYS),
    ),
    _define_form(
        rf"(?P<ago_count>{_number})\s+(?P<ago_unit>{_count_unit})\s+(?:ago|earlier|fa|atras)",
        frozenset({"ago", "earlier", "fa", "atras"}),
        _counted_words,
    ),
    _define_form(
        rf"(?:vor|hace|il\s+y\s+a|ha|faz)\s+(?P<past_count>{_number})\s+(?P<past_unit>{_count_unit})",
        frozenset({"vor", "hace", "il", "ha", "faz"}),
        _counted_words,
    ),
    _define_form(
        rf"""(?:in|dentro\s+de|en|dans|fra|tra|daqui\s+a|em)\s+(?P<in_count>{_number})\s+(?P<in_unit>{_count_unit})
            (?:'\s+time)?""",
        frozenset({"in", "dentro", "en", "dans", "fra", "tra", "daqui", "em"}),
        _counted_words,
    ),
    _define_form(
        rf"(?P<from_count>{_number})\s+(?P<from_unit>{_count_unit})\s+from\s+now",
        frozenset({"now"}),
        _counted_words,
    ),
    _define_form(
        rf"(?P<week_of>{_weekday})\s+(?P<of_week>next|last|this)\s+week", frozenset({"week"}), _weekday_words
    ),
    _define_form(rf"a\s+week\s+from\s+(?P<week_from>{_weekday})", frozenset({"week"}), _weekday_words),
    _define_form(
        rf"""(?P<step>{build_alternatives(STEPS)}|coming)\s+
            (?:(?P<weekday>{_weekday})|(?P<period>{_period}))""",
        _list_last_words((*STEPS, "coming")),
        _near_words,
    ),
    _define_form(
        rf"(?P<month_step>last|next)\s+(?P<month>{build_alternatives(MONTHS)})",
        frozenset({"last", "next"}),
        _list_last_words(MONTHS),
    ),
    _define_form(
        rf"(?:(?P<weekday_after>{_weekday})|(?P<period_after>{_period}))\s+(?P<step_after>{build_alternatives(_after)})",
        _list_last_words(_after),
        _near_words,
    ),
    _define_form(
        r"(?:at\s+|by\s+)?the\s+end\s+of\s+(?:the|this)\s+(?P<end_of>week|month|year)",
        frozenset({"end"}),
        frozenset({"week", "month", "year"}),
    ),
)

HAN_DIGITS = "一二两兩三四五六七八九十"
HAN_WEEKDAYS = {
    char: number for chars in ("一二三四五六日", "月火水木金土天") for number, char in enumerate(chars)
}
_han_unit = build_alternatives(HAN_UNITS)
_han_step = build_alternatives(HAN_STEPS)
_HAN = defer_regex(
    rf"""(?:
        (?P<han_day>{build_alternatives(HAN_DAYS)})
      | (?P<han_count>\d{{1,4}}|[{HAN_DIGITS}]{{1,3}})(?P<han_unit>{_han_unit})(?:以|之)?(?P<han_way>[前后後])
      | (?P<han_week>{_han_step})[个個]?(?:星期|礼拜|禮拜|[周週])
            (?:の?(?P<kana_weekday>[月火水木金土日])曜日?|(?P<han_weekday>[一二三四五六日天])(?![个個回次])|(?P<han_end>末))?
      | (?P<han_month>{_han_step})[个個]?月
      | (?P<han_year>{build_alternatives(HAN_YEARS)})
    )""",
    re.VERBOSE,
)
_HAS_HAN = defer_regex("[\u3040-\u30ff\u4e00-\u9fff]")
_FRENCH = defer_regex(
    r"\b(?:je|nous|vous|elle|les|du|chez|avec|pour|fait|soir|matin|quoi|est-ce|dit)\b|\b[jlcdnq]u?['’]"
)
_GERMAN = defer_regex(r"\b(?:ich|wir|ist|sind|war|der|das|und|nicht|ein|eine|was|wer|wo)\b")
_MORNING = defer_regex(
    r"(?:\b(?:heute|gestern|guten|jeden|am|diesen|nachsten|la|las|esta|una|cada|por)|tag|woch)\s+$"
)

_Meaning = tuple[date, date, str, bool]


@lru_cache(maxsize=8)  # a save asks for its resolved dates and for its date tokens
def _find_matches(folded: str) -> Sequence[re.Match[str]]:
    matches = list(_iterate_latin(folded))
    if not folded.isascii() and _HAS_HAN.search(folded):
        matches = sorted([*matches, *_HAN.finditer(folded)], key=lambda match: match.start())
    return matches


def _iterate_latin(folded: str) -> Iterator[re.Match[str]]:
    """Yield the expressions in Latin letters; of two at one place, the one of the first form."""
    words = list_latin_words(folded)
    patterns = [form.pattern for form in _FORMS if not any(each.isdisjoint(words) for each in form.words)]
    following = [pattern.search(folded) for pattern in patterns]
    while matches := [match for match in following if match]:
        match = min(matches, key=lambda each: each.start())
        yield match
        following = [
            pattern.search(folded, match.end()) if other and other.start() < match.end() else other
            for pattern, other in zip(patterns, following, strict=True)
        ]


def _is_meant(match: re.Match[str], folded: str) -> bool:
    """Return whether a word with another meaning, such as "Morgen", means the day here."""
    word = match.group()
    if word.endswith(("morgen", "manana")) and match.lastgroup == "day":
        return not _MORNING.search(folded[max(0, match.start() - 12) : match.start()])
    if word == "hier":  # "here" in German
        return bool(_FRENCH.search(folded)) and not _GERMAN.search(folded)
    return True


def _resolve(part: dict[str, str], today: date) -> _Meaning | None:
    """Return the days of an expression; None if they are more than a hundred years away."""
    try:
        for name, meaning in _MEANINGS.items():
            if name in part:
                return meaning(part, today)
    except (OverflowError, ValueError):
        return None
    return None


def _resolve_day(part: dict[str, str], today: date) -> _Meaning | None:
    number = DAYS[part["day"].replace("’", "'")]
    if "off" not in part:
        return _count(number, "day", today, 1)
    sign = -1 if part["off"] in {"before", "vor", "avant", "prima di"} else 1
    return _resolve_count(part["off_count"], part["off_unit"], today + timedelta(days=number), sign)


def _resolve_count(count: str, unit_word: str, today: date, sign: int) -> _Meaning | None:
    number = int(count) if count.isdecimal() else NUMBERS[count]
    return _count(number, UNIT_OF[unit_word], today, sign)


def _count(number: int, unit: str, today: date, sign: int) -> _Meaning | None:
    length = {"day": 1, "week": 7, "fortnight": 14, "month": 31, "year": 366}[unit]
    if length * number > _FARTHEST:
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


def _resolve_step(part: dict[str, str], today: date) -> _Meaning:
    word = part.get("step") or part["step_after"]
    step = STEPS.get(word, 0)
    if period := part.get("period") or part.get("period_after"):
        return _shift_period(UNIT_OF[period], step, today)
    day = WEEKDAYS[part.get("weekday") or part["weekday_after"]]
    if word == "next":
        return _get_weekday(today, 1, day)
    if step < 0:
        target = today - timedelta(days=(today.weekday() - day - 1) % 7 + 1)
    elif step > 0:
        target = today + timedelta(days=(day - today.weekday() - 1) % 7 + 1)
    else:
        target = today + timedelta(days=(day - today.weekday()) % 7)
    return target, target, "day", False


def _shift_period(period: str, step: int, today: date) -> _Meaning:
    if period == "week":
        start = _find_monday(today) + timedelta(days=7 * step)
        return start, start + timedelta(days=6), "day", False
    if period == "weekend":
        start = _find_monday(today) + timedelta(days=7 * step + 5)
        return start, start + timedelta(days=1), "day", False
    if period == "month":
        return (*get_month_bounds(_add_months(today.replace(day=1), step)), "month", False)
    if period == "quarter":
        first = today.replace(month=3 * ((today.month - 1) // 3) + 1, day=1)
        start = _add_months(first, 3 * step)
        return start, get_month_bounds(_add_months(start, 2))[1], "month", False
    return date(today.year + step, 1, 1), date(today.year + step, 12, 31), "year", False


def _get_weekday(today: date, weeks: int, day: int) -> _Meaning:
    target = _find_monday(today) + timedelta(days=7 * weeks + day)
    return target, target, "day", False


def _resolve_week_from(part: dict[str, str], today: date) -> _Meaning:
    day = WEEKDAYS[part["week_from"]]
    target = today + timedelta(days=(day - today.weekday()) % 7 + 7)
    return target, target, "day", False


def _resolve_named_month(part: dict[str, str], today: date) -> _Meaning:
    """Return the latest or the next such month outside the current one."""
    month = MONTHS[part["month"]]
    if part["month_step"] == "last":
        year = today.year if month < today.month else today.year - 1
    else:
        year = today.year if month > today.month else today.year + 1
    return (*get_month_bounds(date(year, month, 1)), "month", False)


def _resolve_period_end(part: dict[str, str], today: date) -> _Meaning:
    if part["end_of"] == "week":
        end = _find_monday(today) + timedelta(days=6)
    elif part["end_of"] == "month":
        end = get_month_bounds(today)[1]
    else:
        end = date(today.year, 12, 31)
    return end, end, "day", False


def _resolve_han_count(part: dict[str, str], today: date) -> _Meaning | None:
    sign = -1 if part["han_way"] == "前" else 1
    count = parse_han_number(part["han_count"])
    return _count(count, HAN_UNITS[part["han_unit"]], today, sign) if count else None


def _resolve_han_week(part: dict[str, str], today: date) -> _Meaning:
    step = HAN_STEPS[part["han_week"]]
    if weekday := part.get("kana_weekday") or part.get("han_weekday"):
        return _get_weekday(today, step, HAN_WEEKDAYS[weekday])
    return _shift_period("weekend" if "han_end" in part else "week", step, today)


def parse_han_number(text: str) -> int:
    """Return a number in digits, or of 1 to 99 in Chinese numerals; 0 for several numbers, as in "two or three".

    >>> parse_han_number("7"), parse_han_number("二十一"), parse_han_number("两三")
    (7, 21, 0)
    """
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    digits = {char: value for value, char in enumerate("一二三四五六七八九", 1)} | {"两": 2, "兩": 2}
    if not ten:
        return digits.get(ones, 0) if len(ones) == 1 else 0
    return 10 * digits.get(tens, 1) + digits.get(ones, 0)


def _find_monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _count_days(year: int, month: int) -> int:
    """Return the number of days of a month. The module `calendar` has it too, but its import is slow."""
    return 31 if month == 12 else (date(year, month + 1, 1) - date(year, month, 1)).days


def get_month_bounds(day: date) -> tuple[date, date]:
    """Return the first and the last day of a day's month."""
    return day.replace(day=1), day.replace(day=_count_days(day.year, day.month))


_MEANINGS: dict[str, Callable[[dict[str, str], date], _Meaning | None]] = {
    "day": _resolve_day,
    "ago_count": lambda part, today: _resolve_count(part["ago_count"], part["ago_unit"], today, -1),
    "past_count": lambda part, today: _resolve_count(part["past_count"], part["past_unit"], today, -1),
    "in_count": lambda part, today: _resolve_count(part["in_count"], part["in_unit"], today, 1),
    "from_count": lambda part, today: _resolve_count(part["from_count"], part["from_unit"], today, 1),
    "week_of": lambda part, today: _get_weekday(today, STEPS[part["of_week"]], WEEKDAYS[part["week_of"]]),
    "week_from": _resolve_week_from,
    "step": _resolve_step,
    "step_after": _resolve_step,
    "month_step": _resolve_named_month,
    "end_of": _resolve_period_end,
    "han_day": lambda part, today: _count(HAN_DAYS[part["han_day"]], "day", today, 1),
    "han_count": _resolve_han_count,
    "han_week": _resolve_han_week,
    "han_month": lambda part, today: _shift_period("month", HAN_STEPS[part["han_month"]], today),
    "han_year": lambda part, today: _shift_period("year", HAN_YEARS[part["han_year"]], today),
}
