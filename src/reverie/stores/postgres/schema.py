"""Tables of PostgreSQL and their migrations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from reverie.domain.change import Value
from reverie.domain.errors import InvalidInput, NotFound, StoreIncompatible
from reverie.domain.passage import Analyse, AnalyzedText
from reverie.domain.record import Record
from reverie.stores.base import MIGRATOR, find_merges, move_fields, read_moved
from reverie.stores.codec import RECORDS, UnreadableRow, from_document, to_document
from reverie.stores.postgres.connections import (
    PostgresAddress,
    PostgresConnections,
    load_psycopg,
    parse_postgres_url,
    translate_error,
)
from reverie.stores.postgres.statements import CHANGE, build_parameters
from reverie.stores.postgres.upkeep import describe_remains, list_places, renew_words, rewrite_tables

if TYPE_CHECKING:
    import psycopg


_THINGS = (
    "SELECT key, id, body::text, fingerprint, length, voice, cues, dates, terms FROM reverie.thing "
    "WHERE space = %s AND subject = 'record' ORDER BY key"
)
_PATIENCE = "30s"
_PATIENCE_S = 30


def rewrite_records(connection: psycopg.Connection) -> None:
    """Move fields, compute fingerprints, and merge records with the same text, in all memories of a database."""
    for (space,) in connection.execute("SELECT id FROM reverie.space").fetchall():
        connection.execute("SELECT set_config('reverie.space', %s, true)", [str(space)])
        _rewrite_journal(connection, space)
        _rewrite_things(connection, space)


def _rewrite_things(connection: psycopg.Connection, space: int) -> None:
    records: dict[int, tuple[Record, str | None]] = {}
    analyses: dict[str, AnalyzedText] = {}
    for key, name, body, mark, length, voice, cues, dates, terms in connection.execute(
        _THINGS, [space]
    ).fetchall():
        try:
            record = from_document(RECORDS, body)
        except UnreadableRow:
            continue  # the check of the store reports it
        moved = move_fields(record)
        records[key] = moved, mark
        analyses[name] = AnalyzedText(terms=terms, length=length, speaker=voice, cues=cues, dates=dates)
        if moved is not record:
            document = to_document(RECORDS, RECORDS.encode(moved))
            connection.execute(
                "UPDATE reverie.thing SET body = %s::json WHERE space = %s AND subject = 'record' AND key = %s",
                [document, space, key],
            )
    _merge(connection, space, {key: record for key, (record, _) in records.items()}, analyses)
    for key, (record, mark) in records.items():
        if mark is not None and mark != record.fingerprint:
            connection.execute(
                "UPDATE reverie.thing SET fingerprint = %s "
                "WHERE space = %s AND subject = 'record' AND key = %s AND fingerprint IS NOT NULL",
                [record.fingerprint, space, key],
            )


def _merge(
    connection: psycopg.Connection,
    space: int,
    records: Mapping[int, Record],
    analyses: Mapping[str, AnalyzedText],
) -> None:
    """Merge records with the same text. Others still have the fingerprints of before, so none is in the way."""

    def analyse(value: Value) -> AnalyzedText:
        return analyses[value.id]  # background work renews the words

    now = datetime.now(UTC)
    if changes := find_merges(records.values(), now=now):
        parameters = build_parameters(
            changes,
            analyse,
            space=space,
            patience=_PATIENCE,
            actor=MIGRATOR,
            at=now,
            options={"operation": "reinforce"},
        )
        connection.execute(CHANGE, {**parameters, "is_retry": False})


def _rewrite_journal(connection: psycopg.Connection, space: int) -> None:
    rows = connection.execute(
        "SELECT sequence, before::text, after::text FROM reverie.journal WHERE space = %s AND subject = 'record'",
        [space],
    ).fetchall()
    for sequence, *documents in rows:
        for name, document in zip(("before", "after"), documents, strict=True):
            if (moved := read_moved(document)) is not None:
                connection.execute(
                    f"UPDATE reverie.journal SET {name} = %s::json WHERE space = %s AND sequence = %s",
                    [to_document(RECORDS, RECORDS.encode(moved)), space, sequence],
                )


# -- schema ---------------------------------------------------------------------------------------


_LOCK = 0x52766572
"""`Rver` in ASCII, as in the header of the SQLite file."""

_LOCK_TIMEOUT = "30s"

RECORD_FIELDS = 11
"""Number of the step that also rewrites records."""


def list_migrations() -> list[tuple[int, str, str]]:
    """Return the number, name and SQL of every step, in order."""
    folder = files("reverie.stores.postgres")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        (int(name[:4]), name[5:-4].replace("_", " "), (folder / name).read_text("utf-8")) for name in names
    ]


def read_version(connection: psycopg.Connection) -> int:
    """Return the number of the newest step that the database has been through; 0 if it has no schema."""
    (exists,) = connection.execute("SELECT to_regclass('reverie.migration') IS NOT NULL").fetchone() or (0,)
    if not exists:
        return 0
    (version,) = connection.execute("SELECT max(version) FROM reverie.migration").fetchone() or (0,)
    return int(version)


def refuse_other_version(version: int, shown: str) -> None:
    """Raise `StoreIncompatible` unless the version is today's.

    Args:
        version: What `read_version` returned.
        shown: The address of the database, without a password.
    """
    newest = list_migrations()[-1][0]
    if version > newest:
        raise StoreIncompatible(
            f"{shown} was made by a newer Reverie (format {version}, this one knows up to {newest}): "
            "upgrade Reverie"
        )
    if version < newest:
        raise StoreIncompatible(
            f"{shown} has format {version}, and this Reverie needs {newest}: "
            "run `reverie store upgrade` with the URL when all machines have this Reverie"
        )


def migrate(connection: psycopg.Connection, shown: str) -> list[str]:
    """Bring the schema to today's version, making it where there is none.

    Args:
        connection: An open connection in autocommit mode, as a role that may create a schema.
        shown: The address of the database, without a password.

    Returns:
        The names of the steps that were made.

    Raises:
        StoreIncompatible: a newer Reverie made the schema; nothing was changed.
    """
    made = []
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = read_version(connection)
        if version > list_migrations()[-1][0]:
            refuse_other_version(version, shown)
        if version == 0:
            connection.execute("CREATE SCHEMA IF NOT EXISTS reverie")
            connection.execute(
                "CREATE TABLE reverie.migration (version integer PRIMARY KEY, name text NOT NULL, "
                "made_at timestamptz NOT NULL DEFAULT now())"
            )
        for number, name, statements in list_migrations():
            if number > version:
                connection.execute(statements)
                if number == RECORD_FIELDS:
                    rewrite_records(connection)
                connection.execute("INSERT INTO reverie.migration VALUES (%s, %s)", [number, name])
                made.append(name)
    return made


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


def prepare_database(url: str, *, analyse: Analyse, create: bool) -> list[str]:
    """Bring the tables of a database up to date; with `create`, make them and the memory where there are none.

    If an earlier version had another analyzer, the words for search of all memories are made again.

    Args:
        url: The database and the memory.
        analyse: The analyzer.
        create: Whether to make what is missing.

    Returns:
        The names of the steps that were made.

    Raises:
        NotFound: there are no tables, and `create` is false.
        StoreIncompatible: a newer Reverie made the tables.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    address = parse_postgres_url(url)
    with connect_once(address) as connection:
        if not create:
            _require_tables(connection, address)
        steps = migrate(connection, address.shown)
        outdated = connection.execute(
            "SELECT space FROM reverie.work WHERE renewed_key IS NOT NULL"
        ).fetchall()
    for (space,) in outdated:
        with closing(PostgresConnections(address, space=space, patience=_PATIENCE_S)) as connections:
            renew_words(connections, analyse)
    if create:
        open_space(address, create=True)
    return steps


def refuse_other_tables(address: PostgresAddress) -> None:
    """Raise unless a database has the tables of today's version.

    Raises:
        NotFound: it has none.
        StoreIncompatible: another version of Reverie made them.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    with connect_once(address) as connection:
        refuse_other_version(_require_tables(connection, address), address.shown)


def open_space(address: PostgresAddress, *, create: bool) -> tuple[int, str, str]:
    """Return the number of a memory in its database, its identity among all, and the origin of the database.

    Args:
        address: The memory.
        create: Whether to make the tables and the memory where there are none.

    Raises:
        NotFound: there is no such memory, and `create` is false.
        StoreIncompatible: another version of Reverie made the tables.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    with connect_once(address) as connection:
        if create and read_version(connection) == 0:
            migrate(connection, address.shown)
        refuse_other_version(_require_tables(connection, address), address.shown)
        row = _find_space(connection, address)
        if row is None and create:
            connection.execute(
                "INSERT INTO reverie.space (name) VALUES (%s) ON CONFLICT DO NOTHING", [address.memory]
            )
            row = _find_space(connection, address)
        origin = _read_origin(connection)
    if row is None:
        raise NotFound(
            f"there is no {address.shown}: make it with `reverie store create` and the URL, or with create=True"
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
                "SELECT set_config('reverie.space', %s, true), set_config('reverie.has_postings', 'false', true), "
                "set_config('lock_timeout', '10s', true)",
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


def _require_tables(connection: psycopg.Connection, address: PostgresAddress) -> int:
    """Return the version of the tables; raise `NotFound` if there are none."""
    version = read_version(connection)
    if version == 0:
        raise NotFound(
            f"there are no tables for {address.shown}: make them with `reverie store create` and the URL, "
            "or with create=True"
        )
    return version
