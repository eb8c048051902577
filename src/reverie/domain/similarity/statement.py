"""Statements with their values and their topic words.

`supersession` compares them. English, German, Spanish and French.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache

import Stemmer

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.similarity import change_words as cues
from reverie.domain.similarity.specifics import NUMBER_WORDS, UNITS, normalize_characters, normalize_number
from reverie.domain.text.calendar_words import WEEKDAYS, fold_text
from reverie.domain.text.dates import DateMention, find_dates
from reverie.domain.word_lists import parse_word_set

_ROOT = 6
"""Common letters of related words, such as `director` and `direction`."""

_UNIT_WORDS = frozenset(UNITS) | parse_word_set("euro euros mcg mg h k")
IGNORED = cues.FUNCTION_WORDS | cues.LEADING_WORDS | cues.TIME_WORDS | _UNIT_WORDS
_ADDRESS = (
    r"https?://\S+|[\w.+-]+@[\w.-]+|\#[\w-]{2,}"
    r"|(?<![\w.])(?:[\w-]+\.){1,}[a-z]{2,}(?:/\S*)?(?!\w)|(?<!\w)/[\w./-]+"
)
_MEASURED = "|".join(re.escape(unit) for unit in sorted({*_UNIT_WORDS, *"$€£¥%"} - {"am", "pm", "uhr", "h"}))
_CLOCK = (
    rf"[0-2]?\d(?::|\.(?!\d\d\s?(?:{_MEASURED})(?!\w)))[0-5]\d(?!\d)(?:\s?(?:am|pm|uhr|h))?"
    r"|\d{1,2}\s?(?:am|pm|uhr)\b|\d{1,2}h(?:\d\d)?\b"
)
_AMOUNT = r"(?:[$€£¥]\s?)?v?\d+(?:[.,]\d+)*(?:\s?(?P<unit>%|[$€£¥]|[a-zµ]+))?"
_PHONE = r"(?<![\w.])\+?\d[\d/() -]{6,}\d(?![\w.])"
_VALUE = defer_regex(
    r"(?P<secret>\[redacted(?:: [\w -]+)?\])|"
    rf"(?P<address>{_ADDRESS}|{_PHONE})|(?P<time>\b(?:{_CLOCK}))|(?P<number>(?<![\w.])(?<![a-z]-){_AMOUNT})"
)
_HAS_VALUE = defer_regex(r"\d|[@#\[]|[./]\S")
TOKEN = defer_regex(r"[#@]?\w+(?:['.+#@:/-]+\w+)*\+*")
_LETTER = defer_regex(r"[A-HJ-Z]")
"""A capital that is a name by itself: size L, team A."""
_CONTRACTED = defer_regex(r"'(?:s|ve|re|ll|d)$")
_ORDINALS = parse_word_set("first second third fourth fifth sixth seventh eighth ninth tenth")
ORDINAL = "th"
_ORDINAL_ENDINGS = parse_word_set("st nd rd th")
_FRAMES = (cues.HOME, cues.MOVED, cues.EMPLOYED, cues.LOCATED)
MOVES = (cues.FROM_TO, cues.TO_FROM)
_TODAY = date(2024, 1, 1)
"""Day by which dates without a year are read: only whether two are the same matters."""

_stemmers = tuple(Stemmer.Stemmer(name, 0) for name in ("english", "german", "spanish", "french"))
_SHORTEST_STEM = 3


@dataclass(frozen=True, slots=True)
class StatedValue:
    """A number, date, time or address in a statement, with its place."""

    kind: str
    text: str
    unit: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StatedWord:
    """A topic word of a statement, with its stems."""

    text: str
    keys: frozenset[str]
    named: bool
    start: int


class Statement:
    """A statement with its values and its topic words."""

    def __init__(self, text: str, *, is_new: bool = False) -> None:
        self._is_new = is_new
        self.text = normalize_characters(text)
        self.plain = fold_text(self.text)

    @cached_property
    def days(self) -> list[DateMention]:
        """Its dates and days."""
        return find_dates(self.text, _TODAY, relative=False)

    @cached_property
    def frames(self) -> tuple[re.Match[str] | None, ...]:
        """Matches of `HOME`, `MOVED`, `EMPLOYED` and `LOCATED`."""
        return tuple(frame.search(self.plain) for frame in _FRAMES)

    @cached_property
    def ends(self) -> tuple[bool, bool, bool]:
        """Whether it says that something holds again, that it was renewed, and that it is over."""
        again, renewed, ended = (
            pattern.search(self.plain) is not None for pattern in (cues.AGAIN, cues.RENEWED, cues.ENDED)
        )
        return again, renewed, ended or self.is_repair

    @cached_property
    def is_repair(self) -> bool:
        """Whether it says that a fault is over."""
        return cues.REPAIRED.search(self.plain) is not None

    @cached_property
    def values(self) -> list[StatedValue]:
        """Its values; for a new statement without the day from which it holds."""
        starts = [
            found.span()
            for pattern in (cues.START, cues.REASON)
            for found in pattern.finditer(self.plain)
            if self._is_new and found.start()
        ]
        return [
            value
            for value in _find_values(self.plain, self.days)
            if not any(start <= value.start < end for start, end in starts)
        ]

    @cached_property
    def words(self) -> list[StatedWord]:
        """Its topic words: no values, and no words of grammar or change."""
        plain = cues.REASON.sub(lambda found: " " * len(found.group()), self.plain) if self.plain else ""
        for pattern in (cues.CHANGED, cues.NOW, cues.REPLACED, cues.ENDED, cues.REPAIRED):
            plain = pattern.sub(lambda found: " " * len(found.group()), plain)
        if self._is_new:
            for found in (*cues.PARTICIPLE.finditer(plain), *cues.ACCENTED_PARTICIPLE.finditer(self.text)):
                plain = plain[: found.start()] + " " * len(found.group()) + plain[found.end() :]
        dates = [(day.at, day.stop) for day in self.days if day.unit != "year"]
        for start, end in (*((value.start, value.end) for value in self.values), *dates):
            plain = plain[:start] + " " * (end - start) + plain[end:]
        return [word for found in TOKEN.finditer(plain) for word in self._read(found)]

    def _read(self, found: re.Match[str]) -> Iterator[StatedWord]:
        start = found.start()
        text = _CONTRACTED.sub("", found.group())
        if "'" in text and text.partition("'")[0] in ("l", "d", "s", "j", "n", "c", "m", "qu"):
            start, text = start + text.index("'") + 1, text.partition("'")[2]
        is_kin = text == "son" and cues.POSSESSIVE.search(self.plain[:start]) is not None
        is_letter = start > 0 and _LETTER.fullmatch(self.text, start, found.end()) is not None
        if (text in IGNORED or text in WEEKDAYS) and not (is_kin or is_letter):
            return
        named = self.text[start].isupper()
        keys = _compute_name_keys(text) if named else compute_keys(text)
        if named and start == 0 and not self._is_new:
            keys |= compute_keys(text)  # it may be a verb too, as in "Fuma"
        yield StatedWord(text, keys, named, start)

    @property
    def topic(self) -> list[StatedWord]:
        """Its topic words without a verb such as "live"."""
        home = self.frames[0]
        return [word for word in self.words if home is None or word.start != home.start()]

    @cached_property
    def leading(self) -> frozenset[str]:
        """Stems of its words that only introduce a value."""
        words = cues.LEADING_WORDS.intersection(TOKEN.findall(self.plain))
        return frozenset(key for word in words for key in compute_keys(word))

    @cached_property
    def is_change(self) -> bool:
        """Whether it reports a change."""
        return any(pattern.search(self.plain) for pattern in (cues.CHANGED, cues.NOW, cues.REPLACED)) or any(
            cues.TO.search(self.plain[: value.start]) for value in self.values
        )

    @cached_property
    def is_single_valued(self) -> bool:
        """Whether it gives a value of something that has one value at a time."""
        return any(is_single_valued(self, value) for value in self.values)

    @cached_property
    def is_moved(self) -> bool:
        """Whether it reports a move or switch, so that the new place or provider follows "to"."""
        return cues.CHANGED.search(self.plain) is not None

    @cached_property
    def replacements(self) -> list[re.Match[str]]:
        """Matches of the patterns that name an old value and its replacement."""
        bare = self.plain.strip(" .!")
        return [
            found
            for pattern in (*MOVES, *cues.OLD_AND_NEW)
            if (found := pattern.fullmatch(bare)) and (pattern is not cues.FROM_TO or self.is_change)
        ]

    @cached_property
    def keys(self) -> frozenset[str]:
        """Stems of its topic words, and its values."""
        return frozenset(key for word in self.words for key in word.keys) | {
            value.text for value in self.values
        }


@lru_cache(maxsize=4_096)
def compute_keys(word: str) -> frozenset[str]:
    """Return the stems of a word in every language."""
    family = {f"{word[:_ROOT]}~"} if len(word) > _ROOT + 1 else set()
    return frozenset({word, _stem_verb(word), *family, *(stemmer.stemWord(word) for stemmer in _stemmers)})


def _stem_verb(word: str) -> str:
    """Return a German word without an ending of verbs."""
    stem = re.sub(r"(?:en|e|t)$", "", word)
    return stem if len(stem) > _SHORTEST_STEM else word


@lru_cache(maxsize=4_096)
def _compute_name_keys(word: str) -> frozenset[str]:
    """Return the forms of a word that may be a name or a German noun or compound: Maria is not Mario."""
    beginnings = (word[:end] for end in range(_ROOT, len(word) - _SHORTEST_STEM))
    return frozenset(
        {word, word.removesuffix("s"), _stem_verb(word), _stemmers[1].stemWord(word), *beginnings}
    )


_WORD_OR_COMPOUND = defer_regex(r"[\w-]+")
WORD_VALUES: dict[str, tuple[str, str, str]] = {
    **{word: ("number", word, ORDINAL) for word in _ORDINALS},
    **{word: ("frequency", word, "") for word in cues.FREQUENCIES},
    **{word: ("number", number, "") for word, number in NUMBER_WORDS.items()},
    **{f"{word}s": ("date", f"weekday {day}", "") for word, day in WEEKDAYS.items()},
    **{word: ("date", f"weekday {day}", "") for word, day in WEEKDAYS.items()},
}
"""Kind, value and unit of each word that is a value. If a word has several kinds, the last one counts."""


def _find_values(plain: str, days: Sequence[DateMention]) -> Iterator[StatedValue]:
    taken: list[tuple[int, int]] = []
    for day in days:
        if day.unit == "day":
            yield StatedValue("date", f"{day.start:%m-%d}", "", day.at, day.stop)
        taken.append((day.at, day.stop))
    for found in cues.PERIODIC.finditer(plain):
        yield StatedValue("frequency", found.group(), "", *found.span())
        taken.append(found.span())
    for found in _WORD_OR_COMPOUND.finditer(plain):
        if any(start <= found.start() < stop for start, stop in taken[len(days) :]):
            continue
        if (known := WORD_VALUES.get(found.group())) is not None:
            yield StatedValue(*known, *found.span())
    for found in _VALUE.finditer(plain) if _HAS_VALUE.search(plain) else ():
        if any(start <= found.start() < stop for start, stop in taken):
            continue
        kind = found.lastgroup if found.lastgroup != "unit" else "number"
        unit = found.group("unit") or ""
        end = found.end()
        if unit in _ORDINAL_ENDINGS:
            unit = ORDINAL
        elif unit and unit not in UNITS and unit not in _UNIT_WORDS:
            unit, end = "", found.start("unit")
            if plain[end - 1].isdigit():
                continue  # a name such as 3b
        digits = re.search(r"\d+(?:[.,]\d+)*", found.group())
        value = normalize_number(digits.group()) if kind == "number" and digits else found.group().strip(" .")
        yield StatedValue(kind or "number", value, UNITS.get(unit, unit), found.start(), end)


def is_single_valued(statement: Statement, value: StatedValue) -> bool:
    """Return whether a value is that of something with one value at a time, without a word of change."""
    if value.kind == "time" or value.text.startswith("weekday"):
        return False
    return cues.LINK.search(statement.plain[: value.start]) is not None


def are_in(words: Sequence[StatedWord], keys: frozenset[str]) -> bool:
    """Return whether each word has one of the stems."""
    return all(not word.keys.isdisjoint(keys) for word in words)
