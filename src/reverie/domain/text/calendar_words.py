"""Names of months, weekdays, days, periods and small numbers in eight languages.

The words are in `calendar.txt`: English, German, Spanish, French, Italian, Portuguese, Chinese and Japanese. Latin
words are in small letters and without accents, as `fold_text` writes them.
"""

from __future__ import annotations

import pkgutil
import unicodedata
from functools import lru_cache

from reverie.domain.lazy_regex import defer_regex


def _load_words() -> dict[str, dict[str, str]]:
    """Return the words of each section of `calendar.txt` with what they mean; each line has a meaning and its words."""
    text = (pkgutil.get_data(__package__, "calendar.txt") or b"").decode()
    sections: dict[str, dict[str, str]] = {}
    for block in text.strip().split("\n\n"):
        title, *lines = block.replace("\n    ", " ").split("\n")
        meanings = (line.split(": ", 1) for line in lines)
        sections[title.strip("[]")] = {
            word: meaning for meaning, words in meanings for word in words.split(", ")
        }
    return sections


def _to_numbers(section: str) -> dict[str, int]:
    return {word: int(number) for word, number in _WORDS[section].items()}


_WORDS = _load_words()
MONTHS, WEEKDAYS, NUMBERS = _to_numbers("months"), _to_numbers("weekdays"), _to_numbers("numbers")
SHORT_MONTHS = _to_numbers("short_months")
"""Abbreviations that are not common words; they are read only next to the number of a day."""

DAYS = _to_numbers("days")
"""Words for days, with the number of days from today."""

UNIT_OF = _WORDS["units"]
STEPS = _to_numbers("steps")
"""Words for the last, the current or the next one, next to a period or a weekday."""

HAN_DAYS, HAN_STEPS, HAN_YEARS = map(_to_numbers, ("han_days", "han_steps", "han_years"))
HAN_UNITS = _WORDS["han_units"]
"""The same in Chinese and Japanese characters."""

_ACCENTS = str.maketrans(
    {
        char: plain
        for char in map(chr, range(0xC0, 0x180))
        if (plain := unicodedata.normalize("NFD", char)[0]) != char
    }
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
    | {chr(0xFF01 + code - 0x21): chr(code) for code in (0x2D, 0x2E, 0x2F)}
)


_LATIN_WORD = defer_regex(r"[a-z]+")


@lru_cache(maxsize=8)  # each kind of date is looked for by its words
def list_latin_words(folded: str) -> frozenset[str]:
    """Return the words in Latin letters of a text from `fold_text`."""
    return frozenset(_LATIN_WORD.findall(folded))


def fold_text(text: str) -> str:
    """Return the text in small letters without accents. Its length, and the place of each character, stay."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower if lower.isascii() else lower.translate(_ACCENTS)
