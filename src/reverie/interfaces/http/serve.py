"""Start and stop of the HTTP server: it runs until a signal arrives."""

from __future__ import annotations

import ctypes
import logging
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from reverie.domain.errors import InvalidInput
from reverie.domain.filter import Filter
from reverie.domain.scope import EVERY_SCOPE
from reverie.interfaces.http import (
    administration,
    changes,
    conflicts,
    conversations,
    health,
    mem0,
    pages,
    problems,
    records,
    reviews,
)
from reverie.interfaces.http.operations import Call, Empty, Operation, OperationList
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.protocol import PATH, ProtocolEndpoint
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.http.web import RequestGuard, create_web_server, is_loopback, list_hosts
from reverie.interfaces.signals import handle_signals
from reverie.search.hits import SOURCES
from reverie.search.left_out import find_left_out
from reverie.search.request import SearchRequest

if TYPE_CHECKING:
    from reverie.interfaces.http.page.site import Site

_log = logging.getLogger("reverie.http")

OPERATIONS = OperationList()
"""All operations of the native API."""

OPERATIONS += (
    *health.OPERATIONS,
    *records.OPERATIONS,
    *conflicts.OPERATIONS,
    *conversations.OPERATIONS,
    *pages.OPERATIONS,
    *changes.OPERATIONS,
    *reviews.OPERATIONS,
    *administration.OPERATIONS,
)


@OPERATIONS.add("GET", "/openapi.json", None, query=Empty, answer=dict[str, Any])
def describe_api(call: Call) -> Any:
    """Return this description."""
    from reverie.interfaces.http.openapi import build_description  # here: few servers are asked for it

    return build_description(OPERATIONS)


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

COMPATIBLE = {"mem0": mem0.OPERATIONS}
"""Operations of other programs whose interface can be served."""


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
    wanted = SearchRequest(text="What was decided about tomorrow?", allowed=Filter(scopes=memory._scopes))
    steps: list[Callable[[], object]] = [
        lambda: server.stats.read(memory.scoped(EVERY_SCOPE)),
        lambda: server.stats.read(memory),
        lambda: find_left_out(
            memory._searcher, wanted, SOURCES, memory._searcher.search(wanted, SOURCES), most=1
        ),
        lambda: memory._index.alike(["none"], wanted.allowed, 1),
    ]
    if find_spec("jinja2") is not None:
        from reverie.interfaces.http.page.rendering import compile_templates

        steps += compile_templates()
    try:
        for step in steps:
            if not server.stopping:
                step()
    except Exception:  # noqa: BLE001 - the outermost handler: it is logged, and requests do without
        _log.exception("the server could not warm up, so the first requests take longer")


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
    endpoint = ProtocolEndpoint(server, host=host)
    methods: dict[str, dict[str, Operation]] = {}
    for each in (*OPERATIONS, *(each for name in compatible for each in COMPATIBLE[name])):
        methods.setdefault(each.path, {})[each.method] = each
    site = _open_site(server)

    async def answer_error(request: Request, error: Exception) -> Response:
        """Answer a request that no operation is for, or that met a bug."""
        problem = _describe_http_error(request, error)
        shown = None if site is None else site.answer_error(request, problem)
        return problem.to_response(instance=request.url.path) if shown is None else shown

    app = Starlette(
        routes=[
            *(_build_route(server, path, by_method) for path, by_method in methods.items()),
            Route(PATH, endpoint),
            *([Route("/", _explain_missing_page)] if site is None else site.build_routes()),
        ],
        exception_handlers={HTTPException: answer_error, Exception: answer_error},
        lifespan=endpoint.run,
    )
    app.router.redirect_slashes = False
    return RequestGuard(app, hosts=list_hosts(host, allowed))


def _build_route(server: HttpServer, path: str, by_method: Mapping[str, Operation]) -> Route:
    """Return the route of the operations of one path."""

    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await server.answer(by_method[method], request)

    return Route(path, endpoint, methods=list(by_method))


def _open_site(server: HttpServer) -> Site | None:
    """Return the page; None without its template engine."""
    if find_spec("jinja2") is None:
        return None
    from reverie.interfaces.http.page.site import Site

    return Site(server)


async def _explain_missing_page(request: Request) -> Response:
    what = "The page needs the package jinja2 on the server: pip install 'reverie[server]'."
    return Problem(501, what).to_response()


def _describe_http_error(request: Request, error: Exception) -> Problem:
    """Return the problem that an error of the web framework is."""
    if not isinstance(error, HTTPException):
        return problems.build_problem(error)
    what = {
        404: f"There is nothing at {request.url.path[:200]!r}. See /openapi.json for what there is.",
        405: f"{request.method} is not possible here. See /openapi.json for what is.",
    }
    detail = what.get(error.status_code, str(error.detail))
    status = error.status_code if error.status_code in problems.TITLES else 400
    return Problem(status, detail, headers=error.headers)
