"""Search from query to hits: index, store, ranker.

Every search uses this module: API, prompts, command line and evaluation. `passage_scorer` gathers and scores
candidates by `ranking`; here their values are loaded and checked against the request. `find_left_out` explains which
hits a search left out. `context` chooses the content of prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import islice, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, assert_never

from reverie.domain.conversation import Turn
from reverie.domain.filter import Filter, is_paragraph_allowed, is_record_allowed, is_turn_allowed
from reverie.domain.lazy_dataclass import dataclass, replace
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.passage import Passage, Searchable
from reverie.domain.record import STANDING, Record
from reverie.domain.text.timestamps import Clock
from reverie.domain.text.tokenizer import STOP_WORDS, tokenize
from reverie.search import scoring, updates
from reverie.search.expansion import expand_query
from reverie.search.headlines import HeadlineIndex, fold_hits, fold_records
from reverie.search.hits import (
    MOST_HITS,
    SOURCES,
    Explanation,
    FoundValue,
    Hit,
    SearchRequest,
    Source,
    Unit,
    build_matcher,
    defer_explanation,
    get_value,
    is_allowed,
    limit_wider_scopes,
    normalize_words,
    rank_scope,
    remove_repeats,
    restrict_to_alive,
    validate_request,
    wrap_value,
)
from reverie.search.index.search_index import SearchIndex
from reverie.search.page_index import PageIndex
from reverie.search.passage_scorer import PassageScorer, ScopeStatistics, ScoredPassage
from reverie.search.query import ParsedQuery, parse_query
from reverie.search.ranking import RankingSettings
from reverie.search.related_words import RelatedWords
from reverie.settings import Settings
from reverie.stores.protocol import Store, get_reader, read_or_none

if TYPE_CHECKING:
    from reverie.search.vectors.vector_index import VectorIndex


_LOOKED_AT = 3  # best hits whose categories are compared
_ALIKE = 2  # of them that must have the same category
_GATHERED, _GATHERED_BY_WORDS = 0.3, 0.1
"""Share of the best score for other records of that category, with vectors and without. At .3 by words, where weak hits
score more, recall@5 of the shipped questions falls by .01."""
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
        has_vectors: Whether there are vectors, by which hits may have been found.
    """

    store: Store
    pages: PageIndex
    headlines: HeadlineIndex
    clock: Clock
    has_vectors: bool

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
        found: list[tuple[float, ScoredPassage, FoundValue, str]] = []
        ranks: dict[str, int] = {}
        places = {scope: place for place, scope in enumerate(question.allowed.scopes or ())}
        step = question.limit + (_SPARE if len(places) < 2 else _SPARE_BESIDE_WIDER)
        now = None if question.allowed.valid_at is not None else self.clock()
        share_of_ended = 1.0 if past else updates.NOT_HOLDING
        ended = False
        is_ordered = len(places) < 2  # so that spare values are read only if some of the others fall away
        first = question.limit if is_ordered and not question.exclude else step
        for start, stop in pairwise(sorted({first, *range(0, len(scored) + step, step)})):
            batch = [entry for entry in scored[start:stop] if entry.total >= question.min_score]
            for entry, value in zip(batch, self._load_values(subject, batch), strict=True):
                if value is None or not is_allowed(question, value):
                    continue
                score, note = entry.total, ""
                if updates.is_not_holding(value, now):
                    note = "does not hold now: it did before, or will later"
                    score *= share_of_ended
                    ended = current or past
                    is_ordered = False
                if score < question.min_score:
                    continue
                text = value.id if isinstance(value, Turn) else normalize_words(value.content)
                if question.repeats or text not in ranks:
                    ranks[text] = len(found)
                    found.append((score, entry, value, note))
                elif rank_scope(value, places) < rank_scope(found[ranks[text]][2], places):
                    found[ranks[text]] = score, entry, value, note
            if len(batch) < stop - start or (len(found) >= question.limit and (is_ordered or stop >= step)):
                break
        found.sort(key=lambda one: -one[0])
        hits = [
            wrap_value(value, defer_explanation(entry, note), score) for score, entry, value, note in found
        ]
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
        found = (hit.record for hit in hits if hit.record and hit.explanation.evidence)
        categories = [record.category for record in islice(found, _LOOKED_AT) if record.category]
        category = max(categories, key=categories.count, default="")
        if query.is_request:
            why = "holds for whatever is done"
            restriction: dict[str, Any] = {"kinds": STANDING}
        elif categories.count(category) >= _ALIKE:
            why = f"in the category {category}, as the best hits are"
            restriction = {"categories": (category,)}
        else:
            return hits
        by_vectors = self.has_vectors and any("vector" in hit.explanation.evidence for hit in hits)
        share = _GATHERED if by_vectors else _GATHERED_BY_WORDS
        score = share * hits[0].score if hits else share * share
        if score < question.min_score:
            return hits
        if not query.is_request:
            hits = _raise_members(hits, category, score)
        room = question.limit - sum(hit.score >= score for hit in hits)
        if room <= 0:
            return hits
        known = {hit.id for hit in hits} | question.exclude
        valid_at = question.allowed.valid_at or self.clock()
        allowed = replace(question.allowed, valid_at=valid_at, headlines=False, **restriction)
        members = self.store.find(allowed, limit=_MOST_GATHERED)
        texts = {normalize_words(hit.content) for hit in hits}
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


POOL = 24
"""Least records and paragraphs from the index; 40 give the same results on the open questions and on Cranfield."""

TURN_POOL = 32
"""Least turns from the index. Their neighbours are candidates too, so that each adds eight more. With 24, recall@10 of
BEAM falls by .017."""

_MORE_THAN_WANTED = 8
"""Candidates in addition to the wanted hits, if that is more than `POOL`."""

_UNDER_HEADLINES = 16
"""Hits in addition to the wanted ones where headlines take the places of several."""

_LARGEST_POOL = 4_096

_TYPES = ("record", "session", "turn", "paragraph")
"""Order of hits with the same score."""

_get_key, _get_thread = attrgetter("key"), attrgetter("thread")


class Searcher:
    """Search over one store and its index. Safe to use from several threads; changes nothing."""

    def __init__(
        self,
        store: Store,
        index: SearchIndex,
        *,
        clock: Clock,
        settings: RankingSettings,
        vectors: VectorIndex | None = None,
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
            floor: Least relevance of the best hit, 0 to 1; None takes that of `scoring`.
            weights: Weights of relevance, recency, importance, confidence and kind.
            zone: Time zone of the owner.
        """
        self._store = store
        self._index = index
        self._clock = clock
        self._related = RelatedWords()
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
        self._builder = HitBuilder(store, self._pages, self._headlines, clock, vectors is not None)

    def with_floor(self, floor: float) -> Searcher:
        """Return a searcher over the same store with another least relevance of the best hit."""
        other = copy(self)
        other._scorer = self._scorer._replace(floor=floor)
        return other

    # -- the ways to search ----------------------------------------------------------------------------

    def find_page_paragraph(self, id: str) -> Paragraph | None:
        """Return the paragraph with an id from a page that is no log; None if there is none."""
        return next((paragraph for paragraph in self._pages.read().list_all() if paragraph.id == id), None)

    def search(
        self, question: SearchRequest, sources: Collection[Source], *, unit: Unit = "turn"
    ) -> list[Hit]:
        """Return the hits from several sources as one list, best first.

        A turn or paragraph that only repeats a record of the list is left out. A filter that applies to one source
        leaves the others out. A turn is found through its neighbors too.

        Args:
            question: The request.
            sources: Where to search.
            unit: `session` returns each session once, with its best turn, in place of turns.
        """
        question = validate_request(question)
        question = question._replace(allowed=restrict_to_alive(question.allowed, self._clock()))
        hits: list[Hit] = []
        only_turns, only_records = question.allowed.only_turns, question.allowed.only_records
        with self._store.reading(), self._index.reading():
            if "records" in sources and not only_turns:
                hits += self._search_hits("record", question)
                # Hits of other sources need a higher score than the last one.
                if len(sources) > 1 and len(hits) >= question.limit:
                    question = question._replace(
                        min_score=max(question.min_score, min(hit.score for hit in hits))
                    )
            if "turns" in sources and not only_records:
                hits += (
                    self._search_sessions(question)
                    if unit == "session"
                    else self._search_hits("turn", question)
                )
            if "pages" in sources and not (only_turns or only_records):
                hits += self._search_hits("paragraph", question)
        if len(sources) == 1:
            return hits
        hits.sort(key=lambda hit: (-hit.score, _TYPES.index(hit.type)))
        return remove_repeats(hits)[: question.limit]

    def _search_sessions(self, question: SearchRequest) -> list[Hit]:
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
        if question.text is None:
            return self._list_newest(subject, question)
        if question.mode != "words":
            return self._search_pattern(subject, question, build_matcher(question.text, question.mode))
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

    def _is_over(self, hit: Hit) -> bool:
        """Return whether a record mattered until an earlier day, which it names itself."""
        until = None if hit.record is None else hit.record.until
        return until is not None and until <= self._clock()

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
        if subject == "turn":
            pool = max(TURN_POOL, question.limit)
        past = subject == "record" and updates.asks_for_past(query.text)
        is_current = subject == "record" and not query.dates and not past
        folds = subject == "record" and not question.repeats and not self._headlines.is_empty()
        wanted = question._replace(limit=question.limit + _UNDER_HEADLINES) if folds else question
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
            if is_current and question.allowed.valid_at is None:
                hits = [hit for hit in hits if not self._is_over(hit)]
            if folds:
                hits = self._builder.fold(hits, question)[: question.limit]
            exhausted = not full or not scored or scored[-1].total < question.min_score
            if len(hits) >= question.limit or exhausted or pool >= _LARGEST_POOL:
                return hits
            pool = min(4 * pool, _LARGEST_POOL)


def to_scoring_settings(settings: Settings) -> scoring.ScoringSettings:
    """Return the scoring weights with the decay of recency from the settings."""
    return scoring.ScoringSettings(half_life=settings.decay_days if settings.decay_enabled else math.inf)


Reason = Literal["archived", "filtered", "repeated", "floor", "rank"]
"""Reasons: it is archived; a filter excludes it; a hit says the same or is its headline; nothing was found, because it
has too little of the question; it ranks after the last hit."""

_FIELDS = (
    *("categories", "tags", "kinds", "layers", "origins"),
    *("created_after", "created_before", "valid_at"),
    *("sessions", "roles"),
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
