from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest

from reverie import Memory
from reverie.tools import GROUPS, ToolResult, Toolset

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **length: float) -> None:
        self.now += timedelta(**length)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> Iterator[Memory]:
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
