"""Lease of background work: one owner among all processes that work on a memory."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta

from reverie.domain.entry import Entry
from reverie.domain.errors import ReverieError
from reverie.domain.text.timestamps import Clock
from reverie.stores.forks import ForkSafeLock
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_server_store

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
        self._leases = get_server_store(store)
        self._clock = clock
        self._token = secrets.token_hex(6)
        self._lock = ForkSafeLock()  # the threads of a process work one after the other

    @property
    def _owner(self) -> str:
        """The name under which this process holds the lease; a forked one has another."""
        return f"{self._token}-{os.getpid()}"

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lease, renewed by a thread of its own. Yield False where another process has it."""
        with self._lock:
            token = self.take()
            if token is None:
                yield False
                return
            done = threading.Event()
            renewing = threading.Thread(target=self._renew, args=(done,), name="reverie-lease", daemon=True)
            renewing.start()
            try:
                with nullcontext() if self._leases is None else self._leases.fencing(token):
                    yield True
            finally:
                done.set()
                renewing.join()
                self._release()

    def _renew(self, done: threading.Event) -> None:
        every = LEASE_TIME / 3
        for _ in range(LONGEST_PASS // every):
            if done.wait(every.total_seconds()):
                return
            try:
                self.take()
            except ReverieError as error:
                _log.warning("the lease could not be renewed: %s", error)

    def take(self) -> int | None:
        """Take or renew the lease; return its token, 0 in a store without, None where another process has it."""
        if self._leases is not None:
            return self._leases.take_lease(self._owner, LEASE_TIME)
        now = self._clock()
        mine = Entry(namespace=LEASE, key=self._owner, data="", stored_at=now, expires_at=now + LEASE_TIME)
        wrong = [
            entry.key
            for entry in self._store.entries(LEASE, now=now)
            if entry.expires_at is not None and entry.expires_at - now > CLOCK_WAS_WRONG
        ]
        if wrong:
            self._store.drop_entries(LEASE, wrong)
        return 0 if self._store.put_entry(mine, capacity=1, now=now) else None

    def _release(self) -> None:
        try:
            if self._leases is not None:
                self._leases.release_lease(self._owner)
            else:
                self._store.drop_entries(LEASE, [self._owner])
        except ReverieError as error:
            _log.warning("the lease could not be given back; it ends by itself: %s", error)
