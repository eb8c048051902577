"""Store for the tests of the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reverie.search.analyzer import analyze
from reverie.stores.sqlite import SQLiteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    yield opened
    opened.close()
