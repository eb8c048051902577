"""Limits of the rate of requests, a token bucket for each access token, in memory."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

from reverie.interfaces.http.problems import Problem

WINDOW_S = 60
MOST_BUCKETS = 10_000


class RateLimit:
    """Limit of the requests a minute with one token. Safe to use from several threads.

    A token may send a minute's requests at once; after that they come back evenly.
    """

    def __init__(self, requests: int) -> None:
        """Allow a number of requests a minute to each token."""
        self.requests = requests
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, token: str, *, now: float | None = None) -> dict[str, str]:
        """Count one request, and return the headers that say what is left.

        Args:
            token: Id of the token.
            now: Time of a monotonic clock; None to ask it.

        Raises:
            Problem: the token has none left.
        """
        now = time.monotonic() if now is None else now
        with self._lock:
            left, since = self._buckets.pop(token, (float(self.requests), now))
            left = min(float(self.requests), left + (now - since) * self.requests / WINDOW_S)
            is_allowed = left >= 1
            left -= is_allowed
            self._buckets[token] = left, now
            if len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
        wait = -int(-(1 - left) * WINDOW_S // self.requests) if left < 1 else 0
        headers = {
            "RateLimit-Policy": f'"token";q={self.requests};w={WINDOW_S}',
            "RateLimit": f'"token";r={int(left)};t={wait}',
        }
        if not is_allowed:
            raise Problem(
                429,
                f"This token has sent its {self.requests:,} requests a minute. Send the next one in {wait} s.",
                headers={**headers, "Retry-After": str(wait)},
            )
        return headers
