"""Atomic creation of files, for their owner alone."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from reverie.domain.errors import InvalidInput, StoreUnavailable
from reverie.files.atomic import rename_to_new
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
    needs_room = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "make room" if needs_room else "make it writable"
    return StoreUnavailable(
        f"{str(path)!r} cannot be written ({error.strerror or error}): {advice}, or choose another place"
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
