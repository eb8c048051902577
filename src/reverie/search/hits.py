"""Hits of a search, and the explanation of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as known
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, get_args

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import Paragraph
from reverie.domain.record import NOTHING, UNTRUSTED, Layer, Record
from reverie.domain.text import timestamps
from reverie.domain.text.excerpts import find_excerpt_start

LONGEST_WHOLE = 800
"""Characters of a text that is shown as a whole."""

LONGEST_PASSAGE = 300
"""Characters that are shown of a longer one around what matched."""

_EQUALLY_WELL = 0.05
"""The largest difference in relevance, importance or confidence of records that answer equally well."""

FoundValue = Record | Turn | Paragraph
"""What is found."""

_NO_PARTS: Mapping[str, float] = MappingProxyType({})
_NO_WORDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explanation of a hit and its rank.

    Attributes:
        matched: The words that it has of the question or in place of one of its words, in the analyzer's form.
        stands_for: Which word of the question a matched word stands for, where it is another one.
        parts: The parts of its score by name (`relevance`, `recency`, `importance`, `confidence`, …),
            each 0 to 1.
        evidence: What relevance was made of, by name (`words`, `pairs`, `neighbours`, …).
        note: What else there is to say, such as how a literal search found it.
    """

    matched: tuple[str, ...] = ()
    stands_for: Mapping[str, str] = field(default_factory=lambda: _NO_WORDS)
    parts: Mapping[str, float] = field(default_factory=lambda: _NO_PARTS)
    evidence: Mapping[str, float] = field(default_factory=lambda: _NO_PARTS)
    note: str = ""

    def __str__(self) -> str:
        pieces = []
        if self.matched:
            pieces.append("matched " + ", ".join(self.list_matches()))
        if self.note:
            pieces.append(self.note)
        pieces.extend(f"{name} {value:.2f}" for name, value in self.parts.items())
        return " · ".join(pieces)

    def list_matches(self) -> list[str]:
        """Return the matched words; `car ≈ volvo` where one stands for another."""
        return [
            f"{self.stands_for[word]} ≈ {word}" if word in self.stands_for else word for word in self.matched
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One record, turn, session or paragraph of a page that a search found.

    Attributes:
        score: 0 to 1, comparable between searches; larger is better.
        explanation: Why it was found, and what its score is made of.
        record: The record found; None for anything else.
        turn: The turn found; for a session, its best turn; None for anything else.
        session: The session found, when sessions were searched for; None otherwise.
        paragraph: The paragraph of `HISTORY.md` or of a page found; None for anything else.
    """

    score: float
    explanation: Explanation = field(hash=False)
    record: Record | None = None
    turn: Turn | None = None
    session: SessionState | None = None
    paragraph: Paragraph | None = None

    @property
    def id(self) -> str:
        """The id of the record, session, turn or paragraph found."""
        if self.session is not None:
            return self.session.id
        return self._value.id

    @property
    def content(self) -> str:
        """Text of the record, turn or paragraph."""
        return self._value.content

    @property
    def passage(self) -> str:
        """The part of the content that matched: at most 300 characters of a text over 800, all of a shorter one."""
        content = self.content
        if len(content) <= LONGEST_WHOLE:
            return content
        start = find_excerpt_start(content, self.explanation.matched, LONGEST_PASSAGE)
        passage = content[start : start + LONGEST_PASSAGE]
        if start + LONGEST_PASSAGE < len(content) and " " in passage[LONGEST_PASSAGE // 2 :]:
            passage = passage[: passage.rindex(" ")]
        return passage.strip()

    @property
    def at(self) -> datetime:
        """Time of creation, of the message, or of what the paragraph reports."""
        value = self._value
        return value.created_at if isinstance(value, Record) else value.at

    @property
    def kind(self) -> str:
        """The record's kind, `turn`, `session` or `paragraph`."""
        return self.record.kind if self.record is not None else self.type

    @property
    def layer(self) -> Layer:
        """The record's layer; turns and paragraphs are episodic."""
        return self.record.layer if self.record is not None else "episodic"

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the record or turn; a paragraph has none."""
        value = self._value
        return NOTHING if isinstance(value, Paragraph) else value.metadata or NOTHING

    @property
    def is_trusted(self) -> bool:
        """Whether it may enter a prompt without a search: its origin is not a tool, the web or an import."""
        return self._value.origin not in UNTRUSTED

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as JSON has it."""
        fields: dict[str, Any] = {
            "id": self.id,
            "type": self.type,
            "score": round(self.score, 6),
            "content": self.content,
            "passage": self.passage,
            "at": timestamps.format_time(self.at),
            "kind": self.kind,
            "layer": self.layer,
            "explanation": {
                "matched": self.explanation.list_matches(),
                "parts": {name: round(value, 6) for name, value in self.explanation.parts.items()},
                "evidence": {name: round(value, 6) for name, value in self.explanation.evidence.items()},
                "note": self.explanation.note,
            },
        }
        if self.record is not None:
            fields["record"] = self.record.to_dict()
        if self.turn is not None:
            fields["turn"] = self.turn.to_dict()
        if self.paragraph is not None:
            fields["paragraph"] = self.paragraph.to_dict()
        if self.session is not None:
            fields["session"] = self.session.to_dict()
        return fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Hit:
        """Read what `to_dict` wrote. Fields that are not known are left out."""
        explanation = data["explanation"]
        words = [word.rpartition(" ≈ ") for word in explanation["matched"]]
        return cls(
            score=data["score"],
            explanation=Explanation(
                matched=tuple(word for _, _, word in words),
                stands_for={word: asked for asked, _, word in words if asked},
                parts=explanation["parts"],
                evidence=explanation["evidence"],
                note=explanation["note"],
            ),
            **{
                name: kind.from_dict(
                    {each.name: found[each.name] for each in known(kind) if each.name in found}
                )
                for name, kind in _VALUES.items()
                if (found := data.get(name)) is not None
            },
        )

    @property
    def type(self) -> Literal["record", "turn", "session", "paragraph"]:
        """Type of the hit."""
        if self.session is not None:
            return "session"
        if self.record is not None:
            return "record"
        return "turn" if self.turn is not None else "paragraph"

    @property
    def _value(self) -> Record | Turn | Paragraph:
        value = self.record or self.turn or self.paragraph
        assert value is not None
        return value


_VALUES: Mapping[str, type[Any]] = {
    "record": Record,
    "turn": Turn,
    "session": SessionState,
    "paragraph": Paragraph,
}

Source = Literal["records", "turns", "pages"]
"""Sources of a search: records, turns of conversations, paragraphs of `HISTORY.md` and of pages."""

SOURCES: tuple[Source, ...] = get_args(Source)

Unit = Literal["turn", "session"]
"""Unit of the hits in conversations: single turns, or whole sessions."""

SearchMode = Literal["words", "literal", "regex"]
"""Mode of a query: words to rank by, a literal text, or a pattern."""


def normalize_words(text: str) -> str:
    """Return a text as it is compared with others: in small letters, with one space between words."""
    return " ".join(text.lower().split())


def remove_repeats(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits without turns and paragraphs that say just what a record among them says."""
    hits = list(hits)
    records = {normalize_words(hit.record.content) for hit in hits if hit.record is not None}
    return [hit for hit in hits if hit.record is not None or normalize_words(_get_text(hit)) not in records]


def _get_text(hit: Hit) -> str:
    return hit.content if hit.paragraph is None else hit.paragraph.text


def get_value(hit: Hit) -> FoundValue | None:
    """Return the record, turn or paragraph of a hit."""
    return hit.record or hit.turn or hit.paragraph


def rank_scope(value: FoundValue | None, places: Mapping[str, int]) -> int:
    """Return which place the scope of what was found has among those that were asked for."""
    return places.get(value.scope if isinstance(value, Record | Turn) else "", 0)


def limit_wider_scopes(hits: Sequence[Hit], places: Mapping[str, int]) -> list[Hit]:
    """Return the hits; a record scores no more than one of a narrower scope that answers equally well.

    Being newer or of another kind does not lift what is everybody's above what a narrower scope says.
    """
    by_place: dict[int, list[Hit]] = {}
    for hit in hits:
        by_place.setdefault(rank_scope(get_value(hit), places), []).append(hit)
    limited: list[Hit] = []
    for place in sorted(by_place):
        narrower = tuple(limited)
        for hit in by_place[place]:
            most = min((other.score for other in narrower if _answers_as_well(other, hit)), default=hit.score)
            limited.append(replace(hit, score=most) if most < hit.score else hit)
    return limited


def _answers_as_well(narrower: Hit, wider: Hit) -> bool:
    """Return whether a record that holds answers at least about as well as another, whatever their ages."""
    if narrower.record is None or narrower.explanation.note:
        return False
    parts, others = narrower.explanation.parts, wider.explanation.parts
    return all(
        parts[name] >= others[name] - _EQUALLY_WELL for name in ("relevance", "importance", "confidence")
    )


def wrap_value(value: FoundValue, why: Explanation, score: float) -> Hit:
    """Return the hit of a value."""
    if isinstance(value, Record):
        return Hit(score=score, explanation=why, record=value)
    if isinstance(value, Turn):
        return Hit(score=score, explanation=why, turn=value)
    return Hit(score=score, explanation=why, paragraph=value)
