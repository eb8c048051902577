"""Connection pool: readers for any thread, one writer, and none across a fork.

Methods raise Reverie's errors in place of every `sqlite3.Error`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reverie.domain.errors import StoreUnavailable
from reverie.stores.base import NestedChange, StoreConnections
from reverie.stores.codec import Row
from reverie.stores.forks import close_for_forks, enter, leave, using_connections
from reverie.stores.sqlite.reading import CASEFOLD, build_uri, translate_error
from reverie.stores.sqlite.scrubbing import enter_file, leave_file, scrub_file

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
    "PRAGMA journal_mode = WAL",  # as it was made; somebody may have changed it
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
    "PRAGMA mmap_size = 1073741824",
    "PRAGMA cache_size = -8192",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 67108864",
)


class _ProcessConnections:
    """Connections of one process; a forked child begins with none."""

    def __init__(self) -> None:
        self.writing = threading.Lock()
        self.writer: sqlite3.Connection | None = None
        self.lock = threading.Lock()  # guards all that follows
        self.idle: list[sqlite3.Connection] = []
        self.busy: set[sqlite3.Connection] = set()

    def close(self) -> None:
        """Close what is idle. The caller holds both locks, or no other thread uses connections."""
        for connection in self.idle:
            connection.close()
        self.idle.clear()
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    # A connection of `sqlite3` is in a circle of references, and waits for the collector otherwise.
    __del__ = close


class View:
    """State of the file that one thread sees.

    Attributes:
        connection: The connection whose transaction holds the state.
        sequence: The newest journal row's number; None until it is read.
    """

    __slots__ = ("connection", "process", "sequence")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.process = os.getpid()
        self.sequence: int | None = None


class Connections(StoreConnections):
    """Connections to one file.

    Args:
        path: The file, of today's version.
        patience: How many seconds to wait for others that write.
    """

    def __init__(self, path: Path, *, patience: float) -> None:
        self._thread = threading.local()
        self._path = path
        self._patience = patience
        self._closed = False
        self._file = get_file_identity(path)
        # Without a log, SQLite opens a file that cannot be written only as one that nobody changes.
        self._unchanging = _read_file_version(path) if is_read_only(path) else None
        self._own = _ProcessConnections()
        close_for_forks(self)
        enter_file(path, self)

    @property
    def view(self) -> View | None:
        """The state that this thread sees; None outside of `viewing`."""
        view: View | None = getattr(self._thread, "view", None)
        # One of another process is that of a parent.
        return view if view is not None and view.process == os.getpid() else None

    @contextlib.contextmanager
    def viewing(self) -> Iterator[None]:
        """Let all reads of this thread see one state of the file until the block ends."""
        if self.view is not None:
            yield
            return
        with self.reading() as connection:
            self._thread.view = View(connection)
            try:
                yield
            finally:
                self._thread.view = None

    def sequence(self) -> int:
        """Return the number of the newest journal row that this thread sees; 0 if there is none."""
        view = self.view
        if view is not None and view.sequence is not None:
            return view.sequence
        sequence: int = self.rows("SELECT max(sequence) FROM journal")[0][0] or 0
        if view is not None:
            view.sequence = sequence
        return sequence

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query."""
        # Not built on `reading`: a context manager and a transaction would double what a short query costs.
        try:
            if (view := self.view) is not None:
                return view.connection.execute(sql, values).fetchall()
            me = enter()
            try:
                return self._read_once(self._own, sql, values)
            finally:
                leave(me)
        except (sqlite3.Error, UnicodeError) as error:
            raise translate_error(error, self._path) from error

    def _read_once(self, own: _ProcessConnections, sql: str, values: Sequence[Any]) -> list[Row]:
        # The writing connection, where it is idle: after a commit its cache still holds the pages that
        # the others must read from the log again (a save at 20 k records: 0.8 ms instead of 1.2).
        if own.writer is not None and own.writing.acquire(blocking=False):
            try:
                self._refuse_another_file()
                if own.writer is not None:
                    return own.writer.execute(sql, values).fetchall()
            finally:
                own.writing.release()
        reader = self._borrow(own)
        try:
            return reader.execute(sql, values).fetchall()
        finally:
            self._give_back(reader, own)

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one state of the file until the block ends."""
        try:
            if (view := self.view) is not None:
                yield view.connection
                return
            own = self._own
            with using_connections():
                reader = self._borrow(own)
                try:
                    reader.execute("BEGIN")
                    try:
                        yield reader
                    finally:
                        if own is self._own:
                            reader.execute("ROLLBACK")
                finally:
                    self._give_back(reader, own)
        except (sqlite3.Error, UnicodeError) as error:
            raise translate_error(error, self._path) from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield the writing connection in a transaction, which is committed at the end and rolled back on an error."""
        if self.view is not None:
            raise NestedChange
        own = self._own
        with using_connections():
            if not own.writing.acquire(timeout=self._patience):
                raise StoreUnavailable(
                    f"{str(self._path)!r}: another thread has been writing for too long: retry"
                )
            try:
                writer = self._get_writer(own)
                writer.execute("BEGIN IMMEDIATE")
                try:
                    self._refuse_another_file()
                    yield writer
                    writer.execute("COMMIT")
                finally:
                    if writer.in_transaction:
                        writer.execute("ROLLBACK")
            except (sqlite3.Error, UnicodeError) as error:
                raise translate_error(error, self._path) from error
            finally:
                own.writing.release()

    def scrub(self) -> bool:
        """Overwrite the free space of the file, and empty the log; return False if others prevented that."""
        own = self._own
        with using_connections():
            if not own.writing.acquire(timeout=self._patience):
                return False
            try:
                writer = self._get_writer(own)
                self._refuse_another_file()
                return scrub_file(writer, self._path, self._file, self._patience)
            except sqlite3.Error as error:
                raise translate_error(error, self._path) from error
            finally:
                own.writing.release()

    def _get_writer(self, own: _ProcessConnections) -> sqlite3.Connection:
        """Return the writing connection. The caller holds its lock."""
        self._refuse_closed()
        if own.writer is None:
            own.writer = self._connect(_WRITING)
        return own.writer

    def close(self) -> None:
        """Close idle connections; one in use is closed after its use."""
        self._closed = True
        with self._own.writing, self._own.lock:
            self._own.close()
        leave_file(self._path, self)

    def _borrow(self, own: _ProcessConnections) -> sqlite3.Connection:
        self._refuse_another_file()
        with own.lock:
            reader = own.idle.pop() if own.idle else self._connect(_READING)
            own.busy.add(reader)
            return reader

    def _give_back(self, reader: sqlite3.Connection, own: _ProcessConnections) -> None:
        if own is not self._own:
            return  # a connection of the parent process; see the section on forks
        with own.lock:
            own.busy.remove(reader)
            if not self._closed and len(own.idle) < _IDLE_READERS:
                own.idle.append(reader)
            else:
                reader.close()

    def _connect(self, pragmas: Sequence[str]) -> sqlite3.Connection:
        if self._path in _SPOILT:
            raise StoreUnavailable(
                f"{str(self._path)!r} was being read when this process was forked: "
                "finish or close what find() gave before forking"
            )
        options = "mode=rw" if self._unchanging is None else "mode=ro&immutable=1"
        return open_connection(build_uri(self._path, options), *pragmas, patience=self._patience)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable(f"{str(self._path)!r} has been closed: open it again")

    def _refuse_another_file(self) -> None:
        """Raise if all is closed, or the file not in its place any more: SQLite would write to the removed file.

        Readers are refused as well. What they read would be written into the search index and the files of the
        database that is there now. (A `stat`: 1.5 µs of the 4 µs that a short query takes.)
        """
        self._refuse_closed()
        if get_file_identity(self._path) != self._file:
            raise StoreUnavailable(
                f"{str(self._path)!r} was removed, moved or replaced while it was open: "
                "close it and open it again"
            )
        if self._unchanging is not None and _read_file_version(self._path) != self._unchanging:
            raise StoreUnavailable(
                f"{str(self._path)!r} was changed from elsewhere while it was open as read-only: "
                "close it and open it again"
            )

    # -- forks: `stores.forks` explains why no connection may be open then ------------------------------
    #
    # A connection whose thread is in the middle of `find` cannot be closed. The child then refuses to open the file,
    # and never frees its copy of that connection: closing it would write to the shared log index.

    def close_for_fork(self) -> None:
        """Close the connections."""
        self._own.close()

    def reset_after_fork(self, is_clean: bool) -> None:
        """Forget the connections of the parent process; those that were in use make the file unusable."""
        own = self._own
        left = [*own.busy, *own.idle, *filter(None, [own.writer])]
        if left:
            _SPOILT.add(self._path)
        for connection in left:
            keep_for_ever(connection)
        own.idle, own.writer = [], None
        self._own = _ProcessConnections()


def open_connection(name: str, *pragmas: str, patience: float = 0) -> sqlite3.Connection:
    """Return a connection without implicit transactions, for any thread.

    Args:
        name: `:memory:`, or the URI of a file.
        pragmas: Statements to begin with.
        patience: How many seconds to wait for others that write.
    """
    connection = sqlite3.connect(
        name,
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_STATEMENTS,
    )
    try:
        connection.create_function(CASEFOLD, 1, _fold_case, deterministic=True)
        for pragma in pragmas:
            connection.execute(pragma).close()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _fold_case(text: str | bytes | float | None) -> str | bytes | float | None:
    return text.casefold() if isinstance(text, str) else text


def get_file_identity(path: str | Path) -> tuple[int, int] | None:
    """Return device and inode of the file at a path; None if there is none.

    Raises:
        StoreUnavailable: that cannot be told, such as in a folder that may not be read.
    """
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailable(
            f"{os.fspath(path)!r} cannot be read ({error.strerror}): see that its folder may be read, and try again"
        ) from error
    return found.st_dev, found.st_ino


def is_read_only(path: Path) -> bool:
    """Return whether a file can be read, but neither it nor its folder written, as on a read-only mount."""
    return os.access(path, os.R_OK) and not (os.access(path, os.W_OK) or os.access(path.parent, os.W_OK))


def _read_file_version(path: Path) -> tuple[int, int] | None:
    """Return time and size of a file without a log; None if it has a log, which may hold more."""
    if path.with_name(f"{path.name}-wal").exists():
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


_SPOILT: set[Path] = set()


def keep_for_ever(connection: sqlite3.Connection) -> None:
    """Keep a connection of a parent process from being closed when nobody refers to it."""
    import ctypes  # here, because hardly anybody forks while reading

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
