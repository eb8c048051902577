"""Erasure: what to forget, a preview of it, and doing it."""

from __future__ import annotations

from typing import Any

from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call, Form
from reverie.interfaces.http.page.rendering import TEXTS
from reverie.interfaces.http.page.views import Fields, Screen, ViewList, perform
from reverie.interfaces.http.problems import Problem

VIEWS = ViewList()

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
