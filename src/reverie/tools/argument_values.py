"""What did the model pass? Arguments that have been checked against the schema, with their types."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reverie.domain.text import timestamps


def get_text(given: Mapping[str, Any], name: str) -> str:
    """The argument of that name, a string that must be there."""
    value = given[name]
    assert isinstance(value, str)
    return value


def get_optional_text(given: Mapping[str, Any], name: str) -> str | None:
    """The argument of that name; None where it was left out or is empty."""
    return get_text(given, name) or None if given.get(name) is not None else None


def get_texts(given: Mapping[str, Any], name: str) -> list[str]:
    """The argument of that name, a list of strings; empty where it was left out."""
    return list(given.get(name) or ())


def get_moment(given: Mapping[str, Any], name: str) -> datetime | None:
    """The argument of that name, a date or a time; raises `InvalidInput` if it is none."""
    value = get_optional_text(given, name)
    return None if value is None else timestamps.parse_time(value, name=name)
