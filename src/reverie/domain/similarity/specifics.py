"""Specifics of a text: its numbers, times, addresses, code and names, its words, and those of them that it denies."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
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
_DENYING_PIECES = ("不", "没", "沒", "無", "无", "别", "ない", "ません", "않", "안 ", "없", "못")
_ORDINARY = frozenset(_LISTS["ordinary"])
"""Words that are no names at the beginning of a sentence."""
_ORDINARY_ENDINGS = ("ing", "ed", "ly", "tion", "ness", "ment", "n't")
_LIMITS = frozenset((*_LISTS["limits"], *_LISTS["relative_days"]))
"""Words of quantity, order and time, which are not denied themselves: "not before noon"."""
_FUNCTION_WORDS = _ORDINARY.difference(_LISTS["statements"])
"""Ordinary words without a meaning of their own, so that nothing is lost with them."""

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
    """Specifics of a text, each in its normalized spelling.

    Attributes:
        values: What has to stay as it is: numbers (`1,000` is `1000`, `three` is `3`), also with their unit (`30 s`,
            `5 $`), dates (`2025-05-03`, `05-03`, `2025-05`), times of day (`17:00`), paths, URLs and e-mail addresses,
            identifiers, flags, hashes and code in backticks.
        names: Capitalised words, lower-cased, and runs of them (`new york`).
        affirmed: Stems of the words that are not denied, without function words; texts of scripts without spaces are
            one word up to the next mark.
        denied: Stems of the words after a negation.
        wording: All words in order, lower-cased, each between spaces.
    """

    values: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    affirmed: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    wording: str = field(default=" ", repr=False)

    def find_missing_from(self, other: Specifics) -> frozenset[str]:
        """Return the specifics that `other` lacks; empty if it may replace these.

        A name or value may be anywhere in the other's wording. It is missing if the other has it in another case only
        (`-p` and `-P`). An affirmed word is missing if the other only denies it.

        >>> sorted(extract_specifics("Likes Bob").find_missing_from(extract_specifics("Does not like Bob")))
        ['like, affirmed']
        >>> sorted(extract_specifics("Costs 3 $ on Friday").find_missing_from(extract_specifics("Costs 3 $")))
        ['friday']
        """
        written = {value.casefold() for value in other.values}
        missing = {each for each in self.names if f" {each} " not in other.wording}
        missing |= {
            each
            for each in self.values - other.values
            if each.casefold() in written or f" {each.casefold()} " not in other.wording
        }
        missing |= {f"not {each}" for each in self.denied - other.denied}
        for word in self.affirmed - other.affirmed:
            if word in other.denied:
                missing.add(f"{word}, affirmed")
            elif word.isascii() or word not in other.wording:
                missing.add(word)
        return frozenset(missing)

    def list_new_values(self, known: Specifics) -> set[str]:
        """Return the values that are neither among the known ones nor a word of that text."""
        new = self.values - known.values
        return {value for value in new if f" {value.casefold()} " not in known.wording}


def extract_specifics(text: str) -> Specifics:
    """Return the specifics of `text`. Any string; time is linear in its length.

    >>> sorted(extract_specifics("We moved Reverie to Python 3.11.2 on 3 May 2025.").names)
    ['python', 'reverie']
    >>> sorted(extract_specifics("Never run `git push --force` at 5 pm").denied)
    ['run']
    """
    reader = _Reader()
    for piece in _PIECE.finditer(_normalize_times(text)):
        reader.take(piece)
    return reader.result()


@lru_cache(maxsize=8_192)
def stem_word(word: str) -> str:
    """Return the stem of a word, as `affirmed` and `denied` have it.

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
            text = text[:at] + written + text[len(text[: same[0].stop].rstrip(".")) :]
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
        self.values, self.names, self.affirmed, self.denied = set[str](), set[str](), set[str](), set[str]()
        self.words: list[str] = []
        self.run: list[str] = []  # the capitalised words before this place
        self.is_initial = True  # whether a sentence begins here
        self.is_denying = False  # whether a negation has no word yet
        self.amount = ""  # the number or the sign of a currency before this place
        self.at = 0  # end of the last piece

    def take(self, piece: re.Match[str]) -> None:
        """Add one piece of the text."""
        kind, text = piece.lastgroup or "", piece.group()
        if kind != "word" or not piece.string[self.at : piece.start()].isspace():
            self._end_run()
        amount, self.amount, self.at = self.amount, "", piece.end()
        if kind == "end":
            self.is_denying = False
        elif kind == "glued":
            self._take_number(piece["number"], piece["glued"], "" if amount[-1:].isalnum() else amount)
        elif kind == "word":
            self._take_word(text, amount)
        elif kind == "symbol":
            if amount:
                self.values.add(f"{amount} {text}")
            self.amount = "" if text == "%" else text
        else:
            self._take_other(kind, text)
        self.is_initial = kind == "end"

    def result(self) -> Specifics:
        """Return everything that was found."""
        self._end_run()
        found = map(frozenset, (self.values, self.names, self.affirmed, self.denied))
        values, names, affirmed, denied = found
        wording = f" {' '.join(self.words)} "
        return Specifics(values=values, names=names, affirmed=affirmed, denied=denied, wording=wording)

    def _end_run(self) -> None:
        if len(self.run) > 1:
            self.names.add(" ".join(self.run))
        self.run = []

    def _take_other(self, kind: str, text: str) -> None:
        if kind == "unspaced":
            (self.denied if any(mark in text for mark in _DENYING_PIECES) else self.affirmed).add(text)
        elif kind == "time":
            text = text.lstrip("-")
            self.values.update((text, text[:7], text[5:]) if len(text) == len("2025-05-03") else (text,))
        else:
            text = text.rstrip(".,;:!?)]}'\"") if kind == "address" else text.strip("`").strip()
            self.values.add(text)
        self.words.append(text.casefold())

    def _take_number(self, digits: str, unit: str, currency: str) -> None:
        value = digits.replace(",", "") if _THOUSANDS.fullmatch(digits) else digits
        if unit.lower() in ("st", "nd", "rd", "th"):
            value, unit = f"{value}{unit.lower()}", ""
        units = ("", currency, _UNITS.get(unit.lower(), unit))
        self.values.update(f"{value} {each}".strip() for each in units)
        self.words += filter(None, (value, unit.casefold()))
        self.amount = value

    def _take_word(self, text: str, amount: str) -> None:
        lower = text.casefold()
        host, stripped = lower.removesuffix("'s"), text.removesuffix("'s")
        self.words += (host,) if host == lower else (host, "'s")
        is_name = False
        if lower in NEGATIONS or lower.endswith("n't"):
            self.is_denying = True
        elif amount and lower in _UNITS:
            self.values.add(f"{amount} {_UNITS[lower]}")
        elif lower in _NUMBERS:
            self.values.add(_NUMBERS[lower])
        elif _CODE_WORD.fullmatch(stripped):
            self.values.add(stripped)
        else:
            if is_name := self._is_name(stripped, host):
                self.names.add(host)
                self.run.append(host)
            if host in _LIMITS:
                self.affirmed.add(stem_word(host))
            elif host not in _FUNCTION_WORDS:
                (self.denied if self.is_denying else self.affirmed).add(stem_word(host))
                self.is_denying = False
        if not is_name or host != lower:
            self._end_run()

    def _is_name(self, text: str, lower: str) -> bool:
        if not any(c.isupper() for c in text) or lower in WEEKDAYS or lower in ("i", "a", "the"):
            return False
        return not self.is_initial or not (lower in _ORDINARY or lower.endswith(_ORDINARY_ENDINGS))
