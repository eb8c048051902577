"""What does search keep of a record or a turn? The one analyser that is handed to stores and index."""

from __future__ import annotations

from functools import lru_cache

from reverie.passages import Analysis
from reverie.recall import analysis
from reverie.records import Record
from reverie.turns import Turn

_LONGEST_REMEMBERED = 2_000


def analyse(value: Record | Turn) -> Analysis:
    """The tokens, cues, speaker and dates of a record or a turn.

    The same value always gives the same analysis. A value that was just analysed costs next to nothing:
    the store and the index both ask.
    """
    text = value.searchable_text()
    read = _read_again if len(text) <= _LONGEST_REMEMBERED else _read
    terms, length, cues = read(text)
    if isinstance(value, Record):
        return Analysis(terms=terms, length=length, cues=cues)
    return Analysis(
        terms=terms,
        length=length,
        cues=cues,
        speaker=(value.speaker or value.role).casefold(),
        dates=analysis.pack(analysis.date_tokens(value.at)),
    )


def _read(text: str) -> tuple[str, int, str]:
    tokens = analysis.tokens(text)
    return analysis.pack(tokens), len(tokens), analysis.cues(text)


_read_again = lru_cache(maxsize=2_048)(_read)
