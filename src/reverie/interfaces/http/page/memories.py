"""Memories: the list with filters, searches, one memory with its sources and history, several at once."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from reverie.domain.record import KINDS, UNTRUSTED
from reverie.domain.similarity.grounding import find_injection
from reverie.domain.text.timestamps import format_time
from reverie.interfaces import formatting
from reverie.interfaces.http import records, schemas
from reverie.interfaces.http.documentation import HEADERS
from reverie.interfaces.http.operations import Call, compute_etag
from reverie.interfaces.http.page.conversations import find_shared_words
from reverie.interfaces.http.page.feed import describe_change
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.views import (
    Fields,
    Redirect,
    Screen,
    ViewList,
    ViewQuery,
    choose_local_path,
    is_allowed,
    perform,
    read_moment,
    read_time,
)
from reverie.interfaces.http.problems import Problem
from reverie.search.hits import SOURCES

VIEWS = ViewList()

_MOST_HITS = 30
_MOST_WEAK = 10
_GOOD = 0.12
"""Score from which a hit is a good match, unless another one is four times as good."""
_LISTED = 50
_BESIDE = 25
_SAVED = 10_000
_LAST_CHANGED = 2_000  # among which those that ended are looked for
_OPTIONS = 14


@VIEWS.add("GET", "/memories", "read")
def show_memories(call: Call) -> Screen:
    """Show a list of records with filters, or what a search finds."""
    query: ViewQuery = call.query
    if query.q:
        return _show_hits(call)
    page = _list_records(call, limit=_LISTED)
    overview = call.server.overview(call.view)
    return Screen(
        "memories.html",
        title="Memories",
        query=query.model_dump(exclude_defaults=True, exclude={"cursor", "scope"}),
        items=page["items"],
        following=page["next"],
        counts=overview.counts,
        names=[each for each in overview.subjects if not each.is_category][:_OPTIONS],
        categories=[each for each in overview.subjects if each.is_category][:_OPTIONS],
        may_change=is_allowed(call, "write") and not query.as_of,
        selected=None,
    )


def _list_records(call: Call, *, limit: int) -> dict[str, Any]:
    """Return the records of a query without words."""
    query: ViewQuery = call.query
    if query.about and not query.as_of:
        found = [each.to_dict() for each in call.reader.find_subject(query.about) if _is_wanted(call, each)]
        return {"items": found[:limit], "next": None}
    now = call.memory.now()
    names = ("kind", "origin", "category")
    filters: dict[str, Any] = {name: (value,) for name in names if (value := getattr(query, name))}
    if query.state == "ended":
        last = call.reader.list(limit=_LAST_CHANGED, parts=True, **filters)
        ended = [each.to_dict() for each in last if each.valid_to is not None and each.valid_to <= now]
        return {"items": ended[:limit], "next": None}
    page: dict[str, Any] = perform(
        call,
        records.list_records,
        archived=query.state == "archived",
        limit=limit,
        cursor=query.cursor,
        as_of=read_moment(query.as_of, "as_of"),
        created_after=now - timedelta(days=int(query.days)) if query.days else None,
        valid_at=now if query.state == "current" else None,
        pinned=True if query.state == "pinned" else None,
        tags=query.tags,
        **filters,
    )
    return page


def _is_wanted(call: Call, record: Any) -> bool:
    """Return whether a record about a name passes the other filters."""
    query: ViewQuery = call.query
    now = call.memory.now()
    is_ended = record.valid_to is not None and record.valid_to <= now
    return (
        query.kind in ("", record.kind)
        and query.origin in ("", record.origin)
        and (not query.category or (record.category or "").startswith(query.category))
        and (not query.days or record.created_at >= now - timedelta(days=int(query.days)))
        and {
            "": True,
            "current": not is_ended,
            "ended": is_ended,
            "pinned": record.pinned,
            "archived": False,
        }[query.state]
    )


def _show_hits(call: Call) -> Screen:
    query: ViewQuery = call.query
    body: dict[str, Any] = {"query": query.q, "mode": query.mode, "limit": _MOST_HITS, "left_out": _MOST_WEAK}
    body["sources"] = [query.source] if query.source else list(SOURCES)
    found = perform(call, records.search, body=body, as_of=read_moment(query.as_of, "as_of"))
    hits = [_describe_hit(hit, query.q) for hit in found["hits"]]
    best = max((hit["score"] for hit in hits), default=0.0)
    good = [hit for hit in hits if hit["score"] >= max(_GOOD, best / 4)]
    weak = [hit for hit in hits if hit not in good]
    weak += [{**_describe_hit(each["hit"], query.q), "why": each["why"]} for each in found["left_out"]]
    return Screen(
        "search.html",
        title=f"Search: {query.q}",
        q=query.q,
        query=query.model_dump(exclude_defaults=True, exclude={"cursor", "scope"}),
        hits=good,
        weak=weak,
        may_change=is_allowed(call, "write"),
    )


def _describe_hit(hit: dict[str, Any], question: str) -> dict[str, Any]:
    """Return a hit with the part of its text to show, and the words that the question shares with it."""
    matched = hit["explanation"]["matched"]
    text = formatting.extract_excerpt(hit["passage"] or hit["content"], matched, longest=400)
    value = hit.get("record") or hit.get("turn") or hit.get("paragraph")
    words = find_shared_words(question, text)
    return {**hit, "text": text, "value": value, "words": words, "close": [w for w in matched if "≈" in w]}


@VIEWS.add("GET", "/memories-list/{form}", "read")
def save_list(call: Call) -> Response:
    """Answer with the list as a file."""
    form = call.path["form"]
    items: list[dict[str, Any]] = []
    while len(items) < _SAVED:
        page = _list_records(call, limit=schemas.MOST_ITEMS)
        items += page["items"]
        if not page["next"]:
            break
        call.query.cursor = page["next"]
    if form == "json":
        data, kind = json.dumps(items, ensure_ascii=False, indent=1), "application/json"
    else:
        data, kind = _write_csv(items), "text/csv"
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="memories.{form[:4]}"'}
    return Response(data.encode("utf-8", "replace"), media_type=kind, headers=headers)


def _write_csv(items: Sequence[dict[str, Any]]) -> str:
    """Return records as CSV. A text that a spreadsheet would compute begins with an apostrophe."""
    names = ("id", "content", "kind", "category", "origin", "created_at", "valid_to", "scope")
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(names)
    for item in items:
        cells = [str(item[name] or "") for name in names]
        writer.writerow([f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t") else cell for cell in cells])
    return target.getvalue()


# -- one memory ------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/memories/new", "write")
def show_new_memory(call: Call) -> Screen:
    """Show the form of a new memory."""
    given = {"content": call.query.content, "category": call.query.category, "tags": call.query.tags}
    return Screen("memory_new.html", title="New memory", problem=None, given=given)


@VIEWS.add("GET", "/item/{id}", "read")
def find_item(call: Call) -> Redirect:
    """Go to the memory, message or page that an id in a prompt names."""
    name, reader = call.path["id"], call.reader
    if (turn := reader.get_turn(name)) is not None:
        start = max(turn.position - 5, 0)
        return Redirect(f"/conversations/{quote_path(turn.session)}?start={start}", done=0)
    if reader.get(name) is None and (paragraph := reader.get_paragraph(name)) is not None:
        return Redirect(f"/pages/{quote_path(paragraph.page)}", done=0)
    return Redirect(f"/memories/{quote_path(name)}", done=0)


@VIEWS.add("GET", "/memories/{id}", "read")
def show_memory(call: Call) -> Screen:
    """Show a record with its sources, history and use, beside the list that it was chosen from."""
    return _draw_memory(call)


def _draw_memory(call: Call, given: dict[str, Any] | None = None, problem: Problem | None = None) -> Screen:
    query: ViewQuery = call.query
    as_of = read_moment(query.as_of, "as_of")
    record = perform(call, records.get_record, as_of=as_of)
    history = perform(call, records.get_record_history)["items"]
    blame = perform(call, records.get_record_blame)
    reader = call.reader
    found = {
        name: reader.get(record[name]) if record.get(name) else None
        for name in ("replaced_by", "perhaps_replaced_by")
    }
    return Screen(
        "memory.html",
        status=200 if problem is None else problem.status,
        title=record["content"][:80],
        record=record,
        etag=compute_etag(record),
        given=given,
        problem=problem,
        kinds_of=KINDS,
        newer=found["replaced_by"],
        doubt=found["perhaps_replaced_by"],
        older=[each for name in record.get("replaces", ()) if (each := reader.get(name)) is not None],
        history=[describe_change(item) for item in reversed(history)],
        blame=blame,
        titles={turn["session"]: reader.title(turn["session"]) for turn in blame["turns"]},
        query=query.model_dump(exclude_defaults=True, exclude={"cursor", "scope"}),
        items=_list_records(call, limit=_BESIDE)["items"],
        may_change=is_allowed(call, "write") and record["scope"] == call.view.scope and as_of is None,
        may_undo=is_allowed(call, "review"),
    )


_ACTIONS = {
    "pin": records.pin_record,
    "unpin": records.unpin_record,
    "restore": records.restore_record,
}


@VIEWS.add("POST", "/memories/{id}", "write")
def change_memory(call: Call, fields: Fields) -> Screen | Redirect:
    """Do with a memory what the button says, unless another writer has changed it since the view was drawn."""
    action, etag, given = fields.get("do"), fields.get("etag") or '""', _read_given(fields)
    target = choose_local_path(fields.get("next"), f"/memories/{call.path['id']}")
    try:
        if action == "save":
            record = perform(call, records.get_record)
            perform(call, records.update_record, body=_read_changes(record, fields), if_match=etag)
        elif action == "end":
            perform(call, records.end_record, if_match=etag)
        elif action == "archive":
            perform(call, records.archive_record, if_match=etag)
        elif action == "promote":
            to = fields.get("to").strip()
            saved = perform(call, records.promote_record, body={"to": to})["record"]
            target = f"/memories/{saved['id']}?scope={to}"
        elif action in _ACTIONS:
            perform(call, _ACTIONS[action])
        else:
            raise Problem(422, f"The form asks for {action[:40]!r}. Go back and use one of its buttons.")
    except Problem as problem:
        if problem.status not in (412, 422) or call.reader.get(call.path["id"]) is None:
            raise
        return _draw_memory(call, given, problem)
    return Redirect(target)


def _read_given(fields: Fields) -> dict[str, Any]:
    """Return the fields of a form as they were entered."""
    names = ("content", "kind", "category", "valid_to", "importance")
    return {name: fields.get(name) for name in names} | {"tags": fields.words("tags")}


def _read_changes(record: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the changes of a form; a field that the form does not have, or shows unchanged, stays as it is."""
    given: dict[str, Any] = {}
    for name in ("content", "kind", "category"):
        value = fields.get(name)
        if fields.list(name) and value != formatting.escape_text(record[name] or ""):
            given[name] = value or None
    if fields.list("tags") and (tags := fields.words("tags")) != record["tags"]:
        given["tags"] = tags
    if fields.list("importance"):
        try:
            number = float(fields.get("importance"))
        except ValueError:
            raise Problem(422, "The importance is not a number. Give one from 0 to 1.") from None
        if number != record["importance"]:
            given["importance"] = number
    text = fields.get("valid_to").strip()
    if fields.list("valid_to") and text != (record["valid_to"] or ""):
        moment = read_time(text, "valid_to")
        given["valid_to"] = None if moment is None else format_time(moment)
    return given


# -- several memories at once ----------------------------------------------------------------------------

_BULK = {"archive": "archive", "tag": "label", "trust": "vouch"}


@VIEWS.add("POST", "/selection", "write")
def preview_selection(call: Call, fields: Fields) -> Screen | Redirect:
    """Show what would be done with the checked records."""
    chosen, action = _read_records(call, fields), fields.get("do")
    ids = [record["id"] for record in chosen]
    if action == "forget":
        return Redirect(f"/forget/preview?{'&'.join(f'ids={each}' for each in ids)}", done=0)
    if action == "compare":
        if len(ids) != 2:
            raise Problem(422, "Two memories can be compared. Go back and check two.")
        return Redirect(f"/compare?left={ids[0]}&right={ids[1]}", done=0)
    return _draw_selection(fields, chosen)


@VIEWS.add("POST", "/selection/apply", "write")
def change_selection(call: Call, fields: Fields) -> Screen | Redirect:
    """Do it in one transaction, unless one of the records has changed since the preview."""
    chosen = _read_records(call, fields)
    if fields.get("digest") != compute_etag(chosen):
        return _draw_selection(
            fields, chosen, alert="One of these memories has changed since the preview. Look again."
        )
    body = {
        "ids": [record["id"] for record in chosen],
        "action": _BULK.get(fields.get("do"), ""),
        "tags": fields.words("tags"),
        "reason": fields.get("reason"),
    }
    perform(call, records.change_records, body=body)
    return Redirect(choose_local_path(fields.get("next"), "/memories"))


def _read_records(call: Call, fields: Fields) -> list[dict[str, Any]]:
    """Return the records that were checked."""
    ids = dict.fromkeys(fields.list("ids"))
    if not ids:
        raise Problem(422, "Nothing is selected. Go back and check the boxes of some memories.")
    if len(ids) > schemas.MOST_ITEMS:
        raise Problem(422, f"At most {schemas.MOST_ITEMS} memories can be changed at once. Select fewer.")
    return [perform(call, records.get_record, path={"id": name}) for name in ids]


def _draw_selection(fields: Fields, chosen: list[dict[str, Any]], *, alert: str = "") -> Screen:
    action = fields.get("do")
    if action not in _BULK:
        raise Problem(422, f"The form asks for {action[:40]!r}. Go back and use one of its buttons.")
    return Screen(
        "selection.html",
        status=409 if alert else 200,
        title="Selected memories",
        records=chosen,
        action=action,
        next=fields.get("next"),
        digest=compute_etag(chosen),
        alert=alert,
    )


@VIEWS.add("GET", "/unverified", "read")
def show_untrusted(call: Call) -> Screen:
    """Show the words of tools, the web and imports, by source."""
    page = perform(
        call, records.list_records, origin=tuple(sorted(UNTRUSTED)), cursor=call.query.cursor, limit=_LISTED
    )
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in page["items"]:
        mark = find_injection(" ".join(record["content"].split()))
        groups.setdefault((record["origin"], record["source"]), []).append({**record, "mark": mark})
    return Screen(
        "unverified.html",
        title="Unverified memories",
        groups=groups,
        following=page["next"],
        may_change=is_allowed(call, "write"),
    )
