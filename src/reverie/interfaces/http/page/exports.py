"""Lists as CSV and JSON, with the query of the view that shows them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from reverie.domain.errors import NotFound
from reverie.interfaces.http import administration
from reverie.interfaces.http.operations import Call, Empty
from reverie.interfaces.http.page.memories import MemoriesQuery, find_memories, list_memories
from reverie.interfaces.http.page.rendering import build_link
from reverie.interfaces.http.page.timeline import TimelineQuery, describe_change, list_matching_changes
from reverie.interfaces.http.page.views import Download, ViewList, perform
from reverie.interfaces.http.schemas import MOST_ITEMS

VIEWS = ViewList()

MOST_ROWS = 10_000
"""Rows of a list; the header `Link` of CSV and `next` of JSON say where it goes on."""

_RECORD = (
    *("id", "content", "kind", "category", "tags", "layer", "origin", "scope", "source", "importance"),
    *("confidence", "pinned", "seen_count", "created_at", "updated_at", "last_seen_at", "valid_from"),
    *("valid_to", "expires_at", "archived_at", "archive_reason"),
)
_HIT = ("score", "type", *_RECORD)
_CHANGE = (
    "sequence",
    "batch",
    "at",
    "actor",
    "operation",
    "note",
    "reference",
    "subject",
    "id",
    "change",
    "content",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Characters with which spreadsheets begin a formula."""


@VIEWS.add("GET", "/records.{form}", "read", query=MemoriesQuery)
def download_memories(call: Call) -> Download:
    """Return a list or a search of records."""
    if call.query.q:
        hits = find_memories(call, limit=MOST_ITEMS)["hits"]
        return _build(call, "memories", _HIT, hits, {}, flatten=_flatten_hit)
    items, more = _read_all(call, list_memories, "cursor")
    return _build(call, "memories", _RECORD, items, more)


@VIEWS.add("GET", "/timeline.{form}", "read", query=TimelineQuery)
def download_changes(call: Call) -> Download:
    """Return the changes of the timeline."""
    items, more = _read_all(call, list_matching_changes, "before")
    return _build(call, "changes", _CHANGE, items, more, flatten=_flatten_change)


@VIEWS.add("GET", "/proposals.{form}", "review", query=Empty)
def download_proposals(call: Call) -> Download:
    """Return the records that wait for a decision."""
    return _build(call, "proposals", _RECORD, perform(call, administration.list_proposals)["items"], {})


def _read_all(
    call: Call, read_page: Callable[..., dict[str, Any]], parameter: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of all pages, and the parameter with which a list of too many rows goes on."""
    items: list[dict[str, Any]] = []
    cursor = getattr(call.query, parameter)
    while True:
        page = read_page(call, limit=min(MOST_ITEMS, MOST_ROWS - len(items)), cursor=cursor)
        items += page["items"]
        cursor = page["next"]
        if cursor is None or len(items) >= MOST_ROWS:
            return items, {} if cursor is None else {parameter: cursor}


def _build(
    call: Call,
    name: str,
    columns: Sequence[str],
    items: Sequence[dict[str, Any]],
    more: dict[str, Any],
    *,
    flatten: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Download:
    form = call.path["form"]
    if form == "json":
        following = next(iter(more.values()), None)
        text = json.dumps({"items": items, "next": following}, ensure_ascii=False)
        return Download(f"{name}.json", "application/json", text.encode())
    if form != "csv":
        raise NotFound(f"there is no list of the form {form!r}: take csv or json")
    target = io.StringIO(newline="")
    writer = csv.writer(target)
    writer.writerow(columns)
    writer.writerows(_format_row(flatten(item), columns) for item in items)
    headers = {}
    if more:
        path = {"memories": "/records.csv", "changes": "/timeline.csv"}[name]
        query = call.query.model_dump(mode="json", exclude_defaults=True)
        headers["Link"] = f'<{build_link(path, query, **more)}>; rel="next"'
    return Download(f"{name}.csv", "text/csv", target.getvalue().encode(), headers)


def _flatten_hit(hit: dict[str, Any]) -> dict[str, Any]:
    return {"created_at": hit["at"], **(hit.get("record") or {}), **hit}


def _flatten_change(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "content": describe_change(item)["text"]}


def _format_row(item: dict[str, Any], columns: Sequence[str]) -> Iterator[Any]:
    """Yield the cells of a row, none of which a spreadsheet takes for a formula."""
    for name in columns:
        value = item.get(name)
        text = ", ".join(value) if isinstance(value, list) else value
        yield f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA) else text
