"""Upkeep of the tables in which a memory is: statistics, and removal of erased content from free space."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reverie.stores.health import ServerStatus
from reverie.stores.postgres.connections import SET_SPACE, PostgresConnections

if TYPE_CHECKING:
    import psycopg

_PLACES = (
    "SELECT replace(j.place, 'journal', t.name) FROM (SELECT tableoid::regclass::text AS place FROM reverie.journal "
    "WHERE space = %(space)s LIMIT 1) AS j, (VALUES ('thing'), ('journal'), ('posting'), ('vector')) AS t (name) "
    "UNION VALUES ('reverie.entry'), ('reverie.cursor')"
)
"""A memory is in the partitions of one number. Only its journal is never empty once it has been changed."""

_UNKNOWN = (
    "SELECT relid::regclass::text FROM pg_stat_user_tables WHERE relid = ANY (%s::text[]::regclass[]) "
    "AND coalesce(last_analyze, last_autoanalyze) IS NULL"
)

_COPIES = (
    "SELECT current_setting('archive_mode') <> 'off', (SELECT count(*) FROM pg_stat_replication), "
    "current_setting('log_parameter_max_length') <> '0' AND (current_setting('log_statement') IN ('all', 'mod') "
    "OR '-1' <> ANY (ARRAY[current_setting('log_min_duration_statement'), "
    "current_setting('log_min_duration_sample')]))"
)


def rewrite_tables(connection: psycopg.Connection, places: Iterable[str]) -> bool:
    """Rewrite tables without dead rows and free space.

    Each is locked meanwhile, for all memories in it.

    Args:
        connection: A connection in autocommit mode.
        places: The tables.

    Returns:
        False if others had a table in use, or if the role may not rewrite it.
    """
    skipped: list[str] = []

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":  # it is locked, or the role may not rewrite it
            skipped.append(diagnostic.sqlstate)

    connection.add_notice_handler(note)
    try:
        for place in places:
            connection.execute(f"VACUUM (FULL, SKIP_LOCKED) {place}")
    finally:
        connection.remove_notice_handler(note)
    return not skipped


def analyze_tables(connection: psycopg.Connection, space: int, *, again: bool) -> None:
    """Make statistics of the tables in which a memory is, after much was written at once.

    The server does so by itself within a minute. Until then it would read all things of a kind to find one by its id.
    Tables are skipped that the role may not analyze, or that are being looked after.

    Args:
        connection: A connection in autocommit mode.
        space: The number of the memory.
        again: Whether to do so too where there are statistics already.
    """
    places = list_places(connection, space)
    if not again:
        places = [place for (place,) in connection.execute(_UNKNOWN, [places]).fetchall()]
    for place in places:
        connection.execute(f"ANALYZE (SKIP_LOCKED) {place}")


def list_places(connection: psycopg.Connection, space: int) -> list[str]:
    """Return the names of the tables and partitions in which a memory is."""
    with connection.pipeline():
        connection.execute(SET_SPACE, [str(space)])
        cursor = connection.execute(_PLACES, {"space": space})
    return [place for (place,) in cursor.fetchall()]


def describe_remains(connection: psycopg.Connection) -> tuple[str, ...]:
    """Return descriptions of where the server keeps erased content that no statement can remove."""
    archives, standbys, logs = connection.execute(_COPIES).fetchone() or (False, 0, False)
    remains = ["the write-ahead log of the server, until its segments are overwritten"]
    if standbys:
        remains.append(f"the write-ahead logs of {standbys} standbys, until their segments are overwritten")
    if archives:
        remains.append("archived segments of the write-ahead log, until you delete them")
    if logs:
        remains.append("the log of the server, which has statements with their texts, until you delete it")
    remains.append("search indexes on other machines, until they are next written in full")
    return (*remains, "backups of the server and snapshots of its disk, until you delete them")


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
