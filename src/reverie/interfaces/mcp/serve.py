"""Start and stop of a server: it runs on a transport until its input ends or a signal arrives."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import anyio

from reverie.interfaces.mcp.handshake import EarlyHandshake
from reverie.interfaces.mcp.offer import ServedMemory
from reverie.interfaces.mcp.server import MemoryServer
from reverie.interfaces.signals import handle_signals


def serve_stdio(offer: ServedMemory, handshake: EarlyHandshake | None = None) -> None:
    """Serve on standard input and output until the input ends, or SIGINT or SIGTERM arrives.

    Args:
        offer: The served memory.
        handshake: What has begun to read the input; None for nothing.
    """
    anyio.run(_run_stdio, offer, handshake)


async def _run_stdio(offer: ServedMemory, handshake: EarlyHandshake | None) -> None:
    from reverie.interfaces.mcp import stdio

    server = MemoryServer(offer)
    async with (
        _cancel_on_signals(),
        stdio.open_streams(handshake=handshake) as (read, write),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(server.changes.run)
        await server.protocol.run(read, write, server.protocol.create_initialization_options())
        tasks.cancel_scope.cancel()
    server.threads.drain()


@contextlib.asynccontextmanager
async def _cancel_on_signals() -> AsyncIterator[None]:
    """Cancel the block when a signal arrives."""
    with anyio.CancelScope() as scope, handle_signals(scope.cancel):
        yield
