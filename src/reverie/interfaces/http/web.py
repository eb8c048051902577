"""Parts of an HTTP server: who is let in, its socket, the web server itself.

The host and origin of a request are checked, so that no web page can reach a server on this machine (DNS
rebinding). A page of another port of this machine has an accepted host; what it sends to change something is
refused by `Sec-Fetch-Site`, which every browser sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import resource
import socket
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from reverie.domain.errors import InvalidInput
from reverie.interfaces.http.problems import MEDIA_TYPE, Problem

LARGEST_BODY = 4 * 1024 * 1024
"""Maximum bytes of a request."""

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

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_SAFE = ("GET", "HEAD", "OPTIONS")


class RequestGuard:
    """ASGI middleware that checks host and origin."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str]) -> None:
        """Wrap an application.

        Args:
            app: The application.
            hosts: Accepted host names, without ports.
        """
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        refusal = self._find_refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal.to_response()(scope, receive, send)

    def _find_refusal(self, scope: Scope) -> Problem | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        host = _parse_host(b"//" + headers.get(b"host", b""))
        if host not in self._hosts:
            return Problem(
                421, "This host name is not allowed. Start the server with --allow-host to allow it."
            )
        origin = headers.get(b"origin")
        if origin is not None and _parse_host(origin) not in self._hosts:
            return Problem(403, "This origin is not allowed. Start the server with --allow-host to allow it.")
        if scope["method"] not in _SAFE and headers.get(b"sec-fetch-site") in (b"same-site", b"cross-site"):
            return Problem(403, "This was sent by a page of another site. Send it from elsewhere.")
        return None


def _parse_host(address: bytes) -> str | None:
    """Return the host of an address without its port; None without one."""
    try:
        parts = urlsplit(address.decode("ascii"))
        parts.port  # noqa: B018 - raises ValueError for an invalid port
        return None if parts.hostname is None or "@" in parts.netloc else parts.hostname.lower()
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on that host."""
    address = _parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def list_hosts(host: str, allowed: Iterable[str] = ()) -> set[str]:
    """Return the host names that a server on that host accepts."""
    hosts = {host, *allowed}
    address = _parse_address(host)
    is_here = is_loopback(host) or (address is not None and address.is_unspecified)
    return hosts | {*_LOOPBACK_NAMES} if is_here else hosts


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a host as an address; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


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
