"""Builder of hits: it loads the values of scored passages, and checks them against the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from reverie.domain.conversation import Turn
from reverie.domain.passage import Searchable
from reverie.domain.record import STANDING
from reverie.domain.text.timestamps import Clock
from reverie.search import updates
from reverie.search.headlines import HeadlineIndex, fold_hits
from reverie.search.hits import (
    Explanation,
    FoundValue,
    Hit,
    get_value,
    limit_wider_scopes,
    normalize_words,
    rank_scope,
    wrap_value,
)
from reverie.search.page_index import PageIndex
from reverie.search.passage_scorer import ScoredPassage
from reverie.search.query import ParsedQuery
from reverie.search.request import SearchRequest, is_allowed
from reverie.stores.protocol import Store, get_reader, read_or_none

_LOOKED_AT = 3  # best hits whose categories are compared
_ALIKE = 2  # of them that must have the same category
_GATHERED = 0.3
"""Share of the best score for other records of that category. On the shipped questions lists gain .04 at .3, and
everything else loses from .5 on."""
_MOST_GATHERED = 12

_SPARE = 4
"""Number of values loaded beyond the limit, so that duplicates need no second read."""

_SPARE_BESIDE_WIDER = 24
"""The same for a search of several scopes, whose records may change places."""


class HitBuilder(NamedTuple):
    """Builds the hits of a request from scored passages. Safe to use from several threads.

    Attributes:
        store: Where the values are.
        pages: Paragraphs of pages that are no logs.
        headlines: Which headline stands for which records.
        clock: What tells the time.
    """

    store: Store
    pages: PageIndex
    headlines: HeadlineIndex
    clock: Clock

    def build(
        self,
        subject: Searchable,
        scored: Sequence[ScoredPassage],
        question: SearchRequest,
        *,
        current: bool,
        past: bool,
    ) -> list[Hit]:
        """Return the first `limit` hits with their values, without repetitions and values that are not allowed.

        Of equal texts in several scopes, the one of the first scope in the filter is taken. The successor of a hit
        precedes it if the question is about the present (`current`), and follows it if it is about the past (`past`).
        """
        found: list[tuple[float, ScoredPassage, FoundValue]] = []
        ranks: dict[str, int] = {}
        places = {scope: place for place, scope in enumerate(question.allowed.scopes or ())}
        step = question.limit + (_SPARE if len(places) < 2 else _SPARE_BESIDE_WIDER)
        now = None if question.allowed.valid_at is not None else self.clock()
        share_of_ended = 1.0 if past else updates.NOT_HOLDING
        ended = False
        for start in range(0, len(scored), step):
            batch = [
                entry for entry in scored[start : start + step] if entry.score.total >= question.min_score
            ]
            for entry, value in zip(batch, self._load_values(subject, batch), strict=True):
                if value is None or not is_allowed(question, value):
                    continue
                score = entry.score.total
                if updates.is_not_holding(value, now):
                    score *= share_of_ended
                    ended = current or past
                if score < question.min_score:
                    continue
                text = _get_identity(value)
                if question.repeats or text not in ranks:
                    ranks[text] = len(found)
                    found.append((score, entry, value))
                elif rank_scope(value, places) < rank_scope(found[ranks[text]][2], places):
                    found[ranks[text]] = score, entry, value
            if len(found) >= question.limit or len(batch) < step:
                break
        found.sort(key=lambda one: -one[0])
        if len(places) < 2 and not ended:
            return [_build_hit(*one, now) for one in found[: question.limit]]
        hits = [_build_hit(*one, now) for one in found]
        if ended and now is not None:
            hits = self._order_ended(hits, question, now, past=past)
        if len(places) > 1:
            hits = limit_wider_scopes(hits, places)
            hits.sort(key=lambda hit: (-hit.score, rank_scope(get_value(hit), places)))
        return hits[: question.limit]

    def _order_ended(
        self, hits: Sequence[Hit], question: SearchRequest, now: datetime, *, past: bool
    ) -> list[Hit]:
        if past:
            return updates.put_ended_first(hits)
        get_records = partial(read_or_none, self.store.records)
        return updates.put_successors_first(hits, now, get_records, partial(is_allowed, question))

    def add_related(self, hits: list[Hit], query: ParsedQuery, question: SearchRequest) -> list[Hit]:
        """Return the hits with related records that need no word of the query, at a fixed share of the best score.

        For a request they are preferences and constraints. Otherwise they are the records of the category that most of
        the best hits have, and hits of that category get at least the same score.
        """
        found = [hit.record for hit in hits if hit.record and hit.explanation.evidence]
        categories = Counter(record.category for record in found[:_LOOKED_AT] if record.category)
        category, count = categories.most_common(1)[0] if categories else ("", 0)
        if query.is_request:
            why = "holds for whatever is done"
            allowed = replace(question.allowed, kinds=STANDING)
        elif count >= _ALIKE:
            why = f"in the category {category}, as the best hits are"
            allowed = replace(question.allowed, categories=(category,))
        else:
            return hits
        score = _GATHERED * hits[0].score if hits else _GATHERED * _GATHERED
        if score < question.min_score:
            return hits
        if not query.is_request:
            hits = _raise_members(hits, category, score)
        room = question.limit - sum(hit.score >= score for hit in hits)
        if room <= 0:
            return hits
        known = {hit.id for hit in hits} | question.exclude
        texts = {normalize_words(hit.content) for hit in hits}
        valid_at = question.allowed.valid_at or self.clock()
        members = self.store.find(replace(allowed, valid_at=valid_at, headlines=False), limit=_MOST_GATHERED)
        gathered = (
            Hit(score=score, explanation=Explanation(note=why), record=record)
            for record in members
            if record.id not in known and (question.repeats or normalize_words(record.content) not in texts)
        )
        return sorted([*hits, *islice(gathered, room)], key=lambda hit: -hit.score)[: question.limit]

    def fold(self, hits: list[Hit], question: SearchRequest) -> list[Hit]:
        """Return the hits with headlines in place of their parts."""
        records = [hit.record for hit in hits if hit.record is not None]
        clusters = self.headlines.find(records, question.allowed, self.clock())
        return fold_hits(hits, clusters, question.exclude) if clusters else hits

    def _load_values(self, subject: Searchable, batch: Sequence[ScoredPassage]) -> list[FoundValue | None]:
        """Return the values of the passages; None for a value that was deleted, or cannot be read."""
        keys = [entry.passage.key for entry in batch]
        if any(key < 0 for key in keys):
            pages = self.pages.read()
            stored = iter(self._load_values(subject, [entry for entry in batch if entry.passage.key >= 0]))
            return [pages.get(key) if key < 0 else next(stored) for key in keys]
        return read_or_none(get_reader(self.store, subject), keys)


def _raise_members(hits: Sequence[Hit], category: str, least: float) -> list[Hit]:
    """Return the hits, best first, with at least a certain score for those of a category found by words alone."""
    raised = [
        replace(hit, score=least)
        if hit.record
        and hit.record.category == category
        and hit.score < least
        and "vector" not in hit.explanation.evidence
        else hit
        for hit in hits
    ]
    return sorted(raised, key=lambda hit: -hit.score)


def _build_hit(score: float, entry: ScoredPassage, value: FoundValue, now: datetime | None) -> Hit:
    ranked = entry.ranked
    matches = ranked.list_matches()
    why = Explanation(
        matched=tuple(matches),
        stands_for={token: term for token, term in matches.items() if token != term},
        parts=entry.score.parts,
        evidence=ranked.parts,
        note="does not hold now: it did before, or will later" if updates.is_not_holding(value, now) else "",
    )
    return wrap_value(value, why, score)


def _get_identity(value: FoundValue) -> str:
    """Return the text by which repetitions are found. Turns are never repetitions."""
    return value.id if isinstance(value, Turn) else normalize_words(value.content)
