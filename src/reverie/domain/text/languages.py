"""Language of a text, with its stemmer and its function words.

The language is detected by the function words of a text (the lists of stopwords-iso, MIT), or by its script. English
is the default. The lists are broad, so a query gives less weight to function words of other languages than English, but
does not drop them.
"""

from __future__ import annotations

import pkgutil
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

import Stemmer

from reverie.domain.lazy_regex import defer_regex, read_tables

DEFAULT = "en"

_TABLES = dict(read_tables(__package__, "languages.txt"))
STEMMERS = _TABLES["stemmers"]
"""Language codes (ISO 639-1) and the names of their Snowball stemmers."""

FUNCTION_WORDS_FILE = "function_words.txt"
"""Made by `scripts/build_function_words.py`, because reading the original lists takes a twentieth of a second."""

_UNSTEMMED = ("ja", "zh")

_LEAST = 0.5
"""Least evidence for another language than English. A word of one language counts 1."""

_LEAST_FOREIGN = 0.2
"""The same for a text without an English function word: one word of five languages is enough."""

_MARGIN = 1.1
"""Least ratio of its evidence to the evidence for English."""

WIDESPREAD = frozenset({"en", "de", "es", "fr", "it", "nl", "pl", "pt"})
"""Languages in Latin letters that are likely."""

_BY_SPREAD = ("es", "fr", "de", "it", "pt", "pl", "nl")
"""These without English. Of two with the same evidence the first is taken."""

_LESS_LIKELY = 0.4
"""Weight of a word for a language that is not widespread: related languages share most function words."""

OTHER_SCRIPTS = frozenset({"ar", "el", "fa", "hi", "hy", "ja", "ne", "ru", "ta", "yi", "zh"})
"""Languages in other letters. Words in ASCII letters in their texts are English."""

_SCRIPTS = {language: defer_regex(script) for language, script in _TABLES["scripts"].items()}
"""Scripts in the order in which they are tried; the first that occurs decides. Only Japanese has kana."""


@cache
def get_stemmer(language: str) -> Callable[[str], str] | None:
    """Return the stemming function of a language; None if Snowball has none for it."""
    return Stemmer.Stemmer(STEMMERS[language], 0).stemWord if language in STEMMERS else None


@cache
def get_function_words(language: str) -> frozenset[str]:
    """Return the function words of a language, in folded form; empty for a language without a list.

    Chinese and Japanese function words are those of one or two characters.
    """
    from stopwordsiso import stopwords  # here: it takes a twentieth of a second

    words = frozenset(fold_accents(word.casefold()) for word in stopwords(language))
    return frozenset(word for word in words if len(word) <= 2) if language in _UNSTEMMED else words


@cache
def list_function_words() -> frozenset[str]:
    """Return the function words of all languages in Latin letters, in folded form."""
    return frozenset(_list_languages_by_word())


def detect_language(words: Iterable[str], text: str) -> str:
    """Return the most likely language of a text as its ISO 639-1 code; English without evidence for another one.

    Args:
        words: Folded words of the text.
        text: The text, for its script.

    Example:
        >>> detect_language(["wo", "ist", "der", "termin"], "Wo ist der Termin?")
        'de'
    """
    if not text.isascii():
        for language, script in _SCRIPTS.items():
            if script.search(text):
                return language
    evidence = _gather_evidence(words)
    best = max(evidence, key=evidence.__getitem__, default=DEFAULT)
    is_likely = evidence.get(best, 0.0) >= max(_LEAST, _MARGIN * evidence.get(DEFAULT, 0.0))
    return best if is_likely else DEFAULT


def guess_foreign_language(words: Iterable[str]) -> str:
    """Return the most likely language of a short text that is not English; English without evidence for any.

    Example:
        >>> guess_foreign_language(["que", "coche"]), guess_foreign_language(["chat"])
        ('es', 'en')
    """
    evidence = _gather_evidence(words)
    best = max(_BY_SPREAD, key=lambda language: evidence.get(language, 0.0))
    return best if evidence.get(best, 0.0) >= _LEAST_FOREIGN else DEFAULT


def _gather_evidence(words: Iterable[str]) -> dict[str, float]:
    """Return the number of function words of each language; a word of several languages counts a share for each."""
    evidence: dict[str, float] = {}
    for codes in filter(None, map(_list_languages_by_word().get, dict.fromkeys(words))):
        for language, share in _weigh_languages(codes):
            evidence[language] = evidence.get(language, 0.0) + share
    return evidence


def fold_accents(text: str) -> str:
    """Return `text` with Latin letters without their accents."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    return unicodedata.normalize("NFC", _LATIN_ACCENT.sub(r"\1", apart))


_LATIN_ACCENT = defer_regex("([a-z])[\u0300-\u036f]+")


@cache
def _list_languages_by_word() -> dict[str, str]:
    """Return for each function word the codes of its languages in Latin letters that have a stemmer."""
    lines = (pkgutil.get_data(__package__, FUNCTION_WORDS_FILE) or b"").decode("ascii").splitlines()
    return {
        word: codes for line in lines for codes, _, words in [line.partition(": ")] for word in words.split()
    }


@cache
def _weigh_languages(codes: str) -> tuple[tuple[str, float], ...]:
    """Return the languages of a function word, each with its weight."""
    languages = codes.split()
    return tuple((each, (1.0 if each in WIDESPREAD else _LESS_LIKELY) / len(languages)) for each in languages)
