"""Regular expressions in linear time, for patterns of users.

`re` uses backtracking, which takes exponential or quadratic time for some patterns and cannot be interrupted. Here all
alternatives are followed at once (Thompson, 1968), and sets of them are cached as states. So a match takes one look-up
for each character. Syntax and character classes are those of `re`; back-references and look-around are refused.
"""

from __future__ import annotations

import re
import warnings
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from reverie.domain.errors import InvalidInput

_MOST_NODES = 2_000
_MOST_STATES = 2_000
_MOST_STEPS = 4_000_000
"""Nodes visited while states are made, for all texts together: some seconds."""

_OF_TYPE = re.ASCII | re.UNICODE | re.LOCALE
_END = "\0"


class LinearPattern:
    """Regular expression that tests texts for a match. Not safe for several threads."""

    def __init__(self, text: str, flags: re.RegexFlag = re.IGNORECASE) -> None:
        """Parse a pattern; raise `re.error` if it is invalid, `InvalidInput` if it needs more than linear time."""
        self._text = text
        self._nodes: list[tuple[re.Pattern[str] | None, bool, list[int]]] = []
        self._left = _MOST_STEPS
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            parsed = _parser.parse(text, flags)
        self._accepting = self._add(None)
        self._start = self._build(parsed, self._accepting, parsed.state.flags)
        self._match = _State(self, frozenset(), "")

    def has_match(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in the text; raise `InvalidInput` if that takes too long."""
        match = self._match
        state = self._get_state(frozenset(), "")
        for symbol in text[:-1]:
            state = state[symbol]
            if state is match:
                return True
        last = state[text[-1] + _END] if text else state
        return last is match or last[_END] is match

    # -- nodes ---------------------------------------------------------------------------------------------

    def _add(self, condition: re.Pattern[str] | None, *following: int, consumes: bool = False) -> int:
        """Add a node (a character, a place such as the beginning, or a choice), and return its number."""
        if len(self._nodes) >= _MOST_NODES:
            raise self._refuse("repeats too much", "write * or + in place of large numbers")
        self._nodes.append((condition, consumes, list(following)))
        return len(self._nodes) - 1

    def _build(self, parsed: Any, following: int, flags: int) -> int:
        """Add the nodes of a sequence, the last first, and return the first."""
        for item in reversed(list(parsed)):
            following = self._build_one(item, following, flags)
        return following

    def _build_one(self, item: Any, following: int, flags: int) -> int:
        operation, argument = item
        match str(operation):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._add(_compile(item, flags), following, consumes=True)
            case "AT":
                return self._add(_compile(item, flags), following)
            case "BRANCH":
                return self._add(None, *(self._build(one, following, flags) for one in argument[1]))
            case "SUBPATTERN":
                _, added, removed, inner = argument
                kept = flags & ~_OF_TYPE if added & _OF_TYPE else flags
                return self._build(inner, following, (kept | added) & ~removed)
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._build_repeat(argument, following, flags)
            case _:
                raise self._refuse("looks around or refers back", "leave that part out")

    def _build_repeat(self, repeat: Any, following: int, flags: int) -> int:
        least, most, inner = repeat
        after = following
        if most is _constants.MAXREPEAT:
            following = self._add(None, after)
            self._nodes[following][2].insert(0, self._build(inner, following, flags))
        elif int(most) > _MOST_NODES:
            raise self._refuse("repeats too much", "write * or + in place of large numbers")
        else:
            for _ in range(int(most) - int(least)):
                following = self._add(None, self._build(inner, following, flags), after)
        for _ in range(int(least)):
            following = self._add(None, self._build(inner, following, flags))
        return following

    # -- states --------------------------------------------------------------------------------------------

    def _get_state(self, nodes: frozenset[int], before: str) -> _State:
        if len(self._states) >= _MOST_STATES:
            self._states.clear()  # those in use live on
        key = (nodes, before)
        if key not in self._states:
            self._states[key] = _State(self, nodes, before)
        return self._states[key]

    def _step(self, state: _State, symbol: str) -> _State:
        """Return the state after one more character of the text, the last one marked, or after its end."""
        if state is self._match:
            return state
        after = symbol[:1] if symbol != _END else ""
        around = state.before + after + ("x" if len(symbol) == 1 and after else "")
        waiting = [self._start, *state.nodes]
        seen = set(waiting)
        reached: set[int] = set()
        while waiting:
            number = waiting.pop()
            if number == self._accepting:
                return self._match
            condition, consumes, following = self._nodes[number]
            if consumes:
                if after and condition is not None and condition.match(after):
                    reached.update(following)
            elif condition is None or condition.match(around, len(state.before)):
                waiting += (new := [each for each in following if each not in seen])
                seen.update(new)
        self._left -= len(seen)
        if self._left < 0:
            raise self._refuse("takes too long", "make it plainer")
        return self._get_state(frozenset(reached), _get_context(after))

    def _refuse(self, what: str, remedy: str) -> InvalidInput:
        return InvalidInput(f"query is {self._text!r}, which {what}: {remedy}")


class _State(dict[str, "_State"]):
    """Set of nodes where a match may continue, with the next state for each character so far."""

    __slots__ = ("before", "nodes", "pattern")

    def __init__(self, pattern: LinearPattern, nodes: frozenset[int], before: str) -> None:
        self.pattern = pattern
        self.nodes = nodes
        self.before = before

    def __missing__(self, symbol: str) -> _State:
        self[symbol] = state = self.pattern._step(self, symbol)
        return state


def _compile(item: Any, flags: int) -> re.Pattern[str]:
    """Return one item of a parsed pattern as a compiled pattern."""
    state = _parser.State()
    state.flags = flags
    compiled: re.Pattern[str] = _compiler.compile(_parser.SubPattern(state, [item]), flags)
    return compiled


def _get_context(symbol: str) -> str:
    """Return a representative of a character for tests of the character before a place."""
    if not symbol or symbol == "\n":
        return symbol
    if symbol.isalnum() or symbol == "_":
        return "a" if symbol.isascii() else "é"
    return " "
