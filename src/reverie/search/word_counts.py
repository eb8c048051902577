"""In how many passages each word stands, looked up once for each question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reverie.search.page_index import PageParagraphs


class WordCounts:
    """Number of passages that have a word, for the passages that one question searches."""

    def __init__(self, count: Callable[[Sequence[str]], Mapping[str, int]], pages: PageParagraphs) -> None:
        """Count with `count` in the index, and in `pages`."""
        self._count = count
        self._pages = pages
        self._known: dict[str, int] = {}

    def get(self, words: Sequence[str]) -> dict[str, int]:
        """Return in how many passages each word stands."""
        known = self._known
        if unknown := list(dict.fromkeys(word for word in words if word not in known)):
            known |= self._pages.add_frequencies(self._count(unknown), unknown)
        return {word: known[word] for word in words}
