"""How is a file put in its place so that nobody sees half of it, and no edit made meanwhile is lost?

Names of files are given as paths relative to the folder, with `/`. This module does as it is told: what is to
be written, and whether what is there may go, is decided in `mirror`.

**Writing.** New content is written to a draft in `memory/.reverie/` or `sessions/.reverie/`, and the draft is
given the file's name in one step; there is no moment at which the name stands for nothing or for a part.
Hardly anything waits for the disk (fsync): the database is the truth, and what a power cut takes is written
again. The exception is `lasting`: after a power cut a new file may be empty, and where an empty file can be
somebody's wish, it must not be taken for one.

**Replacing, removing.** A person may save the file between our look at it and our step. So the old file is
never dropped by that step, but comes out of it under the draft's name, and is looked at again. If it is
not as it was when we decided, somebody has edited it, and it is put back. In detail, the best that the
system has:

1. Draft and file exchange their names. The old file, whether it was changed in place or replaced by
   another, is what stands under the draft's name now. Edited: exchanged back.
2. Without that call, the old file gets a second name (a hard link), the draft replaces it, and the second
   name is looked at. Edited: it stays beside as `{name}.recovered-N`, from where it is taken in. (A file
   that an editor *replaces* in the microseconds between the two steps is lost. Exchanging has no such gap.)
3. Without hard links, the old file is renamed aside and the draft takes the free name, unless somebody else
   has taken it. Edited: `{name}.recovered-N`.

What a killed process leaves in `.reverie` carries the file's path in its name and is looked at by the next
one (`list_leftovers`). What still writes to an old file that it opened before cannot be seen by anybody.

**Links** are not followed: where a file or a folder below `memory` or `sessions` is a symbolic link, or no
regular file, nothing is read or written (`Refused`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from reverie.files.disk.rename import RenameUnsupported, exchange, link, rename_to_new
from reverie.files.layout import MEMORY, RECOVERED, SESSIONS

DRAFTS = ".reverie"
"""The folder of drafts in each of `memory` and `sessions`."""

_LONGEST = 230
_LONGEST_LINE = 16_384
_DRAFT_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class UnsafePath(Exception):
    """A link, or no regular file, stands where a file or folder should; the message says what to do."""


class FileStamp(NamedTuple):
    """A file as it was when it was looked at. Whoever changes it, changes one of these."""

    size: int
    mtime_ns: int
    inode: int


class AtomicFolder:
    """The files of one folder. Hold the lock of its `FileState` to change any.

    Attributes:
        recovered: Every `{name}.recovered-N` that was made here, with the path of the file it belongs to.
        times: Times of folders, to see what others do there: what is done here moves them along.
    """

    def __init__(self, root: Path) -> None:
        """Work below `root`, the memory's folder."""
        self._root = os.fspath(root)
        self.recovered: list[tuple[str, str]] = []
        self.times: dict[str, int] = {}

    # -- looking -----------------------------------------------------------------------------------------

    def look(self, path: str) -> FileStamp | None:
        """The file as it is; None if there is none.

        Raises:
            Refused: a link or a folder is there, or a link on the way.
            OSError: it cannot be told.
        """
        self._refuse_links(path)
        return _stat_regular_file(f"{self._root}/{path}", path)

    def read(self, path: str) -> tuple[bytes, FileStamp] | None:
        """The file's bytes, and how it was when they were read; None if there is none; raises as `look`."""
        self._refuse_links(path)
        return _read(f"{self._root}/{path}", path)

    def read_last_line(self, path: str, seen: FileStamp) -> bytes | None:
        """The last line of the file that was seen, with its line end; None if it is cut off, or too long."""
        try:
            handle = os.open(f"{self._root}/{path}", _READ_FLAGS)
        except FileNotFoundError:
            return None
        try:
            begin = max(0, seen.size - _LONGEST_LINE)
            end = os.pread(handle, _LONGEST_LINE, begin)
            if _to_seen(os.fstat(handle)) != seen:
                return None
        finally:
            os.close(handle)
        before, whole, last = end[:-1].rpartition(b"\n")
        return last + b"\n" if end.endswith(b"\n") and (whole or (not begin and not before)) else None

    def read_folder_mtime(self, folder: str) -> int:
        """When anything was last added, removed or renamed in a folder; 0 if there is none."""
        try:
            return os.lstat(f"{self._root}/{folder}").st_mtime_ns
        except OSError:
            return 0

    def has(self, folder: str) -> bool:
        """Whether there is a folder of that path, or anything else of that name."""
        return os.path.lexists(f"{self._root}/{folder}")

    # -- changing ----------------------------------------------------------------------------------------

    def create(self, path: str, data: bytes, *, lasting: bool = False) -> FileStamp | None:
        """Put a new file there; None if there is one meanwhile.

        Args:
            path: Where.
            data: Its content.
            lasting: Whether to wait until the content is on the disk before it gets its name.
        """
        watched = self._find_watched_folder(path)
        draft = self._write_draft(path, data, lasting)
        seen = _to_seen(os.lstat(draft))
        try:
            self._move_into_place(draft, path)
        except FileExistsError:
            os.unlink(draft)
            return None
        except OSError:
            os.unlink(draft)
            raise
        self._record_own_change(watched)
        return seen

    def replace(self, path: str, data: bytes, seen: FileStamp, *, lasting: bool = False) -> FileStamp | None:
        """Put new content in place of the file that was seen; None if that has been changed or is gone.

        Args:
            path: Where.
            data: The new content.
            seen: The file as it was when it was decided that it may go.
            lasting: Whether to wait until the content is on the disk before it gets its name.
        """
        watched = self._find_watched_folder(path)
        target, draft = f"{self._root}/{path}", self._write_draft(path, data, lasting)
        fresh = _to_seen(os.lstat(draft))
        try:
            kept = self._exchange_file(path, draft, target, seen, fresh)
        except RenameUnsupported:
            kept = self._replace_with_link(path, draft, target, seen)
        except OSError:
            os.unlink(draft)
            raise
        if not kept:
            return None
        self._record_own_change(watched)
        return fresh

    def append(self, path: str, data: bytes, seen: FileStamp) -> FileStamp | None:
        """Add to the end of the file that was seen; None if that has been changed or is gone.

        A process that is killed here may leave a part of `data` there. A disk that is full does not: the
        part is taken back, and the error raised.
        """
        target = f"{self._root}/{path}"
        try:
            handle = os.open(target, _APPEND_FLAGS)
        except FileNotFoundError:
            return None
        try:
            if _to_seen(os.fstat(handle)) != seen:
                return None
            _write(handle, data, seen.size)
            after = _to_seen(os.fstat(handle))
        finally:
            os.close(handle)
        whole = after.size == seen.size + len(data)
        there = _stat_regular_file(target, path)
        return after if whole and there is not None and there.inode == after.inode else None

    def remove(self, path: str, seen: FileStamp) -> bool:
        """Remove the file that was seen, and the folders then empty; False if it has been changed."""
        watched = self._find_watched_folder(path)
        target, aside = f"{self._root}/{path}", self._make_draft_name(path)
        try:
            os.rename(target, aside)
        except FileNotFoundError:
            return True
        if not _is(aside, seen):
            self._put_back(aside, path)
            return False
        os.unlink(aside)
        self._record_own_change(watched)
        self._remove_empty_folders(path)
        return True

    # -- what killed processes left ----------------------------------------------------------------------

    def list_leftovers(self) -> list[tuple[str, str]]:
        """Drafts and old files that were left: the path of each, and that of the file it belongs to."""
        found = []
        for top in (MEMORY, SESSIONS):
            with contextlib.suppress(FileNotFoundError):
                for name in sorted(os.listdir(f"{self._root}/{top}/{DRAFTS}")):
                    _, _, quoted = name.partition("-")
                    found.append((f"{top}/{DRAFTS}/{name}", f"{top}/{_unescape_path(quoted)}"))
        return found

    def put_back(self, left: str, path: str) -> bool:
        """Give what was left the name of its file, or, if there is one, `{name}.recovered-N`.

        Returns:
            Whether it has the name of its file.
        """
        return self._put_back(f"{self._root}/{left}", path)

    def discard(self, left: str) -> None:
        """Remove something that was left."""
        os.unlink(f"{self._root}/{left}")

    # -- below -------------------------------------------------------------------------------------------

    def _find_watched_folder(self, path: str) -> str | None:
        """The file's folder, if its time is watched and is as it was when it was looked at last."""
        folder = path.rpartition("/")[0]
        return (
            folder if folder in self.times and self.times[folder] == self.read_folder_mtime(folder) else None
        )

    def _record_own_change(self, folder: str | None) -> None:
        """Something in a folder was changed here, and nobody else needs to look for it."""
        if folder is not None:
            self.times[folder] = self.read_folder_mtime(folder)

    def _exchange_file(self, path: str, draft: str, target: str, seen: FileStamp, fresh: FileStamp) -> bool:
        try:
            exchange(draft, target)
        except FileNotFoundError:
            os.unlink(draft)
            return False
        if _is(draft, seen):
            os.unlink(draft)
            return True
        try:
            exchange(draft, target)
        except FileNotFoundError:  # ours was removed in between
            self._put_back(draft, path)
            return False
        if _is(draft, fresh):
            os.unlink(draft)
        else:  # ours was edited in between: keep both
            self._recover(draft, path)
        return False

    def _replace_with_link(self, path: str, draft: str, target: str, seen: FileStamp) -> bool:
        aside = self._make_draft_name(path)
        try:
            link(target, aside)
        except FileNotFoundError:
            os.unlink(draft)
            return False
        except RenameUnsupported:
            return self._put_aside(path, draft, target, seen)
        if _is(aside, seen):
            os.replace(draft, target)
            if _is(aside, seen):
                os.unlink(aside)
                return True
            self._recover(aside, path)
            return True
        os.unlink(aside)
        os.unlink(draft)
        return False

    def _put_aside(self, path: str, draft: str, target: str, seen: FileStamp) -> bool:
        aside = self._make_draft_name(path)
        try:
            os.rename(target, aside)
        except FileNotFoundError:
            os.unlink(draft)
            return False
        if not _is(aside, seen):
            self._put_back(aside, path)
            os.unlink(draft)
            return False
        try:
            rename_to_new(draft, target)
        except FileExistsError:
            os.unlink(draft)
            os.unlink(aside)
            return False
        os.unlink(aside)
        return True

    def _move_into_place(self, draft: str, path: str) -> None:
        """Give a draft the name of a file that is not there; its folders need not be there either."""
        try:
            rename_to_new(draft, f"{self._root}/{path}")
        except FileNotFoundError:
            self._make_folders(path)
            rename_to_new(draft, f"{self._root}/{path}")

    def _put_back(self, left: str, path: str) -> bool:
        try:
            self._move_into_place(left, path)
        except FileExistsError:
            self._recover(left, path)
            return False
        return True

    def _recover(self, left: str, path: str) -> None:
        """Keep an edited file beside the one that took its place."""
        number = 1
        while True:
            try:
                rename_to_new(left, f"{self._root}/{path}{RECOVERED}{number}")
            except FileExistsError:
                number += 1
            else:
                self.recovered.append((f"{path}{RECOVERED}{number}", path))
                return

    def _write_draft(self, path: str, data: bytes, lasting: bool) -> str:
        """A new file of that content, for its owner alone."""
        draft = self._make_draft_name(path)
        within = f"{path.partition('/')[0]}/{DRAFTS}/"
        self._refuse_links(within)
        try:
            handle = os.open(draft, _DRAFT_FLAGS, 0o600)
        except FileNotFoundError:
            self._make_folders(within)
            handle = os.open(draft, _DRAFT_FLAGS, 0o600)
        try:
            os.fchmod(handle, 0o600)
            _write(handle, data, 0)
            if lasting:
                os.fsync(handle)
        except OSError:
            os.unlink(draft)
            raise
        finally:
            os.close(handle)
        return draft

    def _make_draft_name(self, path: str) -> str:
        top, rest = path.split("/", 1)
        quoted = _escape_path(rest)
        if len(quoted.encode()) > _LONGEST:
            quoted = _escape_path(rest.rpartition("/")[2])
        return f"{self._root}/{top}/{DRAFTS}/{secrets.token_hex(4)}-{quoted}"

    def _refuse_links(self, path: str) -> None:
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
        """The folders above a file, for their owner alone; those that are there stay as they are."""
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
        while len(folders) > 1:
            try:
                os.rmdir(f"{self._root}/{'/'.join(folders)}")
            except OSError as error:
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY}:
                    return
                raise
            folders.pop()


def _to_seen(found: os.stat_result) -> FileStamp:
    return FileStamp(found.st_size, found.st_mtime_ns, found.st_ino)


def _stat_regular_file(place: str, path: str) -> FileStamp | None:
    try:
        found = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no regular file"
        raise UnsafePath(f"{path!r} is {what}: put a file there, or remove it")
    return _to_seen(found)


def _is(place: str, seen: FileStamp) -> bool:
    """Whether what stands there is the file that was seen, unchanged."""
    return _to_seen(os.lstat(place)) == seen


def _read(place: str, path: str) -> tuple[bytes, FileStamp] | None:
    if _stat_regular_file(place, path) is None:
        return None
    try:
        handle = os.open(place, _READ_FLAGS)
    except FileNotFoundError:
        return None
    with open(handle, "rb") as file:
        while True:
            before = _to_seen(os.fstat(handle))
            file.seek(0)
            data = file.read()
            if _to_seen(os.fstat(handle)) == before and len(data) == before.size:
                return data, before


def _write(handle: int, data: bytes, start: int) -> None:
    """Write all of it at the end; on an error, take back the part that was written."""
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
    """The path as a name. Not percent-encoded: the names of sessions are, and would grow too long."""
    return path.replace(",", ",,").replace("/", ",_")


def _unescape_path(name: str) -> str:
    return re.sub(",([,_])", lambda found: "," if found[1] == "," else "/", name)
