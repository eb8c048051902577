from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import jsonschema
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
    """A function that calls a tool, and holds what comes to the tool's own schema."""

    def call(name: str, /, **given: Any) -> ToolResult:
        told = tools.call(name, given)
        holds_to_its_schema(tools, name, told)
        return told

    return call


def holds_to_its_schema(tools: Toolset, name: str, told: ToolResult) -> None:
    result: Mapping[str, Any] | None = tools.tool(name).result
    if told.failed or result is None:
        return
    jsonschema.validate(told.data, result | {"$schema": "https://json-schema.org/draft/2020-12/schema"})
