"""Search from query to hits: index, store, ranker.

Every search uses this module: API, prompts, command line and evaluation. `passage_scorer` gathers and scores
candidates by `ranking`, `hit_builder` builds the hits, and `context` chooses the content of prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from copy import copy
from dataclasses import replace
from datetime import UTC, tzinfo
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, assert_never

from reverie.domain.filter import Filter, is_paragraph_allowed
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.passage import Passage, Searchable
from reverie.domain.record import Record
from reverie.domain.text.timestamps import Clock
from reverie.search import scoring, updates
from reverie.search.expansion import expand_query
from reverie.search.headlines import HeadlineIndex, fold_records
from reverie.search.hit_builder import HitBuilder
from reverie.search.hits import (
    SOURCES,
    Explanation,
    FoundValue,
    Hit,
    Source,
    Unit,
    remove_repeats,
    wrap_value,
)
from reverie.search.index.candidates import CandidateIndex
from reverie.search.page_index import PageIndex
from reverie.search.passage_scorer import PassageScorer, ScoredPassage
from reverie.search.query import parse_query
from reverie.search.ranking import RankingSettings
from reverie.search.related_words import RelatedWords, load_related_words
from reverie.search.request import SearchRequest, build_matcher, restrict_to_alive, validate_request
from reverie.search.scope_statistics import ScopeStatistics
from reverie.settings import Settings
from reverie.stores.protocol import Store

if TYPE_CHECKING:
    from reverie.search.vectors.vector_index import VectorIndex

POOL = 40
"""Least candidates from the index; more do not improve the results."""

_MORE_THAN_WANTED = 16
"""Candidates in addition to the wanted hits, if that is more than `POOL`."""

_LARGEST_POOL = 4_096

_TYPES = ("record", "session", "turn", "paragraph")
"""Order of hits with the same score."""

_get_key, _get_thread = attrgetter("key"), attrgetter("thread")


class Searcher:
    """Search over one store and its index. Safe to use from several threads; changes nothing."""

    def __init__(
        self,
        store: Store,
        index: CandidateIndex,
        *,
        clock: Clock,
        settings: RankingSettings,
        vectors: VectorIndex | None = None,
        related: RelatedWords | None = None,
        floor: float | None = None,
        weights: scoring.ScoringSettings = scoring.DEFAULTS,
        zone: tzinfo = UTC,
    ) -> None:
        """Search `store` through `index`.

        Args:
            store: Store of the values.
            index: Index of candidates in it.
            clock: The clock.
            settings: The constants of ranking.
            vectors: Index of vectors; None searches by words alone.
            related: Related words; None takes the shipped table.
            floor: Least relevance of the best hit, 0 to 1; None takes that of `calibration`.
            weights: Weights of relevance, recency, importance, confidence and kind.
            zone: Time zone of the owner.
        """
        self._store = store
        self._index = index
        self._clock = clock
        self._related = related or load_related_words(None)
        self._zone = zone
        self._pages = PageIndex(store)
        self._headlines = HeadlineIndex(store)
        self._statistics = ScopeStatistics(store, index, self._pages, self._headlines)
        self._scorer = PassageScorer(
            store=store,
            candidates=index,
            statistics=self._statistics,
            clock=clock,
            settings=settings,
            vectors=vectors,
            floor=floor,
            weights=weights,
        )
        self._builder = HitBuilder(store=store, pages=self._pages, headlines=self._headlines, clock=clock)

    def with_floor(self, floor: float) -> Searcher:
        """Return a searcher over the same store with another least relevance of the best hit."""
        other = copy(self)
        other._scorer = self._scorer._replace(floor=floor)
        return other

    # -- the ways to search ----------------------------------------------------------------------------

    def records(self, question: SearchRequest) -> list[Hit]:
        """Return records that answer the question, best first."""
        return self._search_hits("record", question)

    def turns(self, question: SearchRequest) -> list[Hit]:
        """Return turns that answer the question, best first. A turn is found through its neighbors too."""
        return self._search_hits("turn", question)

    def paragraphs(self, question: SearchRequest) -> list[Hit]:
        """Return paragraphs of `HISTORY.md` and of pages that answer the question, best first."""
        return self._search_hits("paragraph", question)

    def find_page_paragraph(self, id: str) -> Paragraph | None:
        """Return the paragraph with an id from a page that is no log; None if there is none."""
        return next((paragraph for paragraph in self._pages.read().list_all() if paragraph.id == id), None)

    def search(
        self, question: SearchRequest, sources: Collection[Source], *, unit: Unit = "turn"
    ) -> list[Hit]:
        """Return the hits from several sources as one list, best first.

        A turn or paragraph that only repeats a record of the list is left out. A filter that applies to one source
        leaves the others out.

        Args:
            question: The request.
            sources: Where to search.
            unit: `session` returns each session once, with its best turn, in place of turns.
        """
        validate_request(question)
        hits: list[Hit] = []
        only_turns, only_records = question.allowed.only_turns, question.allowed.only_records
        with self._store.reading(), self._index.reading():
            if "records" in sources and not only_turns:
                hits += self.records(question)
                if len(hits) >= question.limit:  # other hits need a higher score than the last one
                    question = question._replace(
                        min_score=max(question.min_score, min(hit.score for hit in hits))
                    )
            if "turns" in sources and not only_records:
                hits += self.sessions(question) if unit == "session" else self.turns(question)
            if "pages" in sources and not (only_turns or only_records):
                hits += self.paragraphs(question)
        if len(sources) == 1:
            return hits
        hits.sort(key=lambda hit: (-hit.score, _TYPES.index(hit.type)))
        return remove_repeats(hits)[: question.limit]

    def sessions(self, question: SearchRequest) -> list[Hit]:
        """Return sessions that answer the question, best first; each ranks as its best turn.

        Sums over the best turns, and BM25 over whole sessions, were rejected. On LoCoMo's development half they change
        recall@10 and any@5 by at most .002, or make them worse.
        """
        hits = self._search_hits("turn", question, distinct=_get_thread)
        return [replace(hit, session=self._store.session(hit.turn.session)) for hit in hits if hit.turn]

    def recall(self, query: str, *, allowed: Filter, limit: int, exclude: frozenset[str]) -> list[Hit]:
        """Return records, turns and paragraphs for a prompt, best first."""
        return self.search(SearchRequest(text=query, allowed=allowed, limit=limit, exclude=exclude), SOURCES)

    def recent(self, *, allowed: Filter, limit: int) -> list[Record]:
        """Return the records changed last, newest first, with headlines in place of their parts."""
        allowed = restrict_to_alive(allowed, self._clock())
        if allowed.headlines is False or self._headlines.is_empty():
            return list(self._store.find(allowed, limit=limit))
        return list(islice(self.fold(self._store.find(allowed), allowed), limit))

    def has_headlines(self) -> bool:
        """Return whether there are headlines, by which `fold` may change a list."""
        return not self._headlines.is_empty()

    def fold(self, records: Iterable[Record], allowed: Filter) -> Iterator[Record]:
        """Yield the records of a list, each current headline in place of the first of its parts."""
        return fold_records(records, self._headlines, allowed, self._clock())

    def _search_hits(
        self,
        subject: Searchable,
        question: SearchRequest,
        *,
        distinct: Callable[[Passage], int | None] = _get_key,
    ) -> list[Hit]:
        """Return hits of one kind, at most one for each value of `distinct`."""
        validate_request(question)
        question = question._replace(allowed=restrict_to_alive(question.allowed, self._clock()))
        if question.text is None:
            return self._list_newest(subject, question)
        if question.mode != "words":
            return self._search_pattern(subject, question, build_matcher(question.text, question.mode))
        with self._store.reading(), self._index.reading():
            return self._search_ranked(subject, question, question.text, distinct)

    def _list_newest(self, subject: Searchable, question: SearchRequest) -> list[Hit]:
        """Return the latest changes, newest first."""
        values = self._iterate_values(subject, question, None)
        if subject == "record" and not question.repeats:
            values = self.fold((value for value in values if isinstance(value, Record)), question.allowed)
        return self._build_hits(values, question, note="newest first", score=0.0)

    def _search_pattern(
        self, subject: Searchable, question: SearchRequest, has_match: Callable[[str], object]
    ) -> list[Hit]:
        """Return the hits with the literal text or a match of the pattern, newest first."""
        containing = question.text if question.mode == "literal" else None
        values = self._iterate_values(subject, question, containing)
        matching = (
            value
            for value in values
            if has_match(value.content) and not (isinstance(value, Record) and value.is_headline)
        )
        note = f"has {question.text!r}" if question.mode == "literal" else f"matches /{question.text}/"
        return self._build_hits(matching, question, note=note, score=1.0)

    def _iterate_values(
        self, subject: Searchable, question: SearchRequest, containing: str | None
    ) -> Iterator[FoundValue]:
        match subject:
            case "record":
                return self._store.find(question.allowed, containing=containing)
            case "turn":
                return self._store.scan_turns(question.allowed, containing=containing)
            case "paragraph":
                paragraphs = [*self._pages.read().list_all(), *self._store.paragraphs(page=HISTORY)]
                paragraphs = [one for one in paragraphs if is_paragraph_allowed(question.allowed, one)]
                return iter(sorted(reversed(paragraphs), key=lambda one: one.at, reverse=True))
            case _:
                assert_never(subject)

    def _build_hits(
        self, values: Iterator[FoundValue], question: SearchRequest, *, note: str, score: float
    ) -> list[Hit]:
        allowed_values = (value for value in values if value.id not in question.exclude)
        return [
            wrap_value(value, Explanation(note=note), score)
            for value in islice(allowed_values, question.limit)
        ]

    # -- ranked search ---------------------------------------------------------------------------------

    def _search_ranked(
        self,
        subject: Searchable,
        question: SearchRequest,
        text: str,
        distinct: Callable[[Passage], int | None],
    ) -> list[Hit]:
        """Return ranked hits; repeat with a larger pool if restrictions left too few."""
        measure = self._statistics.measure(subject, question)
        if not measure.passages:
            return []
        query = parse_query(text, speakers=measure.speakers, now=self._clock(), zone=self._zone)
        if not (query or self._scorer.vectors):
            return []
        counts = self._statistics.count_words(subject, question)
        query = expand_query(
            query,
            count=counts.get,
            collect_words=lambda word: self._index.collect_words(
                subject, word, question.allowed, category=question.isolated_category
            ),
            related=self._related,
        )
        pool = max(POOL, question.limit + _MORE_THAN_WANTED)
        past = subject == "record" and updates.asks_for_past(query.text)
        is_current = subject == "record" and not query.dates and not past
        folds = subject == "record" and not question.repeats and not self._headlines.is_empty()
        wanted = question._replace(limit=question.limit + _MORE_THAN_WANTED) if folds else question
        while True:
            scored, full = self._scorer.score(subject, query, question, counts, pool)
            if is_current:
                scored = self._scorer.put_current_first(scored, query, question, counts)
            firsts: dict[int | None, ScoredPassage] = {}
            for entry in scored:
                firsts.setdefault(distinct(entry.passage), entry)
            hits = self._builder.build(subject, list(firsts.values()), wanted, current=is_current, past=past)
            if subject == "record" and query.is_sentence:
                hits = self._builder.add_related(hits, query, wanted)
            if folds:
                hits = self._builder.fold(hits, question)[: question.limit]
            exhausted = not full or not scored or scored[-1].score.total < question.min_score
            if len(hits) >= question.limit or exhausted or pool >= _LARGEST_POOL:
                return hits
            pool = min(4 * pool, _LARGEST_POOL)


def to_scoring_settings(settings: Settings) -> scoring.ScoringSettings:
    """Return the scoring weights with the decay of recency from the settings."""
    return scoring.ScoringSettings(half_life=settings.decay_days if settings.decay_enabled else math.inf)
