"""Forks of the process while other threads work.

A forked child has only the thread that forked. Two things follow:

* A lock that another thread held at that moment stays held in the child for ever. A `ForkSafeLock` does not.
* SQLite keeps a list of open files per process, with the locks it believes to hold on each. The child inherits
  the list and not the locks. A connection that the child opens to the same file finds the entry and takes no
  lock of its own; another process that sees no lock then deletes the log under it, and acknowledged commits are
  gone. So no connection may be open at the moment of the fork: `pause_for_forks`.

The import system has such locks too: a module that another thread is importing is locked in the child for ever.
A fork waits for imports of Reverie's own modules.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import weakref
from _thread import RLock
from collections.abc import Callable
from typing import Protocol

_MAX_WAIT_S = 10.0
_MIN_ATTEMPT_S = 0.05
_MAX_ATTEMPT_S = 1.0


class ForkSafeLock(RLock):  # type: ignore[misc]  # it can be inherited from, so that no call of Python locks
    """A reentrant lock that is free in a forked child even if another thread held it.

    Args:
        reset: A method that discards in the child what the lock guards and another thread may have left half changed.
    """

    def __init__(self, reset: Callable[[], None] | None = None) -> None:
        self._reset = None if reset is None else weakref.WeakMethod(reset)
        with _listing:
            _locks.add(self)

    def renew(self) -> None:
        """Free the lock in a child if a thread of the parent process held it."""
        if self.acquire(blocking=False):
            self.release()
            return
        self._at_fork_reinit()  # type: ignore[attr-defined]  # as `threading` does with its own locks
        if self._reset is not None and (reset := self._reset()) is not None:
            reset()


class Pausable(Protocol):
    """An owner of SQLite connections."""

    def pause_for_fork(self, patience: float) -> bool:
        """Close the connections; threads that ask for one wait until `resume_after_fork`.

        Args:
            patience: How many seconds to wait for threads that use a connection.

        Returns:
            Whether no connection is open that could have been waited for.
        """

    def resume_after_fork(self) -> None:
        """Let the threads go on, however far `pause_for_fork` came."""

    def reset_after_fork(self) -> None:
        """Forget in a child what belongs to its parent, after `pause_for_fork`."""


not_forking = threading.RLock()
"""Lock that keeps the process from forking. Hold it to open a connection that no `Pausable` owns."""

_listing = threading.Lock()  # guards the two sets below
_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()
_pausable: weakref.WeakSet[Pausable] = weakref.WeakSet()
_paused: list[Pausable] = []
_held: list[threading.Lock | RLock] = []


def pause_for_forks(owner: Pausable) -> None:
    """Close the connections of an owner for the moment of each fork."""
    with _listing:
        _pausable.add(owner)


def _before_fork() -> None:
    # All or nothing, with short attempts: a thread that uses a connection may wait for something that another
    # thread holds, which in turn waits for an owner that is paused already. Between two attempts all go on.
    _finish_imports()
    deadline = time.monotonic() + _MAX_WAIT_S
    attempt = _MIN_ATTEMPT_S
    while not _pause_all(attempt):
        if time.monotonic() > deadline:
            return  # in the child, owners that could not be paused raise errors
        _resume_all()
        time.sleep(attempt / 5)
        attempt = min(2 * attempt, _MAX_ATTEMPT_S)


def _finish_imports() -> None:
    """Wait for the modules that other threads are importing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("reverie.") and getattr(module.__spec__, "_initializing", False):
            importlib.import_module(name)


def _pause_all(patience: float) -> bool:
    """Pause all owners, each within a number of seconds; return False if one of them could not be paused."""
    if not _acquire(not_forking, patience) or not _acquire(_listing, patience):
        return False
    done = True
    for owner in list(_pausable):
        _paused.append(owner)
        done = owner.pause_for_fork(patience) and done
    return done


def _acquire(lock: threading.Lock | RLock, patience: float) -> bool:
    if lock.acquire(timeout=patience):
        _held.append(lock)
        return True
    return False


def _resume_all() -> None:
    for owner in reversed(_paused):
        owner.resume_after_fork()
    _release_all()


def _release_all() -> None:
    _paused.clear()
    for lock in reversed(_held):
        lock.release()
    _held.clear()


def _after_fork_in_child() -> None:
    for owner in _paused:
        owner.reset_after_fork()
    _release_all()
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(before=_before_fork, after_in_parent=_resume_all, after_in_child=_after_fork_in_child)
