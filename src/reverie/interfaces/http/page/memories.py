"""Memories: lists and searches of records, one record, several at once, and what others said."""

from __future__ import annotations

from typing import Any, Literal, get_args

from reverie.domain.record import KINDS, LAYERS, ORIGINS, UNTRUSTED
from reverie.domain.similarity.grounding import find_injection
from reverie.domain.text.timestamps import format_time
from reverie.interfaces import formatting
from reverie.interfaces.http import records, schemas
from reverie.interfaces.http.operations import Call, Handler, ScopeQuery, compute_etag
from reverie.interfaces.http.page.rendering import TEXTS
from reverie.interfaces.http.page.timeline import describe_change
from reverie.interfaces.http.page.views import (
    Fields,
    Redirect,
    Screen,
    ViewList,
    is_allowed,
    perform,
    read_moment,
    read_time,
)
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.schemas import CursorQuery, Texts
from reverie.search.hits import SearchMode, Source

VIEWS = ViewList()


_MOST_HITS = 30
_MOST_LEFT_OUT = 5
_LISTED = 50
_ARCHIVED = {"": False, "yes": True, "all": None}
_BLANK = {"content": "", "kind": "", "category": "", "tags": []}
_CHOICES: dict[str, Any] = {"kinds": KINDS, "origins": ORIGINS, "layers": LAYERS}


class MemoriesQuery(ScopeQuery):
    """Query of the list of memories; with `q`, a search."""

    q: str | None = None
    mode: SearchMode = "words"
    sources: tuple[Source, ...] = ()
    kind: Texts = ()
    layer: Texts = ()
    origin: Texts = ()
    category: Texts = ()
    tags: Texts = ()
    archived: Literal["", "yes", "all"] = ""
    as_of: str = ""
    valid_at: str = ""
    order: Literal["created", "changed"] = "created"
    cursor: str | None = None


class MemoryQuery(ScopeQuery):
    """Query of one memory; with `as_of`, as it was then."""

    as_of: str = ""


@VIEWS.add("GET", "/records", "read", query=MemoriesQuery)
def show_memories(call: Call) -> Screen:
    """Show a list of records, or what a search finds."""
    query: MemoriesQuery = call.query
    hits, left_out, listed, following = None, [], [], None
    if query.q:
        found = find_memories(call, limit=_MOST_HITS, left_out=_MOST_LEFT_OUT)
        hits = [_describe_hit(hit) for hit in found["hits"]]
        left_out = [{**_describe_hit(each.pop("hit")), **each} for each in found["left_out"]]
    else:
        page = list_memories(call, limit=_LISTED, cursor=query.cursor)
        listed, following = page["items"], page["next"]
    return Screen(
        "memories.html",
        query=query.model_dump(),
        own_query=query.model_dump(exclude_defaults=True),
        hits=hits,
        left_out=left_out,
        records=listed,
        following=following,
        categories=sorted(filter(None, perform(call, records.list_categories))),
        is_filtered=any(_list_filters(query).values())
        or bool(query.archived or query.as_of or query.valid_at),
        may_select=is_allowed(call, "write") and not query.as_of,
        **_CHOICES,
    )


def find_memories(call: Call, *, limit: int, left_out: int = 0) -> dict[str, Any]:
    """Return what the search of a query finds."""
    query: MemoriesQuery = call.query
    body: dict[str, Any] = {name: list(value) for name, value in _list_filters(query).items()}
    body |= {"query": query.q, "mode": query.mode, "limit": limit, "left_out": left_out}
    if (valid_at := read_time(query.valid_at, "valid_at")) is not None:
        body["valid_at"] = format_time(valid_at)
    if query.sources:
        body["sources"] = list(query.sources)
    found: dict[str, Any] = perform(call, records.search, body=body, as_of=read_moment(query.as_of, "as_of"))
    return found


def list_memories(call: Call, *, limit: int, cursor: str | None) -> dict[str, Any]:
    """Return the records of a query without words, from a cursor on."""
    query: MemoriesQuery = call.query
    page: dict[str, Any] = perform(
        call,
        records.list_records,
        archived=_ARCHIVED[query.archived],
        limit=limit,
        cursor=cursor,
        as_of=read_moment(query.as_of, "as_of"),
        valid_at=read_time(query.valid_at, "valid_at"),
        order=query.order,
        **_list_filters(query),
    )
    return page


def _list_filters(query: MemoriesQuery) -> dict[str, Any]:
    return {name: getattr(query, name) for name in ("kind", "layer", "origin", "category", "tags")}


def _describe_hit(hit: dict[str, Any]) -> dict[str, Any]:
    """Return a hit with what of its text to show, and where it stands."""
    text = formatting.extract_excerpt(
        hit["passage"] or hit["content"], hit["explanation"]["matched"], longest=400
    )
    path = "/records/", hit["id"]
    if turn := hit.get("turn"):
        path = "/sessions/", turn["session"]
    elif paragraph := hit.get("paragraph"):
        path = "/pages/", paragraph["page"]
    parts = {name: value for name, value in hit["explanation"]["parts"].items() if 0 <= value <= 1}
    start = max(hit["turn"]["position"] - 5, 0) if "turn" in hit else None
    return {**hit, "text": text, "path": path, "parts": parts, "start": start}


# -- one record ------------------------------------------------------------------------------------------


@VIEWS.add("GET", "/records/new", "write")
def show_new_memory(call: Call) -> Screen:
    """Show the form of a new record."""
    return _draw_form(None, _BLANK)


@VIEWS.add("POST", "/records/new", "write")
def save_memory(call: Call, fields: Fields) -> Screen | Redirect:
    """Save a record."""
    given = _read_entered(fields)
    body = {name: given[name] for name in _BLANK if given[name] or name == "content"}
    try:
        saved = perform(call, records.save_record, body=body)
    except Problem as problem:
        if problem.status != 422:
            raise
        return _draw_form(None, given, problem=problem)
    return Redirect(f"/records/{saved['record']['id']}")


def _read_entered(fields: Fields) -> dict[str, Any]:
    """Return the fields of a form as they were entered."""
    names = ("content", "kind", "category", "importance", "confidence", "valid_to")
    return {**{name: fields.get(name) for name in names}, "tags": fields.words("tags")}


@VIEWS.add("GET", "/records/{id}", "read", query=MemoryQuery)
def show_memory(call: Call) -> Screen:
    """Show a record with where it comes from and what became of it."""
    as_of = read_moment(call.query.as_of, "as_of")
    record = perform(call, records.get_record, as_of=as_of)
    history = perform(call, records.get_record_history)["items"]
    newer = call.reader.get(record.get("replaced_by", ""))
    return Screen(
        "memory.html",
        record=record,
        newer=None if newer is None or newer.archived else newer.id,
        etag=compute_etag(record),
        history=[describe_change(item) for item in reversed(history)],
        blame=perform(call, records.get_record_blame),
        may_change=is_allowed(call, "write") and record["scope"] == call.view.scope and as_of is None,
        as_of=call.query.as_of,
    )


@VIEWS.add("GET", "/records/{id}/edit", "write")
def show_memory_form(call: Call) -> Screen:
    """Show the form of a record."""
    record = perform(call, records.get_record)
    return _draw_form(record, record, etag=compute_etag(record))


def _draw_form(
    record: dict[str, Any] | None, given: dict[str, Any], *, etag: str = "", problem: Problem | None = None
) -> Screen:
    """Return the form of a record, None for a new one, with what was entered and why it was refused."""
    return Screen(
        "memory_form.html",
        status=200 if problem is None else problem.status,
        record=record,
        etag=etag,
        given=given,
        problem=problem,
        **_CHOICES,
    )


@VIEWS.add("POST", "/records/{id}/edit", "write")
def change_memory(call: Call, fields: Fields) -> Screen | Redirect:
    """Change a record, unless somebody else has changed it since the form was drawn."""
    record, etag = perform(call, records.get_record), fields.get("etag") or '""'
    try:
        given = _read_changes(record, fields)
        perform(call, records.update_record, body=given, if_match=etag)
    except Problem as problem:
        if problem.status == 422:
            return _draw_form(record, record | _read_entered(fields), etag=etag, problem=problem)
        if problem.status != 412:
            raise
        record = perform(call, records.get_record)
        return _draw_form(record, record | given, etag=compute_etag(record), problem=problem)
    return Redirect(f"/records/{call.path['id']}")


def _read_changes(record: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return what a form changes of a record; a field that the form shows unchanged is left as it is."""
    given: dict[str, Any] = {}
    for name in ("content", "kind", "category"):
        if (value := fields.get(name)) != formatting.escape_text(record[name] or ""):
            given[name] = value or None
    if (tags := fields.words("tags")) != record["tags"]:
        given["tags"] = tags
    for name in ("importance", "confidence"):
        try:
            number = float(fields.get(name))
        except ValueError:
            raise Problem(422, f"{name} is {fields.get(name)[:40]!r}: give a number from 0 to 1.") from None
        if number != record[name]:
            given[name] = number
    if (text := fields.get("valid_to").strip()) != (record["valid_to"] or ""):
        moment = read_time(text, "valid_to")
        given["valid_to"] = None if moment is None else format_time(moment)
    return given


@VIEWS.add("POST", "/records/{id}/archive", "write")
def archive_memory(call: Call, fields: Fields) -> Redirect:
    """Archive a record."""
    perform(call, records.archive_record, if_match=fields.get("etag") or '""', reason=fields.get("reason"))
    return Redirect(f"/records/{call.path['id']}")


def _add_action(name: str, operation: Handler) -> None:
    """Add the view of an operation that takes nothing but a record."""

    @VIEWS.add("POST", f"/records/{{id}}/{name}", "write", name=f"page_{name}_memory")
    def act(call: Call) -> Redirect:
        perform(call, operation)
        return Redirect(f"/records/{call.path['id']}")


_add_action("restore", records.restore_record)
_add_action("pin", records.pin_record)
_add_action("unpin", records.unpin_record)


@VIEWS.add("POST", "/records/{id}/promote", "write")
def promote_memory(call: Call, fields: Fields) -> Redirect:
    """Copy a record to a scope around its own."""
    saved = perform(call, records.promote_record, body={"to": fields.get("to").strip()})["record"]
    return Redirect(f"/records/{saved['id']}")


# -- several records at once, and what others said -------------------------------------------------------


ACTIONS = get_args(schemas.BulkChange.model_fields["action"].annotation)

_LISTED_UNTRUSTED = 100


@VIEWS.add("GET", "/trust", "read", query=CursorQuery)
def show_untrusted(call: Call) -> Screen:
    """Show what tools, the web and imports said, by source."""
    page = perform(
        call,
        records.list_records,
        origin=tuple(sorted(UNTRUSTED)),
        cursor=call.query.cursor,
        limit=_LISTED_UNTRUSTED,
    )
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for record in page["items"]:
        of = record["origin"], record["source"]
        group = groups.setdefault(of, {"origin": of[0], "source": of[1], "records": []})
        group["records"].append({**record, "marks": _find_marks(record["content"])})
    return Screen(
        "trust.html", groups=[*groups.values()], following=page["next"], may_select=is_allowed(call, "write")
    )


def _find_marks(content: str) -> list[str]:
    """Return what in a text is to be looked at twice."""
    marks = [find_injection(" ".join(content.split()))]
    if "http://" in content or "https://" in content:
        marks.append(TEXTS["selection"]["link"])
    return list(filter(None, marks))


@VIEWS.add("POST", "/selection", "write")
def preview_selection(call: Call, fields: Fields) -> Screen:
    """Show what would be done with the records that were checked."""
    return _draw_selection(fields, _read_records(call, fields))


@VIEWS.add("POST", "/selection/apply", "write")
def change_selection(call: Call, fields: Fields) -> Screen | Redirect:
    """Do it in one transaction, unless one of them has changed since the preview."""
    chosen = _read_records(call, fields)
    if fields.get("digest") != compute_etag(chosen):
        return _draw_selection(fields, chosen, alert=TEXTS["selection"]["outdated"])
    body = {
        "ids": [record["id"] for record in chosen],
        "action": fields.get("action"),
        "tags": fields.words("tags"),
        "reason": fields.get("reason"),
    }
    perform(call, records.change_records, body=body)
    return Redirect("/trust" if fields.get("from") == "trust" else "/records")


def _read_records(call: Call, fields: Fields) -> list[dict[str, Any]]:
    """Return the records that were checked."""
    ids = dict.fromkeys(fields.list("ids"))
    if not ids:
        raise Problem(422, TEXTS["selection"]["nothing"])
    if len(ids) > schemas.MOST_ITEMS:
        raise Problem(
            422, f"{len(ids)} memories were checked, and {schemas.MOST_ITEMS} can be changed at once."
        )
    return [perform(call, records.get_record, path={"id": name}) for name in ids]


def _draw_selection(fields: Fields, chosen: list[dict[str, Any]], *, alert: str = "") -> Screen:
    action = fields.get("action")
    if action not in ACTIONS:
        raise Problem(422, f"action is {action[:40]!r}: use one of {', '.join(ACTIONS)}.")
    return Screen(
        "selection.html",
        status=409 if alert else 200,
        records=chosen,
        action=action,
        origin=fields.get("from"),
        digest=compute_etag(chosen),
        alert=alert,
    )
