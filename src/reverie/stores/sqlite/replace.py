"""Replacement of a database that others may have open; the old one is kept.

A log (`-wal`) beside another file than its own is played into it and destroys it. So the log has to be removed
before the new file comes. It may hold what the old file lacks, so it has to be empty by then. It is emptied while
the write lock is held: a writer waits, and is then refused, because `connections` sees that its file is no longer
in its place. The old file has every change that was acknowledged.

If this process is killed, either the old file or the new one is in its place, and complete.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from reverie.domain.errors import StoreUnavailable
from reverie.stores.forks import not_forking
from reverie.stores.sqlite.errors import CORRUPT, translate_error
from reverie.stores.sqlite.migrations import build_uri, copy_file, link_file, sync_folder

_PAUSE_S = 0.02
_PATIENCE_S = 10.0
_BESIDE = ("-wal", "-shm", "-journal")


def replace_file(path: Path, build: Callable[[bool], Path], *, kept: Path) -> None:
    """Put a store's file in the place of another.

    Args:
        path: The file to be replaced; others may have it open.
        build: Returns the new file, closed, on the same file system; it is moved. The present one does not change
            while it runs. Receives whether that can be opened, or is too damaged.
        kept: The name under which the old one is kept, with all that was written to it.

    Raises:
        StoreUnavailable: others kept on reading or writing, or the disk refuses; nothing was replaced.
    """
    try:
        with not_forking, _open_quiesced(path, _PATIENCE_S) as file:
            replacement = build(file is not None)
            _refuse_log(replacement)
            if file is None:
                _set_aside(path, kept)
            elif not link_file(path, kept):
                copy_file(path, kept)
            for ending in _BESIDE:
                path.with_name(path.name + ending).unlink(missing_ok=True)
            os.replace(replacement, path)
            sync_folder(path.parent)
    except sqlite3.Error as error:
        raise translate_error(error, path) from error
    except OSError as error:
        raise StoreUnavailable(
            f"{str(path)!r} cannot be replaced ({error.strerror or error}): make room, or make it writable"
        ) from error


@contextmanager
def _open_quiesced(path: Path, patience: float) -> Iterator[sqlite3.Connection | None]:
    """Open the file with an empty log and locked for writing; yield None if it is too damaged to be opened."""
    connection = sqlite3.connect(build_uri(path, "mode=rw"), uri=True, isolation_level=None, timeout=patience)
    with closing(connection) as file:
        try:
            _quiesce_file(file, path, time.monotonic() + patience)
        except (sqlite3.DatabaseError, UnicodeError) as error:
            if isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF not in CORRUPT:
                raise
            yield None
            return
        try:
            yield file
        finally:
            file.execute("ROLLBACK")


def _quiesce_file(file: sqlite3.Connection, path: Path, deadline: float) -> None:
    log = path.with_name(f"{path.name}-wal")
    while True:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        file.execute("BEGIN IMMEDIATE")
        # Between the two somebody else may have written, or be reading what is in the log.
        if not log.exists() or log.stat().st_size == 0:
            return
        file.execute("ROLLBACK")
        if time.monotonic() > deadline:
            raise StoreUnavailable(
                f"{str(path)!r} is in use: others kept reading or writing it; end them and try again"
            )
        time.sleep(_PAUSE_S)


def _refuse_log(replacement: Path) -> None:
    log = replacement.with_name(f"{replacement.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreUnavailable(f"{str(replacement)!r} is still open somewhere: close it first")


def _set_aside(path: Path, kept: Path) -> None:
    """Move a damaged file and its log, to which no process can write."""
    for ending in ("-wal", ""):
        source = path.with_name(path.name + ending)
        if source.exists():
            source.rename(kept.with_name(kept.name + ending))
