from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy  # noqa: F401 - otherwise a thread imports it while Hypothesis looks at it
import pytest

from reverie import Memory
from reverie.tools import GROUPS, ToolResult, Toolset
from tests.factories import MovableClock

REFERENCE = (Path(__file__).parents[2] / "docs/reference/tools.md").read_text(encoding="utf-8")
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
    """A function that calls a tool, and holds what comes to the reference."""

    def call(name: str, /, **given: Any) -> ToolResult:
        told = tools.call(name, given)
        has_the_data_of_the_reference(name, told)
        return told

    return call


def has_the_data_of_the_reference(name: str, told: ToolResult) -> None:
    if told.failed:
        return
    shown = re.search(rf"^### `{name}`\n.*?Data: (.*?)\.$", REFERENCE, re.MULTILINE | re.DOTALL)
    assert shown is not None, f"the reference does not say what data {name} returns"
    assert told.data is not None
    assert set(told.data) == set(re.findall(r"`(\w+)`", shown[1]))
