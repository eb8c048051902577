"""Connection to a server: requests that are repeated until they are answered, and errors as exceptions."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from reverie.domain import errors
from reverie.domain.text.timestamps import format_time
from reverie.domain.text.validation import validate_address

STREAM_SILENCE_S = 45.0
"""Seconds of silence after which a stream counts as broken; the server sends a comment every 15 seconds."""

_BUSY = (408, 429, 503)
MAX_PAGE_ITEMS = 200
"""Maximum items of one page of a list, and of one batch."""

_IDLE_S = 4.0
_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 2.0
_STATUS: Mapping[int, type[errors.ReverieError]] = {
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.Conflict,
    501: errors.MissingExtra,
    502: errors.ModelRefused,
    **dict.fromkeys(_BUSY, errors.StoreUnavailable),
}
_KINDS: Mapping[str, type[errors.ReverieError]] = {
    kind.__name__.lower(): kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.ReverieError)
}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the server.

    Attributes:
        status: HTTP status.
        headers: Headers by lower-case name.
        value: The JSON value of the body; None for no body.
    """

    status: int
    headers: Mapping[str, str]
    value: Any


class Connection:
    """Connections to one server. Safe to use from several threads."""

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 30.0, patience: float = 10.0
    ) -> None:
        """Note where the server is; nothing is sent yet.

        Args:
            url: Address of the server, such as `http://127.0.0.1:8766`.
            token: Token of `reverie token create`; None where the server needs none.
            timeout: Seconds to wait for an answer.
            patience: Seconds to go on repeating a request that a server is too busy for, or that was not answered.

        Raises:
            InvalidInput: the address is none of HTTP.
        """
        parts = urlsplit(validate_address(url, name="url", example="http://127.0.0.1:8766"))
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._base = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._patience = patience
        self._idle: deque[tuple[HTTPConnection, float]] = deque()

    def close(self) -> None:
        """Close the connections that are open."""
        while self._idle:
            self._idle.pop()[0].close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request until it is answered, and return the answer.

        A `POST` has an `Idempotency-Key`, so that what is sent twice is done once.

        Args:
            method: HTTP method.
            path: Path, quoted; see `quote_path`.
            body: JSON value; times, durations and collections are converted.
            query: Parameters; those that are None are left out.
            headers: Further headers.

        Raises:
            ReverieError: the server refused the request, or could not be reached in time.
        """
        data = None if body is None else json.dumps(body, default=to_json_value).encode()
        sent = {"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"}
        if method == "POST":
            sent["Idempotency-Key"] = uuid.uuid4().hex
        sent |= headers or {}
        target, wait = self._build_target(path, query), _FIRST_WAIT_S
        end = time.monotonic() + self._patience
        while True:
            try:
                reply = self._send(method, target, data, sent)
                if reply.status < 400:
                    return reply
                failure = build_error(reply.status, reply.value)
                if reply.status not in _BUSY and not _is_running(reply.value):
                    raise failure
                pause = max(wait, _parse_seconds(reply.headers.get("retry-after", "")))
            except (OSError, HTTPException) as error:
                failure, pause = self._build_failure(error), wait
            if time.monotonic() + pause > end:
                raise failure
            time.sleep(pause)
            wait = min(wait * 2, _LONGEST_WAIT_S)

    def stream(self, path: str, *, query: Mapping[str, Any], last: int) -> Iterator[tuple[int, Any]]:
        """Yield the events of a stream of changes, each with its number; connect again when it breaks.

        Args:
            path: Path, quoted.
            query: Parameters.
            last: Number after which to begin.

        Raises:
            ReverieError: the server refused the request, or could not be reached in time.
        """
        end = time.monotonic() + self._patience
        wait = _FIRST_WAIT_S
        while True:
            connection = self._connect(STREAM_SILENCE_S)
            try:
                head = self._build_headers({"Last-Event-ID": str(last), "Accept": "text/event-stream"})
                connection.request("GET", self._build_target(path, query), headers=head)
                response = connection.getresponse()
                if response.status >= 400:
                    failure = build_error(response.status, _parse_body(response.read()))
                    if response.status not in _BUSY:
                        raise failure
                else:
                    end, wait = time.monotonic() + self._patience, _FIRST_WAIT_S
                    for last, value in _read_events(response):
                        yield last, value
                        end = time.monotonic() + self._patience
                    failure = errors.StoreUnavailable("the server ended the stream: start it again")
            except (OSError, HTTPException) as error:
                failure = self._build_failure(error)
            finally:
                connection.close()
            if time.monotonic() + wait > end:
                raise failure
            time.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_S)

    # -- inside ------------------------------------------------------------------------------------------

    def _send(self, method: str, target: str, data: bytes | None, headers: Mapping[str, str]) -> Reply:
        connection, is_fresh = self._take()
        try:
            connection.request(method, target, data, self._build_headers(headers))
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException):
            connection.close()
            if is_fresh:
                raise
            return self._send(method, target, data, headers)  # the server had closed it while it was idle
        if response.will_close:
            connection.close()
        else:
            self._idle.append((connection, time.monotonic()))
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, _parse_body(content))

    def _take(self) -> tuple[HTTPConnection, bool]:
        """Return a connection, and whether it is a new one."""
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return self._connect(self._timeout), True
            if time.monotonic() - since < _IDLE_S:
                return connection, False
            connection.close()

    def _connect(self, timeout: float) -> HTTPConnection:
        return self._kind(self._host, self._port, timeout=timeout)

    def _build_headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {**({} if self._token is None else {"Authorization": f"Bearer {self._token}"}), **more}

    def _build_target(self, path: str, query: Mapping[str, Any] | None) -> str:
        given = {name: _to_text(value) for name, value in (query or {}).items() if value is not None}
        return self._base + path + (f"?{urlencode(given, doseq=True)}" if given else "")

    def _build_failure(self, error: Exception) -> errors.ReverieError:
        return errors.StoreUnavailable(
            f"the server {self._host}:{self._port or ''} did not answer ({error or type(error).__name__}): "
            "see that it runs, and try again"
        )


@dataclass(frozen=True, slots=True)
class ScopeConnection:
    """Connection for the operations on one scope.

    Attributes:
        connection: The connection to the server.
        scope: The scope, within that of the token.
    """

    connection: Connection
    scope: str = ""

    def send(
        self,
        method: str,
        *path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """Send a request about the scope, and return the answer; see `Connection.request`.

        Args:
            path: Parts of the path under `/v1`.
        """
        given = {"scope": self.scope or None, **query}
        return self.connection.request(method, quote_path(*path), body, query=given, headers=headers)

    def ask(self, method: str, *path: str, **more: Any) -> Any:
        """Send a request about the scope, and return the value of the answer; see `send`."""
        return self.send(method, *path, **more).value

    def list(self, *path: str, limit: int | None = None, **query: Any) -> list[dict[str, Any]]:
        """Return the items of a list, page by page; None as the limit for all."""
        items: list[dict[str, Any]] = []
        cursor = None
        while limit is None or len(items) < limit:
            count = MAX_PAGE_ITEMS if limit is None else min(MAX_PAGE_ITEMS, limit - len(items))
            page = self.ask("GET", *path, limit=count, cursor=cursor, **query)
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
        return items


def quote_path(*parts: str) -> str:
    """Return a path under `/v1` of some parts, quoted."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def to_json_value(value: Any) -> Any:
    """Return a value that JSON does not have as one that it has."""
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else format_time(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise errors.InvalidInput(f"a value is of the type {type(value).__name__}: pass one that JSON has")


def build_error(status: int, problem: Any) -> errors.ReverieError:
    """Return the error that an answer stands for."""
    members = problem if isinstance(problem, Mapping) else {}
    kind = _get_kind(members)
    known = _KINDS.get(kind.replace("-", "")) or _STATUS.get(status)
    known = known or (errors.InvalidInput if status < 500 else errors.StoreError)
    return known(members.get("detail") or f"the server answered {status}: see that the address is right")


def _get_kind(problem: Mapping[str, Any]) -> str:
    return str(problem.get("type", "")).rpartition(":")[2]


def _is_running(problem: Any) -> bool:
    """Whether the server is still at work on the same request."""
    return isinstance(problem, Mapping) and _get_kind(problem) == "still-running"


def _parse_body(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode(errors="replace")


def _parse_seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() else 0.0


def _to_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return value
    value = to_json_value(value)
    return [_to_text(each) for each in value] if isinstance(value, list) else value


def _read_events(response: HTTPResponse) -> Iterator[tuple[int, Any]]:
    """Yield the number and the data of each whole event."""
    number, data = 0, ""
    for raw in response:
        name, _, value = raw.decode().rstrip("\r\n").partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            data = value
        elif not name and data:
            yield number, json.loads(data)
            data = ""
