"""Review of dreams: plans and proposals as cards; hand edits that met other changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reverie.domain.errors import InvalidInput, translate_os_errors
from reverie.domain.scope import EVERY_SCOPE
from reverie.interfaces.http import administration, records
from reverie.interfaces.http.operations import Call, ScopeQuery, compute_etag, parse_number
from reverie.interfaces.http.page.rendering import TEXTS, compare_values
from reverie.interfaces.http.page.timeline import find_last_dream
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, is_allowed, perform
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import RecordPatch

if TYPE_CHECKING:
    from reverie.files.hand_edits.importer import ConflictFile


VIEWS = ViewList()


_SHOWN = ("content", "category", "tags", "kind", "layer", "summary", "pinned", "valid_to")
"""Fields of a change that a card shows."""

_SHOWN_OF_NEW = ("content", "category", "tags", "kind", "summary")


@VIEWS.add("GET", "/review", "review")
def list_waiting(call: Call) -> Screen:
    """Show what waits for a decision."""
    plans = (
        perform(call, administration.list_plans)["items"] if is_allowed(call, "review", is_whole=True) else []
    )
    proposals = perform(call, administration.list_proposals)["items"]
    cards = [{"record": each, "turns": _read_turns(call, each["references"])} for each in proposals]
    waiting = [_summarize(plan) for plan in plans if not plan["decided"]]
    return Screen(
        "reviews.html",
        waiting=waiting,
        decided=[_summarize(plan) for plan in plans if plan["decided"]],
        proposals=cards,
        dream=find_last_dream(call) if is_allowed(call, "review", is_whole=True) else None,
    )


@VIEWS.add("POST", "/review", "review", is_whole=True, query=ScopeQuery)
def plan_dream(call: Call) -> Redirect:
    """Plan a dream now; the plan waits."""
    plan = perform(call, administration.make_plan, body={"name": "dream"})
    return Redirect(f"/review/{plan['id']}")


@VIEWS.add("GET", "/review/{id}", "review", is_whole=True)
def show_plan(call: Call) -> Screen:
    """Show the cards of a plan."""
    plan = perform(call, administration.get_plan)
    cards = [_build_card(call, plan, number) for number in range(len(plan["groups"]))]
    still_open = [card for card in cards if card["is_open"]]
    return Screen(
        "review.html", plan=plan, cards=cards, first=still_open[0]["number"] if still_open else None
    )


@VIEWS.add("POST", "/review/{id}", "review", is_whole=True)
def decide(call: Call, fields: Fields) -> Redirect:
    """Decide a card of a plan, or all that are open."""
    text, verdict = fields.get("group"), fields.get("verdict")
    number = parse_number(text)
    if text and number is None:
        raise InvalidInput(f"group is {text!r}: send the number of a card")
    given = {
        "verdict": verdict,
        "reason": fields.get("reason"),
        "groups": None if number is None else [number],
    }
    plan = perform(call, administration.decide_plan, body=given)
    batches = [group["batch"] for group in plan["groups"] if group["batch"]]
    done = max(batches, default=None) if verdict == "accept" else None
    return Redirect(f"/review/{plan['id']}", done=done)


@VIEWS.add("POST", "/review/proposals/{id}", "review")
def decide_on_proposal(call: Call, fields: Fields) -> Redirect:
    """Decide a proposal."""
    given = {"verdict": fields.get("verdict"), "reason": fields.get("reason")}
    perform(call, administration.decide_on_proposal, body=given)
    return Redirect("/review")


# -- cards -----------------------------------------------------------------------------------------------


def _summarize(plan: dict[str, Any]) -> dict[str, Any]:
    """Return how far a plan is decided."""
    states = [group["state"] for group in plan["groups"]]
    return {
        **{name: plan[name] for name in ("id", "name", "made_at", "skipped", "failed")},
        "counts": {state: states.count(state) for state in dict.fromkeys(states)},
        "open": sum(state in ("waiting", "later") for state in states),
        "batches": list(dict.fromkeys(group["batch"] for group in plan["groups"] if group["batch"])),
    }


def _build_card(call: Call, plan: dict[str, Any], number: int) -> dict[str, Any]:
    group = plan["groups"][number]
    steps = [plan["steps"][place] for place in group["steps"]]
    changed = {step["id"] for step in steps}
    sources = dict.fromkeys(name for step in steps for name in step["sources"] if name not in changed)
    return {
        **group,
        "number": number,
        "is_open": group["state"] in ("waiting", "later"),
        "steps": [_describe_step(step) for step in steps],
        "turns": _read_turns(call, sources),
        "records": [each for name in sources if (each := call.reader.get(name)) is not None],
    }


def _describe_step(step: dict[str, Any]) -> dict[str, Any]:
    before, after = step["before"], step["after"]
    if before is None:
        what = "added"
    elif after is None:
        what = "removed"
    elif after.get("archived_at") and not before.get("archived_at"):
        what = "archived"
    elif before.get("archived_at") and not after.get("archived_at"):
        what = "restored"
    else:
        what = "changed"
    names = _SHOWN_OF_NEW if before is None else _SHOWN
    fields = []
    if what not in ("archived", "restored"):
        fields = compare_values(
            {name: value for name, value in (before or {}).items() if name in names},
            {name: value for name, value in (after or {}).items() if name in names},
        )
    value = after or before or {}
    has_text = any(field["name"] in ("content", "summary") for field in fields)
    return {
        **{name: step[name] for name in ("subject", "id", "why")},
        "what": what,
        "text": "" if has_text else value.get("content") or value.get("summary") or "",
        "scope": value.get("scope", ""),
        "fields": fields,
    }


def _read_turns(call: Call, names: Sequence[str] | dict[str, None]) -> list[dict[str, Any]]:
    """Return the turns among some sources."""
    turns = [call.reader.get_turn(name) for name in names]
    return [
        {"id": turn.id, "session": turn.session, "role": turn.role, "content": turn.content, "at": turn.at}
        for turn in turns
        if turn is not None
    ]


# -- hand edits that met other changes -------------------------------------------------------------------


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


def _select_pieces(pieces: list[tuple[str, str]], own: str) -> list[tuple[bool, str]]:
    """Return the pieces of one side of a comparison, and whether the other side lacks each."""
    return [(kind != "same", text) for kind, text in pieces if kind in ("same", own)]
