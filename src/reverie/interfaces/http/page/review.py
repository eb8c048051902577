"""Review: what dreams suggest as cards, what the last one did, and what they may do by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from reverie.consolidation.plan import PlanStep
from reverie.domain.change import Change
from reverie.domain.errors import Conflict
from reverie.domain.text.json_values import to_json_object
from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call, parse_number
from reverie.interfaces.http.page import views
from reverie.interfaces.http.page.feed import find_last_dream
from reverie.interfaces.http.page.rendering import compare_values
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, perform
from reverie.interfaces.http.problems import Problem
from reverie.settings import Thinking

VIEWS = ViewList()

_MOST_CARDS = 100
_SHOWN = ("content", "category", "tags", "kind", "layer", "summary", "pinned", "valid_to", "title")
"""Fields of a change that a card shows."""


def count_waiting(call: Call) -> int:
    """Return how many cards wait for a decision."""
    plans = [] if call.caller.scope else call.memory.dreams.kept_plans()
    return len(administration.list_own_proposals(call)) + sum(len(plan.open) for plan in plans)


@VIEWS.add("GET", "/review", "review")
def show_review(call: Call) -> Screen:
    """Show what waits for a decision, and what the last dream did."""
    return _draw_review(call)


def _draw_review(call: Call, *, stale: bool = False) -> Screen:
    is_whole = views.is_allowed(call, "review", is_whole=True)
    plans = [plan for plan in call.memory.dreams.kept_plans() if not plan.decided] if is_whole else []
    return Screen(
        "review.html",
        status=409 if stale else 200,
        cards=build_cards(call),
        stale=stale,
        decided=sum(not group.is_open for plan in plans for group in plan.groups),
        refused=[each for plan in plans for each in plan.plan.refused],
        night=find_last_dream(call) if is_whole else None,
        thinking=call.memory.dreams.thinking,
    )


@VIEWS.add("POST", "/review/thinking", "review", is_whole=True)
def choose_thinking(call: Call, fields: Fields) -> Redirect:
    """Store what dreams may do by themselves."""
    call.memory.dreams.set_thinking(cast(Thinking, fields.get("thinking")))
    return Redirect(views.choose_local_path(fields.get("next"), "/review"), done=0)


@VIEWS.add("POST", "/review/dream", "review", is_whole=True)
def plan_dream(call: Call) -> Redirect:
    """Plan a dream now; nothing is changed before its cards are decided."""
    call.memory.dreams.keep_plan(call.memory.dreams.plan())
    return Redirect("/review", done=0)


@VIEWS.add("POST", "/review", "review")
def decide(call: Call, fields: Fields) -> Screen | Redirect:
    """Decide a card, or all cards of a plan; a card that no longer fits is shown with what has changed."""
    verdict, reason = fields.get("verdict"), fields.get("reason")
    before = call.memory.history.sequence()
    try:
        for plan, group in _read_chosen(call, fields):
            if group is None:
                perform(call, administration.decide_on_proposal, path=plan, verdict=verdict, reason=reason)
                continue
            if call.caller.scope:
                raise Problem(403, "Plans are about all scopes, and your token is bound to one.")
            perform(
                call, administration.decide_plan, path=plan, verdict=verdict, reason=reason, groups=[group]
            )
    except Conflict:
        return _draw_review(call, stale=True)
    made = call.memory.history.sequence()
    done = call.numbers.show(made) if verdict == "accept" and made > before else 0
    return Redirect("/review", done=done)


def _read_chosen(call: Call, fields: Fields) -> list[tuple[str, int | None]]:
    """Return the cards that a form decides: plan and number of the group; None for a proposal."""
    if fields.get("all"):
        return [(card["plan"], card["group"]) for card in build_cards(call) if not card["is_stale"]]
    number = parse_number(fields.get("group"))
    if fields.list("group") and number is None:
        raise Problem(422, "The card is not named. Open the review again.")
    return [(fields.get("plan"), number)]


# -- cards -----------------------------------------------------------------------------------------------


def build_cards(call: Call, *, limit: int = _MOST_CARDS) -> list[dict[str, Any]]:
    """Return the first of what waits for a decision as cards, those put off last."""
    waiting: list[tuple[str, int | None, Sequence[PlanStep], str]] = []
    if views.is_allowed(call, "review", is_whole=True):
        for plan in call.memory.dreams.kept_plans():
            groups = ((number, plan.groups[number]) for number in plan.open)
            waiting += [(plan.id, number, group.steps, group.state) for number, group in groups]
    for record in administration.list_own_proposals(call):
        edit = Change(before=None, after=record)
        step = PlanStep(edit=edit, why="You said something like this.", sources=record.references)
        waiting.append((record.id, None, (step,), "waiting"))
    waiting.sort(key=lambda each: each[3] == "later")
    return [_build_card(call, *each, number=number) for number, each in enumerate(waiting[:limit], start=1)]


def _build_card(
    call: Call, plan: str, group: int | None, steps: Sequence[PlanStep], state: str, *, number: int
) -> dict[str, Any]:
    described = [_describe_step(call, step) for step in steps]
    changed = {step["id"] for step in described}
    sources = dict.fromkeys(name for step in steps for name in step.sources if name not in changed)
    records = [each for name in sources if (each := call.reader.get(name)) is not None]
    turns = [turn.to_dict() for name in sources if (turn := call.reader.get_turn(name)) is not None]
    card: dict[str, Any] = {"plan": plan, "group": group, "state": state, "number": number}
    card |= {"title": _name_card(described, records), "steps": described, "turns": turns, "records": records}
    return card | {"is_stale": any(step["is_stale"] for step in described)}


def _name_card(steps: list[dict[str, Any]], records: list[Any]) -> str:
    """Return what a card does, in a line."""
    first = steps[0]
    if any(step["what"] == "added" and len(step["parts"]) > 1 for step in steps) or len(records) > 1:
        return f"Combine {max(len(records), 2)} memories"
    if first["what"] == "added":
        return (
            "Learn a preference" if first["kind"] in ("preference", "constraint") else "Learn something new"
        )
    names = {"archived": "Archive", "restored": "Restore", "removed": "Remove"}
    if first["what"] in names:
        return names[first["what"]]
    changed = {field["name"] for step in steps for field in step["fields"]}
    if "content" in changed:
        return "Change the wording"
    if changed == {"layer"} and first["after"]["layer"] == "semantic":
        return "Keep for good"
    return "Mark as over" if "valid_to" in changed else "File differently"


def _describe_step(call: Call, planned: PlanStep) -> dict[str, Any]:
    step = to_json_object(planned, "why") | to_json_object(planned.edit, "subject", "id", "before", "after")
    before, after = step["before"], step["after"]
    what = "added" if before is None else "removed" if after is None else "changed"
    if before and after and bool(after.get("archived_at")) != bool(before.get("archived_at")):
        what = "archived" if after.get("archived_at") else "restored"
    found = call.reader.get(step["id"]) if step["subject"] == "record" and step["id"] else None
    now, value = found and found.to_dict(), after or before or {}
    fields = compare_values(before, after) if before and after else []
    return {
        **step,
        "what": what,
        "kind": value.get("kind", ""),
        "parts": value.get("parts", ()),
        "fields": [field for field in fields if field["name"] in _SHOWN],
        "now": now,
        "is_stale": bool(before and now and now["content"] != before["content"]),
    }
