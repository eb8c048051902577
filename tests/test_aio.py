"""The asynchronous API is the synchronous one, name for name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reverie import AsyncMemory, NotFound, StoreUnavailable


def test_an_agent_remembers_across_two_loops(tmp_path: Path) -> None:
    async def first() -> None:
        async with AsyncMemory.open(tmp_path) as memory:
            await memory.save("The staging database listens on port 5433")
            session = await memory.session("cli:1")
            tools = (await memory.tools(session="cli:1")).only("save_memory").prefixed("my_")
            saved = await tools.call("my_save_memory", {"content": "Ada prefers tea"})
            assert saved.text.startswith("Saved as ")
            await session.add("user", "Which port does staging use?")
            await session.working.set("draft", "port 5433")
            assert await session.working.get("draft") == "port 5433"

    async def second() -> list[str]:
        async with AsyncMemory.open(tmp_path) as memory:
            session = await memory.session("cli:1")
            pack = await session.context()
            assert "5433" in pack.text
            return [hit.content for hit in await memory.search("staging database port", sources="records")]

    asyncio.run(first())
    assert asyncio.run(second()) == ["The staging database listens on port 5433"]


def test_what_is_opened_is_awaited_or_entered(tmp_path: Path) -> None:
    async def run() -> None:
        memory = await AsyncMemory.open(tmp_path)
        await memory.save("The ferry leaves at nine")
        past = await memory.as_of(1)
        assert len(await past.list()) == 1
        await past.close()
        async with memory.as_of(1) as entered:
            assert len(await entered.list()) == 1
        await memory.close()
        async with AsyncMemory.open(tmp_path) as again:
            pass
        with pytest.raises(StoreUnavailable):
            await again.list()
        with pytest.raises(NotFound, match="create"):
            async with AsyncMemory.open(tmp_path / "nowhere", create=False):
                pass

    asyncio.run(run())
