"""Operations on records, searches and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from reverie.admin.history.diff import serialize_change
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.living_page import parse_block
from reverie.domain.page import is_log
from reverie.domain.record import NOTHING, Record
from reverie.domain.text.json_values import to_json_object
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.interfaces.http import schemas
from reverie.interfaces.http.operations import (
    Call,
    Empty,
    OperationAnswer,
    OperationList,
    Problem,
    answer_value,
    check_match,
    compute_etag,
    decode_cursor,
    encode_cursor,
    refusing_changed,
)
from reverie.reader import MemoryReader
from reverie.repositories.pages import PageOverview
from reverie.repositories.records import NewRecord, SaveResult, describe_missing_record

OPERATIONS = OperationList(group="Records, search and pages")

_TICK = timedelta(microseconds=1)


@contextmanager
def open_reader(call: Call, as_of: datetime | int | None) -> Iterator[MemoryReader]:
    """Open the scope that a request reads, as of a time or of the number of a change."""
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


def _answer_saved(result: SaveResult) -> OperationAnswer[schemas.SavedRecord]:
    reference = {"id": result.record.id, **to_json_object(result, "outcome", "notice", "reason")}
    headers = {"ETag": compute_etag(result.record), "Location": f"/v1/records/{result.record.id}"}
    return OperationAnswer(result, 201 if result.outcome == "created" else 200, headers, reference)


def _replay_saved(call: Call, reference: Any) -> OperationAnswer[schemas.SavedRecord]:
    record = call.view.get(reference["id"])
    if record is None:
        raise NotFound(f"record {reference['id']!r} was saved by this request, and has been removed since")
    return _answer_saved(
        SaveResult(record=record, **{name: value for name, value in reference.items() if name != "id"})
    )


@OPERATIONS.add("POST", "/v1/records", "write", statuses=(200, 201), replay=_replay_saved)
def save_record(call: Call, given: schemas.RecordInput) -> OperationAnswer[schemas.SavedRecord]:
    """Save a record, or reinforce the one that says the same."""
    return _answer_saved(call.view.save_many([_build_new_record(call, given)])[0])


def _answer_batch(
    answers: Sequence[OperationAnswer[schemas.SavedRecord]],
) -> OperationAnswer[schemas.SavedRecords]:
    body = {"results": [each.body for each in answers]}
    return OperationAnswer(body, reference=[each.reference for each in answers])


def _replay_batch(call: Call, reference: Any) -> OperationAnswer[schemas.SavedRecords]:
    return _answer_batch([_replay_saved(call, each) for each in reference])


@OPERATIONS.add("POST", "/v1/records/batch", "write", replay=_replay_batch)
def save_records(call: Call, given: schemas.RecordBatch) -> OperationAnswer[schemas.SavedRecords]:
    """Save several records in one transaction."""
    results = call.view.save_many([_build_new_record(call, each) for each in given.records])
    return _answer_batch([_answer_saved(each) for each in results])


@OPERATIONS.add("GET", "/v1/records", "read")
def list_records(call: Call[schemas.RecordListQuery]) -> OperationAnswer[schemas.ListPage[Record]]:
    """List records, those created last first."""
    query = call.query
    filters = query.model_dump(exclude={"scope", "limit", "cursor", "as_of"}, exclude_defaults=True)
    of = (call.caller.token, query.model_copy(update={"cursor": None, "limit": 0}))
    with open_reader(call, call.query.as_of) as reader:
        page, following = read_created(reader, query.cursor, of=of, limit=query.limit, parts=True, **filters)
    return OperationAnswer({"items": page, "next": following})


def read_created(
    reader: MemoryReader, cursor: str | None, *, of: object, limit: int, **filters: Any
) -> tuple[list[Record], str | None]:
    """Return one page of a list of records, those created last first, and the cursor of the next page.

    The cursor names the last record, and how many of its moment there were. A page stays complete if that record is
    removed, or others of its moment are.
    """
    at, last, seen = None, "", 0
    if cursor is not None:
        text, last, seen = decode_cursor(cursor, of=of, types=(str, str, int))
        at = parse_time(text)
        filters["created_before"] = min(at + _TICK, filters.get("created_before") or at + _TICK)
    records = reader.list(limit=limit + seen + 1, order="created", **filters)
    if at is not None:
        known = min(sum(each.created_at == at for each in records), max(seen - 1, 0))
        records = records[next((n for n, each in enumerate(records, 1) if each.id == last), known) :]
    page = records[:limit]
    if len(records) <= limit:
        return page, None
    end = page[-1]
    same = sum(each.created_at == end.created_at for each in page) + (seen if end.created_at == at else 0)
    return page, encode_cursor([format_time(end.created_at), end.id, same], of=of)


@OPERATIONS.add("GET", "/v1/records/{id}", "read")
def get_record(call: Call[schemas.AsOfQuery]) -> OperationAnswer[Record]:
    """Return a record, archived or not."""
    with open_reader(call, call.query.as_of) as reader:
        return answer_value(get_record_of(call, reader))


@OPERATIONS.add("PATCH", "/v1/records/{id}", "write", needs_match=True)
def update_record(call: Call, given: schemas.RecordPatch) -> OperationAnswer[Record]:
    """Change fields of a record; null removes a value (RFC 7396)."""
    record = get_changeable(call)
    is_bound = check_match(call, record)
    changes = given.model_dump(exclude_unset=True)
    if "pinned" in changes:
        call.require_trust()
    changes |= {name: changes[name] or [] for name in ("tags", "references") if name in changes}
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
    answer = answer_value(updated)
    answer.headers["Reverie-Outcome"] = "unchanged" if updated == record else "changed"
    return answer


@OPERATIONS.add("DELETE", "/v1/records/{id}", "write", needs_match=True)
def archive_record(call: Call[schemas.ReasonQuery]) -> OperationAnswer[Record]:
    """Take a record out of search; it can be restored."""
    record = get_changeable(call)
    expected = record if check_match(call, record) else None
    with refusing_changed():
        return answer_value(call.view.archive(record.id, reason=call.query.reason, expected=expected))


@OPERATIONS.add("POST", "/v1/records/{id}/restore", "write")
def restore_record(call: Call) -> OperationAnswer[Record]:
    """Bring an archived record back into search."""
    return answer_value(call.view.restore(get_changeable(call).id))


@OPERATIONS.add("POST", "/v1/records/{id}/end", "write")
def end_record(call: Call) -> OperationAnswer[Record]:
    """Say that a record is no longer true: it leaves prompts, and stays searchable."""
    record = get_changeable(call)
    expected = record if check_match(call, record) else None
    with refusing_changed():
        return answer_value(call.view.end(record.id, expected=expected))


@OPERATIONS.add("POST", "/v1/records/{id}/promote", "write", statuses=(200, 201))
def promote_record(call: Call, given: schemas.Promotion) -> OperationAnswer[schemas.SavedRecord]:
    """Copy a record to a scope around its own."""
    if not call.is_own(given.to):
        raise Problem(403, "This token is bound to a scope, and cannot promote out of it. Use a wider one.")
    return _answer_saved(call.view.promote(call.path["id"], to=given.to))


@OPERATIONS.add("POST", "/v1/records/changes", "write")
def change_records(call: Call, given: schemas.BulkChange) -> OperationAnswer[schemas.ListPage[Record]]:
    """Archive, label or vouch for several records in one transaction, which one undo reverts."""
    for name in given.ids:
        get_changeable(call, name)
    if given.action == "vouch" and call.caller.origin != "owner":
        what = f"This token speaks for {call.caller.origin!r}, and only the owner can vouch for a record."
        raise Problem(403, what)
    label, view = partial(call.view.label, tags=given.tags), call.view
    changes: Mapping[str, Any] = {"archive": view.archive_many, "label": label, "vouch": view.vouch}
    changed = changes[given.action](given.ids, reason=given.reason)
    return OperationAnswer({"items": changed, "next": None})


@OPERATIONS.add("POST", "/v1/conflicts/settle", "write")
def settle_conflict(call: Call, given: schemas.SettlementInput) -> OperationAnswer[dict[str, Record]]:
    """Decide which of two records holds; the other one ends, is archived as wrong, or holds too."""
    read = get_changeable(call, given.holds), get_changeable(call, given.other)
    if given.versions and given.versions != tuple(map(compute_etag, read)):
        raise Problem(412, "One of the two has changed since it was read. Read both again.")
    named, expected = given.model_dump(exclude={"versions"}), read if given.versions else None
    with refusing_changed():
        holds, other = call.view.settle(**named, expected=expected)
    return OperationAnswer({"holds": holds, "other": other})


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


@OPERATIONS.add("GET", "/v1/records/{id}/history", "read")
def get_record_history(call: Call) -> OperationAnswer[schemas.JournalPage]:
    """List the changes of a record, the oldest first."""
    rows = call.memory.history.log(get_record_of(call, call.reader).id, limit=1_000)
    return OperationAnswer({"items": [serialize_change(row) for row in rows], "next": None})


@OPERATIONS.add("GET", "/v1/records/{id}/blame", "read")
def get_record_blame(call: Call) -> OperationAnswer[dict[str, Any]]:
    """Return where a record comes from."""
    blame = call.memory.history.blame(get_record_of(call, call.reader).id)
    seen = replace(
        blame,
        turns=tuple(turn for turn in blame.turns if call.reader.get_turn(turn.id)),
        merged=tuple(each for each in blame.merged if call.reader.get(each.id)),
    )
    return OperationAnswer(seen)


@OPERATIONS.add("GET", "/v1/records/{id}/diff", "read")
def get_record_diff(call: Call[schemas.DiffQuery]) -> OperationAnswer[dict[str, Any]]:
    """Return the difference between two versions of a record; by default that of its last change."""
    record = get_record_of(call, call.reader)
    a, b = call.find_moment(call.query.a), call.find_moment(call.query.b)
    return OperationAnswer(call.memory.history.diff(record.id, a, b))


# -- searching -------------------------------------------------------------------------------------------


@OPERATIONS.add("POST", "/v1/search", "read")
def search(call: Call[schemas.AsOfQuery], asked: schemas.SearchInput) -> OperationAnswer[schemas.Hits]:
    """Return what answers a query, best first; nothing if nothing is relevant."""
    given = asked.model_dump(exclude={"query", "left_out"}, exclude_defaults=True)
    with open_reader(call, call.query.as_of) as reader:
        hits = reader.search(asked.query, **given)
        answer: dict[str, Any] = {"hits": hits}
        if asked.left_out and asked.query:
            answer["left_out"] = reader.left_out(asked.query, hits, most=asked.left_out, **given)
    return OperationAnswer(answer)


@OPERATIONS.add("GET", "/v1/categories", "read")
def list_categories(call: Call) -> OperationAnswer[dict[str, int]]:
    """Return the number of live records of each category."""
    return OperationAnswer(call.reader.categories())


@OPERATIONS.add("GET", "/v1/tags", "read")
def list_tags(call: Call) -> OperationAnswer[dict[str, int]]:
    """Return the number of live records that have each tag."""
    return OperationAnswer(call.reader.tags())


@OPERATIONS.add("GET", "/v1/subjects", "read")
def list_subjects(call: Call) -> OperationAnswer[schemas.Items[schemas.SubjectOutput]]:
    """List the names and categories that records share, those of most records first."""
    return OperationAnswer({"items": [each._asdict() for each in call.reader.subjects.list()]})


@OPERATIONS.add("GET", "/v1/filters", "read")
def count_filters(call: Call) -> OperationAnswer[dict[str, Any]]:
    """Return the number of records that each filter of a list finds."""
    return OperationAnswer(call.reader.subjects.counts()._asdict())


# -- pages and logs, which belong to everybody --------------------------------------------------------------


_PAGE = "/v1/pages/{name:path}"


@OPERATIONS.add("GET", "/v1/pages", "read")
def list_pages(call: Call[Empty]) -> OperationAnswer[schemas.Items[PageOverview]]:
    """List all pages and logs."""
    return OperationAnswer({"items": call.whole.pages.overview()})


def _answer_page(call: Call, name: str) -> OperationAnswer[schemas.PageText]:
    return answer_value(_serialize_page(name, call.whole.pages.read(name)))


@OPERATIONS.add("POST", f"{_PAGE}/append", "write", is_whole=True, replay=_answer_page)
def append_to_page(call: Call, given: schemas.LineInput) -> OperationAnswer[schemas.PageText]:
    """Add a line to the end of a page, or a paragraph to the end of a log."""
    call.require_trust()
    name = call.path["name"]
    call.whole.pages.append(name, given.text, at=given.at)
    answer = _answer_page(call, name)
    answer.reference = name
    return answer


@OPERATIONS.add("GET", _PAGE, "read")
def get_page(call: Call[Empty]) -> OperationAnswer[schemas.PageText]:
    """Return the text of a page or a log."""
    return _answer_page(call, _find_page(call))


@OPERATIONS.add("PUT", _PAGE, "write", statuses=(200, 201), is_whole=True)
def write_page(call: Call, given: schemas.PageInput) -> OperationAnswer[schemas.PageText]:
    """Write a page as a whole; an existing one needs `If-Match`."""
    call.require_trust()
    name, pages, old = call.path["name"], call.whole.pages, None
    if name in pages.names() and not is_log(name):
        old = pages.read(name)
        if "if-match" not in call.headers:
            raise Problem(428, f"The page {name!r} exists: read it, and send its ETag as If-Match.")
        check_match(call, _serialize_page(name, old))
    expected = None if call.headers.get("if-match") == "*" else old
    origin = call.caller.limit_origin("owner")
    result = pages.write(name, given.content, expected=expected, origin=origin)
    answer = _answer_page(call, name)
    answer.status = 201 if result.outcome == "created" else 200
    answer.headers["Reverie-Outcome"] = result.outcome
    return answer


@OPERATIONS.add("GET", "/v1/page", "read")
def get_living_page(call: Call) -> OperationAnswer[schemas.LivingPage]:
    """Return what the scope knows as one page, each line a record."""
    return answer_value(_serialize_living_page(call.view.page()))


def _serialize_living_page(content: str) -> dict[str, Any]:
    names = schemas.LivingPageLine.model_fields
    sections = [
        {**each._asdict(), "lines": [{name: getattr(line, name) for name in names} for line in each.lines]}
        for each in parse_block(content)
    ]
    return {"content": content, "sections": sections}


@OPERATIONS.add("PUT", "/v1/page", "write")
def edit_living_page(call: Call, given: schemas.PageInput) -> OperationAnswer[schemas.LivingPage]:
    """Change records by the edited page; `If-Match` names the version that was edited.

    If more than three lines are gone, nothing is changed, and the changes wait for review.
    """
    call.require_trust()
    page = call.view.page()
    check_match(call, _serialize_living_page(page))
    origin = call.caller.limit_origin("owner")
    edit = call.view.edit_page(given.content, expected=page, origin=origin)
    shown = _serialize_living_page(edit.text)
    body = {**shown, "outcome": edit.outcome, "proposed": edit.proposed}
    return OperationAnswer(body, headers={"ETag": compute_etag(shown)})


@OPERATIONS.add("DELETE", _PAGE, "write", is_whole=True, needs_match=True)
def delete_page(call: Call) -> OperationAnswer[schemas.Count]:
    """Remove a page; undo brings it back."""
    call.require_trust()
    name, pages = _find_page(call), call.whole.pages
    old = pages.read(name)
    expected = old if check_match(call, _serialize_page(name, old)) else None
    with refusing_changed():
        return OperationAnswer({"removed": int(pages.delete(name, expected=expected))})


def _find_page(call: Call) -> str:
    """Return the name in the path; raise `NotFound` if no page or log has it."""
    name = call.path["name"]
    if name not in call.whole.pages.names():
        raise NotFound(f"no page {name!r}: list the pages")
    return name


def _serialize_page(name: str, content: str) -> dict[str, Any]:
    return {"name": name, "content": content}
