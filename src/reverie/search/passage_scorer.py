"""Scorer of passages: it gathers, scores and sorts the candidates of a question before their values are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from reverie.domain.filter import Filter
from reverie.domain.passage import CandidateQuery, CollectionStats, Passage, Searchable
from reverie.domain.text.timestamps import Clock
from reverie.search import fusion, reranking, scoring, updates
from reverie.search.fusion import FusedPassage
from reverie.search.headlines import HeadlineIndex
from reverie.search.hits import SearchRequest
from reverie.search.index.search_index import SearchIndex
from reverie.search.page_index import EMPTY, PageIndex, PageParagraphs
from reverie.search.query import ParsedQuery
from reverie.search.ranking import RankedPassage, RankingSettings, TermStatistics, rank
from reverie.search.related_words import get_shares
from reverie.stores.protocol import Store, read_or_none

if TYPE_CHECKING:
    from reverie.search.vectors.vector_index import VectorIndex


_MOST_MEASURES = 1_000


class WordCounts:
    """Number of passages with a word, among the passages that one question searches."""

    def __init__(self, count: Callable[[Sequence[str]], Mapping[str, int]], pages: PageParagraphs) -> None:
        """Count with `count` in the index, and in `pages`."""
        self._count = count
        self._pages = pages
        self._known: dict[str, int] = {}

    def get(self, words: Sequence[str]) -> dict[str, int]:
        """Return the number of passages with each word."""
        known = self._known
        if unknown := list(dict.fromkeys(word for word in words if word not in known)):
            known |= self._pages.add_frequencies(self._count(unknown), unknown)
        return {word: known[word] for word in words}


class ScopeStatistics:
    """Counts over the scopes of a request. Safe to use from several threads."""

    def __init__(self, store: Store, index: SearchIndex, pages: PageIndex, headlines: HeadlineIndex) -> None:
        """Count passages in `store` and `pages`, and words in `index`; headlines do not count as records."""
        self._store = store
        self._index = index
        self._pages = pages
        self._headlines = headlines
        self._measures: dict[
            tuple[Searchable, tuple[str, ...] | None, str | None], tuple[int, CollectionStats]
        ] = {}

    def get_pages(self, subject: Searchable, allowed: Filter) -> PageParagraphs:
        """Return the paragraphs of pages if they are searched; they belong to the empty scope."""
        is_searched = subject == "paragraph" and (allowed.scopes is None or "" in allowed.scopes)
        return self._pages.read() if is_searched else EMPTY

    def count_words(self, subject: Searchable, question: SearchRequest) -> WordCounts:
        """Return the counts of words in the scopes."""
        scopes, category = question.allowed.scopes, question.isolated_category
        return WordCounts(
            lambda words: self._index.frequencies(subject, words, scopes, category),
            self.get_pages(subject, question.allowed),
        )

    def measure(self, subject: Searchable, question: SearchRequest) -> CollectionStats:
        """Return the size of the scopes, cached until the next change."""
        sequence = self._store.sequence()
        scopes, category = question.allowed.scopes, question.isolated_category
        known = self._measures.get((subject, scopes, category))
        if known is None or known[0] != sequence:
            if len(self._measures) > _MOST_MEASURES:
                self._measures.clear()
            self._index.follow()  # first, so that many new texts go to the index as they are analysed
            measure = self._store.measure(subject, scopes, category=category)
            if subject == "record" and (headlines := self._headlines.count(scopes, category)):
                measure = measure._replace(passages=measure.passages - headlines)
            if pages := self.get_pages(subject, question.allowed):
                measure = measure._replace(
                    passages=measure.passages + len(pages), tokens=measure.tokens + pages.tokens
                )
            known = (sequence, measure)
            self._measures[(subject, scopes, category)] = known
        return known[1]


NEIGHBOURS = 4
"""Turns before and after a candidate that are ranked with it."""

_DATE_WEIGHT = 0.6

_FOLLOWED = 0.3
"""Least share of the best score of a hit whose followers are searched for."""

_MOST_RULES = 20
"""Records that may be rules for what is asked to be done, at most."""

_MOST_FOLLOWERS = 12
"""Most records that may report what became of a hit."""

_NO_SCORE = scoring.Score(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class ScoredPassage(NamedTuple):
    """A passage with its score, before its value is loaded. A named tuple, because a search makes hundreds.

    Attributes:
        passage: The passage.
        ranked: Its relevance, with the reasons.
        score: The parts of its score.
        total: The score by which it is sorted.
    """

    passage: Passage
    ranked: RankedPassage | FusedPassage
    score: scoring.Score
    total: float


class PassageScorer(NamedTuple):
    """Scores the passages that may answer a question. Safe to use from several threads.

    Attributes:
        store: Store of the passages.
        candidates: Index of candidates by words.
        statistics: Counts of passages and words.
        clock: The clock.
        settings: The constants of ranking.
        vectors: Index of vectors; None searches by words alone.
        floor: Least relevance of the best hit, 0 to 1; None takes that of `scoring`.
        weights: Weights of relevance, recency, importance, confidence and kind.
    """

    store: Store
    candidates: SearchIndex
    statistics: ScopeStatistics
    clock: Clock
    settings: RankingSettings
    vectors: VectorIndex | None
    floor: float | None
    weights: scoring.ScoringSettings

    def score(
        self,
        subject: Searchable,
        query: ParsedQuery,
        question: SearchRequest,
        counts: WordCounts,
        pool: int,
    ) -> tuple[list[ScoredPassage], bool]:
        """Return the relevant passages, best first, and whether there may be more than `pool` candidates."""
        allowed, category = question.allowed, question.isolated_category
        candidates_query, measure = _build_wanted(subject, query), self.statistics.measure(subject, question)
        terms = TermStatistics(
            passages=measure.passages,
            mean_length=measure.mean_length,
            frequencies=counts.get(query.tokens),
            common=get_shares(query.tokens, query.language),
        )
        keys = self.candidates.search_any(subject, candidates_query, allowed, pool, category=category)
        is_full = len(keys) >= pool
        near = rules = None
        if self.vectors is not None and category is None:
            near = self.vectors.search(subject, query.text, allowed.scopes)
            if near is not None and subject == "record":
                rules = self.vectors.find_rules(query, allowed.scopes)
        if near is not None:
            nearest = near.list_nearest(pool)
            likeliest = [] if rules is None else rules.list_likeliest(_MOST_RULES)
            keys = list(dict.fromkeys((*keys, *nearest, *likeliest)))
        around = NEIGHBOURS if subject == "turn" else 0
        passages = self.store.passages(subject, keys, around=around)
        wanted = (*candidates_query.words, *candidates_query.dates)
        passages += self.statistics.get_pages(subject, allowed).find(token for token, _ in wanted)
        # Turns stay in the order of relevance, so the last ones are not needed. Records may change places by
        # their other properties.
        most = 2 * pool if subject == "turn" else None
        # The fusion has its own weight for rules.
        settings = self.settings if near is None else self.settings._replace(rule=0.0)
        ranked = rank(query, passages, statistics=terms, settings=settings, limit=most)
        floor = self.floor
        if floor is None:
            floor = scoring.compute_floor(measure.passages) if subject == "record" else scoring.FLOOR
        by_words = scoring.apply_relevance_floor(ranked, query, passages=measure.passages, floor=floor)
        relevant: Sequence[RankedPassage | FusedPassage] = by_words
        if near is not None:
            relevant = fusion.fuse(
                ranked,
                passages,
                near,
                has_words=bool(by_words),
                rules=rules.get(passages) if rules else {},
                floor=floor,
            )
            # If the farthest candidate is not relevant, those beyond it are not either.
            farthest_counts = bool(nearest) and any(entry.passage.key == nearest[-1] for entry in relevant)
            is_full = is_full or (near.count > pool and farthest_counts)
        now, weights = self.clock().timestamp(), self.weights
        scores = [_score(entry.relevance, entry.passage, now, weights) for entry in relevant]
        totals = [score.total for score in scores]
        if near is None and subject != "paragraph":
            totals = reranking.compute_scores(list(zip(by_words, scores, strict=True)))
        scored = list(map(ScoredPassage, [each.passage for each in relevant], relevant, scores, totals))
        scored.sort(key=lambda entry: (-entry.total, -entry.passage.at, -entry.passage.key))
        return scored, is_full

    def put_current_first(
        self, scored: list[ScoredPassage], query: ParsedQuery, question: SearchRequest, counts: WordCounts
    ) -> list[ScoredPassage]:
        """Return the passages with newer ones before those that they seem to replace, and with their score."""
        rare_words = updates.RareWords(
            counts.get, self.statistics.measure("record", question).passages, query.language
        )
        head = scored[: updates.COMPARED]
        head += self._find_followers(head, scored, query, question, rare_words)
        keys = [entry.passage.key for entry in head]
        scopes = question.allowed.scopes
        likeness = None if self.vectors is None else self.vectors.compare("record", keys, scopes)
        get_likeness = None if likeness is None else likeness.get
        order = updates.order_by_time(
            [updates.Matched(each.passage, each.total) for each in head],
            counts.get(query.asked),
            get_records=lambda keys: read_or_none(self.store.records, keys),
            rare_words=rare_words,
            language=query.language,
            get_likeness=get_likeness,
        )
        if order == sorted(order):
            return scored
        totals = accumulate((head[place].total for place in reversed(order)), max)
        ordered = [
            head[place]._replace(total=total)
            for place, total in zip(reversed(order), totals, strict=True)
            if total
        ]
        ordered.reverse()
        compared = {entry.passage.key for entry in head}
        ordered += [entry for entry in scored[updates.COMPARED :] if entry.passage.key not in compared]
        return sorted(ordered, key=lambda entry: -entry.total)

    def _find_followers(
        self,
        head: Sequence[ScoredPassage],
        scored: Sequence[ScoredPassage],
        query: ParsedQuery,
        question: SearchRequest,
        rare_words: updates.RareWords,
    ) -> list[ScoredPassage]:
        """Return records that have a rare word of one of the first and may report what became of it.

        They need not have a word of the query; those without one score 0.
        """
        if not (query.is_sentence and head):
            return []
        least = _FOLLOWED * head[0].total
        asked = query.asked
        first = [entry.passage for entry in head[: updates.HEAD] if entry.total >= least]
        rare = [[word for word in words if word not in asked] for words in rare_words.of(first)]
        missing = rare_words.select_missing(
            {word for words in rare for word in words}, [entry.passage for entry in head]
        )
        if not missing:
            return []
        wanted = CandidateQuery(words=[(word, 1.0) for word in missing], dates=[])
        keys = self.candidates.search_any(
            "record", wanted, question.allowed, _MOST_FOLLOWERS, category=question.isolated_category
        )
        compared = {entry.passage.key for entry in head}
        known = {entry.passage.key: entry for entry in scored}
        return [
            known.get(passage.key)
            or ScoredPassage(passage, FusedPassage(passage, 0.0, None, 0.0, None), _NO_SCORE, 0.0)
            for passage in self.store.passages(
                "record", [key for key in dict.fromkeys(keys) if key not in compared]
            )
            if any(
                updates.is_later(passage, older) and any(f" {word} " in passage.terms for word in words)
                for older, words in zip(first, rare, strict=True)
                if words
            )
        ]


def _build_wanted(subject: Searchable, query: ParsedQuery) -> CandidateQuery:
    words: dict[str, float] = {}
    for term in query.wanted(turns=subject == "turn"):
        for token, similarity in ((term.token, 1.0), *(each[:2] for each in term.alternatives)):
            words[token] = max(words.get(token, 0.0), similarity * term.weight)
    return CandidateQuery(
        words=list(words.items()),
        dates=[(token, _DATE_WEIGHT) for token in query.dates.tokens],
    )


def _score(relevance: float, passage: Passage, now: float, weights: scoring.ScoringSettings) -> scoring.Score:
    return scoring.score(
        relevance,
        # in hours, so that searches soon after another have equal scores
        age_days=max(0.0, now - passage.at) // 3_600 / 24,
        importance=passage.importance,
        confidence=passage.confidence,
        kind=passage.kind,
        pinned=passage.pinned,
        settings=weights,
    )
