"""Number of passages in the scopes of a request, and number of passages with each word."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reverie.domain.filter import Filter
from reverie.domain.passage import CollectionStats, Searchable
from reverie.search.headlines import HeadlineIndex
from reverie.search.index.candidates import CandidateIndex
from reverie.search.page_index import EMPTY, PageIndex, PageParagraphs
from reverie.search.request import SearchRequest
from reverie.stores.protocol import Store

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

    def __init__(
        self, store: Store, index: CandidateIndex, pages: PageIndex, headlines: HeadlineIndex
    ) -> None:
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
