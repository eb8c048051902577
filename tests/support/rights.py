"""Takes from a thread of root the right to read and write what modes forbid."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_VERSION = 0x20080522
_READ_ANYTHING = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


@contextmanager
def without_rights_of_root() -> Iterator[None]:
    """Let modes count for this thread, and for those that it starts, even if it runs as root.

    The test is skipped where that is impossible.
    """
    if os.geteuid() != 0:
        yield
        return
    if not sys.platform.startswith("linux"):
        pytest.skip("root may read everything here")
    library = ctypes.CDLL(None, use_errno=True)
    header, before = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert library.capget(header, before) == 0
    less = (ctypes.c_uint32 * 6)(*before)
    less[0] &= ~_READ_ANYTHING  # the effective ones; the permitted ones allow to take them again
    if library.capset(header, less) != 0:
        pytest.skip("the rights of root cannot be given up here")
    try:
        yield
    finally:
        assert library.capset(header, before) == 0
