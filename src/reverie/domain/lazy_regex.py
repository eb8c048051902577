"""Regular expressions compiled on first use, so that an import costs nothing."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache


class LazyRegex:
    """Regular expression that is compiled when it is first used."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source, self._flags = source, flags

    @cached_property
    def re(self) -> re.Pattern[str]:
        """The compiled pattern."""
        return re.compile(self._source, self._flags)


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, case: bool) -> re.Pattern[str]:
    """Return the compiled pattern, from a cache."""
    return re.compile(pattern, 0 if case else re.IGNORECASE)
