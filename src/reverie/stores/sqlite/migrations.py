"""Schema of the database and its migrations: forward only, after a backup.

Each step is numbered from 1 and is never changed once released; the SQL of those that have any stands in a file
beside this one. `PRAGMA user_version` holds the number of the last step a file has been through, and
`PRAGMA application_id` says that it is ours at all. Reads and writes no memories.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reverie.domain.errors import NotFound, StoreCorrupt, StoreIncompatible, StoreUnavailable, build_os_error
from reverie.stores.sqlite.reading import translate_error

APPLICATION_ID = 0x52766572
"""`Rver` in ASCII, written into the header of the file."""


class Migration(NamedTuple):
    """One step from a version of the file to the next.

    Attributes:
        name: What it does, in words.
        sql: Its statements, each ended by a semicolon at the end of a line; all steps run in one transaction.
        cited: Whether citations are read from the journal.
        rewrite: Function that rewrites rows through the open connection. It runs after all steps.
    """

    name: str
    sql: str = ""
    cited: bool = False
    rewrite: Callable[[sqlite3.Connection], None] | None = None


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _rewrite_records(file: sqlite3.Connection) -> None:
    from reverie.stores.sqlite.check import rewrite_records  # here: files are seldom migrated

    rewrite_records(file)


def _add_checksums(file: sqlite3.Connection) -> None:
    from reverie.stores.sqlite.check import add_checksums  # here: files are seldom migrated

    add_checksums(file)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(name="the first tables", sql=_read("0001_tables.sql")),
    Migration(name="pages, paragraphs, and a journal that can forget", sql=_read("0002_pages.sql")),
    Migration(name="dates of records and paragraphs"),
    Migration(name="an index of categories", sql=_read("0004_categories.sql")),
    Migration(name="parts of headlines", sql=_read("0005_headlines.sql")),
    Migration(name="keys of repetitions in other words"),
    Migration(name="an index of creation times", sql=_read("0007_creation_times.sql")),
    Migration(name="words of emoji, and languages told from accents"),
    Migration(name="operations and notes of changes", sql=_read("0009_operations.sql")),
    Migration(name="citations", sql=_read("0010_citations.sql"), cited=True),
    Migration(name="fields of records", sql=_read("0011_record_fields.sql"), rewrite=_rewrite_records),
    Migration(name="records that may be replaced", sql=_read("0012_perhaps_replaced.sql")),
    Migration(name="secrets that are kept", sql=_read("0013_kept_secrets.sql")),
    Migration(name="digits of every script, invisible characters, and numbers within words"),
    Migration(name="whom records are about", sql=_read("0014_intake.sql")),
    Migration(
        name="checksums, and words in a database of their own",
        sql=_read("0016_checksums.sql"),
        rewrite=_add_checksums,
    ),
)
"""Every step, in order; the position from 1 is its version."""


def prepare(
    path: Path,
    *,
    create: bool = True,
    patience: float = 10.0,
    steps: Sequence[Migration] = MIGRATIONS,
) -> Path | None:
    """Make sure that there is a store of today's version at `path`.

    A file that is not ours, or is newer than this program, is left as it is to the last byte.

    Args:
        path: The file; its folder is made when missing.
        create: Whether to make the file when there is none.
        patience: How many seconds to wait for another process that is writing.
        steps: The migrations that make up today's version.

    Returns:
        The backup that was made before migrating, if it was migrated.

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
            _create(path, steps)
            return None
        version = _read_version(path, newest=len(steps))
        return _migrate(path, steps, patience) if version < len(steps) else None
    except (sqlite3.Error, UnicodeError) as error:
        raise translate_error(error, path) from error
    except OSError as error:
        advice = "see that you may use its folder, or choose another"
        raise build_os_error(f"{str(path)!r} cannot be opened", error, advice) from error


def build_uri(path: Path, options: str) -> str:
    """Return the URI of a file for SQLite, with options such as `mode=rw`."""
    return f"{path.absolute().as_uri()}?{options}"


def _read_version(path: Path, *, newest: int) -> int:
    """Read the version in the header of the file, without a lock and without changing anything.

    Through SQLite rather than by reading 100 bytes: closing a plain file handle would drop every lock
    this process holds on the same file (POSIX). `immutable` keeps SQLite from recovering a foreign file.
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
    if application != APPLICATION_ID:
        raise StoreIncompatible(f"{str(path)!r} is a SQLite file of another program: choose another path")
    _refuse_newer(path, version, newest)
    return int(version)


def _refuse_newer(path: Path, version: int, newest: int) -> None:
    if version > newest:
        raise StoreIncompatible(
            f"{str(path)!r} was made by a newer Reverie (format {version}, this one knows up to {newest}): "
            "upgrade Reverie"
        )
    if version < 1:
        raise StoreCorrupt(
            f"{str(path)!r} says it is of format {version}: repair it with "
            "`reverie doctor --fix`, or bring back a backup with `reverie recover`"
        )


def _refuse_log_alone(path: Path) -> None:
    """Raise if there is the log of a store that is not there: SQLite would take it for that of a new one."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreCorrupt(
            f"{str(path)!r} is missing, and its log {log.name!r} is there with the latest changes: bring "
            "back the database that it belongs to, or move the log away"
        )


def _create(path: Path, steps: Sequence[Migration]) -> None:
    """Make a complete store under another name, then give it its own, so that others never see a part of one."""
    make_folder(path.parent)
    with _reserve_draft(path) as draft:
        with _create_private_file(draft), _open_connection(build_uri(draft, "mode=rw")) as file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("BEGIN IMMEDIATE")
            _run(file, steps)
            file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            file.execute("COMMIT")
        _publish(draft, path)


@contextlib.contextmanager
def _reserve_draft(path: Path) -> Iterator[Path]:
    """Yield another name for a file until it is finished; remove what has that name at the end."""
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    try:
        yield draft
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
        sync_folder(path.parent)


def _publish(draft: Path, path: Path) -> bool:
    """Give the finished file its name; return False if another process was faster, whose file stays."""
    try:
        if not link_file(draft, path):
            if path.exists():
                return False
            draft.rename(path)
    except FileExistsError:
        return False
    return True


def link_file(path: Path, name: Path) -> bool:
    """Give a file a second name; return False on a file system that has no such thing."""
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV}:
            raise
        return False
    return True


def _migrate(path: Path, steps: Sequence[Migration], patience: float) -> Path | None:
    with _open_connection(build_uri(path, "mode=rw"), patience) as file:
        file.execute("PRAGMA synchronous = FULL")
        file.execute("PRAGMA secure_delete = ON")
        # The write lock first: nothing can be written between the backup and the first step, and a second
        # process that opens the same old file waits here and then finds the work done.
        file.execute("BEGIN IMMEDIATE")
        (version,) = file.execute("PRAGMA user_version").fetchone()
        _refuse_newer(path, version, len(steps))
        if version == len(steps):
            return None
        backup = _backup(path, version)
        _run(file, steps[version:], first=version + 1)
        if any(step.cited for step in steps[version:]):
            from reverie.stores.sqlite.transaction import read_citations  # here: files are seldom migrated

            read_citations(file)
        for step in steps[version:]:
            if step.rewrite is not None:
                step.rewrite(file)
        if file.execute("PRAGMA foreign_key_check").fetchone():
            raise StoreCorrupt(f"{str(path)!r} does not fit format {len(steps)}: nothing was changed")
        file.execute("COMMIT")
        return backup


def _run(file: sqlite3.Connection, steps: Sequence[Migration], first: int = 1) -> None:
    for version, step in enumerate(steps, first):
        for statement in step.sql.split(";\n"):
            file.execute(statement)
        file.execute(f"PRAGMA user_version = {version}")


def create_schema(file: sqlite3.Connection) -> None:
    """Create the tables of today's version in an empty database."""
    _run(file, MIGRATIONS)


def _backup(path: Path, version: int) -> Path:
    """Make a consistent copy beside the file, such as `reverie.db.v1.backup`; never replace an older one."""
    target = path.with_name(f"{path.name}.v{version}.backup")
    number = 1
    while not copy_file(path, target):
        number += 1
        target = path.with_name(f"{path.name}.v{version}.backup-{number}")
    return target


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
        return _publish(draft, target)


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


@contextlib.contextmanager
def _open_connection(uri: str, patience: float = 10.0) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=patience)) as file:
        try:
            yield file
        finally:
            if file.in_transaction:
                file.execute("ROLLBACK")


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
