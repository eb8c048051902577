"""Review: what dreams suggest as cards, what the last one did; and changes as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, cast

from reverie.admin.history.diff import serialize_change
from reverie.consolidation.values import PlanStep
from reverie.domain.change import Change
from reverie.domain.errors import Conflict, NotFound
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call, Problem, parse_number
from reverie.interfaces.http.page import views
from reverie.interfaces.http.page.rendering import compare_texts, compare_values, quote_path
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, perform
from reverie.interfaces.http.schemas import JournalQuery
from reverie.settings import Thinking

VIEWS = ViewList()

_MOST_CARDS = 100
_SHOWN = ("content", "category", "tags", "kind", "layer", "summary", "pinned", "valid_to", "title")
"""Fields of a change that a card shows."""

_BY_PEOPLE = ("owner", "page", "http", "cli")
_LONGEST_DREAM = timedelta(hours=2)
_PAGE, _MOST_READ = 50, 8  # changes of a page of the journal, and pages that are read at most
_QUIET = ("Erased", "Said again", "Perhaps outdated", "Filed anew")
_OTHERS = {"turn": "Message", "session": "Conversation", "page": "Page", "paragraph": "Note"}
_TITLES = {
    "Learned": "Learn something new",
    "Removed": "Remove",
    "Archived": "Archive",
    "Restored": "Restore",
    "Edited": "Change the wording",
    "Kept for good": "Keep for good",
    **dict.fromkeys(("Replaced", "No longer true", "Given an end", "True again"), "Mark as over"),
}
"""Title of a card for each word of a change; for others it is filed differently."""


def _list_waiting(call: Call) -> list[tuple[str, int | None, Sequence[PlanStep], str]]:
    """Return what waits for a decision: a plan and a group of its steps, or a proposal; those put off last."""
    waiting: list[tuple[str, int | None, Sequence[PlanStep], str]] = []
    if views.is_allowed(call, "review", is_whole=True):
        for plan in call.memory.dreams.kept_plans():
            groups = ((number, plan.groups[number]) for number in plan.open)
            waiting += [(plan.id, number, group.steps, group.state) for number, group in groups]
    for record in administration.list_own_proposals(call):
        edit = Change(before=None, after=record)
        step = PlanStep(edit=edit, why="You said something like this.", sources=record.references)
        waiting.append((record.id, None, (step,), "waiting"))
    return sorted(waiting, key=lambda each: each[3] == "later")


def count_waiting(call: Call) -> int:
    """Return how many cards wait for a decision."""
    return len(_list_waiting(call))


@VIEWS.add("GET", "/review", "review")
def show_review(call: Call) -> Screen:
    """Show what waits for a decision, and what the last dream did."""
    return _draw_review(call)


def _draw_review(call: Call, *, stale: bool = False) -> Screen:
    is_whole = views.is_allowed(call, "review", is_whole=True)
    plans = call.memory.dreams.kept_plans() if is_whole else []
    return Screen(
        "review.html",
        status=409 if stale else 200,
        cards=build_cards(call),
        stale=stale,
        decided=sum(not group.is_open for plan in plans for group in plan.groups),
        refused=[each for plan in plans for each in plan.plan.refused],
        night=_find_last_dream(call) if is_whole else None,
        thinking=call.memory.dreams.thinking,
    )


@VIEWS.add("POST", "/review/thinking", "review", is_whole=True)
def choose_thinking(call: Call, fields: Fields) -> Redirect:
    """Store what dreams may do automatically."""
    call.memory.dreams.set_thinking(cast(Thinking, fields.get("thinking")))
    return Redirect(views.choose_local_path(fields.get("next"), "/review"), done=0)


@VIEWS.add("POST", "/review/dream", "review", is_whole=True)
def plan_dream(call: Call, fields: Fields) -> Redirect:
    """Plan a dream now; nothing is changed before its cards are decided."""
    call.memory.dreams.keep_plan(call.memory.dreams.plan())
    return Redirect("/review", done=0)


@VIEWS.add("POST", "/review", "review")
def decide(call: Call, fields: Fields) -> Screen | Redirect:
    """Decide a card, or all cards of a plan; a card that no longer fits is shown with what has changed."""
    decision = {"verdict": fields.get("verdict"), "reason": fields.get("reason")}
    chosen = [(fields.get("plan"), parse_number(fields.get("group")))]
    if fields.get("all"):
        chosen = [(card["plan"], card["group"]) for card in build_cards(call) if not card["is_stale"]]
    before = call.memory.history.sequence()
    try:
        for plan, group in chosen:
            if group is None:
                perform(call, administration.decide_on_proposal, path=plan, **decision)
            elif call.caller.scope:
                raise Problem(403, "Plans are about all scopes, and your token is bound to one.")
            else:
                perform(call, administration.decide_plan, path=plan, groups=[group], **decision)
    except Conflict:
        return _draw_review(call, stale=True)
    made = call.memory.history.sequence()
    done = call.numbers.show(made) if decision["verdict"] == "accept" and made > before else 0
    return Redirect("/review", done=done)


# -- cards -----------------------------------------------------------------------------------------------


def build_cards(call: Call, *, limit: int = _MOST_CARDS) -> list[dict[str, Any]]:
    """Return the first of what waits for a decision as cards, those put off last."""
    return [
        _build_card(call, *each, number=number)
        for number, each in enumerate(_list_waiting(call)[:limit], start=1)
    ]


def _build_card(
    call: Call, plan: str, group: int | None, steps: Sequence[PlanStep], state: str, *, number: int
) -> dict[str, Any]:
    described = [_describe_step(call, step) for step in steps]
    changed = {step["id"] for step in described}
    sources = dict.fromkeys(name for step in steps for name in step.sources if name not in changed)
    records = [each for name in sources if (each := call.reader.get(name)) is not None]
    turns = [turn for name in sources if (turn := call.reader.get_turn(name)) is not None]
    card: dict[str, Any] = {"plan": plan, "group": group, "state": state, "number": number}
    card |= {
        "title": _name_card(described, len(records)),
        "steps": described,
        "turns": turns,
        "records": records,
    }
    return card | {"is_stale": any(step["is_stale"] for step in described)}


def _name_card(steps: Sequence[Mapping[str, Any]], records: int) -> str:
    """Return what a card does, in a line."""
    first = steps[0]
    if records > 1 or any(step["before"] is None and len(step["parts"]) > 1 for step in steps):
        return f"Combine {max(records, 2)} memories"
    if first["before"] is None and first["kind"] in ("preference", "constraint"):
        return "Learn a preference"
    return next((_TITLES[step["verb"]] for step in steps if step["verb"] in _TITLES), "File differently")


def _describe_step(call: Call, planned: PlanStep) -> dict[str, Any]:
    edit = to_json_object(planned.edit, "subject", "id", "before", "after")
    before, after = edit["before"], edit["after"]
    found = call.reader.get(edit["id"]) if edit["subject"] == "record" and edit["id"] else None
    value, fields = after or before or {}, compare_values(before, after) if before and after else []
    made = {**edit, "actor": "dream", "operation": "dream", "at": format_time(call.memory.now())}
    return {
        **edit,
        "why": planned.why,
        "verb": _name_change(made, before, after),
        "kind": value.get("kind", ""),
        "parts": value.get("parts", ()),
        "fields": [field for field in fields if field["name"] in _SHOWN],
        "now": found,
        "is_stale": bool(before and found and found.content != before["content"]),
    }


# -- changes that were made --------------------------------------------------------------------------------


def describe_change(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a view shows of a change, which is an item of the journal."""
    before, after = item["before"], item["after"]
    value = after or before or {}
    calls = ", ".join(f"{each['name']}()" for each in value.get("tool_calls", ()))
    text = value.get("content") or calls or value.get("name") or value.get("id") or ""
    is_edit = bool(before and after and before.get("content", "") != after.get("content", ""))
    is_page = item["subject"] in ("page", "paragraph")
    return {
        **item,
        "verb": _name_change(item, before, after),
        "text": value.get("name") or value.get("page") or text if is_page else text,
        "text_pieces": compare_texts(before["content"], after["content"]) if is_edit and not is_page else (),
        "fields": compare_values(before, after) if before and after else [],
        "path": _find_path(item, value),
        "scope": value.get("scope", "") if item["subject"] in ("record", "session", "turn") else "",
        "can_undo": bool(before or after),
    }


def _name_change(item: Mapping[str, Any], before: Any, after: Any) -> str:
    """Return what a change did, in a word."""
    subject, is_by_person = item["subject"], item["actor"] in _BY_PEOPLE
    if subject is None or (before is None and after is None):
        return "Erased"
    if subject != "record":
        what = "added" if before is None else "removed" if after is None else "changed"
        return f"{_OTHERS.get(subject, subject.capitalize())} {what}"
    if before is None:
        is_own = is_by_person and item["operation"] != "import" and after["origin"] == "owner"
        return "You added" if is_own else "Learned"
    if after is None:
        return "Removed"
    changed = {name for name in after if after[name] != before.get(name)}
    if "archived_at" in changed and not (before["archived_at"] and after["archived_at"]):
        return "Archived" if after["archived_at"] else "Restored"
    if "content" in changed:
        return "You edited" if is_by_person else "Edited"
    if "valid_to" in changed:
        return _name_end(item, after)
    verbs = {
        "pinned": "Pinned" if after["pinned"] else "Unpinned",
        "origin": "Trusted",
        "perhaps_replaced_by": "Perhaps outdated",
        "layer": "Kept for good" if after["layer"] == "semantic" else "Filed anew",
        "seen_count": "Said again",
    }
    return next((verb for name, verb in verbs.items() if name in changed), "Filed anew")


def _name_end(item: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if not after["valid_to"]:
        return "True again"
    is_over = parse_time(after["valid_to"]) <= parse_time(item["at"])
    return "Replaced" if after.get("replaced_by") else "No longer true" if is_over else "Given an end"


def _find_path(item: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    """Return the view of the changed thing; empty if it has none."""
    if item["subject"] == "record" and item["id"]:
        return f"/memories/{quote_path(item['id'])}"
    if item["subject"] in ("turn", "session") and value:
        return f"/conversations/{quote_path(value.get('session') or value['id'])}"
    if item["subject"] in ("page", "paragraph") and value:
        return f"/pages/{quote_path(value.get('name') or value['page'])}"
    return ""


def list_changes(call: Call, **query: Any) -> tuple[list[dict[str, Any]], int | None]:
    """Return changes as views show them, the newest first, and the `before` of the next ones."""
    form = JournalQuery(scope=getattr(call.query, "scope", ""), newest_first=True, **query)
    page = call.numbers.show_all(administration.list_changes(call.with_query(form)).body)
    return [describe_change(item) for item in page["items"]], page["next"]


def list_recent(call: Call, *, since: datetime, limit: int) -> list[dict[str, Any]]:
    """Return the last changes of memories, the newest first; those of one dream as one item with its `batches`."""
    items: list[dict[str, Any]] = []
    before: int | None = None
    for _ in range(_MOST_READ):
        found, before = list_changes(call, limit=_PAGE, since=since, before=before, subject="record")
        for item in found:
            _add_recent(items, item)
        if before is None or len(items) >= limit:
            break
    return items[:limit]


def _add_recent(items: list[dict[str, Any]], item: dict[str, Any]) -> None:
    if item["operation"] == "dream":
        last = items[-1] if items and "batches" in items[-1] else None
        if last is None or parse_time(last["at"]) - parse_time(item["at"]) > _LONGEST_DREAM:
            items.append({**item, "verb": "", "batches": set(), "number": 0})
        items[-1]["batches"].add(item["batch"])
        items[-1]["number"] += 1
    elif item["verb"] not in _QUIET:
        items.append(item)


def find_change(call: Call, number: int) -> dict[str, Any] | None:
    """Return the change of that number that the caller sees; None without one."""
    found, _ = list_changes(call, before=number + 1, limit=1)
    return found[0] if found and found[0]["sequence"] == number else None


def _find_last_dream(call: Call) -> dict[str, Any] | None:
    """Return the passes of the last dream that was carried out, its changes, and its transactions while they last."""
    history = call.memory.history
    entries = [each for each in call.memory.dreams.log() if each["state"] != "waiting"]
    if not entries:
        return None
    passes = [each for each in entries if each.get("dream") == entries[-1].get("dream")]
    made = tuple(int(str(each["batch"])) for each in passes if each["batch"])
    rows = []
    for batch in made:
        with suppress(NotFound):  # it was erased
            rows += history.transaction(batch)
    has_effect = call.server.has_effect(made, history.sequence())
    return {
        "at": passes[0]["at"],
        "passes": passes,
        "changes": [describe_change(serialize_change(row)) for row in rows if row.subject == "record"],
        "batches": made if has_effect else (),
        "is_taken_back": bool(made) and not has_effect,
    }
