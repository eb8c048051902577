"""A store in a file, and what its tests need around it: other processes, and a small disk."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from reverie.stores.sqlite import SQLiteStore
from reverie.stores.sqlite.database_file import find_passages
from tests.support.contract.factories import analyse


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent" / "reverie.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with contextlib.closing(open_store(path)) as store:
        yield store


def open_store(path: Path) -> SQLiteStore:
    return SQLiteStore(path, analyse=analyse, passages=find_passages(path.parent))


def run(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A program in a process of its own that has the store's modules."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
    )
