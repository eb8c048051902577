"""Rules for secrets with a form or surroundings of their own, the engine that applies them, and classes of values.

The rules and the lists of words are in `rules.txt`. Every quantifier of a pattern is bounded or possessive, so
matching takes time linear in the text.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from reverie.domain.lazy_regex import defer_regex, expand_pattern, read_tables

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
        pattern: The pattern. Its group `value` is replaced, or the whole match if it has no such group. If its group
            `other` matches, there is no secret.
        check: Function that returns whether a value may be a secret; None if any may be. No placeholder is.
        needs: A cheaper pattern that a text must match too, for triggers that are common.
        unlike: A pattern of whole values that are no secrets, whatever their case.
        near: A pattern that matches in 90 characters before the value, the value or 30 characters after it.
        far: A pattern that does not match in 40 characters before the value.
        announcement: A pattern before the secrets; `pattern` is then applied to its group `within`, or to the 300
            characters after it.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] | None = None
    needs: re.Pattern[str] | None = None
    unlike: re.Pattern[str] | None = None
    near: re.Pattern[str] | None = None
    far: re.Pattern[str] | None = None
    announcement: re.Pattern[str] | None = None

    def find_spans(self, text: str, lower: str) -> Iterator[Span]:
        """Yield every secret of this rule in `text`, whose lower-case form is `lower`."""
        if not any(trigger in lower for trigger in self.triggers):
            return
        if self.needs is not None and self.needs.search(text) is None:
            return
        groups = self.pattern.groupindex
        group: str | int = "value" if "value" in groups else 0
        for begin, stop in self._find_regions(text):
            for match in self.pattern.finditer(text, begin, stop):
                start, end = match.span(group)
                is_other = "other" in groups and match["other"] is not None
                if start < end and not is_other and self._is_secret(text, start, end):
                    before = text[max(0, match.start() - _LONG) : match.start()]
                    is_data = len(before) == _LONG and _BASE64.issuperset(before)  # such as a picture
                    if not is_data:
                        yield Span(start, end, self.kind)

    def _is_secret(self, text: str, start: int, end: int) -> bool:
        """Return whether a matched value is a secret by itself and by the text around it."""
        value = text[start:end]
        if (" " not in value and is_placeholder(value)) or (self.unlike and self.unlike.fullmatch(value)):
            return False
        if self.check is not None and not self.check(value):
            return False
        if self.near and not self.near.search(text, max(0, start - _NEAR_BEFORE), end + _NEAR_AFTER):
            return False
        return not (self.far and self.far.search(text, max(0, start - _FAR), start))

    def _find_regions(self, text: str) -> Iterator[tuple[int, int]]:
        if self.announcement is None:
            yield 0, len(text)
            return
        is_bounded, stop = "within" in self.announcement.groupindex, 0
        for match in self.announcement.finditer(text):
            if is_bounded:
                yield match.span("within")
            else:  # what the announcement before it has covered is not searched again
                yield max(match.end(), stop - _LONG), match.end() + _REACH
                stop = match.end() + _REACH


@cache
def load_table() -> tuple[Mapping[str, tuple[SecretRule, ...]], Mapping[str, str]]:
    """Return the rules of each part of `rules.txt`, and its words as alternatives and parts of patterns.

    The parts are `name`, rules that also apply to the names of sessions, scopes and keys, and are more than one word;
    `form`, rules for single words, which also apply to names, the more specific first; and `frame`, rules that depend
    on the text around a secret.

    A rule has an entry for each property (see `read_tables`). Triggers are separated by spaces, and in backticks if
    they contain spaces. A `token` is a pattern without letters or digits before and after it. A `check` is a function
    of this module. Patterns use the entries of `[words]` by their names in braces, and those of `[lists]` as
    alternatives.
    """
    words = {"begin": "(?<![A-Za-z0-9])", "end": "(?![A-Za-z0-9])"}
    parts: dict[str, tuple[SecretRule, ...]] = {}
    for title, given in read_tables(__package__, "rules.txt"):
        if not given:
            part = title
        elif title == "lists":
            words |= {name: "|".join(entries.split()) for name, entries in given.items()}
        elif title == "words":
            words |= given
        else:
            parts[part] = (*parts.get(part, ()), _build_rule(title, given, words))
    return parts, words


def _build_rule(kind: str, given: Mapping[str, str], words: Mapping[str, str]) -> SecretRule:
    triggers: list[str] = []
    for number, part in enumerate(given["triggers"].split("`")):
        triggers += [part] if number % 2 else part.split()
    flags = {
        **dict.fromkeys(("pattern", "after"), re.IGNORECASE if "case" in given else 0),
        **dict.fromkeys(("unlike", "near", "far"), re.IGNORECASE),
    }
    sources = {"pattern": f"{{begin}}(?:{given['token']}){{end}}"} if "token" in given else {}
    sources |= {name: given[name] for name in ("needs", *flags) if name in given}
    patterns = {
        name: defer_regex(expand_pattern(each, words), flags.get(name, 0)) for name, each in sources.items()
    }
    return SecretRule(
        kind,
        tuple(triggers),
        check=globals()[given["check"]] if "check" in given else None,
        announcement=patterns.pop("after", None),
        **patterns,
    )


@cache
def get_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern that is an entry of `[words]`."""
    words = load_table()[1]
    return re.compile(expand_pattern(words[name], words))


def get_words(name: str) -> tuple[str, ...]:
    """Return the words of a list."""
    return tuple(load_table()[1][name].split("|"))


# -- values -----------------------------------------------------------------------------------------------

_FEW = 6
_LONG_RANDOM = 40
"""Random characters from which a value is no placeholder, since a long key may have `fake` or `xxxx` by chance."""


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder for a secret, as in documentation.

    >>> is_placeholder("sk-xxxxxxxxxxxxxxxxxxxx"), is_placeholder("AKIAIOSFODNN7EXAMPLE")
    (True, True)
    >>> is_placeholder("kR7vQ2mX9pLw4TzB")
    False
    """
    if value[:1] in "<{" or value[:2] in ("${", "$(", "%(", "[["):
        return True
    if len(value) >= 16 and len(set(value)) < _FEW:
        return True
    rest = get_pattern("value_made_up").sub("", value)
    return rest != value and not (len(rest) >= _LONG_RANDOM and is_random(rest, least=_LONG_RANDOM))


def compute_entropy(value: str) -> float:
    """Return the Shannon entropy of the characters, in bits per character."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def has_form(value: str, *forms: str) -> bool:
    """Return whether a value is a `date` (or begins with one), `hex` digits, a `number`, a `path` or a `snake`.

    A path is also an address or the name of a file. A snake is a word, or words as in the names of programs:
    `max_tokens`, `MAX_2`, `getUser`.
    """
    return any(get_pattern(f"value_{form}").fullmatch(value) is not None for form in forms)


def is_mixed(value: str) -> bool:
    """Return whether a value has letters, and digits or marks."""
    has_letter = any(char.isalpha() for char in value)
    return has_letter and any(char.isdigit() or char in "!@#$%^&*+=?~|<>/" for char in value)


def is_strong(value: str) -> bool:
    """Return whether a value mixes letters with two of: digits, inner capitals, marks."""
    digits = any(char.isdigit() for char in value)
    inner = any(char.isupper() for char in value[1:]) and any(char.islower() for char in value)
    marks = any(char in "!@#$%^&*+=?~" for char in value)
    is_name = has_form(value, "snake", "path", "hex")
    return len(value) >= 6 and digits + inner + marks >= 2 and is_mixed(value) and not is_name


def is_random(value: str, *, least: int = 16) -> bool:
    """Return whether a run of characters looks random.

    Args:
        value: The run.
        least: Least number of its characters.

    >>> is_random("q8Zt3LmPx0VbN5rK7sYd"), is_random("user_preferences_2024_style"), is_random("getUserById2")
    (True, False, False)
    """
    if len(value) < least:
        return False
    parts = [each for each in get_pattern("value_separators").split(value) if each]
    part = max(parts, key=len, default="")
    if len(part) < min(12, least) or part.isdigit():
        mixed = sum(_count_class_changes(each) >= 2 for each in parts)
        return mixed >= 2 and 2 * mixed > len(parts)
    if has_form(part, "hex"):
        digits = sum(char.isdigit() for char in part)
        return 0.25 < digits / len(part) < 0.95 and compute_entropy(part) >= 2.6
    changes = _count_class_changes(part)
    if part.isalpha() and (part.islower() or part.isupper()):
        return False
    return changes >= max(3, len(part) // 5) and compute_entropy(part) >= 3.0


def _count_class_changes(text: str) -> int:
    """Count changes between digits, small and capital letters; a capital first letter is not a change."""
    sorts = [0 if char.isdigit() else 1 if char.islower() else 2 for char in text]
    if len(sorts) > 1 and sorts[0] == 2 and sorts[1] == 1:
        sorts = sorts[1:]
    return sum(one != other for one, other in pairwise(sorts))


def is_key_block(value: str) -> bool:
    """Return whether a block between BEGIN and END lines has a body, unlike a placeholder."""
    body = "".join(char for char in value.split("-----", 2)[-1] if char.isalnum())
    return len(body) >= 60 and len(set(body)) >= 12


def is_token(value: str) -> bool:
    """Return whether a value is a token, after a word such as "Bearer"."""
    is_long = len(value) >= 16 and any(map(str.isdigit, value)) and "/" not in value
    return is_long or is_jwt(value) or is_random(value, least=12)


def is_jwt(text: str) -> bool:
    """Return whether the first part of a text with dots decodes to the header of a JSON web token."""
    head = _decode_base64(text.partition(".")[0])
    if head is None:
        return False
    try:
        header = json.loads(head)
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and ("alg" in header or "enc" in header)


def is_basic(text: str) -> bool:
    """Return whether a text is a name and a password as HTTP's basic authentication has them."""
    plain = _decode_base64(text)
    return plain is not None and ":" in plain and plain.isprintable() and not plain.endswith(":")


def _decode_base64(text: str) -> str | None:
    padded = text.rstrip("=").replace("-", "+").replace("_", "/")
    padded += "=" * (-len(padded) % 4)
    try:
        return binascii.a2b_base64(padded, strict_mode=True).decode("utf-8")
    except ValueError:
        return None


def is_luhn_valid(digits: str) -> bool:
    """Return whether the last digit is the check digit of a card number."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        number = int(char) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def is_card(digits: str) -> bool:
    """Return whether a number is that of a card: a known issuer's prefix, its length and check digit (Luhn).

    >>> is_card("4111111111111111"), is_card("4111111111111112"), is_card("9111111111111111")
    (True, False, False)
    """
    digits = "".join(filter(str.isdigit, digits))
    if len(set(digits)) < 3 and digits[:1] != "4":
        return False
    return has_form(digits, "card") and is_luhn_valid(digits)
