"""When is a pattern compiled? When it is first asked for: importing costs nothing. Pure."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache


class LazyRegex:
    """A pattern that is compiled when it is first asked for, so that importing costs nothing."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source, self._flags = source, flags

    @cached_property
    def re(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self._source, self._flags)


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, case: bool) -> re.Pattern[str]:
    """The pattern, compiled once."""
    return re.compile(pattern, 0 if case else re.IGNORECASE)
