"""Hits that a search left out, with the reasons."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reverie.domain.filter import Filter, is_paragraph_allowed, is_record_allowed, is_turn_allowed
from reverie.domain.text.tokenizer import STOP_WORDS, tokenize
from reverie.search.hits import Explanation, Hit, Source, normalize_words
from reverie.search.request import MOST_HITS, SearchRequest
from reverie.search.searcher import Searcher
from reverie.stores.protocol import Store

Reason = Literal["archived", "filtered", "repeated", "floor", "rank"]
"""Reasons: it is archived; a filter excludes it; a hit says the same or is its headline; nothing was found, because it
has too little of the question; it ranks after the last hit."""

_FIELDS = (
    "categories",
    "tags",
    "kinds",
    "layers",
    "origins",
    "created_after",
    "created_before",
    "valid_at",
    "sessions",
    "roles",
)
_MORE = 20
_MOST_ARCHIVED = 200
"""Archived records that are examined; those that changed last."""

_LEAST_SHARED = 0.5
"""Share of the words of a question that an archived record must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A hit that was left out.

    Attributes:
        hit: The hit.
        why: The reason.
        fields: Names of the fields of `Filter` that exclude it.
    """

    hit: Hit
    why: Reason
    fields: tuple[str, ...] = ()


def find_left_out(
    searcher: Searcher, request: SearchRequest, sources: Collection[Source], hits: Sequence[Hit], *, most: int
) -> list[LeftOut]:
    """Return hits that a search left out, best first, then archived records; nothing of other scopes.

    Args:
        searcher: The searcher.
        request: Its request.
        sources: The searched sources.
        hits: Its hits.
        most: Most hits to return, and most archived records.
    """
    patient = searcher.with_floor(0.0)
    everything = request._replace(
        allowed=Filter(scopes=request.allowed.scopes, archived=None),
        limit=min(len(hits) + most + _MORE, MOST_HITS),
        min_score=0.0,
        repeats=True,
    )
    known = {hit.id for hit in hits}
    others = [hit for hit in patient.search(everything, sources) if hit.id not in known]
    if request.mode == "words" and request.text and "records" in sources:
        others = [*others[:most], *_find_archived(searcher._store, request, request.text)[:most]]
    return [_explain(hit, request, hits) for hit in others[: 2 * most]]


def _find_archived(store: Store, request: SearchRequest, text: str) -> list[Hit]:
    """Return archived records with most words of a question. They are not in the index."""
    asked = frozenset(tokenize(text)) - STOP_WORDS
    archived = store.find(Filter(scopes=request.allowed.scopes, archived=True), limit=_MOST_ARCHIVED)
    found = []
    for record in archived if asked else ():
        shared = asked & frozenset(tokenize(record.content))
        if len(shared) >= _LEAST_SHARED * len(asked):
            why = Explanation(matched=tuple(sorted(shared)))
            found.append(Hit(score=len(shared) / len(asked), explanation=why, record=record))
    return sorted(found, key=lambda hit: -hit.score)


def _explain(hit: Hit, request: SearchRequest, hits: Sequence[Hit]) -> LeftOut:
    if hit.record is not None and hit.record.archived:
        return LeftOut(hit=hit, why="archived")
    if fields := tuple(name for name in _FIELDS if not _is_allowed(name, request.allowed, hit)):
        return LeftOut(hit=hit, why="filtered", fields=fields)
    words = normalize_words(hit.content)
    if any(
        normalize_words(each.content) == words or (each.record and hit.id in each.record.parts)
        for each in hits
    ):
        return LeftOut(hit=hit, why="repeated")
    return LeftOut(hit=hit, why="rank" if hits else "floor")


def _is_allowed(name: str, allowed: Filter, hit: Hit) -> bool:
    """Return whether one field of a filter lets a hit through."""
    alone = replace(Filter(archived=None), **{name: getattr(allowed, name)})
    if hit.record is not None:
        return is_record_allowed(alone, hit.record)
    if hit.turn is not None:
        return is_turn_allowed(alone, hit.turn)
    assert hit.paragraph is not None
    return is_paragraph_allowed(alone, hit.paragraph)
