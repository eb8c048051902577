"""Detection of statements that replace the value of an older statement. In doubt they do not.

"The staging port is 5433 now" replaces "The staging port is 5432": the subject is the same, the values differ, and
the new statement marks a change. Without such a mark ("now", "no longer", "instead of") both values may hold.
"""

from __future__ import annotations

import re

from reverie.domain.similarity.specifics import normalize_characters
from reverie.domain.word_lists import parse_word_set

_CUE = re.compile(
    r"\b(?:now|nowadays|these days|from now on|as of (?:now|today)|instead(?: of)?|no longer|not any ?more|"
    r"any ?more|switched (?:\w+ )?to|changed (?:\w+ )?to|moved (?:\w+ )?to|has become|became)\b",
    re.IGNORECASE,
)
_DROPPED = re.compile(
    r"\b(?:now(?:adays)?|these days|from now on|as of (?:now|today)|currently|today)\b[,;]?|[,;.!]+(?=\s|$)",
    re.IGNORECASE,
)
_REPLACED = re.compile(
    r"[,;]?\s*\b(?:instead of|rather than|and no longer|no longer|not any ?more|and not)\s+(?P<old>.+)$",
    re.IGNORECASE,
)
_SINGLE = (
    "lives in", "lives at", "works at", "works for", "works as", "is based in", "is called", "is named",
    "runs on", "listens on", "is hosted on", "is hosted at", "reports to", "belongs to", "is scheduled for",
    "is due on", "launches on", "starts at", "starts on", "ends at", "ends on", "costs", "is located in",
    "is at",
)  # fmt: skip
"""Verbs with one value at a time: one place, one time, one price."""

_COPULAS = parse_word_set("is are equals")
_POINTING = parse_word_set("it this that there here he she they what who which everything nothing all one")
_CHOICES = parse_word_set("prefers prefer likes like uses use wants want drinks drink")
_LONGEST_VALUE = 6


def states_change(text: str) -> bool:
    """Return whether a statement says that something is otherwise than before; cheap, asked at every save.

    >>> states_change("Ada lives in Oslo now"), states_change("Ada lives in Oslo")
    (True, False)
    """
    return len(text) <= 300 and _CUE.search(text) is not None


def supersedes(new: str, old: str) -> bool:
    """Return whether the new statement takes the place of the old one.

    Args:
        new: What is said now, with a word that says it is a change (`states_change`).
        old: What was said before.

    Example:
        >>> supersedes("The staging port is 5433 now", "The staging port is 5432")
        True
        >>> supersedes("Ada prefers tea now", "Ada prefers dark mode")
        False
    """
    if not states_change(new) or len(old) > 300:
        return False
    named = _REPLACED.search(normalize_characters(new))
    now, before = (
        _split_words(_REPLACED.sub("", normalize_characters(new))),
        _split_words(normalize_characters(old)),
    )
    if not now or not before or now == before:
        return False
    slot, value = _split_statement(now)
    if not slot or before[: len(slot)] != slot:
        return False
    earlier = before[len(slot) :]
    if not 0 < len(value) <= _LONGEST_VALUE or not 0 < len(earlier) <= _LONGEST_VALUE or value == earlier:
        return False
    if named is not None and _split_words(named.group("old")) == earlier:
        return True
    if slot[-1] not in _CHOICES:
        return True
    # Of choices there may be many: only one of the same sort takes the place ("dark mode", "Python 3.12").
    return value[-1] == earlier[-1] or (len(value) > 1 and len(earlier) > 1 and value[0] == earlier[0])


def _split_words(text: str) -> list[str]:
    return _DROPPED.sub(" ", text).lower().split()


def _split_statement(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words up to the verb, and the value; nothing for an unknown form."""
    for phrase in _SINGLE:
        verb = phrase.split()
        for at in range(len(words) - len(verb)):
            if words[at : at + len(verb)] == verb:
                return words[: at + len(verb)], words[at + len(verb) :]
    for at, word in enumerate(words):
        if word in _CHOICES:
            return words[: at + 1], words[at + 1 :]
        if word in _COPULAS and at and words[at - 1] not in _POINTING:
            return words[: at + 1], words[at + 1 :]
    return [], []
