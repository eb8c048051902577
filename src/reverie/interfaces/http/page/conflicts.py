"""Conflicts: records that contradict each other, side by side, to be settled."""

from __future__ import annotations

from typing import Any

from reverie.interfaces import formatting
from reverie.interfaces.http import conflicts, records
from reverie.interfaces.http.operations import Call, ScopeQuery
from reverie.interfaces.http.page.differences import compare_texts
from reverie.interfaces.http.page.rendering import TEXTS
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


class PairQuery(ScopeQuery):
    """Query of a comparison: the ids of two records."""

    first: str
    second: str


@view(VIEWS, "GET", "/conflicts", right="read")
def list_conflicts(call: Call) -> Screen | Redirect:
    """Show pairs of records of which only one seems to hold."""
    found = perform(call, conflicts.list_conflicts).body["items"]
    return Screen(
        template="conflicts.html",
        title=TEXTS["conflicts"]["title"],
        values={"pairs": [_mark(each["records"]) for each in found], "compared": conflicts.MOST_COMPARED},
    )


@view(VIEWS, "GET", "/conflicts/pair", right="read", query=PairQuery)
def show_conflict(call: Call) -> Screen | Redirect:
    """Show two records side by side."""
    return _draw(call, call.query.first, call.query.second)


@view(VIEWS, "POST", "/conflicts/pair", right="write")
def settle_conflict(call: Call) -> Screen | Redirect:
    """Settle a conflict, unless one of the two has changed since it was shown."""
    fields: Fields = call.body
    ids = [fields.get("first"), fields.get("second")]
    choice = fields.get("holds")
    if choice not in ("0", "1", "both", "text"):
        raise Problem(422, TEXTS["conflicts"]["no_choice"])
    holds, other = ids if choice != "1" else ids[::-1]
    versions = [fields.get("first_version"), fields.get("second_version")]
    body: dict[str, Any] = {
        "holds": holds,
        "other": other,
        "verdict": "both" if choice == "both" else fields.get("verdict"),
        "versions": versions if choice != "1" else versions[::-1],
    }
    stored = perform(call, records.get_record, path={"id": holds}).body["content"]
    if choice == "text" and fields.get("content") != formatting.escape_text(stored):
        body["content"] = fields.get("content")
    try:
        perform(call, conflicts.settle_conflict, body=body)
    except Problem as problem:
        if problem.status != 412:
            raise
        return _draw(call, *ids, alert=TEXTS["conflicts"]["outdated"])
    return Redirect("/conflicts", done=max(filter(None, (find_last_change(call, name) for name in ids))))


def _draw(call: Call, first: str, second: str, *, alert: str = "") -> Screen:
    answers = [perform(call, records.get_record, path={"id": name}) for name in (first, second)]
    chosen = [answer.body for answer in answers]
    return Screen(
        template="conflict.html",
        title=TEXTS["conflicts"]["compare"],
        values={
            "sides": _mark(chosen),
            "versions": [answer.headers["ETag"] for answer in answers],
            "content": formatting.escape_text(chosen[0]["content"]),
            "may_settle": is_allowed(call, "write")
            and all(record["scope"] == call.view.scope for record in chosen),
            "alert": alert,
        },
        status=412 if alert else 200,
    )


def _mark(pair: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return two records, each with its text in pieces that the other one has or lacks."""
    first, second = pair
    pieces = compare_texts(second["content"], first["content"])
    return [
        {**record, "pieces": [(kind != "same", text) for kind, text in pieces if kind in ("same", own)]}
        for record, own in ((first, "new"), (second, "gone"))
    ]
