"""Client of a memory over the Model Context Protocol: starts the server, saves, searches and shares a folder.

Runs as it stands; the server is a process of this machine. Any client does the same: `reverie connect`
writes its settings.

    pip install 'reverie[mcp]'
    python examples/mcp_client.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile

from mcp import Client, StdioServerParameters
from mcp.client import Transport
from mcp.client.stdio import stdio_client

PAGE = "reverie://memory/MEMORY.md"


def server(folder: str) -> Transport:
    """Return the transport that starts the server for a client, like `reverie mcp --store FOLDER` in a terminal."""
    program = "from reverie.interfaces.cli.main import main; main()"
    args = ["-c", program, "mcp", "--store", folder]
    return stdio_client(StdioServerParameters(command=sys.executable, args=args))


async def use(folder: str) -> None:
    """Call tools in one connection."""
    async with Client(server(folder)) as client:
        tools = (await client.list_tools()).tools
        print(f"{len(tools)} tools, such as {tools[0].name}")

        saved = await client.call_tool(
            "save_memory", {"content": "Deploys go out on Tuesdays", "category": "project-context/deploy"}
        )
        print(saved.content[0].text.split(" as ")[0])
        found = await client.call_tool("search_memory", {"query": "when do we deploy?"})
        print(found.content[0].text.splitlines()[0])


async def share(folder: str) -> None:
    """Find with one server the record that another one saved; any number of servers may use one folder."""
    async with Client(server(folder)) as one, Client(server(folder)) as other:
        await other.call_tool("save_memory", {"content": "The office is in Bergen"})
        found = await one.call_tool("search_memory", {"query": "where is the office?"})
        print(found.content[0].text.splitlines()[0])
        listed = await one.list_resources()
        print(f"{len(listed.resources)} resources, such as {PAGE}")


def main() -> None:
    """Run both parts over a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(use(folder))
        asyncio.run(share(folder))


if __name__ == "__main__":
    main()
