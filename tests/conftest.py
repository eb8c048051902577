"""What tests share: a memory on disk and one in memory, with a clock one can move."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from reverie import Memory

# A busy machine makes examples slow, not wrong.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# Who starts a suite in the background makes it deaf to Ctrl-C, and all processes of its tests with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class MovableClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2025, 6, 2, 9, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        """Move it on, such as `days=3`."""
        self.now += timedelta(**by)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(params=["sqlite", "in memory"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, clock: MovableClock) -> Iterator[Memory]:
    where = ":memory:" if request.param == "in memory" else tmp_path / "memory"
    with Memory.open(where, clock=clock) as opened:
        yield opened
        assert opened.check() == []
