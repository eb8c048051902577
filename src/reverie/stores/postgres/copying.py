"""Memories in a PostgreSQL database that are filled by a copy: of another store, or of tables of an earlier version."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reverie.domain.change import OPERATIONS, Change, Value
from reverie.domain.passage import Analyse
from reverie.domain.record import Record
from reverie.domain.text.timestamps import from_microseconds
from reverie.stores import base
from reverie.stores.codec import ENTRIES, decode_value, encode_value
from reverie.stores.postgres import schema
from reverie.stores.postgres.connections import SET_SPACE, parse_postgres_url
from reverie.stores.postgres.store import CHANGE, PostgresStore, build_parameters
from reverie.stores.protocol import CommitOptions

if TYPE_CHECKING:
    import psycopg

_DRAFT = " (being copied)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH = 500
_MADE = ("thing", "entry", "cursor", "counter", "tombstone")
_LATEST = (
    "SELECT key, subject, after FROM (SELECT DISTINCT ON (key) key, subject, after::text AS after "
    "FROM reverie.journal WHERE space = %s ORDER BY key, sequence DESC) AS latest WHERE after IS NOT NULL ORDER BY key"
)
_TYPES = (*("bigint",) * 3, *("text",) * 4, "bigint", "text", "json", "json", "text")
_ARRAYS = ", ".join(f"%s::{'text' if kind == 'json' else kind}[]" for kind in _TYPES)
_COLUMNS = ", ".join(base.CopiedRow._fields)
_INSERT_ROWS = (
    f"INSERT INTO reverie.journal (space, {_COLUMNS}) SELECT %s, "
    f"{', '.join(f'r.{name}::{kind}' for name, kind in zip(base.CopiedRow._fields, _TYPES, strict=True))} "
    f"FROM unnest({_ARRAYS}) AS r ({_COLUMNS})"
)


def write_rows(connection: psycopg.Connection, space: int, rows: Sequence[base.CopiedRow]) -> None:
    """Append rows to the journal of a memory, in a transaction of the caller."""
    records = [row.sequence for row in rows if row.subject == "record"]
    connection.execute(
        "UPDATE reverie.space SET sequence = %s, record_sequence = greatest(record_sequence, %s) WHERE id = %s",
        [rows[-1].sequence, max(records, default=0), space],
    )
    connection.execute(_INSERT_ROWS, [space, *map(list, zip(*rows, strict=True))])


def make_things(connection: psycopg.Connection, space: int) -> None:
    """Make all things of a memory from its journal, in a transaction of the caller."""
    with connection.cursor(name="reverie_copy") as cursor:
        cursor.execute(_LATEST, [space])
        while rows := cursor.fetchmany(_BATCH):
            found = {key: decode_value(subject, body) for key, subject, body in rows}
            things = {key: value for key, value in found.items() if value is not None}
            connection.execute(CHANGE, _build_parameters(space, things, {}))


def _build_parameters(space: int, things: dict[int, Value], options: CommitOptions) -> dict[str, Any]:
    values = build_parameters(
        [Change(before=None, after=thing) for thing in things.values()],
        space=space,
        patience="10s",
        actor="",
        at=_EPOCH,
        options=options,
        restored_keys=list(things),
    )
    return {**values, "is_retry": False}


class PostgresCopyTarget:
    """A memory in a database that is being filled, under another name until it is complete.

    Args:
        url: The database and the memory that it will be; there must be none of its name.
        analyse: The analyzer.

    Raises:
        InvalidInput: there is a memory of that name.
    """

    def __init__(self, url: str, *, analyse: Analyse) -> None:
        self._address = parse_postgres_url(url)
        schema.refuse_existing(self._address)
        draft = self._address.build_url(self._address.memory + _DRAFT)
        self.store = PostgresStore(draft, analyse=analyse)
        self._connections = self.store._connections
        self._space = self.store._space

    @contextmanager
    def _changing(self) -> Iterator[psycopg.Connection]:
        with self._connections.connection() as connection, connection.transaction():
            connection.execute(SET_SPACE, [str(self._space)])
            yield connection

    def write_rows(self, rows: Sequence[base.CopiedRow]) -> None:
        """Append rows to the journal in one transaction."""
        with self._changing() as connection:
            write_rows(connection, self._space, rows)

    @base.translating_damage()
    def finish(self, rest: base.Unjournaled) -> None:
        """Make all things from the journal, and store the rest, in one transaction."""
        with self._changing() as connection:
            for table in _MADE:
                connection.execute(f"DELETE FROM reverie.{table} WHERE space = %s", [self._space])
            make_things(connection, self._space)
            connection.cursor().executemany(
                f"INSERT INTO reverie.entry (space, {', '.join(ENTRIES.names)}) "
                f"VALUES ({', '.join(['%s'] * (len(ENTRIES.names) + 1))})",
                [(self._space, *ENTRIES.encode(entry)) for entry in rest.entries],
            )
            options: CommitOptions = {
                "cursors": rest.cursors, "counts": rest.counters, "tombstones": rest.tombstones
            }  # fmt: skip
            connection.execute(CHANGE, _build_parameters(self._space, {}, options))

    def publish(self) -> None:
        """Close the store and give the memory its own name."""
        schema.refuse_existing(self._address)
        self._connections.call(
            "WITH due AS (UPDATE reverie.work SET due_at = clock_timestamp() WHERE space = %s) "
            "UPDATE reverie.space SET name = %s WHERE id = %s RETURNING id",
            (self._space, self._address.memory, self._space),
        )
        self.store.close()


# -- tables of an earlier version ----------------------------------------------------------------------

_FORMER = "reverie_before"
_MIGRATOR = "reverie"
_OPERATIONS, _FIELDS, _VECTORS = 10, 11, 8
"""Versions since which changes have an operation, records have fields for their facts, and vectors are there."""

_SPACES = (
    "INSERT INTO reverie.space (id, name, identity, commits, created_at) OVERRIDING SYSTEM VALUE "
    f"SELECT id, name, identity, commits, created_at FROM {_FORMER}.space RETURNING id"
)
_RIGHTS = (
    f"SELECT DISTINCT a.grantee::regrole::text, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a "
    f"WHERE c.oid = '{_FORMER}.space'::regclass AND a.grantee NOT IN (0, c.relowner)"
)


def prepare_database(url: str, *, create: bool) -> bool:
    """Copy tables of an earlier version into today's; with `create`, make tables and the memory where there are none.

    Args:
        url: The database and the memory.
        create: Whether to make what is missing.

    Returns:
        Whether tables were made.

    Raises:
        NotFound: there are no tables, and `create` is false.
        StoreIncompatible: a newer Reverie made the tables.
        StoreCorrupt: a change in the journal of a memory cannot be read; nothing was changed.
        StoreUnavailable: the database cannot be reached, or the role lacks a right.
    """
    address = parse_postgres_url(url)
    with schema.connect_once(address) as connection, schema.lock_schema(connection) as version:
        if 0 < version < schema.VERSION:
            _upgrade(connection, version)
        elif version == 0 and create:
            schema.create_tables(connection)
        else:
            schema.refuse_other_version(version, address.shown)
    if create:
        schema.open_space(address, create=True)
    return version < schema.VERSION


@base.translating_damage()
def _upgrade(connection: psycopg.Connection, version: int) -> None:
    """Copy all memories into today's tables, with the rights of roles, and remove the former tables."""
    connection.execute(f"ALTER SCHEMA reverie RENAME TO {_FORMER}")
    schema.create_tables(connection)
    for (space,) in connection.execute(_SPACES).fetchall():
        connection.execute(SET_SPACE, [str(space)])
        _copy_journal(connection, space, version)
        make_things(connection, space)
        kept = ("entry", "cursor", "counter", "tombstone", *(["vector"] if version >= _VECTORS else []))
        for table in kept:
            connection.execute(
                f"INSERT INTO reverie.{table} SELECT * FROM {_FORMER}.{table} WHERE space = %s", [space]
            )
    connection.execute("UPDATE reverie.work SET due_at = clock_timestamp()")
    connection.execute(
        "SELECT setval(pg_get_serial_sequence('reverie.space', 'id'), max(id)) FROM reverie.space"
    )
    for role, privilege in connection.execute(_RIGHTS).fetchall():
        connection.execute(f"GRANT USAGE ON SCHEMA reverie TO {role}")
        connection.execute(f"GRANT {privilege} ON ALL TABLES IN SCHEMA reverie TO {role}")
    connection.execute(f"DROP SCHEMA {_FORMER} CASCADE")


def _copy_journal(connection: psycopg.Connection, space: int, version: int) -> None:
    """Copy the journal of a memory. Of live records with the same text, which a former version may have, one stays."""
    described = "operation, note, reference" if version >= _OPERATIONS else "reason, '', ''"
    records: dict[int, Record] = {}
    sequence = 0
    with connection.cursor(name="reverie_former") as cursor:
        cursor.execute(
            f"SELECT sequence, batch, at, actor, {described}, key, subject, before::text, after::text, id "
            f"FROM {_FORMER}.journal WHERE space = %s ORDER BY sequence",
            [space],
        )
        while rows := [base.CopiedRow._make(row) for row in cursor.fetchmany(_BATCH)]:
            write_rows(connection, space, [_modernize(row, version, records) for row in rows])
            sequence = rows[-1].sequence
    now = int(time.time() * 1e6)
    keys = {record.id: key for key, record in records.items()}
    merges = [
        base.CopiedRow(
            sequence=number, batch=sequence + 1, at=now, actor=_MIGRATOR, operation="reinforce", note="",
            reference="", key=keys[change.id], subject="record", before=encode_value(change.before),
            after=encode_value(change.after), id=change.id,
        )
        for number, change in enumerate(base.find_merges(records.values(), now=from_microseconds(now)), sequence + 1)
    ]  # fmt: skip
    if merges:
        write_rows(connection, space, merges)


def _modernize(row: base.CopiedRow, version: int, records: dict[int, Record]) -> base.CopiedRow:
    """Return a row with its words and its documents as today; note the latest version of a record."""
    if row.operation not in OPERATIONS:  # before version 10 a change had one text
        row = row._replace(operation="update", note=row.operation)
    before, after = (decode_value(row.subject, each) for each in (row.before, row.after))
    if version < _FIELDS and row.subject == "record":
        before, after = (
            base.move_fields(each) if isinstance(each, Record) else None for each in (before, after)
        )
        records.pop(row.key, None)
        if isinstance(after, Record):
            records[row.key] = after
    return row._replace(before=encode_value(before), after=encode_value(after))
