"""Upkeep of a memory in PostgreSQL: its check, renewal of its words for search, statistics, and erased content.

The check compares the data with the journal, and examines the rights that keep memories apart.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from reverie.domain.passage import Analyse
from reverie.stores.codec import (
    ANALYSIS_COLUMNS,
    Row,
    UnreadableRow,
    analyze_columns,
    decode_value,
)
from reverie.stores.postgres.connections import SET_SPACE, PostgresConnections
from reverie.stores.protocol import ServerStatus, StoreProblem
from reverie.stores.sql import format_limit

if TYPE_CHECKING:
    import psycopg

_BATCH = 1000
_RESTORE = "bring back a backup of the database, or copy the memory from one with `reverie copy`"
_COUNTED = (
    ("journal: its numbers have a gap or do not end where the memory's row says",
     "SELECT 1 FROM reverie.space WHERE id = %(space)s AND (sequence <> (SELECT count(*) FROM reverie.journal "
     "WHERE space = %(space)s) OR sequence <> (SELECT coalesce(max(sequence), 0) FROM reverie.journal "
     "WHERE space = %(space)s))"),
    ("counters of search: they differ from a recount",
     "SELECT 1 FROM (SELECT subject, area, voice, count(*) AS passages, sum(length) AS tokens "
     "FROM reverie.thing CROSS JOIN LATERAL (VALUES ('*'), ('=' || scope)) AS a (area) "
     "WHERE space = %(space)s AND searched GROUP BY subject, area, voice) AS counted "
     "FULL JOIN (SELECT * FROM reverie.measure WHERE space = %(space)s) AS m USING (subject, area, voice) "
     "WHERE (m.passages, m.tokens) IS DISTINCT FROM (counted.passages, counted.tokens)"),
    ("conversations: a session has a gap in its turns",
     "SELECT 1 FROM reverie.thing WHERE space = %(space)s AND thread IS NOT NULL GROUP BY thread "
     "HAVING count(*) <> max(position) + 1 OR min(position) <> 0"),
)  # fmt: skip
_POSTINGS = (
    "WITH held AS (SELECT key, emphasis, brevity, field, token, scope FROM reverie.posting WHERE space = %(space)s), "
    "due AS (SELECT d.* FROM reverie.space AS s, reverie.derive_postings(s.id) AS d WHERE s.id = %(space)s "
    "AND s.has_postings) SELECT 1 WHERE EXISTS (TABLE held EXCEPT TABLE due) OR EXISTS (TABLE due EXCEPT TABLE held)"
)
_CHANGED = (  # no join: without statistics, as after a copy, one would compare every thing with every change
    "WITH things AS MATERIALIZED (SELECT subject, key, sha256(convert_to(body::text, 'UTF8')) FROM reverie.thing "
    "WHERE space = %(space)s), latest AS MATERIALIZED (SELECT subject, key, sha256(convert_to(after::text, 'UTF8')) "
    "FROM (SELECT DISTINCT ON (key) subject, key, after FROM reverie.journal WHERE space = %(space)s "
    "ORDER BY key, sequence DESC) AS newest WHERE after IS NOT NULL) SELECT DISTINCT subject, key FROM "
    "((TABLE things EXCEPT TABLE latest) UNION ALL (TABLE latest EXCEPT TABLE things)) AS differing "
    "ORDER BY subject, key LIMIT 20"
)
_BODIES = (
    "SELECT subject, key, body::text FROM reverie.thing WHERE space = %s AND (subject, key) > (%s, %s) "
    f"ORDER BY subject, key LIMIT {_BATCH}"
)
_MISSING = (
    "table reverie.{0}: the role {2!r} lacks {1}",
    'run GRANT {1} ON reverie.{0} TO "{2}" as the owner of the tables',
    "SELECT c.relname, string_agg(r.name, ', ' ORDER BY r.name), current_user::text FROM pg_class AS c "
    "CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r (name) "
    "WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
    "AND (c.relname <> 'migration' OR r.name = 'SELECT') AND NOT has_table_privilege(c.oid, r.name) "
    "GROUP BY c.relname ORDER BY 1",
)
_OPEN = (
    (
        "table reverie.{}: row-level security is not forced, so memories are not kept apart",
        "run ALTER TABLE reverie.{0} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "SELECT relname FROM pg_class WHERE relnamespace = 'reverie'::regnamespace AND relkind IN ('r', 'p') "
        "AND relname NOT IN ('space', 'migration', 'work', 'worker') "
        "AND NOT (relrowsecurity AND relforcerowsecurity) ORDER BY 1",
    ),
    (
        "table reverie.{}: its row-level security is not Reverie's, so memories are not kept apart",
        "drop all policies of reverie.{0}, and run CREATE POLICY one_memory ON reverie.{0} "
        "USING (space = current_setting('reverie.space')::integer)",
        "SELECT c.relname FROM pg_class AS c LEFT JOIN pg_policy AS p ON p.polrelid = c.oid "
        "WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') "
        "AND c.relname NOT IN ('space', 'migration', 'work', 'worker') GROUP BY c.relname HAVING count(p.oid) <> 1 "
        "OR min(pg_get_expr(p.polqual, p.polrelid)) <> "
        "'(space = (current_setting(''reverie.space''::text))::integer)' "
        "OR bool_or(p.polwithcheck IS NOT NULL) ORDER BY 1",
    ),
    (
        "the role is a superuser or bypasses row-level security, so memories are not kept apart",
        "connect as a role with NOSUPERUSER NOBYPASSRLS",
        "SELECT 1 FROM pg_roles WHERE rolname = current_user AND (rolsuper OR rolbypassrls)",
    ),
)
"""Findings about rights: what is wrong, what to do, and the query of which each row is one."""


def find_problems(connections: PostgresConnections) -> list[StoreProblem]:
    """Return all problems of a memory; an empty list if there are none.

    Args:
        connections: Its connections, in a `viewing` block, so that all is compared in one state.
    """

    def find(what: str, fix: str, sql: str) -> list[StoreProblem]:
        rows = connections.rows(sql)
        return [StoreProblem(what=what.format(*row), fix=fix.format(*row)) for row in rows]

    missing = find(*_MISSING)
    data = [] if missing else _iterate_data_problems(connections)  # what cannot be read is no damage
    return [*missing, *data, *(problem for each in _OPEN for problem in find(*each))]


def has_damaged_postings(connections: PostgresConnections) -> bool:
    """Return whether the postings of a memory that has some differ from its passages."""
    return bool(connections.rows(_POSTINGS, {"space": connections.space}))


def _iterate_data_problems(connections: PostgresConnections) -> Iterator[StoreProblem]:
    memory = {"space": connections.space}
    for what, sql in _COUNTED:
        if connections.rows(sql, memory):
            yield StoreProblem(what=what, fix=_RESTORE)
    if has_damaged_postings(connections):
        yield StoreProblem(
            what="postings of search: they differ from the passages",
            fix="have them made again with `reverie doctor --fix`",
            repairable=True,
        )
    for subject, key in connections.rows(_CHANGED, memory):
        yield StoreProblem(what=f"{subject} {key}: it is not what the journal says", fix=_RESTORE)
    last: tuple[str, int] = ("", 0)
    while rows := connections.rows(_BODIES, (connections.space, *last)):
        for subject, key, body in rows:
            try:
                decode_value(subject, body)
            except UnreadableRow as error:
                yield StoreProblem(what=f"{subject} {key}: it cannot be read, {error}", fix=_RESTORE)
        last = rows[-1][0], rows[-1][1]


# -- words for search --------------------------------------------------------------------------------------


_WORDS_BATCH = 500
_THINGS = (
    f"SELECT subject, key, body::text, {', '.join(ANALYSIS_COLUMNS)} FROM reverie.thing WHERE space = %s "
    "AND subject IN ('record', 'turn', 'paragraph') AND (subject, key) > (%s, %s) ORDER BY subject, key"
)
_RENEWED = (
    "UPDATE reverie.work SET renewed_subject = NULL, renewed_key = NULL WHERE space = %s AND renewed_key IS NOT NULL "
    "RETURNING 1"
)


def renew_words(connections: PostgresConnections, analyse: Analyse) -> None:
    """Give the things of a memory the words that the analyzer makes of them. Others may write meanwhile."""
    place: tuple[str, int] = ("", 0)
    while rows := connections.rows(_THINGS + format_limit(_WORDS_BATCH), (connections.space, *place)):
        stale: list[Row] = []
        for subject, key, body, *stored in rows:
            try:
                value = decode_value(subject, body)
            except UnreadableRow:
                continue  # the check of the store reports it
            if value is not None and tuple(stored) != (words := analyze_columns(value, analyse)):
                stale.append((subject, key, body, *words))
        if stale:
            connections.call_function("renew_words", *map(list, zip(*stale, strict=True)))
        place = rows[-1][:2]
    connections.rows(_RENEWED, (connections.space,))


# -- tables and free space ---------------------------------------------------------------------------------


_PLACES = (
    "SELECT replace(j.place, 'journal', t.name) FROM (SELECT tableoid::regclass::text AS place FROM reverie.journal "
    "WHERE space = %(space)s LIMIT 1) AS j, (VALUES ('thing'), ('journal'), ('posting'), ('vector')) AS t (name) "
    "UNION VALUES ('reverie.entry'), ('reverie.cursor')"
)
"""A memory is in the partitions of one number. Only its journal is never empty once it has been changed."""

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
