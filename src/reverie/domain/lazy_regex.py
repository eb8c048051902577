"""Regular expressions that are compiled on first use, so that an import costs nothing, and their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pkgutil import get_data
from types import MappingProxyType
from typing import Any, cast


class _LazyPattern:
    """Stand-in for a compiled pattern, which is compiled when it is first used."""

    def __init__(self, source: str, flags: int) -> None:
        self.pattern, self._flags = source, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._compiled, name)
        setattr(self, name, value)  # the next use finds it here
        return value


def defer_regex(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used. The `re` of its matches is another object."""
    return cast("re.Pattern[str]", _LazyPattern(source, flags))


def expand_pattern(pattern: str, parts: Mapping[str, str]) -> str:
    """Return a pattern with each name in braces replaced by the part with this name, which may name others."""
    return re.sub(r"\{([a-z_]+)\}", lambda name: expand_pattern(parts[name[1]], parts), pattern)


def read_tables(package: str, file: str, *, joint: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the title of each section of a file, and its entries.

    A section begins with its title in brackets and has a line for each entry, with a name and a text. An indented line
    continues the one before it, after `joint`; sections are separated by blank lines.
    """
    for block in (get_data(package, file) or b"").decode().strip().split("\n\n"):
        title, *lines = block.replace("\n    ", joint).split("\n")
        yield title.strip("[]"), dict(line.split(": ", 1) for line in lines)


def load_patterns(
    package: str, file: str, parts: Mapping[str, str] = MappingProxyType({})
) -> dict[str, dict[str, re.Pattern[str]]]:
    """Return the patterns of each section of a file. A pattern may name others and `parts` in braces."""
    sections = dict(read_tables(package, file))
    known = {**parts, **{name: each for given in sections.values() for name, each in given.items()}}
    return {
        title: {name: defer_regex(expand_pattern(each, known)) for name, each in given.items()}
        for title, given in sections.items()
    }


def parse_word_set(text: str) -> frozenset[str]:
    """Return the words of a text, which are separated by white space."""
    return frozenset(text.split())


def lower_in_place(text: str) -> str:
    """Return a text in small letters. Its length stays, since letters with a longer small form stay as they are."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)
