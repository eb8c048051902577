"""Patterns that stand in files beside the rules, and the names of the rules."""

from __future__ import annotations

import re
from functools import cached_property
from importlib.resources import files
from typing import Literal, get_args

from reverie.domain.lazy_regex import defer_regex

Rule = Literal["decision", "constraint", "preference", "failure", "fix", "correction"]
Speaker = Literal["user", "assistant"]

RULES: tuple[Rule, ...] = get_args(Rule)

_HEADING = defer_regex(r"\[([a-z_]+)\]")
_NAME = defer_regex(r"\{([a-z_]+)\}")


class PatternFile:
    """Patterns of a file in this folder, each compiled when it is first used.

    A heading `[name]` begins a pattern. Each line below it is an alternative; an indented line goes on where the one
    before it ends. `{name}` stands for another pattern of the file. A line that begins with `#` is a comment.

    Compiling all of them takes 35 ms, which a program that stores one turn and ends would wait for.
    """

    def __init__(self, name: str, flags: int = 0) -> None:
        """Note which file; nothing is read before the first use.

        Args:
            name: Name of the file without its ending.
            flags: Flags of all patterns.
        """
        self._name = name
        self._flags = flags
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str) -> re.Pattern[str]:
        """Return a pattern."""
        if name not in self._compiled:
            self._compiled[name] = re.compile(self._expand(name), self._flags)
        return self._compiled[name]

    def matches(self, text: str, *names: str) -> bool:
        """Whether one of these patterns is found in a text."""
        return any(self[name].search(text) for name in names)

    @cached_property
    def _sources(self) -> dict[str, str]:
        text = (files(__package__) / f"{self._name}.txt").read_text(encoding="utf-8")
        alternatives: dict[str, list[str]] = {}
        name = ""
        for line in text.replace("\n    ", "").split("\n"):
            if heading := _HEADING.fullmatch(line):
                name = heading[1]
            elif line and not line.startswith("#"):
                alternatives.setdefault(name, []).append(line)
        return {
            name: lines[0] if len(lines) == 1 else "|".join(f"(?:{line})" for line in lines)
            for name, lines in alternatives.items()
        }

    def _expand(self, name: str) -> str:
        return _NAME.sub(lambda found: self._expand(found[1]), self._sources[name])
