"""State of the mirrored files, in a small SQLite database beside the store.

`files.db` holds the size, time and checksum of every file that was written or imported. Of a page of records it holds
the ids of the records and a checksum of each line, which finds in the journal what a person began with. Of other pages
and logs it holds the text, for the same purpose. It knows the number of the last journal entry that the files show. Its
write transaction is the lock between the processes that write files.

The database is derived. If it is lost, damaged or of another memory, all files are compared with the store
once. A hand edit that was not imported yet is then merged without its base version. It is therefore written
without waiting for the disk (`synchronous=OFF`). It is in WAL mode: a killed process leaves no partial
change, and readers do not wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import stat
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from reverie.domain.change import JournalEntry
from reverie.domain.errors import StoreUnavailable
from reverie.domain.text.timestamps import to_microseconds
from reverie.files.layout import index_lines, is_draft, parse_form, split_numbered_path
from reverie.stores.forks import close_for_forks, using_connections
from reverie.stores.sqlite.connections import get_file_identity, open_connection
from reverie.stores.sqlite.database_file import remove_file
from reverie.stores.sqlite.reading import explain_unavailability, is_undecodable
from reverie.stores.sqlite.scrubbing import enter_file, leave_file, scrub_file

FILES_DATABASE = "files.db"

_OURS = (0x52766666, 10)  # `Rvff` in ASCII, and the version; a file of another version is replaced
_COLUMNS = "path, size, mtime_ns, checksum, pieces, fresh"
# A damaged page has other types.
_FILE = ", ".join(f"CAST({name} AS INTEGER)" for name in _COLUMNS.split(", ")[1:])
_ID_BYTES = 6
_LINE = struct.Struct(">6sI")
_TRIES = 5
_PAUSE_S = 0.001
_READ_PATIENCE_S = 5.0
_BROKEN = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

T = TypeVar("T")


class StateUnavailable(StoreUnavailable):
    """The state cannot be read or written, or is locked for too long."""


class StateBusy(StateUnavailable):
    """Another thread or process holds the lock for too long."""


class FileRecord(NamedTuple):
    """A file as the mirror last wrote it, or as it was when it was last imported.

    Its content is in the store, so a file that is still like this may be replaced or removed.

    Attributes:
        path: Its path, relative to the memory's folder, with `/`.
        size: Its length in bytes.
        mtime_ns: Its time of modification, as `os.stat` gives it.
        checksum: `compute_checksum` of its bytes.
        pieces: How many turns, paragraphs or lines of records it holds; -1 where that is not known, as in a
            file that a person wrote.
        fresh: How many of these were appended last.
    """

    path: str
    size: int
    mtime_ns: int
    checksum: int
    pieces: int = -1
    fresh: int = 0


class MirrorProgress(NamedTuple):
    """The last journal entry that the files show.

    Attributes:
        sequence: Its number; 0 for none.
        stamp: Its `compute_stamp`; empty for none. If the journal has another entry of that number, the state
            belongs to another store, or the store was restored from a backup.
    """

    sequence: int
    stamp: str


NO_PROGRESS = MirrorProgress(0, "")


def compute_checksum(data: bytes, after: int = 0) -> int:
    """Return the CRC-32 of bytes.

    Args:
        data: The bytes.
        after: The checksum of the bytes before them, to extend it at the cost of `data` alone.

    >>> compute_checksum(b"memory") == compute_checksum(b"ory", compute_checksum(b"mem"))
    True
    """
    return zlib.crc32(data, after)


def compute_stamp(row: JournalEntry) -> str:
    """Return what distinguishes a journal entry from that of the same number in another store.

    It is made of what erasure leaves.
    """
    identity = f"{row.sequence} {row.batch} {to_microseconds(row.at)} {row.key} {row.subject} {row.actor}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


class FileState:
    """State of the files of one folder. Safe for several threads and processes, and across forks.

    Nothing is opened before the first use. A `files.db` that is missing, damaged or foreign is replaced by a new one.
    """

    def __init__(self, folder: Path) -> None:
        """Keep the state of a memory's folder, which must exist when the state is used."""
        self._path = os.fspath(folder / FILES_DATABASE)
        self._lock = threading.RLock()
        self._file: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._is_locked = False
        self._closed = False
        close_for_forks(self)
        enter_file(self._path, self)

    @contextlib.contextmanager
    def lock(self, patience_s: float = 10.0) -> Iterator[FileState]:
        """Hold the lock between threads and processes; commit at the end, roll back on an error.

        The lock is reentrant.

        Args:
            patience_s: How long to wait for others, in seconds.

        Raises:
            StateBusy: others held it for longer.
            StateUnavailable: the file cannot be written.
        """
        until = time.monotonic() + patience_s
        with using_connections():
            if not self._lock.acquire(timeout=patience_s):
                raise StateBusy("another thread has been writing files for too long")
            try:
                if self._is_locked:
                    yield self
                else:
                    yield from self._write(until)
            finally:
                self._lock.release()

    def _write(self, until: float) -> Iterator[FileState]:
        """Yield the state in a transaction, which is committed at the end and rolled back on an error."""
        while not self._run_with_retry(self._begin, until):
            self._close_connection()  # it was removed: a lock on it would not lock others out
        self._is_locked = True
        try:
            yield self
            self._change("COMMIT")
        except sqlite3.Error as error:
            self._close_connection()
            if _is_broken(error):
                self._remove()  # the next use makes a new one
            raise StateUnavailable(f"{self._path!r} failed: {error}") from error
        finally:
            self._is_locked = False
            if self._file is not None and self._file.in_transaction:
                self._file.execute("ROLLBACK")

    def scrub(self) -> bool:
        """Overwrite what is free in the database, so that nothing erased is left in it or in its log.

        The texts of pages and logs that are not as they were written are removed: they may hold what was erased.

        Returns:
            False when others who have it open prevented that.

        Raises:
            StateUnavailable: it cannot be written.
        """

        def rewrite(file: sqlite3.Connection) -> bool:
            paths = [path for (path,) in self._query("SELECT path FROM contents")]
            texts = (path for path in paths if parse_form(path) != "lines")
            self.drop_contents(path for path in texts if not self._is_as_written(path))
            return scrub_file(file, Path(self._path), self._place, _READ_PATIENCE_S)

        with using_connections(), self._lock:
            return self._run_with_retry(rewrite, time.monotonic() + _READ_PATIENCE_S)

    def close(self) -> None:
        """Close the database. Any other use afterwards raises `StateUnavailable`."""
        with self._lock:
            self._closed = True
            self._close_connection()
            leave_file(self._path, self)

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def progress(self) -> MirrorProgress:
        """The last journal entry that the files show; `advance` sets it."""
        rows = self._query("SELECT CAST(sequence AS INTEGER), stamp FROM progress")
        return MirrorProgress(*rows[0]) if rows else NO_PROGRESS

    @property
    def layout(self) -> str:
        """The layout of the files; empty before the first was written. `set_layout` sets it."""
        return next((str(layout) for (layout,) in self._query("SELECT layout FROM progress")), "")

    def find(self, path: str) -> FileRecord | None:
        """Return the record of a file, or None. Does not wait for the lock of another process."""
        rows = self._query(f"SELECT path, {_FILE} FROM files WHERE path = ?", path)
        return FileRecord._make(rows[0]) if rows else None

    def known(self, under: str = "") -> dict[str, FileRecord]:
        """Return all records, or those below a folder such as `memory/`, by path."""
        # `0` is the character after `/`, so this selects exactly the paths below the folder.
        where, values = ("", ()) if not under else (" WHERE path > ? AND path < ?", (under, f"{under[:-1]}0"))
        rows = self._query(f"SELECT path, {_FILE} FROM files{where}", *values)
        return {row[0]: FileRecord._make(row) for row in rows if not is_draft(row[0])}

    def due(self) -> list[str]:
        """Return the paths of files that have to be written, whatever changes next."""
        rows = self._query("SELECT path FROM due ORDER BY path")
        return [path for (path,) in rows if not is_draft(path)]

    def find_pages(self) -> dict[str, list[str]]:
        """Return the ids of the records on every page."""
        rows = self._query("SELECT path, CAST(ids AS BLOB) FROM pages ORDER BY path")
        return {path: _unpack_ids(ids) for path, ids in rows}

    def read_ids(self, path: str) -> list[str]:
        """Return the ids of the records on a page, in their order."""
        rows = self._query("SELECT CAST(ids AS BLOB) FROM pages WHERE path = ?", path)
        return _unpack_ids(rows[0][0]) if rows else []

    def locate(self, id: str) -> str | None:
        """Return the page that a record is on, or None."""
        return self.locate_all([id]).get(id)

    def locate_all(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the page that each of some thousand records is on, by id, without those that are on none."""
        names = [bytes.fromhex(name) for name in ids]
        marks = ", ".join("?" * len(names))
        of_ids = f"SELECT hex(id), path FROM places JOIN pages ON number = page WHERE id IN ({marks})"
        return {name.lower(): path for name, path in self._query(of_ids, *names)}

    def find_last_page(self, stem: str) -> tuple[int, int]:
        """Return the number of the last page of a stem and how many records are on it; (1, 0) if there is none."""
        lengths = self._query(
            "SELECT path, length(ids) FROM pages WHERE path > ? AND path < ?", f"{stem}.", f"{stem}/"
        )
        pages = ((split_numbered_path(path)[1], length // _ID_BYTES) for path, length in lengths)
        return max(pages, default=(1, 0))

    def read_lines(self, path: str) -> dict[str, int]:
        """Return the checksums of the lines that were last written to a page of records, by the ids of the records."""
        data = self._read_content(path)
        whole = len(data) // _LINE.size * _LINE.size
        return {name.hex(): checksum for name, checksum in _LINE.iter_unpack(data[:whole])}

    def read_text(self, path: str) -> bytes | None:
        """Return the text that was last written to a page or log; None if it is not known."""
        try:
            text = zlib.decompress(self._read_content(path))
        except zlib.error:
            return None
        file = self.find(path)
        return None if file is None or file.checksum != compute_checksum(text) else text

    def _read_content(self, path: str) -> bytes:
        rows = self._query("SELECT CAST(data AS BLOB) FROM contents WHERE path = ?", path)
        return rows[0][0] if rows else b""

    def read_shown(self, path: str) -> int:
        """Return the number of the last journal entry that a file is known to show; of all files for an empty path."""
        rows = self._query("SELECT CAST(sequence AS INTEGER) FROM due WHERE ? IN ('', path)", path)
        return int(min([self.progress.sequence, *(sequence for (sequence,) in rows)]))

    # -- changing, inside the lock -----------------------------------------------------------------------

    def set_layout(self, layout: str) -> None:
        """Set the layout of the files."""
        self._change("UPDATE progress SET layout = ?", layout)

    def set_ids(self, path: str, ids: Sequence[str]) -> None:
        """Set the records on a page, in their order."""
        before = set(self.read_ids(path))
        where = "id = ? AND page = (SELECT number FROM pages WHERE path = ?)"
        gone = [(bytes.fromhex(name), path) for name in before.difference(ids)]
        self._change_many(f"DELETE FROM places WHERE {where}", gone)
        if ids:
            self.add_ids(path, [name for name in ids if name not in before])
            self._change("UPDATE pages SET ids = ? WHERE path = ?", bytes.fromhex("".join(ids)), path)
        else:
            self._change("DELETE FROM pages WHERE path = ?", path)

    def add_ids(self, path: str, ids: Sequence[str]) -> None:
        """Put records at the end of a page, in their order."""
        self._change(
            "INSERT INTO pages (path, ids) VALUES (?, ?)"
            " ON CONFLICT (path) DO UPDATE SET ids = CAST(ids || excluded.ids AS BLOB)",
            path,
            bytes.fromhex("".join(ids)),
        )
        self._change_many(
            "INSERT OR REPLACE INTO places (id, page) SELECT ?, number FROM pages WHERE path = ?",
            [(bytes.fromhex(name), path) for name in ids],
        )

    def put(self, files: Iterable[FileRecord]) -> None:
        """Set the records of files whose content has not changed."""
        self._change_many(f"INSERT OR REPLACE INTO files ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)", files)

    def put_content(self, file: FileRecord, data: bytes, form: str | None, *, is_end: bool = False) -> None:
        """Set the record of a file, and what it contains now, which is the base of edits.

        Args:
            file: The record.
            data: The content.
            form: The form of the file.
            is_end: Whether `data` was appended to what it contained before.
        """
        content: bytes | None = None
        if form == "lines":
            lines = index_lines(data).items()
            content = b"".join(_LINE.pack(bytes.fromhex(name), checksum) for name, checksum in lines)
        elif form in ("page", "log"):
            content = zlib.compress(((self.read_text(file.path) if is_end else None) or b"") + data)
        self.put([file])
        if content is not None:  # a session is not edited, and the journal has the versions of a record
            new = "CAST(data || excluded.data AS BLOB)" if is_end and form == "lines" else "excluded.data"
            sql = f"INSERT INTO contents VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET data = {new}"
            self._change(sql, file.path, content)

    def copy_base(self, path: str, to: str) -> None:
        """Give an edit that was moved aside the base of the file that it is an edit of."""
        for table, columns in (("files", _COLUMNS), ("contents", "path, data")):
            taken = f"SELECT ?{columns.removeprefix('path')} FROM {table} WHERE path = ?"
            self._change(f"INSERT OR REPLACE INTO {table} ({columns}) {taken}", to, path)

    def drop_contents(self, paths: Iterable[str]) -> None:
        """Remove what is known of the contents of files."""
        self._change_many("DELETE FROM contents WHERE path = ?", [(path,) for path in paths])

    def drop(self, paths: Iterable[str]) -> None:
        """Remove the records of files, and what is known of their contents."""
        paths = list(paths)
        self._change_many("DELETE FROM files WHERE path = ?", [(path,) for path in paths])
        self.drop_contents(paths)

    def advance(self, progress: MirrorProgress) -> None:
        """Set the last journal entry that the files show, apart from those that are due."""
        self._change("UPDATE progress SET sequence = ?, stamp = ?", *progress)

    def mark_due(self, paths: Iterable[str]) -> None:
        """Mark files as due: a write has failed, or an imported file has to be written in canonical form."""
        shown = max(1, self.progress.sequence)  # 0 would say that nothing is known of them
        rows = [(path, shown) for path in paths]
        self._change_many("INSERT OR IGNORE INTO due (path, sequence) VALUES (?, ?)", rows)

    def settle(self, paths: Iterable[str]) -> None:
        """Remove files from those that are due."""
        self._change_many("DELETE FROM due WHERE path = ?", [(path,) for path in paths])

    def clear(self) -> None:
        """Remove everything but the layout."""
        for table in ("files", "pages", "places", "contents", "due"):
            self._change(f"DELETE FROM {table}")
        self.advance(NO_PROGRESS)

    # -- below -------------------------------------------------------------------------------------------

    def _is_as_written(self, path: str) -> bool:
        with contextlib.suppress(OSError):
            status, file = os.lstat(f"{os.path.dirname(self._path)}/{path}"), self.find(path)
            return file is not None and file[1:3] == (status.st_size, status.st_mtime_ns)
        return False

    def _begin(self, file: sqlite3.Connection) -> bool:
        """Begin a write transaction; return whether it is on the database that is in its place now."""
        file.execute("BEGIN IMMEDIATE")
        return get_file_identity(self._path) == self._place

    def _change(self, sql: str, *values: object) -> None:
        assert self._file is not None
        self._file.execute(sql, values)

    def _change_many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        assert self._file is not None
        self._file.executemany(sql, rows)

    def _query(self, sql: str, *values: object) -> list[Any]:
        with using_connections(), self._lock:
            if not self._is_locked and get_file_identity(self._path) != self._place:
                self._close_connection()
            until = time.monotonic() + _READ_PATIENCE_S
            return self._run_with_retry(lambda file: file.execute(sql, values).fetchall(), until)

    def _run_with_retry(self, act: Callable[[sqlite3.Connection], T], until: float) -> T:
        """Return the result of `act`; replace a broken database, and wait for a locked one."""
        broken = 0
        while True:
            try:
                return act(self._open_connection())
            except (sqlite3.Error, OSError, ValueError, TypeError) as error:
                code = _get_error_code(error)
                if code in _BUSY:
                    if time.monotonic() > until:
                        raise StateBusy("another process has been writing files for too long") from error
                    # Waited for here and not by SQLite, which would sleep for up to 100 ms at a time.
                    time.sleep(_PAUSE_S)
                    continue
                self._close_connection()
                broken += 1
                if self._is_locked or not _is_broken(error) or broken == _TRIES:
                    reason = explain_unavailability(error) if isinstance(error, sqlite3.Error) else ""
                    raise StateUnavailable(
                        f"{self._path!r} cannot be used{f' {reason}' if reason else f': {error}'}"
                    ) from error
                self._remove()

    def _open_connection(self) -> sqlite3.Connection:
        if self._closed:
            raise StateUnavailable(f"{self._path!r} has been closed")
        if self._path in _SPOILT:
            raise StateUnavailable(f"{self._path!r} was being written when this process was forked")
        if self._file is None:
            self._file = _connect(self._path)
            self._place = get_file_identity(self._path)
        return self._file

    def _remove(self) -> None:
        """Remove a database that is damaged or foreign; others who have it open notice that."""
        remove_file(Path(self._path))
        if os.path.lexists(self._path):
            raise StateUnavailable(f"{self._path!r} is broken and cannot be removed: delete it")

    def _close_connection(self) -> None:
        if self._file is not None:
            with contextlib.suppress(sqlite3.Error):  # a disk that fails; there is nothing in it to lose
                self._file.close()
        self._file, self._place = None, None

    __del__ = _close_connection  # a connection of `sqlite3` is in a circle of references

    # -- forks: `stores.forks` explains why no connection may be open then ------------------------------

    def close_for_fork(self) -> None:
        """Close the connection."""
        if not self._is_locked:
            self._close_connection()

    def reset_after_fork(self, is_clean: bool) -> None:
        """Forget the connections of the parent process."""
        if self._file is not None:
            _SPOILT[self._path] = self._file  # never closed here: that would write to the parent's log
        self._file, self._place, self._is_locked = None, None, False
        self._lock = threading.RLock()


_SPOILT: dict[str, sqlite3.Connection] = {}


def _connect(path: str) -> sqlite3.Connection:
    """Connect to the database; make one that only its owner may read if there is none.

    Raises `sqlite3.Error`, `OSError`, or `UnicodeDecodeError` where SQLite quotes a damaged definition.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            Path(path).unlink()  # a link, which is not followed; a folder is an error
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    os.chmod(path, 0o600)
    file = open_connection(
        f"{Path(path).as_uri()}?mode=rw",
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = OFF",
        "PRAGMA temp_store = MEMORY",
        "PRAGMA secure_delete = ON",
    )
    try:
        if _read_format_ids(file) != _OURS:
            _make(file)
    except (sqlite3.Error, UnicodeDecodeError):
        file.close()
        raise
    return file


def _make(file: sqlite3.Connection) -> None:
    """Create the tables, unless another process has; fail if the database has other tables."""
    file.execute("BEGIN IMMEDIATE")
    if _read_format_ids(file) != _OURS:
        for statement in Path(__file__).with_name("state.sql").read_text("utf-8").split(";\n"):
            file.execute(statement)
        file.execute(f"PRAGMA application_id = {_OURS[0]}")
        file.execute(f"PRAGMA user_version = {_OURS[1]}")
    file.execute("COMMIT")


def _read_format_ids(file: sqlite3.Connection) -> tuple[int, int]:
    (application,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    return application, version


def _unpack_ids(packed: bytes) -> list[str]:
    return packed.hex(" ", _ID_BYTES).split() if len(packed) % _ID_BYTES == 0 else []


def _is_broken(error: BaseException) -> bool:
    """Return whether an error says that the database is damaged or foreign, or a value in it of a wrong type."""
    undecodable = isinstance(error, sqlite3.Error) and is_undecodable(error)
    return undecodable or isinstance(error, ValueError | TypeError) or _get_error_code(error) in _BROKEN


def _get_error_code(error: BaseException) -> int:
    """Return SQLite's error code, or 0."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
