"""Passages: packed tokens of a record, turn or paragraph, and the numbers that ranking needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from reverie.domain.conversation import Turn
from reverie.domain.page import Paragraph
from reverie.domain.record import Record

Searchable = Literal["record", "turn", "paragraph"]
SEARCHABLE: tuple[Searchable, ...] = ("record", "turn", "paragraph")


Among = Literal["words", "dates", "speakers", "cues"]


def get_searchable_kind(value: Record | Turn | Paragraph) -> Searchable:
    """Return which of the three a value is."""
    if isinstance(value, Record):
        return "record"
    return "turn" if isinstance(value, Turn) else "paragraph"


def get_scope(value: Record | Turn | Paragraph) -> str:
    """Return the scope of a value; a paragraph belongs to everybody."""
    return "" if isinstance(value, Paragraph) else value.scope


class Passage(NamedTuple):
    """One record, turn or paragraph as ranking sees it. A named tuple, because a search makes hundreds.

    Attributes:
        key: The store's own number of it; later ones are larger.
        terms: Its tokens in order, each wrapped in single spaces: `" rock  music "`, so that counting
            `" rock "` gives the exact frequency.
        length: How many tokens these are.
        thread: The number of its session; None for a record or paragraph.
        position: Its place in the session; 0 for a record or paragraph.
        speaker: Who said it, lower-case; empty for a record or paragraph.
        at: When it was created or said, or the time it tells of, in seconds since 1970.
        cues: What the analyzer noted beside the words: of a turn's form, such as that it asks something; of
            a record, the keys by which its like is found. Opaque to stores.
        dates: The words of its date, packed like `terms`.
        importance: 0 to 1.
        confidence: 0 to 1.
        kind: The record's kind; `turn` for a turn, `paragraph` for a paragraph.
        pinned: Whether it is kept from decay.
        expires_at: When it leaves search by itself, in seconds since 1970; None for never.
    """

    key: int
    terms: str
    length: int
    thread: int | None = None
    position: int = 0
    speaker: str = ""
    at: float = 0.0
    cues: str = ""
    dates: str = ""
    importance: float = 0.5
    confidence: float = 0.8
    kind: str = "fact"
    pinned: bool = False
    expires_at: float | None = None

    @property
    def analysis(self) -> AnalyzedText:
        """What the analyzer made of it."""
        return AnalyzedText(self.terms, self.length, self.speaker, self.cues, self.dates)


class AnalyzedText(NamedTuple):
    """Result of the analyzer for one record, turn or paragraph. The store keeps it beside the value.

    Attributes:
        terms: Its tokens, packed.
        length: How many tokens these are.
        speaker: Who said it, lower-case; empty for a record.
        cues: What it noted beside the words: of a turn's form, such as that it asks something; of a record,
            the keys by which its like is found. Opaque to stores.
        dates: The words of its date, packed.
    """

    terms: str
    length: int
    speaker: str = ""
    cues: str = ""
    dates: str = ""


Analyse = Callable[[Record | Turn | Paragraph], AnalyzedText]
"""The analyzer, handed to a store when it is opened, so that every path of writing uses it."""


class CollectionStats(NamedTuple):
    """Size of what some scopes hold for search.

    Attributes:
        passages: How many live records, or turns, or paragraphs.
        tokens: How many tokens they have together.
        speakers: Who speaks in them, lower-case.
    """

    passages: int
    tokens: int
    speakers: frozenset[str] = frozenset()

    @property
    def mean_length(self) -> float:
        """Tokens of an average passage; 1 when there is none."""
        return self.tokens / self.passages if self.passages else 1.0


class TermWeight(NamedTuple):
    """Something that a passage may have, and what it counts for.

    Attributes:
        among: Among what it stands: `words`, `dates`, `speakers`, or the `cues` of records that say alike.
        token: The word, day or name, in the analyzer's form.
        weight: What it counts for, a whole number of 1 or more.
    """

    among: Among
    token: str
    weight: int


class CandidateQuery(NamedTuple):
    """Words, dates and speakers to find, with their weights.

    Attributes:
        words: Tokens and weights; a passage needs at least one of these or of the dates.
        dates: Date tokens and weights.
        speakers: Lower-case names and weights.
    """

    words: Sequence[tuple[str, float]]
    dates: Sequence[tuple[str, float]] = ()
    speakers: Sequence[tuple[str, float]] = ()
