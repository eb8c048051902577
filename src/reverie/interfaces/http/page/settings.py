"""Settings and history: appearance, every change, days, unverified words, scopes, tokens, pages, health."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields as list_fields
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from reverie.domain.change import Subject
from reverie.domain.errors import translate_os_errors
from reverie.domain.page import is_log
from reverie.domain.record import ORIGINS, UNTRUSTED, Record
from reverie.domain.scope import EVERY_SCOPE, is_within, visible_scopes
from reverie.interfaces import formatting
from reverie.interfaces.http import administration, changes, conversations, records
from reverie.interfaces.http.operations import Call, Empty, ScopeQuery, compute_etag
from reverie.interfaces.http.page import views
from reverie.interfaces.http.page.feed import describe_change
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, perform
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import ActivityQuery, RecordPatch
from reverie.interfaces.http.tokens import RIGHTS
from reverie.settings import Settings

VIEWS = ViewList()

_MOST_ROWS = 100
_LAST_DAY = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


@VIEWS.add("GET", "/settings", "read")
def show_settings(call: Call) -> Screen:
    """Show everything else, each row with its state."""
    last = perform(call, changes.list_changes, limit=1, newest_first=True)["items"]
    return Screen(
        "settings.html",
        last=next(iter(last), None),
        counts=call.server.overview(call.view).counts,
        untrusted=UNTRUSTED,
        doubts=len(_list_doubts(call)),
        scopes=sum(map(call.is_own, call.server.overview(call.view).scopes)),
        pages=len(perform(call, records.list_pages)["items"]),
        changed=[row for row in _list_settings(call) if not row[3]],
    )


# -- history ---------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/history", "read")
def show_history(call: Call) -> Screen:
    """Show what was changed by day, the newest first."""
    query: views.ViewQuery = call.query
    page = perform(
        call,
        changes.list_changes,
        limit=_MOST_ROWS,
        newest_first=True,
        actor=query.actor,
        id=query.id,
        subject=query.subject,
        before=query.before,
        since=views.read_time(query.since, "since"),
        until=_read_end(query.until),
    )
    shown = [describe_change(item) for item in page["items"]]
    return Screen("history.html", changes=shown, following=page["next"], subjects=get_args(Subject))


def _read_end(text: str) -> datetime | None:
    """Return the time before which changes are shown; a day is shown to its end."""
    moment = views.read_time(text, "until")
    is_day = moment is not None and len(text.strip()) == len("2026-11-20")
    return min(moment, _LAST_DAY) + timedelta(days=1) if moment is not None and is_day else moment


@VIEWS.add("GET", "/activity", "admin", is_whole=True, query=ActivityQuery)
def show_activity(call: Call) -> Screen:
    """Show searches, prompts and saves of each of the last days."""
    return Screen(
        "activity.html", items=perform(call, administration.get_activity, days=call.query.days)["items"]
    )


# -- trust -------------------------------------------------------------------------------------------------


def _list_doubts(call: Call) -> Sequence[tuple[Record, Record]]:
    """Return pairs of live records of which the newer may have replaced the older."""
    view = call.view
    older = [each for each in view.list(limit=_MOST_ROWS * 5, parts=True) if each.perhaps_replaced_by]
    pairs = [(each, view.get(each.perhaps_replaced_by)) for each in older]
    return [(a, b) for a, b in pairs if b is not None and not b.archived]


@VIEWS.add("GET", "/contradictions", "read")
def show_contradictions(call: Call) -> Screen:
    """Show pairs of memories of which one may be out of date."""
    return _draw_pairs(call, _list_doubts(call)[:20], "Contradictions")


@VIEWS.add("GET", "/compare", "read")
def compare(call: Call) -> Screen:
    """Show two memories side by side."""
    pair = [records.get_record_of(call, call.view, name) for name in (call.query.left, call.query.right)]
    return _draw_pairs(call, [(pair[0], pair[1])], "Compare")


def _draw_pairs(call: Call, pairs: Sequence[tuple[Record, Record]], title: str) -> Screen:
    shown = [(a.to_dict(), b.to_dict(), compute_etag(a), compute_etag(b)) for a, b in pairs]
    return Screen("contradictions.html", title=title, pairs=shown)


@VIEWS.add("POST", "/contradictions", "write")
def settle(call: Call, fields: Fields) -> Redirect:
    """Decide which of two memories is right: the other one ends, or both stay."""
    keep, other = fields.get("left"), fields.get("right")
    versions = [fields.get("version_left"), fields.get("version_right")]
    if fields.get("keep") == "right":
        keep, other, versions = other, keep, versions[::-1]
    verdict = "both" if fields.get("keep") == "both" else "ended"
    body = {"holds": keep, "other": other, "verdict": verdict, "versions": versions}
    perform(call, records.settle_conflict, body=body)
    return Redirect("/contradictions")


@VIEWS.add("GET", "/edits", "admin", is_whole=True, query=ScopeQuery)
def show_edits(call: Call) -> Screen:
    """Show hand edits of files that met other changes."""
    folder = call.memory.folder
    edits = [_describe_edit(call, each) for each in folder.conflicts()] if folder is not None else []
    return Screen("edits.html", edits=edits)


def _describe_edit(call: Call, conflict: Any) -> dict[str, Any]:
    """Return a conflict with both versions of its fields; none if the other version cannot be taken over."""
    record, other = call.memory.scoped(EVERY_SCOPE).get(conflict.id), _read_version(call, conflict.path)
    about: dict[str, Any] = {"path": conflict.path, "of": conflict.of, "fields": [], "version": ""}
    if record is None or not conflict.fields or any(name not in other for name in conflict.fields):
        return about | {"scope": ""}
    live = record.to_dict()
    may_take = all(name in RecordPatch.model_fields for name in conflict.fields)
    return about | {
        "fields": [(name, live[name], other[name]) for name in conflict.fields],
        "version": compute_etag(live) if may_take else "",
        "scope": record.scope,
    }


def _read_version(call: Call, path: str) -> dict[str, Any]:
    """Return the record in a conflict file; nothing if none can be read."""
    assert call.memory.path is not None  # a memory without a folder has no files
    file = call.memory.path / path
    try:
        found = None if file.is_symlink() else json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@VIEWS.add("POST", "/edits", "admin", is_whole=True)
def settle_edit(call: Call, fields: Fields) -> Redirect:
    """Keep the live version of a record, or take over the one in the file; the file is removed."""
    folder, path = call.memory.folder, fields.get("path")
    conflict = None if folder is None else next((c for c in folder.conflicts() if c.path == path), None)
    if conflict is None:
        raise Problem(404, "This edit was settled already.")
    if fields.get("keep") == "other":
        about, other = _describe_edit(call, conflict), _read_version(call, conflict.path)
        if not about["version"]:
            raise Problem(422, "Its file cannot be taken over here. Edit the memory, and remove the file.")
        perform(
            call,
            records.update_record,
            path={"id": conflict.id},
            body={name: other[name] for name in conflict.fields},
            if_match=fields.get("version"),
            scope=about["scope"],
        )
    elif fields.get("keep") != "live":
        raise Problem(422, "Choose which version to keep.")
    assert call.memory.path is not None  # a memory without a folder has no files
    with translate_os_errors(f"{path!r} cannot be removed"):
        (call.memory.path / path).unlink(missing_ok=True)
    return Redirect("/edits")


# -- where it is -------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/scopes", "read")
def show_scopes(call: Call) -> Screen:
    """Show the scopes as a tree, each to be looked through."""
    own = call.caller.scope
    counts = call.server.overview(call.view).scopes
    names = {part for name in counts for part in visible_scopes(name) if is_within(part, own)} - {own}
    paths = sorted(names, key=lambda name: name.split("/"))
    rows = [(name.removeprefix(f"{own}/") if own else name, counts.get(name, 0)) for name in paths]
    return Screen("scopes.html", rows=rows, own=own, records=counts.get(own, 0))


@VIEWS.add("GET", "/access", "admin", query=Empty, is_whole=True)
def show_tokens(call: Call) -> Screen:
    """Show all tokens."""
    return Screen("access.html", made=None, rights=RIGHTS, origins=ORIGINS)


@VIEWS.add("POST", "/access", "admin", query=Empty, is_whole=True)
def create_token(call: Call, fields: Fields) -> Screen:
    """Create a token and show it, once."""
    body = {
        "label": fields.get("label"),
        "scope": fields.get("scope").strip(),
        "rights": fields.list("rights"),
        "origin": fields.get("origin"),
        "expires": fields.get("expires").strip() or None,
    }
    made = perform(call, administration.create_token, body=body)
    return Screen("access.html", made=made, rights=RIGHTS, origins=ORIGINS)


@VIEWS.add("POST", "/access/{id}/revoke", "admin", query=Empty, is_whole=True)
def revoke_token(call: Call) -> Redirect:
    """Revoke a token."""
    perform(call, administration.revoke_token)
    return Redirect("/access", done=0)


@VIEWS.add("GET", "/pages", "read")
def show_pages(call: Call) -> Screen:
    """Show the names of all pages and logs, and the scratchpad."""
    pages, entries = perform(call, records.list_pages), perform(call, conversations.list_entries)
    return Screen("pages.html", pages=pages["items"], entries=entries["items"])


@VIEWS.add("GET", "/page-edit", "write", query=views.ViewQuery, is_whole=True)
def show_page_form(call: Call) -> Screen:
    """Show the form of a page."""
    name = call.query.name
    page = perform(call, records.get_page, path={"name": name}) if name else {"content": ""}
    return _draw_page_form(name, page["content"], compute_etag(page) if name else "")


def _draw_page_form(
    name: str, content: str, etag: str, *, stored: str | None = None, problem: Problem | None = None
) -> Screen:
    status = 200 if problem is None else problem.status
    shown = {"title": name or "New page", "name": name, "content": content, "etag": etag, "stored": stored}
    return Screen("page_form.html", status=status, **shown, problem=problem)


@VIEWS.add("POST", "/page-edit", "write", is_whole=True)
def change_page(call: Call, fields: Fields) -> Screen | Redirect:
    """Write a page, unless another writer has changed it since the form was drawn."""
    name, content, etag = fields.get("name"), fields.get("content"), fields.get("etag")
    path, target = {"name": name}, "/pages/" + quote_path(name)
    if etag:
        stored = perform(call, records.get_page, path=path)
        if compute_etag(stored) == etag and content == formatting.escape_text(stored["content"]):
            return Redirect(target)  # unchanged
    try:
        if fields.list("text"):
            perform(call, records.append_to_page, path=path, body={"text": fields.get("text")})
        else:
            perform(call, records.write_page, path=path, body={"content": content}, if_match=etag or None)
    except Problem as problem:
        if problem.status == 422:
            return _draw_page_form(name, content, etag, problem=problem)
        if problem.status not in (412, 428):
            raise
        stored = perform(call, records.get_page, path=path)
        conflict = Problem(412, problem.detail)
        return _draw_page_form(
            name, content, compute_etag(stored), stored=stored["content"], problem=conflict
        )
    return Redirect(target)


@VIEWS.add("POST", "/entry-delete", "write")
def delete_entry(call: Call, fields: Fields) -> Redirect:
    """Remove a value of the scratchpad."""
    perform(call, conversations.delete_entry, path={"key": fields.get("key")})
    return Redirect(views.choose_local_path(fields.get("next"), "/pages"))


@VIEWS.add("GET", "/pages/{name:path}", "read")
def show_page(call: Call) -> Screen:
    """Show a page or a log with the author of each line."""
    page = perform(call, records.get_page)
    lines = call.numbers.show_all(call.memory.history.blame(page["name"]).to_dict())["lines"]
    return Screen("page.html", title=page["name"], page=page, lines=lines, is_log=is_log(page["name"]))


@VIEWS.add("GET", "/health", "admin", query=Empty, is_whole=True)
def show_health(call: Call) -> Screen:
    """Show the index, failures and the settings."""
    return _draw_health(call)


@VIEWS.add("POST", "/health", "admin", query=Empty, is_whole=True)
def examine(call: Call) -> Screen:
    """Examine the memory, which reads all of it, and show the problems."""
    return _draw_health(call, perform(call, administration.diagnose))


def _list_settings(call: Call) -> list[tuple[str, Any, Any, bool]]:
    """Return each setting with its value, its default and whether they are the same; the changed ones first."""
    settings, usual = call.memory.settings, Settings()
    names = [each.name for each in list_fields(Settings) if not each.name.startswith("_")]
    rows = [(name, getattr(settings, name), getattr(usual, name)) for name in names]
    return sorted(((*row, row[1] == row[2]) for row in rows), key=lambda row: (row[3], row[0]))


def _draw_health(call: Call, diagnosis: Mapping[str, Any] | None = None) -> Screen:
    size = call.server.folder_size()
    return Screen("health.html", diagnosis=diagnosis, bytes=size, settings=_list_settings(call))
