"""Erasure, again, of content that a recovered backup brought back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from itertools import islice

from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.remains import build_purge_edits
from reverie.admin.erasure.request import EraseRequest
from reverie.domain.change import Change, Value, get_subject
from reverie.domain.conversation import SessionState
from reverie.domain.page import Page
from reverie.search.index.search_index import SearchIndex
from reverie.stores.living_page import find_page_cursors
from reverie.stores.protocol import Store, iter_rows_forwards, iter_values
from reverie.stores.tombstones import KEY, drop_forgotten, find_forgotten_texts, is_forgotten
from reverie.stores.writer import StoreWriter

_BATCH = 500
_ACTOR = "owner"


def reapply_tombstones(new: Store, old: Store, *, at: datetime) -> int:
    """Erase in one store what was erased in another.

    Args:
        new: The store from a backup; no other process has it open.
        old: The store that it replaces.

    Returns:
        The number of things concerned.
    """
    if old.cursor(KEY) is None:
        return 0
    new.commit([], actor=_ACTOR, at=at, cursors=find_page_cursors(new))  # they quote records
    whole = sorted({value.id for value in _find_forgotten(old, iter_values(new))})
    if whole:
        index = SearchIndex(new, None)
        writer = StoreWriter(store=new, clock=lambda: at, actor=_ACTOR)
        Eraser(writer, index, folder=None).forget(EraseRequest(ids=tuple(whole)))
    parts = [
        Change(before=value, after=after)
        for value in iter_values(new)
        if (after := _remove_forgotten(old, value)) != value
    ]
    new.erase(parts, actor=_ACTOR, at=at)
    past = _find_past(new, old)
    present = {name: value for value in iter_values(new) if (name := (get_subject(value), value.id)) in past}
    edits = [Change(before=value, after=value) for value in present.values()]
    new.erase([*edits, *build_purge_edits(sorted(past - set(present)), at)], actor=_ACTOR, at=at)
    if parts or past:
        new.scrub()
    return len(whole) + len(parts) + len(past)


def _find_past(new: Store, old: Store) -> set[tuple[str, str]]:
    """Return the kinds and ids of things of which the journal has a version that was erased."""
    versions = (value for row in iter_rows_forwards(new) for value in row.values)
    past: set[tuple[str, str]] = set()
    while batch := list(islice(versions, _BATCH)):
        forgotten = _find_forgotten(old, batch)
        forgotten += (value for value in batch if _remove_forgotten(old, value) != value)
        past |= {(get_subject(value), value.id) for value in forgotten}
    return past


def _find_forgotten(old: Store, values: Iterable[Value]) -> list[Value]:
    """Return the records, turns and paragraphs that were erased."""
    forgotten: list[Value] = []
    things = (value for value in values if not isinstance(value, Page | SessionState))
    while batch := list(islice(things, _BATCH)):
        names = is_forgotten(old, batch)
        forgotten += (value for value in batch if value.id in names)
    return forgotten


def _remove_forgotten(old: Store, value: Value) -> Value:
    """Return a page without erased lines, or a session without an erased summary; other things as they are."""
    if isinstance(value, Page):
        return drop_forgotten(old, value)
    if not isinstance(value, SessionState):
        return value
    present = old.session(value.id)
    is_here = present is not None and present.summary == value.summary
    texts = find_forgotten_texts(old, [value.summary], kind="summary", place=value.id)
    return replace(value, summary="") if texts and not is_here else value
