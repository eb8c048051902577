"""A memory without files for every adapter: that all stores are alike is proved by the contract of stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reverie import Memory
from tests.factories import MovableClock


@pytest.fixture
def memory(clock: MovableClock) -> Iterator[Memory]:
    with Memory.open(":memory:", clock=clock) as opened:
        yield opened
