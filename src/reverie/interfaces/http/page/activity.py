"""Activity: searches, saves and prompts by day as charts with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call
from reverie.interfaces.http.page.charts import HEIGHT, LEFT, WIDTH, build_chart
from reverie.interfaces.http.page.views import Screen, ViewList, perform
from reverie.interfaces.http.schemas import ActivityQuery

VIEWS = ViewList()

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
    labels = [day["day"] for day in days]
    charts = [
        _build_chart(name, labels, parts, [[_get_number(day, part) for day in days] for part in parts])
        for name, parts in _SUMS
    ]
    for name, measure in _VALUES:
        values = [day["median_and_p95"][measure] for day in days]
        medians = [value[0] or 0 for value in values]
        rest = [(value[1] or 0) - (value[0] or 0) for value in values]
        chart = _build_chart(name, labels, ("median", "p95"), [medians, rest])
        rows = [(day, [value[0], value[1]]) for day, value in zip(labels, values, strict=True)]
        charts.append({**chart, "rows": _drop_empty(rows), "has_total": False})
    return Screen(
        "activity.html", charts=charts, days=call.query.days, ranges=RANGES, size=(WIDTH, HEIGHT, LEFT)
    )


def _get_number(day: dict[str, Any], name: str) -> int:
    counts = day["counts"]
    if name == "search.found":
        return int(counts.get("search", 0) - counts.get("search.nothing", 0))
    return int(counts.get(name, 0))


def _build_chart(
    name: str, labels: Sequence[str], parts: Sequence[str], series: Sequence[Sequence[int]]
) -> dict[str, Any]:
    rows = [(label, [values[place] for values in series]) for place, label in enumerate(labels)]
    return {
        "name": name,
        "parts": parts,
        "shapes": build_chart([label[5:] for label in labels], series),
        "rows": _drop_empty(rows),
        "totals": [sum(values) for values in series],
        "has_total": True,
    }


def _drop_empty(rows: Sequence[tuple[str, Sequence[int | None]]]) -> list[tuple[str, Sequence[int | None]]]:
    """Return the rows with numbers, the newest first."""
    return [(label, values) for label, values in reversed(rows) if any(values)]
