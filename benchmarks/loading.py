"""Load of many memories into one PostgreSQL database by COPY, which goes on where an earlier one ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.factories import NOW, make_additions, make_record

from benchmarks.texts import Texts
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.connections import parse_postgres_url
from reverie.stores.postgres.store import build_parameters

_THING = (
    "space", "subject", "key", "id", "scope", "at", "updated_at", "kind", "layer", "origin", "category", "tags",
    "pinned", "importance", "confidence", "fingerprint", "body",
)  # fmt: skip
_JOURNAL = (
    "space",
    "sequence",
    "batch",
    "key",
    "subject",
    "id",
    "at",
    "actor",
    "note",
    "reference",
    "operation",
    "after",
)


@dataclass(frozen=True, slots=True)
class Loader:
    """A server with memories of equal size that are filled with generated texts."""

    server: PostgresServer
    texts: Texts
    each: int

    def url(self, memory: int, *, role: str | None = None) -> str:
        """Return the address of a memory."""
        name = f"memory-{memory}"
        return self.server.url(name) if role is None else self.server.url(name, role=role)

    def connect(self) -> psycopg.Connection:
        """Return a connection as the superuser: COPY refuses roles that row-level security binds."""
        return psycopg.connect(
            parse_postgres_url(self.url(0, role="postgres")).connection,
            autocommit=True,
            prepare_threshold=None,
        )

    def fill(self, memories: int, progress: Callable[[str, int], object]) -> int:
        """Fill the memories up to a number that are not filled yet, each in one transaction; return how many.

        Args:
            memories: The number of memories that are filled then.
            progress: Callback that receives what is done, and how many memories of that are.
        """
        with closing(PostgresStore(self.url(0), analyse=analyze)), self.connect() as connection:
            rows = connection.execute("SELECT name FROM reverie.space WHERE sequence > 0").fetchall()
            missing = [memory for memory in range(memories) if (f"memory-{memory}",) not in rows]
            for done, memory in enumerate(missing, start=1):
                self._fill_one(connection, memory)
                progress("filled", done)
        return len(missing)

    def _fill_one(self, connection: psycopg.Connection, memory: int) -> None:
        first = memory * self.each
        records = [
            make_record(n, content=self.texts.text(n).content, category=self.texts.text(n).category)
            for n in range(first, first + self.each)
        ]
        with connection.transaction():
            (space,) = connection.execute(
                "INSERT INTO reverie.space (name) VALUES (%s) ON CONFLICT (name) DO UPDATE SET name = excluded.name "
                "RETURNING id",
                [f"memory-{memory}"],
            ).fetchone() or (0,)
            values = build_parameters(
                make_additions(*records),
                space=space,
                patience="10s",
                actor="load",
                at=NOW,
                options={},
            )
            _copy(connection, "thing", _THING, _iterate_things(records, values))
            _copy(connection, "journal", _JOURNAL, _iterate_changes(records, values))
            connection.execute(
                "UPDATE reverie.space SET sequence = %s, record_sequence = %s, commits = 1 WHERE id = %s",
                [len(records), len(records), space],
            )


def _copy(
    connection: psycopg.Connection, table: str, columns: Sequence[str], rows: Iterator[tuple[Any, ...]]
) -> None:
    statement = f"COPY reverie.{table} ({', '.join(columns)}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _iterate_things(records: Sequence[Record], values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for number, record in enumerate(records):
        yield (
            values["space"], "record", number + 1, record.id, record.scope, to_microseconds(record.created_at),
            to_microseconds(record.updated_at), record.kind, record.layer, record.origin, record.category,
            [tag.casefold() for tag in record.tags], record.pinned, record.importance, record.confidence,
            values["fingerprints"][number], values["afters"][number],
        )  # fmt: skip


def _iterate_changes(records: Sequence[Record], values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    for number, record in enumerate(records, start=1):
        yield (
            values["space"], number, 1, number, "record", record.id, values["at"], "load", "", "", "save",
            values["afters"][number - 1],
        )  # fmt: skip
