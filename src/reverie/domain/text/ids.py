"""Ids of twelve hexadecimal characters, and fingerprints of contents."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import lru_cache

from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex

NewId = Callable[[], str]
"""Generator of ids. Tests pass their own."""

_ID = defer_regex(r"[0-9a-f]{12}")
GIVEN_NAME = defer_regex(r"\bcalled (\S+)")
QUOTED = r"""["“„«](?:[^\s"“”„«»]{1,200}|(?=[^"“”„«»\n]{1,200}\s[A-Z])[^"“”„«»\n]{1,200})["“”»]"""
"""Pattern of a word, or of words with a capital among them, in quotation marks; it matches no quoted sentence."""
_EXACT = defer_regex(rf"(`[^`\n]{{1,200}}`|{QUOTED}|(?<=\bcalled )\S+)")
"""Code, quoted words, and the names that a text gives to things."""
_QUOTED = defer_regex('[`"“„«]')
_WORD = defer_regex(r"\S+")
_MARKS = "\"'“”‘’«»()[]{}<>*.,;:!?…"
_CASED = defer_regex(
    r"""
      [a-z]{2}[a-z0-9]*+[A-Z]\w*                # maxRetries, but iPhone and macOS as one likes
    | (?!Profile)[A-Z][a-z]+file                # Makefile
    | [\w-]{2,}(?:\.[\w-]{2,})+ | [\w-]{3,}\.\w  # app.js, Foo.Bar, main.c, but U.S. and Ph.D. as one likes
    | (?=\w*[a-z])(?=\w+[A-Z])(?![\d.,]+[A-Za-z]+\Z)\w*\d\w*  # aB3, dQw4w9WgXcQ, but 16GB as one likes
    | (?>(?:([A-Za-z])\1++[-:.]?){2,})          # yyyy-MM-dd, HH:mm
    | [B-HJ-Z] | \w[\w-]*-[A-Z]                 # the key G, vitamin C, release-A
    | [\d.,]*(?:[KMGT]b|M[WV])                  # bits, mega
    | US|IT|WHO|Polish
    | Sie|Ihnen|Ihr(?:e[mnrs]?)?                # German: you, not they
    """,
    re.VERBOSE,
)
_HINTS = defer_regex(
    r"[`/\\_@#%<\[{=$\"“„«]|-(?<!\w-)[A-Za-z]|\w-[A-Z]\b|\w[.]\w|\d|called|file"
    r"|([A-Z])(?:\1|(?<=[a-z0-9].)|(?<=\b[B-HJ-Z])\b|(?<=[KMGT])b|(?<=M)[WV]|(?<=U)S|(?<=I)[Th]|(?<=W)HO|(?<=P)olish|(?<=S)ie)"
)
"""Characters of words whose case matters. In a text without any, no word's case matters."""


def generate_id() -> str:
    """Return a fresh random id: 12 lower-case hexadecimal characters (48 bits)."""
    return os.urandom(6).hex()


def validate_id(text: str, *, name: str = "id") -> str:
    """Return `text` if it has the form of an id.

    Raises:
        InvalidInput: it has not.
    """
    if not isinstance(text, str) or not _ID.fullmatch(text):
        raise InvalidInput(f"{name} is {text!r}: an id is 12 hexadecimal characters, such as 3f9a0c41d7be")
    return text


def compute_fingerprint(kind: str, content: str) -> str:
    """Return a hash of kind and content without case and spacing.

    The first 24 hexadecimal characters of SHA-256 over the kind, `|`, and the lower-cased content with
    every run of white space made one space (golemcore's rule). Words whose case matters keep it
    (`normalize_case`), since a store has one live record for a fingerprint, and the flags `-p` and `-P` differ.
    """
    return (_hash_again if len(content) <= _LONGEST_REMEMBERED else _hash_content)(kind, content)


def _hash_content(kind: str, content: str) -> str:
    text = f"{kind}|{' '.join(normalize_case(content).split())}"
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:24]


_LONGEST_REMEMBERED = 2_000
_hash_again = lru_cache(maxsize=2_048)(_hash_content)  # a save asks for it several times


def normalize_case(text: str, fold: Callable[[str], str] = str.lower) -> str:
    """Return `text` in lower case, except for words whose case is a part of their meaning.

    They are flags and, unless the whole text is in capitals, code in backticks, quoted words, given names ("is called
    Main"), single letters, paths, addresses, formats, `camelCase` and `snake_case`, words with a dot or with digits
    and capitals within, units such as Mb and MB, and words with another meaning in small letters: US, IT, WHO,
    Polish, the German Sie.

    Args:
        text: Any string; time is linear in its length.
        fold: Converts a piece to lower case.

    >>> normalize_case("Start IT with `-P` in the Harbour office")
    'start IT with `-P` in the harbour office'
    """
    lower = fold(text)
    if lower == text:
        return text
    shouted = text.isupper()
    if lower[1:] == text[1:] and not _QUOTED.search(text):  # most texts have no other capital
        return text if is_case_significant(text.split(maxsplit=1)[0], shouted=shouted) else lower
    if not _HINTS.search(text):
        return lower

    def folded(match: re.Match[str]) -> str:
        word = match.group()
        return word if is_case_significant(word, shouted=shouted) else fold(word)

    pieces = _EXACT.split(text)  # every second piece is exact
    step = 1 if shouted else 2
    pieces[::step] = [_WORD.sub(folded, piece) for piece in pieces[::step]]
    return "".join(pieces)


def is_case_significant(word: str, *, shouted: bool = False) -> bool:
    """Return whether the case of a word is a part of its meaning.

    Args:
        word: The characters between two spaces.
        shouted: Whether the whole text is in capitals.
    """
    core = word.strip(_MARKS)
    if core.startswith("-") and core.lstrip("-")[:1].isalpha():
        return True
    if shouted:
        return False
    if any(mark in core for mark in "/\\_@%=[{") or core.startswith("#") or "<" in word:
        return True
    if core.startswith("$") and core[1:2].isalpha():
        return True
    return bool(_CASED.fullmatch(core)) and not core.endswith("OS")
