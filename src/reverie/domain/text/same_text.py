"""The same text: two records with equal fingerprints say the same, so a store has one live record of them.

Case, Unicode form, punctuation and spacing make no difference. Numbers, negations and every other word do. Other
wordings of a statement are not recognised here.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

from reverie.domain.lazy_regex import defer_regex

_LONGEST_REMEMBERED = 2_000
_SPELLINGS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‐": "-", "‑": "-"})
_CODE = defer_regex(r"[{}=<>|\\^~;`]|\n[ \t]|://|\(\)|\b(?:def|class|import|SELECT|sudo)\s")
"""Characters of code and of commands, whose punctuation and spacing may matter."""
_CODE_SIGN = defer_regex(r"[{}=<>|\\^~;`\n:(]")
_CODE_WORDS = ("def", "class", "import", "SELECT", "sudo")
"""Signs and words, one of which is in all code: quicker to find than `_CODE`."""
_OPENING = "\"'«„(¿¡"
_CLOSING = "\"'»).,;…。、，"
_ONLY_MARKS = frozenset("-*•·\"'().,:;…!¡¿。、«»„/")
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
"""Compatibility forms that are not replaced: 5² is not 52."""
_CODE_SPAN = defer_regex(r"(`[^`\n]{1,200}`)")
_WORD = defer_regex(r"\S+")
_MARKS = "\"'“”‘’«»()[]{}<>*.,;:!?…"
_IDENTIFIER = defer_regex(
    r"""
      [a-z]{2}[a-z0-9]*+[A-Z]\w*                 # maxRetries, but iPhone and macOS as they are typed
    | [\w-]{2,}(?:\.[\w-]{2,})+ | [\w-]{3,}\.\w  # app.js, Foo.Bar, main.c, but U.S. and Ph.D. as they are typed
    | (?=\w*[a-z])(?=\w+[A-Z])(?![\d.,]+[A-Za-z]+\Z)\w*\d\w*  # aB3, dQw4w9WgXcQ, but 16GB as it is typed
    | (?>(?:([A-Za-z])\1++[-:.]?){2,})           # yyyy-MM-dd, HH:mm
    """,
    re.VERBOSE,
)
"""Names of things in code, whose case matters."""


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

    Identifiers keep their case (`normalize_case`). Code and commands keep their punctuation, and questions their
    question mark.
    """
    if not text.isascii():
        text = "".join(map(_fold_character, unicodedata.normalize("NFC", text))).translate(_SPELLINGS)
        text = unicodedata.normalize("NFC", text)
    cased = normalize_case(text)
    words = cased.split()
    may_be_code = _CODE_SIGN.search(text) or any(map(text.__contains__, _CODE_WORDS))
    if not (may_be_code and _CODE.search(text)):
        words = [word for each in words if (word := each if each.isalnum() else _strip_marks(each))]
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


def normalize_case(text: str) -> str:
    """Return `text` in lower case, except for identifiers.

    Identifiers are code in backticks, flags, paths, addresses, formats, `camelCase` and `snake_case`, and words with a
    dot or with digits and capitals within.

    Args:
        text: Any string; time is linear in its length.

    >>> normalize_case("Start IT with `-P` in the Harbour office")
    'start it with `-P` in the harbour office'
    """
    lower = text.lower()
    if lower == text:
        return text
    if "`" not in text:
        cased = [word for word, low in zip(text.split(), lower.split(), strict=True) if word != low]
        if not any(map(is_identifier, cased)):
            return lower

    def fold(match: re.Match[str]) -> str:
        word = match.group()
        low = word.lower()
        return word if low != word and is_identifier(word) else low

    pieces = _CODE_SPAN.split(text)  # every second piece is code
    pieces[::2] = [_WORD.sub(fold, piece) for piece in pieces[::2]]
    return "".join(pieces)


def is_identifier(word: str) -> bool:
    """Return whether a word, the characters between two spaces, is the name of something in code."""
    core = word.strip(_MARKS)
    if core.startswith("-") and core.lstrip("-")[:1].isalpha():
        return True
    if not frozenset("/\\_@%=[{$").isdisjoint(core) or core.startswith("#") or "<" in word:
        return True
    return _IDENTIFIER.fullmatch(core) is not None


_LABEL = defer_regex(r"\A- \[[0-9a-f]{12}\](?: \((?![^)\n]*\d\d:\d\d)[^)\n]{0,300}\))?: (?=\S)")
"""`- [id] (category, day): `. The label of a turn, which has a time of day, is kept: it says who said it."""


def strip_label(text: str) -> str:
    """Return a text without white space around it, and without the label that a prompt puts before a record.

    So what an agent saves as a prompt showed it is the same text. What is no text is returned as it is.
    """
    return _LABEL.sub("", text.strip()) if isinstance(text, str) else text
