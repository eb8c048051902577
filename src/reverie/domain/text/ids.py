"""Ids of twelve hexadecimal characters, and fingerprints of contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

NewId = Callable[[], str]
"""Generator of ids. Tests pass their own."""

_ID = defer_regex(r"[0-9a-f]{12}")
# Ids that were drawn together, because each draw gives other threads the interpreter; `pop` is atomic.
_unused: list[str] = []

if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_unused.clear)  # the parent uses them


def generate_id() -> str:
    """Return a fresh random id: 12 lower-case hexadecimal characters (48 bits)."""
    try:
        return _unused.pop()
    except IndexError:
        first, *others = os.urandom(6 * 64).hex(" ", 6).split()
        _unused.extend(others)
        return first


def is_id(text: object) -> bool:
    """Return whether a value has the form of an id."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def validate_id(text: str, *, name: str = "id") -> str:
    """Return `text` if it has the form of an id.

    Raises:
        InvalidInput: it has not.
    """
    if not is_id(text):
        raise InvalidInput(f"{name} is {text!r}: an id is 12 hexadecimal characters, such as 3f9a0c41d7be")
    return text


def compute_fingerprint(kind: str, content: str) -> str:
    """Return a hash of kind and content without case and spacing.

    The first 24 hexadecimal characters of SHA-256 over the kind, `|`, and the lower-cased content with
    every run of white space made one space (golemcore's rule).
    """
    text = f"{kind}|{' '.join(content.lower().split())}"
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:24]
