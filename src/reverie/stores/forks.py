"""Locks in forked children.

A child has only the thread that forked. A lock that another thread held at that moment stays held in the
child for ever, so the child gets a new one.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_OWNERS: weakref.WeakSet[Any] = weakref.WeakSet()
_RLOCK = type(threading.RLock())


def renew_lock_after_fork(owner: Any) -> None:
    """Give a forked child a free `owner._lock` if another thread held it.

    What the lock guards may be half changed then: `owner._reset_after_fork()`, if there is one, discards it.
    """
    _OWNERS.add(owner)


def _after_fork_in_child() -> None:
    for owner in list(_OWNERS):
        if owner._lock.acquire(blocking=False):
            owner._lock.release()
            continue
        owner._lock = threading.RLock() if isinstance(owner._lock, _RLOCK) else threading.Lock()
        if hasattr(owner, "_reset_after_fork"):
            owner._reset_after_fork()


if hasattr(os, "register_at_fork"):  # pragma: no branch
    os.register_at_fork(after_in_child=_after_fork_in_child)
