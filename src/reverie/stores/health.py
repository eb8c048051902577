"""State of a store: problems that a check found, and the health of its server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProblem:
    """A problem that `check` found.

    Attributes:
        what: What is wrong, with the id or table concerned; never content.
        fix: What a person can do about it.
        repairable: Whether the store can repair it.
    """

    what: str
    fix: str
    repairable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """Result of a repair.

    Attributes:
        kept: The damaged file, under its new name.
        changes: Number of entries of the journal.
        lost: What could not be read, such as `3 changes`; never content.
    """

    kept: Path
    changes: int
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """Health of the server of a memory, as this process sees it.

    Attributes:
        version: Version of the server.
        round_trip_ms: How long a query takes that does nothing.
        connections: Connections that this process has open, for all its memories in the database.
        idle_connections: How many of them are not in use.
        most_connections: How many it may open.
        waiting_calls: Calls that wait for a connection.
        lost_connections: Connections that were lost or refused since the process began.
        memories: Memories in the database.
        workers: Processes of `reverie worker` that were heard of within a minute.
        due: Memories at which a worker has to look.
        due_for_s: How long the first of them has waited, in seconds.
        failing: Memories whose background work failed last time.
        standbys: Standbys that follow the server.
        standby_lag_s: How far the last of them is behind, in seconds; None if it is not, or the role may not know.
    """

    version: str
    round_trip_ms: float
    connections: int
    idle_connections: int
    most_connections: int
    waiting_calls: int
    lost_connections: int
    memories: int
    workers: int
    due: int
    due_for_s: float
    failing: int
    standbys: int
    standby_lag_s: float | None
