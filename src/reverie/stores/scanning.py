"""Iteration over everything in a store."""

from __future__ import annotations

from collections.abc import Iterator

from reverie.domain.change import JournalEntry, Value
from reverie.domain.filter import Filter
from reverie.stores.protocol import Store

_CHUNK = 1_000


def iter_rows_forwards(
    store: Store, *, after: int = 0, until: int | None = None, id: str | None = None, chunk: int = _CHUNK
) -> Iterator[JournalEntry]:
    """Yield the changes (of one thing) after `after` up to `until` (None: all), read in chunks."""
    while rows := store.journal(after=after, until=until, id=id, limit=chunk):
        yield from rows
        after = rows[-1].sequence


def iter_rows_backwards(
    store: Store, *, after: int = 0, until: int | None = None, id: str | None = None, chunk: int = _CHUNK
) -> Iterator[JournalEntry]:
    """Yield the changes (of one thing) from `until` (None: the newest) down to the one after `after`."""
    while rows := store.journal(after=after, until=until, id=id, limit=chunk, newest_first=True):
        yield from rows
        until = rows[-1].sequence - 1


def iter_values(store: Store) -> Iterator[Value]:
    """Yield every record, turn, session, page and paragraph."""
    yield from store.find(Filter(archived=None))
    yield from store.scan_turns(Filter())
    yield from (overview.state for overview in store.sessions())
    yield from store.pages()
    for log in store.logs():
        yield from store.paragraphs(page=log)
