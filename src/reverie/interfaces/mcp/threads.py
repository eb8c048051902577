"""Threads for calls, so that a slow call blocks no other."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

import anyio
import anyio.to_thread

Lane: TypeAlias = Literal["read", "search", "change"]

MOST_AT_ONCE: dict[Lane, int] = {"read": 32, "search": (os.cpu_count() or 1) + 1, "change": 16}
"""Maximum concurrent calls of each kind; others wait for a thread.

Changes wait for each other, and searches for the processor. More concurrent searches would hardly end sooner, and
everything else would take much longer: a thread that returns from the database waits for the computing threads, so a
save beside six searches takes ten times as long as beside two.
"""

LAST_CALLS_S = 10.0
"""Seconds to wait for running calls before the memory is closed."""

_T = TypeVar("_T")
_log = logging.getLogger("reverie")


class CallThreads:
    """Threads for blocking calls; a cancelled call runs to its end in the background."""

    def __init__(self) -> None:
        self._limiters = {lane: anyio.CapacityLimiter(most) for lane, most in MOST_AT_ONCE.items()}
        self._none_left = threading.Condition()
        self._running = 0

    async def run(self, call: Callable[[], _T], *, lane: Lane = "read") -> _T:
        """Run `call` on a thread; return its result.

        Args:
            call: The function.
            lane: Kind of the call; it waits only for calls of the same kind.
        """
        return await anyio.to_thread.run_sync(
            self._run_counted, call, abandon_on_cancel=True, limiter=self._limiters[lane]
        )

    def drain(self) -> bool:
        """Wait until no call runs; return False, and log it, if some do for too long."""
        with self._none_left:
            is_done = self._none_left.wait_for(lambda: self._running == 0, LAST_CALLS_S)
        if not is_done:
            _log.warning("some calls were still running when the server stopped")
        return is_done

    def _run_counted(self, call: Callable[[], _T]) -> _T:
        with self._none_left:
            self._running += 1
        try:
            return call()
        finally:
            with self._none_left:
                self._running -= 1
                self._none_left.notify_all()
