"""The memory of these tests. The contract of the stores compares the searches of all stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reverie import Memory
from tests.factories import MovableClock


@pytest.fixture
def memory(tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", clock=clock) as opened:
        yield opened
        assert opened.admin.check() == []
