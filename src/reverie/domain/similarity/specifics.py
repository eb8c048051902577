"""Specifics of a text: numbers, names, dates, quotations, negations and words of change."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import lru_cache

import Stemmer

from reverie.domain.lazy_regex import defer_regex, parse_word_set
from reverie.domain.text.dates import load_words
from reverie.domain.text.tokenizer import MONTHS

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


MONTH_NUMBERS = {name[:length]: n for n, name in enumerate(MONTHS, 1) for length in (3, len(name))} | {
    "sept": 9
}
WEEKDAYS = parse_word_set("monday tuesday wednesday thursday friday saturday sunday")

NUMBER_WORDS = _LISTS["numbers"]
"""Numbers in words. `one` is left out, because it is mostly a pronoun."""

_QUANTITIES = frozenset(_LISTS["quantities"])
_COMPARISONS = frozenset(_LISTS["comparisons"])
_RELATIVE_DAYS = frozenset(_LISTS["relative_days"])

NEGATIONS = frozenset(_LISTS["negations"])
"""Words of denial in English and related languages, lower-cased; `n't` is recognized separately."""

_DENYING_PIECES = ("不", "没", "沒", "無", "无", "别", "ない", "ません", "않", "안 ", "없", "못")

UNITS = _LISTS["units"]
"""Units as people write them, lower-cased, each with its normalized spelling."""

_ORDINARY = frozenset(_LISTS["ordinary"])
"""Words that are no names at the beginning of a sentence."""
_ORDINARY_ENDINGS = ("ing", "ed", "ly", "tion", "ness", "ment", "n't")

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_ALONE = rf"(?<![^\W{_UNSPACED}])"
_APART = rf"(?![^\W{_UNSPACED}])"
"""Bounds of a number: not within a word, except beside letters of scripts without spaces."""

_PIECE = defer_regex(
    rf"""
      (?P<address>[A-Za-z][A-Za-z0-9+.-]{{0,20}}+://[^\s<>"'`]++
                | (?<![\w.+-])[\w.+-]++@[\w-]++(?>(?:\.[\w-]++)+))
    | (?P<quoted>`[^`\n]{{1,200}}`)
    | (?P<path>(?:~|\.{{1,2}})?/[\w.@%+~-]++(?>(?:/[\w.@%+~-]*+)*)
             | [A-Za-z]:\\[^\s"'<>|]++
             | (?<![\w.@~-])[\w.@~-]++(?>(?:/[\w.@%+~-]++)+))
    | (?P<flag>{_ALONE}(?<!-)--?[A-Za-z](?>(?:-|[^\W{_UNSPACED}])*))
    | (?P<date>{_ALONE}(?<!-)-?-?(?:\d{{4}}-)?\d\d-\d\d(?!-){_APART}
             | {_ALONE}(?<!-)\d{{4}}-\d\d(?!-){_APART})
    | (?P<time>{_ALONE}(?<!:)\d{{1,2}}:\d\d(?::\d\d)?(?!:){_APART})
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
_MONTH_NAME = (
    r"(?:[Jj]an(?:uary)?|[Ff]eb(?:ruary)?|Mar(?:ch)?|[Aa]pr(?:il)?|May|[Jj]une?|[Jj]uly?|[Aa]ug(?:ust)?"
    r"|[Ss]ept?(?:ember)?|[Oo]ct(?:ober)?|[Nn]ov(?:ember)?|[Dd]ec(?:ember)?)"
)
_YEAR = r"(?:19|20)\d\d\b"
_DATE = defer_regex(
    rf"""(?<![\w-])(?:
      (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?[ \t](?:of[ \t])?(?P<m1>{_MONTH_NAME})\b\.?(?:,?[ \t](?P<y1>{_YEAR}))?
    | (?P<m2>{_MONTH_NAME})\b\.?[ \t](?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:])(?![ \t]?[ap]\.?m)
      (?:,?[ \t](?P<y2>{_YEAR}))?
    | (?P<m3>{_MONTH_NAME})\b\.?,?[ \t](?P<y3>{_YEAR})
    )""",
    re.VERBOSE,
)
_CLOCK = defer_regex(r"(?<![\w.:])(\d{1,2})(?::(\d\d))?[ \t]?([ap])(?:m\b|\.m\.)", re.IGNORECASE)
NUMERIC_DATE = defer_regex(
    r"(?<![\w./-])(?:(?P<year>(?:19|20)\d\d)(?P<sep>[-/.])(?P<month>\d\d?)(?P=sep)(?P<day>\d\d?)"
    r"|(?P<one>\d\d?)(?P<by>[-/.])(?P<two>\d\d?)(?P=by)(?P<last>(?:19|20)\d\d))(?![\w/-]|\.\d)"
)
"""A day, its month and its year in digits."""
_THOUSANDS = defer_regex(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL = defer_regex(r"[-+]?\d+\.\d+")
_MAYBE_THOUSANDS = defer_regex(r"[-+]?[1-9]\d{0,2}\.\d{3}")
_RAISED = defer_regex(r"(?<=\d)[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")

_stem = Stemmer.Stemmer("english", 0).stemWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Specifics:
    """Specifics of a text by class, each value in its normalized spelling.

    Attributes:
        names: Capitalised words, lower-cased, and runs of them (`new york`).
        numbers: Numbers: `1,000` is `1000`, `3.50` is `3.5`, `three` is `3`; versions as written.
        times: Dates (`2025-05-03`, `05-03`, `2025-05`), times of day (`17:00`), weekdays, `yesterday`.
        addresses: Paths, URLs and e-mail addresses, as written.
        code: Identifiers, flags, hashes and code in backticks, as written.
        negations: Denied words, such as `not deploy`, by the stem of the word after the negation.
        quantities: Quantities in words: `twice`, `dozen`, `half`.
        comparisons: Words of order and limit: `before`, `more`, `only`, `unless`.
        units: Numbers with their unit: `30 s`, `5 $`.
        scripts: Words of scripts without capitals, any of which may be a name.
        affirmed: Stems of the words without negation.
        wording: All words in order, lower-cased, each between spaces.
    """

    names: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()
    times: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    code: frozenset[str] = frozenset()
    negations: frozenset[str] = frozenset()
    quantities: frozenset[str] = frozenset()
    comparisons: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    scripts: frozenset[str] = frozenset()
    affirmed: frozenset[str] = field(default=frozenset(), repr=False)
    wording: str = field(default=" ", repr=False)

    def find_missing_from(self, other: Specifics) -> frozenset[str]:
        """Return the specifics that `other` lacks; empty if it may replace these.

        A name, code token or word may be anywhere in the other's wording. A code token is missing if the other has it
        in another case (`-p` and `-P`). An affirmed word is missing if the other only denies it.

        >>> sorted(extract_specifics("Likes Bob").find_missing_from(extract_specifics("Does not like Bob")))
        ['like, affirmed']
        >>> sorted(extract_specifics("Costs 3.50 $ on Friday").find_missing_from(extract_specifics("Costs 3.5 $")))
        ['friday']
        """
        exactly = self.subtract(other, "numbers", "times", "addresses", "negations", "units")
        words = frozenset(other.wording.split())
        unseen = (self.names | self.quantities | self.comparisons) - words
        worded = {value for value in unseen if " " not in value or f" {value} " not in other.wording}
        written = {value.casefold() for value in other.code}
        code = {
            value
            for value in self.code - other.code
            if value.casefold() in written or f" {value.casefold()} " not in other.wording
        }
        scripts = {v for v in self.scripts if v not in other.wording}
        flipped = {f"{stem}, affirmed" for stem in (self.affirmed & other.denied) - other.affirmed}
        return frozenset(exactly | worded | code | scripts | flipped)

    def subtract(self, other: Specifics, *classes: str) -> frozenset[str]:
        """Return the values of some classes that `other` lacks in the same class."""
        return frozenset().union(*(getattr(self, name) - getattr(other, name) for name in classes))

    def find_unaffirmed_in(self, other: Specifics) -> frozenset[str]:
        """Return the stems of affirmed words that `other` lacks in any form.

        Plain words may be important too, such as an allergy. So a replacement has to keep all words, in any order and
        form. Synonyms are refused, since code cannot distinguish them from words for something else.

        >>> source = extract_specifics("The user has projects")
        >>> sorted(extract_specifics("Needs a real printer").find_unaffirmed_in(source))
        ['need', 'printer', 'real']
        >>> extract_specifics("Likes green tea").find_unaffirmed_in(extract_specifics("Likes tea that is green"))
        frozenset()
        """
        return self.affirmed - other.affirmed

    @property
    def denied(self) -> frozenset[str]:
        """Stems of the words that are denied."""
        return frozenset(value.removeprefix("not ") for value in self.negations)

    def __bool__(self) -> bool:
        """Return whether there is anything specific at all."""
        return any(getattr(self, name) for name in _CLASSES)


_CLASSES = tuple(f.name for f in fields(Specifics) if f.name not in ("affirmed", "wording"))


def extract_specifics(text: str) -> Specifics:
    """Return the specifics of `text`. Any string; time is linear in its length.

    >>> sorted(extract_specifics("We moved Reverie to Python 3.11.2 on 3 May 2025.").names)
    ['python', 'reverie']
    >>> sorted(extract_specifics("Never run `git push --force` at 5 pm").negations)
    ['not run']
    """
    reader = _Reader()
    for piece in _PIECE.finditer(normalize_dates(normalize_characters(text))):
        reader.take(piece)
    return reader.result()


@lru_cache(maxsize=8_192)
def stem_word(word: str) -> str:
    """Return the stem of a word, as `affirmed` and `negations` have it.

    >>> stem_word("deploys")
    'deploy'
    """
    return str(_stem(word))


def normalize_characters(text: str) -> str:
    """Return `text` in NFKC, with typographic apostrophes made plain ones."""
    if text.isascii():
        return text
    text = _RAISED.sub(r"^\g<0>", text)  # 10² is not 102
    return unicodedata.normalize("NFKC", text).replace("’", "'").replace("‘", "'").replace("ʼ", "'")


def normalize_dates(text: str) -> str:
    """Return `text` with dates in ISO form (`--05-03` without a year) and times of day on a 24-hour clock.

    >>> normalize_dates("On May 3rd, 2025 at 5:30 pm, not 4 June or 4.6.2025")
    'On 2025-05-03 at 17:30, not --06-04 or 2025-06-04'
    """
    text = _CLOCK.sub(_rewrite_clock_time, _DATE.sub(_rewrite_date, text))
    return NUMERIC_DATE.sub(_rewrite_numeric_date, text)


def normalize_number(digits: str) -> str:
    """Return a number without thousands separators and without trailing zeros of its decimals.

    >>> normalize_number("1,000"), normalize_number("3.50"), normalize_number("3.11.2")
    ('1000', '3.5', '3.11.2')
    """
    if _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    if _DECIMAL.fullmatch(digits) and not is_ambiguous_thousands(digits):
        return digits.rstrip("0").rstrip(".")
    return digits


def is_ambiguous_thousands(digits: str) -> bool:
    """Return whether the point may be a thousands separator, as in many languages: 1.250 may be 1250.

    >>> is_ambiguous_thousands("1.250"), is_ambiguous_thousands("1.25"), is_ambiguous_thousands("0.250")
    (True, False, False)
    """
    return bool(_MAYBE_THOUSANDS.fullmatch(digits))


def _rewrite_date(match: re.Match[str]) -> str:
    part = match.groupdict()
    month = MONTH_NUMBERS[(part["m1"] or part["m2"] or part["m3"]).lower()]
    day, year = part["d1"] or part["d2"], part["y1"] or part["y2"] or part["y3"]
    if day is None:
        return f"{year}-{month:02d}"
    if not 1 <= int(day) <= 31:
        return match.group()
    return f"{year or '-'}-{month:02d}-{int(day):02d}"


def _rewrite_numeric_date(match: re.Match[str]) -> str:
    if match["year"]:
        year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    else:
        day, month, year = int(match["one"]), int(match["two"]), int(match["last"])
        if match["by"] != "." and day <= 12 and month <= 12 and day != month:
            return match.group()  # it depends on the country
        if day <= 12 < month:
            day, month = month, day
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match.group()
    return f"{year}-{month:02d}-{day:02d}"


def _rewrite_clock_time(match: re.Match[str]) -> str:
    hour, minutes = int(match.group(1)), match.group(2) or "00"
    if not 1 <= hour <= 12:
        return match.group()
    return f"{hour % 12 + (12 if match.group(3) in 'pP' else 0)}:{minutes}"


class _Reader:
    """Collector of the specifics of one text, piece by piece. Its state describes the last pieces."""

    _CLASSES = (*_CLASSES, "affirmed")

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {name: set() for name in self._CLASSES}
        self.words: list[str] = []
        self.run: list[str] = []  # the capitalised words before this place
        self.initial = True  # whether a sentence begins here
        self.at = 0  # end of the last piece
        self.began = 0  # number of words before this sentence
        self.denying = False  # whether a negation has no word yet
        self.number = ""  # the number before this place
        self.currency = ""  # the currency sign before this place

    def take(self, piece: re.Match[str]) -> None:
        """Add one piece of the text."""
        kind = piece.lastgroup or ""
        text = piece.group()
        if kind != "word" or not piece.string[self.at : piece.start()].isspace():
            self._end_run()
        self.at = piece.end()
        if kind == "end":
            self._end_sentence()
            return
        if kind == "glued":
            self._take_number(piece.group("number"), piece.group("glued"))
        elif kind == "word":
            self._take_word(text)
        elif kind == "symbol":
            self._take_symbol(text)
        else:
            self._take_other(kind, text)
        if kind != "symbol":
            self.currency = ""
        if kind not in ("glued", "symbol"):
            self.number = ""
        self.initial = False

    def result(self) -> Specifics:
        """Return everything that was found."""
        self._end_run()
        self._end_sentence()
        wording = f" {' '.join(self.words)} "
        return Specifics(**{k: frozenset(v) for k, v in self.found.items()}, wording=wording)

    def _add(self, where: str, value: str) -> None:
        self.found[where].add(value)

    def _end_sentence(self) -> None:
        if self.denying:
            self._add("negations", "not")
        self.initial, self.denying, self.number, self.began = True, False, "", len(self.words)

    def _end_run(self) -> None:
        if len(self.run) > 1:
            self._add("names", " ".join(self.run))
        self.run = []

    def _take_other(self, kind: str, text: str) -> None:
        if kind in ("address", "path"):
            text = text.rstrip(".,;:!?)]}'\"")
            self._add("addresses", text)
        elif kind in ("quoted", "flag"):
            text = text.strip("`").strip()
            self._add("code", text)
        elif kind in ("date", "time"):
            self.found["times"].update(_expand_date(text))
        else:
            self._add("scripts", text)
            if any(mark in text for mark in _DENYING_PIECES):
                self._add("negations", f"not {text}")
        self.words.append(text.casefold())

    def _take_number(self, digits: str, unit: str) -> None:
        version = unit == "" and self._is_version_number(self.words[max(self.began, len(self.words) - 3) :])
        value = digits if version else normalize_number(digits)
        if unit.lower() in ("st", "nd", "rd", "th"):
            value, unit = f"{value}{unit.lower()}", ""
        self._add("numbers", value)
        self.words.append(value)
        self.number = value
        if self.currency:
            self._add("units", f"{value} {self.currency}")
        if unit:
            self._add("units", f"{value} {UNITS.get(unit.lower(), unit)}")
            self.words.append(unit.casefold())

    def _take_symbol(self, sign: str) -> None:
        if self.number:
            self._add("units", f"{self.number} {sign}")
            self.number = ""
        self.currency = "" if sign == "%" else sign

    def _take_word(self, text: str) -> None:
        lower = text.casefold()
        host = lower.removesuffix("'s")
        self.words.extend((host,) if host == lower else (host, "'s"))
        if self.number and lower in UNITS:
            self._add("units", f"{self.number} {UNITS[lower]}")
        if lower in NEGATIONS or lower.endswith("n't"):
            self._end_run()
            self.denying = True
            return
        self._classify(lower)
        stripped = text.removesuffix("'s")
        if _CODE_WORD.fullmatch(stripped):
            self._add("code", stripped)
            self._end_run()
        elif _has_no_case(host):
            self._add("scripts", host)
            self._end_run()
        elif self._is_name(stripped, host):
            self._add("names", host)
            self.run.append(host)
        else:
            self._end_run()
        if host != lower:
            self._end_run()
        self._record_polarity(host)

    def _classify(self, lower: str) -> None:
        if lower in NUMBER_WORDS:
            self._add("numbers", NUMBER_WORDS[lower])
            self.number = NUMBER_WORDS[lower]
        if lower in _QUANTITIES:
            self._add("quantities", lower)
        if lower in _COMPARISONS:
            self._add("comparisons", lower)
        if lower in WEEKDAYS or lower in _RELATIVE_DAYS:
            self._add("times", lower)

    def _is_name(self, text: str, lower: str) -> bool:
        if not any(c.isupper() for c in text) or lower == "i" or lower in WEEKDAYS:
            return False
        if not self.initial:
            return lower not in ("a", "the") or bool(self.run)
        return lower not in _ORDINARY and not lower.endswith(_ORDINARY_ENDINGS)

    def _is_version_number(self, before: list[str]) -> bool:
        """Return whether a number after these words is a version, where 3.10 is not 3.1."""
        if not before or before[-1] in COSTS:
            return False
        return (
            before[-1] in self.found["names"]
            or before[-1] in ("to", "from")
            or not _VERSIONED.isdisjoint(before)
        )

    def _record_polarity(self, word: str) -> None:
        if word in _ORDINARY and word not in _STATEMENTS:
            return
        stem = _stem(word)
        if self.denying:
            self._add("negations", f"not {stem}")
            self.denying = False
        else:
            self._add("affirmed", stem)


COSTS = frozenset(_LISTS["costs"])
"""Words before a number that is no version."""
_VERSIONED = frozenset(_LISTS["versioned"])
_STATEMENTS = frozenset(_LISTS["statements"])
"""Ordinary words with a meaning of their own, so that their denial matters."""


def _has_no_case(word: str) -> bool:
    first = word[:1]
    return not first.isascii() and first.lower() == first.upper()


def _expand_date(text: str) -> Iterator[str]:
    """Yield the date, its month with the year, and its day without the year."""
    plain = text.lstrip("-")
    yield plain
    if len(plain) == len("2025-05-03") and plain[4] == "-":
        yield plain[:7]
        yield plain[5:]
