"""The application that a web server runs: FastAPI's routes of all operations, the page, MCP, `/docs`.

The host and origin of a request are checked, so that no web page can reach a server on this machine (DNS rebinding). A
page of another port of this machine has an accepted host; what it sends to change something is refused by
`Sec-Fetch-Site`, which every browser sends. Where every request needs a token, any host name is accepted: a web page
has no token, and probes of an orchestrator ask by an address.
"""

from __future__ import annotations

import inspect
import ipaddress
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup
from fastapi import Body, FastAPI, Path, Query
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reverie import __version__
from reverie.domain.lazy_regex import defer_regex
from reverie.interfaces.http import administration, conversations, mem0, records
from reverie.interfaces.http.operations import MEDIA_TYPE, Operation, Problem, build_problem
from reverie.interfaces.http.page.rendering import HEADERS
from reverie.interfaces.http.page.site import Site
from reverie.interfaces.http.server import LARGEST_BODY, HttpServer
from reverie.interfaces.http.tokens import Caller
from reverie.stores.telemetry import trace_request

if TYPE_CHECKING:
    from reverie.interfaces.mcp.server import MemoryServer

OPERATIONS: tuple[Operation, ...] = (
    *records.OPERATIONS,
    *conversations.OPERATIONS,
    *administration.OPERATIONS,
)
"""All operations of the native API."""

COMPATIBLE = {"mem0": mem0.OPERATIONS}
"""Operations of other programs whose interface can be served."""

MOST_SERVERS = 64
"""Maximum MCP servers at once, one for each scope and whether it may write."""

MCP_PATH = "/mcp"
"""Path of the endpoint."""

IDLE_S = 30 * 60
"""Seconds without a request after which a connection with a handshake is closed."""

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_SAFE = ("GET", "HEAD", "OPTIONS")
_NAME = Annotated[str, Path(json_schema_extra={"minLength": 1})]
_PARAMETER = defer_regex(r"\{(\w+)(:\w+)?\}")
_REQUEST_ID = defer_regex(r"[A-Za-z0-9._-]{1,128}")
_access_log = logging.getLogger("reverie.http.access")


def build_application(
    server: HttpServer, *, host: str, allowed: Iterable[str] = (), compatible: Iterable[str] = ()
) -> ASGIApp:
    """Build the ASGI application with everything that `reverie serve` offers.

    Args:
        server: The server.
        host: Address it listens on.
        allowed: Additional accepted host names.
        compatible: Programs whose interface is served too, of `COMPATIBLE`.
    """
    endpoint = _ProtocolEndpoint(server, host=host)
    app = build_api(server, compatible=compatible, lifespan=endpoint.run)
    site = Site(server)
    app.router.routes += [*_build_documentation_routes(), Route(MCP_PATH, endpoint), *site.build_routes()]

    async def answer_error(request: Request, error: Exception) -> Response:
        """Answer a request that no operation is for, or that met a bug."""
        problem = _describe_http_error(request, error)
        return site.answer_error(request, problem) or _show_problem(request, problem)

    for kind in (HTTPException, Exception):
        app.add_exception_handler(kind, answer_error)
    return _Gate(app, server, hosts=list_hosts(host, allowed))


def build_api(
    server: HttpServer,
    *,
    compatible: Iterable[str] = (),
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
) -> FastAPI:
    """Build the FastAPI application of the operations alone.

    Args:
        server: The server.
        compatible: Programs whose interface is served too, of `COMPATIBLE`.
        lifespan: What runs beside it.
    """
    app = FastAPI(
        title="Reverie",
        version=__version__,
        description="Memory for AI agents: records, conversations, search, and every change undoable.",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/"}],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry={
            "tracing": False,
            "metrics": False,
        },  # `HttpServer.respond` has spans, if settings want them
    )
    app.state.server = server
    app.router.routes += _build_operation_routes(tuple(compatible))
    return app


@cache
def _build_operation_routes(compatible: tuple[str, ...]) -> list[APIRoute]:
    """Return the routes of all operations. They are the same for every server, and take a tenth of a second."""
    others = [each for name in compatible for each in COMPATIBLE[name]]
    return [_OperationRoute(each) for each in (*OPERATIONS, *others)]


def _describe_http_error(request: Request, error: Exception) -> Problem:
    """Return the problem that an error of the web framework is."""
    if not isinstance(error, HTTPException):
        return build_problem(error)
    detail = str(error.detail)
    if error.status_code in (404, 405):
        detail = f"There is nothing at {request.url.path[:200]!r} for {request.method}. See /openapi.json."
    return Problem(error.status_code, detail, headers=error.headers)


def _show_problem(request: Request, problem: Problem) -> Response:
    return problem.to_response(instance=request.url.path)


# -- MCP over HTTP ---------------------------------------------------------------------------------------


class _ProtocolEndpoint:
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
    async def run(self, app: FastAPI) -> AsyncIterator[None]:
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
        with trace_request(self._server.memory.settings, scope["method"], MCP_PATH, headers) as span:

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
        await app({**scope, "root_path": "", "path": MCP_PATH}, receive, send)

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
            streamable_http_path=MCP_PATH,
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


# -- the description of the API ----------------------------------------------------------------------------


ERROR: dict[str, Any] = {
    "description": "An error (RFC 9457): `type`, `title`, `status`, and `detail`, which says what to do.",
    "content": {MEDIA_TYPE: {"schema": {"type": "object"}}},
}
"""Description of the answer to a request that fails."""

_ASSETS = ("swagger-ui.css", "swagger-ui-bundle.js")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Reverie API</title>
<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="swagger-ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script><script src="/docs/start.js"></script></body></html>
"""
_START = 'SwaggerUIBundle({url: "/openapi.json", dom_id: "#swagger-ui", validatorUrl: null, docExpansion: "none"});'


def _build_documentation_routes() -> list[BaseRoute]:
    """Return the routes `/openapi.json` and `/docs` of an application."""

    async def describe(request: Request) -> Response:
        return JSONResponse(describe_api(request.app))

    async def show_page(request: Request) -> Response:
        return HTMLResponse(_PAGE, headers=HEADERS)

    return [Route("/openapi.json", describe), Route("/docs", show_page), Route("/docs/{name}", _serve_asset)]


def describe_api(app: FastAPI) -> dict[str, Any]:
    """Return the description of an application."""
    if app.openapi_schema is None:
        description = app.openapi()
        description["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        description["security"] = [{"bearer": []}, {}]
    return app.openapi()


async def _serve_asset(request: Request) -> Response:
    """Answer with a file of Swagger UI, or the script that starts it."""
    name = request.path_params["name"]
    if name == "start.js":
        return Response(_START, media_type="text/javascript", headers=HEADERS)
    if name not in _ASSETS:
        return Problem(404, "There is no such file.").to_response()
    from swagger_ui_bundle import swagger_ui_path  # here: few servers are asked for it

    return FileResponse(FilePath(swagger_ui_path) / name, headers={**HEADERS, "Cache-Control": "no-cache"})


# -- routes of operations --------------------------------------------------------------------------------


class _OperationRoute(APIRoute):
    """Route of one operation. FastAPI describes it; `HttpServer` reads and answers its requests."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        kind = operation.media_type.partition(";")[0]
        is_json = kind == "application/json"
        responses: dict[int | str, dict[str, Any]] = {"default": ERROR}
        responses |= {status: {"model": operation.answer} for status in operation.statuses[1:]}
        summary, _, description = (inspect.getdoc(operation.run) or "").partition("\n")
        super().__init__(
            operation.path,
            _build_signature(operation),
            methods=[operation.method],
            name=operation.name,
            operation_id=operation.name,
            summary=summary,
            description=description.strip(),
            tags=[operation.group],
            response_model=operation.answer if is_json else None,
            response_description="Done.",
            response_class=JSONResponse
            if is_json
            else type("OtherAnswer", (Response,), {"media_type": kind}),
            status_code=operation.statuses[0],
            responses=responses,
            openapi_extra=_describe(operation),
            include_in_schema=bool(operation.group),
        )

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""

        async def answer(request: Request) -> Response:
            server: HttpServer = request.app.state.server
            do = partial(server.do, self._operation)
            return await server.respond(self._operation, request, do, _show_problem)

        return answer


def _build_signature(operation: Operation) -> Callable[..., None]:
    """Return a function from whose signature FastAPI knows what an operation takes."""
    taken: dict[str, Any] = {
        name: Annotated[int, Path()] if kind == ":number" else _NAME
        for name, kind in _PARAMETER.findall(operation.path)
    }
    taken["query"] = Annotated[operation.query, Query()]
    if operation.body is not None:
        kind = "application/merge-patch+json" if operation.method == "PATCH" else "application/json"
        taken["value"] = Annotated[operation.body, Body(media_type=kind)]

    def describe(**_: Any) -> None: ...

    describe.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=each)
            for name, each in taken.items()
        ]
    )
    return describe


def _describe(operation: Operation) -> dict[str, Any]:
    """Return what FastAPI cannot know of an operation for its description."""
    headers = []
    if operation.needs_match or operation.name == "write_page":
        headers.append(("If-Match", operation.needs_match, "ETag of the version that was read."))
    if operation.replay is not None:
        headers.append(("Idempotency-Key", False, "Name of the request, so that it is not done twice."))
    fixed = {"in": "header", "schema": {"type": "string"}}
    parameters = [
        {"name": name, "required": is_needed, "description": text, **fixed}
        for name, is_needed, text in headers
    ]
    right: dict[str, Any] = {"security": []} if operation.right is None else {"x-right": operation.right}
    return {"parameters": parameters, **right}


# -- who is let in, and what is noted of each request -----------------------------------------------------


class _Gate:
    """ASGI middleware that refuses, names, counts and logs requests; of what they say it notes nothing."""

    def __init__(self, app: ASGIApp, server: HttpServer, *, hosts: Iterable[str]) -> None:
        """Wrap an application; `hosts` are the accepted host names, without ports."""
        self._app = app
        self._metrics = server.metrics
        self._tokens = server.tokens
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. `HEAD` is answered as `GET`: the web server leaves out the body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, refusal = scope["method"], self._find_refusal(scope)
        inner = {**scope, "method": "GET" if method == "HEAD" else method}
        name, started, status, size = choose_request_id(Headers(scope=scope)), time.perf_counter(), 499, 0

        async def observe(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = name
            size += len(message.get("body", b""))
            await send(message)

        with self._metrics.running.track_inprogress():
            try:
                await (self._app if refusal is None else refusal.to_response())(inner, receive, observe)
            finally:
                seconds = time.perf_counter() - started
                operation: Operation | None = inner.get("operation")
                if operation is not None:
                    self._metrics.requests.labels(operation.name, status).inc()
                    self._metrics.seconds.labels(operation.name).observe(seconds)
                path = "-" if operation is None else operation.path
                values = method, path, status, seconds * 1_000, size, name
                _access_log.info("%s %s %d %.1f ms %d bytes %s", *values)

    def _find_refusal(self, scope: Scope) -> Problem | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        if b"content-length" in headers and b"transfer-encoding" in headers:
            what = "A request has Content-Length or Transfer-Encoding, not both. Send one of them."
            return Problem(400, what, kind="invalid-request", headers={"Connection": "close"})
        host, origin = _parse_host(b"//" + headers.get(b"host", b"")), headers.get(b"origin")
        if host is None or (host not in self._hosts and not self._tokens.is_required()):
            return Problem(
                421, "This host name is not allowed. Start the server with --allow-host to allow it."
            )
        if origin is not None and _parse_host(origin) not in self._hosts:
            return Problem(403, "This origin is not allowed. Start the server with --allow-host to allow it.")
        if scope["method"] not in _SAFE and headers.get(b"sec-fetch-site") in (b"same-site", b"cross-site"):
            return Problem(403, "This was sent by a page of another site. Send it from elsewhere.")
        return None


def choose_request_id(headers: Mapping[str, str]) -> str:
    """Return the id that a request names, else a new one."""
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


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
