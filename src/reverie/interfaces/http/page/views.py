"""Views of the page: what each is, what it returns, and how it calls the operations of the API."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.responses import Response

from reverie.domain.change import Subject
from reverie.domain.errors import InvalidInput
from reverie.domain.record import Kind, Origin
from reverie.domain.text.json_values import to_json_value
from reverie.domain.text.timestamps import parse_time
from reverie.interfaces.http import problems
from reverie.interfaces.http.documentation import HEADERS
from reverie.interfaces.http.operations import (
    OPERATION_OF,
    Call,
    Handler,
    OperationList,
    ScopeQuery,
    parse_number,
)
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import Number, Texts
from reverie.interfaces.http.tokens import Right
from reverie.search.hits import SearchMode


class Screen:
    """A view as it is to be drawn.

    Attributes:
        template: Name of its template.
        status: HTTP status.
        values: What the template shows.
    """

    def __init__(self, template: str, *, status: int = 200, **values: Any) -> None:
        self.template = template
        self.status = status
        self.values = values


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another view to go to after a change.

    Attributes:
        path: Path of the view, with its query.
        done: Number of the change that can be taken back; None for the newest one that the caller made meanwhile, 0
            for none.
        undone: Whether that change took another one back.
    """

    path: str
    done: int | None = None
    undone: int | None = None


class Fields:
    """Fields of a form that was sent.

    Attributes:
        file: The file that was uploaded; None without one.
    """

    def __init__(self, values: Mapping[str, builtins.list[str]], file: UploadFile | None = None) -> None:
        self._values = values
        self.file = file

    def get(self, name: str) -> str:
        """Return a field with the line breaks of a text in Python; empty if the form has none."""
        return self._values.get(name, [""])[-1].replace("\r\n", "\n")

    def list(self, name: str) -> builtins.list[str]:
        """Return all values of a field, such as checked boxes."""
        return self._values.get(name, [])

    def words(self, name: str) -> builtins.list[str]:
        """Return the parts of a field that commas separate."""
        return [part for each in self.get(name).split(",") if (part := each.strip())]


class ViewQuery(ScopeQuery):
    """Query of a view within a scope; each view reads what it needs of it."""

    q: str = ""
    mode: SearchMode = "words"
    source: Literal["", "records", "turns", "pages"] = ""
    kind: Literal["", Kind] = ""
    origin: Literal["", Origin] = ""
    about: str = ""
    category: str = ""
    tags: Texts = ()
    state: Literal["", "current", "pinned", "ended", "archived"] = ""
    days: Literal["", "1", "7", "30"] = ""
    as_of: str = ""
    cursor: str | None = None
    content: str = ""
    start: Number | None = None
    message: str = ""
    session: str = ""
    tokens: Number | None = None
    batch: tuple[Number, ...] = ()
    change: Number | None = None
    actor: str | None = None
    id: str | None = None
    subject: Subject | None = None
    before: Number | None = None
    since: str = ""
    until: str = ""
    left: str = ""
    right: str = ""
    name: str = ""


class ViewList(OperationList):
    """Views of one group. A view takes a `Call`, and returns a `Screen`, a `Redirect` or a file."""

    def __init__(self) -> None:
        super().__init__("page_", query=ViewQuery)


def perform(
    call: Call,
    run: Handler,
    *,
    path: Mapping[str, str] | None = None,
    body: Any = None,
    if_match: str | None = None,
    **query: Any,
) -> Any:
    """Do an operation of the API for whoever looks at the page, and return the body of its answer.

    It makes the checks that the API makes.

    Args:
        call: The view's call.
        run: Function of the operation.
        path: Parameters of its path; None for those of the view.
        body: Its body as JSON values.
        if_match: ETag of what it changes.
        query: Its query; the scope of the view is added.

    Raises:
        Problem: the token may not do it, or an argument is wrong.
    """
    operation = OPERATION_OF[run]
    call.server.check_right(call.caller, operation.right, is_whole=operation.is_whole)
    if "scope" in operation.query.model_fields:
        query.setdefault("scope", getattr(call.query, "scope", ""))
    if operation.needs_match and if_match is None:
        raise Problem(428, "This changes a thing: open its form again, and send that.")
    try:
        parameters = operation.query.model_validate(query)
        value = None
        if operation.body is not None:
            value = operation.body.model_validate_json(json.dumps(body or {}), strict=True)
    except ValidationError as error:
        raise problems.build_field_problem(error.errors(include_url=False, include_input=False)) from None
    own = replace(
        call,
        method=operation.method,
        path=call.path if path is None else path,
        query=parameters,
        headers={} if if_match is None else {"if-match": if_match},
    )
    try:
        return to_json_value(operation.answer_call(own, value).body)
    except InvalidInput as error:
        raise problems.build_problem(error) from None


def read_moment(text: str, name: str) -> datetime | int | None:
    """Return the time or the number of a change that a field of a form names; a time without zone is in UTC."""
    number = parse_number(text.strip())
    return read_time(text, name, otherwise=", or the number of a change") if number is None else number


def read_time(text: str, name: str, *, otherwise: str = "") -> datetime | None:
    """Return the time that a field of a form names; one without zone is in UTC.

    Args:
        text: The field; blank for no time.
        name: Its name, for the error.
        otherwise: What else the field may name, for the error.
    """
    text = text.strip()
    try:
        return parse_time(text, name=name) if text else None
    except InvalidInput:
        raise Problem(
            422, f"{name} is {text[:40]!r}: give a time such as 2026-11-20 14:30{otherwise}."
        ) from None


def build_file(name: str, text: str, media_type: str = "application/jsonl") -> Response:
    """Return a file to be saved."""
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.encode("utf-8", "replace"), media_type=media_type, headers=headers)


def is_allowed(call: Call, right: Right, *, is_whole: bool = False) -> bool:
    """Return whether the signed-in user may do something, so that a view offers it."""
    return right in call.caller.rights and not (is_whole and call.caller.scope)


def choose_local_path(text: str, otherwise: str = "/") -> str:
    """Return a path of this server; the other one for anything else."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_local else otherwise
