"""Copying of a whole memory out of an SQLite file, and into a new one."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from reverie.domain.change import Change, Subject
from reverie.domain.errors import InvalidInput
from reverie.stores.base import CopiedRow, Unjournaled, translating_damage
from reverie.stores.codec import (
    CHANGE_COLUMNS,
    ENTRIES,
    IN_ROW,
    TABLES,
    TableCodec,
    UnreadableRow,
    decode_value,
    lengthen_document,
    shorten_document,
)
from reverie.stores.protocol import StoreProblem
from reverie.stores.sqlite.check import find_problems
from reverie.stores.sqlite.connections import ConnectionPool
from reverie.stores.sqlite.migrations import prepare
from reverie.stores.sqlite.reading import read_creations
from reverie.stores.sqlite.transaction import (
    WriteTransaction,
    prepare_change,
    read_citations,
    strip_creations,
)

if TYPE_CHECKING:
    from reverie.stores.sqlite.store import SQLiteStore

_DRAFT = ".copying"
_PATIENCE_S = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MADE = (
    "turns", "sessions", "records", "pages", "paragraphs", "entries", "cursors", "counters", "tombstones",
)  # fmt: skip
_LATEST = "SELECT key, subject, after, max(sequence) FROM journal GROUP BY key ORDER BY key"


class SQLiteCopySource:
    """A store in a file that is copied from."""

    def __init__(self, store: SQLiteStore) -> None:
        """Read from an open store."""
        self._connections: ConnectionPool = store._connections

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state until the block ends."""
        return self._connections.viewing()

    @translating_damage()
    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return journal rows with larger numbers, in ascending order."""
        with self._connections.reading() as file:
            found = file.execute(
                f"SELECT {CHANGE_COLUMNS} FROM journal WHERE sequence > ? ORDER BY sequence LIMIT ?",
                (after, limit),
            ).fetchall()
            bodies = read_creations(file, found)
        rows = [(*row[:10], bodies.get(row[0], row[10])) for row in found]
        erased = {row[7] for row in rows if row[9] is None and row[10] is None}
        names = self._find_names(erased) if erased else {}
        return [
            _convert_documents(
                CopiedRow._make(
                    (*row, names.get(row[7], "") if row[9] is row[10] is None else _get_id(row[10] or row[9]))
                ),
                lengthen_document,
            )
            for row in rows
        ]

    @translating_damage()
    def read_unjournaled(self) -> Unjournaled:
        """Return what is not in the journal."""
        read = self._connections.rows
        return Unjournaled(
            entries=[ENTRIES.decode(row) for row in read(f"SELECT {', '.join(ENTRIES.names)} FROM entries")],
            cursors=dict(read("SELECT name, value FROM cursors")),
            counters=dict(read("SELECT name, value FROM counters")),
            tombstones=[mark for (mark,) in read("SELECT mark FROM tombstones")],
        )

    def _find_names(self, keys: set[int]) -> dict[int, str]:
        """Return the ids of things whose journal rows were emptied, by key."""
        sql = " UNION ALL ".join(f"SELECT key, id FROM {name}" for name in _list_tables_of_names())
        return {key: name for key, name in self._connections.rows(sql) if key in keys}


class SQLiteCopyTarget(SQLiteCopySource):
    """A store in a file that is being filled, under another name until it is complete.

    Args:
        path: The file that it will be; there must be none.

    Attributes:
        draft: The other name.

    Raises:
        InvalidInput: there is a file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._refuse_taken()
        self.draft = path.with_name(path.name + _DRAFT)
        prepare(self.draft)
        self._connections = ConnectionPool(self.draft, patience=_PATIENCE_S)

    def write_rows(self, rows: Sequence[CopiedRow]) -> None:
        """Append rows to the journal in one transaction."""
        with self._connections.writing() as file:
            file.executemany(
                f"INSERT INTO journal ({CHANGE_COLUMNS}) VALUES ({', '.join('?' * len(CHANGE_COLUMNS.split(', ')))})",
                [_convert_documents(row, shorten_document)[:-1] for row in rows],
            )
            removed = [(row.id, row.key) for row in rows if row.id and not row.after]
            file.executemany("INSERT OR IGNORE INTO gone VALUES (?, ?)", removed)

    @translating_damage()
    def finish(self, rest: Unjournaled) -> None:
        """Make all things from the journal, and store the rest, in one transaction."""
        with self._connections.writing() as file:
            _restore_creations(file)
            for name in _MADE:
                file.execute(f"DELETE FROM {name}")
            changes = WriteTransaction(file)
            for key, subject, document, _ in file.execute(_LATEST):
                value = decode_value(subject, document)
                if value is not None:
                    changes.insert(prepare_change(Change(before=None, after=value)), key)
            for name in _list_tables_of_names()[:-1]:
                file.execute(f"DELETE FROM gone WHERE key IN (SELECT key FROM {name})")
            file.executemany(
                f"INSERT INTO entries ({', '.join(ENTRIES.names)}) VALUES ({', '.join('?' * len(ENTRIES.names))})",
                [ENTRIES.encode(entry) for entry in rest.entries],
            )
            read_citations(file)
            strip_creations(file)
            changes.set_cursors(rest.cursors)
            changes.add_counts(rest.counters)
            changes.add_tombstones(rest.tombstones)
            changes.finish(actor="", at=_EPOCH, note={"operation": "rebuild"})

    def publish(self) -> None:
        """Close the store and give its file its own name."""
        self._refuse_taken()
        self.close()
        os.rename(self.draft, self._path)

    def check(self) -> list[StoreProblem]:
        """Return all problems of the copy."""
        with self._connections.reading() as file:
            return find_problems(file)

    def close(self) -> None:
        """Close the copy, without giving it its name."""
        self._connections.close()

    def _refuse_taken(self) -> None:
        if self._path.exists():
            raise InvalidInput(
                f"there is a memory in {str(self._path.parent)!r} already: name another folder"
            )


def _list_tables_of_names() -> list[str]:
    return [*(table.name for table in TABLES.values()), "gone"]


def _convert_documents(row: CopiedRow, convert: Callable[[TableCodec[Any], str], str]) -> CopiedRow:
    """Return a row with its documents in another form: other stores leave nothing out of theirs."""
    table = TABLES[cast(Subject, row.subject)]
    before, after = (each and convert(table, each) for each in (row.before, row.after))
    return row._replace(before=before, after=after)


def _get_id(document: str) -> str:
    try:
        return str(json.loads(document)["id"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise UnreadableRow("its JSON has no id") from None


def _restore_creations(file: sqlite3.Connection) -> None:
    """Write the documents that only the rows of things have into the journal, if an earlier process made the rows."""
    select = (
        f"SELECT {CHANGE_COLUMNS} FROM journal WHERE after = ? AND sequence > ? ORDER BY sequence LIMIT 1000"
    )
    last = 0
    while rows := file.execute(select, (IN_ROW, last)).fetchall():
        documents = read_creations(file, rows)
        file.executemany(
            "UPDATE journal SET after = ? WHERE sequence = ?",
            [(document, sequence) for sequence, document in documents.items()],
        )
        last = rows[-1][0]
