"""Receipts of packs in the store, which are removed after a while, and with what is erased."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from reverie.context.pack import Pack, PackInput
from reverie.context.receipts import (
    build_receipt,
    build_receipt_cursor,
    build_receipts_prefix,
    decode_receipt,
    drop_erased_lines,
    encode_receipt,
    get_receipt_session,
)
from reverie.context.retrieval import query_from_message
from reverie.domain.change import Change
from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.text.timestamps import format_time
from reverie.stores.protocol import Store

KEPT = timedelta(days=30)
"""Lifetime of a receipt."""

MOST_RECEIPTS = 2_000
"""Largest number of receipts of a memory. Older ones are removed when a session begins, so there may be more."""

_MOST_PENDING = 8
_PRUNED_EVERY = 100  # positions of a session


class PendingReceipts:
    """Receipts of one session that wait to be stored with its next turn; the session's lock guards them."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._packs: dict[int, tuple[PackInput, Pack, bool]] = {}

    def __bool__(self) -> bool:
        return bool(self._packs)

    def add(self, given: PackInput, pack: Pack, *, asked: bool) -> None:
        """Keep the pack of a turn, in place of an earlier one for the same turn."""
        self._packs.pop(given.now_at, None)
        self._packs[given.now_at] = (given, pack, asked)
        if len(self._packs) > _MOST_PENDING:
            del self._packs[next(iter(self._packs))]

    def build_cursors(self, store: Store, changes: Sequence[Change]) -> dict[str, str | None]:
        """Return the cursors to set in the transaction of some changes.

        A message that was asked about before it was added is known by the turn that is among the changes.
        """
        cursors: dict[str, str | None] = {}
        added = {each.after.position: each.after for each in changes if isinstance(each.after, Turn)}
        for position, (given, pack, asked) in self._packs.items():
            turn = added.get(position)
            is_turn = turn is not None and query_from_message(turn.content) == given.query
            receipt = build_receipt(self._session, given, pack, asked=asked or is_turn)
            cursors[build_receipt_cursor(self._session, position)] = encode_receipt(receipt)
            if position % _PRUNED_EVERY == 0:
                cursors = {**find_old_receipts(store, given.now), **cursors}
        return cursors

    def clear(self) -> None:
        """Drop the receipts, because they were stored or the session is being deleted."""
        self._packs.clear()


def find_old_receipts(store: Store, now: datetime) -> dict[str, None]:
    """Return the cursors of receipts that are too old or too many."""
    stored = store.cursors(build_receipts_prefix())
    times = {name: text.partition(" ")[0] for name, text in stored.items()}  # in UTC, so they sort as text
    newest = sorted(times, key=times.__getitem__, reverse=True)
    first = format_time(now - KEPT)
    return {
        name: None for number, name in enumerate(newest) if number >= MOST_RECEIPTS or times[name] < first
    }


def find_session_receipts(store: Store, session: str) -> dict[str, None]:
    """Return the cursors of all receipts of a session, to be removed."""
    names = store.cursors(build_receipts_prefix(session))
    return {name: None for name in names if get_receipt_session(name) == session}


def find_erased_receipts(
    store: Store, ids: Collection[str], sessions: Collection[str], *, pages: bool
) -> dict[str, str | None]:
    """Return what becomes of the receipts when things are erased.

    Args:
        ids: Ids of what is erased.
        sessions: Sessions that are erased.
        pages: Whether lines of pages are.
    """
    changes: dict[str, str | None] = {}
    for name, text in store.cursors(build_receipts_prefix()).items():
        session = get_receipt_session(name) or ""
        try:
            receipt = None if session in sessions else decode_receipt(session, text)
        except InvalidInput:
            receipt = None
        after = None if receipt is None else drop_erased_lines(receipt, ids, pages=pages)
        if after is None or after is not receipt:
            changes[name] = None if after is None else encode_receipt(after)
    return changes
