"""Start and stop of the HTTP server: its socket, its connections, and what runs until a signal arrives."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import platform
import resource
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import anyio
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from reverie.domain.errors import InvalidInput
from reverie.interfaces.formatting import handle_signals
from reverie.interfaces.http.application import build_application, is_loopback
from reverie.interfaces.http.page.rendering import compile_templates
from reverie.interfaces.http.server import HttpServer

SWITCH_S = 0.001
"""Seconds after which a computing thread lets another one run.

A save reads the database some twenty times, and after each read it waits for the thread that computes. With Python's
five milliseconds, one search makes a save take a tenth of a second, and further saves wait as well.
"""

HEAPS = 2
"""Heaps of the C library that all threads share. Glibc creates up to eight for each processor, and memory that a thread
frees stays in its heap: after 30,000 mixed requests, the server used 208 MB with those and 180 MB with two, at the same
speed."""

MOST_CONNECTIONS = 1_000
"""Open connections from which on requests are answered with 503."""

HEADERS_S = 20.0
"""Seconds within which the headers of a request must arrive, after which its connection is closed."""

KEEP_ALIVE_S = 75
"""Seconds for which a connection is kept after an answer. Reverse proxies keep theirs up to 60; a request that they
send on one that the server is about to close fails."""

STOPPING_S = 3
"""Seconds that running requests get when the server stops."""

_M_ARENA_MAX = -8  # of glibc's malloc.h
_log = logging.getLogger("reverie.http")


def validate_host(host: str, server: HttpServer) -> None:
    """Raise `InvalidInput` if other machines can reach the host, and no token was ever created."""
    if not is_loopback(host) and not server.tokens.is_required():
        raise InvalidInput(
            f"host is {host!r}, which other machines can reach: create a token first, with "
            "`reverie token create`, or leave --host out"
        )


def serve(
    server: HttpServer,
    sock: socket.socket,
    *,
    host: str,
    allowed: Iterable[str] = (),
    compatible: Iterable[str] = (),
    announce: Callable[[], None],
) -> None:
    """Serve a memory over HTTP until SIGINT or SIGTERM arrives.

    Args:
        server: The server.
        sock: A listening socket.
        host: Name that the socket was bound to.
        allowed: Additional accepted host names.
        compatible: Programs whose interface is served too, of `COMPATIBLE`.
        announce: Function to call once signals are handled, before the first request is served.
    """
    sys.setswitchinterval(SWITCH_S)
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS)
    app = build_application(server, host=host, allowed=allowed, compatible=compatible)
    anyio.run(_run, server, sock, app, announce)


async def _run(server: HttpServer, sock: socket.socket, app: ASGIApp, announce: Callable[[], None]) -> None:
    web = create_web_server(app)

    def stop() -> None:
        server.stop()
        web.should_exit = True

    with handle_signals(stop):
        announce()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.threads.run, partial(warm_up, server))
            await web.serve([sock])
            tasks.cancel_scope.cancel()
    server.threads.drain()


def warm_up(server: HttpServer) -> None:
    """Read, count and compile what the first requests need, on a thread while they are served."""
    memory = server.memory
    try:
        steps: list[Callable[[], object]] = [memory.warm_up, partial(server.overview, memory)]
        for step in (*steps, *compile_templates()):
            if not server.stopping:
                step()
    except Exception:  # noqa: BLE001 - the outermost handler: it is logged, and requests do without
        _log.exception("the server could not warm up, so the first requests take longer")


# -- socket and connections ------------------------------------------------------------------------------


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Raises:
        InvalidInput: the address is in use, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0].lower()
        raise InvalidInput(
            f"no server can listen on port {port} of {host!r} ({why}): choose another --port or --host"
        ) from None
    # Accepted connections inherit this. Without it the end of each answer waits 40 ms for the client's
    # acknowledgement; asyncio sets it only if the protocol number of the socket is known.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def format_address(sock: socket.socket, path: str) -> str:
    """Return the URL of a path of a server on this socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"


class _Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """Connection that is closed if the headers of a request take too long; uvicorn has no limit for that."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin a connection."""
        super().connection_made(transport)
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        """Take in bytes."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._timer is None:
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        self._timer = self.loop.call_later(HEADERS_S, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _WebServer(uvicorn.Server):
    """Web server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def create_web_server(app: ASGIApp) -> uvicorn.Server:
    """Create a web server that runs until its `should_exit` is set, and writes only to the log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MOST_CONNECTIONS
    needed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOPPING_S,
        limit_concurrency=MOST_CONNECTIONS,
        http=_Protocol,
        ws="none",
    )
    return _WebServer(config)
