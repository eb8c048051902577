"""Conflicts: hand edits that met other changes, and two records that contradict each other, to be settled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reverie.domain.errors import translate_os_errors
from reverie.domain.scope import EVERY_SCOPE
from reverie.interfaces import formatting
from reverie.interfaces.http import conflicts, records
from reverie.interfaces.http.operations import Call, ScopeQuery, compute_etag
from reverie.interfaces.http.page.differences import compare_texts, compare_values
from reverie.interfaces.http.page.rendering import TEXTS
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, is_allowed, perform
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import RecordPatch

if TYPE_CHECKING:
    from reverie.files.hand_edits.importer import ConflictFile

VIEWS = ViewList()


class PairQuery(ScopeQuery):
    """Query of a comparison: the ids of two records."""

    first: str
    second: str


@VIEWS.add("GET", "/conflicts", "admin", is_whole=True, query=ScopeQuery)
def list_conflicts(call: Call) -> Screen:
    """Show hand edits that met other changes."""
    return Screen("conflicts.html", edits=_list_edits(call))


def _list_edits(call: Call) -> list[dict[str, Any]]:
    if call.memory.folder is None:
        return []
    return [_describe_edit(call, each) for each in call.memory.folder.conflicts()]


def _describe_edit(call: Call, conflict: ConflictFile) -> dict[str, Any]:
    """Return a conflict with what differs; without that where the other version cannot be taken over."""
    record, other = call.memory.scoped(EVERY_SCOPE).get(conflict.id), _read_version(call, conflict.path)
    about: dict[str, Any] = {"path": conflict.path, "of": conflict.of}
    if record is None or not conflict.fields or any(name not in other for name in conflict.fields):
        return about | {"fields": [], "id": "", "version": "", "scope": ""}
    live = record.to_dict()
    fields = [
        {"name": each["name"], "sides": [_select_pieces(each["pieces"], own) for own in ("gone", "new")]}
        for each in compare_values(live, other)
        if each["name"] in conflict.fields
    ]
    may_take = all(name in RecordPatch.model_fields for name in conflict.fields)
    version = compute_etag(live) if may_take else ""
    return about | {"fields": fields, "id": record.id, "version": version, "scope": record.scope}


def _read_version(call: Call, path: str) -> dict[str, Any]:
    """Return the record that a conflict file holds; nothing if it holds none that can be read."""
    file = _find_file(call, path)
    try:
        found = None if file.is_symlink() else json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@VIEWS.add("POST", "/conflicts/edit", "admin", is_whole=True)
def settle_edit(call: Call, fields: Fields) -> Redirect:
    """Settle a conflict of a hand edit: keep what holds, or take over the other version; its file is removed."""
    folder, path = call.memory.folder, fields.get("path")
    conflict = None if folder is None else next((c for c in folder.conflicts() if c.path == path), None)
    if conflict is None:
        raise Problem(404, TEXTS["conflicts"]["no_edit"])
    if fields.get("keep") == "other":
        about, other = _describe_edit(call, conflict), _read_version(call, path)
        if not about["version"]:
            raise Problem(422, TEXTS["conflicts"]["by_hand"])
        perform(
            call,
            records.update_record,
            path={"id": conflict.id},
            body={name: other[name] for name in conflict.fields},
            if_match=fields.get("version"),
            scope=about["scope"],
        )
    elif fields.get("keep") != "live":
        raise Problem(422, TEXTS["conflicts"]["no_choice"])
    with translate_os_errors(f"{path!r} cannot be removed"):
        _find_file(call, path).unlink(missing_ok=True)
    return Redirect("/conflicts")


def _find_file(call: Call, path: str) -> Path:
    assert call.memory.path is not None  # a memory without a folder has no files
    return call.memory.path / path


@VIEWS.add("GET", "/conflicts/pair", "read", query=PairQuery)
def show_conflict(call: Call) -> Screen:
    """Show two records side by side."""
    return _draw(call, call.query.first, call.query.second)


@VIEWS.add("POST", "/conflicts/pair", "write")
def settle_conflict(call: Call, fields: Fields) -> Screen | Redirect:
    """Settle a conflict, unless one of the two has changed since it was shown."""
    choice = fields.get("holds")
    if choice not in ("0", "1", "both", "text"):
        raise Problem(422, TEXTS["conflicts"]["no_choice"])
    first, second = ("second", "first") if choice == "1" else ("first", "second")
    holds = fields.get(first)
    body: dict[str, Any] = {
        "holds": holds,
        "other": fields.get(second),
        "verdict": "both" if choice == "both" else fields.get("verdict"),
        "versions": [fields.get(f"{first}_version"), fields.get(f"{second}_version")],
    }
    stored = perform(call, records.get_record, path={"id": holds})["content"]
    if choice == "text" and fields.get("content") != formatting.escape_text(stored):
        body["content"] = fields.get("content")
    try:
        perform(call, conflicts.settle_conflict, body=body)
    except Problem as problem:
        if problem.status != 412:
            raise
        return _draw(call, fields.get("first"), fields.get("second"), alert=TEXTS["conflicts"]["outdated"])
    return Redirect("/records")


def _draw(call: Call, first: str, second: str, *, alert: str = "") -> Screen:
    chosen = [perform(call, records.get_record, path={"id": name}) for name in (first, second)]
    return Screen(
        "conflict.html",
        status=412 if alert else 200,
        sides=_mark(chosen),
        versions=[compute_etag(record) for record in chosen],
        content=formatting.escape_text(chosen[0]["content"]),
        may_settle=is_allowed(call, "write") and all(record["scope"] == call.view.scope for record in chosen),
        alert=alert,
    )


def _mark(pair: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return two records, each with its text in pieces that the other one has or lacks."""
    first, second = pair
    pieces = compare_texts(second["content"], first["content"])
    return [
        {**record, "pieces": _select_pieces(pieces, own)}
        for record, own in ((first, "new"), (second, "gone"))
    ]


def _select_pieces(pieces: list[tuple[str, str]], own: str) -> list[tuple[bool, str]]:
    """Return the pieces of one side of a comparison, and whether the other side lacks each."""
    return [(kind != "same", text) for kind, text in pieces if kind in ("same", own)]
