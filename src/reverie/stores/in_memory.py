"""In-memory store: for tests, throw-away agents, and the memory as it was at an earlier moment.

It is the SQLite store over a database in memory. Such a database has one connection and no log, so readers and a
writer would wait for each other. Here a change that meets readers makes a copy of the database, and leaves them the
former one.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from reverie.domain.change import Change, Value
from reverie.domain.conversation import Turn
from reverie.domain.errors import StoreUnavailable
from reverie.domain.passage import Analyse
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import NestedChange
from reverie.stores.codec import Row
from reverie.stores.forks import close_for_forks, enter, leave, using_connections
from reverie.stores.sqlite.connections import Connections, open_connection
from reverie.stores.sqlite.database_file import create_schema
from reverie.stores.sqlite.derived import DerivedDatabase
from reverie.stores.sqlite.reading import translate_error
from reverie.stores.sqlite.store import SQLiteStore
from reverie.stores.sqlite.transaction import INSERT_CHANGE, WriteTransaction, prepare_change

_NAME = Path(":memory:")


class _State:
    """One state of the database, and how many read it."""

    def __init__(self, former: sqlite3.Connection | None = None) -> None:
        self.connection = open_connection(str(_NAME), "PRAGMA foreign_keys = ON")
        self.readers = 0
        if former is None:
            create_schema(self.connection)
        else:
            former.backup(self.connection)

    def __del__(self) -> None:
        self.connection.close()  # it is in a circle of references, and waits for the collector otherwise


class _MemoryConnections(Connections):
    """Connections to a database in memory.

    Args:
        prepare: Called before the first use.
    """

    def __init__(self, prepare: Callable[[], None] | None) -> None:
        self._thread = threading.local()
        self._prepare = prepare
        self._lock = threading.RLock()
        self._live = _State()
        self._is_closed = False
        close_for_forks(self)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query."""
        with self.reading() as connection:
            return connection.execute(sql, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one state until the block ends."""
        if (view := self.view) is not None:
            yield view.connection
            return
        me = enter()
        try:
            with self._lock:  # no change is under way
                self._get_ready()
                state = self._live
                state.readers += 1
            try:
                yield state.connection
            except (sqlite3.Error, UnicodeError) as error:
                raise translate_error(error, _NAME) from error
            finally:
                with self._lock:
                    state.readers -= 1
        finally:
            leave(me)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction, which is committed at the end and rolled back on an error."""
        if self.view is not None:
            raise NestedChange
        with using_connections(), self._lock:
            self._get_ready()
            if self._live.readers:
                self._live = _State(self._live.connection)
            writer = self._live.connection
            writer.execute("BEGIN")
            try:
                yield writer
                writer.execute("COMMIT")
            except (sqlite3.Error, UnicodeError) as error:
                raise translate_error(error, _NAME) from error
            finally:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")

    def _get_ready(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store has been closed: open another")
        if self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            prepare()

    def scrub(self) -> bool:
        """Return True: nothing is on a disk."""
        with self._lock:
            self._get_ready()
        return True

    def close(self) -> None:
        """Close the store; any other use afterwards raises `StoreUnavailable`."""
        self._is_closed = True

    # -- forks: a child has the database, unless another thread was using the connection ---------------------

    def close_for_fork(self) -> None:
        """Leave the database open: it has no file."""

    def reset_after_fork(self, is_clean: bool) -> None:
        """Use a new lock in a child, and close what another thread was using."""
        self._lock = threading.RLock()
        self._is_closed = self._is_closed or not is_clean


class InMemoryStore(SQLiteStore):
    """A store in memory, lost when the program ends. Safe to use from several threads.

    Args:
        analyse: Returns the tokens of a record, turn or paragraph.
        prepare: Called before the first use, to fill it.

    Example:
        >>> from reverie.domain.passage import AnalyzedText
        >>> store = InMemoryStore(analyse=lambda value: AnalyzedText(terms="", length=0))
        >>> store.sequence()
        0
    """

    def __init__(self, *, analyse: Analyse, prepare: Callable[[], None] | None = None) -> None:
        self._connections = _MemoryConnections(prepare)
        self._derived = DerivedDatabase(None, analyse=analyse)

    def fill(self, values: Mapping[int, Value], *, at: datetime) -> None:
        """Add values under their keys, as if all had been saved at one moment.

        Args:
            values: The values by key.
            at: The moment.
        """
        with self._connections.writing() as file:
            transaction = WriteTransaction(file)
            for key, value in sorted(values.items(), key=lambda each: (isinstance(each[1], Turn), each[0])):
                made = prepare_change(Change(before=None, after=value))
                transaction.insert(made, key)
                numbers = (key, key, to_microseconds(at))
                row = (*numbers, "", "save", "", "", key, made.table.subject, None, made.document)
                file.execute(INSERT_CHANGE, row)
