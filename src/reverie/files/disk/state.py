"""Which files do we know, and up to which change are they complete? A small SQLite file beside the store.

`files.db` holds, for every file in the folder that we wrote or took in, its size, its time and a checksum of
its bytes, and the number of the last change in the journal that all of them together show. Its write
transaction is the lock between the processes that write files. It holds no content, and it is derived:
whoever deletes it, breaks it or brings one of another memory costs us one comparison of all files, nothing
else. That is why it is written without waiting for the disk (`synchronous=OFF`). It is in WAL mode, so that
a killed process leaves nothing half done, and readers do not wait.

Reads and writes no other file than its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from reverie.domain.change import JournalEntry
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.sqlite.connections import not_forking

FILES_DATABASE = "files.db"

NOTHING_WRITTEN = 1
"""The checksum of no bytes at all."""

_OURS = (0x52766666, 1)  # `Rvff` in ASCII, and the version; another version is not read but begun anew
_TABLES = (
    """
    CREATE TABLE files (
        path TEXT PRIMARY KEY,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        pieces INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE TABLE progress (sequence INTEGER NOT NULL, stamp TEXT NOT NULL)",
    "INSERT INTO progress VALUES (0, '')",
    "CREATE TABLE due (path TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_COLUMNS = "path, size, mtime_ns, checksum, pieces"
_HALF = 0xFFFFFFFF
_SIGN = 1 << 64
_TRIES = 5
_PAUSE_S = 0.001
_READ_PATIENCE_S = 5.0
_FORK_PATIENCE_S = 10.0
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

T = TypeVar("T")


class StateUnavailable(Exception):
    """The state cannot be read or written now, or is locked for too long. Internal: try again later."""


class StateBusy(StateUnavailable):
    """Somebody else holds the lock for too long. Internal: try again later."""


class FileRecord(NamedTuple):
    """A file as we know it: as the mirror last wrote it, or as a person left it when it was last taken in.

    What it says is in the store then, so a file that still is like this may be replaced or removed.

    Attributes:
        path: Its path, relative to the memory's folder, with `/`.
        size: Its length in bytes.
        mtime_ns: Its time of modification, as `os.stat` gives it.
        checksum: `compute_checksum` of its bytes.
        pieces: How many turns, paragraphs or episodic records it holds; -1 where nobody counted, as in a file
            that a person wrote and that may not be of our own form.
    """

    path: str
    size: int
    mtime_ns: int
    checksum: int
    pieces: int = -1


class MirrorProgress(NamedTuple):
    """Up to where the files show what the journal says.

    Attributes:
        sequence: The number of the last change they show; 0 for none.
        stamp: `compute_stamp` that change; empty for none. If the journal has another one at that number, this is
            the state of another store, or of one that was restored from a backup since.
    """

    sequence: int
    stamp: str


NO_PROGRESS = MirrorProgress(0, "")


def compute_checksum(data: bytes, after: int = NOTHING_WRITTEN) -> int:
    """CRC-32 and Adler-32 of bytes in one number of 64 bits, one of them the sign, as SQLite keeps numbers.

    Args:
        data: The bytes.
        after: The checksum of what stands before them, so that adding to a file costs what is added.

    >>> compute_checksum(b"memory") == compute_checksum(b"ory", compute_checksum(b"mem"))
    True
    """
    high, low = zlib.crc32(data, after >> 32 & _HALF), zlib.adler32(data, after & _HALF)
    return (high << 32 | low) - (_SIGN & high << 33)


def compute_stamp(row: JournalEntry) -> str:
    """What tells a change from the one of the same number in another store: all that forgetting leaves."""
    told = f"{row.sequence} {row.batch} {to_microseconds(row.at)} {row.key} {row.subject} {row.actor}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


class LockedFileState:
    """The state inside its lock: what is read here holds, and what is set is kept when the lock is left.

    Attributes:
        progress: Up to where the files are complete; `advance` moves it.
    """

    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file
        self.progress = _read_progress(file)

    def find(self, path: str) -> FileRecord | None:
        """The file of that path, if we know one."""
        return _find(self._file, path)

    def known(self, under: str = "") -> dict[str, FileRecord]:
        """All files that we know, or those below a folder such as `memory/`, by path."""
        return _select_known(self._file, under)

    def put(self, files: Iterable[FileRecord]) -> None:
        """Know these files as they are given."""
        self._file.executemany(f"INSERT OR REPLACE INTO files ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", files)

    def drop(self, paths: Iterable[str]) -> None:
        """Know nothing of these files any more."""
        self._file.executemany("DELETE FROM files WHERE path = ?", [(path,) for path in paths])

    def advance(self, progress: MirrorProgress) -> None:
        """Say that the files, apart from those that are due, show the journal up to there."""
        self._file.execute("UPDATE progress SET sequence = ?, stamp = ?", progress)
        self.progress = progress

    def due(self) -> list[str]:
        """Paths that are to be made what the store says, whatever changes next."""
        return _select_due(self._file)

    def mark_due(self, paths: Iterable[str]) -> None:
        """Add to `due`: a write has failed, or a file was taken in and is to be written in our own form."""
        self._file.executemany("INSERT OR IGNORE INTO due (path) VALUES (?)", [(path,) for path in paths])

    def settle(self, paths: Iterable[str]) -> None:
        """Take out of `due`."""
        self._file.executemany("DELETE FROM due WHERE path = ?", [(path,) for path in paths])

    def notes(self, under: str = "") -> dict[str, str]:
        """What `note` has set, by name: all, or those whose names begin so."""
        return _select_notes(self._file, under)

    def note(self, name: str, value: str | None) -> None:
        """Keep a word for later, such as what is wrong with a file, never content; None removes it."""
        if value is None:
            self._file.execute("DELETE FROM notes WHERE name = ?", (name,))
        else:
            self._file.execute("INSERT OR REPLACE INTO notes (name, value) VALUES (?, ?)", (name, value))

    def clear(self) -> None:
        """Know no file, no progress and nothing that is due; notes stay."""
        self._file.execute("DELETE FROM files")
        self._file.execute("DELETE FROM due")
        self.advance(NO_PROGRESS)


class FileState:
    """The state of the files of one folder. Safe for several threads and processes, and across forks.

    Nothing is opened before the first use. A `files.db` that is missing, broken or not ours is begun anew.
    """

    def __init__(self, folder: Path) -> None:
        """Keep the state of `folder`, the memory's, which must be there when the state is used."""
        self._path = os.fspath(folder / FILES_DATABASE)
        self._lock = threading.RLock()
        self._file: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._ledger: LockedFileState | None = None
        self._closed = False
        self._rested = False
        _OPEN.add(self)

    @contextlib.contextmanager
    def lock(self, patience_s: float = 10.0) -> Iterator[LockedFileState]:
        """Hold the lock between threads and processes; what was set is kept at the end, undone on an error.

        The thread that holds it may take it again inside, and gets the same ledger.

        Args:
            patience_s: How long to wait for others that hold it, in seconds.

        Raises:
            StateBusy: somebody held it for longer.
            StateUnavailable: the file cannot be written.
        """
        until = time.monotonic() + patience_s
        if not self._lock.acquire(timeout=patience_s):
            raise StateBusy("another thread has been writing files for too long")
        try:
            if self._ledger is not None:
                yield self._ledger
                return
            self._ledger = self._begin_transaction(until)
            try:
                yield self._ledger
                assert self._file is not None
                self._file.execute("COMMIT")
            except sqlite3.Error as error:
                self._close_connection()
                raise StateUnavailable(f"{self._path!r} failed: {error}") from error
            finally:
                self._ledger = None
                if self._file is not None and self._file.in_transaction:
                    self._file.execute("ROLLBACK")
        finally:
            self._lock.release()

    def find(self, path: str) -> FileRecord | None:
        """The file of that path, if we know one. Does not wait for the lock of another process."""
        return self._read(lambda file: _find(file, path))

    def known(self, under: str = "") -> dict[str, FileRecord]:
        """All files that we know, or those below a folder such as `memory/`, by path."""
        return self._read(lambda file: _select_known(file, under))

    def count(self) -> int:
        """How many files we know."""
        return self._read(lambda file: int(file.execute("SELECT count(*) FROM files").fetchone()[0]))

    def due(self) -> list[str]:
        """Paths that are to be made what the store says, whatever changes next."""
        return self._read(_select_due)

    def progress(self) -> MirrorProgress:
        """Up to where the files show what the journal says."""
        return self._read(_read_progress)

    def notes(self, under: str = "") -> dict[str, str]:
        """What `Ledger.note` has set, by name: all, or those whose names begin so."""
        return self._read(lambda file: _select_notes(file, under))

    def scrub(self) -> bool:
        """Rewrite the file so that no name is left in free space or in the log.

        Returns:
            False when others who have it open kept it from being finished.

        Raises:
            StateUnavailable: it cannot be written.
        """

        def rewrite(file: sqlite3.Connection) -> bool:
            file.execute("VACUUM")
            (busy, _, _) = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

        with self._lock:
            return self._run_with_retry(rewrite, time.monotonic() + _READ_PATIENCE_S)

    def close(self) -> None:
        """Let go of the file. Closing twice is fine; any other use afterwards raises `StateUnavailable`."""
        with self._lock:
            self._closed = True
            self._close_connection()

    # -- below -------------------------------------------------------------------------------------------

    def _begin_transaction(self, until: float) -> LockedFileState:
        """The ledger, in a write transaction on the file that is in its place."""

        def begin(file: sqlite3.Connection) -> LockedFileState | None:
            file.execute("BEGIN IMMEDIATE")
            if _get_file_identity(self._path) == self._place:
                return LockedFileState(file)
            self._close_connection()  # somebody removed it: a lock on it would keep nobody out
            return None

        while (ledger := self._run_with_retry(begin, until)) is None:
            pass
        return ledger

    def _read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._ledger is None and _get_file_identity(self._path) != self._place:
                self._close_connection()
            return self._run_with_retry(ask, time.monotonic() + _READ_PATIENCE_S)

    def _run_with_retry(self, act: Callable[[sqlite3.Connection], T], until: float) -> T:
        """What `act` gives, with a new file in place of a broken one, and patience with a locked one."""
        broken = 0
        while True:
            try:
                return act(self._open_connection())
            except (sqlite3.Error, OSError) as error:
                code = _get_error_code(error)
                if code in _BUSY:
                    if time.monotonic() > until:
                        raise StateBusy("another process has been writing files for too long") from error
                    # Waited for here and not by SQLite, which would sleep for up to 100 ms at a time.
                    time.sleep(_PAUSE_S)
                    continue
                self._close_connection()
                broken += 1
                if self._ledger is not None or code not in _BROKEN or broken == _TRIES:
                    raise StateUnavailable(f"{self._path!r} cannot be used: {error}") from error
                self._remove()

    def _open_connection(self) -> sqlite3.Connection:
        if self._closed:
            raise StateUnavailable(f"{self._path!r} has been closed")
        if self._path in _SPOILT:
            raise StateUnavailable(f"{self._path!r} was being written when this process was forked")
        if self._file is None:
            with not_forking:
                self._file = _connect(self._path)
                self._place = _get_file_identity(self._path)
        return self._file

    def _remove(self) -> None:
        """Remove the file, which is broken or not ours; whoever has it open sees that it is gone."""
        try:
            for suffix in ("", "-wal", "-shm"):
                Path(self._path + suffix).unlink(missing_ok=True)
        except OSError as error:
            raise StateUnavailable(f"{self._path!r} is broken and cannot be removed: {error}") from error

    def _close_connection(self) -> None:
        if self._file is not None:
            with contextlib.suppress(sqlite3.Error):  # a disk that fails; there is nothing in it to lose
                self._file.close()
        self._file, self._place = None, None

    # -- forks: why there must be no connection at that moment stands in `stores.sqlite.connections` -----

    def _before_fork(self) -> None:
        self._rested = self._lock.acquire(timeout=_FORK_PATIENCE_S)
        if self._rested and self._ledger is None:
            self._close_connection()

    def _after_fork_in_parent(self) -> None:
        if self._rested:
            self._lock.release()

    def _after_fork_in_child(self) -> None:
        if self._file is not None:
            _SPOILT[self._path] = self._file  # never closed here: that would write to the parent's log
        self._file, self._place, self._ledger = None, None, None
        self._lock = threading.RLock()


_OPEN: weakref.WeakSet[FileState] = weakref.WeakSet()
_SPOILT: dict[str, sqlite3.Connection] = {}
_resting: list[FileState] = []


def _before_fork() -> None:
    _resting[:] = list(_OPEN)
    for state in _resting:
        state._before_fork()


def _after_fork_in_parent() -> None:
    for state in _resting:
        state._after_fork_in_parent()
    _resting.clear()


def _after_fork_in_child() -> None:
    for state in _resting:
        state._after_fork_in_child()
    _resting.clear()


# Run before the handlers of `stores.sqlite.connections`, because registered after them: a thread that holds
# a lock here can still finish its work with the store.
if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def _connect(path: str) -> sqlite3.Connection:
    """A connection to the file, made for its owner alone where there is none.

    Raises `sqlite3.Error` or `OSError`.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            Path(path).unlink()  # a link, which is not followed; a folder is an error
    with contextlib.suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
    file = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=rw",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        for pragma in (
            "journal_mode = WAL",
            "synchronous = OFF",
            "temp_store = MEMORY",
            "secure_delete = ON",
        ):
            file.execute(f"PRAGMA {pragma}").close()
        if _read_format_ids(file) != _OURS:
            _make(file)
    except sqlite3.Error:
        file.close()
        raise
    return file


def _make(file: sqlite3.Connection) -> None:
    """Make the tables, unless another process was quicker; if there are others, it is not ours: an error."""
    file.execute("BEGIN IMMEDIATE")
    if _read_format_ids(file) != _OURS:
        for statement in _TABLES:
            file.execute(statement)
        file.execute(f"PRAGMA application_id = {_OURS[0]}")
        file.execute(f"PRAGMA user_version = {_OURS[1]}")
    file.execute("COMMIT")


def _read_format_ids(file: sqlite3.Connection) -> tuple[int, int]:
    (application,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    return application, version


def _get_error_code(error: BaseException) -> int:
    """SQLite's own number for what went wrong; 0 for none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _get_file_identity(path: str) -> tuple[int, int] | None:
    """Which file is at that place; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _read_progress(file: sqlite3.Connection) -> MirrorProgress:
    found = file.execute("SELECT sequence, stamp FROM progress").fetchone()
    return MirrorProgress._make(found) if found else NO_PROGRESS


def _find(file: sqlite3.Connection, path: str) -> FileRecord | None:
    found = file.execute(f"SELECT {_COLUMNS} FROM files WHERE path = ?", (path,)).fetchone()
    return None if found is None else FileRecord._make(found)


def _select_known(file: sqlite3.Connection, under: str) -> dict[str, FileRecord]:
    # `0` is the character after `/`, so these are all paths below the folder and no others.
    where, values = ("", ()) if not under else (" WHERE path > ? AND path < ?", (under, f"{under[:-1]}0"))
    found = file.execute(f"SELECT {_COLUMNS} FROM files{where}", values).fetchall()
    make = FileRecord._make
    return {row[0]: make(row) for row in found}


def _select_due(file: sqlite3.Connection) -> list[str]:
    return [path for (path,) in file.execute("SELECT path FROM due ORDER BY path")]


def _select_notes(file: sqlite3.Connection, under: str) -> dict[str, str]:
    found = file.execute("SELECT name, value FROM notes ORDER BY name").fetchall()
    return {name: value for name, value in found if name.startswith(under)}
