"""Typed access to arguments that were checked against a schema."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reverie.domain.text import timestamps


def get_text(given: Mapping[str, Any], name: str) -> str:
    """Return a string argument that must be there."""
    value = given[name]
    assert isinstance(value, str)
    return value


def get_optional_text(given: Mapping[str, Any], name: str) -> str | None:
    """Return a string argument; None where it was left out or is empty."""
    return get_text(given, name) or None if given.get(name) is not None else None


def get_texts(given: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of strings; empty where it was left out."""
    return list(given.get(name) or ())


def get_moment(given: Mapping[str, Any], name: str) -> datetime | None:
    """Return a date or time; None where it was left out. Raise `InvalidInput` where it is neither."""
    value = get_optional_text(given, name)
    return None if value is None else timestamps.parse_time(value, name=name)
