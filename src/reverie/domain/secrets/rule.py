"""Rules that find secrets: a pattern that runs only on texts with one of its triggers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from reverie.domain.lazy_regex import compile_pattern
from reverie.domain.secrets import checksums


class SecretMatch(NamedTuple):
    """Match of a rule, to be checked.

    Attributes:
        text: What would be replaced.
        match: Where it stands.
        group: The name or number of the group that holds it.
    """

    text: str
    match: re.Match[str]
    group: str | int


class Span(NamedTuple):
    """A secret in a text: from `start` up to, not including, `end`; and its kind."""

    start: int
    end: int
    kind: str


def is_not_placeholder(secret: SecretMatch) -> bool:
    """Return whether it is no placeholder."""
    return not checksums.is_placeholder(secret.text)


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One way to find one kind of secret.

    Attributes:
        kind: What it is called where it is replaced.
        triggers: Lower-case texts of which a text must have one, for the pattern to be worth running.
        pattern: Its source. What the group `value` has is replaced; without such a group, all of it.
        check: Whether what was found is one.
        case: Whether capitals matter in the pattern.
        needs: A cheaper pattern that a text must match as well, for triggers that stand in every text.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str
    check: Callable[[SecretMatch], bool] | None = None
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


_LONG = 60
_DATA = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _is_in_base64(text: str, start: int) -> bool:
    """Return whether a place is in the middle of a long run of base64, such as that of a picture."""
    before = text[max(0, start - _LONG) : start]
    return len(before) == _LONG and all(char in _DATA for char in before)
