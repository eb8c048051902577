"""Operations on records, searches and pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from reverie.admin.history.diff import serialize_change
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.living_page import parse_block
from reverie.domain.page import is_log
from reverie.domain.record import NOTHING, Record
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import (
    Call,
    Empty,
    OperationAnswer,
    OperationList,
    ScopeQuery,
    answer_value,
    check_match,
    compute_etag,
    decode_cursor,
    encode_cursor,
    refusing_changed,
)
from reverie.interfaces.http.problems import Problem
from reverie.reader import MemoryReader
from reverie.repositories.pages import PageOverview
from reverie.repositories.records import NewRecord, SaveResult, describe_missing_record

OPERATIONS = OperationList(group="Records, search and pages")

_TICK = timedelta(microseconds=1)


@contextmanager
def reading(call: Call) -> Iterator[MemoryReader]:
    """Open the scope that a request reads, as of the time that it names."""
    as_of = getattr(call.query, "as_of", None)
    if as_of is None:
        yield call.reader
        return
    with call.memory.as_of(call.find_moment(as_of)) as snapshot:
        yield snapshot.scoped(call.reader.scope)


def get_record_of(call: Call, reader: MemoryReader, id: str | None = None) -> Record:
    """Return the record of that id, or that the path names; raise `NotFound` if there is none in view."""
    name = call.path["id"] if id is None else id
    record = reader.get(name)
    if record is None:
        raise NotFound(describe_missing_record(name))
    return record


def _build_new_record(call: Call, given: schemas.RecordInput) -> NewRecord:
    """Return the record to save, no more trusted than the caller is."""
    values = given.model_dump() | {"origin": call.caller.limit_origin(given.origin)}
    return NewRecord(scope=call.view.scope, **values)


def _answer_saved(result: SaveResult) -> OperationAnswer:
    return OperationAnswer(
        result,
        201 if result.outcome == "created" else 200,
        {"ETag": compute_etag(result.record), "Location": f"/v1/records/{result.record.id}"},
        {"id": result.record.id, "outcome": result.outcome, "notice": result.notice, "reason": result.reason},
    )


def _replay_saved(call: Call, reference: Any) -> OperationAnswer:
    record = call.view.get(reference["id"])
    if record is None:
        raise NotFound(f"record {reference['id']!r} was saved by this request, and has been removed since")
    said = {name: reference.get(name, "") for name in ("notice", "reason")}
    return _answer_saved(SaveResult(record=record, outcome=reference["outcome"], **said))


@OPERATIONS.add(
    "POST",
    "/v1/records",
    "write",
    answer=schemas.SavedRecord,
    statuses=(200, 201),
    replay=_replay_saved,
)
def save_record(call: Call, given: schemas.RecordInput) -> OperationAnswer:
    """Save a record, or reinforce the one that says the same."""
    return _answer_saved(call.view.save_many([_build_new_record(call, given)])[0])


def _replay_batch(call: Call, reference: Any) -> Any:
    return {"results": [_replay_saved(call, each).body for each in reference]}


@OPERATIONS.add("POST", "/v1/records/batch", "write", answer=schemas.SavedRecords, replay=_replay_batch)
def save_records(call: Call, given: schemas.RecordBatch) -> OperationAnswer:
    """Save several records in one transaction."""
    results = call.view.save_many([_build_new_record(call, each) for each in given.records])
    reference = [
        {"id": each.record.id, "outcome": each.outcome, "notice": each.notice, "reason": each.reason}
        for each in results
    ]
    return OperationAnswer({"results": results}, reference=reference)


@OPERATIONS.add("GET", "/v1/records", "read", query=schemas.RecordListQuery, answer=schemas.ListPage[Record])
def list_records(call: Call) -> Any:
    """List records, by default those created last first."""
    query: schemas.RecordListQuery = call.query
    filters = query.model_dump(exclude={"scope", "limit", "cursor", "as_of", "order"}, exclude_defaults=True)
    of = (call.caller.token, query.model_copy(update={"cursor": None, "limit": 0}))
    read = read_page if query.order == "created" else _read_changed
    with reading(call) as reader:
        page, following = read(reader, query.cursor, of=of, limit=query.limit, parts=True, **filters)
    return {"items": page, "next": following}


def read_page(
    reader: MemoryReader, cursor: str | None, *, of: object, limit: int, **filters: Any
) -> tuple[list[Record], str | None]:
    """Return one page of a list of records, those created last first, and the cursor of the next page.

    Args:
        reader: What is read.
        cursor: Cursor of the page; None for the first.
        of: What the cursor is valid for.
        limit: The largest number of records.
        filters: Filters of `MemoryReader.list`.
    """
    seen, last = 0, None
    if cursor is not None:
        text, last, seen = decode_cursor(cursor, of=of, types=(str, str, int))
        before = parse_time(text) + _TICK
        filters["created_before"] = min(before, filters.get("created_before") or before)
    records = reader.list(limit=limit + seen + 1, order="created", **filters)
    if last is not None:
        records = _skip_seen(records, parse_time(text), last, seen)
    page, more = records[:limit], len(records) > limit
    following = None
    if more:
        end = page[-1]
        same = sum(record.created_at == end.created_at for record in page)
        if cursor is not None and end.created_at == parse_time(text):
            same += seen
        following = encode_cursor([format_time(end.created_at), end.id, same], of=of)
    return page, following


def _read_changed(
    reader: MemoryReader, cursor: str | None, *, of: object, limit: int, **filters: Any
) -> tuple[list[Record], str | None]:
    """Return what `read_page` does, for a list in which those changed last come first."""
    seen: int = 0
    if cursor is not None:
        (seen,) = decode_cursor(cursor, of=of, types=(int,))
    records = reader.list(limit=limit + 1, offset=seen, **filters)
    following = encode_cursor([seen + limit], of=of) if len(records) > limit else None
    return records[:limit], following


def _skip_seen(records: list[Record], at: Any, last: str, seen: int) -> list[Record]:
    """Return the records after the last one of the previous page, which may have been removed since."""
    place = next((n for n, record in enumerate(records) if record.id == last), None)
    if place is not None:
        return records[place + 1 :]
    same = sum(record.created_at == at for record in records)
    return records[min(same, max(seen - 1, 0)) :]


@OPERATIONS.add("GET", "/v1/records/{id}", "read", query=schemas.AsOfQuery, answer=Record, has_etag=True)
def get_record(call: Call) -> OperationAnswer:
    """Return a record, archived or not."""
    with reading(call) as reader:
        return answer_value(call, get_record_of(call, reader))


@OPERATIONS.add("PATCH", "/v1/records/{id}", "write", answer=Record, needs_match=True)
def update_record(call: Call, given: schemas.RecordPatch) -> OperationAnswer:
    """Change fields of a record; null removes a value (RFC 7396)."""
    record = get_changeable(call)
    is_bound = check_match(call, record)
    changes = given.model_dump(exclude_unset=True)
    for name in ("tags", "references"):
        if name in changes:
            changes[name] = changes[name] or []
    if "metadata" in changes:
        merged = {} if changes["metadata"] is None else {**record.metadata, **changes["metadata"]}
        changes["metadata"] = {name: text for name, text in merged.items() if text is not None} or NOTHING
    if {"content", "origin"} & set(changes):
        changes["origin"] = call.caller.limit_origin(changes.get("origin") or record.origin)
    if None in (changes.get(name, "") for name in ("content", "kind", "layer", "pinned", "source")):
        raise InvalidInput(
            "content, kind, layer, pinned and source cannot be removed: leave out what should stay"
        )
    expected = record if is_bound or {"content", "metadata", "origin"} & set(changes) else None
    with refusing_changed():
        updated = call.view.update(record.id, expected=expected, **changes) if changes else record
    answer = answer_value(call, updated)
    answer.headers["Reverie-Outcome"] = "unchanged" if updated == record else "changed"
    return answer


@OPERATIONS.add(
    "DELETE", "/v1/records/{id}", "write", query=schemas.ReasonQuery, answer=Record, needs_match=True
)
def archive_record(call: Call) -> OperationAnswer:
    """Take a record out of search; it can be restored."""
    record = get_changeable(call)
    expected = record if check_match(call, record) else None
    with refusing_changed():
        return answer_value(call, call.view.archive(record.id, reason=call.query.reason, expected=expected))


@OPERATIONS.add("POST", "/v1/records/{id}/restore", "write", answer=Record)
def restore_record(call: Call) -> OperationAnswer:
    """Bring an archived record back into search."""
    return answer_value(call, call.view.restore(get_changeable(call).id))


@OPERATIONS.add("POST", "/v1/records/{id}/end", "write", answer=Record)
def end_record(call: Call) -> OperationAnswer:
    """Say that a record is no longer true: it leaves prompts, and stays searchable."""
    record = get_changeable(call)
    with refusing_changed():
        return answer_value(
            call, call.view.end(record.id, expected=record if check_match(call, record) else None)
        )


@OPERATIONS.add("POST", "/v1/records/{id}/pin", "write", answer=Record)
def pin_record(call: Call) -> OperationAnswer:
    """Protect a record from decay and from every automatic change."""
    return _set_pinned(call, True)


@OPERATIONS.add("POST", "/v1/records/{id}/unpin", "write", answer=Record)
def unpin_record(call: Call) -> OperationAnswer:
    """Allow decay and automatic changes again."""
    return _set_pinned(call, False)


def _set_pinned(call: Call, pinned: bool) -> OperationAnswer:
    call.require_trust()
    return answer_value(call, call.view.update(get_changeable(call).id, pinned=pinned))


@OPERATIONS.add("POST", "/v1/records/{id}/promote", "write", answer=schemas.SavedRecord, statuses=(200, 201))
def promote_record(call: Call, given: schemas.Promotion) -> OperationAnswer:
    """Copy a record to a scope around its own."""
    if not call.is_own(given.to):
        raise Problem(403, "This token is bound to a scope, and cannot promote out of it. Use a wider one.")
    return _answer_saved(call.view.promote(call.path["id"], to=given.to))


@OPERATIONS.add("POST", "/v1/records/changes", "write", answer=schemas.ListPage[Record])
def change_records(call: Call, given: schemas.BulkChange) -> Any:
    """Archive, label or vouch for several records in one transaction, which one undo takes back."""
    for name in given.ids:
        get_changeable(call, name)
    if given.action == "vouch" and call.caller.limit_origin("owner") != "owner":
        raise Problem(
            403, f"This token speaks for {call.caller.origin!r}, and only the owner can vouch for a record."
        )
    view, ids = call.view, given.ids
    match given.action:
        case "vouch":
            changed = view.vouch(ids, reason=given.reason)
        case "label":
            changed = view.label(ids, given.tags, reason=given.reason)
        case "archive":
            changed = view.archive_many(ids, reason=given.reason)
    return {"items": changed, "next": None}


@OPERATIONS.add("POST", "/v1/conflicts/settle", "write", answer=dict[str, Record])
def settle_conflict(call: Call, given: schemas.Settlement) -> Any:
    """Decide which of two records holds; the other one ends, is archived as wrong, or holds too."""
    read = get_changeable(call, given.holds), get_changeable(call, given.other)
    if given.versions and given.versions != tuple(map(compute_etag, read)):
        raise Problem(412, "One of the two has changed since it was read. Read both again.")
    with refusing_changed():
        holds, other = call.view.settle(
            given.holds,
            given.other,
            given.verdict,
            content=given.content,
            origin=call.caller.origin,
            expected=read if given.versions else None,
            reason=given.reason,
        )
    return {"holds": holds, "other": other}


def get_changeable(call: Call, id: str | None = None) -> Record:
    """Return the record of that id, or that the path names.

    Raises:
        NotFound: there is none in view.
        Problem: it is of a scope around the one in view, and is only read there.
    """
    record = get_record_of(call, call.view, id)
    if record.scope != call.view.scope:
        raise Problem(
            403,
            f"Record {record.id!r} belongs to the scope {record.scope!r}, and is only read here. "
            "Name that scope, or save what differs as a record of its own.",
            kind="other-scope",
        )
    return record


# -- history of a record -----------------------------------------------------------------------------------


@OPERATIONS.add("GET", "/v1/records/{id}/history", "read", answer=schemas.JournalPage)
def get_record_history(call: Call) -> Any:
    """List the changes of a record, the oldest first."""
    record = get_record_of(call, call.reader)
    rows = call.memory.history.log(record.id, limit=1_000)
    return {"items": [serialize_change(row) for row in rows], "next": None}


@OPERATIONS.add("GET", "/v1/records/{id}/blame", "read", answer=dict[str, Any])
def get_record_blame(call: Call) -> Any:
    """Return where a record comes from, and its later changes."""
    record = get_record_of(call, call.reader)
    blame = call.memory.history.blame(record.id)
    return replace(
        blame,
        turns=tuple(turn for turn in blame.turns if call.reader.get_turn(turn.id)),
        merged=tuple(each for each in blame.merged if call.reader.get(each.id)),
        related=tuple(each for each in blame.related if call.reader.get(each.id)),
    )


@OPERATIONS.add("GET", "/v1/records/{id}/diff", "read", query=schemas.DiffQuery, answer=dict[str, Any])
def get_record_diff(call: Call) -> Any:
    """Return the difference between two versions of a record; by default that of its last change."""
    record = get_record_of(call, call.reader)
    a, b = call.find_moment(call.query.a), call.find_moment(call.query.b)
    return call.memory.history.diff(record.id, a, b)


# -- searching -------------------------------------------------------------------------------------------


@OPERATIONS.add("POST", "/v1/search", "read", query=schemas.AsOfQuery, answer=schemas.Hits)
def search(call: Call, asked: schemas.SearchInput) -> Any:
    """Return what answers a query, best first; nothing if nothing is relevant."""
    given = asked.model_dump(exclude={"query", "left_out"}, exclude_defaults=True)
    with reading(call) as reader:
        hits = reader.search(asked.query, **given)
        answer: dict[str, Any] = {"hits": hits}
        if asked.left_out and asked.query:
            options = {"limit": asked.limit, **given}
            answer["left_out"] = reader.left_out(asked.query, hits, most=asked.left_out, **options)
    return answer


@OPERATIONS.add("GET", "/v1/categories", "read", query=ScopeQuery, answer=dict[str, int])
def list_categories(call: Call) -> Any:
    """Return the number of live records of each category."""
    return call.reader.categories()


@OPERATIONS.add("GET", "/v1/tags", "read", query=ScopeQuery, answer=dict[str, int])
def list_tags(call: Call) -> Any:
    """Return the number of live records that have each tag."""
    return call.reader.tags()


@OPERATIONS.add("GET", "/v1/subjects", "read", answer=schemas.Items[schemas.SubjectOutput])
def list_subjects(call: Call) -> Any:
    """List the names and categories that records share, those of most records first."""
    return {"items": [each._asdict() for each in call.reader.subjects.list()]}


@OPERATIONS.add("GET", "/v1/filters", "read", answer=dict[str, Any])
def count_filters(call: Call) -> Any:
    """Return the number of records that each filter of a list finds."""
    return call.reader.subjects.counts()._asdict()


# -- pages and logs, which belong to everybody --------------------------------------------------------------


_PAGE = "/v1/pages/{name:path}"


@OPERATIONS.add("GET", "/v1/pages", "read", query=Empty, answer=schemas.Items[PageOverview])
def list_pages(call: Call) -> Any:
    """List all pages and logs."""
    return {"items": call.whole.pages.overview()}


def _answer_page(call: Call, name: str) -> OperationAnswer:
    return answer_value(call, _serialize_page(name, call.whole.pages.read(name)))


@OPERATIONS.add(
    "POST", f"{_PAGE}/append", "write", answer=schemas.PageText, is_whole=True, replay=_answer_page
)
def append_to_page(call: Call, given: schemas.LineInput) -> OperationAnswer:
    """Add a line to the end of a page, or a paragraph to the end of a log."""
    call.require_trust()
    name = call.path["name"]
    call.whole.pages.append(name, given.text, at=given.at)
    answer = _answer_page(call, name)
    answer.reference = name
    return answer


@OPERATIONS.add("GET", _PAGE, "read", query=Empty, answer=schemas.PageText, has_etag=True)
def get_page(call: Call) -> OperationAnswer:
    """Return the text of a page or a log."""
    _require_page(call)
    return _answer_page(call, call.path["name"])


@OPERATIONS.add("PUT", _PAGE, "write", answer=schemas.PageText, statuses=(200, 201), is_whole=True)
def write_page(call: Call, given: schemas.PageInput) -> OperationAnswer:
    """Write a page as a whole; an existing one needs `If-Match`."""
    call.require_trust()
    name, pages = call.path["name"], call.whole.pages
    exists = name in pages.names() and not is_log(name)
    old = pages.read(name) if exists else None
    if exists:
        if "if-match" not in call.headers:
            raise Problem(428, f"The page {name!r} exists: read it, and send its ETag as If-Match.")
        check_match(call, _serialize_page(name, old or ""))
    expected = None if call.headers.get("if-match") == "*" else old
    origin = call.caller.limit_origin("owner")
    result = pages.write(name, given.content, expected=expected, origin=origin)
    answer = _answer_page(call, name)
    answer.status = 201 if result.outcome == "created" else 200
    answer.headers["Reverie-Outcome"] = result.outcome
    return answer


@OPERATIONS.add("GET", "/v1/page", "read", answer=schemas.LivingPage, has_etag=True)
def get_living_page(call: Call) -> OperationAnswer:
    """Return what the scope knows as one page, each line a record."""
    return answer_value(call, _serialize_living_page(call.view.page()))


def _serialize_living_page(content: str) -> dict[str, Any]:
    names = schemas.LivingPageLine.model_fields
    sections = [
        {
            "title": each.title,
            "level": each.level,
            "lines": [{name: getattr(line, name) for name in names} for line in each.lines],
        }
        for each in parse_block(content)
    ]
    return {"content": content, "sections": sections}


@OPERATIONS.add("PUT", "/v1/page", "write", answer=schemas.LivingPage)
def edit_living_page(call: Call, given: schemas.PageInput) -> OperationAnswer:
    """Change records by the edited page; `If-Match` names the version that was edited.

    If more than three lines are gone, nothing is changed, and the changes wait for review.
    """
    call.require_trust()
    page = call.view.page()
    if "if-match" in call.headers:
        check_match(call, _serialize_living_page(page))
    origin = call.caller.limit_origin("owner")
    edit = call.view.edit_page(given.content, expected=page, origin=origin)
    shown = _serialize_living_page(edit.text)
    body = {**shown, "outcome": edit.outcome, "proposed": edit.proposed}
    return OperationAnswer(body, headers={"ETag": compute_etag(shown)})


@OPERATIONS.add("DELETE", _PAGE, "write", answer=schemas.Count, is_whole=True, needs_match=True)
def delete_page(call: Call) -> Any:
    """Remove a page; undo brings it back."""
    call.require_trust()
    _require_page(call)
    name, pages = call.path["name"], call.whole.pages
    old = pages.read(name)
    expected = old if check_match(call, _serialize_page(name, old)) else None
    with refusing_changed():
        return {"removed": int(pages.delete(name, expected=expected))}


def _require_page(call: Call) -> None:
    """Raise `NotFound` if there is no page or log of the name in the path."""
    name = call.path["name"]
    if name not in call.whole.pages.names():
        raise NotFound(f"there is no page {name!r}: list the pages to see which there are")


def _serialize_page(name: str, content: str) -> dict[str, Any]:
    return {"name": name, "content": content}
