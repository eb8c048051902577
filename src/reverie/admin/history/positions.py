"""Which changes had been made by then? From a moment to a number in the journal, and the rows in order.

Clocks are set back now and then, so the times in the journal need not ascend. What had been made by a moment
is everything up to the last change that says it was made by then: always a beginning of the journal, for
only such a beginning ever was what the store held. A transaction is never split.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from reverie.domain.change import JournalEntry
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.text import timestamps
from reverie.stores.protocol import Store

When = datetime | int
"""A moment, or the number of a change."""

_CHUNK = 1_000
_FEW, _MORE = 32, 8  # most transactions are small


def sequence_at(store: Store, when: When, *, name: str = "moment") -> int:
    """The number of the last change made by then, the transaction of a change number included; 0 for none.

    Raises:
        InvalidInput: it is no moment with a time zone, and no number.
        NotFound: there is no change of that number.
    """
    if isinstance(when, datetime):
        moment = timestamps.to_utc(when, name=name)
        return next((row.sequence for row in iter_rows_backwards(store) if row.at <= moment), 0)
    number = _validate_number(store, when, name)
    return list_transaction_rows(store, number)[-1].sequence if number else 0


def sequence_before(store: Store, when: When, *, name: str = "since") -> int:
    """The number of the last change made before then, or before the transaction of a change number."""
    if isinstance(when, datetime):
        moment = timestamps.to_utc(when, name=name)
        return next((row.sequence for row in iter_rows_backwards(store) if row.at < moment), 0)
    number = _validate_number(store, when, name)
    return get_row(store, number).batch - 1 if number else 0


def get_row(store: Store, number: int) -> JournalEntry:
    """The change of that number.

    Raises:
        NotFound: there is none.
    """
    found = store.journal(after=number - 1, until=number, limit=1) if number > 0 else []
    if not found:
        raise NotFound(f"there is no change {number}: the last one is {store.sequence()}")
    return found[0]


def iter_rows_backwards(
    store: Store, *, after: int = 0, until: int | None = None, id: str | None = None
) -> Iterator[JournalEntry]:
    """The changes (of one thing) from `until` (None: the newest) down to the one after `after`."""
    while rows := store.journal(after=after, until=until, id=id, limit=_CHUNK, newest_first=True):
        yield from rows
        until = rows[-1].sequence - 1


def iter_rows_forwards(
    store: Store, *, after: int = 0, until: int | None = None, id: str | None = None
) -> Iterator[JournalEntry]:
    """The changes (of one thing) after `after` up to `until` (None: all)."""
    while rows := store.journal(after=after, until=until, id=id, limit=_CHUNK):
        yield from rows
        after = rows[-1].sequence


def list_transaction_rows(store: Store, number: int) -> list[JournalEntry]:
    """The changes that were made together with that one, in order.

    Raises:
        NotFound: there is no change of that number.
    """
    batch, limit = get_row(store, number).batch, _FEW
    while True:
        rows = store.journal(after=batch - 1, limit=limit)
        if len(rows) < limit or rows[-1].batch != batch:
            return [row for row in rows if row.batch == batch]
        limit *= _MORE


def _validate_number(store: Store, when: object, name: str) -> int:
    if isinstance(when, bool) or not isinstance(when, int) or when < 0:
        raise InvalidInput(f"{name} is {when!r}: pass a datetime with a time zone, or the number of a change")
    if when > (newest := store.sequence()):
        raise NotFound(f"{name} is {when}, but there is no such change: the last one is {newest}")
    return when
