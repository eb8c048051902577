"""The same text: two records with equal fingerprints say the same, so a store has one live record of them.

Case, Unicode form, punctuation and spacing make no difference. Numbers, negations and every other word do. Other
wordings of a statement are not recognised here.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from reverie.domain.lazy_regex import defer_regex

_LONGEST_REMEMBERED = 2_000
_SPELLINGS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‐": "-", "‑": "-"})
_CODE = defer_regex(r"[{}=<>|\\^~;`]|\n[ \t]|://|\(\)|\b(?:def|class|import|SELECT|sudo)\s")
"""Characters of code and of commands, whose punctuation and spacing may matter."""
_OPENING = "\"'«„(¿¡"
_CLOSING = "\"'»).,;…。、，"
_ONLY_MARKS = frozenset("-*•·\"'().,:;…!¡¿。、«»„/")
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
"""Compatibility forms that are not replaced: 5² is not 52."""
_QUOTED_NAME = r"""["“„«](?:[^\s"“”„«»]{1,200}|(?=[^"“”„«»\n]{1,200}\s[A-Z])[^"“”„«»\n]{1,200})["“”»]"""
"""Pattern of a word, or of words with a capital among them, in quotation marks; it matches no quoted sentence."""
_EXACT = defer_regex(rf"(`[^`\n]{{1,200}}`|{_QUOTED_NAME}|(?<=\bcalled )\S+)")
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


def compute_fingerprint(text: str) -> str:
    """Return a hash of a text that is equal for the same text (24 hexadecimal characters).

    >>> compute_fingerprint("Ada likes tea.") == compute_fingerprint("ada likes  tea")
    True
    >>> compute_fingerprint("Ada is 35") == compute_fingerprint("Ada is 3.5")
    False
    """
    return (_hash_again if len(text) <= _LONGEST_REMEMBERED else _hash_text)(text)


def _hash_text(text: str) -> str:
    return hashlib.sha256(f"text|{fold_text(text)}".encode()).hexdigest()[:24]


_hash_again = lru_cache(maxsize=2_048)(_hash_text)  # a save asks for it several times


def fold_text(text: str) -> str:
    """Return a text in the form that is equal for the same text.

    Words whose case is a part of their meaning keep it (`normalize_case`). Code and commands keep their punctuation,
    and questions their question mark.
    """
    if not text.isascii():
        text = "".join(map(_fold_character, unicodedata.normalize("NFC", text))).translate(_SPELLINGS)
        text = unicodedata.normalize("NFC", text)
    cased = normalize_case(text)
    words = cased.split()
    if not _CODE.search(text):
        words = [word for each in words if (word := _strip_marks(each))]
    return " ".join(words) or " ".join(cased.split())


def _fold_character(character: str) -> str:
    if character.isascii() or unicodedata.decomposition(character).startswith(_KEPT_FORMS):
        return character
    return unicodedata.normalize("NFKC", character)


def _strip_marks(word: str) -> str:
    """Return a word without the punctuation of the sentence; empty if it is nothing else."""
    if _ONLY_MARKS.issuperset(word):
        return ""
    core = word.lstrip(_OPENING)
    end = core.rstrip(_CLOSING + "!?")
    marks = core[len(end) :]
    if "!" in marks and end[-1:].isdigit():
        end += "!"  # 5! is not 5
    if ")" in marks and end.count("(") > end.count(")"):
        end += ")"
    return f"{end} ?" if "?" in marks else end


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
