"""Connection to a server: requests that are repeated until they are answered, and errors as exceptions."""

from __future__ import annotations

import json
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from reverie.domain import errors
from reverie.domain.text.timestamps import format_time
from reverie.domain.text.validation import validate_address

_BUSY = (408, 429, 503)
MAX_PAGE_ITEMS = 200
"""Maximum items of one page of a list, and of one batch."""

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
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connect = partial(kind, parts.hostname or "", parts.port, timeout=timeout)
        self._idle: deque[HTTPConnection] = deque()
        self._base = parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._patience = patience

    def close(self) -> None:
        """Close the idle connections. Another request opens one again."""
        while self._idle:
            self._idle.pop().close()

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
        sent |= {**self._headers, **(headers or {})}
        given = {name: _to_text(value) for name, value in (query or {}).items() if value is not None}
        target = self._base + path + (f"?{urlencode(given, doseq=True)}" if given else "")
        end, wait = time.monotonic() + self._patience, 0.0
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            is_open = connection.sock is not None
            try:
                reply = _exchange(connection, method, target, data, sent)
                self._idle.append(connection)
                if reply.status < 400:
                    return reply
                failure = build_error(reply.status, reply.value)
                if reply.status not in _BUSY and not _is_running(reply.value):
                    raise failure
                pause = max(wait or _FIRST_WAIT_S, _parse_seconds(reply.headers.get("retry-after", "")))
            except (OSError, HTTPException) as error:
                connection.close()
                if is_open:  # the server had closed the connection while it was idle
                    continue
                failure = errors.StoreUnavailable(
                    f"The server {connection.host}:{connection.port} did not answer "
                    f"({error or type(error).__name__}). Check that it runs, and try again."
                )
                pause = wait or _FIRST_WAIT_S
            if time.monotonic() + pause > end:
                raise failure
            time.sleep(pause)
            wait = min(pause * 2, _LONGEST_WAIT_S)


def _exchange(
    connection: HTTPConnection, method: str, target: str, data: bytes | None, headers: Mapping[str, str]
) -> Reply:
    connection.request(method, target, data, headers)
    response = connection.getresponse()
    content = response.read()
    names = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, names, _parse_body(content))


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
