"""How are things named? Ids of twelve hexadecimal characters, and the fingerprint of a content."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable

from reverie.errors import InvalidInput

NewId = Callable[[], str]
"""Anything that makes a fresh id. Tests pass their own."""

_ID = re.compile(r"[0-9a-f]{12}")


def new_id() -> str:
    """A fresh random id: 12 lower-case hexadecimal characters (48 bits)."""
    return secrets.token_hex(6)


def valid_id(text: str, *, name: str = "id") -> str:
    """`text`, if it has the form of an id.

    Raises:
        InvalidInput: it has not.
    """
    if not isinstance(text, str) or not _ID.fullmatch(text):
        raise InvalidInput(f"{name} is {text!r}: an id is 12 hexadecimal characters, such as 3f9a0c41d7be")
    return text


def fingerprint(kind: str, content: str) -> str:
    """What makes two records the same: the kind and the content without case and spacing.

    The first 24 hexadecimal characters of SHA-256 over the kind, `|`, and the lower-cased content with
    every run of white space made one space (golemcore's rule).
    """
    text = f"{kind}|{' '.join(content.lower().split())}"
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:24]
