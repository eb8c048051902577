"""Search from query to hits: index, store, ranker.

Every search takes this path: API, prompts, command line and evaluation. Ranking is decided in `ranking`, the content
of prompts in `context`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import accumulate, islice
from operator import attrgetter
from typing import TYPE_CHECKING, assert_never, get_args

from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.filter import (
    Filter,
    is_paragraph_allowed,
    is_record_allowed,
    is_turn_allowed,
    validate_filter,
)
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.passage import CandidateQuery, CollectionStats, Passage, Searchable
from reverie.domain.record import STANDING, Record, validate_choice, validate_fraction
from reverie.domain.text.timestamps import Clock
from reverie.domain.text.validation import validate_count, validate_text
from reverie.search import calibration, fusion, scoring, updates
from reverie.search.common_words import get_shares
from reverie.search.expansion import expand_query
from reverie.search.fusion import FusedPassage
from reverie.search.headlines import HeadlineIndex, fold_hits, fold_records
from reverie.search.hits import (
    SOURCES,
    Explanation,
    FoundValue,
    Hit,
    SearchMode,
    Source,
    Unit,
    get_value,
    limit_wider_scopes,
    normalize_words,
    rank_scope,
    remove_repeats,
    wrap_value,
)
from reverie.search.index.candidates import CandidateIndex
from reverie.search.page_index import EMPTY, PageIndex, PageParagraphs
from reverie.search.query import ParsedQuery, parse_query
from reverie.search.ranking import RankedPassage, RankingSettings, TermStatistics, rank
from reverie.search.related_words import RelatedWords, load_related_words
from reverie.search.word_counts import WordCounts
from reverie.settings import Settings
from reverie.stores.protocol import Store, read_or_none

if TYPE_CHECKING:
    from reverie.search.vectors.vector_index import VectorIndex

LONGEST_QUERY = 10_000
"""Characters of a question; a prompt's message is cut to it, a search refuses more."""

MOST_HITS = 1_000

POOL = 40
"""Candidates asked of the index, at least; more find no better ones."""

_MORE_THAN_WANTED = 16
"""Candidates per hit, where that is more than `POOL`."""

NEIGHBOURS = 4
"""Turns before and after a candidate that are ranked with it."""

_LARGEST_POOL = 4_096
_LOOKED_AT = 3  # best hits whose category is looked at
_ALIKE = 2  # of them that must share it
_GATHERED = 0.3
"""Share of the best score that other records of that category get. On the shipped questions lists gain .04 at .3, and
everything else loses from .5 on."""
_MOST_GATHERED = 12
_DATE_WEIGHT = 0.6
_MOST_MEASURES = 1_000

_TYPES = ("record", "session", "turn", "paragraph")
"""Order of hits with the same score."""

_SPARE = 4
"""Number of values loaded beyond the limit, so that duplicates need no second read."""

_SPARE_BESIDE_WIDER = 24
"""Number of these if a search sees several scopes, whose records may change places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """Parsed query with its restrictions.

    Attributes:
        text: The question's words; None for what changed last.
        allowed: What the result is restricted to.
        limit: At most so many hits, 1 to 1,000.
        min_score: Only hits that score at least so much, 0 to 1.
        exclude: Ids of records, turns and paragraphs that must not be found.
        mode: How the text is read.
        repeats: Whether records that say the same are all found, not just the best of them, and those under a
            headline.
        isolated_category: A category that is searched as if there were nothing else: `allowed` has it and the
            scopes; words are counted in it alone, and vectors are not used.
    """

    text: str | None
    allowed: Filter
    limit: int = 10
    min_score: float = 0.0
    exclude: frozenset[str] = field(default_factory=frozenset)
    mode: SearchMode = "words"
    repeats: bool = False
    isolated_category: str | None = None


@dataclass(frozen=True, slots=True)
class _Scored:
    """A passage with its place, before its value is loaded."""

    passage: Passage
    ranked: RankedPassage | FusedPassage
    score: scoring.Score


_get_key, _get_thread = attrgetter("key"), attrgetter("thread")


class Searcher:
    """Searches over one store and its index. Safe to use from several threads; changes nothing."""

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
            store: Where the values are.
            index: What finds candidates in it.
            clock: What tells the time.
            settings: The constants of ranking.
            vectors: What finds candidates that say the same in other words; None searches by words alone.
            related: Related words; None takes the shipped table.
            floor: The relevance below which the best hit is none, 0 to 1; None takes that of `calibration`.
            weights: What relevance, recency, importance, confidence and kind count for.
            zone: Where the days of the owner begin and end.
        """
        self._store = store
        self._index = index
        self._clock = clock
        self._settings = settings
        self._vectors = vectors
        self._related = related or load_related_words(None)
        self._weights = weights
        self._zone = zone
        self._floor = floor
        self._pages = PageIndex(store)
        self._headlines = HeadlineIndex(store)
        self._measures: dict[
            tuple[Searchable, tuple[str, ...] | None, str | None], tuple[int, CollectionStats]
        ] = {}

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
        """Return the paragraph of that id from a page that is no log; None if there is none."""
        return next((paragraph for paragraph in self._pages.read().list_all() if paragraph.id == id), None)

    def search(
        self, question: SearchRequest, sources: Collection[Source], *, unit: Unit = "turn"
    ) -> list[Hit]:
        """Return the hits from several sources as one list, best first.

        A turn or paragraph that only repeats a record of the list is left out. A filter that only one source
        has leaves the others out.

        Args:
            question: The request.
            sources: Where to search.
            unit: `session` returns each session once, with its best turn, in place of turns.
        """
        validate_question(question)
        hits: list[Hit] = []
        only_turns, only_records = question.allowed.only_turns, question.allowed.only_records
        with self._store.reading(), self._index.reading():
            if "records" in sources and not only_turns:
                hits += self.records(question)
            if "turns" in sources and not only_records:
                hits += self.sessions(question) if unit == "session" else self.turns(question)
            if "pages" in sources and not (only_turns or only_records):
                hits += self.paragraphs(question)
        if len(sources) == 1:
            return hits
        hits.sort(key=lambda hit: (-hit.score, _TYPES.index(hit.type)))
        return remove_repeats(hits)[: question.limit]

    def sessions(self, question: SearchRequest) -> list[Hit]:
        """Return sessions that answer the question, best first: each ranks as its best turn.

        (Sums over the best turns and BM25 over whole sessions, alone or added, were measured on LoCoMo's
        development half: they change recall@10 and any@5 by at most .002, or make it worse.)
        """
        hits = self._search_hits("turn", question, distinct=_get_thread)
        return [replace(hit, session=self._store.session(hit.turn.session)) for hit in hits if hit.turn]

    def recall(self, query: str, *, allowed: Filter, limit: int, exclude: frozenset[str]) -> list[Hit]:
        """Return records, turns and paragraphs for a prompt, best first."""
        return self.search(SearchRequest(text=query, allowed=allowed, limit=limit, exclude=exclude), SOURCES)

    def recent(self, *, allowed: Filter, limit: int) -> list[Record]:
        """Return the records changed last, newest first; a headline stands for its parts."""
        allowed = _restrict_to_alive(allowed, self._clock())
        if allowed.headlines is False or self._headlines.is_empty():
            return list(self._store.find(allowed, limit=limit))
        return list(islice(self.fold(self._store.find(allowed), allowed), limit))

    def has_headlines(self) -> bool:
        """Return whether there are headlines, so that `fold` may change a list."""
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
        """Return hits of one kind, at most one of those for which `distinct` gives the same."""
        validate_question(question)
        question = replace(question, allowed=_restrict_to_alive(question.allowed, self._clock()))
        if question.text is None:
            return self._list_newest(subject, question)
        if question.mode != "words":
            return self._search_pattern(subject, question, _compile_pattern(question.text, question.mode))
        with self._store.reading(), self._index.reading():
            return self._search_ranked(subject, question, question.text, distinct)

    def _list_newest(self, subject: Searchable, question: SearchRequest) -> list[Hit]:
        """Return what changed last, newest first."""
        values = self._iterate_values(subject, question, None)
        if subject == "record" and not question.repeats:
            values = self.fold((value for value in values if isinstance(value, Record)), question.allowed)
        return self._build_hits(values, question, note="newest first", score=0.0)

    def _search_pattern(
        self, subject: Searchable, question: SearchRequest, pattern: re.Pattern[str]
    ) -> list[Hit]:
        """Return what has the text or matches the pattern, newest first."""
        containing = question.text if question.mode == "literal" else None
        values = self._iterate_values(subject, question, containing)
        matching = (
            value
            for value in values
            if pattern.search(value.content) and not (isinstance(value, Record) and value.is_headline)
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

    # -- the one path ----------------------------------------------------------------------------------

    def _search_ranked(
        self,
        subject: Searchable,
        question: SearchRequest,
        text: str,
        distinct: Callable[[Passage], int | None],
    ) -> list[Hit]:
        """Rank, load and check, with a larger pool if restrictions used the first one up."""
        measure = self._measure(subject, question)
        if not measure.passages:
            return []
        query = parse_query(text, speakers=measure.speakers, now=self._clock(), zone=self._zone)
        if not (query or self._vectors):
            return []
        counts = self._count_words(subject, question)
        query = expand_query(
            query,
            count=counts.get,
            collect_words=lambda word: self._index.collect_words(
                subject, word, question.allowed, category=question.isolated_category
            ),
            related=self._related,
        )
        pool = max(POOL, question.limit + _MORE_THAN_WANTED)
        is_current = subject == "record" and not query.dates and not updates.asks_for_past(query.text)
        folds = subject == "record" and not question.repeats and not self._headlines.is_empty()
        wanted = replace(question, limit=question.limit + _MORE_THAN_WANTED) if folds else question
        while True:
            scored, full = self._score_passages(subject, query, question, counts, pool)
            if is_current:
                scored = self._put_current_first(scored, query, question, counts)
            firsts: dict[int | None, _Scored] = {}
            for entry in scored:
                firsts.setdefault(distinct(entry.passage), entry)
            hits = self._load(subject, list(firsts.values()), wanted, current=is_current)
            if subject == "record" and query.is_sentence:
                hits = self._gather(hits, query, wanted)
            if folds:
                hits = self._fold_hits(hits, question)[: question.limit]
            exhausted = not full or not scored or scored[-1].score.total < question.min_score
            if len(hits) >= question.limit or exhausted or pool >= _LARGEST_POOL:
                return hits
            pool = min(4 * pool, _LARGEST_POOL)

    def _score_passages(
        self,
        subject: Searchable,
        query: ParsedQuery,
        question: SearchRequest,
        counts: WordCounts,
        pool: int,
    ) -> tuple[list[_Scored], bool]:
        """Return the relevant passages, best first, and whether the index had more than `pool` to offer."""
        allowed, category = question.allowed, question.isolated_category
        candidates_query, measure = _build_wanted(subject, query), self._measure(subject, question)
        statistics = TermStatistics(
            passages=measure.passages,
            mean_length=measure.mean_length,
            frequencies=counts.get(query.tokens),
            common=get_shares(query.tokens, query.language),
        )
        keys = self._index.search_any(subject, candidates_query, allowed, pool, category=category)
        is_full = len(keys) >= pool
        near = None
        if self._vectors is not None and category is None:
            near = self._vectors.search(subject, query.text, allowed.scopes)
        if near is not None:
            keys = list(dict.fromkeys((*keys, *near.list_nearest(pool))))
            is_full = is_full or near.count > pool
        around = NEIGHBOURS if subject == "turn" else 0
        passages = self._store.passages(subject, keys, around=around)
        wanted = (*candidates_query.words, *candidates_query.dates)
        passages += self._get_pages(subject, allowed).find(token for token, _ in wanted)
        # Turns keep the order of relevance, so those far behind need not be looked at; records may still
        # change places by what else is known of them.
        most = 2 * pool if subject == "turn" else None
        # The fusion has its own weight for rules.
        settings = self._settings if near is None else replace(self._settings, rule=0.0)
        ranked = rank(query, passages, statistics=statistics, settings=settings, limit=most)
        floor = self._floor
        if floor is None:
            floor = calibration.compute_floor(measure.passages) if subject == "record" else calibration.FLOOR
        relevant: Sequence[RankedPassage | FusedPassage] = calibration.apply_relevance_floor(
            ranked, query, passages=measure.passages, floor=floor
        )
        if near is not None:
            relevant = fusion.fuse(
                ranked, passages, near, has_words=bool(relevant), is_request=query.is_request, floor=floor
            )
        by_key = {passage.key: passage for passage in passages}
        now = self._clock().timestamp()
        scored = [
            _Scored(by_key[entry.key], entry, _score(entry, by_key[entry.key], now, self._weights))
            for entry in relevant
        ]
        scored.sort(key=lambda entry: (-entry.score.total, -entry.passage.at, -entry.passage.key))
        return scored, is_full

    def _put_current_first(
        self, scored: list[_Scored], query: ParsedQuery, question: SearchRequest, counts: WordCounts
    ) -> list[_Scored]:
        """Return the hits with what is newer before what it seems to replace; it gets the score of that."""
        rare_words = updates.RareWords(counts.get, self._measure("record", question).passages)
        head = scored[: updates.COMPARED]
        vectors = self._vectors if question.isolated_category is None else None
        keys = [entry.passage.key for entry in head]
        alike = vectors.find_alike("record", keys, question.allowed.scopes) if vectors else frozenset()
        matches = [
            updates.Matched(each.passage, each.score.total, each.ranked.get_own_weights, each.ranked.coverage)
            for each in head
        ]
        order = updates.order_by_time(
            matches,
            counts.get(query.tokens),
            get_records=lambda keys: read_or_none(self._store.records, keys),
            rare_words=rare_words,
            alike=alike,
        )
        if order == sorted(order):
            return scored
        totals = accumulate((head[place].score.total for place in reversed(order)), max)
        ordered = [
            replace(head[place], score=head[place].score._replace(total=total))
            for place, total in zip(reversed(order), totals, strict=True)
        ]
        ordered.reverse()
        return sorted([*ordered, *scored[updates.COMPARED :]], key=lambda entry: -entry.score.total)

    def _load(
        self, subject: Searchable, scored: Sequence[_Scored], question: SearchRequest, *, current: bool
    ) -> list[Hit]:
        """Return the first `limit` hits with their values, without repeats and values that may not be seen.

        Of what several scopes say in the same words, the one that is named first in the filter is taken. What ended
        a hit stands before it if the question is about what is `current`.
        """
        found: list[tuple[float, _Scored, FoundValue]] = []
        ranks: dict[str, int] = {}
        places = {scope: place for place, scope in enumerate(question.allowed.scopes or ())}
        step = question.limit + (_SPARE if len(places) < 2 else _SPARE_BESIDE_WIDER)
        now = None if question.allowed.valid_at is not None else self._clock()
        ended = False
        for start in range(0, len(scored), step):
            batch = [
                entry for entry in scored[start : start + step] if entry.score.total >= question.min_score
            ]
            for entry, value in zip(batch, self._load_values(subject, batch), strict=True):
                if value is None or not _is_allowed(question, value):
                    continue
                score = entry.score.total
                if updates.is_not_holding(value, now):
                    score *= updates.NOT_HOLDING
                    ended = current
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
            hits = updates.put_successors_first(
                hits, now, partial(read_or_none, self._store.records), partial(_is_allowed, question)
            )
        if len(places) > 1:
            hits = limit_wider_scopes(hits, places)
            hits.sort(key=lambda hit: (-hit.score, rank_scope(get_value(hit), places)))
        return hits[: question.limit]

    def _gather(self, hits: list[Hit], query: ParsedQuery, question: SearchRequest) -> list[Hit]:
        """Return the hits with other records that belong to them, at a fixed share of the best score.

        They are preferences and constraints where something is asked to be done, and the members of the category that
        most of the best hits have: neither need have a word of the query.
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
        room = question.limit - sum(hit.score >= score for hit in hits)
        if score < question.min_score or room <= 0:
            return hits
        known = {hit.id for hit in hits} | question.exclude
        texts = {normalize_words(hit.content) for hit in hits}
        valid_at = question.allowed.valid_at or self._clock()
        members = self._store.find(replace(allowed, valid_at=valid_at, headlines=False), limit=_MOST_GATHERED)
        gathered = (
            Hit(score=score, explanation=Explanation(note=why), record=record)
            for record in members
            if record.id not in known and (question.repeats or normalize_words(record.content) not in texts)
        )
        return sorted([*hits, *islice(gathered, room)], key=lambda hit: -hit.score)[: question.limit]

    def _fold_hits(self, hits: list[Hit], question: SearchRequest) -> list[Hit]:
        """Return the hits with one for those that their headline stands for."""
        records = [hit.record for hit in hits if hit.record is not None]
        clusters = self._headlines.find(records, question.allowed, self._clock())
        return fold_hits(hits, clusters, question.exclude) if clusters else hits

    def _load_values(self, subject: Searchable, batch: Sequence[_Scored]) -> list[FoundValue | None]:
        """Return the values of the passages; None for one that has gone since, or cannot be read."""
        keys = [entry.passage.key for entry in batch]
        if any(key < 0 for key in keys):
            pages = self._pages.read()
            stored = iter(self._load_values(subject, [entry for entry in batch if entry.passage.key >= 0]))
            return [pages.get(key) if key < 0 else next(stored) for key in keys]
        read: dict[Searchable, Callable[[Sequence[int]], Sequence[FoundValue]]] = {
            "record": self._store.records,
            "turn": self._store.turns,
            "paragraph": self._store.paragraphs,
        }
        return read_or_none(read[subject], keys)

    def _get_pages(self, subject: Searchable, allowed: Filter) -> PageParagraphs:
        """Return the paragraphs of pages if they are searched; they belong to everybody."""
        is_searched = subject == "paragraph" and (allowed.scopes is None or "" in allowed.scopes)
        return self._pages.read() if is_searched else EMPTY

    def _count_words(self, subject: Searchable, question: SearchRequest) -> WordCounts:
        """Return what counts in how many passages of the scopes each word stands."""
        scopes, category = question.allowed.scopes, question.isolated_category
        return WordCounts(
            lambda words: self._index.frequencies(subject, words, scopes, category),
            self._get_pages(subject, question.allowed),
        )

    def _measure(self, subject: Searchable, question: SearchRequest) -> CollectionStats:
        """Return how much there is in the scopes, remembered until the journal moves."""
        sequence = self._store.sequence()
        scopes, category = question.allowed.scopes, question.isolated_category
        known = self._measures.get((subject, scopes, category))
        if known is None or known[0] != sequence:
            if len(self._measures) > _MOST_MEASURES:
                self._measures.clear()
            measure = self._store.measure(subject, scopes, category=category)
            if subject == "record" and (headlines := self._headlines.count(scopes, category)):
                measure = replace(measure, passages=measure.passages - headlines)
            if pages := self._get_pages(subject, question.allowed):
                measure = replace(
                    measure, passages=measure.passages + len(pages), tokens=measure.tokens + pages.tokens
                )
            known = (sequence, measure)
            self._measures[(subject, scopes, category)] = known
        return known[1]


def to_scoring_settings(settings: Settings) -> scoring.ScoringSettings:
    """Return the scoring weights of the settings: how soon recency fades, if it does."""
    return scoring.ScoringSettings(half_life=settings.decay_days if settings.decay_enabled else math.inf)


def validate_question(question: SearchRequest) -> SearchRequest:
    """Return the question; raise `InvalidInput` where a field is not valid."""
    if question.text is not None:
        validate_text(question.text, name="query", longest=LONGEST_QUERY, empty=True)
    validate_count(question.limit, name="limit", most=MOST_HITS)
    validate_choice(question.mode, get_args(SearchMode), name="mode")
    validate_fraction(question.min_score, name="min_score")
    validate_filter(question.allowed)
    return question


def _build_wanted(subject: Searchable, query: ParsedQuery) -> CandidateQuery:
    words: dict[str, float] = {}
    for term in query.wanted(turns=subject == "turn"):
        for token, similarity in ((term.token, 1.0), *(each[:2] for each in term.alternatives)):
            words[token] = max(words.get(token, 0.0), similarity * term.weight)
    return CandidateQuery(
        words=list(words.items()),
        dates=[(token, _DATE_WEIGHT) for token in query.dates.tokens],
    )


def _restrict_to_alive(allowed: Filter, now: datetime) -> Filter:
    return allowed if allowed.alive_at is not None else replace(allowed, alive_at=now)


def _is_allowed(question: SearchRequest, value: FoundValue) -> bool:
    """Return whether the value passes the filter now: neighbors were never filtered, and time has passed.

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


def _score(
    entry: RankedPassage | FusedPassage, passage: Passage, now: float, weights: scoring.ScoringSettings
) -> scoring.Score:
    return scoring.score(
        entry.relevance,
        age_days=max(0.0, now - passage.at) / 86_400,
        importance=passage.importance,
        confidence=passage.confidence,
        kind=passage.kind,
        pinned=passage.pinned,
        settings=weights,
    )


def _build_hit(score: float, entry: _Scored, value: FoundValue, now: datetime | None) -> Hit:
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
    """Return what makes two hits the same: the words, and of paragraphs the time. Turns never are."""
    return value.id if isinstance(value, Turn) else normalize_words(value.content)


def _compile_pattern(text: str, mode: SearchMode) -> re.Pattern[str]:
    validate_text(text, name="query", longest=LONGEST_QUERY)
    try:
        return re.compile(re.escape(text) if mode == "literal" else text, re.IGNORECASE)
    except re.error as error:
        raise InvalidInput(f"query is {text!r}, which is no regular expression: {error}") from None
