"""Views of the page: what each is, what it returns, and how it calls the operations of the API."""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from reverie.domain.text.timestamps import to_utc
from reverie.interfaces.http import (
    administration,
    changes,
    conflicts,
    conversations,
    pages,
    problems,
    records,
    reviews,
)
from reverie.interfaces.http.operations import Answer, Call, Operation, ScopeQuery
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.tokens import Right

OPERATION_OF: Mapping[Callable[[Call], Answer], Operation] = {
    each.run: each
    for module in (records, conflicts, conversations, pages, changes, reviews, administration)
    for each in module.OPERATIONS
}
"""Operation that each function of the API is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A view as it is to be drawn.

    Attributes:
        template: Name of its template.
        title: Text of its heading and of the window.
        values: What the template shows.
        status: HTTP status.
    """

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another view to go to after a change.

    Attributes:
        path: Path of the view, with its query.
        done: Number of the change that was made; None if nothing is to be taken back.
    """

    path: str
    done: int | None = None


@dataclass(frozen=True, slots=True)
class Download:
    """A file to be kept.

    Attributes:
        name: Name of the file.
        media_type: Media type of its content.
        content: What is in it.
        headers: Further headers.
    """

    name: str
    media_type: str
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Shown: TypeAlias = Screen | Redirect | Download
"""Result of a view."""

_Show = TypeVar("_Show", bound=Callable[[Call], Shown])


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """One view or one action of the page.

    Attributes:
        method: HTTP method; only a `POST` changes anything.
        path: Path with its parameters in braces.
        name: Name in the metrics.
        run: Function that does it, on a thread.
        right: Right that it needs.
        query: Form of its query.
        is_whole: Whether it is about all scopes, so that a token bound to a scope is refused.
    """

    method: Literal["GET", "POST"]
    path: str
    name: str
    run: Callable[[Call], Shown]
    right: Right
    query: type[BaseModel] = ScopeQuery
    is_whole: bool = False


class Fields:
    """Fields of a form that was sent."""

    def __init__(self, values: Mapping[str, builtins.list[str]]) -> None:
        self._values = values

    def get(self, name: str, default: str = "") -> str:
        """Return a field with the line breaks of a text in Python; the default if the form has none."""
        return self._values.get(name, [default])[-1].replace("\r\n", "\n")

    def list(self, name: str) -> builtins.list[str]:
        """Return all values of a field, such as checked boxes."""
        return self._values.get(name, [])

    def words(self, name: str) -> builtins.list[str]:
        """Return the parts of a field that commas separate."""
        return [part for each in self.get(name).split(",") if (part := each.strip())]


def view(
    views: list[PageView], method: Literal["GET", "POST"], path: str, *, right: Right, **options: Any
) -> Callable[[_Show], _Show]:
    """Return a decorator that adds a function to a list of views."""

    def add(run: _Show) -> _Show:
        name = f"page_{run.__name__}"
        views.append(PageView(method=method, path=path, name=name, run=run, right=right, **options))
        return run

    return add


def perform(
    call: Call,
    run: Callable[[Call], Answer],
    *,
    path: Mapping[str, str] | None = None,
    body: Any = None,
    if_match: str | None = None,
    **query: Any,
) -> Answer:
    """Do an operation of the API for whoever looks at the page, with the checks that the API makes.

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
        raise problems.build_field_problem(error) from None
    return operation.run(
        replace(
            call,
            method=operation.method,
            path=call.path if path is None else path,
            query=parameters,
            body=value,
            headers={} if if_match is None else {"if-match": if_match},
        )
    )


def read_moment(text: str, name: str) -> datetime | int | None:
    """Return the time or the number of a change that a field of a form names; a time without zone is in UTC."""
    text = text.strip()
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Problem(
            422, f"{name} is {text[:40]!r}: give a time such as 2026-11-20 14:30, or the number of a change."
        ) from None
    return to_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC), name=name)


def read_time(text: str, name: str) -> datetime | None:
    """Return the time that a field of a form names; one without zone is in UTC."""
    moment = read_moment(text, name)
    if isinstance(moment, int):
        raise Problem(422, f"{name} is {moment}: give a time such as 2026-11-20 14:30.")
    return moment


def is_allowed(call: Call, right: Right, *, is_whole: bool = False) -> bool:
    """Whether whoever looks at the page may do something, so that a view offers it."""
    return right in call.caller.rights and not (is_whole and call.caller.scope)


def find_last_change(call: Call, id: str) -> int | None:
    """Return the number of the newest change of a thing; None if there is none."""
    rows = call.memory.history.log(id, limit=1, newest_first=True)
    return rows[0].sequence if rows else None
