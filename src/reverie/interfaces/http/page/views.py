"""Views of the page: what each is, what it returns, and how it does what the API does."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict
from starlette.datastructures import UploadFile

from reverie.domain.errors import InvalidInput
from reverie.domain.record import Kind, Origin
from reverie.interfaces.http.operations import (
    OPERATION_OF,
    Call,
    Form,
    Handler,
    OperationList,
    ScopeQuery,
    build_problem,
    parse_body,
)
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
        cookies: Cookies to set, each with its value and lifetime in seconds; None for that of the browser.
    """

    path: str
    done: int | None = None
    undone: int | None = None
    cookies: Mapping[str, tuple[str, int | None]] = field(default_factory=dict)


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


Moment = Annotated[datetime, AfterValidator(lambda at: at if at.tzinfo else at.replace(tzinfo=UTC))]
"""Time; one without zone is in UTC."""


class Plain(Form):
    """Query of a view about all scopes."""

    model_config = ConfigDict(extra="ignore")


class ViewQuery(ScopeQuery):
    """Query of a view within a scope; each view reads what it needs of it."""

    model_config = ConfigDict(extra="ignore")

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
    as_of: Number | Moment | None = None
    cursor: str | None = None
    content: str = ""
    start: Number | None = None
    message: str = ""
    session: str = ""
    tokens: Number | None = None
    batch: tuple[Number, ...] = ()
    change: Number | None = None
    before: Number | None = None
    left: str = ""
    right: str = ""
    name: str = ""


class ViewList(OperationList):
    """Views of one group. A view takes a `Call`, and returns a `Screen` or a `Redirect`."""

    def __init__(self) -> None:
        super().__init__("page_", query=ViewQuery)


def perform(
    call: Call, run: Handler, /, *, path: str | None = None, if_match: str | None = None, **body: Any
) -> Any:
    """Do an operation of the API that changes something for the person at the page, and return the body of its answer.

    Args:
        call: The view's call, which has the operation's right.
        run: Function of the operation.
        path: The `id`, `name` or `key` in its path; None for that of the view.
        if_match: ETag of what it changes.
        body: Its body.

    Raises:
        Problem: the token may not do it, or an argument is wrong.
    """
    operation = OPERATION_OF[run]
    form, names = operation.body, call.path if path is None else dict.fromkeys(("id", "name", "key"), path)
    scope = {"scope": getattr(call.query, "scope", "")} if "scope" in operation.query.model_fields else {}
    headers = {} if if_match is None else {"if-match": if_match}
    own = replace(call, path=names, query=operation.query(**scope), headers=headers)
    try:
        answer = run(own) if form is None else run(own, parse_body(form, json.dumps(body).encode()))
    except InvalidInput as error:
        raise build_problem(error) from None
    return answer.body


def is_allowed(call: Call, right: Right, *, is_whole: bool = False) -> bool:
    """Return whether the signed-in user may do something, so that a view offers it."""
    return right in call.caller.rights and not (is_whole and call.caller.scope)


def choose_local_path(text: str, otherwise: str = "/") -> str:
    """Return a path of this server; the other one for anything else."""
    is_local = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_local else otherwise
