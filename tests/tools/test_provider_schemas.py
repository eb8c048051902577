"""Each provider is shown the tools in its own shape, and the shapes do not change unnoticed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from reverie import Memory
from reverie.tools import GROUPS, Toolset

GOLDEN = Path(__file__).parent / "golden"
SHAPES = ("openai", "openai_responses", "anthropic", "mcp")


def shown(memory: Memory, shape: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = getattr(memory.tools(session="chat:1", groups=GROUPS), shape)()
    return made


def test_the_shape_is_the_one_in_the_golden_file(memory: Memory) -> None:
    for shape in SHAPES:
        file = GOLDEN / f"{shape}.json"
        now = json.dumps(shown(memory, shape), indent=2, ensure_ascii=False) + "\n"
        if os.environ.get("REWRITE_GOLDEN"):
            file.write_text(now, encoding="utf-8")
        assert now == file.read_text(encoding="utf-8"), "run with REWRITE_GOLDEN=1 if that is meant"


def test_every_tool_and_every_argument_says_what_it_is_for(memory: Memory) -> None:
    for tool in memory.tools(session="chat:1", groups=GROUPS):
        assert len(tool.spec.description) > 30, tool.name
        assert len(tool.name) <= 64
        for name, each in tool.spec.parameters["properties"].items():
            assert each.get("description"), (tool.name, name)


def test_only_the_last_tool_marks_the_end_of_the_cached_prefix(memory: Memory) -> None:
    shown = memory.tools().anthropic(cached=True)
    assert ["cache_control" in each for each in shown] == [False] * (len(shown) - 1) + [True]
    assert Toolset().anthropic(cached=True) == []
    assert not any("cache_control" in each for each in memory.tools().anthropic())


def test_reading_tools_change_nothing(memory: Memory) -> None:
    record = memory.save("Ada prefers tea").record
    tools = memory.tools(session="chat:1", groups=GROUPS)
    for tool in ("save_to_working_memory", "scratchpad_write"):
        assert not tools.call(tool, {"key": "k", "data" if tool.startswith("save") else "text": "d"}).failed

    def state() -> tuple[Any, ...]:
        return (
            memory.history.log(limit=1000),
            memory.session("chat:1").working.list(),
            memory.scratchpad.list(),
        )

    before = state()
    for tool_ in tools.reading():
        takes = tool_.spec.parameters["properties"]
        given = {"query": "tea", "id": record.id, "key": "k", "session": "chat:1"}
        told = tools.call(tool_.name, {name: value for name, value in given.items() if name in takes})
        assert not told.failed, told.text
    assert state() == before
