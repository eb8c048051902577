"""Health of a database of memories as one process sees it: its connections, standbys and background work."""

from __future__ import annotations

import time

from reverie.stores.health import ServerStatus
from reverie.stores.postgres.connections import PostgresConnections

_STATUS = """
    SELECT current_setting('server_version'),
        (SELECT count(*) FROM reverie.space),
        (SELECT count(*) FROM reverie.worker WHERE seen_at > clock_timestamp() - interval '1 minute'),
        count(*) FILTER (WHERE due_at <= clock_timestamp()),
        coalesce(extract(epoch FROM clock_timestamp() - min(due_at) FILTER (WHERE due_at <= clock_timestamp())), 0),
        count(*) FILTER (WHERE failures > 0),
        (SELECT count(*) FROM pg_stat_replication),
        (SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication)
    FROM reverie.work
"""


def read_status(connections: PostgresConnections) -> ServerStatus:
    """Return the figures of now, with the time that one query takes there and back."""
    row = connections.call(_STATUS)
    begun = time.perf_counter()
    connections.call("SELECT 1")
    seconds = time.perf_counter() - begun
    version, memories, workers, due, waited, failing, standbys, lag = row
    pool = connections.read_pool_figures()
    return ServerStatus(
        version=version,
        round_trip_ms=round(seconds * 1000, 2),
        connections=pool.get("pool_size", 0),
        idle_connections=pool.get("pool_available", 0),
        most_connections=pool["pool_max"],
        waiting_calls=pool.get("requests_waiting", 0),
        lost_connections=pool.get("connections_lost", 0) + pool.get("connections_errors", 0),
        memories=memories,
        workers=workers,
        due=due,
        due_for_s=round(float(waited), 1),
        failing=failing,
        standbys=standbys,
        standby_lag_s=None if lag is None else float(lag),
    )
