"""Changes that the files are not known to show.

A process may be killed, or `files.db` refuse the commit, after files were written and before that is recorded.
Such a file is no hand edit: it has the content of a moment since the last entry that the files are known to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.files.expected import select_day_records
from reverie.files.layout import (
    build_path,
    parse_path,
    render_episodic,
    render_log,
    render_page,
    render_record,
    render_session,
)
from reverie.stores.protocol import Store

_ROWS = 1_000


class PendingChanges:
    """The journal since the last entry that the files are known to show, by the files that it affects."""

    def __init__(self, store: Store, sequence: int) -> None:
        """Follow the journal of a store after an entry; nothing is read before it is needed.

        Args:
            store: The store.
            sequence: The number of the entry. If it is 0, no file is known, and nothing is pending.
        """
        self._store = store
        self._sequence = sequence

    def may_have_removed(self, path: str) -> bool:
        """Return whether something was moved away from a path, or removed."""
        return any(_is_at(each.before, path) and not _is_at(each.after, path) for each in self._find(path))

    def may_have_written(self, path: str, data: bytes) -> bool:
        """Return whether a file should have had this content at some moment."""
        changes = self._find(path)
        values = {value.id: value for value in self._read(path, changes[-1])} if changes else {}
        for change in reversed(changes):
            if values and _render(path, list(values.values())) == data:
                return True
            if _is_at(change.after, path):
                values.pop(change.id, None)
            if change.before is not None and _is_at(change.before, path):
                values[change.id] = change.before
        return False

    def _find(self, path: str) -> list[Change]:
        return self._by_path.get(path, [])

    @cached_property
    def _by_path(self) -> dict[str, list[Change]]:
        found: dict[str, list[Change]] = {}
        after = self._sequence
        while after and (rows := self._store.journal(after=after, limit=_ROWS)):
            for row in rows:
                if row.edit is not None:
                    for path in set(map(build_path, row.values)):
                        found.setdefault(path, []).append(row.edit)
            after = rows[-1].sequence
        return found

    def _read(self, path: str, change: Change) -> Sequence[Value]:
        """Return what stands in a file now, as the store says."""
        value, store = change.value, self._store
        match value:
            case Record():
                days = (
                    select_day_records(store, name) if (name := _get_day(path)) else store.records([value.id])
                )
                return [record for record in days if build_path(record) == path]
            case Page():
                return store.pages([value.name])
            case Paragraph():
                return store.paragraphs(page=value.page)
            case _:
                session = value.session if isinstance(value, Turn) else value.id
                state = store.session(session)
                return [] if state is None else [state, *store.turns(session=session)]


def _is_at(value: Value | None, path: str) -> bool:
    return value is not None and build_path(value) == path


def _get_day(path: str) -> str | None:
    place = parse_path(path)
    return place.name if place is not None and place.form == "episodic" else None


def _render(path: str, values: Sequence[Value]) -> bytes | None:
    """Return the content of a file with these values; None for turns without their session."""
    records = [value for value in values if isinstance(value, Record)]
    paragraphs = [value for value in values if isinstance(value, Paragraph)]
    if records:
        return render_episodic(records) if _get_day(path) else render_record(records[0])
    if paragraphs:
        return render_log(paragraphs[0].page, sorted(paragraphs, key=lambda each: each.position))
    for value in values:
        if isinstance(value, Page):
            return render_page(value)
        if isinstance(value, SessionState):
            turns = [value for value in values if isinstance(value, Turn)]
            return render_session(value, sorted(turns, key=lambda turn: turn.position))
    return None
