"""Counters by day: searches, saves and prompts.

Numbers are collected in the process and added to those of the day once a minute and when the memory is closed. A
process that is killed loses its last minute.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from types import MappingProxyType

from reverie.domain.errors import Conflict, StoreError
from reverie.stores.forks import ForkSafeLock
from reverie.stores.writer import StoreWriter

KEPT_DAYS = 400
"""Number of days whose counters are stored."""

FLUSH_S = 60.0
"""Seconds between two writes."""

_PREFIX = "activity:"

_log = logging.getLogger("reverie")


@dataclass(frozen=True, slots=True, kw_only=True)
class DayActivity:
    """Activity of one day.

    Attributes:
        day: The day, in the time zone of the settings.
        counts: Numbers by name: `search`, `search.nothing` (nothing was relevant), `save.created`,
            `save.reinforced`, `prompt`.
    """

    day: date
    counts: Mapping[str, int]


class ActivityLog:
    """Counters of one memory in this process. Safe to use from several threads."""

    def __init__(self, writer: StoreWriter, *, zone: tzinfo, is_enabled: bool) -> None:
        """Count for a memory.

        Args:
            zone: The time zone in which days begin and end.
            is_enabled: Whether anything is counted.
        """
        self._writer = writer
        self._zone = zone
        self._is_enabled = is_enabled
        self._added: dict[date, Counter[str]] = defaultdict(Counter)
        self._lock = ForkSafeLock(self._reset_after_fork)
        self._next = time.monotonic() + FLUSH_S

    def count(self, counts: Mapping[str, int]) -> None:
        """Add numbers by name to those of today."""
        if not self._is_enabled:
            return
        with self._lock:
            self._added[self._get_today()].update(counts)
            if time.monotonic() >= self._next:
                self.flush()

    def flush(self) -> None:
        """Write what was counted. A store that cannot be written is logged, and tried again later."""
        with self._lock:
            self._next = time.monotonic() + FLUSH_S
            for day in list(self._added):
                try:
                    self._writer.retrying(lambda _, day=day: self._write_day(day))  # type: ignore[misc]
                except (StoreError, Conflict) as error:
                    _log.warning("the counters of the day could not be written: %s", error)
                    return
                del self._added[day]

    def read(self, days: int) -> list[DayActivity]:
        """Return the last days, the earliest first, those without activity too."""
        self.flush()
        first = self._get_today() - timedelta(days=days - 1)
        stored = self._writer.store.cursors(_PREFIX)
        wanted = (first + timedelta(days=number) for number in range(days))
        return [DayActivity(day=day, counts=_parse_counts(stored.get(f"{_PREFIX}{day}"))) for day in wanted]

    # -- inside ------------------------------------------------------------------------------------------

    def _reset_after_fork(self) -> None:
        self._added.clear()  # the parent writes it

    def _get_today(self) -> date:
        return self._writer.clock().astimezone(self._zone).date()

    def _write_day(self, day: date) -> None:
        """Add the counters of a day to those that are stored; the first of a day removes those long past."""
        store, name = self._writer.store, f"{_PREFIX}{day}"
        before = store.cursor(name)
        cursors: dict[str, str | None] = {name: json.dumps(Counter(_parse_counts(before)) + self._added[day])}
        if before is None:
            oldest = f"{_PREFIX}{day - timedelta(days=KEPT_DAYS)}"
            cursors |= dict.fromkeys(each for each in store.cursors(_PREFIX) if each <= oldest)
        self._writer.commit([], cursors=cursors, expected={name: before})


def _parse_counts(text: str | None) -> Mapping[str, int]:
    try:
        return MappingProxyType({str(name): int(number) for name, number in json.loads(text or "{}").items()})
    except (ValueError, TypeError, AttributeError) as error:
        _log.warning("counters of a day cannot be read and are left out: %s", error)
        return {}
