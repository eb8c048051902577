from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import numpy  # noqa: F401 - otherwise a thread imports it while Hypothesis looks at it
import pytest

from reverie import Memory
from reverie.tools import GROUPS, ToolResult, Toolset
from tests.factories import MovableClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(NOW)


@pytest.fixture
def memory(clock: MovableClock) -> Iterator[Memory]:
    with Memory.open(":memory:", clock=clock) as opened:
        yield opened


@pytest.fixture
def tools(memory: Memory) -> Toolset:
    return memory.tools(session="chat:1", groups=GROUPS)


Call = Callable[..., ToolResult]


@pytest.fixture
def call(tools: Toolset) -> Call:
    return calling(tools)


def calling(tools: Toolset) -> Call:
    """A function that calls a tool with arguments by name."""
    return lambda name, /, **given: tools.call(name, given)
