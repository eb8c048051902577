"""The HTTP interface of mem0, so that its own client works with this server unmodified.

The widest of `user_id`, `agent_id`, `app_id` and `run_id` names the scope, such as `user:alice`, below the scope
of the token. The others are metadata. A memory there is a record here; deleting it archives it.
"""

from __future__ import annotations

import json
import operator
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import wraps
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from reverie.domain.change import JournalEntry
from reverie.domain.conversation import ORIGIN, ROLES, SAVED
from reverie.domain.errors import InvalidInput, NotFound, quote_value
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.provenance import is_typed
from reverie.domain.record import LONGEST_CONTENT, UNTRUSTED, Origin, Record
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text.escaping import escape_output
from reverie.domain.text.timestamps import format_time, from_microseconds, parse_time
from reverie.domain.text.validation import clean_text, validate_count
from reverie.interfaces.http.operations import (
    Call,
    Method,
    OperationAnswer,
    OperationList,
    Problem,
    parse_number,
)
from reverie.interfaces.http.tokens import Right
from reverie.repositories.records import NewRecord, describe_missing_record
from reverie.scoped import ScopedMemory

METADATA = "mem0."
"""Prefix of metadata that were given over this interface."""

ENTITIES = ("user", "agent", "app", "run")
"""Kinds of owners of memories, the widest first."""

MOST_AT_ONCE = 1_000

_OWN = f"{METADATA}metadata"
_IDS = tuple(f"{kind}_id" for kind in ENTITIES)
_CANDIDATES = 200
_SESSION = "mem0"
_DEEPEST = 20
_ESCAPED = defer_regex(r"%([0-9A-F]{2,6});")


class AnyFields(BaseModel):
    """Body or query of any fields, of which only the known ones have an effect."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Parse a body, also one with half of a pair of surrogates, which programs send where they cut a text."""
        try:
            return cls.model_validate(json.loads(json_data))
        except (ValueError, RecursionError):  # the parser of the form says what is wrong
            return super().model_validate_json(json_data, **options)


OPERATIONS = OperationList("mem0_", query=AnyFields)
"""All operations of mem0's interface."""

_Run = TypeVar("_Run", bound=Callable[..., Any])


def _serve(method: Method, right: Right, path: str) -> Callable[[_Run], _Run]:
    """Return a decorator that adds an operation.

    Its answer is escaped, because programs show it to models.
    """

    def register(run: _Run) -> _Run:
        @wraps(run)
        def escaped(*given: Any) -> Any:
            return OperationAnswer(escape_output(run(*given)))

        OPERATIONS.add(method, path, right)(escaped)
        return run

    return register


def _read_fields(call: Call, body: AnyFields | None = None) -> dict[str, Any]:
    """Return the fields of the query and of the body."""
    return {**(call.query.model_extra or {}), **((body and body.model_extra) or {})}


def _read_count(fields: Mapping[str, Any], name: str, default: int, *, most: int = 1_000_000_000) -> int:
    """Return a whole number among the fields, which is a text in a query."""
    given = fields.get(name) or default
    number = parse_number(given) if isinstance(given, str) else given
    return validate_count(given if number is None else number, name=name, least=1, most=most)


def _find_record(call: Call, id: object) -> tuple[ScopedMemory, Record]:
    """Return a record with the memory of its scope; raise `NotFound` if the token does not reach it."""
    record = call.memory.scoped(EVERY_SCOPE).get(id) if isinstance(id, str) else None
    if record is None or record.archived or not call.is_own(record.scope):
        raise NotFound(describe_missing_record(str(id)))
    return call.whole.scoped(record.scope), record


# -- memories as mem0 has them ---------------------------------------------------------------------------


def _find_owner(call: Call, scope: str) -> tuple[str, str] | None:
    """Return the type and the name of whom a scope belongs to, within that of the token."""
    return parse_scope_name(scope.removeprefix(call.caller.scope).removeprefix("/"))


def _read_ids(call: Call, record: Record) -> dict[str, str | None]:
    ids = {name: record.metadata.get(METADATA + name) for name in _IDS}
    owner = _find_owner(call, record.scope)
    return ids | ({} if owner is None else {f"{owner[0]}_id": owner[1]})


def _read_metadata(record: Record) -> dict[str, Any] | None:
    """Return the metadata as they were given; those of a record that was not saved over this interface."""
    own = record.metadata.get(_OWN)
    if own is not None:
        try:
            return dict(json.loads(own))
        except (ValueError, TypeError):  # edited by hand
            return {"metadata": own}
    return {name: text for name, text in record.metadata.items() if not name.startswith(METADATA)} or None


def _to_memory(call: Call, record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "memory": record.content,
        **_read_ids(call, record),
        "metadata": _read_metadata(record),
        "categories": [*filter(None, [record.category]), *record.tags],
        "created_at": format_time(record.created_at),
        "updated_at": format_time(record.updated_at),
        "expiration_date": None if record.expires_at is None else record.expires_at.date().isoformat(),
        "trusted": record.origin not in UNTRUSTED,
    }


def _parse_metadata(given: object) -> dict[str, str]:
    """Return metadata of any values as one of text, so that no name is one of Reverie's own."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"metadata is {type(given).__name__}: pass an object")
    return {_OWN: clean_text(json.dumps(given, ensure_ascii=False))}


def _parse_moment(fields: Mapping[str, Any], name: str) -> datetime | None:
    """Return a time given as seconds since 1970, as a date or as a time."""
    given = fields.get(name)
    if given is None:
        return None
    if isinstance(given, str):
        return parse_time(given, name=name)
    if isinstance(given, int | float) and not isinstance(given, bool):
        with suppress(OverflowError):  # before the year 1 or after 9999
            return from_microseconds(int(given * 1_000_000))
    raise InvalidInput(f"{name} is {quote_value(given)}: pass a date, a time, or seconds since 1970")


# -- adding ----------------------------------------------------------------------------------------------


_ROLES = {role: role for role in ROLES} | {"human": "user", "developer": "system", "function": "tool"}


def _parse_messages(given: object) -> list[dict[str, str]]:
    """Return the messages that have a text, with their roles; everything that is not text is left out."""
    messages = []
    for each in given if isinstance(given, list) else [given]:
        message = each if isinstance(each, Mapping) else {"content": each}
        content, role = message.get("content"), str(message.get("role") or "user").lower()
        parts = [
            part.get("text") if isinstance(part, Mapping) else part
            for part in (content if isinstance(content, list) else [content])
        ]
        text = "\n".join(
            kept for part in parts if isinstance(part, str) and (kept := clean_text(part)).strip()
        )
        if 0 < len(text) <= LONGEST_CONTENT:
            messages.append({"role": _ROLES.get(role, "assistant"), "content": text})
    if not messages:
        raise InvalidInput(
            f"no message has a text of up to {LONGEST_CONTENT:,} characters: pass role and content"
        )
    return messages


@_serve("POST", "write", "/v3/memories/add/")
def add_memories(call: Call, body: AnyFields) -> Any:
    """Save messages as records: the user's as drafts, and all of them as turns too if `infer` is on."""
    fields = _read_fields(call, body)
    filters = fields["filters"] if isinstance(fields.get("filters"), Mapping) else {}
    ids = {name: str(value) for name in _IDS if (value := fields.get(name) or filters.get(name))}
    if not ids:
        raise Problem(400, "Nobody is named: pass user_id, agent_id, app_id or run_id.")
    owner = next(iter(ids))
    view = call.open_scope(build_scope_name(owner.removesuffix("_id"), ids.pop(owner)))
    messages = _parse_messages(fields.get("messages"))
    infers = fields.get("infer") is not False
    expires, now = _parse_moment(fields, "expiration_date"), call.memory.now()
    if expires is not None and expires <= now:
        raise InvalidInput("expiration_date has passed: pass a later one")
    metadata = _parse_metadata(fields.get("metadata")) | {METADATA + name: text for name, text in ids.items()}
    created = _parse_moment(fields, "timestamp")
    records = [
        NewRecord(
            content=message["content"],
            origin=call.caller.limit_origin(_determine_origin(message)),
            scope=view.scope,
            metadata=metadata,
            created_at=created,
            ttl=None if expires is None else expires - now,
            draft=infers,
        )
        for message in messages
        if not infers or message["role"] == "user"
    ]
    session = view.session(f"{_SESSION}:{ids['run_id']}" if "run_id" in ids else _SESSION)
    saved = view.save_many(records)
    if infers:
        session.add_many(_to_turns(call, messages, created))
    results = [
        {
            "id": each.record.id,
            "memory": each.record.content,
            "data": {"memory": each.record.content},
            "event": "ADD" if each.outcome == "created" else "UPDATE",
        }
        for each in saved
    ]
    return {"results": results, "status": "SUCCEEDED", "event_id": str(uuid.uuid4())}


def _determine_origin(message: Mapping[str, str]) -> Origin:
    if message["role"] == "user":
        return "owner" if is_typed(message["content"]) else "tool"
    return "tool" if message["role"] == "tool" else "agent"


def _to_turns(call: Call, messages: list[dict[str, str]], at: datetime | None) -> list[dict[str, Any]]:
    """Return messages as turns, whose texts are saved already; nobody but the owner speaks as the user."""
    saved = {SAVED: "yes"}
    if call.caller.origin == "owner":
        return [{**each, "at": at, "metadata": saved if each["role"] == "user" else {}} for each in messages]
    metadata = saved if call.caller.origin == "agent" else saved | {ORIGIN: call.caller.origin}
    own = {"role": "assistant", "at": at, "metadata": metadata}
    return [{**message, "speaker": message["role"], **own} for message in messages]


# -- finding ---------------------------------------------------------------------------------------------


def _get_filters(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the filters of a request, including ids that are given as fields of their own."""
    filters = fields.get("filters") or {}
    if not isinstance(filters, Mapping):
        raise InvalidInput("filters is not an object: pass one such as {'user_id': 'alice'}")
    beside = {name: fields[name] for name in _IDS if fields.get(name)}
    return {"AND": [filters, beside]} if beside and filters else beside or filters


def _open_scopes(call: Call, filters: Mapping[str, Any]) -> list[ScopedMemory]:
    scopes = find_scopes(filters)
    if not scopes:
        raise Problem(400, "Nobody is named: filter by user_id, agent_id, app_id or run_id.")
    return [call.open_scope(scope) for scope in sorted(scopes)]


def _list_matching(
    call: Call, filters: Mapping[str, Any], *, limit: int | None = MOST_AT_ONCE, start: int = 0
) -> tuple[list[dict[str, Any]], int]:
    """Return a page of the memories that match, those created last first, and the number of all of them.

    If the filters only name an owner, the database finds the page; for any other condition, all memories of the
    owners are read.
    """
    views = _open_scopes(call, filters)
    if _names_an_owner_only(filters):
        records, total = views[0].list_own(limit=limit, offset=start)
        return [_to_memory(call, each) for each in records], total
    found = [each for view in views for each in view.list_own(limit=None)[0]]
    found.sort(key=lambda record: record.created_at, reverse=True)
    memories = [memory for each in found if is_match(filters, memory := _to_memory(call, each))]
    return memories[start : None if limit is None else start + limit], len(memories)


def _names_an_owner_only(filters: Mapping[str, Any]) -> bool:
    """Return whether every memory of the one scope that filters name matches them."""
    while list(filters) == ["AND"] and len(parts := _get_parts(filters, "AND")) == 1:
        filters = parts[0]
    (name, value), *others = filters.items() or [("", None)]
    return name in _IDS and not others and isinstance(value, str) and value != "*"


@_serve("POST", "read", "/v3/memories/search/")
def search_memories(call: Call, body: AnyFields) -> Any:
    """Return what answers a query, best first."""
    fields = _read_fields(call, body)
    query = fields.get("query")
    if not isinstance(query, str) or not query.strip():
        raise Problem(400, "query is missing: pass a text.")
    limit = _read_count(fields, "top_k" if "top_k" in fields else "limit", 10, most=_CANDIDATES)
    threshold = fields.get("threshold")
    floor = threshold if isinstance(threshold, int | float) and 0.1 < threshold <= 1 else 0.0
    filters = _get_filters(fields)
    memories = []
    for view in _open_scopes(call, filters):
        for hit in view.search(query, sources="records", limit=_CANDIDATES, min_score=floor):
            if hit.record is not None and hit.record.scope == view.scope:
                memory = _to_memory(call, hit.record)
                if is_match(filters, memory):
                    memories.append({**memory, "score": round(hit.score, 6)})
    return {"results": sorted(memories, key=lambda each: -each["score"])[:limit]}


@_serve("POST", "read", "/v3/memories/")
def list_memories(call: Call, body: AnyFields) -> Any:
    """Return a page of all memories that match."""
    fields = _read_fields(call, body)
    page, size = _read_count(fields, "page", 1), _read_count(fields, "page_size", 100, most=MOST_AT_ONCE)
    start = (page - 1) * size
    results, total = _list_matching(call, _get_filters(fields), limit=size, start=start)
    return {
        "count": total,
        "next": f"?page={page + 1}&page_size={size}" if start + size < total else None,
        "previous": f"?page={page - 1}&page_size={size}" if page > 1 else None,
        "results": results,
    }


@_serve("GET", "read", "/v1/memories/{id}/")
def get_memory(call: Call) -> Any:
    """Return a memory."""
    return _to_memory(call, _find_record(call, call.path["id"])[1])


@_serve("GET", "read", "/v1/memories/{id}/history/")
def get_memory_history(call: Call) -> Any:
    """Return the changes of a memory's text."""
    _, record = _find_record(call, call.path["id"])
    rows = call.memory.history.log(record.id, limit=1_000)
    return [entry for row in rows if (entry := _to_history(call, row)) is not None]


def _to_history(call: Call, row: JournalEntry) -> dict[str, Any] | None:
    old, new = (
        each if isinstance(each, Record) and not each.archived else None for each in (row.before, row.after)
    )
    record = new or old
    if record is None or (old is not None and new is not None and old.content == new.content):
        return None
    return {
        "id": str(call.numbers.show(row.sequence)),
        "memory_id": record.id,
        "old_memory": None if old is None else old.content,
        "new_memory": None if new is None else new.content,
        "event": "ADD" if old is None else "DELETE" if new is None else "UPDATE",
        "created_at": format_time(record.created_at),
        "updated_at": format_time(row.at),
    }


# -- changing --------------------------------------------------------------------------------------------


def _update(call: Call, id: object, fields: Mapping[str, Any]) -> Record:
    view, record = _find_record(call, id)
    changes: dict[str, Any] = {}
    text = fields.get("text", fields.get("data", fields.get("memory")))
    if text is not None:
        changes |= {"content": text, "origin": call.caller.limit_origin(record.origin)}
    if fields.get("metadata") is not None:
        changes["metadata"] = {**record.metadata, **_parse_metadata(fields["metadata"])}
    if "expiration_date" in fields:
        changes["expires_at"] = _parse_moment(fields, "expiration_date")
    return view.update(record.id, **changes) if changes else record


@_serve("PUT", "write", "/v1/memories/{id}/")
def update_memory(call: Call, body: AnyFields) -> Any:
    """Change a memory."""
    return _to_memory(call, _update(call, call.path["id"], _read_fields(call, body)))


@_serve("DELETE", "write", "/v1/memories/{id}/")
def delete_memory(call: Call) -> Any:
    """Archive a memory."""
    return _archive(call, [call.path["id"]])


def _archive(call: Call, ids: Iterable[str]) -> dict[str, str]:
    found = [_find_record(call, name) for name in ids]
    for view, record in found:
        view.archive(record.id)
    return {"message": f"{len(found)} memories deleted: they are archived, and can be restored."}


@_serve("DELETE", "write", "/v1/memories/")
def delete_memories(call: Call) -> Any:
    """Archive all memories of somebody."""
    memories, _ = _list_matching(call, _get_filters(_read_fields(call)), limit=None)
    return _archive(call, [memory["id"] for memory in memories])


class ChangedMemory(AnyFields):
    """New fields of a memory."""

    memory_id: str


class MemoryBatch(AnyFields):
    """Memories to change or to archive."""

    memories: Annotated[list[ChangedMemory], Field(min_length=1, max_length=MOST_AT_ONCE)]


@_serve("PUT", "write", "/v1/batch/")
def update_memories(call: Call, body: MemoryBatch) -> Any:
    """Change several memories, if all of them exist."""
    for each in body.memories:
        _find_record(call, each.memory_id)
    for each in body.memories:
        _update(call, each.memory_id, each.model_extra or {})
    return {"message": f"Successfully updated {len(body.memories)} memories"}


@_serve("DELETE", "write", "/v1/batch/")
def delete_batch(call: Call, body: MemoryBatch) -> Any:
    """Archive several memories, if all of them exist."""
    return _archive(call, dict.fromkeys(each.memory_id for each in body.memories))


# -- entities --------------------------------------------------------------------------------------------


@_serve("GET", "read", "/v1/entities/")
def list_entities(call: Call) -> Any:
    """List users, agents, apps and runs that have memories."""
    counts = call.memory.scoped(EVERY_SCOPE).scopes()
    owners = {scope: _find_owner(call, scope) for scope in sorted(counts) if call.is_own(scope)}
    results = [
        {"id": ":".join(owner), "type": owner[0], "name": owner[1], "total_memories": counts[scope]}
        for scope, owner in owners.items()
        if owner is not None
    ]
    return {"count": len(results), "next": None, "previous": None, "results": results}


@_serve("DELETE", "write", "/v2/entities/{kind}/{name:path}/")
def delete_entity(call: Call) -> Any:
    """Archive all memories of a user, an agent, an app or a run."""
    kind, name = call.path["kind"], call.path["name"]
    memories, total = _list_matching(call, {f"{kind}_id": name}, limit=None)
    if not total:
        raise NotFound(f"the {kind} {name!r} has no memories: GET /v1/entities/ lists those who have")
    return _archive(call, [memory["id"] for memory in memories])


@_serve("GET", "read", "/v1/ping/")
def answer_ping(call: Call) -> Any:
    """Return the project of the token, which mem0's client asks for first."""
    project = call.caller.scope or "reverie"
    return {"status": "ok", "org_id": "reverie", "project_id": project, "user_email": None}


# -- filters: the scopes that they concern, and the memories that match ------------------------------------


def build_scope_name(kind: str, name: str) -> str:
    """Return the scope of somebody.

    >>> build_scope_name("user", "alice"), build_scope_name("user", "a/b")
    ('user:alice', 'user:a%2F;b')
    """
    if not name.strip():
        raise InvalidInput(f"{kind}_id is blank: pass a name")
    text = "".join(char if char.isprintable() and char not in "/%" else f"%{ord(char):02X};" for char in name)
    if text != text.strip():
        raise InvalidInput(f"{kind}_id has blanks around it: remove them")
    return f"{kind}:{text}"


def parse_scope_name(scope: str) -> tuple[str, str] | None:
    """Return the type and the name of whom a scope belongs to; None for any other scope."""
    kind, colon, name = scope.partition(":")
    if kind not in ENTITIES or not colon or "/" in name:
        return None
    return kind, _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


def find_scopes(filters: Mapping[str, Any], *, depth: int = 0) -> set[str]:
    """Return the scopes of all owners that a filter names, except below `NOT`.

    Raises:
        InvalidInput: the filter is not of its form.
    """
    if depth > _DEEPEST:
        raise InvalidInput(f"filters are nested over {_DEEPEST} deep: write them flatter")
    scopes: set[str] = set()
    for kind in ENTITIES:
        wanted = filters.get(f"{kind}_id")
        names = wanted.get("in", wanted.get("eq")) if isinstance(wanted, Mapping) else wanted
        names = names if isinstance(names, list) else [names]
        scopes |= {build_scope_name(kind, str(name)) for name in names if name and name != "*"}
    parts = (each for name in ("AND", "OR") for each in _get_parts(filters, name))
    return scopes.union(*(find_scopes(each, depth=depth + 1) for each in parts))


def is_match(filters: Mapping[str, Any], memory: Mapping[str, Any]) -> bool:
    """Whether a memory passes a filter."""
    return all(_is_part_match(name, filters, memory) for name in filters)


def _is_part_match(name: str, filters: Mapping[str, Any], memory: Mapping[str, Any]) -> bool:
    if name in ("AND", "OR", "NOT"):
        matches = [is_match(each, memory) for each in _get_parts(filters, name)]
        return all(matches) if name == "AND" else any(matches) == (name == "OR")
    wanted = filters[name]
    if name == "metadata" and isinstance(wanted, Mapping):
        held = memory["metadata"] or {}
        return all(_is_value_match(held.get(key), value) for key, value in wanted.items())
    name = "memory" if name == "keywords" else name
    if name not in memory:
        raise InvalidInput(f"filters has {name!r}, which no memory has: use {', '.join(sorted(memory))}")
    return _is_value_match(memory[name], wanted)


def _get_parts(filters: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    parts = filters.get(name, [])
    parts = [parts] if isinstance(parts, Mapping) else parts
    if not isinstance(parts, list) or not all(isinstance(each, Mapping) for each in parts):
        raise InvalidInput(f"filters has {name} without a list of filters: pass one")
    return parts


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "in": lambda held, wanted: held in wanted,
    "contains": operator.contains,
    "icontains": lambda held, wanted: wanted.casefold() in held.casefold(),
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def _holds(name: str, held: Any, wanted: Any) -> bool:
    """Return whether an operator holds for a value, or for one of a list."""
    values = held if isinstance(held, list) and name != "contains" else [held]
    with suppress(TypeError, AttributeError):  # a text and a number
        return any(_OPERATORS[name](each, wanted) for each in values)
    return False


def _is_value_match(held: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if unknown := sorted(map(str, set(wanted) - set(_OPERATORS))):
            raise InvalidInput(f"filters has the operator {unknown[0]!r}: use {', '.join(_OPERATORS)}")
        return all(_holds(name, held, value) for name, value in wanted.items())
    if wanted == "*":
        return held is not None
    if isinstance(held, list):
        return any(each in held for each in (wanted if isinstance(wanted, list) else [wanted]))
    return bool(held == wanted)
