"""Queue of the memories of a database whose background work may be due, for any number of workers.

A change makes its memory due. A worker claims one memory at a time, the one that has waited longest, examines it, and
reports when it is due next. A claim only keeps two workers from examining the same memory at once; the store has
leases besides. All times are those of the server's clock.
"""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reverie.stores.postgres.connections import PostgresAddress, PostgresConnections
from reverie.stores.postgres.schema import refuse_other_tables

CLAIM_TIME = timedelta(seconds=30)
"""Time after which a memory is due again if its worker did not report."""

_FORGOTTEN = timedelta(days=1)
_PAUSE, _LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkClaim:
    """A memory that a worker examines.

    Attributes:
        space: Its number.
        memory: Its name.
        number: The number of the claim.
    """

    space: int
    memory: str
    number: int


class WorkQueue:
    """One worker's view of the work in a database. Safe to use from several threads.

    Args:
        address: The database.

    Raises:
        NotFound: the database has no tables of Reverie.
        StoreIncompatible: another version of Reverie made them.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.

    Attributes:
        worker: Name of this worker in the table of workers.
    """

    def __init__(self, address: PostgresAddress) -> None:
        address = replace(address, shown=address.database)
        refuse_other_tables(address)
        self._connections = PostgresConnections(address, space=0, patience=10)
        self._current: str | None = None
        self.worker = secrets.token_hex(6)

    def claim(self) -> WorkClaim | None:
        """Return the memory that has been due for the longest time; None if none is due."""
        space, memory, number = self._connections.call(
            "SELECT * FROM reverie.claim_work(%s, NULL)", (CLAIM_TIME,)
        )
        self._current = memory
        return None if space is None else WorkClaim(space=space, memory=memory, number=number)

    def finish(self, claim: WorkClaim, next_at: datetime | None, *, has_failed: bool = False) -> None:
        """Report when a memory is due next, unless a change has made it due meanwhile.

        Args:
            claim: The claim.
            next_at: The time; None for when something has changed.
            has_failed: Whether the work has failed; the wait grows with the number of failures in a row.
        """
        self._current = None
        self._connections.call(
            "WITH ended AS (UPDATE reverie.work SET failures = CASE WHEN %(failed)s THEN failures + 1 ELSE 0 END, "
            "due_at = CASE WHEN %(failed)s THEN clock_timestamp() + least(%(pause)s * 2.0 ^ least(failures, 20), "
            "%(longest)s) WHEN due_at <= clock_timestamp() THEN due_at "
            "ELSE coalesce(%(next)s::timestamptz, 'infinity') END "
            "WHERE space = %(space)s AND claim = %(number)s RETURNING 1) SELECT count(*) FROM ended",
            {
                "failed": has_failed,
                "pause": _PAUSE,
                "longest": _LONGEST_PAUSE,
                "next": next_at,
                "space": claim.space,
                "number": claim.number,
            },
        )

    def beat(self) -> None:
        """Record that this worker lives, and remove workers that have not reported for a day."""
        self._connections.call(
            "WITH gone AS (DELETE FROM reverie.worker WHERE seen_at < clock_timestamp() - %s AND id <> %s), "
            "beat AS (INSERT INTO reverie.worker AS w (id, host, memory) VALUES (%s, %s, %s) "
            "ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), memory = excluded.memory) SELECT 1",
            (_FORGOTTEN, self.worker, self.worker, socket.gethostname(), self._current),
        )

    def close(self) -> None:
        """Remove this worker from the table, and close its connections."""
        try:
            self._connections.call(
                "WITH gone AS (DELETE FROM reverie.worker WHERE id = %s) SELECT 1", (self.worker,)
            )
        finally:
            self._connections.close()
