"""Rules for secrets: a pattern that is applied only to texts with one of its triggers.

The rules are in text files of this folder, which `load_rules` reads.
"""

from __future__ import annotations

import pkgutil
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from reverie.domain.lazy_regex import compile_pattern
from reverie.domain.secrets import checksums


class SecretMatch(NamedTuple):
    """Match of a rule, to be checked.

    Attributes:
        text: The text to replace.
        match: The match.
        group: Name or number of the group with the text.
    """

    text: str
    match: re.Match[str]
    group: str | int


class Span(NamedTuple):
    """Place of a secret in a text, from `start` up to but not including `end`, and its kind."""

    start: int
    end: int
    kind: str


Check: TypeAlias = Callable[[SecretMatch], bool]
"""Function that tells whether a match is a secret."""


def is_not_placeholder(secret: SecretMatch) -> bool:
    """Return whether a match is no placeholder."""
    return not checksums.is_placeholder(secret.text)


class SecretRule(NamedTuple):
    """Rule for one kind of secret.

    Attributes:
        kind: Name of the kind, which replaces the secret.
        triggers: Lower-case texts, one of which a text must have for the pattern to be applied.
        pattern: Source of the pattern. Its group `value` is replaced, or the whole match if it has no such group.
        check: Function that tells whether a match is a secret; None if every match is.
        case: Whether the pattern is case-sensitive.
        needs: A cheaper pattern that a text must match too, for triggers that are common.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str
    check: Check | None = None
    case: bool = True
    needs: str = ""

    def spans(self, text: str, lower: str) -> Iterator[Span]:
        """Yield every secret of this rule in `text`, whose lower-case form is `lower`."""
        if not any(trigger in lower for trigger in self.triggers):
            return
        if self.needs and compile_pattern(self.needs, True).search(text) is None:
            return
        pattern = compile_pattern(self.pattern, self.case)
        group: str | int = "value" if "value" in pattern.groupindex else 0
        for match in pattern.finditer(text):
            secret = SecretMatch(match[group], match, group)
            if (
                secret.text
                and (self.check is None or self.check(secret))
                and not _is_in_base64(text, match.start())
            ):
                yield Span(*match.span(group), self.kind)


class _PlainCharacters(dict[int, str]):
    """Table from characters that look like ASCII letters and digits ("ｐ", "𝗽") to these."""

    def __missing__(self, code: int) -> str:
        plain = unicodedata.normalize("NFKC", chr(code))
        is_plain = len(plain) == 1 and plain.isascii() and plain.isalnum()
        return self.setdefault(code, plain if is_plain else chr(code))


_plain_characters = _PlainCharacters()


def unify_characters(text: str) -> str:
    """Return a text with ASCII characters for full-width and mathematical letters and digits. Its length stays.

    >>> unify_characters("ｐａｓｓ：é")
    'pass：é'
    """
    return text if text.isascii() else text.translate(_plain_characters)


def fold_case(text: str) -> str:
    """Return a text in small letters. Its length stays."""
    lower = text.lower()
    if len(lower) != len(text):  # the small form of a few letters is longer; no trigger has them
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower


def load_rules(name: str, *checks: Check) -> tuple[SecretRule, ...]:
    """Return the rules of a file in this folder, in its order.

    A rule begins with its kind in brackets and has a line for each property; an indented line continues the one before
    it. Triggers are separated by spaces, and in backticks if they contain spaces. A `pattern` is that of `SecretRule`.
    A `token` is a pattern without letters or digits beside it whose match is no placeholder. Patterns use the entries
    of `[words]` by their names in braces.

    Args:
        name: Name of the file without its ending.
        checks: Functions for the property `check`, in addition to `is_not_placeholder`.
    """
    text = (pkgutil.get_data(__package__, f"{name}.txt") or b"").decode()
    named = {check.__name__.lstrip("_"): check for check in (is_not_placeholder, *checks)}
    words = {"begin": "(?<![A-Za-z0-9])", "end": "(?![A-Za-z0-9])"}
    rules = []
    for block in text.replace("\n    ", "").strip().split("\n\n"):
        kind, *lines = block.split("\n")
        given = dict(line.split(": ", 1) for line in lines)
        if kind == "[words]":
            words |= given
        elif "token" in given:
            pattern = f"{{begin}}(?:{given['token']}){{end}}"
            rules.append(_build_rule(kind, {**given, "pattern": pattern}, is_not_placeholder, words))
        else:
            check = named[given["check"]] if "check" in given else None
            rules.append(_build_rule(kind, given, check, words))
    return tuple(rules)


def _build_rule(
    kind: str, given: Mapping[str, str], check: Check | None, words: Mapping[str, str]
) -> SecretRule:
    triggers: list[str] = []
    for number, part in enumerate(given["triggers"].split("`")):
        triggers += [part] if number % 2 else part.split()
    pattern = given["pattern"]
    for name, word in words.items():
        pattern = pattern.replace(f"{{{name}}}", word)
    return SecretRule(
        kind.strip("[]"), tuple(triggers), pattern, check, "case" not in given, given.get("needs", "")
    )


_LONG = 60
_DATA = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _is_in_base64(text: str, start: int) -> bool:
    """Return whether a place is within a long run of base64, such as a picture."""
    before = text[max(0, start - _LONG) : start]
    return len(before) == _LONG and all(char in _DATA for char in before)
