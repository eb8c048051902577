"""Thread and lease of background work: one owner among all processes that work on a memory."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Protocol

from reverie.domain.entry import Entry
from reverie.domain.errors import ReverieError
from reverie.domain.text.timestamps import Clock
from reverie.stores.forks import ForkSafeLock
from reverie.stores.protocol import LeasingStore, Store
from reverie.stores.redacting import unwrap

_log = logging.getLogger("reverie")

LEASE = "lease:dream"
"""Namespace of the one entry that names the process at work, in a store that has no leases of its own."""

LEASE_TIME = timedelta(seconds=30)
"""Duration of a lease without renewal, such as after its owner was killed."""

LONGEST_PASS = timedelta(minutes=30)
"""Maximum time for which a lease is renewed in one run. After that, another process may take over."""

CLOCK_WAS_WRONG = timedelta(days=1)
"""Times further in the future were written by a clock that was wrong; nothing waits for them."""


class DreamLease:
    """Lease in one store. Thread-safe."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._leases = unwrap(store)
        self._clock = clock
        self._token = secrets.token_hex(6)
        self._holders = Counter[str]()  # threads that work under the lease, by its owner
        self._lock = ForkSafeLock()

    @property
    def _owner(self) -> str:
        """The name under which this process holds the lease; a forked one has another."""
        return f"{self._token}-{os.getpid()}"

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lease, renewed by a thread of its own. Yield False where another process has it."""
        token = self.take()
        if token is None:
            yield False
            return
        with self._lock:
            self._holders[self._owner] += 1
        done = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(done,), name="reverie-lease", daemon=True)
        renewing.start()
        try:
            with self._leases.fencing(token) if isinstance(self._leases, LeasingStore) else nullcontext():
                yield True
        finally:
            done.set()
            renewing.join()
            with self._lock:
                self._holders[self._owner] -= 1
                is_last = not self._holders[self._owner]
            if is_last:
                self._release()

    def _renew(self, done: threading.Event) -> None:
        every, left = LEASE_TIME.total_seconds() / 3, LONGEST_PASS.total_seconds()
        while left > 0 and not done.wait(every):
            left -= every
            try:
                self.take()
            except ReverieError as error:
                _log.warning("the lease could not be renewed: %s", error)

    def take(self) -> int | None:
        """Take or renew the lease; return its token, 0 in a store without, None where another process has it."""
        if isinstance(self._leases, LeasingStore):
            return self._leases.take_lease(self._owner, LEASE_TIME)
        now = self._clock()
        mine = Entry(namespace=LEASE, key=self._owner, data="", stored_at=now, expires_at=now + LEASE_TIME)
        if self._store.put_entry(mine, capacity=1, now=now):
            return 0
        wrong = [
            entry.key
            for entry in self._store.entries(LEASE, now=now)
            if entry.expires_at is not None and entry.expires_at - now > CLOCK_WAS_WRONG
        ]
        self._store.drop_entries(LEASE, wrong)
        return 0 if wrong and self._store.put_entry(mine, capacity=1, now=now) else None

    def _release(self) -> None:
        try:
            if isinstance(self._leases, LeasingStore):
                self._leases.release_lease(self._owner)
            else:
                self._store.drop_entries(LEASE, [self._owner])
        except ReverieError as error:
            _log.warning("the lease could not be given back; it ends by itself: %s", error)


class _Working(Protocol):
    def run_safely(self) -> bool: ...


def work_while_used(
    find: Callable[[], _Working | None],
    wake: threading.Event,
    every_s: float,
    before: Sequence[threading.Thread],
) -> None:
    """Run the thread of a worker until it is stopped, or until no program uses its memory."""
    for thread in before:
        thread.join()
    while (worker := find()) is not None and worker.run_safely():
        del worker  # while this thread waits, it must not keep the memory
        wake.wait(every_s)
        wake.clear()
