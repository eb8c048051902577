"""Categories: slash paths such as `user-preferences/style`."""

from __future__ import annotations

import re
import unicodedata

from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_regex import defer_regex

USER_PREFERENCES = "user-preferences"
ANTI_PATTERNS = "anti-patterns"
GENERAL = "general"

LONGEST = 200
_SEGMENT = r"[\w-](?:[\w -]*[\w-])?"
_CATEGORY = defer_regex(rf"{_SEGMENT}(?:/{_SEGMENT})*")


def validate_category(text: object, *, name: str = "category") -> str:
    """Return `text` if it is a category: segments of letters of any script, digits, `_`, `-` and spaces, joined by `/`.

    Raises:
        InvalidInput: it is empty, absolute, has `..` or other characters, or over 200 characters.

    >>> validate_category("études/日本語"), validate_category("home/spare room")
    ('études/日本語', 'home/spare room')
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{name} is {quote_value(text)}: pass text such as 'user-preferences/style'")
    if len(text) > LONGEST:
        raise InvalidInput(f"{name} has {len(text):,} characters: at most {LONGEST} are allowed")
    text = unicodedata.normalize("NFC", text)
    letters = text
    if not text.isascii():
        letters = "".join(each for each in text if not unicodedata.category(each).startswith("M"))
    if not _CATEGORY.fullmatch(letters):
        raise InvalidInput(
            f"{name} is {text!r}: use letters, digits, '_', '-' and spaces in segments joined by '/', "
            "such as 'user-preferences/style'"
        )
    if any(len(segment.encode()) > LONGEST for segment in text.split("/")):
        raise InvalidInput(
            f"{name} has a segment of over {LONGEST} bytes, which no folder may be called: shorten it"
        )
    return text


def is_within_category(category: str | None, ancestor: str) -> bool:
    """Return whether `category` is `ancestor` or below it, by whole segments."""
    return category is not None and (category == ancestor or category.startswith(f"{ancestor}/"))


def list_ancestors(category: str | None) -> list[str]:
    """Return `a/b/c` as `['a', 'a/b', 'a/b/c']`; none for no category."""
    if category is None:
        return []
    segments = category.split("/")
    return ["/".join(segments[: n + 1]) for n in range(len(segments))]


def to_search_words(category: str | None) -> str:
    """Return the words of a category for a search, with spaces for `/`, `-` and `_` (RockBot's rule)."""
    return "" if category is None else re.sub(r"[/_-]+", " ", category)
