"""Memories: the list with filters, searches, one memory with its sources and history, several at once."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from reverie.domain.record import UNTRUSTED, Record
from reverie.domain.similarity.grounding import find_injection
from reverie.domain.text.timestamps import format_time
from reverie.interfaces import formatting
from reverie.interfaces.http import records, schemas
from reverie.interfaces.http.operations import Call, compute_etag
from reverie.interfaces.http.page import views
from reverie.interfaces.http.page.conversations import find_shared_words
from reverie.interfaces.http.page.feed import describe_change
from reverie.interfaces.http.page.rendering import quote_path
from reverie.interfaces.http.page.views import Fields, Redirect, Screen, ViewList, ViewQuery, perform
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
_ENOUGH = 3  # good matches, with which nothing else is looked for
_LAST_CHANGED = 600  # among which those that ended are looked for


@VIEWS.add("GET", "/memories", "read")
def show_memories(call: Call) -> Screen:
    """Show a list of records with filters, or what a search finds."""
    if call.query.q:
        return _show_hits(call)
    page = _list_records(call, limit=_LISTED)
    overview = call.server.overview(call.view)
    return Screen("memories.html", items=page["items"], following=page["next"], overview=overview)


def _list_records(call: Call, *, limit: int) -> dict[str, Any]:
    """Return the records of a query without words."""
    query, now = call.query, call.memory.now()
    names = ("kind", "origin", "category")
    filters: dict[str, Any] = {name: (value,) for name in names if (value := getattr(query, name))}
    if query.about or query.state == "ended":
        found = (
            call.reader.subjects.find(query.about)
            if query.about
            else call.reader.list(limit=_LAST_CHANGED, parts=True, **filters)
        )
        return {
            "items": [each.to_dict() for each in found if _is_wanted(query, each, now)][:limit],
            "next": None,
        }
    page: dict[str, Any] = perform(
        call,
        records.list_records,
        archived=query.state == "archived",
        limit=limit,
        cursor=query.cursor,
        as_of=views.read_moment(query.as_of, "as_of"),
        created_after=now - timedelta(days=int(query.days)) if query.days else None,
        valid_at=now if query.state == "current" else None,
        pinned=True if query.state == "pinned" else None,
        tags=query.tags,
        **filters,
    )
    return page


def _is_wanted(query: ViewQuery, record: Record, now: Any) -> bool:
    """Return whether a record passes the filters beside its name."""
    is_ended = record.valid_to is not None and record.valid_to <= now
    states = {"ended": is_ended, "current": not is_ended, "pinned": record.pinned, "archived": False}
    return (
        query.kind in ("", record.kind)
        and query.origin in ("", record.origin)
        and (record.category or "").startswith(query.category)
        and (not query.days or now - record.created_at <= timedelta(days=int(query.days)))
        and states.get(query.state, True)
    )


def _show_hits(call: Call) -> Screen:
    query = call.query
    body: dict[str, Any] = {"query": query.q, "mode": query.mode, "limit": _MOST_HITS}
    body["sources"] = [query.source] if query.source else list(SOURCES)
    as_of = views.read_moment(query.as_of, "as_of")
    found = perform(call, records.search, body=body, as_of=as_of)
    hits = [_describe_hit(hit, query.q) for hit in found["hits"]]
    least = max(_GOOD, max((hit["score"] for hit in hits), default=0.0) / 4)
    good, weak = ([hit for hit in hits if (hit["score"] >= least) is wanted] for wanted in (True, False))
    if len(good) < _ENOUGH:
        found = perform(call, records.search, body={**body, "left_out": _MOST_WEAK}, as_of=as_of)
        weak += [{**_describe_hit(each["hit"], query.q), "why": each["why"]} for each in found["left_out"]]
    return Screen("search.html", q=query.q, hits=good, weak=weak)


def _describe_hit(hit: dict[str, Any], question: str) -> dict[str, Any]:
    """Return a hit with the part of its text to show, and the words that the question shares with it."""
    matched = hit["explanation"]["matched"]
    text = formatting.extract_excerpt(hit["passage"] or hit["content"], matched, longest=400)
    value = hit.get("record") or hit.get("turn") or hit.get("paragraph")
    words, close = find_shared_words(question, text), [word for word in matched if "≈" in word]
    return {**hit, "text": text, "value": value, "words": words, "close": close}


@VIEWS.add("GET", "/memories-list/{form}", "read")
def save_list(call: Call) -> Response:
    """Answer with the list as a file."""
    items: list[dict[str, Any]] = []
    while len(items) < _SAVED:
        page = _list_records(call, limit=schemas.MOST_ITEMS)
        items += page["items"]
        call.query.cursor = page["next"]
        if not page["next"]:
            break
    if call.path["form"] == "json":
        text = json.dumps(items, ensure_ascii=False, indent=1)
        return views.build_file("memories.json", text, "application/json")
    return views.build_file("memories.csv", _write_csv(items), "text/csv")


def _write_csv(items: Sequence[dict[str, Any]]) -> str:
    """Return records as CSV. A text that a spreadsheet would compute begins with an apostrophe."""
    names = ("id", "content", "kind", "category", "origin", "created_at", "valid_to", "scope")
    rows = [[str(item[name] or "") for name in names] for item in items]
    target = io.StringIO()
    csv.writer(target).writerows(
        [
            names,
            *(
                [f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t") else cell for cell in row]
                for row in rows
            ),
        ]
    )
    return target.getvalue()


# -- one memory ------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/memories/new", "write")
def show_new_memory(call: Call) -> Screen:
    """Show the form of a new memory."""
    given = {"content": call.query.content, "category": call.query.category, "tags": call.query.tags}
    return Screen("memory_new.html", problem=None, given=given)


@VIEWS.add("POST", "/memories", "write")
def add_memory(call: Call, fields: Fields) -> Screen | Redirect:
    """Save a line; its section decides the kind, else what it says."""
    body: dict[str, Any] = {"content": fields.get("content")}
    body |= {name: fields.get(name) for name in ("kind", "category") if fields.get(name)}
    if fields.get("section") == "help" or fields.get("rule"):
        body["kind"] = "constraint"
    if tags := fields.words("tags"):
        body["tags"] = tags
    try:
        saved = perform(call, records.save_record, body=body)
    except Problem as problem:
        if problem.status != 422:
            raise
        return Screen("memory_new.html", status=422, problem=problem, given={"tags": [], **body})
    return Redirect(views.choose_local_path(fields.get("next"), f"/memories/{saved['record']['id']}"))


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
    as_of = views.read_moment(call.query.as_of, "as_of")
    record = perform(call, records.get_record, as_of=as_of)
    history = perform(call, records.get_record_history)["items"]
    is_own = record["scope"] == call.view.scope and as_of is None
    return Screen(
        "memory.html",
        status=200 if problem is None else problem.status,
        title=record["content"][:80],
        record=record,
        etag=compute_etag(record),
        given=given,
        problem=problem,
        history=[describe_change(item) for item in reversed(history)],
        blame=perform(call, records.get_record_blame),
        items=_list_records(call, limit=_BESIDE)["items"],
        may_change=is_own and views.is_allowed(call, "write"),
    )


_ACTIONS = {"pin": records.pin_record, "unpin": records.unpin_record, "restore": records.restore_record}
_MATCHED = {"end": records.end_record, "archive": records.archive_record}


@VIEWS.add("POST", "/memories/{id}", "write")
def change_memory(call: Call, fields: Fields) -> Screen | Redirect:
    """Do with a memory what the button says, unless another writer has changed it since the view was drawn."""
    action, etag = fields.get("do"), fields.get("etag") or '""'
    target = views.choose_local_path(fields.get("next"), f"/memories/{call.path['id']}")
    try:
        if action == "save":
            changes = _read_changes(perform(call, records.get_record), fields)
            perform(call, records.update_record, body=changes, if_match=etag)
        elif action in _MATCHED:
            perform(call, _MATCHED[action], if_match=etag)
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
        given = {name: fields.get(name) for name in ("content", "kind", "category", "valid_to")}
        return _draw_memory(call, given | {"tags": fields.words("tags")}, problem)
    return Redirect(target)


def _read_changes(record: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the changes of a form; a field that the form does not have, or shows unchanged, stays as it is."""
    given: dict[str, Any] = {}
    for name in ("content", "kind", "category"):
        value = fields.get(name)
        if fields.list(name) and value != formatting.escape_text(record[name] or ""):
            given[name] = value or None
    if fields.list("tags") and (tags := fields.words("tags")) != record["tags"]:
        given["tags"] = tags
    text = fields.get("valid_to").strip()
    if fields.list("valid_to") and text != (record["valid_to"] or ""):
        moment = views.read_time(text, "valid_to")
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
        return _draw_selection(fields, chosen, alert="A memory has changed since the preview. Look again.")
    body = {"ids": [record["id"] for record in chosen], "action": _BULK.get(fields.get("do"), "")}
    body |= {"tags": fields.words("tags"), "reason": fields.get("reason")}
    perform(call, records.change_records, body=body)
    return Redirect(views.choose_local_path(fields.get("next"), "/memories"))


def _read_records(call: Call, fields: Fields) -> list[dict[str, Any]]:
    """Return the records that were checked."""
    ids = dict.fromkeys(fields.list("ids"))
    if not 0 < len(ids) <= schemas.MOST_ITEMS:
        raise Problem(422, f"Select 1 to {schemas.MOST_ITEMS} memories. Go back and check their boxes.")
    return [perform(call, records.get_record, path={"id": name}) for name in ids]


def _draw_selection(fields: Fields, chosen: list[dict[str, Any]], *, alert: str = "") -> Screen:
    action = fields.get("do")
    if action not in _BULK:
        raise Problem(422, f"The form asks for {action[:40]!r}. Go back and use one of its buttons.")
    shown = {"records": chosen, "action": action, "next": fields.get("next"), "alert": alert}
    return Screen("selection.html", status=409 if alert else 200, **shown, digest=compute_etag(chosen))


@VIEWS.add("GET", "/unverified", "read")
def show_untrusted(call: Call) -> Screen:
    """Show the words of tools, the web and imports, by source."""
    origins, cursor = tuple(sorted(UNTRUSTED)), call.query.cursor
    page = perform(call, records.list_records, origin=origins, cursor=cursor, limit=_LISTED)
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for record in page["items"]:
        mark = find_injection(" ".join(record["content"].split()))
        groups.setdefault((record["origin"], record["source"]), []).append({**record, "mark": mark})
    return Screen("unverified.html", groups=groups, following=page["next"])
