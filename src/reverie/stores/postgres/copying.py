"""A new memory in a PostgreSQL database that is filled by a copy of another store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reverie.domain.change import Change, Subject, Value
from reverie.domain.passage import Analyse
from reverie.stores.base import CopiedRow, Unjournaled, translating_damage
from reverie.stores.codec import ENTRIES, decode_value
from reverie.stores.postgres.connections import SET_SPACE, parse_postgres_url
from reverie.stores.postgres.schema import refuse_existing
from reverie.stores.postgres.statements import CHANGE, build_parameters
from reverie.stores.postgres.store import PostgresStore
from reverie.stores.protocol import CommitOptions

if TYPE_CHECKING:
    import psycopg

_DRAFT = " (being copied)"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH = 500
_MADE = ("thing", "measure", "entry", "cursor", "counter", "tombstone")
_LATEST = (
    "SELECT key, subject, after FROM (SELECT DISTINCT ON (key) key, subject, after::text AS after "
    "FROM reverie.journal WHERE space = %s ORDER BY key, sequence DESC) AS latest WHERE after IS NOT NULL ORDER BY key"
)
_TYPES = (*("bigint",) * 3, *("text",) * 4, "bigint", "text", "json", "json", "text")


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
        self._analyse = analyse
        refuse_existing(self._address)
        draft = self._address.build_url(self._address.memory + _DRAFT)
        self.store = PostgresStore(draft, analyse=analyse)
        self._connections = self.store._connections
        self._space = self.store._space

    def write_rows(self, rows: Sequence[CopiedRow]) -> None:
        """Append rows to the journal in one transaction."""
        records = [row.sequence for row in rows if row.subject == "record"]
        arrays = ", ".join(f"%s::{'text' if kind == 'json' else kind}[]" for kind in _TYPES)
        columns = ", ".join(f"r.{name}::{kind}" for name, kind in zip(CopiedRow._fields, _TYPES, strict=True))
        with self._connections.connection() as connection, connection.transaction():
            connection.execute(SET_SPACE, [str(self._space)])
            connection.execute(
                "UPDATE reverie.space SET sequence = %s, record_sequence = greatest(record_sequence, %s) "
                "WHERE id = %s",
                [rows[-1].sequence, max(records, default=0), self._space],
            )
            connection.execute(
                f"INSERT INTO reverie.journal (space, {', '.join(CopiedRow._fields)}) SELECT %s, {columns} "
                f"FROM unnest({arrays}) AS r ({', '.join(CopiedRow._fields)})",
                [self._space, *map(list, zip(*rows, strict=True))],
            )

    @translating_damage()
    def finish(self, rest: Unjournaled) -> None:
        """Make all things from the journal, and store the rest, in one transaction."""
        with self._connections.connection() as connection, connection.transaction():
            connection.execute(SET_SPACE, [str(self._space)])
            for table in _MADE:
                connection.execute(f"DELETE FROM reverie.{table} WHERE space = %s", [self._space])
            with connection.cursor(name="reverie_copy") as cursor:
                cursor.execute(_LATEST, [self._space])
                while rows := cursor.fetchmany(_BATCH):
                    self._restore(connection, rows)
            connection.cursor().executemany(
                f"INSERT INTO reverie.entry (space, {', '.join(ENTRIES.names)}) "
                f"VALUES ({', '.join(['%s'] * (len(ENTRIES.names) + 1))})",
                [(self._space, *ENTRIES.encode(entry)) for entry in rest.entries],
            )
            values = self._build_parameters(
                {}, {"cursors": rest.cursors, "counts": rest.counters}, marks=rest.tombstones, is_erasure=True
            )
            connection.execute(CHANGE, values)

    def publish(self) -> None:
        """Close the store and give the memory its own name."""
        refuse_existing(self._address)
        self._connections.call(
            "WITH due AS (UPDATE reverie.work SET due_at = clock_timestamp() WHERE space = %s) "
            "UPDATE reverie.space SET name = %s WHERE id = %s RETURNING id",
            (self._space, self._address.memory, self._space),
        )
        self.store.close()

    def _restore(self, connection: psycopg.Connection, rows: Sequence[tuple[int, Subject, str]]) -> None:
        things = {key: decode_value(subject, body) for key, subject, body in rows}
        connection.execute(
            CHANGE, self._build_parameters({key: one for key, one in things.items() if one is not None}, {})
        )

    def _build_parameters(
        self, things: dict[int, Value], options: CommitOptions, **more: Any
    ) -> dict[str, Any]:
        values = build_parameters(
            [Change(before=None, after=thing) for thing in things.values()],
            self._analyse,
            space=self._space,
            patience="10s",
            actor="",
            at=_EPOCH,
            options=options,
            restored_keys=list(things),
            **more,
        )
        return {**values, "is_retry": False}
