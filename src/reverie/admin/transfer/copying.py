"""Copies of a memory to another place, and files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Protocol

from reverie.domain.errors import InvalidInput, NotFound, StoreCorrupt, StoreUnavailable, build_os_error
from reverie.domain.filter import Filter
from reverie.domain.text.json_values import JsonObject
from reverie.domain.text.validation import validate_progress
from reverie.files.atomic import rename_to_new
from reverie.files.names import resolve_path
from reverie.search.analyzer import analyze
from reverie.stores.base import CopySource, CopyTarget, iterate_rows
from reverie.stores.postgres.connections import is_postgres_url
from reverie.stores.protocol import Store
from reverie.stores.sqlite import DATABASE, SQLiteStore
from reverie.stores.sqlite.copying import SQLiteCopySource, SQLiteCopyTarget
from reverie.stores.sqlite.migrations import sync_folder

_ABANDONED_S = 600.0


@contextmanager
def create_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file for writing; it gets its name when it is complete and on disk.

    Args:
        overwrite: Whether to replace a file of that name.

    Raises:
        InvalidInput: the name is taken, with `overwrite` by something else than a file.
        StoreUnavailable: it cannot be written.
    """
    with _choose_draft(path, overwrite=overwrite) as draft:
        with _open_private(draft) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish(draft, path, overwrite=overwrite)


@contextmanager
def _choose_draft(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield the temporary name of a file, and remove what is left there at the end."""
    _refuse_taken(path, overwrite=overwrite)
    _remove_leftovers(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        yield draft
        sync_folder(path.parent)
    except OSError as error:
        raise build_unwritable_error(path, error) from error
    finally:
        _remove(draft)


def _open_private(path: Path) -> BinaryIO:
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "w+b")


def _remove_leftovers(path: Path) -> None:
    """Remove drafts of the same name that no process has written to for ten minutes: they were killed."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}(\.new)?")
    limit = time.time() - _ABANDONED_S
    with suppress(OSError):  # the folder is missing, or another process removes the same drafts
        for draft in path.parent.iterdir():
            if not pattern.fullmatch(draft.name):
                continue
            if max(each.lstat().st_mtime for each in (draft, *draft.rglob("*"))) > limit:
                continue
            _remove(draft)


def _remove(draft: Path) -> None:
    with suppress(OSError):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def _refuse_taken(path: Path, *, overwrite: bool) -> None:
    """Raise `InvalidInput` if the name is taken or its folder is missing.

    Args:
        overwrite: Whether a file of that name may be replaced.
    """
    try:
        is_folder, has_parent = path.is_dir(), path.parent.is_dir()
    except OSError as error:
        raise build_unwritable_error(path, error) from None
    if not has_parent:
        raise InvalidInput(f"there is no folder {str(path.parent)!r}: make it, or choose another place")
    if is_folder:
        raise _build_taken_error(path)
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise _build_taken_error(path)
    if not stat.S_ISREG(path.lstat().st_mode):  # a rename would put a file in the place of a device or a link
        raise InvalidInput(f"{str(path)!r} is a device, a pipe or a link, and no file: choose another name")


def _build_taken_error(path: Path) -> InvalidInput:
    what = ", as a folder that is not empty" if path.is_dir() else ""
    return InvalidInput(f"{str(path)!r} is there already{what}: choose another name")


def build_unwritable_error(path: Path, error: OSError) -> StoreUnavailable:
    """Return the error for a file that cannot be written."""
    return build_os_error(
        f"{str(path)!r} cannot be written", error, "make it writable, or choose another place"
    )


def publish(draft: Path, path: Path, *, overwrite: bool) -> None:
    """Give a finished file its name; replace another file only with `overwrite`.

    Raises:
        InvalidInput: there is a file of that name.
    """
    if overwrite:
        os.replace(draft, path)
        return
    try:
        rename_to_new(os.fspath(draft), os.fspath(path))
    except FileExistsError:
        raise _build_taken_error(path) from None


# -- copying --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport(JsonObject):
    """Report of a copy.

    Attributes:
        changes: Rows of the journal.
        records: Records, archived ones too.
        sessions: Sessions.
        resumed_after: How many rows an earlier copy that was interrupted had made.
    """

    changes: int
    records: int
    sessions: int
    resumed_after: int


def copy_memory(
    source: str, target: str, *, progress: Callable[[int], None] = lambda done: None
) -> CopyReport:
    """Copy a memory to a place that has none yet.

    Changes that are made to the source while the last of it is copied are not in the copy: stop what uses it first,
    or copy again to another place.

    Args:
        source: A folder, the URL of a database, or a file with a history.
        target: A folder, or the URL of a database.
        progress: Callback that receives how many more changes were copied.

    Raises:
        NotFound: there is no memory at the source.
        InvalidInput: there is one at the target, or an unfinished copy of another.
        StoreCorrupt: the copy differs from the source; it has not got its name.
    """
    note = validate_progress(progress)
    with ExitStack() as stack:
        store, reader = open_source(source)
        stack.callback(store.close)
        copied, writer = _open_target(target)
        stack.callback(copied.close)
        if isinstance(writer, SQLiteCopyTarget):
            stack.callback(writer.close)
        resumed = copied.sequence()
        _refuse_other(reader, writer, resumed)
        with reader.reading():
            for rows in iterate_rows(reader, after=resumed):
                writer.write_rows(rows)
                note(len(rows))
            writer.finish(reader.read_unjournaled())
            report = _compare(reader, writer, copied, resumed)
        if isinstance(copied, SQLiteStore):
            copied.close()  # a file is renamed when nothing has it open
        writer.publish()
    return report


class Closing(Protocol):
    """What is closed at the end."""

    def close(self) -> None:
        """Release it."""


def _compare(reader: CopySource, writer: CopyTarget, copied: Store, resumed: int) -> CopyReport:
    """Compare a finished copy with its source; return the report."""
    changes = 0
    for ours, theirs in zip_longest(iterate_rows(reader), iterate_rows(writer)):
        # The id of what was erased is no part of the journal: a store may keep it for longer than another.
        if [row[:-1] for row in ours or ()] != [row[:-1] for row in theirs or ()]:
            raise StoreCorrupt(
                f"the copy differs from the source after change {changes}: remove it and copy again"
            )
        changes += len(ours)
    problems = copied.check()
    if problems or not _has_same_rest(reader, writer):
        what = problems[0].what if problems else "what is not in the journal differs"
        raise StoreCorrupt(f"the copy is not sound ({what}): remove it and copy again")
    return CopyReport(
        changes=changes,
        records=sum(copied.tally("kind", Filter(archived=None)).values()),
        sessions=len(copied.sessions()),
        resumed_after=resumed,
    )


def _has_same_rest(reader: CopySource, writer: CopyTarget) -> bool:
    ours, theirs = reader.read_unjournaled(), writer.read_unjournaled()
    return (
        {(entry.namespace, entry.key): entry for entry in ours.entries}
        == {(entry.namespace, entry.key): entry for entry in theirs.entries}
        and ours.cursors == theirs.cursors
        and ours.counters == theirs.counters
        and set(ours.tombstones) == set(theirs.tombstones)
    )


def _refuse_other(reader: CopySource, writer: CopyTarget, resumed: int) -> None:
    """Raise `InvalidInput` if the unfinished copy at the target is one of another memory."""
    if resumed and reader.read_rows(resumed - 1, 1) != writer.read_rows(resumed - 1, 1):
        raise InvalidInput("there is an unfinished copy of another memory at the target: name another place")


def open_source(place: str) -> tuple[Closing, CopySource]:
    """Return what has to be closed, and the source of a copy: a folder, a database, or a file with a history.

    Raises:
        NotFound: there is no memory.
    """
    from reverie.admin.transfer.history_file import (
        HistoryFile,
        is_history_file,
    )  # here: it writes files with this

    if not is_postgres_url(place) and is_history_file(resolve_path(place)):
        file = HistoryFile(resolve_path(place))
        return file, file
    if is_postgres_url(place):
        from reverie.stores.postgres import PostgresStore
        from reverie.stores.postgres.copying import PostgresCopySource

        shared = PostgresStore(place, analyse=analyze, create=False)
        return shared, PostgresCopySource(shared)
    database = _find_database(place)
    if not database.exists():
        raise NotFound(
            f"there is no memory in {str(database.parent)!r}: name its folder, or the URL of a database"
        )
    store = SQLiteStore(database, analyse=analyze, create=False)
    return store, SQLiteCopySource(store)


def _open_target(place: str) -> tuple[Store, CopyTarget]:
    if is_postgres_url(place):
        from reverie.stores.postgres.copying import PostgresCopyTarget

        shared = PostgresCopyTarget(place, analyse=analyze)
        return shared.store, shared
    target = SQLiteCopyTarget(_find_database(place))
    return SQLiteStore(target.draft, analyse=analyze), target


def _find_database(place: str) -> Path:
    return resolve_path(place) / DATABASE
