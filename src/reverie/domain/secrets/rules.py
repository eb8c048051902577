"""Rules for secrets with a form or surroundings of their own, and the engine that applies them.

The rules and the lists of words are in `rules.txt`. Every quantifier of a pattern is bounded or possessive, so
matching takes time linear in the text.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from reverie.domain.lazy_regex import compile_pattern
from reverie.domain.secrets import values

_REACH = 300
"""Characters after an announcement in which its rule looks for secrets."""

_NEAR_BEFORE, _NEAR_AFTER, _FAR = 90, 30, 40
"""Characters around a value in which the patterns `near` and `far` are looked for."""

_LONG = 60
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


class Span(NamedTuple):
    """Part of a text that is a secret, from `start` up to but not including `end`, and its kind."""

    start: int
    end: int
    kind: str


class SecretRule(NamedTuple):
    """Rule for one kind of secret.

    Attributes:
        kind: Name of the kind, which replaces the secret.
        triggers: Lower-case texts, one of which a text must have for the pattern to be applied.
        pattern: Source of the pattern. Its group `value` is replaced, or the whole match if it has no such group. If
            its group `other` matches, there is no secret.
        check: Function that returns whether a value may be a secret; None if any may be. No placeholder is.
        case: Whether the patterns are case-sensitive.
        needs: A cheaper pattern that a text must match too, for triggers that are common.
        unlike: A pattern of whole values that are no secrets, whatever their case; empty for none.
        near: A pattern that matches in 90 characters before the value, the value or 30 characters after it.
        far: A pattern that does not match in 40 characters before the value.
        announcement: A pattern before the secrets; `pattern` is then applied to its group `within`, or to the 300
            characters after it.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str
    check: Callable[[str], bool] | None = None
    case: bool = True
    needs: str = ""
    unlike: str = ""
    near: str = ""
    far: str = ""
    announcement: str = ""

    def find_spans(self, text: str, lower: str) -> Iterator[Span]:
        """Yield every secret of this rule in `text`, whose lower-case form is `lower`."""
        if not any(trigger in lower for trigger in self.triggers):
            return
        if self.needs and compile_pattern(self.needs, True).search(text) is None:
            return
        pattern = compile_pattern(self.pattern, self.case)
        group: str | int = "value" if "value" in pattern.groupindex else 0
        for begin, stop in self._find_regions(text):
            for match in pattern.finditer(text, begin, stop):
                start, end = match.span(group)
                is_other = "other" in pattern.groupindex and match["other"] is not None
                if start < end and not is_other and self._is_secret(text, start, end):
                    before = text[max(0, match.start() - _LONG) : match.start()]
                    is_data = len(before) == _LONG and _BASE64.issuperset(before)  # such as a picture
                    if not is_data:
                        yield Span(start, end, self.kind)

    def _is_secret(self, text: str, start: int, end: int) -> bool:
        """Return whether a matched value is a secret by itself and by the text around it."""
        value = text[start:end]
        if " " not in value and values.is_placeholder(value):
            return False
        if self.unlike and compile_pattern(self.unlike, False).fullmatch(value):
            return False
        if self.check is not None and not self.check(value):
            return False
        around = max(0, start - _NEAR_BEFORE), end + _NEAR_AFTER
        if self.near and not compile_pattern(self.near, False).search(text, *around):
            return False
        return not (self.far and compile_pattern(self.far, False).search(text, max(0, start - _FAR), start))

    def _find_regions(self, text: str) -> Iterator[tuple[int, int]]:
        if not self.announcement:
            yield 0, len(text)
            return
        announcement = compile_pattern(self.announcement, self.case)
        is_bounded, stop = "within" in announcement.groupindex, 0
        for match in announcement.finditer(text):
            if is_bounded:
                yield match.span("within")
            else:  # what the announcement before it has covered is not searched again
                yield max(match.end(), stop - _LONG), match.end() + _REACH
                stop = match.end() + _REACH


class RuleTable(NamedTuple):
    """Content of `rules.txt`.

    Attributes:
        named: Rules that also apply to the names of sessions, scopes and keys, and are more than one word.
        forms: Rules for single words with a form of their own, which also apply to names; the more specific first.
        frames: Rules that depend on the text around a secret.
        words: Lists of words, as alternatives of a pattern, and parts of patterns.
    """

    named: tuple[SecretRule, ...]
    forms: tuple[SecretRule, ...]
    frames: tuple[SecretRule, ...]
    words: Mapping[str, str]


@cache
def load_table() -> RuleTable:
    """Return the rules and the words, in the order of the file.

    A rule begins with its kind in brackets and has a line for each property; an indented line continues the one before
    it. Triggers are separated by spaces, and in backticks if they contain spaces. A `token` is a pattern without
    letters or digits before and after it. A `check` is a function of the module `values`. Patterns use the entries of
    `[words]` by their names in braces, and those of `[lists]` as alternatives.
    """
    text = (pkgutil.get_data(__package__, "rules.txt") or b"").decode()
    words = {"begin": "(?<![A-Za-z0-9])", "end": "(?![A-Za-z0-9])"}
    groups: dict[str, list[SecretRule]] = {"name": [], "form": [], "frame": []}
    rules = groups["name"]
    for block in text.strip().split("\n\n"):
        is_list = block.startswith("[lists]")
        kind, *lines = block.replace("\n    ", " " if is_list else "").split("\n")
        given = dict(line.split(": ", 1) for line in lines)
        if kind.startswith("[["):
            rules = groups[kind.strip("[]")]
        elif is_list:
            words |= {name: "|".join(entries.split()) for name, entries in given.items()}
        elif kind == "[words]":
            words |= given
        else:
            rules.append(_build_rule(kind.strip("[]"), given, words))
    return RuleTable(tuple(groups["name"]), tuple(groups["form"]), tuple(groups["frame"]), words)


def _build_rule(kind: str, given: Mapping[str, str], words: Mapping[str, str]) -> SecretRule:
    triggers: list[str] = []
    for number, part in enumerate(given["triggers"].split("`")):
        triggers += [part] if number % 2 else part.split()

    def expand(pattern: str) -> str:
        return _expand(pattern, words)

    pattern = f"{{begin}}(?:{given['token']}){{end}}" if "token" in given else given["pattern"]
    return SecretRule(
        kind,
        tuple(triggers),
        expand(pattern),
        check=getattr(values, given["check"]) if "check" in given else None,
        case="case" not in given,
        announcement=expand(given.get("after", "")),
        **{name: expand(given.get(name, "")) for name in ("needs", "unlike", "near", "far")},
    )


def _expand(pattern: str, words: Mapping[str, str]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda name: _expand(words[name[1]], words), pattern)


@cache
def get_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern for secrets after a name, such as `value`: the entry `name_value` of `[words]`."""
    words = load_table().words
    return re.compile(_expand(words[f"name_{name}"], words))


def get_words(name: str) -> tuple[str, ...]:
    """Return the words of a list."""
    return tuple(join_words(name).split("|"))


def join_words(name: str) -> str:
    """Return the words of a list as alternatives of a pattern."""
    return load_table().words[name]
