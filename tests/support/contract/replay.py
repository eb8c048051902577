"""Replay of a journal into another store, and comparison of two stores.

A journal from which nothing was erased gives the same in every respect: replayed batch by batch, with the
time, actor and reason of each, it gives the same sequence numbers, keys and values, and the same journal.

A journal that has forgotten something cannot. A store gives numbers itself, without leaving one out, so what
follows a forgotten change gets a smaller one; and a change may rest on a forgotten one, as a turn does on
those before it, and is refused then. What holds of every journal is `is_journal_consistent`: what it still says of each
thing leads without a gap to what is there. Of a thing from which something was erased that begins with the
row of the erasure, which has what was left as its `after`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from reverie.domain.change import JournalEntry, Value
from reverie.domain.filter import Filter
from reverie.domain.passage import SEARCHABLE
from reverie.stores.protocol import Store

_ALL = 1_000_000


def replay(rows: Sequence[JournalEntry], store: Store) -> None:
    """Make the changes again, each batch as one commit; forgotten rows are left out.

    Raises:
        Conflict: a change rests on one that was forgotten.
    """
    for _, batch in groupby(rows, key=lambda row: row.batch):
        some = list(batch)
        edits = [row.edit for row in some if row.edit is not None]
        store.commit(
            edits,
            actor=some[0].actor,
            operation=some[0].operation,
            note=some[0].note,
            reference=some[0].reference,
            at=some[0].at,
        )


def read_contents(store: Any) -> dict[str, Any]:
    """Return all that is journalled, and what search sees of it, for comparison with another store."""
    logs = store.logs()
    sessions = store.sessions()
    return {
        "records": list(store.find(Filter(archived=None))),
        "sessions": sessions,
        "turns": [store.turns(session=overview.state.id) for overview in sessions],
        "pages": store.pages(),
        "logs": logs,
        "paragraphs": [store.paragraphs(page=name) for name in logs],
        "live": [store.live(subject, limit=_ALL) for subject in SEARCHABLE],
        "measures": [store.measure(subject, None) for subject in SEARCHABLE],
    }


def is_journal_consistent(store: Store) -> bool:
    """Return whether each version in the journal follows from the one before, and the last is the stored one."""
    rows_of: dict[int, list[JournalEntry]] = defaultdict(list)
    for row in store.journal(limit=_ALL):
        rows_of[row.key].append(row)
    return all(_has_consistent_chain(rows) and _has_current_end(rows, store) for rows in rows_of.values())


def _has_consistent_chain(rows: list[JournalEntry]) -> bool:
    value: Value | None = None
    for number, row in enumerate(rows):
        if row.forgotten and any(earlier.edit is not None for earlier in rows[:number]):
            return False  # what was before is still there to be read
        if row.edit is not None and not row.forgotten and row.edit.before != value:
            return False
        value = row.after
    return rows[0].sequence == rows[0].key


def _has_current_end(rows: list[JournalEntry], store: Store) -> bool:
    last = rows[-1]
    value = last.after
    key = last.key
    stored: Sequence[Value]
    match last.subject:
        case "record":
            stored = store.records([key])
        case "turn":
            stored = store.turns([key])
        case "paragraph":
            stored = store.paragraphs([key])
        case "page":
            stored = [] if value is None else store.pages([value.id])
        case "session":
            state = None if value is None else store.session(value.id)
            stored = [] if state is None else [state]
    return list(stored) == ([] if value is None else [value])
