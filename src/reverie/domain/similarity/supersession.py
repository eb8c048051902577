"""Detection of statements that end an older statement. In doubt they do not.

A statement ends another if it speaks of the same thing and gives it another value of the same type: "The rent went up
to 1,350 €" ends "Rent is 1,200 €", and "Moved to Leipzig" ends "Lives in Hamburg". Every word by which the new one
says what it speaks of must stand in the old one: "The budget meeting was postponed" does not end "Board meeting is on
3 June". English, German, Spanish and French.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from typing import NamedTuple

import Stemmer

from reverie.domain.similarity import change_words as cues
from reverie.domain.similarity.specifics import NUMBER_WORDS, UNITS, normalize_characters, normalize_number
from reverie.domain.text.calendar_words import MONTHS, SHORT_MONTHS, WEEKDAYS, fold_text
from reverie.domain.text.dates import DateMention, find_dates
from reverie.domain.word_lists import parse_word_set

LONGEST = 300
"""Characters of a statement that can end another, or be ended."""

_MOST_WORDS = 14
_FEW = 2
_ROOT = 6
"""Letters that words of one family share, such as `director` and `direction`."""

_CLAUSE = re.compile(r"[;,:]\s+(?!\d{4}\b)|\s+(?:and|but|und|aber|y|pero|et|mais)\s+|\s[–—-]\s")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|\n+")
_ABBREVIATED = re.compile(r"\b(?:dr|mr|mrs|ms|m|mme|st|prof|no|nr|\d{1,2})\.$", re.IGNORECASE)

_UNIT_WORDS = frozenset(UNITS) | parse_word_set("euro euros mcg mg h k")
_IGNORED = cues.FUNCTION_WORDS | cues.LEADING_WORDS | cues.TIME_WORDS | _UNIT_WORDS
_ADDRESS = (
    r"https?://\S+|[\w.+-]+@[\w.-]+|\#[\w-]{2,}"
    r"|(?<![\w.])(?:[\w-]+\.){1,}[a-z]{2,}(?:/\S*)?(?!\w)|(?<!\w)/[\w./-]+"
)
_CLOCK = r"[0-2]?\d[:.][0-5]\d(?!\d)(?:\s?(?:am|pm|uhr|h))?|\d{1,2}\s?(?:am|pm|uhr)\b|\d{1,2}h(?:\d\d)?\b"
_AMOUNT = r"(?:[$€£¥]\s?)?v?\d+(?:[.,]\d+)*(?:\s?(?P<unit>%|[$€£¥]|[a-zµ]+))?"
_PHONE = r"(?<![\w.])\+?\d[\d/() -]{6,}\d(?![\w.])"
_VALUE = re.compile(
    rf"(?P<address>{_ADDRESS}|{_PHONE})|(?P<time>\b(?:{_CLOCK}))|(?P<number>(?<![\w.]){_AMOUNT})"
)
_HAS_VALUE = re.compile(r"\d|[@#]|[./]\S")
_TOKEN = re.compile(r"[#@]?\w+(?:['.+#@:/-]+\w+)*\+*")
_NUMBERED = re.compile(r"\b([^\W\d_]{3,}) (\d+)(?![\w:./-]|,\d)")
_CONTRACTED = re.compile(r"'(?:s|ve|re|ll|d)$")
_ORDINALS = parse_word_set("first second third fourth fifth sixth seventh eighth ninth tenth")
_ORDINAL = "th"
_ORDINAL_ENDINGS = parse_word_set("st nd rd th")
_ARTICLES = parse_word_set("the der die das den dem le la les l' el los las")
_DETERMINERS = _ARTICLES | parse_word_set(
    "my our his her their your a an mein meine unser unsere mon ma mes notre mi mis nuestro"
)
_BE = parse_word_set("is are was were ist sind war est sont es son")
_FRAMES = (cues.HOME, cues.MOVED, cues.EMPLOYED, cues.LOCATED)
_MOVES = (cues.FROM_TO, cues.TO_FROM)
_TODAY = date(2024, 1, 1)
"""Day by which dates without a year are read: only whether two are the same matters."""

_stemmers = tuple(Stemmer.Stemmer(name, 0) for name in ("english", "german", "spanish", "french"))


@dataclass(frozen=True, slots=True)
class _Value:
    kind: str
    text: str
    unit: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    keys: frozenset[str]
    named: bool
    start: int


class _Statement:
    """A statement with its values, and the words by which it says what it speaks of."""

    def __init__(self, text: str, *, is_new: bool = False) -> None:
        self._is_new = is_new
        self.text = normalize_characters(text)
        self.plain = fold_text(self.text)

    @cached_property
    def days(self) -> list[DateMention]:
        return find_dates(self.text, _TODAY, relative=False)

    @cached_property
    def frames(self) -> tuple[re.Match[str] | None, ...]:
        """Where it says in which place somebody lives, to which one moved, where one works, and where a thing is."""
        return tuple(frame.search(self.plain) for frame in _FRAMES)

    @cached_property
    def ends(self) -> tuple[bool, bool, bool]:
        """Whether it says that something holds again, that it was renewed, and that it is over."""
        again, renewed, ended = (
            pattern.search(self.plain) is not None for pattern in (cues.AGAIN, cues.RENEWED, cues.ENDED)
        )
        return again, renewed, ended

    @cached_property
    def values(self) -> list[_Value]:
        starts = [found.span() for found in cues.START.finditer(self.plain)] if self._is_new else []
        return [
            value
            for value in _find_values(self.plain, self.days)
            if not any(start <= value.start < end for start, end in starts)
        ]

    @cached_property
    def words(self) -> list[_Word]:
        plain = cues.REASON.sub(lambda found: " " * len(found.group()), self.plain) if self.plain else ""
        for pattern in (cues.CHANGED, cues.NOW, cues.REPLACED, cues.ENDED):
            plain = pattern.sub(lambda found: " " * len(found.group()), plain)
        if self._is_new:
            for found in (*cues.PARTICIPLE.finditer(plain), *cues.ACCENTED_PARTICIPLE.finditer(self.text)):
                plain = plain[: found.start()] + " " * len(found.group()) + plain[found.end() :]
        dates = [(day.at, day.stop) for day in self.days if day.unit != "year"]
        for start, end in (*((value.start, value.end) for value in self.values), *dates):
            plain = plain[:start] + " " * (end - start) + plain[end:]
        return [word for found in _TOKEN.finditer(plain) for word in self._read(found)]

    def _read(self, found: re.Match[str]) -> Iterator[_Word]:
        start = found.start()
        text = _CONTRACTED.sub("", found.group())
        if "'" in text and text.partition("'")[0] in ("l", "d", "s", "j", "n", "c", "m", "qu"):
            start, text = start + text.index("'") + 1, text.partition("'")[2]
        is_kin = text == "son" and cues.POSSESSIVE.search(self.plain[:start]) is not None
        if (text in _IGNORED or text in WEEKDAYS) and not is_kin:
            return
        yield _Word(text, _compute_keys(text), self.text[start].isupper(), start)

    @cached_property
    def leading(self) -> frozenset[str]:
        """Words that only lead to a value."""
        words = cues.LEADING_WORDS.intersection(_TOKEN.findall(self.plain))
        return frozenset(key for word in words for key in _compute_keys(word))

    @cached_property
    def is_change(self) -> bool:
        """Whether it says that something is not as it was."""
        return any(pattern.search(self.plain) for pattern in (cues.CHANGED, cues.NOW, cues.REPLACED)) or any(
            cues.TO.search(self.plain[: value.start]) for value in self.values
        )

    @cached_property
    def is_single_valued(self) -> bool:
        """Whether it gives the value of something that has one at a time."""
        return any(_is_single_valued(self, value) for value in self.values)

    @cached_property
    def is_moved(self) -> bool:
        """Whether something was moved or switched, so that "to" says what it is with or at now."""
        return cues.CHANGED.search(self.plain) is not None

    @cached_property
    def replacements(self) -> list[re.Match[str]]:
        """Matches of the forms that name an old value and what took its place."""
        bare = self.plain.strip(" .!")
        return [
            found
            for pattern in (*_MOVES, *cues.OLD_AND_NEW)
            if (found := pattern.fullmatch(bare)) and (pattern is not cues.FROM_TO or self.is_change)
        ]

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset(key for word in self.words for key in word.keys) | {
            value.text for value in self.values
        }


@lru_cache(maxsize=4_096)
def _compute_keys(word: str) -> frozenset[str]:
    """Return the stems of a word in every language."""
    family = {f"{word[:_ROOT]}~"} if len(word) > _ROOT + 1 else set()
    if len(short := re.sub(r"(?:en|e|t)$", "", word)) >= _FEW + 2:
        family.add(short)
    return frozenset({word, *family, *(stemmer.stemWord(word) for stemmer in _stemmers)})


_WORD_OR_COMPOUND = re.compile(r"[\w-]+")
_WORD_VALUES: dict[str, tuple[str, str, str]] = {
    **{word: ("number", word, _ORDINAL) for word in _ORDINALS},
    **{word: ("frequency", word, "") for word in cues.FREQUENCIES},
    **{word: ("number", number, "") for word, number in NUMBER_WORDS.items()},
    **{f"{word}s": ("date", f"weekday {day}", "") for word, day in WEEKDAYS.items()},
    **{word: ("date", f"weekday {day}", "") for word, day in WEEKDAYS.items()},
}
"""Kind, value and unit of each word that is a value by itself. Of a word of several kinds the last one counts."""


def _find_values(plain: str, days: Sequence[DateMention]) -> Iterator[_Value]:
    taken: list[tuple[int, int]] = []
    for day in days:
        if day.unit == "day":
            yield _Value("date", f"{day.start:%m-%d}", "", day.at, day.stop)
        taken.append((day.at, day.stop))
    for found in _WORD_OR_COMPOUND.finditer(plain):
        if (known := _WORD_VALUES.get(found.group())) is not None:
            yield _Value(*known, *found.span())
    for found in _VALUE.finditer(plain) if _HAS_VALUE.search(plain) else ():
        if any(found.start() < stop and start < found.end() for start, stop in taken):
            continue
        kind = found.lastgroup if found.lastgroup != "unit" else "number"
        unit = found.group("unit") or ""
        end = found.end()
        if unit in _ORDINAL_ENDINGS:
            unit = _ORDINAL
        elif unit and unit not in UNITS and unit not in _UNIT_WORDS:
            unit, end = "", found.start("unit")
        digits = re.search(r"\d+(?:[.,]\d+)*", found.group())
        value = normalize_number(digits.group()) if kind == "number" and digits else found.group().strip(" .")
        yield _Value(kind or "number", value, UNITS.get(unit, unit), found.start(), end)


@lru_cache(maxsize=256)
def may_supersede(text: str) -> bool:
    """Return whether a statement can end any other; cheap, asked at every save.

    >>> may_supersede("Ada lives in Oslo now"), may_supersede("Ada likes Oslo")
    (True, False)
    """
    if len(text) > LONGEST:
        return False
    plain = fold_text(normalize_characters(text))
    may_end = _MAY_END.search(plain) or (_DIGIT.search(plain) and _MAY_END_WITH_NUMBER.search(plain))
    return bool(may_end) and any(new.parts for new in _read_new(text))


def _join(*patterns: re.Pattern[str]) -> re.Pattern[str]:
    """Return a pattern that is found where one of the patterns is."""
    return re.compile("|".join(f"(?:{re.sub(r'[?]P<[a-z]+>', '?:', each.pattern)})" for each in patterns))


_DIGIT = re.compile(r"\d")
_MAY_END = _join(
    cues.CHANGED, cues.ENDED, cues.NOW, cues.REPLACED, cues.HOME, cues.MOVED, cues.EMPLOYED
)  # fmt: skip
_BEFORE_DAY = "|".join(
    (*parse_word_set("on by until is for since the am vom zum bis ab seit dem den der el dia le il"), *MONTHS,
     *SHORT_MONTHS)
)  # fmt: skip
_LED_VALUE = re.compile(
    rf"(?:{cues.LINK.pattern.removesuffix('$')}|{cues.TO.pattern.removesuffix('$')})(?:(?:{_BEFORE_DAY})\.?\s+){{0,2}}"
    rf"(?:\S*(?:[\d@#$]|[./]\S|[^\x00-\x7f])|(?:{'|'.join(_WORD_VALUES)})\b)"
)
"""A word of `LINK` or `TO` before what may be a value."""
_MAY_END_WITH_NUMBER = _join(_LED_VALUE, cues.AGAIN, cues.RENEWED_INSIDE, cues.OLD_OR_NEW)


def list_hints(text: str) -> list[str]:
    """Return words by which to look for statements that a statement may end: its own in every language, and others.

    A short statement is indexed in the wrong language, or in none.

    >>> list_hints("Moved to Leipzig")[:2], list_hints("Lucía y él lo han dejado")
    (['live', 'wohn'], ['luci', 'lucia'])
    """
    hints = (
        ["live", "wohn", "wohnt", "viv", "habit", "vit", "base"] if cues.MOVED.search(fold_text(text)) else []
    )
    own = {key for new in _read_new(text) for word in new.whole.words for key in word.keys}
    return hints + sorted(key for key in own if not key.endswith("~"))


def supersedes(new: str, old: str, *, is_same_topic: bool = True) -> bool:
    """Return whether the new statement ends the old one.

    Args:
        new: What is said now.
        old: What was said before.
        is_same_topic: Whether they may tell of one thing. If not, only what says more than that a thing is over
            ends another statement.

    Example:
        >>> supersedes("The staging port is 5433", "The staging port is 5432")
        True
        >>> supersedes("Ana is pregnant now", "Ana is allergic to nuts")
        False
    """
    if not may_supersede(new):
        return False
    before = _read_old(old)
    return (
        before is not None
        and any(
            _ends(part, before, changed=sentence.whole.is_change)
            or (is_same_topic and _ends_without_value(part, before))
            for sentence in _read_new(new)
            for part in sentence.parts
        )
        and len(before.words) <= _MOST_WORDS  # last: reading the words of every statement costs most
    )


class _Sentence(NamedTuple):
    """A sentence, and those of it and its clauses that can end any other statement."""

    whole: _Statement
    parts: Sequence[_Statement]


@lru_cache(maxsize=16)
def _read_new(text: str) -> Sequence[_Sentence]:
    """Return the sentences of a text that may end others."""
    read = []
    for sentence in _split_sentences(text):
        whole = _Statement(sentence, is_new=True)
        if _is_doubtful(whole.plain):
            continue
        clauses = [clause for clause in _CLAUSE.split(whole.text) if clause and clause.strip()]
        parts = [whole, *(_Statement(clause, is_new=True) for clause in clauses if len(clauses) > 1)]
        able = [part for part in parts if _can_end(part, changed=whole.is_change)]
        read.append(_Sentence(whole, able))
    return read


@lru_cache(maxsize=1_024)
def _read_old(text: str) -> _Statement | None:
    """Return the statement of a text that may be ended; None where it says more than one thing, or nothing sure."""
    if len(text) > LONGEST or len(_split_sentences(text)) != 1:
        return None
    statement = _Statement(text)
    return None if cues.UNSURE.search(statement.plain) else statement


def _is_doubtful(plain: str) -> bool:
    """Return whether a statement is no fact, or one that leaves others as they are."""
    if cues.UNSURE.search(plain) or cues.BESIDE.search(cues.SINCE.sub("", plain)):
        return True
    return cues.PAST.search(plain) is not None and cues.NOW.search(plain) is None


def _split_sentences(text: str) -> list[str]:
    parts: list[str] = []
    for part in _SENTENCE.split(text.strip()):
        if parts and _ABBREVIATED.search(parts[-1]):
            parts[-1] += f" {part}"
        else:
            parts.append(part)
    return [part for part in parts if part.strip()]


def _can_end(new: _Statement, *, changed: bool) -> bool:
    """Return whether a statement may end any other; `_ends` is false for every other one where this is."""
    return bool(changed or new.is_single_valued or any(new.frames[:3]) or new.replacements or any(new.ends))


def _ends(new: _Statement, old: _Statement, *, changed: bool) -> bool:
    return not _tell_of_different_numbers(new, old) and (
        _ends_by_frame(new, old)
        or _ends_by_value(new, old, changed=changed)
        or _ends_by_name(new, old, changed=changed)
        or _ends_by_old_value(new, old)
    )


def _tell_of_different_numbers(new: _Statement, old: _Statement) -> bool:
    """Return whether both number a thing, and not alike, and say another value of it: room 12 and room 11."""
    if len(new.values) < 2 or len(old.values) < 2:
        return False
    numbers = dict(_NUMBERED.findall(old.plain))
    return any(
        word not in _IGNORED and numbers.get(word, number) != number
        for word, number in _NUMBERED.findall(new.plain)
    )


# -- another value -------------------------------------------------------------------------------------------


def _ends_by_value(new: _Statement, old: _Statement, *, changed: bool) -> bool:
    """Return whether both give a number, a date, a time or an address of the same thing, and not the same one."""
    if not (changed or new.is_single_valued):
        return False
    known = {(value.kind, value.text) for value in old.values}
    added = [value for value in new.values if (value.kind, value.text) not in known]
    stated = {
        (value.kind, value.text)
        for value in new.values
        if not (changed and cues.BEFORE_OLD_VALUE.search(new.plain[: value.start]))
    }
    outdated = [value for value in old.values if (value.kind, value.text) not in stated]
    for value in outdated:
        same = [each for each in outdated if each.kind == value.kind]
        others = [each for each in added if _is_same_type(each, value)]
        if len(same) != 1 or len(others) != 1:
            continue
        if _have_number_before(outdated, value) and _have_number_before(added, others[0]):
            continue  # the phone of room 12, and that of room 11
        topic = _drop_actor(new)
        known_words = [word for word in topic if not word.keys.isdisjoint(old.keys)]
        foreign = len(topic) - len(known_words)
        if not (topic or new.leading & old.leading) or foreign > (len(known_words) >= _FEW):
            continue
        extra = [word for word in old.words if word.keys.isdisjoint(new.keys)]
        if foreign and (
            extra or any(new.plain[: word.start].endswith("'s ") for word in topic if word not in known_words)
        ):
            continue  # each names something that the other does not, or somebody's: two things
        if changed and len(extra) <= (_FEW if topic else 0):
            return True
        if not extra and not foreign and _is_single_valued(new, others[0]) and _is_single_valued(old, value):
            return True
    return False


def _have_number_before(values: Sequence[_Value], end: _Value) -> bool:
    return any(value.kind == "number" and value.start < end.start for value in values)


def _is_same_type(one: _Value, other: _Value) -> bool:
    if {one.kind, other.kind} == {"time", "number"}:
        return not one.unit and not other.unit and ("." not in one.text + other.text)
    if {one.kind, other.kind} == {"date", "number"}:
        return _ORDINAL in (one.unit, other.unit)
    return one.kind == other.kind and (not one.unit or not other.unit or one.unit == other.unit)


def _is_single_valued(statement: _Statement, value: _Value) -> bool:
    """Return whether a statement gives the value of something that has one at a time, without a word of change."""
    if value.kind == "time" or value.text.startswith("weekday"):
        return False
    return cues.LINK.search(statement.plain[: value.start]) is not None


def _drop_actor(new: _Statement) -> list[_Word]:
    """Return the words that say what changed, without who changed it ("SAS changed the flight")."""
    found = cues.CHANGED.search(new.plain)
    if (
        found is None
        or cues.PASSIVE.search(new.plain[: found.start()])
        or re.match(r"\s+(?:his|her|their|ihre?n?|seine?n?|sus?|sa|son|ses)\b", new.plain[found.end() :])
    ):
        return new.words
    after = [word for word in new.words if word.start >= found.end()]
    return after if after and len(new.words) - len(after) <= 1 else new.words


def _are_in(words: Sequence[_Word], keys: frozenset[str]) -> bool:
    return all(not word.keys.isdisjoint(keys) for word in words)


# -- another name --------------------------------------------------------------------------------------------


def _ends_by_frame(new: _Statement, old: _Statement) -> bool:
    """Return whether both say where somebody lives or works, and not the same."""
    lives, moved, works, _ = new.frames
    if not (lives or moved or works):
        return False
    lived, _, worked, located = old.frames
    for before, now in ((lived, moved or lives), (worked, works)):
        if before is None or now is None:
            continue
        place, earlier = _read_name(new, now), _read_name(old, before)
        if (
            place
            and earlier
            and place.isdisjoint(earlier)
            and _have_same_subject(new, now.start(), old, before.start())
        ):
            return True
    if located is None or moved is None:
        return False
    subject = [word for word in new.words if word.start < moved.start()]
    return bool(subject) and _are_in(
        subject, frozenset(k for w in old.words if w.start < located.start() for k in w.keys)
    )


def _read_name(statement: _Statement, found: re.Match[str]) -> frozenset[str]:
    """Return the keys of the name at the end of a frame; nothing for what is no name."""
    start = next(
        found.start(group) for group in range(1, found.re.groups + 1) if found.group(group) is not None
    )
    keys: set[str] = set()
    for word in statement.words:
        if word.start >= start:
            if keys and not word.named:
                break
            if word.named:
                keys |= word.keys
    return frozenset(keys)


def _have_same_subject(new: _Statement, new_end: int, old: _Statement, old_end: int) -> bool:
    one = [word for word in new.words if word.start < new_end]
    other = [word for word in old.words if word.start < old_end]
    if len(one) != len(other):
        return False
    if one:
        return all(not a.keys.isdisjoint(b.keys) for a, b in zip(one, other, strict=True))
    return _says_relative(new, new_end) == _says_relative(old, old_end)


def _says_relative(statement: _Statement, end: int) -> bool:
    return re.search(r"\b(?:her|his|their|you)\b", statement.plain[:end]) is not None


def _ends_by_name(new: _Statement, old: _Statement, *, changed: bool) -> bool:
    """Return whether the two differ in one name alone, where only one can stand."""
    if not changed or new.values or old.values or cues.REPLACED.search(new.plain):
        return False
    shared = [word for word in new.words if not word.keys.isdisjoint(old.keys)]
    added = [word for word in new.words if word.keys.isdisjoint(old.keys)]
    dropped = [word for word in old.words if word.keys.isdisjoint(new.keys)]
    if not shared or not added or not dropped:
        return False
    verbs = {word.text for word in shared if word.text in cues.CHOICE}
    topic = [word for word in shared if word.text not in cues.CHOICE]
    added = [word for word in added if word.text not in cues.LEADING]
    things = [word for word in topic if not word.named]
    names = all(word.named for word in (*added, *dropped))
    if not added or not topic or not (_are_together(added, new.words) and _are_together(dropped, old.words)):
        return False
    if not names and (
        max(len(added), len(dropped)) > _FEW + 1
        or len(topic) + bool(verbs) + (cues.CHANGED.search(new.plain) is not None) < _FEW
    ):
        return False
    if (verbs or not names) and not things:
        return False
    first = next(word for word in old.words if not word.keys.isdisjoint(shared[0].keys))
    if names and _get_next(added[-1], new) & _get_next(dropped[-1], old):
        return True
    if added[0].start > shared[0].start and dropped[0].start > first.start:
        return _have_same_preposition(new, added[0], old, dropped[0])
    return names and (
        cues.HAS_ROLE.search(new.plain) is not None
        or (bool(things) and cues.IS.search(new.plain[: topic[0].start]) is not None)
    )


def _have_same_preposition(new: _Statement, added: _Word, old: _Statement, dropped: _Word) -> bool:
    """Return whether no different prepositions stand before two names: "ship with DHL", "ship to Norway"."""
    found = [
        cues.PREPOSITION.search(each.plain[: word.start]) for each, word in ((new, added), (old, dropped))
    ]
    prepositions = {match["at"] for match in found if match is not None}
    return len(prepositions) < _FEW or new.is_moved


def _get_next(word: _Word, statement: _Statement) -> frozenset[str]:
    """Return the keys of the word that follows directly: "the Pro plan"."""
    end = word.start + len(word.text)
    return next((each.keys for each in statement.words if each.start == end + 1), frozenset())


def _are_together(words: Sequence[_Word], among: Sequence[_Word]) -> bool:
    """Return whether the words stand beside each other."""
    starts = [word.start for word in among]
    first = starts.index(words[0].start)
    return [word.start for word in words] == starts[first : first + len(words)]


# -- the old value is named ----------------------------------------------------------------------------------


def _ends_by_old_value(new: _Statement, old: _Statement) -> bool:
    """Return whether the new statement names the old value, and what took its place."""
    for found in new.replacements:
        offset = len(new.plain) - len(new.plain.lstrip(" .!"))
        dropped, added, topic = (_list_within(new, found, name, offset) for name in ("old", "new", "topic"))
        last = old.words[-1].keys if old.words else frozenset()
        if not dropped or not added or not _are_in(dropped, old.keys) or _are_in(added, last):
            continue
        topic = [word for word in topic if word.text not in cues.CHOICE]
        remaining = [
            word
            for word in old.words
            if word.text not in cues.CHOICE
            and not any(not word.keys.isdisjoint(each.keys) for each in (*dropped, *topic))
            and not cues.HOME.match(old.plain, word.start)
        ]
        is_all = len(remaining) <= _FEW and (
            found.re not in _MOVES
            or not remaining
            or _is_verb_of(remaining, dropped[0], old)
            or (
                cues.SWITCHED.search(new.plain) is not None
                and (any(not word.named for word in topic) or _is_value_of(dropped, old))
            )
        )
        if is_all and _are_in(topic, old.keys):
            return True
    return False


def _is_verb_of(words: Sequence[_Word], value: _Word, old: _Statement) -> bool:
    """Return whether the words are one that the value follows directly: "nutzen Jira", not "a friend in Berlin"."""
    start = next((word.start for word in old.words if not word.keys.isdisjoint(value.keys)), 0)
    return len(words) == 1 and old.plain[:start].rstrip() == old.plain[: words[0].start + len(words[0].text)]


def _is_value_of(words: Sequence[_Word], old: _Statement) -> bool:
    """Return whether a statement gives the words as its value, and nothing after them: "Bank is Barclays"."""
    last = old.words[-len(words) :]
    same = len(last) == len(words) and all(
        not a.keys.isdisjoint(b.keys) for a, b in zip(last, words, strict=True)
    )
    return same and cues.LINK.search(old.plain[: last[0].start]) is not None


def _list_within(statement: _Statement, found: re.Match[str], group: str, offset: int) -> list[_Word]:
    if group not in found.groupdict():
        return []
    start, end = found.start(group) + offset, found.end(group) + offset
    words = [word for word in statement.words if start <= word.start < end]
    named = statement.plain[start:end].strip(" .!,")
    if not words and group != "topic" and named and " " not in named:
        return [_Word(named, frozenset({named}), True, start)]
    return words


# -- an end without a new value ------------------------------------------------------------------------------


def _ends_without_value(new: _Statement, old: _Statement) -> bool:
    """Return whether the new statement says that what the old one says is over."""
    again, renewed, ended = new.ends
    if again and cues.NEGATED.search(old.plain) and not cues.NEGATED.search(new.plain):
        return bool(new.words) and _are_in(new.words, old.keys) and _are_in(old.words, new.keys)
    if not ended and not renewed:
        return False
    if not old.keys.issuperset(value.text for value in new.values) or not _are_in(new.words, old.keys):
        return False
    if not new.words and not (renewed and new.leading & old.leading):
        return False
    extra = [word for word in old.words if word.keys.isdisjoint(new.keys)]
    return len(extra) <= _FEW + (not renewed) and (renewed or _is_about_what_ended(new, old))


def _is_about_what_ended(new: _Statement, old: _Statement) -> bool:
    """Return whether what is over is what the old statement says, rather than something that is named in it.

    "Quit the gym" ends "Goes to the gym on Mondays", and neither "The gym bag is in the hall" nor "The gym opens
    at six". A day on which something happens is not over with it.
    """
    dates = (value.text for value in old.values if value.kind == "date" and value.text[0].isdigit())
    held = [word for word in old.words if not word.keys.isdisjoint(new.keys)]
    if not held or not new.keys.issuperset(dates):
        return False
    first, last = held[0], held[-1]
    end = last.start + len(last.text)
    if not last.named and any(old.plain[end : word.start] == " " for word in old.words if not word.named):
        return False  # it is a part of the name of another thing, such as a gym bag
    before = _TOKEN.findall(old.plain[: first.start])
    if before and len(before) <= _FEW and (before[0] in _DETERMINERS or before[-1].endswith("'s")):
        return new.plain.startswith((before[0], new.words[0].text))  # it is the subject of both
    return not before or before[0] not in _ARTICLES or before[-1] in _IGNORED - _BE
