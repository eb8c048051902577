"""Threads for calls, so that a slow call blocks no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

MOST_AT_ONCE = 32
"""Maximum concurrent calls; others wait for a thread."""

_T = TypeVar("_T")


class CallThreads:
    """Threads for blocking calls; a cancelled call runs to its end in the background."""

    def __init__(self, at_once: int = MOST_AT_ONCE) -> None:
        self._limiter = anyio.CapacityLimiter(at_once)
        self._none_left = threading.Condition()
        self._running = 0

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run `call` on a thread; return its result."""
        return await anyio.to_thread.run_sync(
            self._run_counted, call, abandon_on_cancel=True, limiter=self._limiter
        )

    def drain(self, timeout: float) -> bool:
        """Wait until no call runs; False if some still do after the timeout."""
        end = time.monotonic() + timeout
        with self._none_left:
            return self._none_left.wait_for(lambda: self._running == 0, max(0.0, end - time.monotonic()))

    def _run_counted(self, call: Callable[[], _T]) -> _T:
        with self._none_left:
            self._running += 1
        try:
            return call()
        finally:
            with self._none_left:
                self._running -= 1
                self._none_left.notify_all()
