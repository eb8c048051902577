"""Selection: several records changed at once after a preview, and what others said, to be trusted or not."""

from __future__ import annotations

from typing import Any, get_args

from reverie.domain.record import UNTRUSTED
from reverie.domain.similarity.grounding import find_injection
from reverie.interfaces.http import records, schemas
from reverie.interfaces.http.operations import Call, compute_etag
from reverie.interfaces.http.page.rendering import TEXTS, build_link
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, is_allowed, perform
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import CursorQuery

VIEWS = ViewList()

ACTIONS = get_args(schemas.BulkChange.model_fields["action"].annotation)

_LISTED = 100


@VIEWS.add("GET", "/trust", "read", query=CursorQuery)
def show_untrusted(call: Call) -> Screen:
    """Show what tools, the web and imports said, by source."""
    page = perform(
        call, records.list_records, origin=tuple(sorted(UNTRUSTED)), cursor=call.query.cursor, limit=_LISTED
    )
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for record in page["items"]:
        of = record["origin"], record["source"]
        group = groups.setdefault(of, {"origin": of[0], "source": of[1], "records": []})
        group["records"].append({**record, "marks": _find_marks(record["content"])})
    return Screen(
        "trust.html", groups=[*groups.values()], following=page["next"], may_select=is_allowed(call, "write")
    )


def _find_marks(content: str) -> list[str]:
    """Return what in a text is to be looked at twice."""
    marks = [find_injection(" ".join(content.split()))]
    if "http://" in content or "https://" in content:
        marks.append(TEXTS["selection"]["link"])
    return list(filter(None, marks))


@VIEWS.add("POST", "/selection", "write")
def preview_selection(call: Call, fields: Fields) -> Screen | Redirect:
    """Show what would be done with the records that were checked; two can be compared."""
    if fields.get("action") == "compare":
        ids = [*dict.fromkeys(fields.list("ids"))]
        if len(ids) != 2:
            raise Problem(422, TEXTS["conflicts"]["two"])
        return Redirect(build_link("/conflicts/pair", call.query.model_dump(), first=ids[0], second=ids[1]))
    return _draw(fields, _read_records(call, fields))


@VIEWS.add("POST", "/selection/apply", "write")
def change_selection(call: Call, fields: Fields) -> Screen | Redirect:
    """Do it in one transaction, unless one of them has changed since the preview."""
    chosen = _read_records(call, fields)
    if fields.get("digest") != compute_etag(chosen):
        return _draw(fields, chosen, alert=TEXTS["selection"]["outdated"])
    body = {
        "ids": [record["id"] for record in chosen],
        "action": fields.get("action"),
        "tags": fields.words("tags"),
        "reason": fields.get("reason"),
    }
    perform(call, records.change_records, body=body)
    return Redirect("/trust" if fields.get("from") == "trust" else "/records")


def _read_records(call: Call, fields: Fields) -> list[dict[str, Any]]:
    """Return the records that were checked."""
    ids = dict.fromkeys(fields.list("ids"))
    if not ids:
        raise Problem(422, TEXTS["selection"]["nothing"])
    if len(ids) > schemas.MOST_ITEMS:
        raise Problem(
            422, f"{len(ids)} memories were checked, and {schemas.MOST_ITEMS} can be changed at once."
        )
    return [perform(call, records.get_record, path={"id": name}) for name in ids]


def _draw(fields: Fields, chosen: list[dict[str, Any]], *, alert: str = "") -> Screen:
    action = fields.get("action")
    if action not in ACTIONS:
        raise Problem(422, f"action is {action[:40]!r}: use one of {', '.join(ACTIONS)}.")
    return Screen(
        "selection.html",
        status=409 if alert else 200,
        records=chosen,
        action=action,
        origin=fields.get("from"),
        digest=compute_etag(chosen),
        alert=alert,
    )
