"""Free space of database files, overwritten so that nothing erased is left in it.

SQLite overwrites what is deleted (`secure_delete`), except in a page that it divides: between the list of its cells and
their content, that page keeps copies of the cells that moved to another. Only this gap is written here, in place, while
nobody else can write and the log is empty. Nothing reads a gap, so whoever is killed meanwhile leaves a whole page.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from struct import Struct
from weakref import WeakSet

from reverie.domain.errors import translate_os_errors

_ATTEMPT_MS = 50
_PAGES = 256  # read at once
_ZEROS = bytes(1 << 16)
# By the kind of a page of a tree. The first page begins with the header of the file instead.
_HEADER_BYTES = {2: 12, 5: 12, 10: 8, 13: 8}
_MOST_BYTES = 1 << 37  # beyond, the number of the next overflow page can look like a kind

_users: dict[str, WeakSet[object]] = {}
_handles: dict[str, int] = {}
"""Files that are open beside SQLite. Closing one drops all locks of this process on it (POSIX)."""


def enter_file(path: str | Path, user: object) -> None:
    """Note who is going to have connections to a file."""
    _users.setdefault(os.path.realpath(path), WeakSet()).add(user)


def leave_file(path: str | Path, user: object) -> None:
    """Note who has closed all connections to a file, and close what is open beside them if nobody else has any."""
    users = _users.get(real := os.path.realpath(path), WeakSet())
    users.discard(user)
    if not users:
        _users.pop(real, None)
        if real in _handles:
            os.close(_handles.pop(real))


def scrub_file(file: sqlite3.Connection, path: Path, inode: tuple[int, int] | None, patience: float) -> bool:
    """Overwrite the free space of a database, and empty its log; return False if others prevented that.

    A file of which a quarter or more is free is written anew, and smaller, if there is room.

    Args:
        file: A connection to the file that nobody else uses meanwhile, outside of a transaction.
        path: The file. All who write to it use `secure_delete`.
        inode: Device and inode of the file that the connection is to.
        patience: How many seconds to wait for others. Between two attempts they go on.

    Raises:
        sqlite3.Error: the file cannot be used.
        StoreUnavailable: the disk refuses.
    """
    with translate_os_errors(f"free space of {str(path)!r} cannot be overwritten"):
        handle = _get_handle(path)
        names = ("page_size", "page_count", "freelist_count", "user_version", "busy_timeout", "synchronous")
        size, pages, free, version, *usual = (file.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        try:
            file.execute(f"PRAGMA busy_timeout = {_ATTEMPT_MS}")
            file.execute("PRAGMA synchronous = FULL")  # or a loss of power could bring back the log
            is_cleared = size * pages < _MOST_BYTES
            if (not is_cleared or free * 4 >= pages) and quiesce(file, path, patience):
                _write_anew(file, is_needed=not is_cleared)
            if not quiesce(file, path, patience):
                return False
            if is_cleared:
                status = os.fstat(handle)
                if (status.st_dev, status.st_ino) != inode or not os.path.samestat(status, os.stat(path)):
                    return False  # another file came into its place
                _clear_gaps(handle, size)
                # A change, for which all drop the pages that they hold in memory, before they could write them again.
                file.execute(f"PRAGMA user_version = {version}")
            file.execute("COMMIT")
            file.execute("PRAGMA shrink_memory")  # so does this connection
            return True
        finally:
            if file.in_transaction:
                file.execute("ROLLBACK")
            for name, value in zip(names[-2:], usual, strict=True):
                file.execute(f"PRAGMA {name} = {value}")


def quiesce(file: sqlite3.Connection, path: Path, patience: float) -> bool:
    """Begin to write to a file with an empty log; return False if others prevented that for `patience` seconds."""
    log, until = path.with_name(f"{path.name}-wal"), time.monotonic() + patience
    while True:
        try:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            file.execute("BEGIN IMMEDIATE")
            # Between the two somebody else may have written, or be reading what is in the log.
            if not log.exists() or log.stat().st_size == 0:
                return True
            file.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        if time.monotonic() > until:
            return False
        time.sleep(_ATTEMPT_MS / 1_000)


def _write_anew(file: sqlite3.Connection, *, is_needed: bool) -> None:
    """Write a file anew, after the end of its transaction. Unless it has to be, it may stay as large as it is."""
    file.execute("ROLLBACK")
    file.execute("PRAGMA temp_store = FILE")  # a copy of the whole content may not fit into memory
    try:
        file.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if is_needed or error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL):
            raise
    finally:
        file.execute("PRAGMA temp_store = MEMORY")


def _get_handle(path: Path) -> int:
    """Return a file descriptor that stays open as long as others use the file."""
    handle = _handles.get(real := os.path.realpath(path))
    if handle is not None and os.path.samestat(os.fstat(handle), os.stat(path)):
        return handle
    if handle is not None:
        os.close(_handles.pop(real))  # of a file that was replaced
    return _handles.setdefault(real, os.open(path, os.O_RDWR))


def _clear_gaps(handle: int, size: int) -> None:
    headers, start = Struct(f">B2xHH{size - 7}x"), 0
    while data := os.pread(handle, _PAGES * size, start):
        if not (whole := len(data) - len(data) % size):
            break
        for number, (kind, cells, content) in enumerate(headers.iter_unpack(data[:whole])):
            page, after = number * size, (number + 1) * size
            gap, end = page + _HEADER_BYTES.get(kind, size) + 2 * cells, page + (content or 1 << 16)
            if end <= after and not _ZEROS.startswith(data[gap:end]):
                os.pwrite(handle, bytes(end - gap), start + gap)
        start += whole
    os.fsync(handle)
