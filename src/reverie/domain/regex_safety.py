"""Recognition of regular expressions that can take exponential time."""

from __future__ import annotations

_MANY = 100


def has_nested_repeat(pattern: str) -> bool:
    """Return whether a valid regular expression repeats without bound within a repetition, as `(a+)+` does."""
    from re import _parser  # type: ignore[attr-defined] # here: few ask for it

    return _has_nested_repeat(_parser.parse(pattern), within=False)


def _has_nested_repeat(parsed: object, *, within: bool) -> bool:
    """Return whether a repetition of many stands within another."""
    if isinstance(parsed, tuple) and len(parsed) == 2 and str(parsed[0]) in ("MAX_REPEAT", "MIN_REPEAT"):
        _, most, inner = parsed[1]
        many = int(most) > _MANY
        return (within and many) or _has_nested_repeat(inner, within=within or many)
    if isinstance(parsed, str | int | None):
        return False
    try:
        parts = list(parsed)  # type: ignore[call-overload]
    except TypeError:
        return False
    return any(_has_nested_repeat(part, within=within) for part in parts)
