"""A database file as a whole: how it is made, upgraded, copied and replaced.

`tables.sql` has the tables. `PRAGMA user_version` holds their version, and `PRAGMA application_id` says that a file is
ours at all. A file of an earlier version is copied into today's tables by `rewriting`, and kept as a backup.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from reverie.domain.errors import NotFound, StoreCorrupt, StoreIncompatible, StoreUnavailable, build_os_error
from reverie.stores.forks import using_connections
from reverie.stores.sqlite.reading import CORRUPT, build_uri, translate_error
from reverie.stores.sqlite.scrubbing import quiesce

APPLICATION_ID = 0x52766572
"""`Rver` in ASCII, written into the header of the file."""

VERSION = 18
"""Number of today's tables, in the header of the file."""

PASSAGES = Path("index", "passages")
"""Folder of the derived database, in that of a memory."""

_PATIENCE_S = 10.0
_COMPANIONS = ("-wal", "-shm", "-journal")
_NO_LINKS = {
    errno.EPERM, errno.EACCES, errno.EINVAL, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV,
}  # fmt: skip


def prepare(path: Path, *, create: bool = True) -> bool:
    """Make a store at `path` if there is none; return whether it is of an earlier version, and has to be upgraded.

    A file that is not ours, or is newer than this program, is left as it is to the last byte.

    Args:
        path: The file; its folder is made when missing.
        create: Whether to make the file when there is none.

    Raises:
        NotFound: there is no file and `create` is false.
        StoreIncompatible: the file is not a Reverie store, or is of a newer version.
        StoreCorrupt: it begins as one and cannot be read.
        StoreUnavailable: the file or folder cannot be read or written.
    """
    try:
        if not path.exists():
            if not create:
                raise NotFound(f"no store at {str(path)!r}: check the path, or open it with create=True")
            _refuse_log_alone(path)
            _create(path)
            return False
        return read_version(path) < VERSION
    except (sqlite3.Error, UnicodeError) as error:
        raise translate_error(error, path) from error
    except OSError as error:
        advice = "see that you may use its folder, or choose another"
        raise build_os_error(f"{str(path)!r} cannot be opened", error, advice) from error


def read_version(path: Path) -> int:
    """Return the version of a store's file, without a lock and without changing anything.

    Through SQLite rather than by reading 100 bytes: closing a plain file handle would drop every lock
    this process holds on the same file (POSIX). `immutable` keeps SQLite from recovering a foreign file.

    Raises:
        StoreIncompatible: the file is not a Reverie store, or is of a newer version.
        StoreCorrupt: its version is none.
        StoreUnavailable: it may not be read.
    """
    if path.is_dir():
        raise StoreIncompatible(f"{str(path)!r} is a folder, not a store: pass the path of a file in it")
    if not os.access(path, os.R_OK):
        raise StoreUnavailable(f"{str(path)!r} may not be read: make it readable, or run as its owner")
    if path.stat().st_size == 0:
        raise StoreIncompatible(
            f"{str(path)!r} is empty, not a Reverie store: remove it, or choose another path"
        )
    with _open_connection(build_uri(path, "mode=ro&immutable=1")) as file:
        try:
            # A checkpoint cut short leaves a file shorter than its header says, with the rest in the log.
            # With this flag SQLite does not take that for damage, which here it could not tell.
            file.execute("PRAGMA writable_schema = ON")
            (application,) = file.execute("PRAGMA application_id").fetchone()
            (version,) = file.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise StoreIncompatible(
                    f"{str(path)!r} is not a Reverie store, nor any SQLite file: choose another path, or run "
                    "`reverie doctor` if it was one"
                ) from error
            raise
    refuse_foreign(path, application, version)
    if version < 1:
        raise StoreCorrupt(
            f"{str(path)!r} says it is of format {version}: repair it with "
            "`reverie doctor --fix`, or bring back a backup with `reverie recover`"
        )
    return int(version)


def refuse_foreign(path: Path, application: int, version: int) -> None:
    """Raise `StoreIncompatible` if the header of a file is that of another program or of a newer Reverie."""
    if application != APPLICATION_ID:
        raise StoreIncompatible(f"{str(path)!r} is a SQLite file of another program: choose another path")
    if version > VERSION:
        raise StoreIncompatible(
            f"{str(path)!r} was made by a newer Reverie (format {version}, this one knows up to {VERSION}): "
            "upgrade Reverie"
        )


def _refuse_log_alone(path: Path) -> None:
    """Raise if there is the log of a store that is not there: SQLite would take it for that of a new one."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreCorrupt(
            f"{str(path)!r} is missing, and its log {log.name!r} is there with the latest changes: bring "
            "back the database that it belongs to, or move the log away"
        )


def _create(path: Path) -> None:
    """Make a complete store under another name, then give it its own, so that others never see a part of one."""
    make_folder(path.parent)
    with _reserve_draft(path) as draft:
        with _create_private_file(draft), _open_connection(build_uri(draft, "mode=rw")) as file:
            file.execute("PRAGMA journal_mode = WAL")
            create_schema(file)
        with contextlib.suppress(FileExistsError):  # another process was faster
            rename_to_new(draft, path)


def create_schema(file: sqlite3.Connection) -> None:
    """Create the tables of today's version in an empty database."""
    tables = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")
    file.executescript(
        f"BEGIN;\n{tables}PRAGMA user_version = {VERSION};\nPRAGMA application_id = {APPLICATION_ID};\nCOMMIT;"
    )


@contextlib.contextmanager
def _reserve_draft(path: Path) -> Iterator[Path]:
    """Yield another name for a file until it is finished; remove what has that name at the end."""
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    try:
        yield draft
    finally:
        remove_file(draft)
        sync_folder(path.parent)


def rename_to_new(old: str | Path, new: str | Path) -> None:
    """Rename a file unless the new name is taken.

    Raises:
        FileExistsError: the new name is taken; nothing was changed.
        OSError: it failed in another way; nothing was changed.
    """
    if _link_file(old, new):
        os.unlink(old)
    elif os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(new))
    else:
        os.rename(old, new)  # no links here: a file that appears at this moment would be replaced


def _link_file(path: str | Path, name: str | Path) -> bool:
    """Give a file a second name; return False on a file system that has no such thing."""
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def remove_file(path: Path) -> None:
    """Remove a file with its log; what cannot be removed stays, and opening it says why."""
    for ending in ("", *_COMPANIONS):
        with contextlib.suppress(OSError):
            path.with_name(path.name + ending).unlink(missing_ok=True)


def find_passages(folder: Path) -> Path:
    """Return the path of the derived database that belongs to the store of a memory's folder."""
    return folder / PASSAGES / "passages.db"


# -- copies ------------------------------------------------------------------------------------------------


def copy_out(source: sqlite3.Connection, target: Path) -> bool:
    """Copy the file as the connection sees it, for its owner alone; false when `target` is there already.

    The copy gets its name when it is complete and on the disk.

    Raises:
        OSError: there is no room for it.
    """
    if target.exists():
        return False
    make_folder(target.parent)
    with _reserve_draft(target) as draft:
        with _create_private_file(draft), _open_connection(build_uri(draft, "mode=rw")) as copy:
            try:
                source.backup(copy)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_FULL:
                    raise
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target)) from error
        try:
            rename_to_new(draft, target)
        except FileExistsError:
            return False
        return True


def copy_file(path: Path, target: Path) -> bool:
    """Copy a file, with what its log has, as `copy_out` does. A connection that is writing could not copy itself."""
    with _open_connection(build_uri(path, "mode=ro")) as source:
        return copy_out(source, target)


def make_folder(folder: Path) -> None:
    """Make the folder for its owner alone, whatever the umask; one that is there is left as it is."""
    if not folder.exists():
        make_folder(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)


@contextlib.contextmanager
def _create_private_file(path: Path) -> Iterator[None]:
    """Create an empty file with mode 0600, whatever the umask. SQLite gives `-wal` and `-shm` the same mode."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.fchmod(handle, 0o600)
        yield
        os.fsync(handle)
    finally:
        os.close(handle)


def _open_connection(uri: str) -> contextlib.closing[sqlite3.Connection]:
    """Return a context with a connection; a transaction that is open at its end is rolled back."""
    return contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_PATIENCE_S))


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- replacement -------------------------------------------------------------------------------------------
#
# Others may have the file open while it is replaced. A log (`-wal`) beside another file than its own is played into it
# and destroys it. So it is emptied while the write lock is held, and removed before the new file comes: a writer waits,
# and is then refused, because `connections` sees that its file is no longer in its place. If this process is killed,
# either the old file or the new one is in its place, and complete.


def find_free_name(path: Path, ending: str = "broken") -> Path:
    """Return the name under which a replaced database is kept, such as `reverie.db.broken-1`."""
    number = 1
    while any(path.parent.glob(f"{path.name}.{ending}-{number}*")):
        number += 1
    return path.with_name(f"{path.name}.{ending}-{number}")


def replace_file(path: Path, build: Callable[[bool], Path | None], *, kept: Path) -> None:
    """Put a store's file in the place of another.

    Args:
        path: The file to be replaced; others may have it open.
        build: Returns the new file, closed, on the same file system; it is moved. The present one does not change
            while it runs. Receives whether that can be opened, or is too damaged. None leaves the present one.
        kept: The name under which the old one is kept, with all that was written to it.

    Raises:
        StoreUnavailable: others kept on reading or writing, or the disk refuses; nothing was replaced.
    """
    try:
        with using_connections(), _open_quiesced(path) as file:
            if (replacement := build(file is not None)) is None:
                return
            log = replacement.with_name(f"{replacement.name}-wal")
            if log.exists() and log.stat().st_size:
                raise StoreUnavailable(f"{str(replacement)!r} is still open somewhere: close it first")
            if file is None:
                for ending in ("-wal", ""):  # no process can write to it
                    source = path.with_name(path.name + ending)
                    if source.exists():
                        source.rename(kept.with_name(kept.name + ending))
            elif not _link_file(path, kept):
                copy_file(path, kept)
            for ending in _COMPANIONS:
                path.with_name(path.name + ending).unlink(missing_ok=True)
            os.replace(replacement, path)
            remove_file(find_passages(path.parent))
            sync_folder(path.parent)
    except sqlite3.Error as error:
        raise translate_error(error, path) from error
    except OSError as error:
        raise build_os_error(f"{str(path)!r} cannot be replaced", error, "make it writable") from error


@contextlib.contextmanager
def _open_quiesced(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open the file with an empty log and locked for writing; yield None if it is too damaged to be opened."""
    with _open_connection(build_uri(path, "mode=rw")) as file:
        try:
            is_quiet = quiesce(file, path, _PATIENCE_S)
        except (sqlite3.DatabaseError, UnicodeError) as error:
            if isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF not in CORRUPT:
                raise
            yield None
        else:
            if not is_quiet:
                raise StoreUnavailable(
                    f"{str(path)!r} is in use: others kept reading or writing it; end them and try again"
                )
            yield file
