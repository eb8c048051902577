"""Translation of moments into positions in the journal.

Clocks are set back now and then, so the times in the journal need not ascend. The state at a moment is the
journal up to the last entry with a time by then, because the store only ever held such a prefix. A
transaction is never split.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from reverie.domain.change import JournalEntry
from reverie.domain.errors import InvalidInput, NotFound, quote_value
from reverie.domain.text import timestamps
from reverie.stores.protocol import Store

When = datetime | int
"""A moment, or the number of a change."""

_FEW, _MORE = 32, 8  # most transactions are small


def sequence_at(store: Store, when: When, *, name: str = "moment") -> int:
    """Return the number of the last change by then, with the whole transaction of a number; 0 for none.

    Raises:
        InvalidInput: it is neither a moment with a time zone nor a number.
        NotFound: there is no change of that number.
    """
    if isinstance(when, datetime):
        moment = timestamps.to_utc(when, name=name)
        return store.sequence_at(moment)
    number = validate_number(store, when, name)
    return list_transaction_rows(store, number)[-1].sequence if number else 0


def sequence_before(store: Store, when: When, *, name: str = "since") -> int:
    """Return the number of the last change before then, or before the transaction of a number."""
    if isinstance(when, datetime):
        moment = timestamps.to_utc(when, name=name)
        return store.sequence_at(moment - timedelta(microseconds=1))
    number = validate_number(store, when, name)
    return get_row(store, number).batch - 1 if number else 0


def get_row(store: Store, number: int) -> JournalEntry:
    """Return the change of that number.

    Raises:
        NotFound: there is no such change.
    """
    rows = store.journal(after=number - 1, until=number, limit=1) if number > 0 else []
    if not rows:
        raise NotFound(f"there is no change {number}: the last one is {store.sequence()}")
    return rows[0]


def list_transaction_rows(store: Store, number: int) -> list[JournalEntry]:
    """Return the changes of the same transaction, in order.

    Raises:
        NotFound: there is no change of that number.
    """
    batch, limit = get_row(store, number).batch, _FEW
    while True:
        rows = store.journal(after=batch - 1, limit=limit)
        if len(rows) < limit or rows[-1].batch != batch:
            return [row for row in rows if row.batch == batch]
        limit *= _MORE


def validate_number(
    store: Store,
    when: object,
    name: str,
    *,
    least: int = 0,
    advice: str = "pass a datetime with a time zone, or the number of a change",
) -> int:
    """Return the number of a change that there is, or `least`."""
    if isinstance(when, bool) or not isinstance(when, int) or when < least:
        raise InvalidInput(f"{name} is {quote_value(when)}: {advice}")
    if when > (newest := store.sequence()):
        raise NotFound(
            f"{name} is {quote_value(when)}, but there is no such change: the last one is {newest}"
        )
    return when
