"""Who may talk to the file, and when? Readers for any thread, one writer, and none across a fork.

Every `sqlite3.Error` that leaves a method here has become one of ours.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reverie.errors import StoreUnavailable
from reverie.stores.migrations import location
from reverie.stores.sqlite_errors import translated

_IDLE_READERS = 8
_STATEMENTS = 256
_READING = (
    "PRAGMA query_only = ON",
    "PRAGMA mmap_size = 1073741824",
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
)
# `secure_delete` overwrites what is deleted, so that a purged memory is not left in free pages. The log is
# cut back to 64 MB only after a bulk load: overwriting an old log is quicker than growing a new one,
# because the file system then has no size to record with each fsync.
_WRITING = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA mmap_size = 1073741824",
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)


class _Here:
    """The connections of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[sqlite3.Connection] = []
        self.writing = threading.Lock()
        self.writer: sqlite3.Connection | None = None


class Connections:
    """Connections to one file.

    Args:
        path: The file, of today's version.
        patience: How many seconds to wait for others that write.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self._path = path
        self._patience = patience
        self._closed = False
        self._here = _Here()
        _OPEN.add(self)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one query."""
        # Not built on `reading`: a context manager and a transaction would double what a short query costs.
        here = self._here
        reader = self._borrow(here)
        try:
            return reader.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        finally:
            self._give_back(reader, here)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one state of the file until the block ends, whatever is written."""
        here = self._here
        reader = self._borrow(here)
        try:
            reader.execute("BEGIN")
            try:
                yield reader
            finally:
                if here is self._here:
                    reader.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        finally:
            self._give_back(reader, here)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The writing connection in a transaction, committed at its end, undone when it raises."""
        here = self._here
        if not here.writing.acquire(timeout=self._patience):
            raise StoreUnavailable(
                f"{str(self._path)!r}: another thread has been writing for too long: retry"
            )
        try:
            self._refuse_closed()
            if here.writer is None:
                here.writer = self._connect(_WRITING)
            writer = here.writer
            writer.execute("BEGIN IMMEDIATE")
            try:
                yield writer
                writer.execute("COMMIT")
            finally:
                if writer.in_transaction:
                    writer.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        finally:
            here.writing.release()

    def close(self) -> None:
        """Close all that are idle; one in use is closed by whoever uses it."""
        self._closed = True
        _OPEN.discard(self)
        here = self._here
        with here.lock:
            idle, here.idle = here.idle, []
        for reader in idle:
            reader.close()
        with here.writing:
            writer, here.writer = here.writer, None
            if writer is not None:
                writer.close()

    def _borrow(self, here: _Here) -> sqlite3.Connection:
        self._refuse_closed()
        try:
            return here.idle.pop()
        except IndexError:
            try:
                return self._connect(_READING)
            except sqlite3.Error as error:
                raise translated(error, self._path) from error

    def _give_back(self, reader: sqlite3.Connection, here: _Here) -> None:
        if here is not self._here:
            _keep_for_ever(reader)  # forked while it was in use
            return
        with here.lock:
            if not self._closed and len(here.idle) < _IDLE_READERS:
                here.idle.append(reader)
                return
        reader.close()

    def _connect(self, pragmas: Sequence[str]) -> sqlite3.Connection:
        connection = sqlite3.connect(
            location(self._path, "mode=rw"),
            uri=True,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        try:
            for pragma in pragmas:
                connection.execute(pragma).close()
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{str(self._path)!r} has been closed: open it again")

    def _begin_anew(self) -> None:
        """In the child of a fork: leave the parent's connections alone, and open new ones when needed.

        SQLite's connections must not be used, nor even closed, on the other side of a fork: undoing what
        the parent was writing at that moment would spoil the log's index, which both share. So they are
        never let go of: one reference more than there are names keeps the interpreter from closing them.
        """
        for connection in (*self._here.idle, self._here.writer):
            if connection is not None:
                _keep_for_ever(connection)
        self._here = _Here()


def _keep_for_ever(connection: sqlite3.Connection) -> None:
    import ctypes  # here, because hardly anybody forks

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


_OPEN: weakref.WeakSet[Connections] = weakref.WeakSet()


def _after_fork() -> None:
    for connections in list(_OPEN):
        connections._begin_anew()


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_after_fork)
