"""Read-only store with the content of an earlier moment, under the same keys.

A few things named by their ids are read from their own journal entries. For everything else the values are read
once from the journal, from that moment backwards, into memory. What was erased since is
missing, and what an erasure left of a thing replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

from reverie.admin.history.journal import When, get_row, sequence_at
from reverie.domain.change import Subject, Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.passage import Analyse
from reverie.domain.text import timestamps
from reverie.domain.text.timestamps import Clock
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store, iter_rows

# Ids that are read one by one.
_FEW = 20


class SnapshotStore(InMemoryStore):
    """Read-only store as it was at an earlier moment. Safe to use from several threads.

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
        super().__init__(analyse=analyse, prepare=self._load)
        self._source = store
        self._is_loaded = False
        self.last = sequence_at(store, when)
        if isinstance(when, datetime):
            self.moment = timestamps.to_utc(when)
        else:
            self.moment = get_row(store, self.last).at if self.last else now()

    # -- what is read --------------------------------------------------------------------------------

    def _load(self) -> None:
        """Read everything from the journal, at the first question that is not about single ids."""
        self._is_loaded = True
        self.fill(_select_present_values(self._source, self.last), at=self.moment)

    def _fetch(self, subject: Subject, wanted: Sequence[str | int]) -> list[Any]:
        """Return things by id, each from its own journal entries unless everything has been read already."""
        names = [name for name in wanted if isinstance(name, str)]
        if self._is_loaded or len(names) < len(wanted) or len(names) > _FEW:
            return super()._fetch(subject, wanted)
        return [value for name in names if (value := self._read_past(subject, name)) is not None]

    def _read_past(self, subject: Subject, id: str) -> Value | None:
        rows = iter_rows(self._source, newest_first=True, until=self.last, id=id)
        newest = next((row for row in rows if row.subject == subject), None)
        if newest is None:
            return None
        value = newest.after
        if newest.edit is None:
            value = _select_remaining_values(self._source, {newest.key}, self.last, id=id).get(newest.key)
        if isinstance(value, Turn) and self._read_past("session", value.session) is None:
            return None
        return value

    def sequence(self) -> int:
        """Return the number of the last change by then. The journal has one entry for each thing."""
        return self.last

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
    for row in iter_rows(store, newest_first=True, until=last):
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
    for row in iter_rows(store, after=last, id=id):
        if row.key in keys and row.key not in remaining and row.after is not None:
            remaining[row.key] = row.after
    return remaining
