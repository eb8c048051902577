"""Index of the paragraphs of pages such as `MEMORY.md`, built in memory when a page has changed.

Pages are few and short compared with records and turns, so the index is not stored. Logs are in the search index.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reverie.domain.lazy_dataclass import replace
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.page import FROM_TOOLS, LONGEST_PARAGRAPH, MEMORY, Page, Paragraph
from reverie.domain.passage import Passage
from reverie.domain.text import ids
from reverie.domain.text.tokenizer import tokenize_date
from reverie.search.analyzer import analyze
from reverie.stores.protocol import Store

_ITEM = defer_regex(r"\s*(?:[-*+]|\d+[.)])\s+(?=\S)")
_HEADING = defer_regex(r"#{1,6}\s+")


class _Entry(NamedTuple):
    paragraph: Paragraph
    passage: Passage


class PageParagraphs:
    """Paragraphs of all pages at one time. Their keys are negative, unlike those of a store."""

    def __init__(self, entries: Iterable[_Entry]) -> None:
        """Index numbered paragraphs by their words."""
        self._entries = {
            -number: _Entry(entry.paragraph, entry.passage._replace(key=-number))
            for number, entry in enumerate(entries, 1)
        }
        self._postings: dict[str, list[int]] = defaultdict(list)
        for key, entry in self._entries.items():
            dates = (*tokenize_date(entry.paragraph.at.date()), *entry.passage.dates.split())
            for token in {*entry.passage.terms.split(), *dates}:
                self._postings[token].append(key)
        self._frequencies = Counter(
            token for entry in self._entries.values() for token in set(entry.passage.terms.split())
        )
        self.tokens = sum(entry.passage.length for entry in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def list_all(self) -> list[Paragraph]:
        """Return the paragraphs, page by page."""
        return [entry.paragraph for entry in self._entries.values()]

    def get(self, key: int) -> Paragraph | None:
        """Return the paragraph of a key; None if there is none."""
        entry = self._entries.get(key)
        return None if entry is None else entry.paragraph

    def find(self, tokens: Iterable[str]) -> list[Passage]:
        """Return the paragraphs that have any of the words or dates."""
        keys = {key for token in tokens for key in self._postings.get(token, ())}
        return [self._entries[key].passage for key in sorted(keys, reverse=True)]

    def add_frequencies(self, frequencies: Mapping[str, int], tokens: Iterable[str]) -> dict[str, int]:
        """Return the frequencies increased by those of the tokens in pages."""
        if not self._entries:
            return dict(frequencies)
        return dict(frequencies) | {
            token: frequencies.get(token, 0) + count
            for token in tokens
            if (count := self._frequencies[token])
        }


EMPTY = PageParagraphs(())


class PageIndex:
    """Paragraphs of the pages of a store. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        """Index the pages of `store`."""
        self._store = store
        self._known: tuple[int, Sequence[Page], PageParagraphs] = (-1, (), EMPTY)

    def read(self) -> PageParagraphs:
        """Return the current paragraphs."""
        sequence = self._store.sequence()
        known_at, pages, paragraphs = self._known
        if known_at == sequence:
            return paragraphs
        current = self._store.pages()
        if current != pages:
            paragraphs = PageParagraphs(entry for page in current for entry in _analyze_page(page))
        self._known = (sequence, current, paragraphs)
        return paragraphs


def split_page(text: str) -> Iterator[tuple[str, str]]:
    r"""Yield each paragraph of a page after its heading; an item of a list is a separate paragraph.

    >>> list(split_page("# Port\n- Staging: 5432\n- Live: 5433\n\nAsk Ines\nfirst."))
    [('Port', 'Staging: 5432'), ('Port', 'Live: 5433'), ('Port', 'Ask Ines\nfirst.')]
    """
    heading = ""
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        begins = _HEADING.match(line)
        item = _ITEM.match(line)
        if (begins or item or not line.strip()) and lines:
            yield heading, "\n".join(lines).strip()[:LONGEST_PARAGRAPH].strip()
            lines = []
        if begins:
            heading = line[begins.end() :].strip()
        elif line.strip():
            lines.append(line[item.end() :] if item else line)


def _analyze_page(page: Page) -> Iterator[_Entry]:
    # The author of a line is unknown. Only MEMORY.md is protected against text of tools and the web.
    source = page.name if page.name == MEMORY else f"{page.name}{FROM_TOOLS}"
    seen: set[str] = set()
    for number, (heading, content) in enumerate(split_page(page.content)):
        name = ids.compute_fingerprint(page.name, content)[:12]
        if name in seen:
            continue
        seen.add(name)
        paragraph = Paragraph(
            id=name,
            page=page.name,
            position=float(number),
            at=page.updated_at,
            content=content,
            source=source,
        )
        analysis = analyze(replace(paragraph, content=f"{heading}\n{content}"))
        yield _Entry(
            paragraph,
            Passage(key=0, at=page.updated_at.timestamp(), kind="paragraph", **analysis._asdict()),
        )
