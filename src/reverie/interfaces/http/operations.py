"""Operations of the HTTP API: what each takes, does and answers; ETags and cursors of lists.

`application.py` makes the routes from these.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict
from starlette.convertors import IntegerConvertor, register_url_convertor

from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.scope import EVERY_SCOPE, is_within
from reverie.domain.text.json_values import to_json_value
from reverie.interfaces.http.change_numbers import ChangeNumbers
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.tokens import Caller, Right
from reverie.interfaces.mcp.threads import Lane
from reverie.memory import Memory
from reverie.reader import MemoryReader
from reverie.scoped import ScopedMemory

if TYPE_CHECKING:
    from reverie.interfaces.http.server import HttpServer

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

METHODS: tuple[Method, ...] = get_args(Method)


class NumberConvertor(IntegerConvertor):
    """Convertor of a number in a path; Python refuses to read one of thousands of digits."""

    regex = "[0-9]{1,18}"


register_url_convertor("number", NumberConvertor())


class Form(BaseModel):
    """Form of a body, a query or an answer; nothing else may be in it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


_When = TypeVar("_When")


class Empty(Form):
    """Query without parameters."""


class ScopeQuery(Form):
    """Query of an operation within a scope.

    Attributes:
        scope: Scope within that of the token; empty for that of the token itself.
    """

    scope: str = ""


@dataclass(slots=True)
class OperationAnswer:
    """Answer of an operation.

    Attributes:
        body: Value that `to_json_value` converts; None for no content. Bytes are sent as they are.
        status: HTTP status.
        headers: Further headers.
        reference: What is kept of it for `Idempotency-Key`: ids and numbers only, never content.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    reference: Any = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, checked, with what it is about.

    Attributes:
        server: The server.
        caller: Who sends it.
        query: Parameters in the query, as the operation's model.
        method: HTTP method.
        path: Parameters in the path.
        headers: Headers by lower-case name.
    """

    server: HttpServer
    caller: Caller
    query: Any
    method: str = "GET"
    path: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def memory(self) -> Memory:
        """The memory."""
        return self.server.memory

    @cached_property
    def whole(self) -> ScopedMemory:
        """Everybody's scope, with the caller as the author of changes."""
        return self.server.acting(self.caller.label)

    @property
    def numbers(self) -> ChangeNumbers:
        """The numbers of changes as the caller sees them now."""
        return ChangeNumbers(self.server.changes, self.caller.scope)

    def find_moment(self, when: _When) -> _When | int:
        """Return a time as it is, and the number of the caller for a change as that of the journal."""
        return self.numbers.require(when, least=0) if isinstance(when, int) else when

    def open_scope(self, scope: str) -> ScopedMemory:
        """Return a scope within that of the token, with the caller as the author of changes."""
        base = self.whole.scoped(self.caller.scope)
        return base.scoped(scope) if scope else base

    @cached_property
    def view(self) -> ScopedMemory:
        """The scope that the request is about, with the caller as the author of changes."""
        scope = getattr(self.query, "scope", "")
        if scope == EVERY_SCOPE:
            raise InvalidInput("scope is '*': name one scope here; only lists and searches take all of them")
        return self.open_scope(scope)

    @cached_property
    def reader(self) -> MemoryReader:
        """The scope that a request reads; all scopes for `*`, with the right `admin`."""
        if getattr(self.query, "scope", "") != EVERY_SCOPE:
            return self.view
        if "admin" not in self.caller.rights:
            raise Problem(403, "All scopes ('*') can be read with the right admin only. Name one scope.")
        return self.memory.scoped(EVERY_SCOPE)

    def is_own(self, scope: str) -> bool:
        """Whether something of that scope may be changed by the caller."""
        return is_within(scope, self.caller.scope)

    def require_trust(self) -> None:
        """Raise `Problem` for a caller whose words are not trusted in prompts."""
        if self.caller.origin not in ("owner", "agent"):
            raise Problem(
                403,
                f"This token speaks for {self.caller.origin!r}, and what stands in every prompt can be written "
                "with the origin owner or agent only. Save a record instead.",
            )


def to_answer(result: Any) -> OperationAnswer:
    """Return what an operation returned as an answer."""
    return result if isinstance(result, OperationAnswer) else OperationAnswer(result)


Handler = Callable[..., Any]
"""Function of an operation: it takes the `Call`, and the body of the request if the operation has one.

It returns an `OperationAnswer` or the body of one. A view of the page returns a `Screen` or a `Redirect`.
"""

_Run = TypeVar("_Run", bound=Handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    Attributes:
        method: HTTP method.
        path: Path with its parameters in braces.
        name: Name in OpenAPI and in the metrics.
        run: Function that does it, on a thread.
        right: Right that it needs; None if it needs no token.
        body: Form of its body; None without one.
        query: Form of its query.
        answer: Type of its answer.
        statuses: Statuses of its answer.
        replay: Function that makes the answer of `Idempotency-Key` again from its reference; None where the
            key has no effect.
        is_whole: Whether it is about all scopes, so that a token bound to a scope is refused.
        needs_match: Whether it needs `If-Match`.
        has_etag: Whether it takes `If-None-Match`.
        media_type: Media type of its answer.
        group: Heading that it stands under in `/docs`.
    """

    method: Method
    path: str
    name: str
    run: Handler
    right: Right | None
    body: Any = None
    query: type[BaseModel] = ScopeQuery
    answer: Any = None
    statuses: tuple[int, ...] = (200,)
    replay: Callable[[Call, Any], Any] | None = None
    is_whole: bool = False
    needs_match: bool = False
    has_etag: bool = False
    media_type: str = "application/json"
    group: str = ""

    @property
    def lane(self) -> Lane:
        """Kind of call that it is for `CallThreads`: what only reads and has a body is a search."""
        if self.method == "GET":
            return "read"
        return "search" if self.right == "read" else "change"

    def perform(self, call: Call, body: Any) -> Any:
        """Do it, and return what its function returns."""
        return self.run(call) if self.body is None else self.run(call, body)

    def answer_call(self, call: Call, body: Any) -> OperationAnswer:
        """Do it, and return its answer with the numbers of changes that the caller sees."""
        answer = to_answer(self.perform(call, body))
        if call.caller.scope:
            call.numbers.show_answer(answer)
        return answer


def parse_number(text: str) -> int | None:
    """Return the number that a text is made of digits of; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def answer_reference(call: Call, reference: Any) -> Any:
    """Answer a repeated request of an `Idempotency-Key` whose reference is the whole answer."""
    return reference


OPERATION_OF: dict[Handler, Operation] = {}
"""Operation that each function is; the one that was added last."""


class OperationList(list[Operation]):
    """Operations on one subject, in the order in which their paths are tried."""

    def __init__(self, prefix: str = "", **common: Any) -> None:
        """Begin a list.

        Args:
            prefix: Beginning of the names of its operations.
            common: Fields of `Operation` that they have unless they are added with others.
        """
        super().__init__()
        self._prefix = prefix
        self._common = common

    def add(self, method: Method, path: str, right: Right | None, **options: Any) -> Callable[[_Run], _Run]:
        """Return a decorator that adds a function as an operation; its second parameter is the body.

        Args:
            options: Further fields of `Operation`. An operation about all scopes has no `scope` in its query.
        """

        def register(run: _Run) -> _Run:
            parameters = [hint for name, hint in get_type_hints(run).items() if name != "return"]
            usual = {
                "name": self._prefix + run.__name__,
                "body": parameters[1] if len(parameters) > 1 else None,
                "query": Empty if options.get("is_whole") else ScopeQuery,
            }
            fields = {**usual, **self._common, **options}
            OPERATION_OF[run] = Operation(method=method, path=path, run=run, right=right, **fields)
            self.append(OPERATION_OF[run])
            return run

        return register


# -- versions of things, and places in lists --------------------------------------------------------------


def compute_etag(value: Any) -> str:
    """Return a strong ETag of a value as JSON has it."""
    text = json.dumps(to_json_value(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def answer_value(call: Call, value: Any) -> OperationAnswer:
    """Return a value with its ETag; 304 if the caller has it already."""
    etag = compute_etag(value)
    if call.method == "GET" and _is_listed(call.headers.get("if-none-match", ""), etag):
        return OperationAnswer(None, 304, {"ETag": etag})
    return OperationAnswer(value, headers={"ETag": etag})


def check_match(call: Call, value: Any) -> bool:
    """Raise `Problem` if the caller names another version of a value than the current one.

    Returns:
        Whether only this version may be changed; False if the caller accepts any.
    """
    wanted = call.headers.get("if-match")
    if wanted is not None and not _is_listed(wanted, compute_etag(value)):
        raise Problem(
            412,
            "This has changed since it was read. Read it again, and send its new ETag.",
            current=to_json_value(value),
        )
    return wanted is not None and "*" not in [name.strip() for name in wanted.split(",")]


@contextmanager
def refusing_changed() -> Iterator[None]:
    """Answer a change between the check and the transaction as one before the check."""
    try:
        yield
    except Conflict as error:
        raise Problem(412, f"{error}. Send the new ETag.") from error


def _is_listed(header: str, etag: str) -> bool:
    names = [name.strip() for name in header.split(",")]
    return "*" in names or etag in names


def encode_cursor(values: list[Any], *, of: object) -> str:
    """Return an opaque cursor.

    Args:
        values: Where the next page begins.
        of: Parameters of the list; the cursor is valid for these only.
    """
    text = json.dumps([_fingerprint(of), *values], ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str, *, of: object, types: tuple[type, ...]) -> list[Any]:
    """Return where a page begins.

    Raises:
        InvalidInput: the cursor is not one of this list.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if values[0] == _fingerprint(of) and [type(each) for each in values[1:]] == list(types):
            return list(values[1:])
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        pass
    raise InvalidInput(
        "cursor is not one of this list: pass `next` of the previous page, with the same parameters"
    )


def _fingerprint(of: object) -> str:
    return hashlib.sha256(repr(of).encode(errors="replace")).hexdigest()[:8]
