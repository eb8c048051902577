"""Forget: find something everywhere, see what goes and what stays, erase it."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from reverie.domain.errors import NotFound
from reverie.domain.scope import EVERY_SCOPE
from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call
from reverie.interfaces.http.page.views import Fields, Plain, Redirect, Screen, ViewList, perform
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import Texts

VIEWS = ViewList()

_NOTHING: dict[str, Any] = {"going": [], "left": [], "counts": {}, "notes": [], "digest": ""}
_SELECTABLE = ("record", "turn", "paragraph")
"""Subjects that are erased by their ids; the others go with the text."""


class ForgetQuery(Plain):
    """Query of a preview: what is to be forgotten, in one of these ways."""

    what: str = ""
    ids: Texts = ()
    session: str = ""
    scope: str = ""


@VIEWS.add("GET", "/forget", "forget", is_whole=True)
def show_forget(call: Call[Plain]) -> Screen:
    """Show the form that asks what to forget."""
    return Screen("forget.html", subjects=call.server.overview(call.view).subjects)


@VIEWS.add("GET", "/forget/preview", "forget", is_whole=True)
def preview_forgetting(call: Call[ForgetQuery]) -> Screen:
    """Show everything that would be erased; nothing is erased yet."""
    query = call.query
    order = {"match": query.what.strip(), "session": query.session, "scope": query.scope}
    return _draw_preview(call, _build_order({**order, "ids": list(query.ids)}))


@VIEWS.add("POST", "/forget/preview", "forget", is_whole=True)
def update_preview(call: Call[Plain], fields: Fields) -> Screen:
    """Show what would be erased of the items that are still checked."""
    return _draw_preview(call, _read_order(fields), chosen=fields.list("ids"))


@VIEWS.add("POST", "/forget", "forget", is_whole=True)
def forget(call: Call[Plain], fields: Fields) -> Screen:
    """Erase what the preview showed, once its number was typed."""
    order, chosen = _read_order(fields), fields.list("ids")
    effective = _narrow(order, _find(call, order), set(chosen))
    report = _find(call, effective)
    if report["digest"] != fields.get("digest"):
        alert = "The selection differs from what was counted. Look at the new count, then type it."
        return _draw_preview(call, order, chosen=chosen, alert=alert)
    if fields.get("count").strip() != str(len(report["going"])):
        alert = f"The number does not fit. Type {len(report['going'])} to erase these items."
        return _draw_preview(call, order, chosen=chosen, alert=alert)
    done = perform(call, administration.forget, **effective, digest=report["digest"])
    return Screen("forgotten.html", report=done)


@VIEWS.add("POST", "/forget/drop", "forget", is_whole=True)
def drop_request(call: Call[Plain], fields: Fields) -> Redirect:
    """Drop a request to forget that was made in a conversation; nothing is erased."""
    perform(call, administration.drop_forget_request, path=fields.get("id"))
    return Redirect("/forget", done=0)


def _build_order(given: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the operation; what is to be forgotten is named in one way."""
    named = {name: value for name, value in given.items() if value}
    if len(named) != 1:
        raise Problem(422, "Nothing was named. Go back and say what to forget.")
    return {**named, "turns": True}


def _read_order(fields: Fields) -> dict[str, Any]:
    order: dict[str, Any] = {name: fields.get(name).strip() for name in ("match", "session", "scope")}
    return _build_order({**order, "ids": fields.list("asked")})


def _find(call: Call, order: dict[str, Any]) -> dict[str, Any]:
    """Return what the operation would erase; nothing if nothing has the text."""
    with suppress(NotFound):
        report: dict[str, Any] = perform(call, administration.preview_erasure, **order)
        return report
    return dict(_NOTHING)


def _narrow(order: dict[str, Any], report: dict[str, Any], chosen: set[str]) -> dict[str, Any]:
    """Return the order for the items that are checked; the whole one if nothing that it finds was cleared."""
    found = {each["id"] for each in report["going"] if each["subject"] in _SELECTABLE}
    if found == chosen or not found:
        return order
    if not chosen:
        raise Problem(422, "Nothing is selected. Go back and check what should be erased.")
    return {"ids": sorted(chosen), "turns": True}


def _find_sure(call: Call, order: dict[str, Any], report: dict[str, Any]) -> set[str]:
    """Return the ids of the items that have the text as words of their own, not as a part of longer words."""
    ids = {each["id"]: each for each in report["going"] if each["subject"] in _SELECTABLE}
    what = order.get("match", "")
    if not (what[:1].isalpha() and what[:1].lower() != what[:1].upper()):
        return set(ids)  # a number, or a script without spaces between words
    pattern = re.compile(rf"(?<!\w){re.escape(what)}(?!\w)", re.IGNORECASE)
    reader = call.memory.scoped(EVERY_SCOPE)
    values = ((name, reader.get(name) or reader.get_turn(name), item) for name, item in ids.items())
    return {name for name, value, item in values if pattern.search(value.content if value else item["text"])}


def _draw_preview(
    call: Call, order: dict[str, Any], *, chosen: list[str] | None = None, alert: str = ""
) -> Screen:
    """Return the preview of an order, with what is surely meant checked, or with the chosen items."""
    report = _find(call, order)
    checked = _find_sure(call, order, report) if chosen is None else set(chosen)
    is_open = bool(checked) or all(each["subject"] not in _SELECTABLE for each in report["going"])
    counted = _find(call, _narrow(order, report, checked)) if is_open and report["going"] else _NOTHING
    going = {(each["subject"], each["id"]) for each in counted["going"]}
    items = [*report["going"], *report["left"]]
    left = [each for each in items if (each["subject"], each["id"]) not in going]
    what = order.get("match") or order.get("session") or order.get("scope") or ""
    shown: dict[str, Any] = {"what": what, "order": order, "counted": counted, "left": left, "alert": alert}
    selectable = {each["id"] for each in items if each["subject"] in _SELECTABLE}
    return Screen("forget-preview.html", status=409 if alert else 200, **shown, selectable=selectable)
