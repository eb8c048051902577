"""Streamable HTTP transport on one port; on loopback unless a token is given.

Access is checked before the protocol sees a request. The host and origin of a request are checked, so that no
web page can reach a server on this machine (DNS rebinding). A server that other machines can reach requires a
bearer token. One server serves one scope.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import socket
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from reverie.domain.errors import InvalidInput
from reverie.interfaces.mcp.server import MemoryServer

PATH = "/mcp"
"""Path of the endpoint."""

SHORTEST_TOKEN = 16
"""Minimum characters of a token."""

LARGEST_BODY = 4 * 1024 * 1024
"""Maximum bytes of a request."""

IDLE_S = 30 * 60
"""Seconds without a request after which a connection with a handshake is closed."""

STOPPING_S = 3
"""Seconds that running requests get when the server stops."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_log = logging.getLogger("reverie.mcp")


class RequestGuard:
    """ASGI middleware that checks host, origin and token."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], token: str | None) -> None:
        """Wrap an application.

        Args:
            app: The application.
            hosts: Accepted host names, without ports.
            token: Required bearer token; None for none.
        """
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        refusal = self._build_refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refusal(scope, receive, send)

    def _build_refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        host = _parse_host(b"//" + headers.get(b"host", b""))
        if host not in self._hosts:
            return PlainTextResponse(
                "This host name is not allowed. Start the server with --allow-host to allow it.\n", 421
            )
        origin = headers.get(b"origin")
        if origin is not None and _parse_host(origin) not in self._hosts:
            return PlainTextResponse(
                "This origin is not allowed. Start the server with --allow-host to allow it.\n",
                403,
            )
        if self._token is None:
            return None
        kind, _, sent_token = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"bearer" and hmac.compare_digest(sent_token.strip(), self._token):
            return None
        return PlainTextResponse(
            "A token is required: send the header Authorization: Bearer TOKEN.\n",
            401,
            headers={"WWW-Authenticate": 'Bearer realm="reverie"'},
        )


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
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def validate_token(token: str | None, *, host: str) -> str | None:
    """Return the token if a server may listen on that host with it.

    Raises:
        InvalidInput: the token is invalid, or missing for a server that other machines can reach.
    """
    if token is None:
        if not is_loopback(host):
            raise InvalidInput(
                f"host is {host!r}, which other machines can reach: give the server a token, with "
                "--token-file or REVERIE_MCP_TOKEN, or leave --host out"
            )
        return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"the token is invalid: use {SHORTEST_TOKEN} or more ASCII characters without "
            "blanks, for example from `openssl rand -hex 32`"
        )
    return token


def create_application(
    server: MemoryServer, *, host: str, token: str | None, allowed: Iterable[str] = ()
) -> ASGIApp:
    """Create the ASGI application that serves the protocol at `PATH`.

    Args:
        server: The server.
        host: Address it listens on.
        token: Required bearer token; None for none.
        allowed: Additional accepted host names.
    """
    hosts = {host, *allowed}
    if is_loopback(host) or _is_everywhere(host):
        hosts |= {*_LOOPBACK_NAMES}
    app = server.protocol.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_request_body_size=LARGEST_BODY,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),  # done by `RequestGuard`
    )
    server.protocol.session_manager.session_idle_timeout = IDLE_S  # 2.0 has no timeout by default
    return RequestGuard(app, hosts=hosts, token=token)


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server((host, port), family=family, backlog=128)
    # Accepted connections inherit this. Without it the end of each answer waits 40 ms for the client's
    # acknowledgement; asyncio sets it only if the protocol number of the socket is known.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def format_address(sock: socket.socket) -> str:
    """Return the URL of a server on this socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}{PATH}" if ":" in host else f"http://{host}:{port}{PATH}"


class _WebServer(uvicorn.Server):
    """Web server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def create_web_server(app: ASGIApp) -> uvicorn.Server:
    """Create a web server that runs until its `should_exit` is set, and writes only to the log."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=STOPPING_S,
    )
    return _WebServer(config)
