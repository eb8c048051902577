"""The endpoint `/mcp`: MCP over HTTP within the scope of each caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reverie.interfaces.http.operations import Problem, build_problem
from reverie.interfaces.http.server import LARGEST_BODY, HttpServer
from reverie.interfaces.http.tokens import Caller
from reverie.stores.telemetry import trace_request

if TYPE_CHECKING:
    from reverie.interfaces.mcp.server import MemoryServer

MOST_SERVERS = 64
"""Maximum MCP servers at once, one for each scope and whether it may write."""

PATH = "/mcp"
"""Path of the endpoint."""

IDLE_S = 30 * 60
"""Seconds without a request after which a connection with a handshake is closed."""


class ProtocolEndpoint:
    """ASGI application of the endpoint; imports the package `mcp` with the first request.

    Callers of one scope share a server, so that a session of one scope is unknown in another.
    """

    def __init__(self, server: HttpServer, *, host: str) -> None:
        """Serve a memory.

        Args:
            server: The server.
            host: Address that the server listens on.
        """
        self._server = server
        self._host = host
        self._lock = anyio.Lock()
        self._tasks: TaskGroup
        self._served: dict[tuple[str, bool], tuple[MemoryServer, ASGIApp]] = {}

    @asynccontextmanager
    async def run(self, app: Starlette) -> AsyncIterator[None]:
        """Run the servers of this application until it stops."""
        async with anyio.create_task_group() as self._tasks:
            end = self._tasks.cancel_scope.cancel  # ends the streams of all clients
            self._server.at_stop.append(end)
            yield
            self._server.at_stop.remove(end)
            end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        headers = Headers(scope=scope)
        with trace_request(self._server.memory.settings, scope["method"], PATH, headers) as span:

            async def send_traced(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.fail(str(message["status"]))
                await send(message)

            await self._serve(scope, headers, receive, send_traced)

    async def _serve(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        try:
            caller = await self._server.threads.run(lambda: self._server.authenticate(headers, right="read"))
            app = await self._open(caller)
        except Exception as error:  # noqa: BLE001 - the outermost handler of a request: it is logged and reported
            await build_problem(error).to_response()(scope, receive, send)
            return
        await app({**scope, "root_path": "", "path": PATH}, receive, send)

    async def _open(self, caller: Caller) -> ASGIApp:
        """Return the application for a caller, started if need be."""
        may_write = "write" in caller.rights and caller.origin in ("owner", "agent")
        key = (caller.scope, may_write)
        async with self._lock:
            if key not in self._served:
                if len(self._served) >= MOST_SERVERS:
                    raise Problem(
                        503, f"This server serves {MOST_SERVERS} scopes over MCP already. Start another one."
                    )
                server, app = await self._server.threads.run(lambda: self._create(*key))
                await self._tasks.start(self._run_server, server)
                self._served[key] = server, app
            return self._served[key][1]

    def _create(self, scope: str, may_write: bool) -> tuple[MemoryServer, ASGIApp]:
        from mcp.server.transport_security import TransportSecuritySettings

        from reverie.interfaces.mcp.server import MemoryServer, create_offer

        offer = create_offer(self._server.memory, scope=scope, read_only=not may_write)
        server = MemoryServer(offer, threads=self._server.threads)
        app = server.protocol.streamable_http_app(
            streamable_http_path=PATH,
            host=self._host,
            max_request_body_size=LARGEST_BODY,
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=False
            ),  # done by `RequestGuard`
        )
        server.protocol.session_manager.session_idle_timeout = IDLE_S  # 2.0 has no timeout by default
        return server, app

    @staticmethod
    async def _run_server(server: MemoryServer, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with server.protocol.session_manager.run():
            task_status.started()
            await anyio.sleep_forever()
