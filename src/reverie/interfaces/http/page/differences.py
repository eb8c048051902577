"""Differences between two versions of a thing, word by word. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from reverie.domain.lazy_regex import defer_regex

MOST_WORDS = 4_000
"""Words of two texts together above which they are shown whole."""

_PIECES = defer_regex(r"\s+|\w+|[^\w\s]")
_HIDDEN = ("updated_at", "last_seen_at")
_EMPTY: tuple[Any, ...] = (None, "", [], {})


def compare_texts(before: str, after: str) -> list[tuple[str, str]]:
    """Return a text in pieces, each `same`, `gone` or `new`."""
    was, now = _PIECES.findall(before), _PIECES.findall(after)
    if len(was) + len(now) > MOST_WORDS:
        return [("gone", before), ("new", after)]
    pieces: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(a=was, b=now, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(("same", "".join(was[a:b])))
            continue
        pieces += [("gone", "".join(was[a:b]))] if b > a else []
        pieces += [("new", "".join(now[c:d]))] if d > c else []
    return pieces


def compare_values(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the fields that differ, each with its name and its text in pieces."""
    was, now = before or {}, after or {}
    fields = []
    for name in [*now, *(name for name in was if name not in now)]:
        old, new = was.get(name), now.get(name)
        if old == new or name in _HIDDEN or (old in _EMPTY and new in _EMPTY):
            continue
        if isinstance(old, str) and isinstance(new, str):
            pieces = compare_texts(old, new)
        else:
            between = " " if old not in _EMPTY and new not in _EMPTY else ""
            pieces = [("gone", _format(old)), ("same", between), ("new", _format(new))]
        fields.append({"name": name, "pieces": [piece for piece in pieces if piece[1]]})
    return fields


def _format(value: Any) -> str:
    if value in _EMPTY:
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
