"""Server of one memory over HTTP: who asks and what they may do, and doing an operation on a thread."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from reverie.admin.stats import compute_folder_size
from reverie.domain.errors import ReverieError
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.json_values import to_json_value
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.interfaces.http.administration import VisibleChanges
from reverie.interfaces.http.operations import (
    Call,
    Operation,
    OperationAnswer,
    Problem,
    build_problem,
    is_listed,
    parse_body,
    parse_query,
    require_json,
)
from reverie.interfaces.http.tokens import Caller, Right, TokenRegistry
from reverie.interfaces.mcp.threads import CallThreads
from reverie.memory import Memory
from reverie.repositories.subjects import FilterCounts, Subject
from reverie.scoped import ScopedMemory
from reverie.stores.telemetry import trace_request

LARGEST_BODY = 4 * 1024 * 1024
"""Maximum bytes of a request."""

BODY_S = 30
"""Seconds within which the body of a request must arrive."""

LARGE = 500
"""Live records from which an overview may be a moment old."""

REFRESH_S = 10.0
"""Seconds between two overviews of large scopes."""

KEPT = timedelta(hours=24)
"""Time for which a request is remembered."""

LONGEST_KEY = 255

_KEY = "http.key."
_PRUNED_EVERY = 100
_MOST_OVERVIEWS = 100
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PROBE = "http.probe"
_PROBE_S = 10
_FOLDER_SIZE_S = 60
_log = logging.getLogger("reverie.http")


class Overview(NamedTuple):
    """Counts of a scope and its living page.

    Attributes:
        counts: Number of records that each filter finds.
        subjects: Names and categories.
        page: The living page.
        scopes: Number of live records of each scope of the memory.
    """

    counts: FilterCounts
    subjects: Sequence[Subject]
    page: str
    scopes: Mapping[str, int]


class RepeatedRequests:
    """Requests with an `Idempotency-Key`, so that a repeated one is not done twice. Safe to use from several threads.

    A cursor of the store says what was done. The transaction that does it sets it, so that not even a killed server
    leaves one without the other. It holds ids and numbers, never content; the answer is made again from these. Such
    requests wait for each other, as their transactions do.
    """

    def __init__(self, memory: Memory) -> None:
        self._cursors = memory.admin.cursors
        self._now = memory.now
        self._lock = threading.Lock()
        self._made = 0

    def run(
        self,
        call: Call,
        key: str,
        request: bytes,
        act: Callable[[], OperationAnswer[Any]],
        replay: Callable[[Call, Any], OperationAnswer[Any]],
    ) -> OperationAnswer[Any]:
        """Do a request, or return the answer to the same request again.

        Args:
            call: The request.
            key: Its key.
            request: Its method, path and body.
            act: Function that does the request.
            replay: Function that makes the answer again from its reference.

        Raises:
            Problem: the key was used for something else, or the server stopped before it could answer.
        """
        if not key or len(key) > LONGEST_KEY:
            raise Problem(422, f"Idempotency-Key has {len(key)} characters. Send 1 to {LONGEST_KEY}.")
        name, asked = _KEY + _hash(f"{call.caller.token}\n{key}".encode()), _hash(request)
        with self._lock:
            known = json.loads(self._cursors.get(name) or "null")
            if known is None or self._is_old(known):
                done = {"at": format_time(self._now()), "asked": asked}
                with self._cursors.setting({name: json.dumps(done)}):
                    answer = act()
                reference = {"status": answer.status, "reference": answer.reference}
                self._cursors.set({name: json.dumps(done | reference)})
                self._prune_sometimes()
                return answer
        if known["asked"] != asked:
            what = "This Idempotency-Key was used for another request. Send each request with its own key."
            raise Problem(422, what, kind="key-reused")
        if "status" not in known:
            what = "The change was made, and the server stopped before it could answer. Read the result."
            raise Problem(409, f"{what} Do not send it again.", kind="already-done")
        answer = replay(call, known["reference"])
        answer.status = known["status"]
        answer.headers["Idempotent-Replayed"] = "true"
        return answer

    def _prune_sometimes(self) -> None:
        """Forget old requests, once in many requests."""
        self._made += 1
        if self._made % _PRUNED_EVERY == 1:
            kept = self._cursors.list(_KEY).items()
            self._cursors.set({name: None for name, text in kept if self._is_old(json.loads(text))})

    def _is_old(self, known: Mapping[str, Any]) -> bool:
        return self._now() - parse_time(known["at"]) > KEPT


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


class Metrics:
    """Counters of requests, and numbers of the memory, for Prometheus."""

    def __init__(self, server: HttpServer) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "reverie_requests", "Answered requests.", ("operation", "status"), registry=registry
        )
        self.seconds = Histogram(
            "reverie_request_seconds",
            "Duration of requests in seconds.",
            ("operation",),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self.running = Gauge("reverie_requests_running", "Requests being answered.", registry=registry)
        memory, whole = server.memory, server.memory.scoped(EVERY_SCOPE)
        numbers: dict[str, tuple[str, Callable[[], int]]] = {
            "records": ("Live records.", lambda: whole.stats().records),
            "turns": ("Turns of all sessions.", lambda: whole.stats().turns),
            "journal_sequence": ("Number of the newest change.", memory.history.sequence),
            "store_bytes": ("Bytes on the disk.", server.folder_size),
            "background_failures": (
                "Background steps that ever failed.",
                lambda: sum(memory.admin.failures().values()),
            ),
        }
        for name, (text, compute) in numbers.items():
            Gauge(f"reverie_{name}", text, registry=registry).set_function(compute)

    def format(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self._registry)


class HttpServer:
    """Server of one memory; `application.build_application` makes what a web server runs.

    Attributes:
        memory: The open memory.
        tokens: Its tokens.
        changes: Its changes by scope.
        metrics: Counters of requests.
        threads: Threads on which operations run.
        stopping: Whether the server is about to stop, so that streams end.
        at_stop: Functions that `stop` calls.
        acting: Returns everybody's scope with an author of changes.
        has_effect: Returns whether some of these transactions can be taken back, as of the change of that number. The
            answer to the same question is kept, because each view of the overview asks it.
        uploads: Files that were uploaded for an import and wait to be confirmed, by a name that cannot be guessed.
    """

    def __init__(self, memory: Memory) -> None:
        """Serve a memory.

        Args:
            memory: The open memory; the caller keeps it open and closes it.
        """
        self.memory = memory
        self.tokens = TokenRegistry(memory)
        self.changes = VisibleChanges(memory.history)
        self.threads = CallThreads()
        self.stopping = False
        self.at_stop: list[Callable[[], None]] = [self.drop_uploads]
        self._repeated = RepeatedRequests(memory)
        self.acting = lru_cache(maxsize=1_000)(memory.acting)
        self.has_effect = lru_cache(maxsize=1)(self._has_effect)
        self.uploads: dict[str, Path] = {}
        self._probe = lru_cache(maxsize=1)(self._write_probe)
        self._measure_folder = lru_cache(maxsize=1)(lambda _: compute_folder_size(memory.path))
        self._began_at = time.monotonic()
        self._overviews: dict[str, tuple[object, float, Overview]] = {}
        self.metrics = Metrics(self)

    def stop(self) -> None:
        """End all streams; the web server then waits for the requests that run."""
        self.stopping = True
        for end in self.at_stop:
            end()

    def check_writable(self) -> None:
        """Raise `StoreUnavailable` if nothing can be stored; it is tried at most every ten seconds."""
        self._probe(self._count_spans(_PROBE_S))

    def folder_size(self) -> int:
        """Return the bytes of the memory's folder, as of the last minute: it has a file for each record."""
        return self._measure_folder(self._count_spans(_FOLDER_SIZE_S))

    def _count_spans(self, seconds: int) -> int:
        """Return how many spans of so many seconds have passed."""
        return int((time.monotonic() - self._began_at) // seconds)

    def _write_probe(self, _span: int) -> None:
        self.memory.admin.cursors.set({_PROBE: format_time(self.memory.now())})

    def _has_effect(self, batches: tuple[int, ...], _sequence: int) -> bool:
        try:
            return any(self.memory.history.undo(batch=each, dry_run=True).differences for each in batches)
        except ReverieError:
            return True  # an undo of it is refused, and its view says why

    def overview(self, view: ScopedMemory) -> Overview:
        """Return the counts of a scope and its living page; of a large memory perhaps as they were a moment ago."""
        day = self.memory.now().astimezone(self.memory.settings.zone).date()
        version, now = (self.memory.history.sequence(), day), time.monotonic()
        if (kept := self._overviews.get(view.scope)) is not None:
            is_recent = kept[2].counts.live >= LARGE and now - kept[1] < REFRESH_S
            if kept[0] == version or is_recent:
                return kept[2]
        subjects, scopes = view.subjects, self.memory.scoped(EVERY_SCOPE).scopes()
        made = Overview(subjects.counts(), subjects.list(), view.page(), scopes)
        if len(self._overviews) >= _MOST_OVERVIEWS:
            self._overviews.clear()
        self._overviews[view.scope] = version, now, made
        return made

    def drop_uploads(self) -> None:
        """Remove the uploaded files: each is alone in its folder."""
        while self.uploads:
            shutil.rmtree(self.uploads.popitem()[1].parent, ignore_errors=True)

    # -- requests ----------------------------------------------------------------------------------------

    async def respond(
        self,
        operation: Operation,
        request: Request,
        do: Callable[[Request], Awaitable[Response]],
        show: Callable[[Request, Problem], Response],
    ) -> Response:
        """Trace and answer one request.

        Args:
            operation: The operation that is requested.
            request: The request.
            do: Function that does the operation.
            show: Function that returns the answer to a failed request.
        """
        request.scope["operation"] = operation
        settings = self.memory.settings
        with trace_request(settings, operation.method, operation.path, request.headers) as span:
            try:
                response = await do(request)
            except ClientDisconnect:
                response = Response(status_code=400)
            except Exception as error:  # noqa: BLE001 - the outermost handler of a request: it is logged and reported
                response = show(request, build_problem(error))
            span.set("http.response.status_code", response.status_code)
            if response.status_code >= 500:
                span.fail(str(response.status_code))
        return response

    async def do(self, operation: Operation, request: Request) -> Response:
        """Do an operation of the API, and return its answer.

        Raises:
            Problem: the caller may not do it, or the request is not of its form.
        """
        body = b""
        if operation.body is not None:
            require_json(request.headers)
            body = await read_body(request)
        return await self.threads.run(partial(self._run, operation, request, body), lane=operation.lane)

    def _run(self, operation: Operation, request: Request, body: bytes) -> Response:
        """Do an operation, on a thread."""
        caller = self.authenticate(request.headers, right=operation.right, is_whole=operation.is_whole)
        query = parse_query(operation.query, request.query_params.multi_items())
        value = None if operation.body is None else parse_body(operation.body, body)
        if operation.needs_match and "if-match" not in request.headers:
            raise Problem(428, "This changes a version: read it first, and send its ETag as If-Match.")
        if operation.right is not None:  # health says nothing of files
            self.memory.refresh_files()
        path, headers = request.path_params, request.headers
        call = Call(server=self, caller=caller, path=path, query=query, headers=headers)
        act = partial(operation.answer_call, call, value)
        key = request.headers.get("idempotency-key")
        if key is None or operation.replay is None:
            answer = act()
        else:
            asked = f"{request.method} {request.url.path}?{request.url.query}".encode() + b"\n" + body
            answer = self._repeated.run(call, key, asked, act, operation.replay)
        if operation.method != "GET" and operation.right is not None:
            answer.headers["Reverie-Sequence"] = str(call.numbers.show(self.memory.history.sequence()))
        etag = answer.headers.get("ETag")
        if operation.method == "GET" and etag and is_listed(headers.get("if-none-match", ""), etag):
            answer = OperationAnswer(None, 304, {"ETag": etag})
        return _to_response(operation, answer)

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
        if right not in caller.rights:
            what = f"This token lacks the right {right!r}. Use one that has it."
            raise Problem(403, what, kind="right-missing")
        if is_whole and caller.scope:
            what = "This is about all scopes, and the token is bound to one. Use one without."
            raise Problem(403, what, kind="scope-bound")
        return caller


def _find_token(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request sends, in one of the headers in use."""
    kind, _, text = headers.get("authorization", "").partition(" ")
    if kind.lower() in ("bearer", "token"):
        return text.strip()
    return headers.get("x-api-key")


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


def _to_response(operation: Operation, answer: OperationAnswer[Any]) -> Response:
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
