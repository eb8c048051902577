"""Erasure, again, of content that a recovered backup brought back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice

from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.request import EraseRequest
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.errors import NotFound
from reverie.domain.page import Paragraph
from reverie.domain.record import Record
from reverie.search.analyzer import analyze
from reverie.search.index.search_index import SearchIndex
from reverie.stores.protocol import Store
from reverie.stores.scanning import iter_values
from reverie.stores.tombstones import KEY, drop_forgotten, is_forgotten
from reverie.stores.writer import StoreWriter

_BATCH = 500
_ACTOR = "owner"


def reapply_tombstones(new: Store, old: Store, *, at: datetime) -> int:
    """Erase in one store what was erased in another.

    Args:
        new: The store from a backup; no other process has it open.
        old: The store that it replaces.

    Returns:
        The number of records, turns, paragraphs and pages concerned.
    """
    if old.cursor(KEY) is None:
        return 0
    names = [name for batch in _iter_batches(new) for name in sorted(is_forgotten(old, batch))]
    index = SearchIndex(new, None, analyse=analyze)
    writer = StoreWriter(store=new, clock=lambda: at, actor=_ACTOR, publish=index.notice)
    eraser = Eraser(writer, index, folder=None)
    for name in names:
        with suppress(NotFound):  # it went along with another
            eraser.forget(EraseRequest(ids=(name,)))
    pages = 0
    for page in new.pages():
        after = drop_forgotten(old, page)
        if after != page:
            new.erase([Change(before=page, after=after)], actor=_ACTOR, at=at)
            pages += 1
    if pages:
        new.scrub()
    return len(names) + pages


def _iter_batches(store: Store) -> Iterator[list[Record | Turn | Paragraph]]:
    things = (each for each in iter_values(store) if isinstance(each, Record | Turn | Paragraph))
    while batch := list(islice(things, _BATCH)):
        yield batch
