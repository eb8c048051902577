"""Times in UTC: the clock, parsing and formatting."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_regex import defer_regex

Clock = Callable[[], datetime]
"""Function that returns the current time as an aware datetime. Tests and replays pass their own."""

Duration = str | float | timedelta
"""A length of time: a timedelta, seconds, or text such as `90s`, `10m`, `2d`."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = defer_regex(r"(?:\d+(?:\.\d+)?\s*(?:ms|[smhdw])\s*)+", re.IGNORECASE)
_DURATION_PART = defer_regex(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST = timedelta(days=36_500)


def utc_now() -> datetime:
    """Return the time now, aware, in UTC, to the microsecond."""
    return datetime.now(UTC)


def to_utc(moment: datetime, *, name: str = "time") -> datetime:
    """Return `moment` in UTC.

    Raises:
        InvalidInput: it has no time zone, or lies outside the years 1 to 9999 in UTC.
    """
    if not isinstance(moment, datetime):
        raise InvalidInput(f"{name} is {quote_value(moment)}: pass a datetime with a time zone")
    if moment.tzinfo is None:
        raise InvalidInput(f"{name} is {moment.isoformat()!r}, without a time zone: add tzinfo, such as UTC")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(
            f"{name} is {moment.isoformat()!r}: pass a time that lies in the years 1 to 9999 in UTC"
        ) from None


def parse_time(text: str, *, name: str = "time") -> datetime:
    """Read an ISO 8601 date or time; one without an offset is taken as UTC.

    Raises:
        InvalidInput: `text` is not such a time.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidInput(
            f"{name} is {text!r}: write a date as 2025-01-31 or a time as 2025-01-31T10:30:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else to_utc(moment, name=name)


def format_time(moment: datetime) -> str:
    """Return the moment as ISO 8601 in UTC, ending in `Z`; `parse_time` reads it back exactly."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return in_utc.isoformat().removesuffix("+00:00") + "Z"


def add_duration(moment: datetime, duration: timedelta) -> datetime:
    """Return a moment plus a duration.

    Raises:
        InvalidInput: the result is after the year 9999.
    """
    try:
        return moment + duration
    except OverflowError:
        raise InvalidInput(f"{duration} after {moment} is beyond the year 9999: pass a shorter ttl") from None


def to_microseconds(moment: datetime) -> int:
    """Return the exact microseconds since 1970-01-01 UTC."""
    return (moment - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=4_096)  # records that are saved together have the same times, three in each
def from_microseconds(count: int) -> datetime:
    """Return the moment that many microseconds after 1970-01-01 UTC, exact."""
    return _EPOCH + timedelta(microseconds=count)


def parse_duration(value: Duration, *, name: str = "ttl") -> timedelta:
    """Read a length of time: a timedelta, a number of seconds, or text such as `90s`, `10m`, `1h30m`, `2d`.

    Raises:
        InvalidInput: it is no duration, not positive, or longer than 100 years.
    """
    if isinstance(value, str) and _DURATION.fullmatch(value.strip()):
        seconds = sum(float(n) * _UNITS[unit.lower()] for n, unit in _DURATION_PART.findall(value))
    elif isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise InvalidInput(
            f"{name} is {quote_value(value)}, which is not a duration: pass a timedelta, a number of seconds, or text "
            "such as '90s', '10m', '1h30m' or '2d'"
        )
    if not _MICROSECOND.total_seconds() <= seconds <= _LONGEST.total_seconds():
        raise InvalidInput(f"{name} is {quote_value(value)}: it must be longer than 0 and at most 100 years")
    return value if isinstance(value, timedelta) else timedelta(seconds=seconds)


def compute_next_run(schedule: str, after: datetime) -> datetime:
    """Return the next time of a cron schedule such as `0 3 * * *`, in UTC.

    Raises:
        InvalidInput: it is not a cron schedule of five fields.
    """
    from cronsim import CronSim, CronSimError  # only here: few settings have a schedule

    try:
        next_run: datetime = next(CronSim(schedule, after))
    except (CronSimError, StopIteration):
        raise InvalidInput(
            f"dream_schedule is {schedule!r}: write five fields as cron has them, such as '0 3 * * *'"
        ) from None
    return next_run
