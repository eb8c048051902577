"""Parse JSON out of a model's reply.

Reasoning before the answer, code fences, prose around it, line breaks within strings and trailing commas are
accepted. An answer that breaks off is not: what is missing may have said something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

_REASONING = re.compile(
    r"<(think|thinking|thought|reasoning|reflection|scratchpad)\b[^>]*>.*?</\1\s*>", re.S | re.I
)
_REASONING_OPEN = re.compile(r"<(think|thinking|thought|reasoning|reflection|scratchpad)\b[^>]*>", re.I)
_REASONING_CLOSE = re.compile(
    r"\A.*</(think|thinking|thought|reasoning|reflection|scratchpad)\s*>", re.S | re.I
)
_FENCE = re.compile(r"```[ \t]*[\w+-]*[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.S)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_BEGINS_LIKE_JSON = re.compile(r'\{\s*(?:"|\})|\[\s*(?:["{\[\]\d-]|true\b|false\b|null\b)')
_DECODER = json.JSONDecoder(strict=False)
_MOST_CHARACTERS = 2_000_000
_TEXT_KEYS = ("content", "text", "summary", "value", "message", "description", "name")


class UnusableReply(Exception):
    """A reply that cannot be used. The message says why and never quotes it."""


def strip_reasoning(text: str) -> str:
    """Return the answer without the reasoning before it.

    Raises:
        UnusableReply: the reasoning never ends.
    """
    kept = _REASONING.sub("", text)
    kept = _REASONING_CLOSE.sub("", kept)  # some servers cut the opening mark off
    if _REASONING_OPEN.search(kept):
        raise UnusableReply("the answer ends within its reasoning")
    return kept.strip()


def parse_json(text: str, *, keys: Collection[str] = ()) -> Any:
    """Return the JSON value in an answer.

    Args:
        text: The answer.
        keys: What the wanted object has; of several values the one that has most of them is taken, of equal
            ones the last.

    Raises:
        Unusable: the answer is empty, has no JSON, or breaks off within it.
    """
    if len(text) > _MOST_CHARACTERS:
        raise UnusableReply(f"the answer has {len(text):,} characters")
    text = strip_reasoning(text)
    if not text:
        raise UnusableReply("the answer is empty")
    wanted = frozenset(keys)
    found: list[Any] = []
    for part in (*(fence.group(1) for fence in _FENCE.finditer(text)), text):
        found = list(_iter_values(part))
        if found and (not wanted or any(_has(value, wanted) for value in found)):
            break
    if not found:
        raise UnusableReply("the answer has no JSON")
    return max(enumerate(found), key=lambda entry: (_has(entry[1], wanted), entry[0]))[1]


def to_text(value: Any) -> str:
    """Return a value as a text. Models put an object or a list where a string should be.

    >>> to_text({"content": "Prefers tea"}), to_text(["Prefers", "tea"]), to_text(None)
    ('Prefers tea', 'Prefers\\ntea', '')
    """
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        for key in _TEXT_KEYS:
            if isinstance(value.get(key), str):
                return str(value[key]).strip()
        return "; ".join(f"{key}: {to_text(each)}" for key, each in value.items() if to_text(each))
    if isinstance(value, list):
        return "\n".join(text for text in map(to_text, value) if text)
    return str(value)


def to_texts(value: Any) -> list[str]:
    """Return a value as a list of texts, without empty and repeated ones."""
    if isinstance(value, str):
        value = value.split("\n") if "\n" in value else [value]
    elif not isinstance(value, list):
        value = [] if value is None else [value]
    return list(dict.fromkeys(text for text in map(to_text, value) if text))


def _has(value: Any, wanted: frozenset[str]) -> int:
    return len(wanted.intersection(value)) if isinstance(value, dict) else 0


def _iter_values(text: str) -> Iterator[Any]:
    """Yield the outermost JSON objects and lists in a text."""
    at = 0
    while (start := _find_next_opening(text, at)) is not None:
        try:
            value, at = _decode_value(text, start)
        except json.JSONDecodeError:
            if _BEGINS_LIKE_JSON.match(text, start) and not _is_closed(text, start):
                raise UnusableReply("the answer breaks off") from None
            at = start + 1
        except RecursionError:
            raise UnusableReply("the answer is nested too deeply") from None
        else:
            yield value


def _find_next_opening(text: str, at: int) -> int | None:
    places = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
    return min(places) if places else None


def _decode_value(text: str, start: int) -> tuple[Any, int]:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError:
        stop = _find_closing(text, start)
        if stop is None:
            raise
        value, _ = _DECODER.raw_decode(_TRAILING_COMMA.sub(r"\1", text[start:stop]))
        return value, stop
    return value, end


def _is_closed(text: str, start: int) -> bool:
    return _find_closing(text, start) is not None


def _find_closing(text: str, start: int) -> int | None:
    """Return the position after the bracket that closes the one at `start`; None if none does."""
    depth, within, escaped = 0, False, False
    for place in range(start, len(text)):
        character = text[place]
        if within:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                within = False
        elif character == '"':
            within = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if not depth:
                return place + 1
    return None
