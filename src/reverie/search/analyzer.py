"""Analyzer that stores and index use for every record, turn and paragraph."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

from reverie.domain.conversation import Turn
from reverie.domain.page import Paragraph
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import DATES, Record
from reverie.domain.text import tokenizer
from reverie.search.dates import analyze_dates

_LONGEST_SHORT = 2_000
_LONGEST_REMEMBERED = 200_000

_Function = TypeVar("_Function", bound=Callable[..., Any])
_HEADLINE = AnalyzedText(terms="", length=0)


def analyze(value: Record | Turn | Paragraph) -> AnalyzedText:
    """Return the tokens of a record, a turn or a paragraph, and what else is noted of it.

    For all: the day they were written, in UTC, and those that they name. For a turn, besides: its speaker and
    form. For a record: the keys that find repetitions of it
    (`reverie.domain.similarity.comparison.compute_keys`).

    A headline has nothing: it is found through its parts.

    The same value always gives the same analysis. A value that was just analysed costs next to nothing:
    the store and the index both ask.
    """
    if isinstance(value, Record) and value.is_headline:
        return _HEADLINE
    text = value.text if isinstance(value, Paragraph) else value.to_searchable_text()
    terms, length = _pack_tokens(text)
    if isinstance(value, Record):
        written, noted = value.created_at, value.metadata.get(DATES, "")
    else:
        written, noted = value.at, ""
    dates = _analyze_dates(text, written, noted)
    if isinstance(value, Paragraph):
        return AnalyzedText(terms=terms, length=length, dates=dates)
    if isinstance(value, Record):
        cues = (
            "" if value.is_kept else _extract_keys(value.content)
        )  # no save adds to what is kept under a key
        return AnalyzedText(terms=terms, length=length, cues=cues, dates=dates)
    return AnalyzedText(
        terms=terms,
        length=length,
        cues=_extract_cues(text),
        speaker=(value.speaker or value.role).casefold(),
        dates=dates,
    )


def _remember(function: _Function) -> _Function:
    """Return the function with its results of the last texts remembered: many short ones, a few long ones."""
    short, long = lru_cache(maxsize=2_048)(function), lru_cache(maxsize=4)(function)

    @wraps(function)
    def ask(text: str, *more: Any) -> Any:
        if len(text) > _LONGEST_REMEMBERED:
            return function(text, *more)
        return short(text, *more) if len(text) <= _LONGEST_SHORT else long(text, *more)

    return cast(_Function, ask)


@_remember
def _pack_tokens(text: str) -> tuple[str, int]:
    tokens = tokenizer.tokenize(text)
    return tokenizer.pack(tokens), len(tokens)


_analyze_dates = _remember(analyze_dates)
_extract_cues = _remember(tokenizer.extract_cues)


@_remember
def _extract_keys(text: str) -> str:
    from reverie.domain.similarity.comparison import (  # here: a search never needs its patterns
        compute_keys,
        normalize_cached,
    )

    return " ".join(compute_keys(normalize_cached(text)))
