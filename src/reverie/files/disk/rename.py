"""Renaming beyond POSIX: exchange two names, and rename without replacing.

Linux and macOS can exchange two names in one step (`renameat2`, `renamex_np`), on most of their file systems.
Python offers neither call, so this module looks them up in the C library. Where a call is missing, or the
file system refuses it, `exchange` raises `RenameUnsupported` and the caller uses another way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable

_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}
_NO_LINKS = _UNSUPPORTED | {errno.EMLINK, errno.EACCES}
_AT_FDCWD = -100

Rename = Callable[[bytes, bytes, int], int]


class RenameUnsupported(Exception):
    """The system or the file system does not support the operation. Internal."""


def exchange(first: str, second: str) -> None:
    """Exchange two names in one step. Both files must exist.

    Raises:
        RenameUnsupported: the system does not support it; nothing was changed.
        OSError: it failed, such as with `FileNotFoundError`; nothing was changed.
    """
    _rename(first, second, _EXCHANGE)


def rename_to_new(old: str, new: str) -> None:
    """Rename a file unless the new name is taken.

    Raises:
        FileExistsError: the new name is taken; nothing was changed.
        OSError: it failed in another way; nothing was changed.
    """
    try:
        _rename(old, new, _NO_REPLACE)
    except RenameUnsupported:
        try:
            os.link(old, new)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(new):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
            os.rename(old, new)  # no links here: a file that appears at this moment would be replaced
        else:
            os.unlink(old)


def _rename(old: str, new: str, flags: int) -> None:
    if _native is None:
        raise RenameUnsupported
    if _native(os.fsencode(old), os.fsencode(new), flags) != 0:
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            raise RenameUnsupported
        raise OSError(number, os.strerror(number), old, None, new)


def _find_system_call() -> Rename | None:
    """Return the system's call, or None if it has none."""
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        return getattr(library, "renamex_np", None)
    if not sys.platform.startswith("linux") or not hasattr(library, "renameat2"):
        return None
    call = library.renameat2
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return lambda old, new, flags: int(call(_AT_FDCWD, old, _AT_FDCWD, new, flags))


_NO_REPLACE, _EXCHANGE = (4, 2) if sys.platform == "darwin" else (1, 2)
_native = _find_system_call() if os.name == "posix" else None
