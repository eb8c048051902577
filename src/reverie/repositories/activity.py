"""Counters by day: searches, saves and prompts, with their times and sizes.

Numbers are collected in the process and written once a minute and when the memory is closed, each process to a cursor
of its own. Those of earlier days are added up into one. A process that is killed loses its last minute.
"""

from __future__ import annotations

import json
import logging
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from itertools import accumulate
from types import MappingProxyType
from typing import Any

from reverie.domain.errors import StoreError
from reverie.stores.forks import ForkSafeLock
from reverie.stores.writer import StoreWriter

KEPT_DAYS = 400
"""Number of days whose counters are stored."""

MILLISECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
"""Upper ends of the classes of times; the last class has none."""

TOKENS = (0, 100, 250, 500, 1_000, 1_800, 3_500, 7_000, 15_000)
"""Upper ends of the classes of tokens."""

FLUSH_S = 60.0
"""Seconds between two writes."""

_PREFIX = "activity:"
_CLASSES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"search.ms": MILLISECONDS, "save.ms": MILLISECONDS, "prompt.ms": MILLISECONDS, "prompt.tokens": TOKENS}
)

_log = logging.getLogger("reverie")


@dataclass(frozen=True, slots=True, kw_only=True)
class DayActivity:
    """Activity of one day.

    Attributes:
        day: The day, in the time zone of the settings.
        counts: Numbers by name: `search`, `search.nothing` (nothing was relevant), `save.created`,
            `save.reinforced`, `prompt`; and `search.ms:20`, the searches that took up to 20
            milliseconds and more than the class below; `save.ms`, `prompt.ms` and `prompt.tokens` likewise.
    """

    day: date
    counts: Mapping[str, int]

    def estimate(self, name: str, share: float) -> int | None:
        """Return the upper end of the class in which a share of the values ends; None without values.

        Args:
            name: `search.ms`, `save.ms`, `prompt.ms` or `prompt.tokens`.
            share: 0 to 1, such as .95.
        """
        ends = _CLASSES[name]
        numbers = [self.counts.get(f"{name}:{end}", 0) for end in (*ends, "more")]
        if not sum(numbers):
            return None
        place = bisect_left(list(accumulate(numbers)), share * sum(numbers))
        return ends[min(place, len(ends) - 1)]

    def to_dict(self) -> dict[str, Any]:
        """Return the day as a JSON object."""
        medians = {name: [self.estimate(name, 0.5), self.estimate(name, 0.95)] for name in _CLASSES}
        return {"day": self.day.isoformat(), "counts": dict(self.counts), "median_and_p95": medians}


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
        self._lock = ForkSafeLock()
        self._process = 0
        self._owner = ""
        self._totals: dict[str, Counter[str]] = {}
        self._is_changed = False
        self._next = 0.0

    def note_search(self, hits: int, seconds: float) -> None:
        """Count a search."""
        self._add({"search": 1, "search.nothing": int(not hits)}, {"search.ms": seconds * 1_000})

    def note_save(self, outcomes: Sequence[str], seconds: float | None = None) -> None:
        """Count saved records by outcome; with the time of a single one."""
        counts = Counter(f"save.{outcome}" for outcome in outcomes)
        self._add(counts, {} if seconds is None else {"save.ms": seconds * 1_000})

    def note_prompt(self, tokens: int, seconds: float) -> None:
        """Count a prompt."""
        self._add({"prompt": 1}, {"prompt.ms": seconds * 1_000, "prompt.tokens": tokens})

    def flush(self) -> None:
        """Write what was counted. A store that cannot be written is logged, and tried again later."""
        with self._lock:
            self._flush()

    def read(self, days: int) -> list[DayActivity]:
        """Return the last days, the earliest first, those without activity too."""
        self.flush()
        today = self._get_today()
        first = today - timedelta(days=days - 1)
        found: dict[date, Counter[str]] = {
            first + timedelta(days=number): Counter() for number in range(days)
        }
        for name, text in self._writer.store.cursors(_PREFIX).items():
            if (day := _parse_day(name)) in found:
                found[day].update(_parse_counts(text))
        return [DayActivity(day=day, counts=MappingProxyType(dict(counts))) for day, counts in found.items()]

    # -- inside ------------------------------------------------------------------------------------------

    def _get_today(self) -> date:
        return self._writer.clock().astimezone(self._zone).date()

    def _add(self, counts: Mapping[str, int], values: Mapping[str, float]) -> None:
        if not self._is_enabled:
            return
        day = self._get_today().isoformat()
        with self._lock:
            if self._process != os.getpid():  # a forked child counts by itself
                self._process, self._owner = os.getpid(), os.urandom(4).hex()
                self._totals, self._next = {}, time.monotonic() + FLUSH_S
            total = self._totals.setdefault(day, Counter())
            total.update(counts)
            for name, value in values.items():
                ends = _CLASSES[name]
                place = bisect_left(ends, value)
                total[f"{name}:{ends[place] if place < len(ends) else 'more'}"] += 1
            self._is_changed = True
            if time.monotonic() >= self._next:
                self._flush()

    def _flush(self) -> None:
        if not self._is_changed or self._process != os.getpid():
            return
        self._next = time.monotonic() + FLUSH_S
        today = self._get_today().isoformat()
        cursors: dict[str, str | None] = {
            f"{_PREFIX}{day}:{self._owner}": json.dumps({name: n for name, n in counts.items() if n})
            for day, counts in self._totals.items()
        }
        writer = self._writer
        try:
            # Not every process: of the short ones about one in sixteen, and all that run past midnight.
            if self._owner.startswith("0") or len(self._totals) > 1:
                cursors = {**self._add_up_old_days(), **cursors}
            writer.store.commit([], actor=writer.actor, at=writer.clock(), cursors=cursors)
        except StoreError as error:
            _log.warning("the counters of the day could not be written: %s", error)
            return
        self._is_changed = False
        self._totals = {day: counts for day, counts in self._totals.items() if day >= today}

    def _add_up_old_days(self) -> dict[str, str | None]:
        """Return the cursors that leave one for each day before yesterday, and none for those long past."""
        today = self._get_today()
        parts: dict[date, list[str]] = {}
        stored = self._writer.store.cursors(_PREFIX)
        for name in stored:
            if (day := _parse_day(name)) < today - timedelta(days=1):
                parts.setdefault(day, []).append(name)
        cursors: dict[str, str | None] = {}
        for day, names in parts.items():
            whole = f"{_PREFIX}{day.isoformat()}:"
            if day <= today - timedelta(days=KEPT_DAYS):
                cursors |= dict.fromkeys(names)
            elif names != [whole]:
                total: Counter[str] = Counter()
                for name in names:
                    total.update(_parse_counts(stored[name]))
                cursors |= {**dict.fromkeys(names), whole: json.dumps(total)}
        return cursors


def _parse_day(cursor: str) -> date:
    try:
        return date.fromisoformat(cursor.removeprefix(_PREFIX).partition(":")[0])
    except ValueError:
        return date.min


def _parse_counts(text: str) -> dict[str, int]:
    try:
        return {str(name): int(number) for name, number in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        _log.warning("counters of a day cannot be read and are left out: %s", error)
        return {}
