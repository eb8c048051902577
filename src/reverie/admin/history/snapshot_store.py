"""Read-only store with the content of an earlier moment, under the same keys.

A few things named by their ids are read from their own journal entries. For everything else the values are read
once from the journal, from that moment backwards, into memory. What was erased since is
missing, and what an erasure left of a thing replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from typing import Any, NoReturn

from reverie.admin.history.journal import (
    When,
    get_row,
    sequence_at,
)
from reverie.domain.change import Change, JournalEntry, Subject, Value, get_subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.page import Paragraph
from reverie.domain.passage import SEARCHABLE, Analyse, AnalyzedText, CollectionStats, Passage, Searchable
from reverie.domain.record import Record
from reverie.domain.text import timestamps
from reverie.domain.text.timestamps import Clock
from reverie.stores.forks import ForkSafeLock
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store, iter_rows_backwards, iter_rows_forwards

_FEW = 20
"""Ids that are read one by one."""

_UNREAD = AnalyzedText(terms="", length=0)


class SnapshotStore(InMemoryStore):
    """Read-only store as it was at an earlier moment. Safe to use from several threads.

    Analyses are computed when a search needs them, or taken from the present store for unchanged things.

    Attributes:
        moment: The moment; that of the change if a number was given.
        last: The number of the last change by then.
    """

    def __init__(
        self, store: Store, when: When, *, analyse: Analyse, now: Clock = timestamps.utc_now
    ) -> None:
        """Read the content of that moment.

        Args:
            when: A moment, or the number of a change for the state after its transaction.
            now: The clock; it gives the moment of a store without changes.

        Raises:
            InvalidInput: it is neither a moment with a time zone nor a number.
            NotFound: there is no change of that number.
        """
        super().__init__(analyse=lambda _: _UNREAD)
        self._source = store
        self._read_words = analyse
        self._has_words = self._is_loaded = False
        self.last = sequence_at(store, when)
        if isinstance(when, datetime):
            self.moment = timestamps.to_utc(when)
        else:
            self.moment = get_row(store, self.last).at if self.last else now()

    # -- what is read --------------------------------------------------------------------------------

    def _open(self) -> ForkSafeLock:
        """Return the lock; read everything from the journal at the first question that is not about single ids."""
        lock = super()._open()
        with lock:
            if not self._is_loaded:
                for key, value in sorted(
                    _select_present_values(self._source, self.last).items(), key=itemgetter(0)
                ):
                    self._swap(None, self._build_item(key, value))
                self._is_loaded = True
        return lock

    def _fetch_things(self, subject: Subject, wanted: Sequence[str | int]) -> list[Any]:
        """Return things by id, each from its own journal entries unless everything has been read already."""
        names = [name for name in wanted if isinstance(name, str)]
        if self._is_loaded or len(names) < len(wanted) or len(names) > _FEW:
            return super()._fetch_things(subject, wanted)
        with super()._open():
            return [value for name in names if (value := self._read_past(subject, name)) is not None]

    def _read_past(self, subject: Subject, id: str) -> Value | None:
        rows = iter_rows_backwards(self._source, until=self.last, id=id)
        newest = next((row for row in rows if row.subject == subject), None)
        if newest is None:
            return None
        value = newest.after
        if newest.edit is None:
            value = _select_remaining_values(self._source, {newest.key}, self.last, id=id).get(newest.key)
        if isinstance(value, Turn) and self._read_past("session", value.session) is None:
            return None
        return value

    # -- the journal ---------------------------------------------------------------------------------

    def sequence(self) -> int:
        """Return the number of the last change by then."""
        with super()._open():
            return self.last

    def journal(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        earliest: datetime | None = None,
        latest: datetime | None = None,
        id: str | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[JournalEntry]:
        """Return one entry for each thing, as if all had been added at once; an index needs no more."""
        if (earliest or self.moment) > self.moment or (latest or self.moment) < self.moment:
            return []
        with self._open():
            keys = sorted(
                key
                for key, entry in self._data.keys.items()
                if key > after and (until is None or key <= until) and (id is None or entry.value.id == id)
            )
            if newest_first:
                keys.reverse()
            return [
                JournalEntry(
                    sequence=key,
                    batch=key,
                    at=self.moment,
                    actor="",
                    operation="save",
                    key=key,
                    subject=get_subject(self._data.keys[key].value),
                    edit=Change(before=None, after=self._data.keys[key].value),
                )
                for key in keys[:limit]
            ]

    # -- for search -----------------------------------------------------------------------------------

    def passages(self, subject: Searchable, keys: Sequence[int], *, around: int = 0) -> list[Passage]:
        """Return live passages by key, in any order, without unknown and archived ones."""
        self._load_words()
        return super().passages(subject, keys, around=around)

    def live(
        self, subject: Searchable, *, after: int = 0, limit: int = 1000
    ) -> list[tuple[Passage, Record | Turn | Paragraph]]:
        """Yield live passages and their values by ascending key, to build an index."""
        self._load_words()
        return super().live(subject, after=after, limit=limit)

    def measure(
        self, subject: Searchable, scopes: Sequence[str] | None, *, category: str | None = None
    ) -> CollectionStats:
        """Return the exact number of live passages and tokens in those scopes (None: in all)."""
        self._load_words()
        return super().measure(subject, scopes, category=category)

    def analysis(self, value: Record | Turn | Paragraph) -> AnalyzedText:
        """Return the analysis of a value, of this store or any other."""
        self._load_words()
        stored = self._data.things.get((get_subject(value), value.id))
        if stored is not None and stored.analysis is not None and stored.value == value:
            return stored.analysis
        return self._read_words(value)

    def _load_words(self) -> None:
        with self._open():
            if self._has_words:
                return
            known = self._read_known_words()
            for key, stored in list(self._data.keys.items()):
                if stored.analysis is not None:
                    assert isinstance(stored.value, Record | Turn | Paragraph)
                    self._swap(
                        stored, replace(stored, analysis=known.get(key) or self._read_words(stored.value))
                    )
            self._has_words = True

    def _read_known_words(self) -> dict[int, AnalyzedText]:
        """Return the present store's analysis of things that did not change since."""
        sequence = self._source.sequence()
        changed = {row.key for row in iter_rows_forwards(self._source, after=self.last)}
        analyses: dict[int, AnalyzedText] = {}
        for subject in SEARCHABLE:
            keys = [
                key
                for key, stored in self._data.keys.items()
                if get_subject(stored.value) == subject and key not in changed
            ]
            for passage in self._source.passages(subject, keys):
                analyses[passage.key] = passage.analysis
        for row in iter_rows_forwards(self._source, after=sequence):  # changed while it was read
            analyses.pop(row.key, None)
        return analyses

    # -- what is refused -------------------------------------------------------------------------------

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise `InvalidInput`: a snapshot cannot be changed."""
        raise InvalidInput(
            f"the memory as it was at {timestamps.format_time(self.moment)} cannot be changed: "
            "change it as it is now"
        )

    commit = erase = scrub = put_entry = drop_entries = _refuse


def _select_present_values(store: Store, last: int) -> dict[int, Value]:
    """Return every thing that existed after a change, by its key."""
    versions: dict[int, Value | None] = {}
    forgotten: set[int] = set()
    for row in iter_rows_backwards(store, until=last):
        if row.key not in versions:
            versions[row.key] = row.after
            if row.edit is None:
                forgotten.add(row.key)
    if forgotten:
        versions |= _select_remaining_values(store, forgotten, last)
    things = {key: value for key, value in versions.items() if value is not None}
    sessions = {value.id for value in things.values() if isinstance(value, SessionState)}
    return {
        key: value
        for key, value in things.items()
        if not isinstance(value, Turn) or value.session in sessions
    }


def _select_remaining_values(
    store: Store, keys: set[int], last: int, *, id: str | None = None
) -> dict[int, Value]:
    """Return what an erasure left of things whose earlier versions it removed."""
    remaining: dict[int, Value] = {}
    for row in iter_rows_forwards(store, after=last, id=id):
        if row.key in keys and row.key not in remaining and row.after is not None:
            remaining[row.key] = row.after
    return remaining
