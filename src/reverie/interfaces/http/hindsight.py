"""The HTTP interface of Hindsight, so that its own client works with this server unmodified.

A bank is the scope `bank:NAME` below the scope of the token, and what is retained is a record there. Deleting
archives. Parts that need Hindsight's own model or its graph are answered with 501.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from reverie import __version__
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import Record
from reverie.domain.text.timestamps import format_time, parse_time
from reverie.domain.text.validation import estimate_tokens, validate_count, validate_raw_text
from reverie.interfaces.http.mem0 import AnyFields, read_count, read_fields
from reverie.interfaces.http.mem0_filters import build_scope_name
from reverie.interfaces.http.operations import METHODS, Call, OperationList
from reverie.interfaces.http.problems import Problem
from reverie.repositories.records import NewRecord
from reverie.scoped import ScopedMemory

_OWN = "hindsight."
"""Prefix of metadata that were given over this interface."""

_STORE, _PROFILE = "hindsight", ("bank",)
_MOST_HITS = 200
_TRAITS = ("skepticism", "literalism", "empathy")
_PROFILE_FIELDS = {"name", "mission", "reflect_mission", "background"}
_LONGEST_PROFILE_TEXT = 20_000
_RECALL_UNSUPPORTED = ("tag_groups", "temporal_window")
_BANKS = "/v1/default/banks"
_BANK = f"{_BANKS}/{{bank}}"


OPERATIONS = OperationList("hindsight_", query=AnyFields)
"""All operations of Hindsight's interface, the catch-all last."""


def _open_bank(call: Call) -> ScopedMemory:
    return call.open_scope(build_scope_name("bank", call.path["bank"]))


def _list_records(view: ScopedMemory, *, archived: bool = False) -> list[Record]:
    """Return what was retained in a bank, the latest first."""
    records = view.list(limit=None, order="created", parts=True, archived=archived)
    return [record for record in records if record.scope == view.scope and not record.is_kept]


# -- banks -----------------------------------------------------------------------------------------------


def _read_profile(view: ScopedMemory) -> Mapping[str, Any]:
    item = view.key_value(_STORE).get(_PROFILE, "profile")
    return {} if item is None else item.value


def _describe_bank(call: Call, view: ScopedMemory) -> dict[str, Any]:
    stored = _read_profile(view)
    return {
        "bank_id": call.path["bank"],
        "name": stored.get("name", call.path["bank"]),
        "mission": stored.get("mission", ""),
        "background": stored.get("background"),
        "disposition": {trait: stored.get(f"disposition_{trait}", 3) for trait in _TRAITS},
    }


@OPERATIONS.add("PUT", _BANK, "write")
@OPERATIONS.add("PATCH", _BANK, "write")
def write_bank(call: Call, body: AnyFields) -> Any:
    """Store name, mission, background and disposition of a bank; the last three have no effect."""
    given = {name: value for name, value in read_fields(call, body).items() if value is not None}
    known = _PROFILE_FIELDS | {f"disposition_{trait}" for trait in _TRAITS}
    if unknown := sorted(set(given) - known):
        raise _refuse(f"the setting {unknown[0]!r} of a bank")
    for name, value in given.items():
        if name in _PROFILE_FIELDS:
            validate_raw_text(value, name=name, longest=_LONGEST_PROFILE_TEXT, empty=True)
        else:
            validate_count(value, name=name, most=5)
    if "reflect_mission" in given:
        given["mission"] = given.pop("reflect_mission")
    view = _open_bank(call)
    view.key_value(_STORE).put(_PROFILE, "profile", {**_read_profile(view), **given})
    return _describe_bank(call, view)


@OPERATIONS.add("GET", f"{_BANK}/profile", "read")
def get_bank(call: Call) -> Any:
    """Return the profile of a bank."""
    return _describe_bank(call, _open_bank(call))


@OPERATIONS.add("DELETE", f"{_BANK}/memories", "write")
def delete_memories(call: Call) -> Any:
    """Archive everything in a bank."""
    view = _open_bank(call)
    records = _list_records(view)
    for record in records:
        view.archive(record.id, reason="deleted over Hindsight's interface")
    return {"success": True, "message": "Archived; it can be restored.", "deleted_count": len(records)}


@OPERATIONS.add("DELETE", _BANK, "write")
def delete_bank(call: Call) -> Any:
    """Archive everything in a bank, and its profile."""
    answer = delete_memories(call)
    _open_bank(call).key_value(_STORE).delete(_PROFILE, "profile")
    return answer


# -- retain ----------------------------------------------------------------------------------------------


def _read_content(given: object) -> str:
    if isinstance(given, str):
        return given
    texts = []
    for block in given if isinstance(given, list) else ():
        if not isinstance(block, Mapping) or block.get("type") != "text":
            raise _refuse("content that is no text")
        texts.append(str(block.get("text", "")))
    return "\n".join(texts)


def _read_texts(fields: Mapping[str, Any], name: str) -> list[str]:
    """Return a list of texts; an empty one where it is not given."""
    given = fields.get(name) or []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise InvalidInput(f"{name} is no list of texts: pass one such as ['travel'], or leave it out")
    return given


def _build_record(call: Call, item: object, document_tags: list[str]) -> NewRecord:
    if not isinstance(item, Mapping):
        raise InvalidInput("items holds what is no object: pass objects with content")
    metadata = {
        f"{_OWN}{name}": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name in ("context", "document_id", "metadata", "entities")
        if (value := item.get(name))
    }
    for name in ("timestamp", "document_id"):
        if not isinstance(item.get(name), str | None):
            raise InvalidInput(f"{name} is no text: pass one, or leave it out")
    at = item.get("timestamp")
    return NewRecord(
        content=_read_content(item.get("content")),
        origin=call.caller.limit_origin("owner"),
        tags=[*_read_texts(item, "tags"), *document_tags],
        metadata=metadata,
        created_at=None if at in (None, "unset") else parse_time(at, name="timestamp"),
        draft=True,
    )


@OPERATIONS.add("POST", f"{_BANK}/memories", "write")
def retain(call: Call, body: AnyFields) -> Any:
    """Save items as drafts. A document that is retained again replaces what it was, unless it is appended to."""
    fields = read_fields(call, body)
    items = fields.get("items")
    if not isinstance(items, list) or not items:
        raise InvalidInput("items is missing: pass a list of objects with content")
    view = _open_bank(call)
    document_tags = _read_texts(fields, "document_tags")
    records = [_build_record(call, item, document_tags) for item in items]
    replaced = {
        item.get("document_id") for item in items if item.get("update_mode", "replace") != "append"
    } - {None}
    old = [each for each in _list_records(view) if each.metadata.get(f"{_OWN}document_id") in replaced]
    saved = {each.record.id for each in view.save_many(records)}
    for record in old:
        if record.id not in saved:
            view.archive(record.id, reason="its document was retained anew")
    return {"success": True, "bank_id": call.path["bank"], "items_count": len(items), "async": False}


# -- recall ----------------------------------------------------------------------------------------------


def _find_type(record: Record) -> str:
    if record.is_headline:
        return "observation"
    return "world" if record.origin == "owner" else "experience"


def _describe_record(record: Record) -> dict[str, Any]:
    own = {name.removeprefix(_OWN): text for name, text in record.metadata.items() if name.startswith(_OWN)}
    return {
        "id": record.id,
        "text": record.content,
        "context": own.get("context"),
        "mentioned_at": format_time(record.created_at),
        "occurred_start": None if record.valid_from is None else format_time(record.valid_from),
        "occurred_end": None if record.valid_to is None else format_time(record.valid_to),
        "document_id": own.get("document_id"),
        "tags": list(record.tags),
        "metadata": _parse_json(own.get("metadata")),
    }


def _parse_json(text: str | None) -> Any:
    try:
        return None if text is None else json.loads(text)
    except ValueError:  # edited by hand
        return {"metadata": text}


def _has_tags(record: Record, wanted: list[str], match: str) -> bool:
    """Whether tags are as asked; `any` and `all` let through what has no tags."""
    tags, asked = set(record.tags), set(wanted)
    if match == "exact":
        return tags == asked
    if not asked:
        return True
    if not tags:
        return not match.endswith("_strict")
    return asked <= tags if match.startswith("all") else bool(asked & tags)


@OPERATIONS.add("POST", f"{_BANK}/memories/recall", "read")
def recall(call: Call, body: AnyFields) -> Any:
    """Return what answers a query, best first, within a number of tokens."""
    fields = read_fields(call, body)
    for name in _RECALL_UNSUPPORTED:
        if fields.get(name):
            raise _refuse(f"{name!r} of a recall")
    floors = fields.get("min_scores") or {}
    if not isinstance(floors, Mapping):
        raise InvalidInput("min_scores is no object: pass one such as {'final': 0.2}, or leave it out")
    if set(floors) - {"final"}:
        raise _refuse("'min_scores' other than 'final'")
    query, types, tags = fields.get("query"), _read_texts(fields, "types"), _read_texts(fields, "tags")
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput("query is missing: pass a text")
    room = validate_count(fields.get("max_tokens", 4096), name="max_tokens", least=0)
    match = str(fields.get("tags_match") or "any")
    view, results = _open_bank(call), []
    for hit in view.search(query, limit=_MOST_HITS, min_score=floors.get("final") or 0.0):
        record = hit.record
        if record is None or record.scope != view.scope or record.is_kept:
            continue
        kind = _find_type(record)
        if (types and kind not in types) or not _has_tags(record, tags, match):
            continue
        room -= estimate_tokens(record.content)
        if room < 0:
            break
        results.append({**_describe_record(record), "type": kind, "scores": {"final": round(hit.score, 6)}})
    return {"results": results}


@OPERATIONS.add("GET", f"{_BANK}/memories/list", "read")
def list_memories(call: Call) -> Any:
    """Return a page of what a bank holds, the latest first; `q` selects what contains a text."""
    fields = read_fields(call)
    limit, offset = read_count(fields, "limit", 100), read_count(fields, "offset", 0, least=0)
    state, kind = fields.get("state", "valid"), fields.get("type")
    text = str(fields.get("q") or "").casefold()
    if state not in ("valid", "invalidated"):
        raise _refuse(f"the state {state!r}")
    records = [
        record
        for record in _list_records(_open_bank(call), archived=state == "invalidated")
        if text in record.content.casefold() and kind in (None, "", _find_type(record))
    ]
    items = [
        {
            **{name: value for name, value in _describe_record(record).items() if value is not None},
            "date": format_time(record.created_at),
            "fact_type": _find_type(record),
            "proof_count": record.seen_count,
            "state": state,
            "updated_at": format_time(record.updated_at),
        }
        for record in records[offset : offset + limit]
    ]
    return {"items": items, "total": len(records), "limit": limit, "offset": offset}


@OPERATIONS.add("GET", f"{_BANK}/memories/{{id}}", "read")
def get_memory(call: Call) -> Any:
    """Return one memory of a bank."""
    view = _open_bank(call)
    record = view.get(call.path["id"])
    if record is None or record.scope != view.scope or record.is_kept:
        raise NotFound(f"there is no memory {call.path['id']!r} in this bank: list them for the right id")
    return {**_describe_record(record), "type": _find_type(record)}


# -- the server, and what is not served ------------------------------------------------------------------


@OPERATIONS.add("GET", "/version", None)
def describe_version(call: Call) -> Any:
    """Return the version and the features that there are."""
    features = (
        "observations", "mcp", "worker", "bank_config_api", "bank_llm_health", "file_upload_api",
        "document_export_api", "document_import_api", "audit_log", "llm_trace", "store_document_text",
    )  # fmt: skip
    return {"api_version": __version__, "features": {name: name == "mcp" for name in features}}


@OPERATIONS.add("GET", "/health", None)
@OPERATIONS.add("GET", "/health/live", None)
@OPERATIONS.add("GET", "/health/ready", None)
def answer_health(call: Call) -> Any:
    """Say that the process answers, and reads its store."""
    call.server.store.sequence()
    return {"status": "healthy"}


@OPERATIONS.add("GET", "/v1/bank-template-schema", "read")
def refuse_unsupported(call: Call) -> Any:
    """Refuse a request for what this server does not have."""
    raise _refuse(f"{call.method} {call.path.get('rest', '')!r}")


for _method in METHODS:
    OPERATIONS.add(_method, "/v1/default/{rest:path}", "read")(refuse_unsupported)


def _refuse(what: str) -> Problem:
    return Problem(
        501,
        f"This part of Hindsight's interface is not in Reverie: {what}. Leave it out, or use the API under /v1 that "
        "/openapi.json describes.",
    )
