"""Timeline: the journal by transactions, and taking them back; the overview, and activity by day."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, get_args

from reverie.domain.change import Subject
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.json_values import to_json_value
from reverie.domain.text.timestamps import parse_time
from reverie.interfaces.http import administration, changes
from reverie.interfaces.http.operations import Call, ScopeQuery
from reverie.interfaces.http.page.rendering import TEXTS, compare_values
from reverie.interfaces.http.page.views import Redirect, Screen, ViewList, is_allowed, perform, read_time
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import MOST_UNDONE, ActivityQuery, Number

VIEWS = ViewList()


_MOST_ROWS = 100
_MOST_SHOWN = 20
_LONGEST_DREAM = timedelta(hours=2)
_LAST_DAY = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


class TimelineQuery(ScopeQuery):
    """Query of the timeline."""

    actor: str | None = None
    id: str | None = None
    subject: Subject | None = None
    before: Number | None = None
    since: str = ""
    until: str = ""


class UndoQuery(ScopeQuery):
    """Query of the preview of an undo: numbers of changes, each standing for its whole transaction."""

    batch: tuple[Number, ...] = ()
    change: Number | None = None


_BATCH = ("batch", "at", "actor", "operation", "note", "reference")


def build_batches(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return changes grouped by transaction, in the order given."""
    batches: dict[int, dict[str, Any]] = {}
    for item in items:
        batch = batches.setdefault(item["batch"], {name: item[name] for name in _BATCH} | {"changes": []})
        batch["changes"].append(describe_change(item))
    return list(batches.values())


def describe_change(item: dict[str, Any]) -> dict[str, Any]:
    """Return what a view shows of a change."""
    value = item["after"] or item["before"] or {}
    fields = []
    if item["before"] is not None and item["after"] is not None:
        fields = compare_values(item["before"], item["after"])
    calls = ", ".join(f"{each['name']}()" for each in value.get("tool_calls", ()))
    text = value.get("content") or calls or value.get("name") or value.get("id") or ""
    is_ended = bool(value.get("valid_to")) and parse_time(value["valid_to"]) <= parse_time(item["at"])
    place = {"scope": value["scope"]} if item["subject"] == "record" and value.get("scope") else {}
    return {
        **item,
        "text": text,
        "path": _find_path(item, value),
        "place": place,
        "fields": fields,
        "is_ended": is_ended,
    }


def _find_path(item: dict[str, Any], value: dict[str, Any]) -> tuple[str, str]:
    """Return the view of a thing, as the beginning of its path and its name there; empty if it has none."""
    if item["subject"] == "record" and item["id"]:
        return "/records/", item["id"]
    if item["subject"] == "turn" and value:
        return "/sessions/", value["session"]
    if item["subject"] == "session" and item["id"]:
        return "/sessions/", item["id"]
    if item["subject"] in ("page", "paragraph") and value:
        return "/pages/", value.get("name") or value["page"]
    return "", ""


@VIEWS.add("GET", "/timeline", "read", query=TimelineQuery)
def show_timeline(call: Call) -> Screen:
    """Show what was changed, the newest first."""
    query: TimelineQuery = call.query
    page = list_matching_changes(call, limit=_MOST_ROWS, cursor=query.before)
    batches, following = build_batches(page["items"]), page["next"]
    shown = batches[:_MOST_SHOWN]
    if following and len(shown) == len(batches) > 1:
        shown.pop()  # perhaps not all of it was read
    if len(shown) < len(batches):
        following = shown[-1]["changes"][-1]["sequence"]
    return Screen(
        "timeline.html",
        batches=shown,
        query=query.model_dump(),
        following=following,
        subjects=get_args(Subject),
    )


def list_matching_changes(call: Call, *, limit: int, cursor: int | None) -> dict[str, Any]:
    """Return the changes of a query, the newest first, before a number."""
    query: TimelineQuery = call.query
    page: dict[str, Any] = perform(
        call,
        changes.list_changes,
        limit=limit,
        newest_first=True,
        actor=query.actor,
        id=query.id,
        subject=query.subject,
        before=cursor,
        since=read_time(query.since, "since"),
        until=_read_end(query.until),
    )
    return page


def _read_end(text: str) -> datetime | None:
    """Return the time before which changes are shown; a day is shown to its end."""
    moment = read_time(text, "until")
    is_day = moment is not None and len(text.strip()) == len("2026-11-20")
    return min(moment, _LAST_DAY) + timedelta(days=1) if moment is not None and is_day else moment


# -- undo ------------------------------------------------------------------------------------------------


def _build_order(call: Call, batches: Sequence[int], change: int | None) -> dict[str, Any]:
    """Return the body of the operation that takes something back."""
    if change is not None:
        return {"changes": [change]}
    if len(batches) == 1:
        return {"batch": batches[0]}
    numbers = call.numbers
    rows = [row for batch in batches for row in call.memory.history.transaction(numbers.require(batch))]
    if len(rows) > MOST_UNDONE:
        raise Problem(422, TEXTS["timeline"]["too_many"])
    return {"changes": [numbers.show(row.sequence) for row in rows]}


@VIEWS.add("GET", "/undo", "review", query=UndoQuery)
def preview_undo(call: Call) -> Screen:
    """Show what taking changes back would do."""
    query: UndoQuery = call.query
    order = _build_order(call, query.batch, query.change)
    result = perform(call, changes.undo, body={**order, "dry_run": True})
    differences = [
        {
            **each,
            "fields": compare_values(
                {field["name"]: field["before"] for field in each["fields"]},
                {field["name"]: field["after"] for field in each["fields"]},
            ),
        }
        for each in result["differences"]
    ]
    return Screen("undo.html", differences=differences, left=result["left"], query=query)


@VIEWS.add("POST", "/undo", "review", query=UndoQuery)
def undo(call: Call) -> Redirect:
    """Take changes back."""
    query: UndoQuery = call.query
    perform(call, changes.undo, body=_build_order(call, query.batch, query.change))
    return Redirect("/timeline")


def find_last_dream(call: Call) -> dict[str, Any] | None:
    """Return the passes of the last dream, and its transactions if some can be taken back; None for no dream."""
    entries = call.memory.dreams.log()
    if not entries:
        return None
    passes: list[dict[str, Any]] = []
    for entry in reversed(entries):
        is_earlier = passes and (
            parse_time(str(passes[-1]["at"])) - parse_time(str(entry["at"])) > _LONGEST_DREAM
            or entry["pass"] in [each["pass"] for each in passes]
        )
        if is_earlier:
            break
        passes.append(entry)
    made = tuple(each["batch"] for each in passes if each["batch"])
    has_effect = call.server.has_effect(made, call.server.memory.history.sequence())
    return {
        "at": passes[0]["at"],
        "passes": [*reversed(passes)],
        "batches": made if has_effect else (),
        "is_taken_back": bool(made) and not has_effect,
    }


# -- overview --------------------------------------------------------------------------------------------


_RECENT = 40


@VIEWS.add("GET", "/", "read")
def show_overview(call: Call) -> Screen:
    """Show the overview."""
    if is_allowed(call, "admin", is_whole=True) and not call.query.scope:
        stats = to_json_value(call.memory.scoped(EVERY_SCOPE).stats())
        stats |= {"journal": call.server.memory.history.sequence(), "failed": call.memory.admin.failures()}
    else:
        stats = perform(call, administration.get_stats)
    recent = perform(call, changes.list_changes, limit=_RECENT, newest_first=True)["items"]
    dream = find_last_dream(call) if is_allowed(call, "review", is_whole=True) else None
    return Screen(
        "overview.html",
        stats=stats,
        batches=build_batches(recent)[:10],
        dream=dream,
        waiting=_count_waiting(call) if is_allowed(call, "review") else 0,
    )


def _count_waiting(call: Call) -> int:
    """Return how many plans and proposals wait for a decision."""
    proposals = perform(call, administration.list_proposals)["items"]
    plans = call.memory.dreams.kept_plans() if not call.caller.scope else []
    return len(proposals) + sum(bool(plan.groups) and not plan.decided for plan in plans)


# -- activity by day -------------------------------------------------------------------------------------


RANGES = (7, 30, 90, 365)
"""Numbers of days that can be chosen."""

_SUMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("searches", ("search.found", "search.nothing")),
    ("saves", ("save.created", "save.reinforced")),
    ("prompts", ("prompt",)),
)
_VALUES = (
    ("search_time", "search.ms"),
    ("save_time", "save.ms"),
    ("prompt_time", "prompt.ms"),
    ("prompt_size", "prompt.tokens"),
)


@VIEWS.add("GET", "/activity", "admin", is_whole=True, query=ActivityQuery)
def show_activity(call: Call) -> Screen:
    """Show what was done on each of the last days."""
    days = perform(call, administration.get_activity, days=call.query.days)["items"]
    tables = [_build_table(name, parts, days, _get_number, has_total=True) for name, parts in _SUMS] + [
        _build_table(name, ("median", "p95"), days, partial(_get_value, measure)) for name, measure in _VALUES
    ]
    return Screen("activity.html", tables=tables, days=call.query.days, ranges=RANGES)


def _get_value(measure: str, day: dict[str, Any], part: str) -> int | None:
    value: int | None = day["median_and_p95"][measure][part == "p95"]
    return value


def _get_number(day: dict[str, Any], name: str) -> int:
    counts = day["counts"]
    if name == "search.found":
        return int(counts.get("search", 0) - counts.get("search.nothing", 0))
    return int(counts.get(name, 0))


def _build_table(
    name: str,
    parts: Sequence[str],
    days: Sequence[dict[str, Any]],
    get: Callable[[dict[str, Any], str], int | None],
    *,
    has_total: bool = False,
) -> dict[str, Any]:
    """Return the numbers of the days that have some, the newest day first."""
    rows = [(day["day"], [get(day, part) for part in parts]) for day in reversed(days)]
    totals = [sum(values[place] or 0 for _, values in rows) for place in range(len(parts))]
    kept = [(day, values) for day, values in rows if any(values)]
    return {"name": name, "parts": parts, "rows": kept, "totals": totals if has_total else []}
