"""Atomic creation of export files and folders, for their owner alone."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from reverie.domain.errors import InvalidInput, StoreUnavailable
from reverie.files.disk.rename import rename_to_new
from reverie.stores.sqlite.migrations import sync_folder

_ABANDONED_S = 600.0


class AtomicTree:
    """A folder while it is written, under a temporary name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: set[Path] = {folder}

    def write(self, name: str, texts: Iterable[str]) -> None:
        """Write a text file and create the folders above it.

        Args:
            name: Its path below the folder, with `/`.
            texts: The content in pieces.
        """
        path = self.folder / name
        self._make(path.parent)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o600)
            for text in texts:
                file.write(text.encode())

    def _make(self, folder: Path) -> None:
        if folder not in self._made:
            self._make(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
            self._made.add(folder)


@contextmanager
def create_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file for writing; it gets its name when it is complete and on disk.

    Args:
        overwrite: Whether to replace a file of that name.

    Raises:
        InvalidInput: the name is taken.
        StoreUnavailable: it cannot be written.
    """
    refuse_taken(path, overwrite=overwrite)
    _remove_leftovers(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        with os.fdopen(handle, "w+b") as file:
            os.fchmod(handle, 0o600)
            yield file
            file.flush()
            os.fsync(handle)
        publish(draft, path, overwrite=overwrite)
        sync_folder(path.parent)
    except OSError as error:
        raise build_unwritable_error(path, error) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@contextmanager
def create_text_file(path: Path, *, overwrite: bool) -> Iterator[TextIO]:
    """Open a UTF-8 text file the same way, without translation of line ends."""
    with create_file(path, overwrite=overwrite) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


@contextmanager
def create_folder(path: Path) -> Iterator[AtomicTree]:
    """Create a folder; it gets its name when it is complete.

    Args:
        path: The name of the folder; an empty folder is replaced.

    Raises:
        InvalidInput: the name is taken.
        StoreUnavailable: it cannot be written.
    """
    refuse_taken(path, overwrite=False, empty_folder=True)
    _remove_leftovers(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        draft.mkdir(mode=0o700)
        draft.chmod(0o700)
        yield AtomicTree(draft)
        os.rename(draft, path)  # over an empty folder, and over nothing else
        sync_folder(path.parent)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
            raise build_taken_error(path) from None
        raise build_unwritable_error(path, error) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
            if draft.is_dir() and not draft.is_symlink():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)


def refuse_taken(path: Path, *, overwrite: bool, empty_folder: bool = False) -> None:
    """Raise `InvalidInput` if the name is taken or its folder is missing.

    Args:
        overwrite: Whether a file of that name may be replaced.
        empty_folder: Whether an empty folder of that name may be replaced.
    """
    try:
        is_folder, has_parent = path.is_dir(), path.parent.is_dir()
    except OSError as error:
        raise build_unwritable_error(path, error) from None
    if not has_parent:
        raise InvalidInput(f"there is no folder {str(path.parent)!r}: make it, or choose another place")
    if is_folder:
        with suppress(OSError):
            if empty_folder and not any(path.iterdir()):
                return
        raise build_taken_error(path)
    if not overwrite and os.path.lexists(path):
        raise build_taken_error(path)


def build_taken_error(path: Path) -> InvalidInput:
    """Return the error for a name that is taken."""
    what = ", as a folder that is not empty" if path.is_dir() else ""
    return InvalidInput(f"{str(path)!r} is there already{what}: choose another name")


def build_unwritable_error(path: Path, error: OSError) -> StoreUnavailable:
    """Return the error for a file that cannot be written."""
    return StoreUnavailable(
        f"{str(path)!r} cannot be written ({error.strerror or error}): make room, or choose another place"
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
        raise build_taken_error(path) from None
