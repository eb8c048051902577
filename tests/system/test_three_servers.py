"""Three MCP servers on one folder: each finds what the others have saved."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client

from reverie import Memory
from tests.interfaces.mcp.peers import LEGACY, played, started


def test_three_servers_on_one_folder_share_one_memory(tmp_path: Path) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as ending:
            clients = [
                await ending.enter_async_context(Client(started(tmp_path / "memory"), mode=LEGACY))
                for _ in range(3)
            ]
            for number, client in enumerate(clients):
                await client.call_tool("save_memory", {"content": f"Tea number {number} is green"})
            for client in clients:
                found = await client.call_tool("search_memory", {"query": "green tea"})
                assert all(f"Tea number {number}" in found.content[0].text for number in range(3))

    played(scene)
    with Memory.open(tmp_path / "memory") as memory:
        assert len(memory.list()) == 3
        assert memory.admin.check() == []
