"""Upkeep: pages and the scratchpad, erasure, access tokens, diagnosis and settings."""

from __future__ import annotations

from dataclasses import fields as list_fields
from typing import Any

from reverie.domain.page import is_log
from reverie.domain.record import ORIGINS
from reverie.domain.scope import is_within, visible_scopes
from reverie.interfaces import formatting
from reverie.interfaces.http import administration, conversations, records
from reverie.interfaces.http.operations import Call, Empty, Form, ScopeQuery, compute_etag
from reverie.interfaces.http.page.rendering import TEXTS, quote_path
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, is_allowed, perform
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.tokens import RIGHTS
from reverie.settings import Settings

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
        lines=call.numbers.show_all(call.memory.history.blame(name).to_dict())["lines"],
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


# -- erasure ---------------------------------------------------------------------------------------------


WAYS = ("ids", "session", "scope", "match")


class ForgetQuery(Form):
    """Query of the form: what it is filled with."""

    ids: str = ""
    session: str = ""
    scope: str = ""
    match: str = ""


@VIEWS.add("GET", "/forget", "forget", query=ForgetQuery, is_whole=True)
def show_forget_form(call: Call) -> Screen:
    """Show the form that says what to forget."""
    given = call.query.model_dump()
    return Screen(
        "forget.html",
        given=given,
        way=next((name for name in WAYS if given[name]), "match"),
        ways=WAYS,
        report=None,
        order={},
        scope="",
    )


def _read_order(fields: Fields) -> dict[str, Any]:
    """Return the body of the operation; what is to be forgotten is named in one way."""
    way, what = fields.get("way"), fields.get("what").strip()
    ids = fields.list("ids") or [part for each in what.split(",") for part in each.split()]
    if way not in WAYS or not (ids if way == "ids" else what):
        raise Problem(422, "Nothing was named. Go back, choose a way and say what to forget.")
    return {way: ids if way == "ids" else what, "turns": fields.get("turns") == "yes"}


@VIEWS.add("POST", "/forget/preview", "forget", query=Form, is_whole=True)
def preview_forgetting(call: Call, fields: Fields) -> Screen:
    """Show what would be erased, and what is left."""
    order = _read_order(fields)
    report = perform(call, administration.preview_erasure, body=order)
    return _draw_report(fields, report)


@VIEWS.add("POST", "/forget", "forget", query=Form, is_whole=True)
def forget(call: Call, fields: Fields) -> Screen:
    """Erase what the preview showed, once its count was typed."""
    order = _read_order(fields)
    report = perform(call, administration.preview_erasure, body=order)
    if report["digest"] != fields.get("digest"):
        return _draw_report(fields, report, alert=TEXTS["erasure"]["outdated"])
    if fields.get("count").strip() != str(len(report["going"])):
        return _draw_report(fields, report, alert=TEXTS["erasure"]["wrong_count"])
    done = perform(call, administration.forget, body={**order, "digest": fields.get("digest")})
    return _draw_report(fields, done)


def _draw_report(fields: Fields, report: dict[str, Any], *, alert: str = "") -> Screen:
    order = {name: fields.get(name) for name in ("way", "what", "turns")}
    order["what"] = order["what"] or " ".join(fields.list("ids"))
    return Screen(
        "forget.html", status=409 if alert else 200, report=report, order=order, alert=alert, scope=""
    )


# -- tokens, scopes and health ---------------------------------------------------------------------------


@VIEWS.add("GET", "/tokens", "admin", query=Empty, is_whole=True)
def show_tokens(call: Call) -> Screen:
    """Show all tokens."""
    return _draw_tokens(call)


def _draw_tokens(call: Call, made: dict[str, Any] | None = None) -> Screen:
    now = call.memory.now()
    valid = {each.id for each in call.server.tokens.list() if each.is_valid(now)}
    return Screen(
        "tokens.html",
        tokens=perform(call, administration.list_tokens)["items"],
        valid=valid,
        made=made,
        rights=RIGHTS,
        origins=ORIGINS,
    )


@VIEWS.add("POST", "/tokens", "admin", query=Empty, is_whole=True)
def create_token(call: Call, fields: Fields) -> Screen:
    """Create a token and show it, once."""
    body = {
        "label": fields.get("label"),
        "scope": fields.get("scope").strip(),
        "rights": fields.list("rights"),
        "origin": fields.get("origin"),
        "expires": fields.get("expires").strip() or None,
    }
    return _draw_tokens(call, perform(call, administration.create_token, body=body))


@VIEWS.add("POST", "/tokens/{id}/revoke", "admin", query=Empty, is_whole=True)
def revoke_token(call: Call) -> Redirect:
    """Revoke a token."""
    perform(call, administration.revoke_token)
    return Redirect("/tokens")


@VIEWS.add("GET", "/scopes", "read")
def show_scopes(call: Call) -> Screen:
    """Show the scopes as a tree, each to be looked through."""
    own = call.caller.scope
    counts = perform(call, administration.list_scopes)["scopes"]
    names = {part for name in counts for part in visible_scopes(name) if is_within(part, own)} - {own}
    rows = [
        {
            "name": name,
            "within": name.removeprefix(f"{own}/") if own else name,
            "depth": name.count("/") - own.count("/") - bool(own),
            "records": counts.get(name, 0),
        }
        for name in sorted(names, key=lambda name: name.split("/"))
    ]
    return Screen("scopes.html", rows=rows, own=own, records=counts.get(own, 0))


@VIEWS.add("GET", "/health", "admin", query=Empty, is_whole=True)
def show_health(call: Call) -> Screen:
    """Show the index, what failed, and the settings."""
    return _draw_health(call)


@VIEWS.add("POST", "/health", "admin", query=Empty, is_whole=True)
def examine(call: Call) -> Screen:
    """Examine the memory, which reads all of it, and show what is wrong."""
    return _draw_health(call, perform(call, administration.diagnose))


def _format_setting(value: object) -> str:
    """Return a value as a settings file has it; a dash for none."""
    if value is None or value == ():
        return "–"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _draw_health(call: Call, diagnosis: dict[str, Any] | None = None) -> Screen:
    settings, usual = call.memory.settings, Settings()
    rows = [
        {
            "name": each.name,
            "value": _format_setting(getattr(settings, each.name)),
            "usual": _format_setting(getattr(usual, each.name)),
        }
        for each in list_fields(Settings)
        if not each.name.startswith("_")
    ]
    return Screen(
        "health.html",
        diagnosis=diagnosis,
        failed=call.memory.admin.failures(),
        index=call.memory.admin.index_status(),
        path=call.memory.path,
        bytes=call.server.folder_size(),
        conflicts=len(call.memory.folder.conflicts()) if call.memory.folder is not None else 0,
        settings=sorted(rows, key=lambda row: (row["value"] == row["usual"], row["name"])),
    )
