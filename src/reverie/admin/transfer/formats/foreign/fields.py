"""Tolerant access to the fields of another program's objects.

`createdAt`, `CreatedAt`, `created_at` and `CREATED-AT` are one name. An invalid value counts as missing; only
content is required.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from reverie.domain.category import validate_category
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import LONGEST_LABEL, MOST_LABELS
from reverie.domain.text.validation import clean_text

_C = TypeVar("_C", bound=str)

_BETWEEN_WORDS = defer_regex(r"[_\-\s]+")
_UNSTORABLE = defer_regex(r"[\x00\ud800-\udfff]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(1971, 1, 1, tzinfo=UTC)
"""No program remembered anything before: what lies there is some language's way to say nothing."""


class ForeignFields:
    """Object of another program, read by the names that its fields may have."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = {_normalize_name(str(name)): value for name, value in data.items()}

    def has(self, *names: str) -> bool:
        """Whether the object has one of the fields, whatever its value."""
        return any(_normalize_name(name) in self._data for name in names)

    def value(self, *names: str) -> Any:
        """Return the first value among the fields; None if none has one."""
        for name in names:
            value = self._data.get(_normalize_name(name))
            if value is not None:
                return value
        return None

    def text(self, *names: str) -> str:
        """Return a text or number, cleaned; empty if there is none."""
        value = self.value(*names)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return ""
        return clean_text(str(value))

    def label(self, *names: str) -> str:
        """Return a text that fits a label."""
        return " ".join(self.text(*names).split())[:LONGEST_LABEL].strip()

    def share(self, *names: str, default: float) -> float:
        """Return a number from 0 to 1, clipped to that range."""
        value = self.value(*names)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return default
        return float(min(max(value, 0), 1))

    def count(self, *names: str, default: int) -> int:
        """Return a whole number from 1."""
        value = self.value(*names)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000_000:
            return default
        return value

    def moment(self, *names: str) -> datetime | None:
        """Return a moment; see `parse_moment`."""
        return parse_moment(self.value(*names))

    def labels(self, *names: str, longest: int = LONGEST_LABEL) -> tuple[str, ...]:
        """Return distinct short texts, without those that are too long or too many."""
        value = self.value(*names)
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, Iterable) or isinstance(value, Mapping):
            return ()
        texts = (
            " ".join(clean_text(str(each)).split()) for each in value if isinstance(each, str | int | float)
        )
        return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= longest))[:MOST_LABELS]

    def texts(self, *names: str) -> dict[str, str]:
        """Return a table of texts; other values are written as JSON."""
        value = self.value(*names)
        if not isinstance(value, Mapping):
            return {}
        pairs = ((clean_text(str(name)).strip()[:LONGEST_LABEL], each) for name, each in value.items())
        return {name: to_text(each) for name, each in pairs if name and each is not None}

    def category(self, *names: str) -> str | None:
        """Return a category; None if there is none or it is not valid."""
        value = self.value(*names)
        if not isinstance(value, str):
            return None
        try:
            return validate_category(value.strip().strip("/"))
        except InvalidInput:
            return None

    def choice(self, allowed: Iterable[_C], *names: str) -> _C | None:
        """Return which of some names a field has, whatever its case; None for none of them."""
        text = self.text(*names).strip().lower()
        return next((each for each in allowed if each == text), None)


def to_text(value: Any) -> str:
    """Return a value as text: text cleaned, anything else as JSON."""
    return clean_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


def filter_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list; none of what is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def to_storable(text: str) -> str:
    """Return a turn's text without NUL and lone surrogates."""
    return _UNSTORABLE.sub(" ", text)


def parse_moment(value: Any) -> datetime | None:
    """Parse a moment: ISO 8601, seconds or milliseconds since 1970, or year, month, day, ….

    >>> parse_moment("2026-02-07T14:15:00.1234567+01:00"), parse_moment(1770470100)
    (datetime.datetime(2026, 2, 7, 13, 15, 0, 123456, tzinfo=datetime.timezone.utc), \
datetime.datetime(2026, 2, 7, 13, 15, tzinfo=datetime.timezone.utc))
    """
    moment: datetime | None = None
    try:
        if isinstance(value, str):
            read = datetime.fromisoformat(value.strip())
            moment = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # No memory was made after the year 5138, so a number as large as that counts milliseconds.
            seconds = value / 1000 if abs(value) >= 1e11 else value
            moment = _EPOCH + timedelta(seconds=seconds)
        elif isinstance(value, list) and 3 <= len(value) <= 7 and all(type(part) is int for part in value):
            nanoseconds = value[6] if len(value) == 7 else 0
            moment = datetime(*value[:6], microsecond=nanoseconds // 1000, tzinfo=UTC)  # type: ignore[misc]
    except (ValueError, OverflowError):
        return None
    return moment if moment is not None and moment >= _EARLIEST else None


def _normalize_name(name: str) -> str:
    return _BETWEEN_WORDS.sub("", name).lower()
