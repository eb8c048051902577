"""Review of dreams: plans and proposals as cards, each with its decision, and the last dream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reverie.domain.errors import InvalidInput
from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call, ScopeQuery, parse_number
from reverie.interfaces.http.page.differences import compare_values
from reverie.interfaces.http.page.timeline import find_last_dream
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, is_allowed, perform

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
