"""Validation of texts, and estimates of their tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_regex import defer_regex

_CONTROL = defer_regex(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_UNSTORABLE = defer_regex(r"[\x00\ud800-\udfff]")
_NOTHING = defer_regex(r"[\s\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]*")
"""White space and other invisible characters."""

_UNCLEAN = defer_regex(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of a text in a prompt: a quarter of its characters, rounded up."""
    return -(-len(text) // 4)


def estimate_item_cost(text: str) -> int:
    """Return the tokens of one item of a pack: `max(20, chars / 4 + 8)` (golemcore's rule)."""
    return max(20, estimate_tokens(text) + 8)


def validate_text(text: object, *, name: str, longest: int, empty: bool = False, advice: str = "") -> str:
    """Return `text` if it may be stored: a string, not blank, not too long, without control characters.

    Args:
        text: What the caller passed.
        name: Its name in an error.
        longest: Most characters that it may have.
        empty: Whether blank text is allowed.
        advice: What to do with a longer text.

    Raises:
        InvalidInput: it may not be stored; the message says why and what to do.
    """
    # Printable text has no control characters and no lone surrogates, and no invisible ones but spaces.
    if isinstance(text, str) and text.isprintable() and len(text) <= longest and (empty or text.strip()):
        return text
    stored = validate_raw_text(text, name=name, longest=longest, empty=empty, advice=advice)
    if match := _CONTROL.search(stored):
        raise InvalidInput(
            f"{name} has the control character U+{ord(match.group()):04X} at position {match.start()}: "
            "remove it (tabs and line breaks are fine)"
        )
    return stored


def validate_raw_text(text: object, *, name: str, longest: int, empty: bool = False, advice: str = "") -> str:
    """Return a valid text; control characters except NUL, which tools print, are allowed too."""
    if not isinstance(text, str):
        raise InvalidInput(f"{name} is {type(text).__name__}: pass a string")
    if not empty and _NOTHING.fullmatch(text):
        raise InvalidInput(f"{name} is empty: pass some text")
    if len(text) > longest:
        rest = f": {advice}" if advice else ""
        raise InvalidInput(f"{name} has {len(text):,} characters: at most {longest:,} are allowed{rest}")
    if match := _UNSTORABLE.search(text):
        is_nul = match.group() == "\x00"
        what = "NUL" if is_nul else "a lone surrogate"
        # Without quotation marks, because messages about files leave quoted text out.
        advice = "remove it" if is_nul else "remove it, or decode the text with the error handler `replace`"
        raise InvalidInput(
            f"{name} has {what} (U+{ord(match.group()):04X}) at position {match.start()}: {advice}"
        )
    return text


def validate_values(values: object, *, name: str, of: str) -> list[Any]:
    """Return several values as a list.

    Args:
        values: What the caller passed.
        name: Their name in an error.
        of: Name of the expected values, such as `mappings`.

    Raises:
        InvalidInput: they cannot be iterated over, or are one text or mapping.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {type(values).__name__}: pass a list of {of}")
    return list(values)


def clean_text(text: str) -> str:
    """Return `text` with lone surrogates and control characters replaced by spaces."""
    return _UNCLEAN.sub(" ", text)


def to_storable(text: str) -> str:
    """Return `text` with NUL and lone surrogates replaced by spaces; other control characters stay."""
    return _UNSTORABLE.sub(" ", text)


def validate_id(id: object) -> str:
    """Return an id if it is a string; raise `InvalidInput` otherwise."""
    if not isinstance(id, str):
        raise InvalidInput(f"id is {quote_value(id)}: pass a string")
    return id


def validate_progress(value: Callable[..., None] | None) -> Callable[..., None]:
    """Return the callback, or one that does nothing for None; raises `InvalidInput` if it cannot be called."""
    if value is not None and not callable(value):
        raise InvalidInput(
            f"progress is {quote_value(value)}: pass a function that takes numbers, or leave it out"
        )
    return value or (lambda *_: None)


def validate_address(url: object, *, name: str, example: str = "http://127.0.0.1:8000/v1") -> str:
    """Return the address of an HTTP server.

    Raises:
        InvalidInput: it is not a valid address.
    """
    try:
        parts = urlsplit(url) if isinstance(url, str) and url.isprintable() and " " not in url else None
        is_address = parts and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets without an end, or a port that is no number
        is_address = None
    if not isinstance(url, str) or not is_address:
        raise InvalidInput(f"{name} is {quote_value(url)}: pass an address such as {example!r}")
    return url


def validate_count(value: object, *, name: str, least: int = 1, most: int = 1_000_000_000) -> int:
    """Return `value` if it is a whole number from `least` to `most`; raises `InvalidInput` otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{name} is {quote_value(value)}: it is a whole number from {least} to {most:,}")
    return value


def validate_limit(value: object, *, name: str) -> None:
    """Raise `InvalidInput` unless `value` is None or a whole number from 0."""
    if value is not None:
        validate_count(value, name=name, least=0)
