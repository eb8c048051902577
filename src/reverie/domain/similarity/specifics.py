"""Specifics of a text: numbers, names, dates, quotations, negations and words of change."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from datetime import date
from functools import lru_cache

import Stemmer

from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.dates import WEEKDAYS, DateMention, find_dates, load_words

_LISTS = load_words(__package__, "specifics.txt")
_CHANGE = defer_regex(
    rf"\b(?:{'|'.join(_LISTS['change'])})\b|{'|'.join(_LISTS['unspaced_change'])}", re.IGNORECASE
)


def tells_of_change(text: str) -> bool:
    """Return whether a text has a word of change.

    >>> tells_of_change("Ada lives in Oslo now"), tells_of_change("Ada likes Oslo")
    (True, False)
    """
    return _CHANGE.search(text) is not None


# -- specifics ------------------------------------------------------------------------------------

NEGATIONS = frozenset(_LISTS["negations"])
"""Words of denial in English and related languages, lower-cased; `n't` is recognized separately."""

_UNITS, _NUMBERS = _LISTS["units"], _LISTS["numbers"]
_TIMES = frozenset(_LISTS["relative_days"]) | WEEKDAYS.keys()
_LIMITS = frozenset(_LISTS["limits"])
_DENYING_PIECES = ("不", "没", "沒", "無", "无", "别", "ない", "ません", "않", "안 ", "없", "못")
_ORDINARY = frozenset(_LISTS["ordinary"])
"""Words that are no names at the beginning of a sentence."""
_ORDINARY_ENDINGS = ("ing", "ed", "ly", "tion", "ness", "ment", "n't")
_STATEMENTS = frozenset(_LISTS["statements"])
"""Ordinary words with a meaning of their own, so that their denial matters."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_ALONE = rf"(?<![^\W{_UNSPACED}])"
_APART = rf"(?![^\W{_UNSPACED}])"
"""Bounds of a number: not within a word, except beside letters of scripts without spaces."""

_PIECE = defer_regex(
    rf"""
      (?P<address>[A-Za-z][A-Za-z0-9+.-]{{0,20}}+://[^\s<>"'`]++
                | (?<![\w.+-])[\w.+-]++@[\w-]++(?>(?:\.[\w-]++)+)
                | (?:~|\.{{1,2}})?/[\w.@%+~-]++(?>(?:/[\w.@%+~-]*+)*)
                | [A-Za-z]:\\[^\s"'<>|]++
                | (?<![\w.@~-])[\w.@~-]++(?>(?:/[\w.@%+~-]++)+))
    | (?P<code>`[^`\n]{{1,200}}` | {_ALONE}(?<!-)--?[A-Za-z](?>(?:-|[^\W{_UNSPACED}])*))
    | (?P<time>{_ALONE}(?<!-)-?-?(?:\d{{4}}-)?\d\d-\d\d(?!-){_APART}
             | {_ALONE}(?<!-)\d{{4}}-\d\d(?!-){_APART}
             | {_ALONE}(?<!:)\d{{1,2}}:\d\d(?::\d\d)?(?!:){_APART})
    | (?P<number>{_ALONE}(?<!\.)[-+]?\d++(?>(?:[.,]\d++)*))(?P<glued>[A-Za-zµ°]{{0,7}}+{_APART})
    | (?P<unspaced>[{_UNSPACED}]++)
    | (?P<word>[^\W_{_UNSPACED}]++(?>(?:['_.+:-]{{1,2}}[^\W{_UNSPACED}]++)*)(?>(?:\+\+|\#)?))
    | (?P<symbol>[$€£¥%])
    | (?P<end>[.!?;:\n。！？；]++)
    """,
    re.VERBOSE,
)
"""The pieces of a text. Possessive quantifiers and look-behinds keep the time linear."""
_CODE_WORD = defer_regex(r"\w*_\w*|\w+\.[\w.]+|\w+::\w.*|[a-z]+[A-Z]\w*|(?=\w*\d)(?=\w*[a-z])[0-9a-f]{7,40}")
_CLOCK = defer_regex(r"(?<![\w.:])(\d{1,2})(?::(\d\d))?[ \t]?([ap])(?:m\b|\.m\.)", re.IGNORECASE)
_THOUSANDS = defer_regex(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_RAISED = defer_regex(r"(?<=\d)[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_SOME_DAY = date(2001, 1, 1)  # dates without a year are compared without it

_stem = Stemmer.Stemmer("english", 0).stemWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Specifics:
    """Specifics of a text by class, each value in its normalized spelling.

    Attributes:
        names: Capitalised words, lower-cased, and runs of them (`new york`).
        numbers: Numbers: `1,000` is `1000`, `three` is `3`; decimals and versions as written.
        times: Dates (`2025-05-03`, `05-03`, `2025-05`), times of day (`17:00`), weekdays, `yesterday`.
        addresses: Paths, URLs and e-mail addresses, as written.
        code: Identifiers, flags, hashes and code in backticks, as written.
        negations: Denied words, such as `not deploy`, by the stem of the word after the negation.
        units: Numbers with their unit: `30 s`, `5 $`.
        limits: Words of quantity, order and limit (`twice`, `before`, `only`), between spaces, and words of scripts
            without capitals, any of which may be a name.
        affirmed: Stems of the words without negation.
        wording: All words in order, lower-cased, each between spaces.
    """

    names: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    times: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    code: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    limits: frozenset[str] = frozenset()
    affirmed: frozenset[str] = field(default=frozenset(), repr=False)
    wording: str = field(default=" ", repr=False)

    def find_missing_from(self, other: Specifics) -> frozenset[str]:
        """Return the specifics that `other` lacks; empty if it may replace these.

        A name, code token or word may be anywhere in the other's wording. A code token is missing if the other has it
        in another case (`-p` and `-P`). An affirmed word is missing if the other only denies it.

        >>> sorted(extract_specifics("Likes Bob").find_missing_from(extract_specifics("Does not like Bob")))
        ['like, affirmed']
        >>> sorted(extract_specifics("Costs 3 $ on Friday").find_missing_from(extract_specifics("Costs 3 $")))
        ['friday']
        """
        missing = set(self.subtract(other, "numbers", "times", "addresses", "negations", "units"))
        missing |= {name for name in self.names if f" {name} " not in other.wording}
        missing |= {word.strip() for word in self.limits if word not in other.wording}
        written = {value.casefold() for value in other.code}
        missing |= {
            value
            for value in self.code - other.code
            if value.casefold() in written or f" {value.casefold()} " not in other.wording
        }
        missing |= {f"{stem}, affirmed" for stem in (self.affirmed & other.denied) - other.affirmed}
        return frozenset(missing)

    def subtract(self, other: Specifics, *classes: str) -> frozenset[str]:
        """Return the values of some classes that `other` lacks in the same class."""
        return frozenset().union(*(getattr(self, name) - getattr(other, name) for name in classes))

    @property
    def denied(self) -> frozenset[str]:
        """Stems of the words that are denied."""
        return frozenset(value.removeprefix("not ") for value in self.negations)


def extract_specifics(text: str) -> Specifics:
    """Return the specifics of `text`. Any string; time is linear in its length.

    >>> sorted(extract_specifics("We moved Reverie to Python 3.11.2 on 3 May 2025.").names)
    ['python', 'reverie']
    >>> sorted(extract_specifics("Never run `git push --force` at 5 pm").negations)
    ['not run']
    """
    reader = _Reader()
    for piece in _PIECE.finditer(_normalize_times(text)):
        reader.take(piece)
    return reader.result()


@lru_cache(maxsize=8_192)
def stem_word(word: str) -> str:
    """Return the stem of a word, as `affirmed` and `negations` have it.

    >>> stem_word("deploys")
    'deploy'
    """
    return str(_stem(word))


def _normalize_times(text: str) -> str:
    """Return `text` in NFKC with dates in ISO form (`--05-03` without a year) and times of day on a 24-hour clock.

    >>> _normalize_times("On May 3rd, 2025 at 5:30 pm, not 4 June or 4.6.2025")
    'On 2025-05-03 at 17:30, not --06-04 or 2025-06-04'
    """
    if not text.isascii():
        text = _RAISED.sub(r"^\g<0>", text)  # 10² is not 102
        text = unicodedata.normalize("NFKC", text).replace("’", "'").replace("‘", "'").replace("ʼ", "'")
    return _CLOCK.sub(_rewrite_clock_time, "\n".join(map(_rewrite_dates, text.split("\n"))))


def _rewrite_dates(text: str) -> str:
    """Return a line with dates in ISO form."""
    mentions = find_dates(text, _SOME_DAY, relative=False)
    for at in sorted({each.at for each in mentions}, reverse=True):
        same = [each for each in mentions if each.at == at]
        if len(same) == 1 and (
            written := " ".join(_write_date(same[0]))
        ):  # two meanings depend on the country
            stop = len(text[: same[0].stop].rstrip("."))
            text = text[:at] + written + text[stop:]
    return text


def _write_date(mention: DateMention) -> Iterator[str]:
    """Yield the days or the month of a date in ISO form; nothing for a year, or for a month without a year."""
    if mention.unit == "day":
        for day in dict.fromkeys((mention.start, mention.end)):
            yield f"-{day:-%m-%d}" if mention.yearly else f"{day}"
    elif mention.unit == "month" and not mention.yearly:
        yield f"{mention.start:%Y-%m}"


def _rewrite_clock_time(match: re.Match[str]) -> str:
    hour, minutes = int(match.group(1)), match.group(2) or "00"
    if not 1 <= hour <= 12:
        return match.group()
    return f"{hour % 12 + (12 if match.group(3) in 'pP' else 0)}:{minutes}"


class _Reader:
    """Collector of the specifics of one text, piece by piece. Its state describes the last pieces."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {each.name: set() for each in fields(Specifics)[:-1]}
        self.words: list[str] = []
        self.run: list[str] = []  # the capitalised words before this place
        self.is_initial = True  # whether a sentence begins here
        self.is_denying = False  # whether a negation has no word yet
        self.number = ""  # the number before this place
        self.currency = ""  # the currency sign before this place
        self.at = 0  # end of the last piece

    def take(self, piece: re.Match[str]) -> None:
        """Add one piece of the text."""
        kind, text = piece.lastgroup or "", piece.group()
        if kind != "word" or not piece.string[self.at : piece.start()].isspace():
            self._end_run()
        number, currency, self.at = self.number, self.currency, piece.end()
        self.number = self.currency = ""
        if kind == "end":
            self._end_sentence()
            return
        if kind == "glued":
            self._take_number(piece["number"], piece["glued"], currency)
        elif kind == "word":
            self._take_word(text, number)
        elif kind == "symbol":
            if number:
                self._add("units", f"{number} {text}")
            self.currency = "" if text == "%" else text
        else:
            self._take_other(kind, text)
        self.is_initial = False

    def result(self) -> Specifics:
        """Return everything that was found."""
        self._end_run()
        self._end_sentence()
        wording = f" {' '.join(self.words)} "
        return Specifics(**{k: frozenset(v) for k, v in self.found.items()}, wording=wording)

    def _add(self, where: str, value: str) -> None:
        self.found[where].add(value)

    def _end_sentence(self) -> None:
        if self.is_denying:
            self._add("negations", "not")
        self.is_initial, self.is_denying = True, False

    def _end_run(self) -> None:
        if len(self.run) > 1:
            self._add("names", " ".join(self.run))
        self.run = []

    def _take_other(self, kind: str, text: str) -> None:
        if kind == "address":
            text = text.rstrip(".,;:!?)]}'\"")
            self._add("addresses", text)
        elif kind == "code":
            text = text.strip("`").strip()
            self._add("code", text)
        elif kind == "time":
            plain = text.lstrip("-")
            is_day = len(plain) == len("2025-05-03") and plain[4] == "-"
            self.found["times"].update((plain, plain[:7], plain[5:]) if is_day else (plain,))
        else:
            self._add("limits", text)
            if any(mark in text for mark in _DENYING_PIECES):
                self._add("negations", f"not {text}")
        self.words.append(text.casefold())

    def _take_number(self, digits: str, unit: str, currency: str) -> None:
        value = digits.replace(",", "") if _THOUSANDS.fullmatch(digits) else digits
        if unit.lower() in ("st", "nd", "rd", "th"):
            value, unit = f"{value}{unit.lower()}", ""
        self._add("numbers", value)
        self.words.append(value)
        self.number = value
        if currency:
            self._add("units", f"{value} {currency}")
        if unit:
            self._add("units", f"{value} {_UNITS.get(unit.lower(), unit)}")
            self.words.append(unit.casefold())

    def _take_word(self, text: str, number: str) -> None:
        lower = text.casefold()
        host, stripped = lower.removesuffix("'s"), text.removesuffix("'s")
        self.words.extend((host,) if host == lower else (host, "'s"))
        if number and lower in _UNITS:
            self._add("units", f"{number} {_UNITS[lower]}")
        if lower in NEGATIONS or lower.endswith("n't"):
            self._end_run()
            self.is_denying = True
            return
        if lower in _NUMBERS:
            self._add("numbers", _NUMBERS[lower])
        if lower in _LIMITS:
            self._add("limits", f" {lower} ")
        if lower in _TIMES:
            self._add("times", lower)
        is_name = False
        if _CODE_WORD.fullmatch(stripped):
            self._add("code", stripped)
        elif not host[:1].isascii() and host[:1].lower() == host[:1].upper():  # a script without capitals
            self._add("limits", f" {host} ")
        elif is_name := self._is_name(stripped, host):
            self._add("names", host)
            self.run.append(host)
        if not is_name or host != lower:
            self._end_run()
        if host not in _ORDINARY or host in _STATEMENTS:
            stem = _stem(host)
            self._add(*(("negations", f"not {stem}") if self.is_denying else ("affirmed", stem)))
            self.is_denying = False

    def _is_name(self, text: str, lower: str) -> bool:
        if not any(c.isupper() for c in text) or lower == "i" or lower in WEEKDAYS:
            return False
        if not self.is_initial:
            return lower not in ("a", "the") or bool(self.run)
        return lower not in _ORDINARY and not lower.endswith(_ORDINARY_ENDINGS)
