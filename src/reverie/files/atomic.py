"""Atomic writing of files that a person may be editing at the same time.

File names are paths relative to the memory's folder, with `/`. `mirror` decides
what is written and what may be removed.

**Writing.** New content is written to a draft in `memory/.reverie/` or `sessions/.reverie/`. The draft then
takes the name of the file in one step, so a reader never sees a part of the content. Only callers that ask
for it wait for the disk (fsync): the database is the truth, and what a power cut takes is written again.

**Replacing and removing.** A person may save the file between our check and our step. The step therefore
never drops the old file. It gives the old file the name of a draft, and the old file is checked again:

1. Draft and file exchange their names, where the system supports that.
2. Elsewhere, the old file is renamed aside, and the draft takes the free name unless somebody else has taken
   it. For an instant there is no file of that name.

An old file that has changed is an edit. It stays in `.reverie` and is imported from there.
It is not exchanged back: an editor that has read our file in between would overwrite the edit.

A killed process leaves drafts there too. Their names contain the path of their file, and the next process examines them
(`list_drafts`). What a process still writes to an old file that it has open is not detected.

**Links** are not followed. Where a path below `memory` or `sessions` is a symbolic link, or not a regular
file, nothing is read or written (`UnsafePath`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from reverie.domain.errors import InvalidInput, StoreUnavailable, build_os_error
from reverie.files.layout import DRAFTS, MEMORY, SESSIONS
from reverie.stores.sqlite.database_file import rename_to_new, sync_folder

_LONGEST_NAME = 230
# Mode of a draft until it has all its content: nobody may read it yet.
_UNFINISHED = 0o200

_DRAFT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class UnsafePath(Exception):
    """A link, or not a regular file, stands at a path. The message says what to do. Internal."""


class FileStamp(NamedTuple):
    """Size, time and inode of a file. Every change of the file changes one of them."""

    size: int
    mtime_ns: int
    inode: int


class AtomicFolder:
    """Files of one memory's folder. Hold the lock of its `FileState` to change any.

    Attributes:
        recovered: The drafts that are edits which came while their file was replaced, with the path of the file.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self.recovered: list[tuple[str, str]] = []

    # -- reading -----------------------------------------------------------------------------------------

    def stat(self, path: str) -> FileStamp | None:
        """Return the stamp of a file, or None if there is none.

        Raises:
            UnsafePath: a link or a folder is there, or a link on the way.
            OSError: the file cannot be examined.
        """
        self._refuse_links(path)
        return _stat_regular_file(f"{self._root}/{path}", path)

    def read(self, path: str) -> tuple[bytes, FileStamp] | None:
        """Return the bytes of a file and its stamp at that time, or None; raise as `stat` does."""
        self._refuse_links(path)
        return _read(f"{self._root}/{path}", path)

    # -- changing ----------------------------------------------------------------------------------------

    def create(self, path: str, data: bytes, *, fsync: bool = False) -> FileStamp | None:
        """Create a file; return its stamp, or None if the name is taken.

        Args:
            path: Where.
            data: The content.
            fsync: Whether to wait until the content is on the disk before the file gets its name.
        """
        draft = self._write_draft(path, data, fsync)
        stamp = _build_stamp(os.lstat(draft))
        try:
            self._move_into_place(draft, path)
        except OSError as error:
            os.unlink(draft)
            if isinstance(error, FileExistsError):
                return None
            raise
        return stamp

    def keep_beside(self, path: str, ending: str, data: bytes) -> str:
        """Create a file beside another, unless one there has the content already; return its path.

        Args:
            path: The other file.
            ending: The ending of the name; before it, a number is put if the name is taken.
            data: The content.
        """
        number, beside = 1, f"{path}{ending}"
        while (found := self.read(beside)) is None or found[0] != data:
            if found is None and self.create(beside, data) is not None:
                break
            number, beside = number + 1, f"{path}.{number + 1}{ending}"
        return beside

    def replace(self, path: str, data: bytes, stamp: FileStamp, *, fsync: bool = False) -> FileStamp | None:
        """Replace the content of a file; return its new stamp, or None if the file was changed or removed.

        A change that comes in the very moment of the replacement is in `recovered`.

        Args:
            path: Where.
            data: The new content.
            stamp: The file as it was when it was decided that it may be replaced.
            fsync: Whether to wait until the content is on the disk before the file gets its name.
        """
        target, draft = f"{self._root}/{path}", self._write_draft(path, data, fsync)
        new_stamp = _build_stamp(os.lstat(draft))
        try:
            if not _is_unchanged(target, stamp):
                os.unlink(draft)
                return None
            old, replaced = self._swap(path, draft, target)
        except OSError as error:
            os.unlink(draft)
            if isinstance(error, FileNotFoundError):
                return None
            raise
        if _is_unchanged(old, stamp):
            os.unlink(old)
        else:
            self.recovered.append((os.path.relpath(old, self._root), path))
        return new_stamp if replaced else None

    def append(self, path: str, data: bytes, stamp: FileStamp) -> FileStamp | None:
        """Append to a file; return its new stamp, or None if the file was changed or removed.

        A process that is killed here may leave a part of `data` there. When the disk is full, the part is
        removed and the error raised.
        """
        target = f"{self._root}/{path}"
        try:
            handle = os.open(target, _APPEND_FLAGS)
        except FileNotFoundError:
            return None
        try:
            if _build_stamp(os.fstat(handle)) != stamp:
                return None
            _write(handle, data, stamp.size)
            after = _build_stamp(os.fstat(handle))
        finally:
            os.close(handle)
        whole = after.size == stamp.size + len(data)
        present = _stat_regular_file(target, path)
        return after if whole and present is not None and present.inode == after.inode else None

    def remove(self, path: str, stamp: FileStamp) -> bool:
        """Remove a file and the folders that become empty; return False if the file was changed."""
        target, aside = f"{self._root}/{path}", self._make_draft_name(path)
        self._make_folders(os.path.relpath(aside, self._root))
        try:
            os.rename(target, aside)
        except FileNotFoundError:
            return True
        if not _is_unchanged(aside, stamp):
            draft = os.path.relpath(aside, self._root)
            if not self.put_back(draft, path):
                self.recovered.append((draft, path))
            return False
        os.unlink(aside)
        self._remove_empty_folders(path)
        return True

    # -- drafts of killed processes ----------------------------------------------------------------------

    def list_drafts(self) -> list[tuple[str, str]]:
        """Return the path of each draft or old file that was left, and the path of its file.

        Drafts in a folder that may not be read are left out.
        """
        drafts = []
        for top in (MEMORY, SESSIONS):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                for name in sorted(os.listdir(f"{self._root}/{top}/{DRAFTS}")):
                    path = re.sub(",([,_])", lambda match: match[1].replace("_", "/"), name.partition("-")[2])
                    drafts.append((f"{top}/{DRAFTS}/{name}", f"{top}/{path}"))
        return drafts

    def is_unfinished(self, draft: str) -> bool:
        """Return whether a draft lacks a part of its content, so that it never was the file."""
        return not os.lstat(f"{self._root}/{draft}").st_mode & stat.S_IRUSR

    def put_back(self, draft: str, path: str) -> bool:
        """Give a draft the name of its file; return False if that is taken."""
        try:
            self._move_into_place(f"{self._root}/{draft}", path)
        except FileExistsError:
            return False
        return True

    def unlink(self, path: str) -> None:
        """Remove a file as it is, and the folders that become empty: the name of a category may be erased text too."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._root}/{path}")
        self._remove_empty_folders(path)

    # -- below -------------------------------------------------------------------------------------------

    def _swap(self, path: str, draft: str, target: str) -> tuple[str, bool]:
        """Give a draft the name of a file.

        Returns:
            Where the old file is now, and whether the draft has its name: somebody else may have taken it.
        """
        try:
            exchange(draft, target)
        except ExchangeUnsupported:
            aside = self._make_draft_name(path)
            os.rename(target, aside)
            try:
                rename_to_new(draft, target)
            except FileExistsError:
                os.unlink(draft)
                return aside, False
            return aside, True
        return draft, True

    def _move_into_place(self, draft: str, path: str) -> None:
        """Give a draft a name that must be free; make the folders if they are missing."""
        try:
            rename_to_new(draft, f"{self._root}/{path}")
        except FileNotFoundError:
            self._make_folders(path)
            rename_to_new(draft, f"{self._root}/{path}")

    def _write_draft(self, path: str, data: bytes, fsync: bool) -> str:
        """Write a new draft that only its owner may read, and return its place."""
        draft = self._make_draft_name(path)
        folder = f"{path.partition('/')[0]}/{DRAFTS}/"
        self._refuse_links(folder)
        try:
            handle = os.open(draft, _DRAFT_FLAGS, _UNFINISHED)
        except FileNotFoundError:
            self._make_folders(folder)
            handle = os.open(draft, _DRAFT_FLAGS, _UNFINISHED)
        try:
            _write(handle, data, 0)
            if fsync:
                os.fsync(handle)
            os.fchmod(handle, 0o600)
        except OSError:
            os.unlink(draft)
            raise
        finally:
            os.close(handle)
        return draft

    def _make_draft_name(self, path: str) -> str:
        top, rest = path.split("/", 1)
        quoted = _escape_path(rest)
        if len(quoted.encode()) > _LONGEST_NAME:
            quoted = _escape_path(rest.rpartition("/")[2])
        return f"{self._root}/{top}/{DRAFTS}/{os.urandom(4).hex()}-{quoted}"

    def _refuse_links(self, path: str) -> None:
        """Raise `UnsafePath` if a folder above a path is a link, or no folder."""
        place = self._root
        for folder in path.split("/")[:-1]:
            place = f"{place}/{folder}"
            try:
                mode = os.lstat(place).st_mode
            except FileNotFoundError:
                return
            if not stat.S_ISDIR(mode):
                what = "a symbolic link" if stat.S_ISLNK(mode) else "no folder"
                raise UnsafePath(f"{os.path.relpath(place, self._root)!r} is {what}: make it a folder")

    def _make_folders(self, path: str) -> None:
        """Make the missing folders above a file, for their owner alone."""
        place = self._root
        for folder in path.split("/")[:-1]:
            place = f"{place}/{folder}"
            try:
                os.mkdir(place, 0o700)
            except FileExistsError:
                continue
            os.chmod(place, 0o700)

    def _remove_empty_folders(self, path: str) -> None:
        folders = path.split("/")[:-1]
        with contextlib.suppress(OSError):  # the first that is not empty
            while len(folders) > 1:
                os.rmdir(f"{self._root}/{'/'.join(folders)}")
                folders.pop()


def is_lost(folder: str) -> bool:
    """Return whether a folder is missing or has nothing in it, like a mount point; False if that cannot be told."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return not os.path.lexists(folder)
    except OSError:
        return False


def _build_stamp(status: os.stat_result) -> FileStamp:
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ino)


def _stat_regular_file(place: str, path: str) -> FileStamp | None:
    try:
        status = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
        raise UnsafePath(f"{path!r} is {what}: put a file there, or remove it")
    return _build_stamp(status)


def _is_unchanged(place: str, stamp: FileStamp) -> bool:
    return _build_stamp(os.lstat(place)) == stamp


def _read(place: str, path: str) -> tuple[bytes, FileStamp] | None:
    if _stat_regular_file(place, path) is None:
        return None
    with contextlib.suppress(FileNotFoundError), open(os.open(place, _READ_FLAGS), "rb") as file:
        before, data = _build_stamp(os.fstat(file.fileno())), file.read()
        if _build_stamp(os.fstat(file.fileno())) != before or len(data) != before.size:
            raise OSError(errno.EBUSY, "somebody is writing it", place)
        return data, before
    return None


def _write(handle: int, data: bytes, start: int) -> None:
    """Write all of it at the end; on an error, remove the part that was written."""
    written = 0
    try:
        while written < len(data):
            written += os.write(handle, data[written:] if written else data)
    except OSError:
        with contextlib.suppress(OSError):  # the first error says what is wrong
            if written and os.fstat(handle).st_size == start + written:
                os.ftruncate(handle, start)
        raise


def _escape_path(path: str) -> str:
    """Return the path as a name. Percent-encoding would make the names of sessions too long."""
    return path.replace(",", ",,").replace("/", ",_")


# -- files that a person names ---------------------------------------------------------------------------------


@contextlib.contextmanager
def create_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file for writing; it gets its name when it is complete and on disk.

    Args:
        overwrite: Whether to replace a file of that name.

    Raises:
        InvalidInput: the name is taken, with `overwrite` by something else than a file.
        StoreUnavailable: it cannot be written.
    """
    _refuse_taken(path, overwrite=overwrite)
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
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
        with contextlib.suppress(OSError):
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
        raise InvalidInput(f"no folder {str(path.parent)!r}: make it, or choose another place")
    is_taken = os.path.lexists(path)
    if is_folder or (is_taken and not overwrite):
        raise _build_taken_error(path)
    # A rename would put a file in the place of a device or a link.
    if is_taken and not stat.S_ISREG(path.lstat().st_mode):
        raise InvalidInput(f"{str(path)!r} is a device, a pipe or a link, and no file: choose another name")


def _build_taken_error(path: Path) -> InvalidInput:
    what = ", as a folder that is not empty" if path.is_dir() else ""
    return InvalidInput(
        f"{str(path)!r} is there already{what}: choose another name, or overwrite it (--overwrite)"
    )


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
        rename_to_new(draft, path)
    except FileExistsError:
        raise _build_taken_error(path) from None


# -- renaming beyond POSIX -----------------------------------------------------------------------------------
#
# Linux and macOS can exchange two names in one step (`renameat2`, `renamex_np`), on most of their file systems.
# Python offers neither call, so they are looked up in the C library.


_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
_AT_FDCWD = -100
_EXCHANGE = 2


class ExchangeUnsupported(Exception):
    """The system or the file system cannot exchange two names. Internal."""


def exchange(first: str, second: str) -> None:
    """Exchange two names in one step. Both files must exist.

    Raises:
        ExchangeUnsupported: the system does not support it; nothing was changed.
        OSError: it failed, such as with `FileNotFoundError`; nothing was changed.
    """
    call = find_exchange()
    if call is None:
        raise ExchangeUnsupported
    if number := call(os.fsencode(first), os.fsencode(second)):
        if number in _UNSUPPORTED:
            raise ExchangeUnsupported
        raise OSError(number, os.strerror(number), first, None, second)


@cache
def find_exchange() -> Callable[[bytes, bytes], int] | None:
    """Return the system's call, which returns the number of an error or 0; None if it has none."""
    if os.name != "posix":
        return None
    import ctypes  # here: few processes replace a file

    library = ctypes.CDLL(None, use_errno=True)
    is_mac = sys.platform == "darwin"
    if not is_mac:
        if not sys.platform.startswith("linux") or not hasattr(library, "renameat2"):
            return None
        library.renameat2.argtypes = (
            ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint,
        )  # fmt: skip

    def call(first: bytes, second: bytes) -> int:
        if is_mac:
            failed = library.renamex_np(first, second, _EXCHANGE)
        else:
            failed = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _EXCHANGE)
        return ctypes.get_errno() if failed else 0

    return call
