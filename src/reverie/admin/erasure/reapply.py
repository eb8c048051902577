"""Erasure, again, of content that a recovered backup brought back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from reverie.admin.erasure.eraser import Eraser
from reverie.admin.erasure.matching import empty_turn
from reverie.admin.erasure.remains import build_sweep_edits
from reverie.admin.erasure.request import EraseRequest
from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import Page
from reverie.search.index.search_index import SearchIndex
from reverie.stores.living_page import find_page_cursors
from reverie.stores.protocol import Store, iter_values
from reverie.stores.tombstones import KEY, drop_forgotten, find_forgotten_texts, is_forgotten
from reverie.stores.writer import StoreWriter

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
    things = [value for value in iter_values(new) if not isinstance(value, Page | SessionState)]
    whole = sorted(is_forgotten(old, things))
    if whole:
        writer = StoreWriter(store=new, clock=lambda: at, actor=_ACTOR)
        Eraser(writer, SearchIndex(new, None), folder=None).forget(EraseRequest(ids=tuple(whole)))
    edits = build_sweep_edits(new, partial(_remove_forgotten, old), at=at)
    new.erase(edits, actor=_ACTOR, at=at)
    if edits:
        new.scrub()
    return len({*whole, *(edit.id for edit in edits)})


def _remove_forgotten(old: Store, values: Sequence[Value]) -> list[Value | None]:
    """Return values without erased content; None for a record or paragraph that was erased."""
    forgotten = is_forgotten(old, [value for value in values if not isinstance(value, Page | SessionState)])
    return [_remove_content(old, value, is_gone=value.id in forgotten) for value in values]


def _remove_content(old: Store, value: Value, *, is_gone: bool) -> Value | None:
    if isinstance(value, Page):
        return drop_forgotten(old, value)
    if isinstance(value, SessionState):
        present = old.session(value.id)
        is_here = present is not None and present.summary == value.summary
        texts = find_forgotten_texts(old, [value.summary], kind="summary", place=value.id)
        return replace(value, summary="") if texts and not is_here else value
    if isinstance(value, Turn):
        return empty_turn(value) if is_gone else value
    return None if is_gone else value
