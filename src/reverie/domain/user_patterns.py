"""Regular expressions of users: which are accepted, and how long they may take.

They run in the package `regex`, whose searches end after a given time. `re` backtracks without a limit.
"""

from __future__ import annotations

import math
from typing import Any

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

_REPEAT = defer_regex(r"\{(\d*)(?:,(\d*))?\}")
_MAX_REPEATS = 100_000
"""Largest product of the numbers of repetitions. A compiled pattern has that many copies of its parts."""


class UserPattern:
    """A compiled regular expression that searches texts, regardless of case."""

    def __init__(self, text: str) -> None:
        """Compile an expression in the syntax of `re`; raise `InvalidInput` if it is none, or repeats too much."""
        import regex  # here: few searches have patterns, and the import takes time

        self._text = text
        repeats = [int(match[2] or match[1] or 1) or 1 for match in _REPEAT.finditer(text)]
        if math.prod(repeats) > _MAX_REPEATS:
            raise InvalidInput(
                f"Invalid query {text!r}: it repeats too much: write * or + instead of large numbers."
            )
        try:
            self._compiled: Any = regex.compile(text, regex.IGNORECASE)
        except (regex.error, RecursionError, OverflowError, MemoryError) as error:
            raise InvalidInput(f"Invalid query {text!r}: it is not a regular expression: {error}.") from None

    def has_match(self, text: str, *, timeout_s: float) -> bool:
        """Return whether the pattern matches anywhere in a text.

        Args:
            text: The text.
            timeout_s: Seconds of processor time, over 0; after them `InvalidInput` is raised.
        """
        try:
            return self._compiled.search(text, timeout=timeout_s) is not None
        except TimeoutError:
            raise InvalidInput(
                f"The regular expression {self._text!r} takes too long. Make it simpler."
            ) from None
