"""One machine at a time for a folder that a sync program copies between machines.

A database that two machines write at the same time is damaged by the copies. Every machine that uses a folder
therefore writes its name and the time into `.machine`, which the sync program copies too. The folder is refused while
another machine has used it within the last two minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from functools import cache
from pathlib import Path

from reverie.domain.errors import StoreUnavailable

MACHINE_FILE = ".machine"
"""File with the machine that has used a folder last."""

IN_USE_S = 120.0
"""Time since the last use for which a folder counts as in use."""

RENEW_S = 30.0
"""Time after which a machine that uses a folder says so again."""

_IDENTITY_FILES = ("/etc/machine-id", "/proc/sys/kernel/random/boot_id")


@cache
def read_identities() -> frozenset[str]:
    """Return what identifies this machine: two containers of one machine have one of these in common."""
    found = {f"host:{os.uname().nodename}"}
    for name in _IDENTITY_FILES:
        with contextlib.suppress(OSError):
            if text := Path(name).read_text(encoding="ascii", errors="replace").strip():
                found.add(f"{name}:{text}")
    return frozenset(found)


def claim_folder(root: Path) -> None:
    """Record that this machine uses a folder.

    Args:
        root: The memory's folder. Nothing is done if it does not exist.

    Raises:
        StoreUnavailable: another machine has just used it.
    """
    file, now, ours = root / MACHINE_FILE, time.time(), read_identities()
    identities, name, at = _read(file)
    if identities and not identities & ours and 0 <= now - at < IN_USE_S:
        raise StoreUnavailable(
            f"The machine {name!r} has used {str(root)!r} {now - at:.0f} seconds ago. A synced folder can be used by "
            "one machine at a time: close it there, let the sync program finish, and try again in two minutes. If "
            f"that machine does not use it, delete {str(file)!r}."
        )
    if identities & ours and 0 <= now - at < RENEW_S:
        return
    text = json.dumps({"machine": sorted(ours), "name": os.uname().nodename, "at": now})
    draft = file.with_name(f"{MACHINE_FILE}.{os.getpid()}")
    with contextlib.suppress(OSError):  # a folder that cannot be written: the database says what is wrong
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.replace(file)


def _read(file: Path) -> tuple[frozenset[str], str, float]:
    """Return the identities and the name of the machine that has used a folder last, and when."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return frozenset(found["machine"]), str(found["name"]), float(found["at"])
    except (OSError, ValueError, TypeError, KeyError):  # none yet, or half copied
        return frozenset(), "", 0.0
