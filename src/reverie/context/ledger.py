"""Ledger of the items in a session's prompts, with their turns.

An item of a turn that is still replayed is not shown again, unless it has changed. Values only; the session stores the
ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from reverie.domain.errors import InvalidInput
from reverie.domain.text import ids
from reverie.search.hits import Hit

MOST_SHOWN = 500
"""Most entries of a ledger; the oldest are dropped first."""

_EMPTY: Mapping[str, tuple[int, str]] = MappingProxyType({})


def build_shown_cursor(session: str) -> str:
    """Return the name of the store's cursor with the ledger of a session."""
    return f"shown:{session}"


class ShownLedger(NamedTuple):
    """Items in a session's prompts by id, each with the position of the turn and a fingerprint.

    An immutable value. The position is that of the user's turn being answered, so all requests for one answer (a retry,
    a loop of tools) show the same records.
    """

    marks: Mapping[str, tuple[int, str]] = _EMPTY

    def find_seen_position(self, hit: Hit, *, replayed_from: int, now_at: int) -> int | None:
        """Return the position at which a hit was shown if it need not be shown again; None if it has to be.

        Args:
            hit: The hit.
            replayed_from: The position of the first replayed turn.
            now_at: The position of the turn being answered, whose own items are shown again.
        """
        mark = self.marks.get(hit.id)
        if mark is None:
            return None
        position, print_then = mark
        still = replayed_from <= position < now_at and print_then == _compute_fingerprint(hit)
        return position if still else None

    def add_shown(self, hits: Iterable[Hit], *, at: int) -> ShownLedger:
        """Return the ledger after the hits were shown at position `at`; at most 500 marks, the newest."""
        marks = dict(self.marks)
        for hit in hits:
            marks.pop(hit.id, None)
            marks[hit.id] = (at, _compute_fingerprint(hit))
        return _limit_marks(marks)

    def merged(self, other: ShownLedger) -> ShownLedger:
        """Return both ledgers as one, with the later position of each item."""
        marks = dict(self.marks)
        for shown, mark in other.marks.items():
            if shown not in marks or marks[shown][0] <= mark[0]:
                marks[shown] = mark
        return _limit_marks(marks)

    def since(self, position: int) -> ShownLedger:
        """Return the ledger without entries before a position, which are no longer replayed."""
        return _limit_marks({shown: mark for shown, mark in self.marks.items() if mark[0] >= position})

    def list_newer_ids(self, other: ShownLedger) -> list[str]:
        """Return the ids of items that the other ledger does not have at the same turn."""
        return [
            shown
            for shown, (position, _) in self.marks.items()
            if shown not in other.marks or other.marks[shown][0] != position
        ]

    def to_text(self) -> str:
        """Return the ledger as one line of JSON; `from_text` reads it back to an equal one."""
        return json.dumps([[shown, *mark] for shown, mark in self.marks.items()], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> ShownLedger:
        """Read what `to_text` wrote.

        Raises:
            InvalidInput: it is not a ledger.
        """
        try:
            rows = json.loads(text)
            marks = {str(shown): (int(position), str(then)) for shown, position, then in rows}
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"not a ledger of what was shown: {error}") from None
        return _limit_marks(marks)


def build_recalled_counter(id: str) -> str:
    """Return the name of the counter of an item in prompts, which also has the last time."""
    return f"recalled:{id}"


def _compute_fingerprint(hit: Hit) -> str:
    """Return eight characters that change with the shown content; empty for turns, which never change."""
    if hit.paragraph is not None:
        return ids.compute_fingerprint("paragraph", hit.paragraph.content)[:8]
    if hit.record is None:
        return ""
    record = hit.record
    return ids.compute_fingerprint(record.kind, f"{record.content}|{record.valid_from}|{record.valid_to}")[:8]


def _limit_marks(marks: dict[str, tuple[int, str]]) -> ShownLedger:
    if len(marks) > MOST_SHOWN:
        newest = sorted(marks, key=lambda shown: marks[shown][0])[-MOST_SHOWN:]
        marks = {shown: marks[shown] for shown in newest}
    return ShownLedger(marks=MappingProxyType(marks))


def build_remembered_cursor(session: str) -> str:
    """Return the name of the store's cursor with the first turn of a session that was not read for facts."""
    return f"remember:{session}"


def parse_position(text: str | None) -> int:
    """Return the position in the value of such a cursor; 0 for none.

    >>> parse_position("12"), parse_position(None)
    (12, 0)
    """
    return int(text) if text and text.isdecimal() else 0
