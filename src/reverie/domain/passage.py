"""Passages: packed tokens of a record, turn or paragraph, and the numbers that ranking needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeGuard

from reverie.domain.conversation import Turn
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.record import Record

Searchable = Literal["record", "turn", "paragraph"]
SEARCHABLE: tuple[Searchable, ...] = ("record", "turn", "paragraph")


Among = Literal["words", "dates", "speakers"]


def get_searchable_kind(value: Record | Turn | Paragraph) -> Searchable:
    """Return the kind of a searchable value."""
    if isinstance(value, Record):
        return "record"
    return "turn" if isinstance(value, Turn) else "paragraph"


def get_scope(value: Record | Turn | Paragraph) -> str:
    """Return the scope of a value; a paragraph belongs to everybody."""
    return "" if isinstance(value, Paragraph) else value.scope


def is_searched(value: object) -> TypeGuard[Record | Turn | Paragraph]:
    """Return whether searches find a value: not archived records, nor daily notes, since they repeat turns."""
    return (
        isinstance(value, Turn)
        or (isinstance(value, Record) and not value.archived)
        or (isinstance(value, Paragraph) and value.page == HISTORY)
    )


class Passage(NamedTuple):
    """One record, turn or paragraph for the ranking. A named tuple, because a search makes hundreds.

    Attributes:
        key: The store's number of it; later ones are larger.
        terms: Its tokens in order with spaces around them: `" rock music "`; see `tokenizer.pack`. The count of
            `" rock "` is the exact frequency.
        length: Number of tokens.
        thread: The number of its session; None for a record or paragraph.
        position: Its place in the session; 0 for a record or paragraph.
        speaker: Name of the speaker, lower-case; empty for a record or paragraph.
        at: Time of creation or of the message, or the time that a paragraph reports, in seconds since 1970.
        cues: Further results of the analyzer. For a turn they describe its form, such as a question; for a record
            they are the keys of repetitions. Opaque to stores.
        dates: Date tokens, packed like `terms`.
        importance: 0 to 1.
        confidence: 0 to 1.
        kind: The record's kind; `turn` for a turn, `paragraph` for a paragraph.
        pinned: Whether it is protected from decay.
        expires_at: When searches stop finding it, in seconds since 1970; None for never.
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
        """The result of the analyzer."""
        return AnalyzedText(self.terms, self.length, self.speaker, self.cues, self.dates)


class AnalyzedText(NamedTuple):
    """Result of the analyzer for one record, turn or paragraph. The store keeps it beside the value.

    Attributes:
        terms: Its tokens, packed.
        length: Number of tokens.
        speaker: Name of the speaker, lower-case; empty for a record.
        cues: See `Passage`.
        dates: Date tokens, packed.
    """

    terms: str
    length: int
    speaker: str = ""
    cues: str = ""
    dates: str = ""


Analyse = Callable[[Record | Turn | Paragraph], AnalyzedText]
"""The analyzer, which a store receives when it is opened and calls for everything that is written."""


class CollectionStats(NamedTuple):
    """Number and length of the searchable passages of some scopes.

    Attributes:
        passages: Number of live records, turns or paragraphs.
        tokens: Number of their tokens.
        speakers: Names of the speakers, lower-case.
    """

    passages: int
    tokens: int
    speakers: frozenset[str] = frozenset()

    @property
    def mean_length(self) -> float:
        """Tokens of an average passage; 1 when there is none."""
        return self.tokens / self.passages if self.passages else 1.0


class TermWeight(NamedTuple):
    """Token to look for, with its weight.

    Attributes:
        among: The tokens to look in: `words`, `dates`, `speakers` or `cues`.
        token: The token, in the analyzer's form.
        weight: Its weight, a whole number of 1 or more.
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
