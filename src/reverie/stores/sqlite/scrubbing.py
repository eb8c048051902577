"""Free space of database files, overwritten so that nothing erased is left in it.

SQLite overwrites what is deleted (`secure_delete`), except in a page that it divides: between the list of its cells and
their content, that page keeps copies of the cells that moved to another. Only this gap is written here, in place, while
nobody else can write and the log is empty. Nothing reads a gap, so whoever is killed meanwhile leaves a whole page.

All pages are looked at, or only those that the log names. A log has a header with salts, made anew whenever it is begun
again. An erasure ends with a commit into the empty log, whose salts the process remembers. As long as the log
has them, it was only added to: whatever page anybody has changed since is in it. What it has besides, of a transaction
that was rolled back or of an earlier log, only names more pages. If it was begun again, emptied or removed (by a
checkpoint, an erasure, or whoever closed the file last), it has other salts or none, and all pages are looked at. It is
read with the right to write, without which nobody can add to it or begin it again. That right is given up for the
checkpoint: what another commits then, or before the salts are read at the end, shows in `data_version`. The salts say
something about the file, whoever remembers them: a child may after a fork. Another file in its place has another
handle, and other salts.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
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
# Files that are open beside SQLite. Closing one drops all locks of this process on it (POSIX).
_handles: dict[str, int] = {}
# The salts of the logs that erasures of this process began, by handle.
_salts: dict[int, bytes] = {}


def enter_file(path: str | Path, user: object) -> None:
    """Note who is going to have connections to a file."""
    _users.setdefault(os.path.realpath(path), WeakSet()).add(user)


def leave_file(path: str | Path, user: object) -> None:
    """Note who has closed all connections to a file, and close what is open beside them if nobody else has any."""
    users = _users.get(real := os.path.realpath(path), WeakSet())
    users.discard(user)
    if not users:
        _users.pop(real, None)
        _close_handle(real)


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
        handle, log = _get_handle(path), path.with_name(f"{path.name}-wal")
        names = ("page_size", "page_count", "freelist_count", "user_version", "busy_timeout", "synchronous")
        size, pages, free, version, *usual = (file.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        try:
            file.execute(f"PRAGMA busy_timeout = {_ATTEMPT_MS}")
            file.execute("PRAGMA synchronous = FULL")  # or a loss of power could bring back the log
            is_cleared = size * pages < _MOST_BYTES
            known, salts, seen = _salts.pop(handle, b""), b"", None
            with suppress(sqlite3.OperationalError):  # somebody is writing
                file.execute("BEGIN IMMEDIATE")
                salts, changed = _read_log(log, size)
                (seen,) = file.execute("PRAGMA data_version").fetchone()
                file.execute("ROLLBACK")
            if (not is_cleared or free * 4 >= pages) and quiesce(file, path, patience):
                _write_anew(file, is_needed=not is_cleared)
                known = b""
            if not quiesce(file, path, patience):
                return False
            (now,) = file.execute("PRAGMA data_version").fetchone()
            if is_cleared:
                status = os.fstat(handle)
                if (status.st_dev, status.st_ino) != inode or not os.path.samestat(status, os.stat(path)):
                    return False  # another file came into its place
                _clear_gaps(handle, size, changed if known and known == salts and now == seen else None)
                # A change, for which all drop the pages that they hold in memory, before they could write them again.
                file.execute(f"PRAGMA user_version = {version}")
            file.execute("COMMIT")
            salts, _ = _read_log(log, size)
            if (now,) == file.execute("PRAGMA data_version").fetchone():
                _salts[handle] = salts
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
    _close_handle(real)  # of a file that was replaced
    return _handles.setdefault(real, os.open(path, os.O_RDWR))


def _close_handle(real: str) -> None:
    if (handle := _handles.pop(real, None)) is not None:
        _salts.pop(handle, None)
        os.close(handle)


def _read_log(log: Path, size: int) -> tuple[bytes, set[int]]:
    """Return the salts of a log, and the numbers of the pages in it; nothing if it is empty or not there."""
    if not log.exists():
        return b"", set()
    with log.open("rb", buffering=0) as file:
        salts, starts = file.read(24)[16:], range(32, file.seek(0, os.SEEK_END), size + 24)
        return salts, {int.from_bytes(os.pread(file.fileno(), 4, start)) for start in starts} - {0}


def _clear_gaps(handle: int, size: int, changed: Iterable[int] | None) -> None:
    """Overwrite the gaps of some pages, or of all."""
    headers, end = Struct(f">B2xHH{size - 7}x"), os.fstat(handle).st_size // size * size
    length = size if changed is not None else _PAGES * size
    starts = range(0, end, length) if changed is None else ((number - 1) * size for number in changed)
    for start in starts:
        data = os.pread(handle, wanted := max(0, min(length, end - start)), start)
        if len(data) < wanted:
            raise OSError("the file ends too soon")
        for number, (kind, cells, content) in enumerate(headers.iter_unpack(data)):
            page, after = number * size, (number + 1) * size
            gap, stop = page + _HEADER_BYTES.get(kind, size) + 2 * cells, page + (content or 1 << 16)
            if stop <= after and not _ZEROS.startswith(data[gap:stop]):
                os.pwrite(handle, bytes(stop - gap), start + gap)
    os.fsync(handle)
