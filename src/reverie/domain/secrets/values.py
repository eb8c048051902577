"""Classes of values: random, made up, a number, a path, with a valid checksum."""

from __future__ import annotations

import binascii
import json
import math
import re
from collections import Counter
from itertools import pairwise

from reverie.domain.lazy_regex import defer_regex

_HEX = defer_regex(r"(?:0x)?[0-9a-fA-F]+")
_NUMBER = defer_regex(r"[\d.,:%/-]+(?:ms|s|m|h|d|k|kb|mb|x|th|st|nd|rd)?", re.IGNORECASE)
_DATE = defer_regex(r"\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_PATH = defer_regex(
    r"(?:[~.]{0,2}/|[A-Za-z]:\\|[a-z][a-z0-9+.-]*://)\S*|[\w.-]+(?:/[\w.-]+)+\.\w{1,5}"
    r"|[\w-]+\.(?:py|js|ts|json|ya?ml|md|txt|toml|env|pem|key|crt|go|rs|java|html?|pdf)"
)
_SNAKE = defer_regex(
    r"[A-Za-z]+(?:[_-][A-Za-z]+)*"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+"
    r"|_?[a-z]*(?:[A-Z]{1,5}[a-z]{2,}){1,9}\d?"
    r"|[a-z]+(?:_[a-z]+)*_?\d{1,2}"
)
_CARD = defer_regex(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720|220[0-4]|352[89]|35[3-8]\d)\d{12}"
    r"|3[47]\d{13}|(?:30[0-5]|3[689]\d)\d{11}|(?:6011|65\d\d|64[4-9]\d)\d{12}(?:\d{3})?|62\d{14,17}"
)
"""Numbers of the issuers of cards, each with its lengths."""
_PARTS = defer_regex(r"[-_.:/+=~@,\\]+")
_MADE_UP = defer_regex(
    r"""x{4,} | \*{3,} | \.{3} | … | (.)\1{7,}
      | your[-_ ]? | example | place[-_]?holder | dummy | replace[-_]?(?:me|with|this) | insert[-_]
      | redacted | 1234567890 | abcdefgh | deadbeef(?:deadbeef|cafe) | not[-_]?a[-_]?real | fake[-_]?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_FEW = 6
_LONG = 40
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
    rest = _MADE_UP.sub("", value)
    return rest != value and not (len(rest) >= _LONG and is_random(rest, least=_LONG))


def compute_entropy(value: str) -> float:
    """Return the Shannon entropy of the characters, in bits per character."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def is_hex(value: str) -> bool:
    """Return whether a value has only hexadecimal digits, like a hash, an id or a key."""
    return _HEX.fullmatch(value) is not None


def is_number(value: str) -> bool:
    """Return whether a value is a number, perhaps with a unit."""
    return _NUMBER.fullmatch(value) is not None


def is_date(value: str) -> bool:
    """Return whether a value is a date or begins with one."""
    return _DATE.fullmatch(value) is not None


def is_path(value: str) -> bool:
    """Return whether a value is a path, an address or the name of a file."""
    return _PATH.fullmatch(value) is not None


def is_snake(value: str) -> bool:
    """Return whether a value is a word, or words as in the names of programs: `max_tokens`, `MAX_2`, `getUser`."""
    return _SNAKE.fullmatch(value) is not None


def is_mixed(value: str) -> bool:
    """Return whether a value has letters, and digits or marks."""
    has_letter = any(char.isalpha() for char in value)
    return has_letter and any(char.isdigit() or char in "!@#$%^&*+=?~|<>/" for char in value)


def is_strong(value: str) -> bool:
    """Return whether a value mixes letters with two of: digits, inner capitals, marks."""
    digits = any(char.isdigit() for char in value)
    inner = any(char.isupper() for char in value[1:]) and any(char.islower() for char in value)
    marks = any(char in "!@#$%^&*+=?~" for char in value)
    is_name = is_snake(value) or is_path(value) or is_hex(value)
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
    part = max(_PARTS.split(value), key=len)
    if len(part) < min(12, least) or part.isdigit():
        parts = [each for each in _PARTS.split(value) if each]
        mixed = sum(_count_class_changes(each) >= 2 for each in parts)
        return mixed >= 2 and 2 * mixed > len(parts)
    if is_hex(part):
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
    return _CARD.fullmatch(digits) is not None and is_luhn_valid(digits)
