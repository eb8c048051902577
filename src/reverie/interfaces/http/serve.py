"""Start and stop of the HTTP server: its socket, its connections, and what runs until a signal arrives."""

from __future__ import annotations

import ctypes
import logging
import platform
import socket
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio
from starlette.types import ASGIApp

from reverie.domain.errors import InvalidInput
from reverie.interfaces.formatting import handle_signals
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.server import HttpServer

if TYPE_CHECKING:
    pass


import asyncio
import contextlib
import json
import resource
from collections.abc import Iterator
from http import HTTPStatus

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from reverie.interfaces.http.application import build_application, is_loopback
from reverie.interfaces.http.problems import MEDIA_TYPE

_log = logging.getLogger("reverie.http")

SWITCH_S = 0.001
"""Seconds after which a computing thread lets another one run.

A save reads the database some twenty times, and after each read it waits for the thread that computes. With Python's
five milliseconds, one search makes a save take a tenth of a second, and further saves wait as well.
"""

HEAPS = 2
"""Heaps of the C library that all threads share. Glibc creates up to eight for each processor, and memory that a thread
frees stays in its heap: after 30,000 mixed requests, the server used 208 MB with those and 180 MB with two, at the same
speed."""

_M_ARENA_MAX = -8  # of glibc's malloc.h


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
    _limit_heaps()
    app = build_application(server, host=host, allowed=allowed, compatible=compatible)
    anyio.run(_run, server, sock, app, announce)


def _limit_heaps() -> None:
    """Make threads share `HEAPS` heaps if the C library is glibc; others have no heap for each thread."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS)


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
    steps: list[Callable[[], object]] = [memory.warm_up, partial(server.overview, memory)]
    if find_spec("jinja2") is not None:
        from reverie.interfaces.http.page.rendering import compile_templates

        steps += compile_templates()
    try:
        for step in steps:
            if not server.stopping:
                step()
    except Exception:  # noqa: BLE001 - the outermost handler: it is logged, and requests do without
        _log.exception("the server could not warm up, so the first requests take longer")


# -- socket and connections ------------------------------------------------------------------------------

MOST_CONNECTIONS = 1_000
"""Maximum open connections; further ones are answered with 503."""

HEADERS_S = 20.0
"""Seconds within which the headers of a request must arrive, after which its connection is closed."""

KEEP_ALIVE_S = 75
"""Seconds for which a connection is kept after an answer. Reverse proxies keep theirs up to 60; a request that they
send on one that the server is about to close fails."""

_REFUSED_S = 1.0


def _encode_problem(problem: Problem) -> bytes:
    """Return an answer of the connection itself, which it closes."""
    body = json.dumps(problem.to_dict())
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": len(body), "Connection": "close"}
    lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in (headers | problem.headers).items()]
    return "\r\n".join([*lines, "", body]).encode()


_TOO_MANY = _encode_problem(
    Problem(
        503,
        "Too many connections are open. Close some, and try again.",
        kind="too-many-connections",
        headers={"Retry-After": "5"},
    )
)
_NO_REQUEST = _encode_problem(
    Problem(
        400, "This is no valid request of HTTP/1.1. Correct it and send it again.", kind="invalid-request"
    )
)

STOPPING_S = 3
"""Seconds that running requests get when the server stops."""


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
    """Connection that is refused if there are too many, and closed if its headers take too long."""

    _timer: asyncio.TimerHandle | None = None
    _is_refused = False
    _has_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin a connection, as one to be refused if there are too many."""
        super().connection_made(transport)
        self._is_refused = len(self.connections) > MOST_CONNECTIONS
        self._wait(_REFUSED_S if self._is_refused else HEADERS_S)

    def data_received(self, data: bytes) -> None:
        """Take in bytes; a refused connection is answered once it has sent something, so that it can read it."""
        if self._is_refused:
            self._close()
            return
        super().data_received(data)
        if not self._is_waiting:
            self._stop_waiting()
        elif self._timer is None:
            self._wait(HEADERS_S)

    def eof_received(self) -> bool:
        """Keep the connection of a client that has sent a whole request, and then ended its side, for the answer."""
        self._has_ended = self.cycle is not None and not (self.cycle.more_body or self.cycle.response_started)
        return self._has_ended

    def on_response_complete(self) -> None:
        """Close the connection after the last answer, else wait for the next request."""
        super().on_response_complete()
        if self._has_ended:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request."""
        self.transport.write(_NO_REQUEST)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_waiting(self) -> bool:
        """Whether no request is running, so that headers are to come."""
        return self.cycle is None or self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._close)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if self._is_refused:
            self.transport.write(_TOO_MANY)
        if self._is_refused or self._is_waiting:
            self.transport.close()


def raise_file_limit() -> None:
    """Allow as many open files as that many connections need, if the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * MOST_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        enough = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


class _WebServer(uvicorn.Server):
    """Web server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def create_web_server(app: ASGIApp) -> uvicorn.Server:
    """Create a web server that runs until its `should_exit` is set, and writes only to the log."""
    raise_file_limit()
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOPPING_S,
        http=_Protocol,
        ws="none",
    )
    return _WebServer(config)
