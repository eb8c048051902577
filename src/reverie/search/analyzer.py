"""Analyzer that stores and index use for every record, turn and paragraph."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

from reverie.domain.conversation import Turn
from reverie.domain.page import Paragraph
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import Record
from reverie.domain.text import tokenizer
from reverie.search.dates import analyze_dates

_LONGEST_SHORT = 2_000
_LONGEST_REMEMBERED = 200_000

_Function = TypeVar("_Function", bound=Callable[..., Any])
_HEADLINE = AnalyzedText(terms="", length=0)


def analyze(value: Record | Turn | Paragraph) -> AnalyzedText:
    """Return the tokens of a record, a turn or a paragraph, and further properties for searches.

    All have the day when they were written, in UTC, and the dates in their text. A turn also has its speaker and form.
    A headline has none of these, since it is found through its parts. A text of a language with little evidence has the
    tokens of English too, so that a foreign word does not hide the others.

    The same value always gives the same analysis. Recent results are cached, since store and index both ask.
    """
    if isinstance(value, Paragraph):
        return _analyze_paragraph(value.text, value.at)
    if isinstance(value, Turn):
        return _analyze_turn(value.to_searchable_text(), value.at, value.speaker or value.role)
    if value.is_headline:
        return _HEADLINE
    content = None if value.is_item else value.content  # no save adds to what is kept under a key
    return _analyze_record(value.to_searchable_text(), value.created_at, value.resolved_dates, content)


def _remember(function: _Function) -> _Function:
    """Return the function with a cache of its last results: for many short texts, and a few long ones."""
    short, long = lru_cache(maxsize=2_048)(function), lru_cache(maxsize=4)(function)

    @wraps(function)
    def ask(text: str, *more: Any) -> Any:
        if len(text) > _LONGEST_REMEMBERED:
            return function(text, *more)
        return short(text, *more) if len(text) <= _LONGEST_SHORT else long(text, *more)

    return cast(_Function, ask)


def _analyze_text(
    text: str,
    written: datetime,
    noted: str = "",
    cues: str = "",
    speaker: str = "",
    language: str | None = None,
) -> AnalyzedText:
    tokens = tokenizer.tokenize(text, language)
    return AnalyzedText(
        terms=tokenizer.pack(tokens),
        length=len(tokens),
        cues=cues,
        speaker=speaker,
        dates=analyze_dates(text, written, noted),
    )


_analyze_paragraph = _remember(_analyze_text)


@_remember
def _analyze_turn(text: str, written: datetime, speaker: str) -> AnalyzedText:
    return _analyze_text(text, written, cues=tokenizer.extract_cues(text), speaker=speaker.casefold())


@_remember
def _analyze_record(text: str, written: datetime, noted: str, content: str | None) -> AnalyzedText:
    if content is None:
        return _analyze_text(text, written, noted)
    # The category "car" does not make an English fact French.
    return _analyze_text(text, written, noted, language=tokenizer.find_language(content))
