"""Documents: pages such as `MEMORY.md`, logs, and the scratchpad."""

from __future__ import annotations

from reverie.domain.page import is_log
from reverie.interfaces import formatting
from reverie.interfaces.http import conversations, records
from reverie.interfaces.http.operations import Call, ScopeQuery, compute_etag
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, is_allowed, perform
from reverie.interfaces.http.problems import Problem

VIEWS = ViewList()


@VIEWS.add("GET", "/pages", "read")
def show_pages(call: Call) -> Screen:
    """Show the names of all pages and logs, and the scratchpad."""
    return Screen(
        "pages.html",
        pages=perform(call, records.list_pages)["items"],
        entries=perform(call, conversations.list_entries)["items"],
        may_write=is_allowed(call, "write", is_whole=True),
    )


@VIEWS.add("GET", "/pages/{name:path}", "read")
def show_page(call: Call) -> Screen:
    """Show a page or a log with who wrote each line."""
    page = perform(call, records.get_page)
    name = page["name"]
    return Screen(
        "page.html",
        page=page,
        lines=call.memory.history.blame(name).to_dict()["lines"],
        may_change=is_allowed(call, "write", is_whole=True),
        is_log=is_log(name),
    )


class PageEditQuery(ScopeQuery):
    """Query of the form of a page; without a name, that of a new one."""

    name: str = ""


@VIEWS.add("GET", "/page-edit", "write", query=PageEditQuery, is_whole=True)
def show_page_form(call: Call) -> Screen:
    """Show the form of a page."""
    name = call.query.name
    if not name:
        return _draw_form("", "", "")
    page = perform(call, records.get_page, path={"name": name})
    return _draw_form(name, page["content"], compute_etag(page))


def _draw_form(
    name: str, content: str, etag: str, *, stored: str | None = None, problem: Problem | None = None
) -> Screen:
    return Screen(
        "page_form.html",
        status=200 if problem is None else problem.status,
        problem=problem,
        name=name,
        content=content,
        etag=etag,
        stored=stored,
    )


@VIEWS.add("POST", "/page-edit", "write", is_whole=True)
def change_page(call: Call, fields: Fields) -> Screen | Redirect:
    """Write a page, unless somebody else has changed it since the form was drawn."""
    name, content, etag = fields.get("name"), fields.get("content"), fields.get("etag")
    path = {"name": name}
    if etag:
        stored = perform(call, records.get_page, path=path)
        if compute_etag(stored) == etag and content == formatting.escape_text(stored["content"]):
            return Redirect("/pages/" + quote_path(name))  # unchanged
    try:
        perform(call, records.write_page, path=path, body={"content": content}, if_match=etag or None)
    except Problem as problem:
        if problem.status == 422:
            return _draw_form(name, content, etag, problem=problem)
        if problem.status not in (412, 428):
            raise
        stored = perform(call, records.get_page, path=path)
        conflict = Problem(412, problem.detail)
        return _draw_form(name, content, compute_etag(stored), stored=stored["content"], problem=conflict)
    return Redirect("/pages/" + quote_path(name))


@VIEWS.add("POST", "/page-append", "write", is_whole=True)
def append_to_page(call: Call, fields: Fields) -> Redirect:
    """Add a line to a page, or a paragraph to a log."""
    name = fields.get("name")
    perform(call, records.append_to_page, path={"name": name}, body={"text": fields.get("text")})
    return Redirect("/pages/" + quote_path(name))


@VIEWS.add("POST", "/entry-delete", "write")
def delete_entry(call: Call, fields: Fields) -> Redirect:
    """Remove a value of the scratchpad."""
    perform(call, conversations.delete_entry, path={"key": fields.get("key")})
    return Redirect("/pages")
