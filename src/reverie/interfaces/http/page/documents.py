"""Documents: pages such as `MEMORY.md`, logs, and the scratchpad."""

from __future__ import annotations

from reverie.domain.page import is_log
from reverie.interfaces import formatting
from reverie.interfaces.http import conversations, pages
from reverie.interfaces.http.operations import Call, ScopeQuery
from reverie.interfaces.http.page.rendering import TEXTS, quote_path
from reverie.interfaces.http.page.views import (
    Fields,
    PageView,
    Redirect,
    Screen,
    find_last_change,
    is_allowed,
    perform,
    view,
)
from reverie.interfaces.http.problems import Problem

VIEWS: list[PageView] = []


@view(VIEWS, "GET", "/pages", right="read")
def show_pages(call: Call) -> Screen | Redirect:
    """Show the names of all pages and logs, and the scratchpad."""
    return Screen(
        template="pages.html",
        title=TEXTS["documents"]["title"],
        values={
            "pages": perform(call, pages.list_pages).body["items"],
            "entries": perform(call, conversations.list_entries).body["items"],
            "may_write": is_allowed(call, "write", is_whole=True),
        },
    )


@view(VIEWS, "GET", "/pages/{name:path}", right="read")
def show_page(call: Call) -> Screen | Redirect:
    """Show a page or a log with who wrote each line."""
    answer = perform(call, pages.get_page)
    name = answer.body["name"]
    return Screen(
        template="page.html",
        title=name,
        values={
            "page": answer.body,
            "lines": call.memory.history.blame(name).to_dict()["lines"],
            "may_change": is_allowed(call, "write", is_whole=True),
            "is_log": is_log(name),
        },
    )


class PageEditQuery(ScopeQuery):
    """Query of the form of a page; without a name, that of a new one."""

    name: str = ""


@view(VIEWS, "GET", "/page-edit", right="write", query=PageEditQuery, is_whole=True)
def show_page_form(call: Call) -> Screen | Redirect:
    """Show the form of a page."""
    name = call.query.name
    if not name:
        return _draw_form("", "", "")
    answer = perform(call, pages.get_page, path={"name": name})
    return _draw_form(name, answer.body["content"], answer.headers["ETag"])


def _draw_form(name: str, content: str, etag: str, *, stored: str | None = None) -> Screen:
    return Screen(
        template="page_form.html",
        title=TEXTS["documents"]["edit" if name else "new"],
        values={"name": name, "content": content, "etag": etag, "stored": stored},
        status=200 if stored is None else 412,
    )


@view(VIEWS, "POST", "/page-edit", right="write", is_whole=True)
def change_page(call: Call) -> Screen | Redirect:
    """Write a page, unless somebody else has changed it since the form was drawn."""
    fields: Fields = call.body
    name, content, etag = fields.get("name"), fields.get("content"), fields.get("etag")
    path = {"name": name}
    if etag:
        stored = perform(call, pages.get_page, path=path)
        if stored.headers["ETag"] == etag and content == formatting.escape_text(stored.body["content"]):
            return Redirect("/pages/" + quote_path(name))  # unchanged
    try:
        perform(call, pages.write_page, path=path, body={"content": content}, if_match=etag or None)
    except Problem as problem:
        if problem.status not in (412, 428):
            raise
        stored = perform(call, pages.get_page, path=path)
        return _draw_form(name, content, stored.headers["ETag"], stored=stored.body["content"])
    return _return_to(call, name)


@view(VIEWS, "POST", "/page-append", right="write", is_whole=True)
def append_to_page(call: Call) -> Screen | Redirect:
    """Add a line to a page, or a paragraph to a log."""
    fields: Fields = call.body
    name = fields.get("name")
    perform(call, pages.append_to_page, path={"name": name}, body={"text": fields.get("text")})
    return _return_to(call, name)


@view(VIEWS, "POST", "/entry-delete", right="write")
def delete_entry(call: Call) -> Screen | Redirect:
    """Remove a value of the scratchpad."""
    fields: Fields = call.body
    perform(call, conversations.delete_entry, path={"key": fields.get("key")})
    return Redirect("/pages")


def _return_to(call: Call, name: str) -> Redirect:
    return Redirect("/pages/" + quote_path(name), done=find_last_change(call, name))
