"""Counters of a server in the text format of Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of durations, in seconds."""


class Metrics:
    """Counters of requests. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self.running = 0

    def record(self, operation: str, status: int, seconds: float) -> None:
        """Count one answer."""
        with self._lock:
            self._requests[operation, status] += 1
            buckets = self._buckets.setdefault(operation, [0] * (len(BUCKETS_S) + 1))
            buckets[bisect_left(BUCKETS_S, seconds)] += 1
            self._seconds[operation] += seconds  # type: ignore[assignment]

    def format(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return everything as text.

        Args:
            gauges: Further values by name, each with its description.
        """
        with self._lock:
            lines = [*self._format_requests(), *self._format_durations()]
        lines += _format_family(
            "reverie_requests_running", "gauge", "Requests being answered.", [("", self.running)]
        )
        for name, (text, value) in gauges.items():
            lines += _format_family(name, "gauge", text, [("", value)])
        return "\n".join(lines) + "\n"

    def _format_requests(self) -> Iterator[str]:
        values = (
            (f'{{operation="{operation}",status="{status}"}}', count)
            for (operation, status), count in sorted(self._requests.items())
        )
        yield from _format_family("reverie_requests_total", "counter", "Answered requests.", values)

    def _format_durations(self) -> Iterator[str]:
        name = "reverie_request_seconds"
        yield from _format_family(name, "histogram", "Duration of requests in seconds.", ())
        for operation, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), buckets, strict=True):
                total += count
                yield f'{name}_bucket{{operation="{operation}",le="{bound}"}} {total}'
            yield f'{name}_sum{{operation="{operation}"}} {self._seconds[operation]:.6f}'
            yield f'{name}_count{{operation="{operation}"}} {total}'


def _format_family(name: str, kind: str, text: str, values: Iterable[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        yield f"{name}{labels} {value}"
