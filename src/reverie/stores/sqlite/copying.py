"""A new file that is filled with a whole memory: by a copy of another store, a repair, or an upgrade."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from reverie.domain.change import Change, Subject
from reverie.domain.errors import InvalidInput
from reverie.stores.base import CopiedRow, Unjournaled, translating_damage
from reverie.stores.codec import (
    IN_ROW,
    TABLES,
    decode_value,
    find_ids,
    shorten_document,
    to_short_document,
)
from reverie.stores.protocol import StoreProblem
from reverie.stores.sqlite.check import find_problems
from reverie.stores.sqlite.connections import ConnectionPool
from reverie.stores.sqlite.database_file import prepare, remove_file
from reverie.stores.sqlite.transaction import CITE, INSERT_CHANGE, WriteTransaction, prepare_change

_DRAFT = ".copying"
_PATIENCE_S = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (  # sessions before their turns
    "SELECT key, subject, after, max(sequence) FROM journal GROUP BY key ORDER BY subject <> 'session', key"
)


class SQLiteCopyTarget:
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
        self._open()
        if any(self._connections.rows(f"SELECT 1 FROM {table.name} LIMIT 1") for table in TABLES.values()):
            self.close()  # an earlier process had finished it, and then was killed or found a difference
            remove_file(self.draft)
            self._open()

    def _open(self) -> None:
        prepare(self.draft)
        self._connections = ConnectionPool(self.draft, patience=_PATIENCE_S)

    def write_rows(self, rows: Sequence[CopiedRow]) -> None:
        """Append rows to the journal in one transaction."""
        with self._connections.writing() as file:
            for row in rows:
                table = TABLES[cast(Subject, row.subject)]
                before, after = (each and shorten_document(table, each) for each in (row.before, row.after))
                file.execute(INSERT_CHANGE, (*row[:9], before, after))
                cited = find_ids(row.after or "") - {row.id}
                file.executemany(CITE, [(name, row.key) for name in cited])
            removed = [(row.id, row.key) for row in rows if row.id and not row.after]
            file.executemany("INSERT OR IGNORE INTO gone VALUES (?, ?)", removed)

    @translating_damage()
    def finish(self, rest: Unjournaled) -> None:
        """Make all things from the journal, and store the rest, in one transaction."""
        with self._connections.writing() as file:
            changes = WriteTransaction(file)
            unchanged: list[tuple[int]] = []
            for key, subject, document, last in file.execute(_LATEST):
                if (value := decode_value(subject, document)) is None:
                    continue
                made = prepare_change(Change(before=None, after=value))
                changes.insert(made, key)
                is_usual = document == to_short_document(made.table, made.table.encode(value))
                if last == key and made.document == IN_ROW and is_usual:
                    unchanged.append((key,))
            file.executemany(f"UPDATE journal SET after = '{IN_ROW}' WHERE sequence = ?", unchanged)
            for table in TABLES.values():
                file.execute(f"DELETE FROM gone WHERE key IN (SELECT key FROM {table.name})")
            for entry in rest.entries:
                changes.put_entry(entry)
            changes.set_cursors(rest.cursors)
            changes.add_counts(rest.counters)
            changes.add_tombstones(rest.tombstones)
            changes.finish(actor="", at=_EPOCH, note={"operation": "rebuild"})

    def check(self) -> list[StoreProblem]:
        """Return all problems of the copy."""
        with self._connections.reading() as file:
            return find_problems(file)

    def publish(self) -> None:
        """Close the store and give its file its own name."""
        self._refuse_taken()
        self.close()
        os.rename(self.draft, self._path)

    def close(self) -> None:
        """Close the store, without giving it its name."""
        self._connections.close()

    def _refuse_taken(self) -> None:
        if self._path.exists():
            raise InvalidInput(
                f"there is a memory in {str(self._path.parent)!r} already: name another folder"
            )
