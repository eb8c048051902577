"""Requests and hits of a search, and the explanation of each hit."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from reverie.domain.conversation import SessionState, Turn
from reverie.domain.filter import (
    Filter,
    is_paragraph_allowed,
    is_record_allowed,
    is_turn_allowed,
    validate_filter,
)
from reverie.domain.lazy_dataclass import dataclass, field, replace
from reverie.domain.lazy_dataclass import fields as known
from reverie.domain.page import Paragraph
from reverie.domain.record import NOTHING, UNTRUSTED, Layer, Record, validate_choice, validate_fraction
from reverie.domain.text import timestamps
from reverie.domain.text.tokenizer import find_excerpt
from reverie.domain.text.validation import clean_text, to_storable, validate_count, validate_raw_text
from reverie.domain.user_patterns import UserPattern

if TYPE_CHECKING:
    from reverie.search.passage_scorer import ScoredPassage

LONGEST_QUERY = 10_000
"""Characters of a question; a prompt's message is cut to it, a search refuses more."""

MOST_HITS = 1_000

PATTERN_TIMEOUT_S = 5.0
"""Seconds of processor time that a pattern may take in one search."""


class SearchRequest(NamedTuple):
    """Parsed query with its restrictions.

    Attributes:
        text: The question; None for the latest changes.
        allowed: Filter of the result.
        limit: Most hits, 1 to 1,000.
        min_score: Least score of a hit, 0 to 1.
        exclude: Ids of records, turns and paragraphs that must not be found.
        mode: How the text is interpreted.
        repeats: Whether all records that say the same are found, and those under a headline.
        isolated_category: A category that is searched as if there were no other one. `allowed` has it and the scopes;
            words are counted in it alone, and vectors are not used.
    """

    text: str | None
    allowed: Filter
    limit: int = 10
    min_score: float = 0.0
    exclude: frozenset[str] = frozenset()
    mode: SearchMode = "words"
    repeats: bool = False
    isolated_category: str | None = None


def validate_request(question: SearchRequest) -> SearchRequest:
    """Return the question with a text that can be searched; raise `InvalidInput` where a field is not valid."""
    text = question.text
    if isinstance(text, str) and question.mode == "words":
        half = LONGEST_QUERY // 2 - 1
        text = clean_text(text if len(text) <= LONGEST_QUERY else f"{text[:half]}\n{text[-half:]}")
    elif isinstance(text, str):
        text = to_storable(text)  # as what is stored
    if text is not None:
        validate_raw_text(text, name="query", longest=LONGEST_QUERY, empty=True)
    validate_count(question.limit, name="limit", most=MOST_HITS)
    validate_choice(question.mode, get_args(SearchMode), name="mode")
    validate_fraction(question.min_score, name="min_score")
    validate_filter(question.allowed)
    return question if text == question.text else question._replace(text=text)


def restrict_to_alive(allowed: Filter, now: datetime) -> Filter:
    """Return the filter with `now` as the time of expiry, unless it has one."""
    return allowed if allowed.alive_at is not None else replace(allowed, alive_at=now)


def is_allowed(question: SearchRequest, value: FoundValue) -> bool:
    """Return whether the value passes the filter. Neighbors were not filtered before, and time has passed.

    A headline is found through its parts only.
    """
    allowed = question.allowed
    if value.id in question.exclude:
        return False
    if isinstance(value, Record):
        return is_record_allowed(allowed, value) and not value.is_headline
    return (
        is_turn_allowed(allowed, value) if isinstance(value, Turn) else is_paragraph_allowed(allowed, value)
    )


def build_matcher(text: str, mode: SearchMode) -> Callable[[str], object]:
    """Return a function that searches a text; raise `InvalidInput` if the pattern is not valid.

    The function raises `InvalidInput` if a pattern takes more than `PATTERN_TIMEOUT_S` for all texts together.
    """
    validate_raw_text(text, name="query", longest=LONGEST_QUERY)
    if mode == "literal":
        return re.compile(re.escape(text), re.IGNORECASE).search
    pattern, spent = UserPattern(text), 0.0

    def has_match(content: str) -> bool:
        nonlocal spent
        began = time.process_time()
        found = pattern.has_match(content, timeout_s=max(PATTERN_TIMEOUT_S - spent, 0.001))
        spent += time.process_time() - began
        return found

    return has_match


LONGEST_WHOLE = 800
"""Characters of a text that is shown as a whole."""

LONGEST_PASSAGE = 300
"""Characters of a longer text that are shown around its matches."""

_EQUALLY_WELL = 0.05
"""The largest difference in relevance, importance or confidence of records that answer equally well."""

FoundValue = Record | Turn | Paragraph
"""Value of a hit."""


class _Deferred:
    """What the fields of an explanation are computed from."""

    __slots__ = ("_entry",)


_DEFERRED: Mapping[str, Callable[[Any], Any]] = {
    "matched": lambda why: tuple(why._entry.ranked.list_matches()),
    "stands_for": lambda why: {
        token: term for token, term in why._entry.ranked.list_matches().items() if token != term
    },
    "parts": attrgetter("_entry.score.parts"),
    "evidence": attrgetter("_entry.ranked.parts"),
    **{name: attrgetter(f"_entry.ranked.{name}") for name in ("coverage", "is_literal", "rarest")},
}
"""How the fields of an explanation are computed."""

_NO_PARTS: Mapping[str, float] = MappingProxyType({})
_NO_WORDS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(_Deferred):
    """Explanation of a hit and its rank.

    Attributes:
        matched: Its words that are words of the question or alternatives for them, in the analyzer's form.
        stands_for: The word of the question for each matched alternative.
        parts: The parts of its score by name (`relevance`, `recency`, `importance`, `confidence`, …),
            each 0 to 1.
        evidence: The parts of relevance by name (`words`, `pairs`, `neighbours`, …).
        note: Further information, such as how a literal search found it.
        coverage: Share of the question's weight that the matched words and the date have, 0 to 1.
        is_literal: Whether it has a word of the question itself, and not only words of related meaning.
        rarest: Number of passages with the rarest of its matched words.
    """

    matched: tuple[str, ...] = ()
    stands_for: Mapping[str, str] = field(default_factory=lambda: _NO_WORDS)
    parts: Mapping[str, float] = field(default_factory=lambda: _NO_PARTS)
    evidence: Mapping[str, float] = field(default_factory=lambda: _NO_PARTS)
    note: str = ""
    coverage: float = 0.0
    is_literal: bool = False
    rarest: int = sys.maxsize

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in _DEFERRED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            object.__setattr__(self, name, _DEFERRED[name](self))
            return getattr(self, name)

    def __str__(self) -> str:
        pieces = []
        if self.matched:
            pieces.append("matched " + ", ".join(self.list_matches()))
        if self.note:
            pieces.append(self.note)
        pieces.extend(f"{name} {value:.2f}" for name, value in self.parts.items())
        return " · ".join(pieces)

    def list_matches(self) -> list[str]:
        """Return the matched words; `car ≈ volvo` for an alternative."""
        return [
            f"{self.stands_for[word]} ≈ {word}" if word in self.stands_for else word for word in self.matched
        ]


def defer_explanation(entry: ScoredPassage, note: str) -> Explanation:
    """Return an explanation whose fields are computed when they are read: most are never shown."""
    why = object.__new__(Explanation)
    object.__setattr__(why, "_entry", entry)
    object.__setattr__(why, "note", note)
    return why


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One record, turn, session or paragraph of a page that a search found.

    Attributes:
        score: 0 to 1, comparable between searches; larger is better.
        explanation: Why it was found, and the parts of its score.
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
        """The part of the content that matched: at most 300 characters of a text over 800, or a whole shorter text."""
        content = self.content
        if len(content) <= LONGEST_WHOLE:
            return content
        return find_excerpt(content, self.explanation.matched, LONGEST_PASSAGE)[1].strip()

    @property
    def at(self) -> datetime:
        """Time of creation or of the message, or the time that the paragraph reports."""
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
        """Return the hit as JSON values."""
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
        """Read what `to_dict` wrote. Unknown fields are ignored."""
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
    """Return a text in small letters with one space between words, for comparisons."""
    return " ".join(text.lower().split())


def remove_repeats(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits, best first, without turns and paragraphs of the same words as a record among them.

    The record gets the better score of the two.
    """
    read = [(normalize_words(hit.paragraph.text if hit.paragraph else hit.content), hit) for hit in hits]
    records = {words for words, hit in read if hit.record is not None}
    best: dict[str, float] = {}  # of the turns and paragraphs with the same words
    for words, hit in read:
        if hit.record is None:
            best[words] = max(hit.score, best.get(words, 0.0))
    kept = []
    for words, hit in read:
        if hit.record is not None:
            kept.append(replace(hit, score=max(hit.score, best.get(words, 0.0))) if words in best else hit)
        elif words not in records:
            kept.append(hit)
    return sorted(kept, key=lambda hit: -hit.score)


def get_value(hit: Hit) -> FoundValue | None:
    """Return the record, turn or paragraph of a hit."""
    return hit.record or hit.turn or hit.paragraph


def rank_scope(value: FoundValue | None, places: Mapping[str, int]) -> int:
    """Return the place of a value's scope among the scopes of the request."""
    return places.get(value.scope if isinstance(value, Record | Turn) else "", 0)


def limit_wider_scopes(hits: Sequence[Hit], places: Mapping[str, int]) -> list[Hit]:
    """Return the hits; a record scores no more than one of a narrower scope that answers equally well.

    So recency and kind do not raise a record of a wider scope above that of a narrower one.
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
    """Return whether a valid record answers about as well as another one, or better, whatever their ages."""
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
