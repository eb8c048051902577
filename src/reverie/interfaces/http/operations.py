"""Operations of the HTTP API: what each takes, does and answers; errors, ETags and cursors of lists.

`application.py` makes the routes from these.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.responses import Response
from typing_extensions import TypeVar as DefaultingTypeVar

from reverie.domain import errors
from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.scope import EVERY_SCOPE, is_within
from reverie.domain.text.json_values import to_json_value
from reverie.interfaces.http.tokens import Caller, Right
from reverie.interfaces.mcp.threads import Lane
from reverie.memory import Memory
from reverie.reader import MemoryReader
from reverie.scoped import ScopedMemory

if TYPE_CHECKING:
    from reverie.interfaces.http.administration import ChangeNumbers
    from reverie.interfaces.http.server import HttpServer

_log = logging.getLogger("reverie.http")

_CAPITAL = defer_regex("([A-Z])")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


# -- errors ------------------------------------------------------------------------------------------------

MEDIA_TYPE = "application/problem+json"

_STATUS: Mapping[type[errors.ReverieError], int] = {
    errors.InvalidInput: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.WorkingMemoryFull: 409,
    errors.StoreUnavailable: 503,
    errors.ModelUnavailable: 503,
    errors.ModelRefused: 502,
    errors.MissingExtra: 501,
}
"""Status of each error; any other one of Reverie's is 500."""


class Problem(Exception):
    """An answer that is an error.

    Attributes:
        status: HTTP status.
        detail: A sentence that says what is wrong and what to do.
        kind: Last part of the problem's `type`; by default from the phrase of the status.
        headers: Headers of the answer.
        fields: Further members.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind or HTTPStatus(status).phrase.lower().replace(" ", "-")
        self.headers = dict(headers or {})
        self.fields = fields

    def to_dict(self, *, instance: str = "") -> dict[str, Any]:
        """Return the members of the problem."""
        members = {
            "type": f"urn:reverie:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        return members | ({"instance": instance} if instance else {}) | self.fields

    def to_response(self, *, instance: str = "") -> Response:
        """Return the answer."""
        body = json.dumps(self.to_dict(instance=instance), ensure_ascii=False).encode(errors="replace")
        return Response(body, self.status, headers=self.headers, media_type=MEDIA_TYPE)


def build_problem(error: Exception) -> Problem:
    """Return the problem that an exception is; log one that is a bug or damage."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.ReverieError):
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
        if status == 500:
            _log.error("%s", error)
        headers = {"Retry-After": "1"} if status == 503 else {}
        kind = _CAPITAL.sub(r"-\1", type(error).__name__).lower().lstrip("-")
        text = str(error)
        return Problem(status, text if text[-1:] in ".!?" else f"{text}.", kind=kind, headers=headers)
    _log.error("a request failed", exc_info=error)
    what = f"{type(error).__name__}: this is a bug in Reverie. The server's log has details."
    return Problem(500, what, kind="bug")


def build_field_problem(wrong: Sequence[Any]) -> Problem:
    """Return the problem of a body or a query that is not of its form.

    Args:
        wrong: Errors as pydantic lists them.
    """
    if any(each["type"] == "json_invalid" for each in wrong):
        return Problem(400, f"The body is no JSON: {_lower(wrong[0]['msg'])}.", kind="malformed-json")
    places = [
        {"pointer": "".join(f"/{_escape(part)}" for part in each["loc"]), "detail": each["msg"]}
        for each in wrong
    ]
    first = places[0]
    more = f" ({len(places) - 1} more)" if len(places) > 1 else ""
    what = f"{first['pointer'] or 'The body'}: {_lower(first['detail'])}{more}. Correct it and send it again."
    return Problem(422, what, kind="invalid-input", errors=places)


def _escape(part: object) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


# -- what an operation takes and answers ------------------------------------------------------------------


class NumberConvertor(IntegerConvertor):
    """Convertor of a number in a path; Python refuses to read one of thousands of digits."""

    regex = "[0-9]{1,18}"


register_url_convertor("number", NumberConvertor())


class Form(BaseModel):
    """Form of a body, a query or an answer; nothing else may be in it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


_When = TypeVar("_When")
_Form = TypeVar("_Form")
_Query = DefaultingTypeVar("_Query", default=Any)
_Other = TypeVar("_Other")
_Model = TypeVar("_Model", bound=BaseModel)


class Empty(Form):
    """Query without parameters."""


class ScopeQuery(Form):
    """Query of an operation within a scope.

    Attributes:
        scope: Scope within that of the token; empty for that of the token itself.
    """

    scope: str = ""


@dataclass(slots=True)
class OperationAnswer(Generic[_Form]):
    """Answer of an operation; `OperationAnswer[X]` says in its signature that the body is of the form X.

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
class Call(Generic[_Query]):
    """One request, checked, with what it is about; `Call[X]` says in a signature that the query is of the form X.

    Attributes:
        server: The server.
        caller: Who sends it.
        query: Parameters in the query, as the operation's model.
        path: Parameters in the path.
        headers: Headers by lower-case name.
    """

    server: HttpServer
    caller: Caller
    query: _Query
    path: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_query(self, query: _Other) -> Call[_Other]:
        """Return the call with another query."""
        return replace(cast(Any, self), query=query)

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
        return self.server.changes.number(self.caller.scope)

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


Handler = Callable[..., Any]
"""Function of an operation: it takes the `Call`, and the body of the request if the operation has one.

It returns an `OperationAnswer`. A view of the page returns a `Screen`, a `Redirect` or a file.
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
    replay: Callable[[Call, Any], OperationAnswer[Any]] | None = None
    is_whole: bool = False
    needs_match: bool = False
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

    def answer_call(self, call: Call, body: Any) -> OperationAnswer[Any]:
        """Do it, and return its answer with the numbers of changes that the caller sees."""
        answer: OperationAnswer[Any] = self.perform(call, body)
        if call.caller.scope:
            call.numbers.show_answer(answer)
        return answer


def parse_number(text: str) -> int | None:
    """Return the number that a text is made of digits of; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def answer_reference(call: Call, reference: Any) -> OperationAnswer[Any]:
    """Answer a repeated request of an `Idempotency-Key` whose reference is the whole answer."""
    return OperationAnswer(reference)


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
        """Return a decorator that adds a function as an operation.

        Its signature says of which forms query, body and answer are, as in
        `def f(call: Call[Query], body: Body) -> OperationAnswer[Form]`. Without one of the query, it has the parameter
        `scope`, or none if the operation is about all scopes.

        Args:
            options: Further fields of `Operation`.
        """

        def register(run: _Run) -> _Run:
            hints = get_type_hints(run)
            answer = hints.pop("return", None)
            call, *body = hints.values()
            fields: dict[str, Any] = {
                "name": self._prefix + run.__name__,
                "query": Empty if options.get("is_whole") else ScopeQuery,
                **self._common,
            }
            if get_args(call):
                fields["query"] = get_args(call)[0]
            if get_origin(answer) is OperationAnswer:
                fields["answer"] = get_args(answer)[0]
            if body:
                fields["body"] = body[0]
            fields |= options
            OPERATION_OF[run] = Operation(method=method, path=path, run=run, right=right, **fields)
            self.append(OPERATION_OF[run])
            return run

        return register


# -- what a request says ----------------------------------------------------------------------------------


def parse_query(form: type[_Model], items: Iterable[tuple[str, str]]) -> _Model:
    """Return the parameters of a query as their form; raise `Problem` if they are not of it."""
    values: dict[str, list[str]] = {}
    for name, text in items:
        values.setdefault(name, []).append(text)
    lists = {name for name, each in form.model_fields.items() if get_origin(each.annotation) is tuple}
    single = {name: each if name in lists or len(each) > 1 else each[0] for name, each in values.items()}
    with _explaining_misfits():
        return form.model_validate(single)


def parse_body(form: type[_Model], body: bytes) -> _Model:
    """Return a body of JSON as its form; in JSON a number is no text, and a text no number."""
    with _explaining_misfits():
        return form.model_validate_json(body, strict=True)


@contextmanager
def _explaining_misfits() -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise build_field_problem(error.errors(include_url=False, include_input=False)) from None


def require_json(headers: Mapping[str, str]) -> None:
    """Raise `Problem` if a request says that its body is something else than JSON."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise Problem(415, f"The body is {kind[:80]!r}. Send JSON as application/json.")


# -- versions of things, and places in lists --------------------------------------------------------------


def compute_etag(value: Any) -> str:
    """Return a strong ETag of a value as JSON has it."""
    text = json.dumps(to_json_value(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def answer_value(value: Any) -> OperationAnswer[Any]:
    """Return a value with its ETag."""
    return OperationAnswer(value, headers={"ETag": compute_etag(value)})


def check_match(call: Call, value: Any) -> bool:
    """Raise `Problem` if the caller names another version of a value than the current one.

    Returns:
        Whether only this version may be changed; False if the caller accepts any.
    """
    wanted = call.headers.get("if-match")
    if wanted is not None and not is_listed(wanted, compute_etag(value)):
        raise Problem(
            412,
            "This has changed since it was read. Read it again, and send its new ETag.",
            current=to_json_value(value),
        )
    return wanted is not None and "*" not in [name.strip() for name in wanted.split(",")]


def is_listed(header: str, etag: str) -> bool:
    """Whether a header such as `If-Match` names an ETag, or accepts any."""
    return bool({"*", etag} & {name.strip() for name in header.split(",")})


@contextmanager
def refusing_changed() -> Iterator[None]:
    """Answer a change between the check and the transaction as one before the check."""
    try:
        yield
    except Conflict as error:
        raise Problem(412, f"{error}. Send the new ETag.") from error


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
