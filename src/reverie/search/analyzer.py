"""Analyzer that stores and index use for every record, turn and paragraph."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from reverie.domain.conversation import Turn
from reverie.domain.page import Paragraph
from reverie.domain.passage import AnalyzedText
from reverie.domain.record import Record
from reverie.domain.text import tokenizer
from reverie.search.dates import analyze_dates

_LONGEST_CACHED = 2_000  # characters


def analyze(value: Record | Turn | Paragraph) -> AnalyzedText:
    """Return the tokens of a record, a turn or a paragraph, and further properties for searches.

    All have the dates in their text. A turn also has its speaker and form.
    A headline has none of these, since it is found through its parts. A text of a language with little evidence has the
    tokens of English too, so that a foreign word does not hide the others.

    The same value always gives the same analysis. Results for short paragraphs are cached, since a page that changes is
    analysed as a whole.
    """
    if isinstance(value, Paragraph):
        analyze_paragraph = _analyze_paragraph if len(value.text) <= _LONGEST_CACHED else _analyze_text
        return analyze_paragraph(value.text, value.at)
    text = value.to_searchable_text()
    if isinstance(value, Turn):
        speaker = (value.speaker or value.role).casefold()
        return _analyze_text(text, value.at, cues=tokenizer.extract_cues(text), speaker=speaker)
    if value.is_headline:
        return AnalyzedText(terms="", length=0)
    # The category "car" does not make an English fact French. An item's language is that of its key too.
    speech = "" if value.is_item else value.content
    return _analyze_text(text, value.created_at, value.resolved_dates, speech=speech)


def _analyze_text(
    text: str, written: datetime, noted: str = "", *, cues: str = "", speaker: str = "", speech: str = ""
) -> AnalyzedText:
    tokens = tokenizer.tokenize(text, speech=speech)
    dates = analyze_dates(text, written, noted)
    return AnalyzedText(tokenizer.pack(tokens), len(tokens), speaker, cues, dates)


_analyze_paragraph = lru_cache(maxsize=2_048)(_analyze_text)
