"""Operations on pages and logs, which belong to everybody."""

from __future__ import annotations

from typing import Any

from reverie.domain.errors import NotFound
from reverie.domain.page import is_log
from reverie.interfaces.http import schemas
from reverie.interfaces.http.conditions import answer_value, check_match, refusing_changed
from reverie.interfaces.http.operations import Answer, Call, Empty, OperationList
from reverie.interfaces.http.problems import Problem

OPERATIONS = OperationList()

_PAGE = "/v1/pages/{name:path}"


@OPERATIONS.add("GET", "/v1/pages", "read", query=Empty, answer=schemas.PageList)
def list_pages(call: Call) -> Any:
    """List all pages and logs."""
    return {"items": call.whole.pages.overview()}


def _answer_page(call: Call, name: str) -> Answer:
    return answer_value(call, _serialize(name, call.whole.pages.read(name)))


@OPERATIONS.add(
    "POST", f"{_PAGE}/append", "write", answer=schemas.PageText, is_whole=True, replay=_answer_page
)
def append_to_page(call: Call, given: schemas.LineInput) -> Answer:
    """Add a line to the end of a page, or a paragraph to the end of a log."""
    call.require_trust()
    name = call.path["name"]
    call.whole.pages.append(name, given.text, at=given.at)
    answer = _answer_page(call, name)
    answer.reference = name
    return answer


@OPERATIONS.add("GET", _PAGE, "read", query=Empty, answer=schemas.PageText)
def get_page(call: Call) -> Answer:
    """Return the text of a page or a log."""
    _require_page(call)
    return _answer_page(call, call.path["name"])


@OPERATIONS.add("PUT", _PAGE, "write", answer=schemas.PageText, statuses=(200, 201), is_whole=True)
def write_page(call: Call, given: schemas.PageInput) -> Answer:
    """Write a page as a whole; an existing one needs `If-Match`."""
    call.require_trust()
    name, pages = call.path["name"], call.whole.pages
    exists = name in pages.names() and not is_log(name)
    old = pages.read(name) if exists else None
    if exists:
        if "if-match" not in call.headers:
            raise Problem(428, f"The page {name!r} exists: read it, and send its ETag as If-Match.")
        check_match(call, _serialize(name, old or ""))
    result = pages.write(name, given.content, expected=old)
    answer = _answer_page(call, name)
    answer.status = 201 if result.outcome == "created" else 200
    return answer


@OPERATIONS.add("DELETE", _PAGE, "write", answer=schemas.Count, is_whole=True, needs_match=True)
def delete_page(call: Call) -> Any:
    """Remove a page; undo brings it back."""
    call.require_trust()
    _require_page(call)
    name, pages = call.path["name"], call.whole.pages
    old = pages.read(name)
    expected = old if check_match(call, _serialize(name, old)) else None
    with refusing_changed():
        return {"removed": int(pages.delete(name, expected=expected))}


def _require_page(call: Call) -> None:
    """Raise `NotFound` if there is no page or log of the name in the path."""
    name = call.path["name"]
    if name not in call.whole.pages.names():
        raise NotFound(f"there is no page {name!r}: list the pages to see which there are")


def _serialize(name: str, content: str) -> dict[str, Any]:
    return {"name": name, "content": content}
