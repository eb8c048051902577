"""Start and stop of a server: it runs on a transport until its input ends or a signal arrives."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterable

import anyio

from reverie.interfaces.mcp.handshake import EarlyHandshake
from reverie.interfaces.mcp.offer import ServedMemory
from reverie.interfaces.mcp.server import MemoryServer
from reverie.interfaces.signals import handle_signals

LAST_CALLS_S = 10.0
"""Seconds to wait for running calls before the memory is closed."""

_log = logging.getLogger("reverie.mcp")


def serve_stdio(offer: ServedMemory, handshake: EarlyHandshake | None = None) -> None:
    """Serve on standard input and output until the input ends, or SIGINT or SIGTERM arrives.

    Args:
        offer: The served memory.
        handshake: What has begun to read the input; None for nothing.
    """
    anyio.run(_run_stdio, offer, handshake)


def serve_http(
    offer: ServedMemory, sock: socket.socket, *, host: str, token: str | None, allowed: Iterable[str] = ()
) -> None:
    """Serve over HTTP until SIGINT or SIGTERM arrives.

    Args:
        offer: The served memory.
        sock: A listening socket.
        host: Name that the socket was bound to.
        token: Required bearer token; None for none.
        allowed: Additional accepted host names.
    """
    anyio.run(_run_http, offer, sock, host, token, tuple(allowed))


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
    _drain(server)


async def _run_http(
    offer: ServedMemory, sock: socket.socket, host: str, token: str | None, allowed: tuple[str, ...]
) -> None:
    from reverie.interfaces.mcp import http
    from reverie.interfaces.web import create_web_server

    server = MemoryServer(offer)
    app = http.create_application(server, host=host, token=token, allowed=allowed)
    web = create_web_server(app)

    def stop() -> None:
        server.changes.close()
        web.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.changes.run)
        with handle_signals(stop):
            await web.serve([sock])
        tasks.cancel_scope.cancel()
    _drain(server)


def _drain(server: MemoryServer) -> None:
    if not server.threads.drain(LAST_CALLS_S):
        _log.warning("some calls were still running when the server stopped")


@contextlib.asynccontextmanager
async def _cancel_on_signals() -> AsyncIterator[None]:
    """Cancel the block when a signal arrives."""
    with anyio.CancelScope() as scope, handle_signals(scope.cancel):
        yield
