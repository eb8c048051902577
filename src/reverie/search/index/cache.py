"""Folders for the indexes of memories whose store is on another machine: bounded, least recently used first out.

An index can be built again from its store, so nothing is lost with a folder. One that a process uses is kept,
whatever the bound: it holds a shared lock on a file beside the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from reverie.domain.errors import translate_os_errors

_LOCK = ".lock"
_MEGABYTE = 1_000_000


class IndexCache:
    """The folder of one memory's indexes in the cache of this machine, in use until it is closed.

    Args:
        base: The folder of the cache, made for its owner alone when it is missing.
        name: What names the memory among all, such as a UUID that its store made.
        origin: What tells its database from a copy, and from what it was before a restore. Folders of the memory that
            are of another origin are removed, unless somebody uses them.
        limit_mb: How many megabytes the folders of the cache may take together; others that nobody uses are
            removed beyond that.

    Attributes:
        path: The folder.

    Raises:
        StoreUnavailable: the cache cannot be made or written.
    """

    def __init__(self, base: Path, name: str, *, origin: str = "", limit_mb: int) -> None:
        self.path = base / (f"{name}-{origin}" if origin else name)
        with translate_os_errors(f"the cache of search indexes in {str(base)!r} cannot be used"):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _open_locked(self.path)
            try:
                self.path.mkdir(mode=0o700, exist_ok=True)
                for lock in (base / f"{name}{_LOCK}", *base.glob(f"{name}-*{_LOCK}")):
                    if lock.name != self.path.name + _LOCK:
                        _remove(lock)
                _evict(base, limit_mb * _MEGABYTE)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Let the folder be removed when others need the room. Closing twice is allowed."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _open_locked(folder: Path) -> int:
    """Return the handle of a folder's lock, held with others that use it; its time is when it was last used."""
    lock = folder.with_name(folder.name + _LOCK)
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.stat(lock).st_ino == os.fstat(handle).st_ino:
                now = time.time()
                os.utime(handle, (now, now))
                return handle
        os.close(handle)  # it was removed between the two


def _evict(base: Path, limit: int) -> None:
    """Remove the least recently used folders until the rest is within the limit, or all that rest are in use."""
    sizes = {lock: _measure(lock.with_name(lock.name.removesuffix(_LOCK))) for lock in base.glob(f"*{_LOCK}")}
    excess = sum(sizes.values()) - limit
    for lock in sorted(sizes, key=_get_last_use):
        if excess <= 0:
            return
        if _remove(lock):
            excess -= sizes[lock]


def _remove(lock: Path) -> bool:
    """Remove the folder of a lock and the lock, unless somebody uses the folder; return whether that was done."""
    with _try_to_own(lock) as is_owned:
        if is_owned:
            shutil.rmtree(lock.with_name(lock.name.removesuffix(_LOCK)), ignore_errors=True)
            lock.unlink(missing_ok=True)
    return is_owned


@contextmanager
def _try_to_own(lock: Path) -> Iterator[bool]:
    """Hold a folder's lock alone, if nobody uses the folder."""
    try:
        file = lock.open("rb")
    except FileNotFoundError:
        yield False
        return
    with closing(file):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _get_last_use(lock: Path) -> float:
    try:
        return lock.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _measure(folder: Path) -> int:
    """Return the bytes of a folder's files; others may be removing some meanwhile."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(place, name)).st_size
    return size
