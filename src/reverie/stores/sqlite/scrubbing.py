"""Free space of database files, overwritten so that nothing erased is left in it.

SQLite overwrites what is deleted (`secure_delete`), except in a page that it divides: between the list of its cells and
their content, that page keeps copies of the cells that moved to another. Only this gap is written here, in place, while
nobody else can write and the log is empty. Nothing reads a gap, so whoever is killed meanwhile leaves a whole page.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from struct import Struct

from reverie.domain.errors import translate_os_errors
from reverie.stores.forks import using_connections
from reverie.stores.sqlite.reading import build_uri

_ATTEMPT_S = 0.05
_PAGES = 256  # read at once
_MOST_HANDLES = 64
_HEADER_BYTES = {
    2: 12,
    5: 12,
    10: 8,
    13: 8,
}  # by the kind of a page of a tree; the first has that of the file instead
_MOST_BYTES = 1 << 37  # beyond, the number of the next overflow page can look like a kind
_EMPTY_LOG = "PRAGMA wal_checkpoint(TRUNCATE)"

_handles: dict[tuple[int, int], int] = {}
"""Open files by device and inode. None is closed: that would drop all locks of this process on the file (POSIX)."""


def scrub_file(path: Path, patience: float) -> bool:
    """Overwrite the free space of a database, and empty its log; return False if others prevented that.

    A file of which a quarter or more is free is written anew, and smaller, if there is room.

    Args:
        path: The file. All who write to it use `secure_delete`.
        patience: How many seconds to wait for others. Between two attempts they go on.

    Raises:
        sqlite3.Error: the file cannot be used.
        StoreUnavailable: the disk refuses.
    """
    uri = build_uri(path, "mode=rw")
    with (
        using_connections(),
        translate_os_errors(f"free space of {str(path)!r} cannot be overwritten"),
        closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_ATTEMPT_S)) as file,
    ):
        size, pages, free, version = (
            file.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_size", "page_count", "freelist_count", "user_version")
        )
        handle = _get_handle(path) if size * pages < _MOST_BYTES else None
        is_written_anew = handle is None or free * 4 >= pages
        if is_written_anew and quiesce(file, path, patience):
            file.execute("PRAGMA temp_store = FILE")  # a copy of the whole content may not fit into memory
            _write_anew(file, is_needed=handle is None)
        if not quiesce(file, path, patience):
            return False
        if handle is not None:
            _clear_gaps(handle, size)
            # A change, for which all drop the pages that they hold in memory, before they could write them again.
            file.execute(f"PRAGMA user_version = {version}")
        file.execute("COMMIT")
    return True


def quiesce(file: sqlite3.Connection, path: Path, patience: float) -> bool:
    """Begin to write to a file with an empty log; return False if others prevented that for `patience` seconds."""
    log, until = path.with_name(f"{path.name}-wal"), time.monotonic() + patience
    while True:
        try:
            file.execute(_EMPTY_LOG).fetchone()
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
        time.sleep(_ATTEMPT_S)


def _write_anew(file: sqlite3.Connection, *, is_needed: bool) -> None:
    """Write a file anew, after the end of its transaction. Unless it has to be, it may stay as large as it is."""
    file.execute("ROLLBACK")
    try:
        file.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if is_needed or error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL):
            raise


def _get_handle(path: Path) -> int | None:
    """Return a file descriptor that stays open; None if too many are."""
    status = os.stat(path)
    place = status.st_dev, status.st_ino
    for held, handle in list(_handles.items()):
        if held != place and os.fstat(handle).st_nlink == 0 and _handles.pop(held, None) is not None:
            os.close(handle)  # nobody else can open it any more
    if place not in _handles and len(_handles) < _MOST_HANDLES:
        _handles[place] = os.open(path, os.O_RDWR)
    return _handles.get(place)


def _clear_gaps(handle: int, size: int) -> None:
    headers, is_changed, start = Struct(f">B2xHH{size - 7}x"), False, 0
    while data := os.pread(handle, _PAGES * size, start):
        for number, (kind, cells, content) in enumerate(headers.iter_unpack(data)):
            if (header := _HEADER_BYTES.get(kind)) is None:
                continue
            gap, end = number * size + header + 2 * cells, number * size + (content or 1 << 16)
            if data[gap:end].strip(b"\0"):
                os.pwrite(handle, bytes(end - gap), start + gap)
                is_changed = True
        start += len(data)
    if is_changed:
        os.fsync(handle)
