"""Specifics of a text: its numbers, times, addresses, code and names, its words, and those of them that it denies."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import Stemmer

from reverie.domain.lazy_dataclass import dataclass, field
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

FRAME = frozenset(_LISTS["frame"])
"""Stems of the form of statements about somebody, and function words of German, Spanish and French."""

_UNITS, _NUMBERS = _LISTS["units"], _LISTS["numbers"]
_DENYING_PIECES = ("不", "没", "沒", "無", "无", "别", "ない", "ません", "않", "안 ", "없", "못")
_ORDINARY = frozenset(_LISTS["ordinary"])
"""Words that are no names at the beginning of a sentence."""
_NO_NAMES = {"i", "a", "the"}.union(WEEKDAYS, _NUMBERS)
_ORDINARY_ENDINGS = ("ing", "ed", "ly", "tion", "ness", "ment", "n't")
_LIMITS = frozenset((*_LISTS["limits"], *_LISTS["relative_days"]))
"""Words of quantity, order and time, which are not denied themselves: "not before noon"."""
_FUNCTION_WORDS = _ORDINARY.difference(_LISTS["statements"])
"""Ordinary words without a meaning of their own, so that nothing is lost with them."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_TOKEN = defer_regex(
    rf"(?P<end>(?:(?<=[.!?;:…])['\")\]]*\s+|[\n。！？；])\s*)|(?P<code>`[^`\n]{{1,200}}`)|[('\"<]*[A-Za-z]{{2,20}}://\S+"
    rf"|[{_UNSPACED}]+|[^\s`=。！？；{_UNSPACED}]+"
)
"""Words with the marks around them, code, and texts of scripts without spaces, up to the end of a sentence."""
_EDGES = ".,;:!?¿¡…()[]{}<>'\"“”„«»*"
_VALUE = defer_regex(r"\d|[@/\\_~|]\w|\w\.\w|::\w|\A--?[A-Za-z]|\A[a-z]+[A-Z]")
_HASH = defer_regex(r"(?=\w*[a-z])[0-9a-f]{7,40}")
_DAY = defer_regex(r"-*(?P<year>\d{4}-)?\d\d-\d\d")
_CLOCK = defer_regex(r"(?<![\w.:])(\d{1,2})(?::(\d\d))?[ \t]?([ap])(?:m\b|\.m\.)", re.IGNORECASE)
_THOUSANDS = defer_regex(r"(?<=\d),(?=\d{3}(?!\d))")
_PRICE = defer_regex(r"([$€£¥])[ \t]?(\d[\d.,]*)")
_AMOUNT = defer_regex(
    rf"(?<![\w.,-])([-+]?\d++(?:[.,]\d++)*)({'|'.join(map(re.escape, _UNITS))})(?!\w)", re.IGNORECASE
)
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

    @property
    def is_negative(self) -> bool:
        """Whether something is denied."""
        return any(word in NEGATIONS or word.endswith("n't") for word in self.wording.split())

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
    text = _PRICE.sub(r"\2 \1", _THOUSANDS.sub("", _normalize_times(text)))
    sentences: list[list[_Word]] = [[]]
    for token in _TOKEN.finditer(_AMOUNT.sub(r"\1 \2", text)):
        if token.lastgroup == "end":
            sentences.append([])
        elif word := token.group().strip("` " if token["code"] else _EDGES):
            is_value = bool(token["code"] or _VALUE.search(word) or _HASH.fullmatch(word))
            is_last = is_value or word[-2:] == "'s" or token.group()[-1] in _EDGES
            sentences[-1].append(_Word(word, is_value, token.group()[0] in _EDGES, is_last))
    names, values = (
        frozenset(chain.from_iterable(map(find, sentences))) for find in (_list_names, _list_values)
    )
    words = [word for sentence in sentences for word in _list_words(sentence)]
    return Specifics(
        values=values,
        names=names,
        affirmed=frozenset(word for word, is_denied in words if not is_denied),
        denied=frozenset(word for word, is_denied in words if is_denied),
        wording=f" {' '.join(word.lower for sentence in sentences for word in sentence)} ",
    )


class _Word(NamedTuple):
    """Word of a sentence: whether it is a value, and whether marks are before or after it."""

    text: str
    is_value: bool
    is_first: bool
    is_last: bool

    @property
    def lower(self) -> str:
        """The word in small letters; the genitive `'s` is a word of its own."""
        return self.text.casefold() if self.is_value else re.sub(r"'s\Z", " 's", self.text.casefold())

    @property
    def host(self) -> str:
        """The word in small letters without the genitive."""
        return self.lower.removesuffix(" 's")


def _list_values(sentence: Sequence[_Word]) -> Iterator[str]:
    """Yield the values of a sentence, and the numbers with the units after them."""
    number = ""
    for word in sentence:
        text, lower = word.text, word.lower
        if day := word.is_value and _DAY.fullmatch(text):
            text = text.lstrip("-")
            yield from (text, text[:7], text[5:]) if day["year"] else (text,)
        elif word.is_value or lower in _NUMBERS:
            yield _NUMBERS.get(lower, text)
        elif number and lower in _UNITS:
            yield f"{number} {_UNITS[lower]}"
        number = text if word.is_value and text[-1].isdigit() else ""


def _list_names(sentence: Sequence[_Word]) -> Iterator[str]:
    """Yield the capitalised words of a sentence, and each run of them."""
    run: list[str] = []
    for place, word in enumerate(sentence):
        is_unit = place > 0 and sentence[place - 1].is_value and word.host in _UNITS
        if is_unit or not _is_name(word, is_initial=place == 0):
            run = []
            continue
        run = [*([] if word.is_first else run), word.host]
        yield word.host
        if len(run) > 1:
            yield " ".join(run)
        run = [] if word.is_last else run


def _is_name(word: _Word, *, is_initial: bool) -> bool:
    lower = word.host
    if word.is_value or lower.partition("'")[0] in _NO_NAMES:
        return False
    is_ordinary = lower in _ORDINARY or lower.endswith(_ORDINARY_ENDINGS)
    return any(c.isupper() for c in word.text) and not (is_initial and is_ordinary)


def _list_words(sentence: Sequence[_Word]) -> Iterator[tuple[str, bool]]:
    """Yield the stem of each word with a meaning of its own, and whether it is denied."""
    is_denying = has_number = False
    for word in sentence:
        lower, host = word.lower, word.host
        if any(mark in host for mark in _DENYING_PIECES):
            yield host, True
        elif host in _LIMITS:
            yield stem_word(host), False
        elif lower in NEGATIONS or lower.endswith("n't"):
            is_denying = True
        elif not (
            word.is_value or host in _FUNCTION_WORDS or lower in _NUMBERS or (has_number and lower in _UNITS)
        ):
            yield stem_word(host), is_denying
            is_denying = False
        has_number = word.is_value and word.text[-1].isdigit()


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
        text = text.encode("utf-8", "replace").decode()
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
