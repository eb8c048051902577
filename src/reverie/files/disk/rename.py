"""Which ways of renaming does this system have beyond POSIX? Exchange two names; rename without replacing.

Linux and macOS can exchange what two names stand for in one step (`renameat2`, `renamex_np`), most of their
file systems too. Python has neither call, so they are found in the C library; where they are missing,
or the file system refuses, the functions here say so, and the caller goes another way.
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
    """The system, or the file system, cannot do that. Internal: there is another way."""


def exchange(one: str, other: str) -> None:
    """Let each of two names stand for what the other did, in one step; both must be there.

    Raises:
        Unsupported: this system cannot; nothing was changed.
        OSError: it failed, such as `FileNotFoundError`; nothing was changed.
    """
    _rename(one, other, _EXCHANGE)


def rename_to_new(old: str, new: str) -> None:
    """Rename a file, unless there is one of the new name.

    Raises:
        FileExistsError: there is; nothing was changed.
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
            os.rename(old, new)  # a file system without links: what appears just now would be replaced
        else:
            os.unlink(old)


def link(old: str, new: str) -> None:
    """Give a file a second name.

    Raises:
        Unsupported: the file system cannot.
        OSError: it failed.
    """
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise RenameUnsupported from error
        raise


def _rename(old: str, new: str, flags: int) -> None:
    if _native is None:
        raise RenameUnsupported
    if _native(os.fsencode(old), os.fsencode(new), flags) != 0:
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            raise RenameUnsupported
        raise OSError(number, os.strerror(number), old, None, new)


def _find_system_call() -> Rename | None:
    """The system's call, if it has one."""
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
