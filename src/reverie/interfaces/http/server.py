"""Server of one memory over HTTP: a request is checked here, and its operation runs on a thread."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, Generic, TypeVar

import anyio
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from reverie.admin.stats import compute_folder_size
from reverie.consolidation.gatherer import ACTOR
from reverie.consolidation.waiting_plans import PlanShelf
from reverie.domain.errors import ReverieError
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text.json_values import to_json_value
from reverie.domain.text.timestamps import format_time
from reverie.interfaces.http import problems
from reverie.interfaces.http.live_stats import LiveStats
from reverie.interfaces.http.metrics import Metrics
from reverie.interfaces.http.operations import Answer, Call, Operation, parse_number, to_answer
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.receipts import Receipts
from reverie.interfaces.http.tokens import Caller, Right, TokenRegistry
from reverie.interfaces.http.web import LARGEST_BODY
from reverie.interfaces.mcp.threads import CallThreads
from reverie.memory import Memory
from reverie.stores.protocol import Store
from reverie.stores.telemetry import trace_request

BODY_S = 30
"""Seconds within which the body of a request must arrive."""

WAIT_S = 2.0
"""Seconds that a request with `Reverie-After` waits for that change."""

_PROBE = "http.probe"
_T = TypeVar("_T")
_REQUEST_ID = defer_regex(r"[A-Za-z0-9._-]{1,128}")
_TRACE = defer_regex(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class _Recent(Generic[_T]):
    """Function whose result is kept for some seconds. Safe to use from several threads."""

    def __init__(self, compute: Callable[[], _T], *, seconds: float) -> None:
        self._compute = compute
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: tuple[float, _T] | None = None

    def __call__(self) -> _T:
        with self._lock:
            now = time.monotonic()
            if self._kept is None or now - self._kept[0] > self._seconds:
                self._kept = now, self._compute()
            return self._kept[1]


class HttpServer:
    """Server of one memory; `serve.build_application` makes what a web server runs.

    Attributes:
        memory: The open memory.
        store: Its store.
        tokens: Its tokens.
        metrics: Counters of requests.
        threads: Threads on which operations run.
        stats: Statistics of its scopes.
        plans: Plans that wait for a decision.
        streams: Number of open streams of changes.
        stopping: Whether the server is about to stop, so that streams end.
        at_stop: Functions that `stop` calls.
        acting: Returns everybody's scope with an author of changes.
        has_effect: Returns whether some of these transactions can be taken back, as of the change of that number. The
            answer to the same question is kept, because each view of the overview asks it.
        check_writable: Raises `StoreUnavailable` if nothing can be stored; tries it at most every ten seconds.
        folder_size: Returns the bytes of the memory's folder, as of the last minute: it has a file for each record.
    """

    def __init__(self, memory: Memory) -> None:
        """Serve a memory.

        Args:
            memory: The open memory; the caller keeps it open and closes it.
        """
        writer = memory._parts.writer
        self.memory = memory
        self.store: Store = writer.store
        self.tokens = TokenRegistry(writer)
        self.metrics = Metrics()
        self.threads = CallThreads()
        self.stats = LiveStats(writer.store)
        self.plans = PlanShelf(writer.acting(ACTOR))
        self.stopping = False
        self.at_stop: list[Callable[[], None]] = []
        self.streams = 0
        self._receipts = Receipts(writer)
        self._writer = writer
        self.acting = lru_cache(maxsize=1_000)(memory._acting)
        self.has_effect = lru_cache(maxsize=1)(self._has_effect)
        self.check_writable = _Recent(self._probe, seconds=10)
        self.folder_size = _Recent(lambda: compute_folder_size(memory.path), seconds=60)
        self._refreshing = threading.Lock()
        self._refreshes = 0

    def stop(self) -> None:
        """End all streams; the web server then waits for the requests that run."""
        self.stopping = True
        for end in self.at_stop:
            end()

    def _probe(self) -> None:
        self._writer.commit([], cursors={_PROBE: format_time(self._writer.clock())})

    def _has_effect(self, batches: tuple[int, ...], _sequence: int) -> bool:
        try:
            return any(self.memory.history.undo(batch=each, dry_run=True).differences for each in batches)
        except ReverieError:
            return True  # an undo of it is refused, and its view says why

    # -- requests ----------------------------------------------------------------------------------------

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Answer one request."""

        def show(request: Request, problem: Problem) -> Response:
            return problem.to_response(instance=request.url.path)

        return await self.respond(operation, request, self._do, show)

    async def respond(
        self,
        operation: Operation,
        request: Request,
        do: Callable[[Operation, Request], Awaitable[Response]],
        show: Callable[[Request, Problem], Response],
    ) -> Response:
        """Count, trace and answer one request.

        Args:
            operation: The operation that is requested.
            request: The request.
            do: Function that does the operation.
            show: Function that returns the answer to a failed request.
        """
        started = time.perf_counter()
        status = 499  # the client has left without an answer
        self.metrics.running += 1
        try:
            with trace_request(
                self.memory.settings, operation.method, operation.path, request.headers
            ) as span:
                try:
                    response = await do(operation, request)
                except ClientDisconnect:
                    response = Response(status_code=400)
                except Exception as error:  # noqa: BLE001 - the outermost handler of a request: it is logged and reported
                    response = show(request, problems.build_problem(error))
                status = response.status_code
                span.set("http.response.status_code", status)
                if status >= 500:
                    span.fail(str(status))
        finally:
            self.metrics.running -= 1
            self.metrics.record(operation.name, status, time.perf_counter() - started)
        response.headers["X-Request-ID"] = choose_request_id(request)
        return response

    async def _do(self, operation: Operation, request: Request) -> Response:
        if operation.body is not None:
            _require_json(request)
        body = await read_body(request) if operation.body is not None else b""
        if after := request.headers.get("reverie-after"):
            await self._wait_for(after)
        return await self.threads.run(partial(self._run, operation, request, body), lane=operation.lane)

    async def _wait_for(self, text: str) -> None:
        """Wait until this server has seen a change."""
        number = parse_number(text)
        if number is None:
            raise Problem(422, "Reverie-After is no number of a change. Send that of Reverie-Sequence.")
        with anyio.move_on_after(WAIT_S):
            while await self.threads.run(self.store.sequence) < number:
                await anyio.sleep(0.02)
            return
        raise Problem(
            503,
            f"This server has not seen change {text} yet. Try again, or leave out Reverie-After.",
            kind="not-yet-seen",
            headers={"Retry-After": "1"},
        )

    def _run(self, operation: Operation, request: Request, body: bytes) -> Response:
        """Do the operation of a request, on a thread."""
        caller = self.authenticate(request.headers, right=operation.right, is_whole=operation.is_whole)
        try:
            query = parse_query(operation.query, request.query_params.multi_items())
            value = None if operation.body is None else operation.body.model_validate_json(body, strict=True)
        except ValidationError as error:
            raise problems.build_field_problem(error) from None
        call = Call(
            server=self,
            caller=caller,
            method=request.method,
            path=request.path_params,
            query=query,
            headers=request.headers,
        )
        if operation.needs_match and "if-match" not in request.headers:
            raise Problem(428, "This changes a version: read it first, and send its ETag as If-Match.")
        if operation.right is not None:  # health says nothing of files
            self.refresh_files()

        def act() -> Answer:
            return to_answer(operation.perform(call, value))

        key = request.headers.get("idempotency-key")
        if key is None or operation.replay is None:
            answer = act()
        else:
            asked = f"{request.method} {request.url.path}?{request.url.query}"
            answer = self._receipts.run(call, key, asked, body, act, operation.replay)
        if request.method != "GET" and operation.right is not None:
            answer.headers["Reverie-Sequence"] = str(self.store.sequence())
        return _to_response(operation, answer)

    def refresh_files(self) -> None:
        """Import hand edits of the files; requests that wait for that share the import that begins next."""
        folder, begun = self.memory.folder, self._refreshes
        if folder is not None:
            with self._refreshing:
                if self._refreshes == begun:
                    self._refreshes += 1
                    folder.refresh()

    # -- callers -----------------------------------------------------------------------------------------

    def authenticate(
        self, headers: Mapping[str, str], *, right: Right | None, is_whole: bool = False
    ) -> Caller:
        """Return the sender of a request.

        Args:
            headers: Headers of the request by lower-case name.
            right: Right that the request needs; None if it needs no token.
            is_whole: Whether the request is about all scopes.

        Raises:
            Problem: the request has no valid token, or one without the right.
        """
        if right is None or not self.tokens.is_required():
            return Caller(label="http")
        text = _find_token(headers)
        caller = None if text is None else self.tokens.authenticate(text)
        if caller is None:
            what = "The token is not valid" if text else "A token is required"
            raise Problem(
                401,
                f"{what}. Send the header Authorization: Bearer TOKEN with one of `reverie token create`.",
                headers={"WWW-Authenticate": 'Bearer realm="reverie"'},
            )
        self.check_right(caller, right, is_whole=is_whole)
        return caller

    @staticmethod
    def check_right(caller: Caller, right: Right | None, *, is_whole: bool = False) -> None:
        """Raise `Problem` if a caller may not do this."""
        if right is not None and right not in caller.rights:
            raise Problem(
                403, f"This token lacks the right {right!r}. Use one that has it.", kind="right-missing"
            )
        if is_whole and caller.scope:
            raise Problem(
                403,
                "This is about all scopes, and the token is bound to one. Use one without.",
                kind="scope-bound",
            )


# -- parts of requests and answers -----------------------------------------------------------------------


def _require_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise Problem(415, f"The body is {kind[:80]!r}. Send JSON as application/json.")


async def read_body(request: Request) -> bytes:
    """Read the body of a request.

    Raises:
        Problem: it is too large, or does not arrive in time.
    """
    too_large = Problem(413, f"The body has more than {LARGEST_BODY:,} bytes. Send it in parts.")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > LARGEST_BODY:
        raise too_large
    body = bytearray()
    with anyio.move_on_after(BODY_S):
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_BODY:
                raise too_large
        return bytes(body)
    raise Problem(408, f"The body did not arrive within {BODY_S} seconds. Send it again.")


def parse_query(model: type[BaseModel], items: Iterable[tuple[str, str]]) -> BaseModel:
    """Return the parameters of a query as the operation's model."""
    values: dict[str, Any] = {}
    for name, value in items:
        if name in values:
            values[name] = [*(values[name] if isinstance(values[name], list) else [values[name]]), value]
        else:
            values[name] = [value] if _takes_list(model, name) else value
    return model.model_validate(values)


def _takes_list(model: type[BaseModel], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and "tuple[" in str(field.annotation)


def _find_token(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request sends, in one of the headers in use."""
    kind, _, text = headers.get("authorization", "").partition(" ")
    if kind.lower() in ("bearer", "token"):
        return text.strip()
    return headers.get("x-api-key")


def choose_request_id(request: Request) -> str:
    """Return the id that a request names, else a new one."""
    trace = _TRACE.fullmatch(request.headers.get("traceparent", ""))
    given = request.headers.get("x-request-id", "")
    if _REQUEST_ID.fullmatch(given):
        return given
    return trace[1] if trace else secrets.token_hex(8)


def _to_response(operation: Operation, answer: Answer) -> Response:
    if isinstance(answer.body, Response):
        response = answer.body
        response.headers.update(answer.headers)
        return response
    if answer.body is None:
        return Response(status_code=answer.status, headers=answer.headers)
    data = answer.body
    if not isinstance(data, bytes):
        data = json.dumps(data, ensure_ascii=False, allow_nan=False, default=to_json_value).encode()
    return Response(data, answer.status, headers=answer.headers, media_type=operation.media_type)
