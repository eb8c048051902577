"""Tables of PostgreSQL, their migrations, their check, and what erased content leaves in them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

from reverie.domain.errors import InvalidInput, NotFound, StoreIncompatible
from reverie.stores.base import ServerStatus, StoreProblem
from reverie.stores.codec import (
    UnreadableRow,
    decode_value,
)
from reverie.stores.postgres.connections import (
    SET_SPACE,
    PostgresAddress,
    PostgresConnections,
    load_psycopg,
    translate_error,
)

if TYPE_CHECKING:
    import psycopg


# -- schema ---------------------------------------------------------------------------------------


VERSION = 13
"""Number of today's tables."""

SCHEMA_LOCK = 0x52766572
"""Lock of who makes tables: `Rver` in ASCII, as in the header of the SQLite file."""

SCHEMA_LOCK_TIMEOUT = "30s"

_FOLDER = files("reverie.stores.postgres")


def read_tables() -> str:
    """Return the SQL that makes today's tables in an empty schema."""
    return _FOLDER.joinpath("tables.sql").read_text("utf-8")


def create_tables(connection: psycopg.Connection) -> None:
    """Make today's tables, in a transaction of the caller that holds `SCHEMA_LOCK`."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS reverie")
    connection.execute(read_tables())
    connection.execute("INSERT INTO reverie.migration VALUES (%s, 'tables')", [VERSION])


@contextmanager
def lock_schema(connection: psycopg.Connection) -> Iterator[int]:
    """Yield the version of the tables in a transaction in which nobody else makes or upgrades them."""
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", [SCHEMA_LOCK_TIMEOUT])
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [SCHEMA_LOCK])
        yield read_version(connection)


def read_version(connection: psycopg.Connection) -> int:
    """Return the version of the tables; 0 if there are none."""
    (exists,) = connection.execute("SELECT to_regclass('reverie.migration') IS NOT NULL").fetchone() or (0,)
    if not exists:
        return 0
    (version,) = connection.execute("SELECT max(version) FROM reverie.migration").fetchone() or (0,)
    return int(version)


def refuse_other_version(version: int, shown: str) -> None:
    """Raise `NotFound` for the version of no tables, and `StoreIncompatible` for any but today's.

    Args:
        version: What `read_version` returned.
        shown: The address of the memory, without a password.
    """
    if version == 0:
        raise NotFound(
            f"there are no tables for {shown}: make them with `reverie store create` and the URL, "
            "or with create=True"
        )
    if version > VERSION:
        raise StoreIncompatible(
            f"{shown} was made by a newer Reverie (format {version}, this one knows up to {VERSION}): "
            "upgrade Reverie"
        )
    if version < VERSION:
        raise StoreIncompatible(
            f"{shown} has format {version}, and this Reverie needs {VERSION}: "
            "run `reverie store upgrade` with the URL when all machines have this Reverie"
        )


# -- opening of a memory -----------------------------------------------------------------------------------


@contextmanager
def connect_once(address: PostgresAddress) -> Iterator[psycopg.Connection]:
    """Yield a connection outside the pool, and translate errors of psycopg."""
    psycopg = load_psycopg()
    try:
        psycopg.conninfo.conninfo_to_dict(address.connection)
    except psycopg.Error:
        raise InvalidInput(
            f"the address of {address.shown} cannot be read by libpq: use only parameters that it knows, such as "
            "sslmode=, and percent-encode special characters"
        ) from None
    try:
        with psycopg.connect(
            address.connection, autocommit=True, prepare_threshold=None, connect_timeout=10
        ) as connection:
            yield connection
    except psycopg.Error as error:
        raise translate_error(error, address.shown) from error


def refuse_other_tables(address: PostgresAddress) -> None:
    """Raise unless a database has the tables of today's version.

    Raises:
        NotFound: it has none.
        StoreIncompatible: another version of Reverie made them.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    with connect_once(address) as connection:
        refuse_other_version(read_version(connection), address.shown)


def open_space(address: PostgresAddress, *, create: bool) -> tuple[int, str, str]:
    """Return the number of a memory in its database, its identity among all, and the origin of the database.

    Args:
        address: The memory.
        create: Whether to make the tables and the memory where there are none.

    Raises:
        NotFound: there is no such memory, and `create` is false.
        StoreIncompatible: another version of Reverie made the tables, or the database is not in UTF-8.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    with connect_once(address) as connection:
        if (encoding := connection.info.parameter_status("server_encoding")) not in ("UTF8", None):
            raise StoreIncompatible(
                f"the database of {address.shown} has the encoding {encoding}, and Reverie needs UTF8: create another "
                "with `createdb --encoding=UTF8 --template=template0`"
            )
        if create and read_version(connection) == 0:
            with lock_schema(connection) as version:
                if version == 0:  # another process may have been faster
                    create_tables(connection)
        refuse_other_version(read_version(connection), address.shown)
        row = _find_space(connection, address)
        if row is None and create:
            connection.execute(
                "INSERT INTO reverie.space (name) VALUES (%s) ON CONFLICT DO NOTHING", [address.memory]
            )
            row = _find_space(connection, address)
        origin = _read_origin(connection)
    if row is None:
        raise NotFound(
            f"no {address.shown}: make it with `reverie store create` and the URL, or with create=True"
        )
    return *row, origin


_HOLDING = (
    "SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = 'space' "
    "WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
    "AND c.relname <> 'work'"
)


def remove_space(address: PostgresAddress) -> tuple[str, ...]:
    """Remove a memory with everything in it, for good; who has it open is told so at the next change.

    Returns:
        Descriptions of where the server keeps its content for a while.

    Raises:
        NotFound: there is no such memory.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    space, _, _ = open_space(address, create=False)
    with connect_once(address) as connection:
        places = list_places(connection, space)
        with connection.transaction():
            connection.execute(
                "SELECT set_config('reverie.space', %s, true), set_config('lock_timeout', '10s', true)",
                [str(space)],
            )
            connection.execute("SELECT FROM reverie.space WHERE id = %s FOR UPDATE", [space])
            for (table,) in connection.execute(_HOLDING).fetchall():
                connection.execute(f"DELETE FROM reverie.{table} WHERE space = %s", [space])
            connection.execute("DELETE FROM reverie.space WHERE id = %s", [space])
        left = (
            ()
            if rewrite_tables(connection, places)
            else ("free space of the tables, which others had in use",)
        )
        return (*left, *describe_remains(connection))


def refuse_existing(address: PostgresAddress) -> None:
    """Raise `InvalidInput` if a database has a memory of this name."""
    with connect_once(address) as connection:
        if read_version(connection) and _find_space(connection, address):
            raise InvalidInput(f"there is a {address.shown} already: name another memory")


def _find_space(connection: psycopg.Connection, address: PostgresAddress) -> tuple[int, str] | None:
    find = "SELECT id, identity::text FROM reverie.space WHERE name = %s"
    row: tuple[int, str] | None = connection.execute(find, [address.memory]).fetchone()
    return row


def _read_origin(connection: psycopg.Connection) -> str:
    """Return an identifier of a database that a copy, a restore or a fail-over changes; empty where it is not known.

    It has the server, the database, the table in it, and the timeline, which a restore or a fail-over begins anew.
    """
    try:
        row = connection.execute(
            "SELECT concat_ws('-', system_identifier, d.oid, 'reverie.space'::regclass::oid, "
            "CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END) "
            "FROM pg_control_system(), pg_database AS d WHERE d.datname = current_database()"
        ).fetchone()
    except load_psycopg().Error:
        return ""
    return str(row[0]) if row is not None else ""


# -- upkeep --------------------------------------------------------------------------------------------

_BATCH = 1000
_RESTORE = "bring back a backup of the database, or copy the memory from one with `reverie copy`"
_COUNTED = (
    ("journal: its numbers have a gap or do not end where the memory's row says",
     "SELECT 1 FROM reverie.space WHERE id = %(space)s AND (sequence <> (SELECT count(*) FROM reverie.journal "
     "WHERE space = %(space)s) OR sequence <> (SELECT coalesce(max(sequence), 0) FROM reverie.journal "
     "WHERE space = %(space)s))"),
    ("conversations: a session has a gap in its turns",
     "SELECT 1 FROM reverie.thing WHERE space = %(space)s AND thread IS NOT NULL GROUP BY thread "
     "HAVING count(*) <> max(position) + 1 OR min(position) <> 0"),
)  # fmt: skip
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
# Findings about rights: what is wrong, what to do, and the query of which each row is one.
_OPEN = (
    (
        "table reverie.{}: its row-level security is off or not Reverie's, so memories are not kept apart",
        "run DROP POLICY IF EXISTS one_memory ON reverie.{0}; CREATE POLICY one_memory ON reverie.{0} "
        "USING (space = current_setting('reverie.space')::integer); ALTER TABLE reverie.{0} ENABLE ROW LEVEL "
        "SECURITY, FORCE ROW LEVEL SECURITY; and drop the other policies of the table",
        "SELECT c.relname FROM pg_class AS c LEFT JOIN pg_policy AS p ON p.polrelid = c.oid "
        "WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind IN ('r', 'p') "
        "AND c.relname NOT IN ('space', 'migration', 'work', 'worker') GROUP BY c.oid, c.relname "
        "HAVING NOT (c.relrowsecurity AND c.relforcerowsecurity) OR count(p.oid) <> 1 "
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


def _iterate_data_problems(connections: PostgresConnections) -> Iterator[StoreProblem]:
    memory = {"space": connections.space}
    for what, sql in _COUNTED:
        if connections.rows(sql, memory):
            yield StoreProblem(what=what, fix=_RESTORE)
    for subject, key in connections.rows(_FOLDER.joinpath("changed.sql").read_text("utf-8"), memory):
        yield StoreProblem(what=f"{subject} {key}: it is not what the journal says", fix=_RESTORE)
    last: tuple[str, int] = ("", 0)
    while rows := connections.rows(_BODIES, (connections.space, *last)):
        for subject, key, body in rows:
            try:
                decode_value(subject, body)
            except UnreadableRow as error:
                yield StoreProblem(what=f"{subject} {key}: it cannot be read, {error}", fix=_RESTORE)
        last = rows[-1][0], rows[-1][1]


# -- tables and free space ---------------------------------------------------------------------------------


# A memory is in the partitions of one number. Only its journal is never empty once it has been changed.
_PLACES = (
    "SELECT replace(j.place, 'journal', t.name) FROM (SELECT tableoid::regclass::text AS place FROM reverie.journal "
    "WHERE space = %(space)s LIMIT 1) AS j, (VALUES ('thing'), ('journal'), ('vector')) AS t (name) "
    "UNION VALUES ('reverie.entry'), ('reverie.cursor')"
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


def read_status(connections: PostgresConnections) -> ServerStatus:
    """Return the figures of now, with the time that one query takes there and back."""
    row = connections.call(_FOLDER.joinpath("status.sql").read_text("utf-8"))
    begun = time.perf_counter()
    connections.call("SELECT 1")
    seconds = time.perf_counter() - begun
    pool = connections.read_pool_figures()
    lost = pool.get("connections_lost", 0) + pool.get("connections_errors", 0)
    counted = (pool.get(name, 0) for name in ("pool_size", "pool_available", "pool_max", "requests_waiting"))
    figures = (row[0], round(seconds * 1000, 2), *counted, lost, *row[1:])  # in the order of the fields
    return ServerStatus(*figures)
