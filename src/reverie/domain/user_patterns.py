"""Regular expressions of users: which are accepted, how long a match may take, and redaction by them.

They run in the package `regex`, whose searches end after a given time. `re` backtracks without a limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.secrets.redactor import Redactor, get_built_in_redactor

MAX_PATTERN_CHARACTERS = 500
"""Characters of a pattern of secrets."""

MAX_PATTERNS = 100
"""Number of patterns of secrets."""

_CHECK_TIMEOUT_S = 2.0
_PLAIN_TEXTS = ("", "a", "the cat", "[redacted: own pattern]")
"""Texts that a pattern of secrets must not match."""

_REPEAT = defer_regex(r"\{(\d*)(?:,(\d*))?\}")
_MAX_REPEATS = 100_000
"""Largest product of the numbers of repetitions. A compiled pattern has that many copies of its parts."""


class UserPattern:
    """A compiled regular expression. Safe to use from several threads."""

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        """Compile an expression in the syntax of `re`.

        Args:
            text: The expression.
            ignore_case: Whether capital and small letters match each other.

        Raises:
            ValueError: it is not a regular expression, or repeats too much. The message is the reason.
        """
        import regex  # here: few memories have patterns, and the import takes time

        self._text = text
        repeats = [int(match[2] or match[1] or 1) or 1 for match in _REPEAT.finditer(text)]
        if math.prod(repeats) > _MAX_REPEATS:
            raise ValueError("it repeats too much: write * or + in place of large numbers")
        try:
            self._compiled: Any = regex.compile(text, regex.IGNORECASE if ignore_case else 0)
        except (regex.error, RecursionError, OverflowError, MemoryError) as error:
            raise ValueError(f"it is not a regular expression: {error}") from None

    def has_match(self, text: str, *, timeout_s: float) -> bool:
        """Return whether the pattern matches anywhere in a text (see `find_spans`)."""
        return next(self.find_spans(text, timeout_s=timeout_s), None) is not None

    def find_spans(self, text: str, *, timeout_s: float) -> Iterator[tuple[int, int]]:
        """Yield start and end of each match in a text, or of its group `value`.

        Args:
            text: The text.
            timeout_s: Seconds of processor time for all matches, over 0.

        Raises:
            InvalidInput: the time was too short.
        """
        group: str | int = "value" if "value" in self._compiled.groupindex else 0
        try:
            for match in self._compiled.finditer(text, timeout=timeout_s):
                yield match.span(group)
        except TimeoutError:
            raise InvalidInput(
                f"The regular expression {self._text!r} takes too long. Make it simpler."
            ) from None


# -- patterns of secrets ------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def build_redactor(enabled: bool, patterns: tuple[str, ...]) -> Redactor:
    """Return the redactor of these settings from a cache.

    Args:
        enabled: Whether anything is redacted.
        patterns: Regular expressions of further secrets.
    """
    if not (enabled and patterns):
        return get_built_in_redactor() if enabled else Redactor(enabled=False)
    return Redactor(patterns=[UserPattern(pattern) for pattern in patterns])


def explain_unsafe_pattern(pattern: str) -> str | None:
    """Return why a pattern of secrets is refused; None if it is accepted.

    It is refused if it is too long, is not a regular expression, or matches the empty text or a short plain text.
    """
    if not pattern or len(pattern) > MAX_PATTERN_CHARACTERS:
        return f"it has {len(pattern)} characters: write 1 to {MAX_PATTERN_CHARACTERS}"
    try:
        compiled = UserPattern(pattern)
        matches = [compiled.has_match(plain, timeout_s=_CHECK_TIMEOUT_S) for plain in _PLAIN_TEXTS]
    except ValueError as error:
        return str(error)
    return "it matches text that is no secret: make it say more" if any(matches) else None
