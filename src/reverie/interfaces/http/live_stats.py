"""Statistics of scopes that are counted once and then follow the journal, so that a view need not count again."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from reverie.admin.stats import ScopeStats
from reverie.domain.change import Value
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.record import Record
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.json_values import to_json_object
from reverie.memory import Memory
from reverie.reader import MemoryReader
from reverie.stores.protocol import Store

_MOST_ENTRIES = 2_000
"""Changes beyond which everything is counted again."""

_MOST_KEPT = 100
_KEPT = timedelta(minutes=10)
"""Time after which everything is counted again: until then, a record that has expired since still counts."""


@dataclass(slots=True)
class _Numbers:
    """Numbers of one scope: totals, and live records by `kind`, `category` and `scope`."""

    counted_at: datetime
    totals: Counter[str]
    records: dict[str, Counter[str]]

    def add(self, value: Value | None, sign: int) -> None:
        """Add one value to the numbers, or subtract it."""
        match value:
            case Record(archived_at=None):
                if value.expires_at is not None and value.expires_at <= self.counted_at:
                    return
                self.totals["records"] += sign
                for name, counts in self.records.items():
                    counts[getattr(value, name) or ""] += sign
            case Record():
                self.totals["archived"] += sign
            case Turn():
                self.totals["turns"] += sign
            case SessionState():
                self.totals["sessions"] += sign

    def list_records_by(self, name: str) -> dict[str, int]:
        """Return the number of live records with each value of a field."""
        return dict(sorted((+self.records[name]).items()))


class LiveStats:
    """Statistics of the scopes of one store. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        """Follow the journal of a store."""
        self._store = store
        self._lock = threading.Lock()
        self._sequence = 0
        self._known: dict[tuple[str, ...] | None, _Numbers] = {}

    def read(self, reader: MemoryReader) -> ScopeStats:
        """Return what `reader.stats()` would."""
        with self._lock, self._store.reading():
            numbers = self._count_once(reader)
            return ScopeStats(
                **numbers.totals,
                by_kind=numbers.list_records_by("kind"),
                by_category=numbers.list_records_by("category"),
            )

    def count_by_scope(self, memory: Memory) -> dict[str, int]:
        """Return the number of live records of each scope that has any."""
        with self._lock, self._store.reading():
            return self._count_once(memory.scoped(EVERY_SCOPE)).list_records_by("scope")

    def _count_once(self, reader: MemoryReader) -> _Numbers:
        self._follow()
        numbers = self._known.get(reader._scopes)
        if numbers is None or reader._clock() - numbers.counted_at > _KEPT:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            numbers = self._known[reader._scopes] = _count(reader)
            if reader._scopes is None:
                numbers.records["scope"].update(self._store.tally("scope", reader._build_live_filter()))
        return numbers

    def _follow(self) -> None:
        """Take in the changes since the last call."""
        newest = self._store.sequence()
        if newest == self._sequence:
            return
        rows = self._store.journal(after=self._sequence, limit=_MOST_ENTRIES + 1) if self._known else []
        self._sequence = newest
        if len(rows) > _MOST_ENTRIES or any(row.forgotten for row in rows):
            self._known.clear()
        for row in rows if self._known else ():
            assert row.edit is not None
            for scopes, numbers in self._known.items():
                for value, sign in ((row.edit.before, -1), (row.edit.after, 1)):
                    if scopes is None or getattr(value, "scope", "") in scopes:
                        numbers.add(value, sign)


def _count(reader: MemoryReader) -> _Numbers:
    stats = reader.stats()
    totals = to_json_object(stats, "records", "archived", "turns", "sessions")
    records = {
        "kind": Counter(stats.by_kind),
        "category": Counter(stats.by_category),
        "scope": Counter[str](),
    }
    return _Numbers(counted_at=reader._clock(), totals=Counter(totals), records=records)
