"""Forks of the process while other threads work.

A forked child has only the thread that forked. Three things follow:

* A lock that another thread held at that moment stays held in the child for ever. A `ForkSafeLock` does not.
* SQLite keeps a list of open files per process, with the locks it believes to hold on each. The child inherits
  the list and not the locks. A connection that the child opens to the same file finds the entry and takes no
  lock of its own; another process that sees no lock then deletes the log under it, and acknowledged commits are
  gone. So no connection may be open at the moment of the fork: a fork waits for a moment without threads that are
  `using_connections`, keeps all out, and closes what is idle (`close_for_forks`).
* A lock on a file belongs to the child too as long as it has the file open, and the child has no thread that would
  close it. So a fork waits until threads that are `delaying_forks` have released theirs.

The import system has such locks too: a module that another thread is importing is locked in the child for ever.
A fork waits for imports of Reverie's own modules.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import weakref
from _thread import RLock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

_MAX_WAIT_S = 10.0


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


class ConnectionOwner(Protocol):
    """An owner of SQLite connections that stay open between two uses."""

    def close_for_fork(self) -> None:
        """Close the connections. No other thread uses one; the forking thread itself may."""

    def reset_after_fork(self, is_clean: bool) -> None:
        """Forget in a child what belongs to its parent.

        Args:
            is_clean: Whether no other thread was using a connection; `close_for_fork` was called only then.
        """


_listing = threading.Lock()  # guards the two sets below
_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()
_owners: weakref.WeakSet[ConnectionOwner] = weakref.WeakSet()
_gate = threading.Condition(threading.Lock())  # guards all that follows; held during a fork
_users: dict[int, int] = {}  # threads that use connections, and how many
_writers: dict[int, threading.Event] = {}  # threads that a fork waits for, and how to hurry them
_is_clean = _is_forking = False


def close_for_forks(owner: ConnectionOwner) -> None:
    """Close the connections of an owner for the moment of each fork."""
    with _listing:
        _owners.add(owner)


def enter() -> int:
    """Begin to use a connection, unless a fork is under way; return what `leave` needs."""
    me = threading.get_ident()
    with _gate:
        _users[me] = _users.get(me, 0) + 1
    return me


def leave(thread: int) -> None:
    """End the use of a connection."""
    with _gate:
        if (left := _users.pop(thread, 0) - 1) > 0:
            _users[thread] = left
        else:
            _gate.notify_all()


@contextmanager
def using_connections() -> Iterator[None]:
    """Keep the process from forking until the block ends."""
    me = enter()
    try:
        yield
    finally:
        leave(me)


@contextmanager
def delaying_forks(hurry: threading.Event) -> Iterator[None]:
    """Keep the process from forking until the block ends, since a child would keep a lock on a file that it holds.

    Args:
        hurry: It is set when a fork waits. The block is not begun then, unless this thread uses a connection.
    """
    me = threading.get_ident()
    with _gate:
        _gate.wait_for(lambda: not _is_forking or me in _users)
        _writers[me] = hurry
    try:
        yield
    finally:
        with _gate:
            _writers.pop(me, None)
            _gate.notify_all()


def _before_fork() -> None:
    """Wait for a moment at which no other thread uses a connection, keep all out, and close what is idle.

    Until that moment all go on: a thread that uses a connection may need another to finish.
    """
    global _is_clean, _is_forking
    _finish_imports()
    me = threading.get_ident()
    _gate.acquire()
    _is_forking = True
    for hurry in _writers.values():
        hurry.set()
    _gate.wait_for(lambda: not (_writers.keys() | _users.keys()) - {me}, timeout=_MAX_WAIT_S)
    _is_clean = not _users.keys() - {me}
    for owner in list(_owners) if _is_clean else ():
        owner.close_for_fork()


def _finish_imports() -> None:
    """Wait for the modules that other threads are importing."""
    for name, module in list(sys.modules.items()):
        if name.startswith("reverie.") and getattr(module.__spec__, "_initializing", False):
            importlib.import_module(name)


def _after_fork_in_parent() -> None:
    global _is_forking
    _is_forking = False
    _gate.notify_all()
    _gate.release()


def _after_fork_in_child() -> None:
    global _gate, _listing, _is_forking
    _gate, _listing, _is_forking = threading.Condition(threading.Lock()), threading.Lock(), False
    _users.clear()
    _writers.clear()
    for owner in list(_owners):
        owner.reset_after_fork(_is_clean)
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
