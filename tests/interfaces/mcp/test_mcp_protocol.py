"""What the server answers, asked by the real client in process, with and without a handshake."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from reverie import Memory
from reverie.domain.errors import InvalidInput
from reverie.interfaces.mcp.server import MemoryServer, create_offer
from reverie.tools import Tool, ToolResult, Toolset
from reverie.tools.toolset import to_mcp
from tests.interfaces.mcp.peers import LEGACY, MODES, STATELESS, client_of, played

pytestmark = pytest.mark.parametrize("mode", MODES)
PAGES = "reverie://memory/"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory") as memory:
        yield memory


def play(memory: Memory, mode: str, scene: Callable[[Any], Awaitable[None]], **how: Any) -> None:
    """Play a scene with a client of a memory."""

    async def run() -> None:
        async with client_of(memory, mode, **how) as client:
            await scene(client)

    played(run)


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def read(client: Any, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    return str(contents.text)


async def refused(call: Any) -> MCPError:
    with pytest.raises(MCPError) as caught:
        await call
    return caught.value


# -- tools -----------------------------------------------------------------------------------------------


def test_the_server_says_who_it_is_and_shows_its_tools(memory: Memory, mode: str) -> None:
    async def scene(client: Any) -> None:
        shown = {tool.name: tool for tool in (await client.list_tools()).tools}
        if mode == LEGACY:
            assert client.session.protocol_version == "2025-11-25"
            assert client.server_info.name == "reverie"
            offered = client.server_capabilities
            assert {offered.resources.subscribe, offered.resources.list_changed} <= {None, False}
            assert offered.completions is None
            assert "never instructions" in client.instructions
        else:
            assert client.session.protocol_version == STATELESS
        ours = create_offer(memory, session="cli:1").tools
        assert list(shown) == list(ours.names)
        assert {"save_memory", "save_to_working_memory"} <= set(shown)
        for tool in ours:
            there = shown[tool.name]
            assert there.input_schema == to_mcp(tool)["inputSchema"]
            assert there.output_schema is None
            hints = there.annotations
            assert (hints.read_only_hint, hints.destructive_hint) == (tool.reads_only, tool.destructive)
            assert hints.open_world_hint is False
            assert hints.title

    play(memory, mode, scene, session="cli:1")


def test_a_long_text_is_read_in_parts_and_nothing_is_sent_twice(memory: Memory, mode: str) -> None:
    words = [f"word{number}" for number in range(25_000)]
    long = memory.save(" ".join(words[:9_000])).record
    memory.pages.write("plans.md", "\n".join(" ".join(words[at : at + 10]) for at in range(0, 20_000, 10)))
    memory.scratchpad.set("note", " ".join(words[:4_000]))
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("get_memory", {"id": long.id}, 9_000),
        ("read_page", {"page": "plans.md"}, 20_000),
        ("scratchpad_read", {"key": "note"}, 4_000),
    ]

    async def scene(client: Any) -> None:
        for name, arguments, count in cases:
            seen: list[str] = []
            part, parts = 1, 2
            while part <= parts:
                told = await client.call_tool(name, arguments | ({"part": part} if part > 1 else {}))
                whole = json.dumps(told.model_dump(mode="json"))
                assert len(whole) < 25_000
                shown = re.findall(r"word\d+", text_of(told))
                assert whole.count(shown[-1]) == 1
                seen += shown
                parts = int(re.search(rf"Part {part} of (\d+)\.", text_of(told))[1])
                assert (f"Call {name} with part {part + 1}" in text_of(told)) == (part < parts)
                part += 1
            assert seen == words[:count], name
            told = await client.call_tool(name, {**arguments, "part": part})
            assert (told.is_error, f"has {parts} parts" in text_of(told)) == (True, True)
        first, second = [await read(client, f"{PAGES}plans.md{more}") for more in ("", "?part=2")]
        assert f"Read {PAGES}plans.md?part=2 for the next." in first
        assert "\n\nPart 2 of" in second
        for number in range(250):
            memory.scratchpad.set(f"key/{number}" + "x" * 180, "x")
        listed = await client.call_tool("scratchpad_list", {})
        assert len(json.dumps(listed.model_dump(mode="json"))) < 50_000
        assert "more lines are left out. Ask for less" in text_of(listed)

    play(memory, mode, scene, groups=["long_term", "pages", "scratchpad"])


def test_a_wrong_call_is_a_result_that_says_what_is_wrong(memory: Memory, mode: str) -> None:
    async def scene(client: Any) -> None:
        for name, arguments, says in (
            ("save_memory", {}, "needs content"),
            ("save_memory", {"content": "x", "category": "../up"}, "category"),
            ("delete_memory", {"id": "ffffffffffff"}, "search_memory"),
        ):
            result = await client.call_tool(name, arguments)
            assert (result.is_error, says in text_of(result)) == (True, True), text_of(result)
        error = await refused(client.call_tool("brew_coffee", {}))
        assert (error.code, "save_memory" in str(error)) == (types.INVALID_PARAMS, True)

    play(memory, mode, scene)
    assert memory.history.log() == []


def test_fewer_tools_and_other_names_can_be_asked_for(memory: Memory, mode: str) -> None:
    async def scene(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert all(tool.annotations.read_only_hint for tool in tools)
        assert all(tool.name.startswith("reverie_") for tool in tools)
        assert "reverie_search_memory" in {tool.name for tool in tools}

    async def scene_of_group(client: Any) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["m_remember", "m_recall"]

    async def scene_of_text(client: Any) -> None:
        told = await client.call_tool("search_memory", {"query": "x"})
        assert (told.structured_content, bool(text_of(told))) == (None, True)

    play(memory, mode, scene, read_only=True, prefix="reverie_")
    play(memory, mode, scene_of_text, text_only=True)
    play(memory, mode, scene_of_group, groups=["fil"], prefix="m_")
    with pytest.raises(InvalidInput, match="group"):
        create_offer(memory, groups=["nothing"])


def test_a_slow_call_holds_up_no_other(memory: Memory, mode: str) -> None:
    go_on, offer = threading.Event(), create_offer(memory)

    def slow(given: Any) -> ToolResult:
        assert go_on.wait(30)
        return ToolResult("at last")

    saving = Tool(spec=offer.tools.tool("save_memory").spec, run=slow)
    tools = Toolset([*offer.tools.without("save_memory"), saving])

    async def scene() -> None:
        server = MemoryServer(replace(offer, tools=tools))
        async with Client(server.protocol, mode=mode) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "save_memory", {"content": "x"})
            for _ in range(5):
                assert not (await client.call_tool("list_memory_categories", {})).is_error
            go_on.set()

    played(scene)


def test_a_broken_store_is_an_answer_that_says_what_to_do(memory: Memory, mode: str) -> None:
    memory.save("Alice likes tea")
    assert memory.path is not None
    file, call = memory.path / "reverie.db", ("save_memory", {"content": "Bob likes coffee"})

    async def scene(client: Any) -> None:
        for before, after, fails in (("records", "elsewhere", True), ("elsewhere", "records", False)):
            with sqlite3.connect(file) as other:
                other.execute(f"ALTER TABLE {before} RENAME TO {after}")
            other.close()
            result = await client.call_tool(*call)
            assert (result.is_error, "reverie doctor" in text_of(result)) == (fails, fails)

    play(memory, mode, scene)


def test_a_scope_sees_and_writes_its_own(memory: Memory, mode: str) -> None:
    memory.scoped("user:bob").save("Bob likes coffee")
    for name in ("user:bob//telegram", "plain"):
        memory._parts.sessions.open(name, "user:bob").add("user", "Bob keeps wasps")
        with pytest.raises(InvalidInput, match="belongs to the scope 'user:bob', which is not served"):
            create_offer(memory, session=name)
        assert "list_working_memory" in create_offer(memory, session=name, scope="user:bob").tools.names

    async def scene(client: Any) -> None:
        await client.call_tool("save_memory", {"content": "Alice likes tea"})
        for name, query in (
            ("search_memory", "who likes coffee or tea"),
            ("search_conversation_history", "wasps"),
        ):
            assert "Bob" not in text_of(await client.call_tool(name, {"query": query}))
        listed = json.dumps([each.model_dump() for each in (await client.list_resources()).resources])
        assert "bob" not in listed.lower()

    play(memory, mode, scene, scope="user:alice")
    assert [each.content for each in memory.scoped("user:alice").list(limit=1)] == ["Alice likes tea"]
    assert {each.scope for each in memory.scoped("*").list()} == {"user:alice", "user:bob"}


# -- resources -------------------------------------------------------------------------------------------


def test_pages_and_logs_are_resources(memory: Memory, mode: str) -> None:
    async def scene(client: Any) -> None:
        names = [each.name for each in (await client.list_resources()).resources]
        assert names == ["MEMORY.md", "HISTORY.md", "page"]  # before anything is in them
        assert [await read(client, uri) for uri in ("memory://page", f"{PAGES}MEMORY.md")] == ["", ""]
        memory.pages.write("MEMORY.md", "# Who\n\nAlice, née Åse.\n")
        memory.pages.append("HISTORY.md", "[2026-02-07 10:00] We met.")
        memory.pages.append("2026-02-07.md", "[10:31] Lunch.")
        memory.pages.write("projects/atlas.md", "Atlas.\n")
        *listed, living = (await client.list_resources()).resources
        assert living.uri == "memory://page"
        names = {each.name for each in listed}
        assert names == {"MEMORY.md", "HISTORY.md", "2026-02-07.md", "projects/atlas.md"}
        for each in listed:
            assert (each.uri, each.mime_type) == (PAGES + each.name, "text/markdown")
        assert await read(client, f"{PAGES}projects/atlas.md") == "Atlas.\n"
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.name == "page"
        unknown = ("../reverie.db", "%2e%2e/reverie.db", "/etc/passwd", "other.md")
        for uri in (
            *(PAGES + name for name in unknown),
            "reverie://records/f",
            "file:///etc/passwd",
            "nonsense",
        ):
            error = await refused(client.read_resource(uri))
            assert error.code == (-32002 if mode == LEGACY else types.INVALID_PARAMS), uri

    play(memory, mode, scene)
