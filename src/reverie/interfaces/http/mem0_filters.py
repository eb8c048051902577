"""Filters of mem0's interface: the scopes that they concern, and the memories that match."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

ENTITIES = ("user", "agent", "app", "run")
"""Kinds of owners of memories, the widest first."""

_DEEPEST = 20
_ESCAPED = defer_regex(r"%([0-9A-F]{2,6});")


def build_scope_name(kind: str, name: str) -> str:
    """Return the scope of somebody.

    >>> build_scope_name("user", "alice"), build_scope_name("user", "a/b")
    ('user:alice', 'user:a%2F;b')
    """
    if not name.strip():
        raise InvalidInput(f"{kind}_id is blank: pass a name")
    text = "".join(char if char.isprintable() and char not in "/%" else f"%{ord(char):02X};" for char in name)
    if text != text.strip():
        raise InvalidInput(f"{kind}_id has blanks around it: remove them")
    return f"{kind}:{text}"


def parse_scope_name(scope: str) -> tuple[str, str] | None:
    """Return the type and the name of whom a scope belongs to; None for any other scope."""
    kind, colon, name = scope.partition(":")
    if kind not in ENTITIES or not colon or "/" in name:
        return None
    return kind, _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def find_scopes(filters: Mapping[str, Any], *, depth: int = 0) -> set[str]:
    """Return the scopes of all memories that a filter can match; none if it names no owner.

    Raises:
        InvalidInput: the filter is not of its form.
    """
    if depth > _DEEPEST:
        raise InvalidInput(f"filters are nested over {_DEEPEST} deep: write them flatter")
    candidates = [_find_named_scopes(kind, filters.get(f"{kind}_id")) for kind in ENTITIES]
    candidates += [find_scopes(each, depth=depth + 1) for each in _get_parts(filters, "AND")]
    choices = [find_scopes(each, depth=depth + 1) for each in _get_parts(filters, "OR")]
    if all(choices):
        candidates.append(set().union(*choices))
    return min(filter(None, candidates), key=_rank_scopes, default=set())


def _find_named_scopes(kind: str, wanted: Any) -> set[str]:
    names = wanted.get("in", wanted.get("eq")) if isinstance(wanted, Mapping) else wanted
    names = names if isinstance(names, list) else [names]
    return {build_scope_name(kind, str(name)) for name in names if name and name != "*"}


def _rank_scopes(scopes: set[str]) -> int:
    """Return the position in `ENTITIES` of the narrowest of these scopes."""
    return max(ENTITIES.index(scope.partition(":")[0]) for scope in scopes)


def is_match(filters: Mapping[str, Any], memory: Mapping[str, Any]) -> bool:
    """Whether a memory passes a filter."""
    return all(_is_part_match(name, value, filters, memory) for name, value in filters.items())


def _is_part_match(name: str, value: Any, filters: Mapping[str, Any], memory: Mapping[str, Any]) -> bool:
    if name == "AND":
        return all(is_match(each, memory) for each in _get_parts(filters, name))
    if name == "OR":
        return any(is_match(each, memory) for each in _get_parts(filters, name))
    if name == "NOT":
        return not any(is_match(each, memory) for each in _get_parts(filters, name))
    if name == "metadata" and isinstance(value, Mapping):
        held = memory["metadata"] or {}
        return all(_is_value_match(held.get(key), wanted) for key, wanted in value.items())
    if name in ("keywords", "memory"):
        return _is_value_match(memory["memory"], value)
    if name not in memory:
        raise InvalidInput(f"filters has {name!r}, which no memory has: use {', '.join(sorted(memory))}")
    return _is_value_match(memory[name], value)


def _get_parts(filters: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    parts = filters.get(name, [])
    parts = [parts] if isinstance(parts, Mapping) else parts
    if not isinstance(parts, list) or not all(isinstance(each, Mapping) for each in parts):
        raise InvalidInput(f"filters has {name} without a list of filters: pass one")
    return parts


def _contains(held: Any, wanted: Any) -> bool:
    return wanted in held if isinstance(held, list) else str(wanted) in str(held or "")


def _compare(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(held: Any, wanted: Any) -> bool:
        kinds = (str, int | float)
        is_comparable = any(isinstance(held, kind) and isinstance(wanted, kind) for kind in kinds)
        return is_comparable and compare(held, wanted)

    return run


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "in": lambda held, wanted: (
        isinstance(wanted, list)
        and (any(each in wanted for each in held) if isinstance(held, list) else held in wanted)
    ),
    "contains": _contains,
    "icontains": lambda held, wanted: _contains(
        [str(each).casefold() for each in held] if isinstance(held, list) else str(held or "").casefold(),
        str(wanted).casefold(),
    ),
    "gt": _compare(operator.gt),
    "gte": _compare(operator.ge),
    "lt": _compare(operator.lt),
    "lte": _compare(operator.le),
}


def _is_value_match(held: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if unknown := set(wanted) - set(_OPERATORS):
            name = sorted(map(str, unknown))[0]
            raise InvalidInput(f"filters has the operator {name!r}: use {', '.join(_OPERATORS)}")
        return all(_OPERATORS[name](held, value) for name, value in wanted.items())
    if wanted == "*":
        return held is not None
    if isinstance(held, list):
        return wanted in held if not isinstance(wanted, list) else any(each in held for each in wanted)
    return bool(held == wanted)
