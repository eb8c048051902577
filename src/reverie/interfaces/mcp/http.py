"""Streamable HTTP transport on one port; on loopback unless a token is given.

Access is checked before the protocol sees a request. The host and origin of a request are checked, so that no
web page can reach a server on this machine (DNS rebinding). A server that other machines can reach requires a
bearer token. One server serves one scope.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from reverie.domain.errors import InvalidInput
from reverie.interfaces.mcp.server import MemoryServer
from reverie.interfaces.web import LARGEST_BODY, RequestGuard, is_loopback, list_hosts

PATH = "/mcp"
"""Path of the endpoint."""

SHORTEST_TOKEN = 16
"""Minimum characters of a token."""

IDLE_S = 30 * 60
"""Seconds without a request after which a connection with a handshake is closed."""


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
    return RequestGuard(
        create_protocol_application(server, host=host), hosts=list_hosts(host, allowed), token=token
    )


def create_protocol_application(server: MemoryServer, *, host: str) -> ASGIApp:
    """Create the ASGI application that serves the protocol at `PATH`, and lets everybody in."""
    app = server.protocol.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        max_request_body_size=LARGEST_BODY,
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),  # done by `RequestGuard`
    )
    server.protocol.session_manager.session_idle_timeout = IDLE_S  # 2.0 has no timeout by default
    return app
