"""Readers of the entries of other memories: exports in JSON, databases, and key-value stores.

Each entry becomes a record with its own times, tags and metadata, and each message a turn. Fields that no record has
are in its metadata. A format is a row of `ENTRIES`: how its entries are recognised and read. The rows of a database,
which is only read and may be open in its program, are read like the objects of an export.

golemcore's items have `id`, `layer`, `type`, `title`, `content`, `tags`, `source`, `confidence`, `salience`,
`ttlDays`, `references` and times. RockBot's entries have `id`, `content`, `category`, `tags`, `metadata` and times;
later versions add `importanceScore`, `reinforcementCount`, `supersededBy`, `archivedAt`, `archiveReason`. An id of
twelve lower-case hexadecimal characters stays the id in the empty scope; any other goes into the metadata.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from reverie.admin.transfer.batch import Form, FoundValue, ImportTerms, Item, Skipped, hash_texts
from reverie.admin.transfer.formats.conversations import parse_object, read_conversation
from reverie.admin.transfer.formats.foreign import (
    ForeignFields,
    Format,
    build_record,
    collect_metadata,
    filter_objects,
    skip,
    to_text,
)
from reverie.admin.transfer.formats.notes import split_blocks
from reverie.admin.transfer.safe_reading import SourceFile, parse_json
from reverie.domain.errors import InvalidInput
from reverie.domain.record import HOME_LAYERS, KINDS, LAYERS, Kind, infer_kind, validate_record
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text import timestamps
from reverie.domain.text.ids import validate_id
from reverie.domain.text.validation import clean_text
from reverie.repositories.key_value import PutItem, encode_item

AGENTKIT = "agentkit"
"""Name of the key-value store with agentkit's scratchpad."""

_LONGEST_TTL_DAYS = 36_500
_TEXTS = ("memory", "text", "content", "fact", "summary", "data", "value")
_EXPERIENCES = frozenset({"experience", "bank", "event"})
_KINDS: dict[str, Kind] = {"decision": "insight", "discovery": "finding"}
_SUMMARY = ("request", "investigated", "learned", "completed", "next_steps", "notes")


def _to_category(text: str) -> str | None:
    return ForeignFields({"category": text}).category("category")


def _build_archiving(at: datetime | None, reason: str = "no longer valid") -> dict[str, Any]:
    return {} if at is None else {"archived_at": at, "archive_reason": reason}


# -- mem0, Hindsight, LangGraph, Zep, Letta -----------------------------------------------------------------


def _read_mem0(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    fields = ForeignFields(data)
    kept = collect_metadata(fields, "user_id", "agent_id", "run_id", "actor_id", "app_id", "role")
    yield build_record(
        "mem0", terms, place, fields.text("memory"), source_id=fields.label("id"),
        created_at=fields.moment("created_at"), at=fields.moment("updated_at", "created_at"),
        tags=fields.labels("categories"),
        metadata={**fields.texts("metadata"), **kept}, **_build_archiving(fields.moment("ended_at")),
    )  # fmt: skip


def _read_hindsight(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    for number, fact in enumerate(data.get("facts", [data]), start=1):
        if not isinstance(fact, dict):
            continue
        fields = ForeignFields(fact)
        kept = collect_metadata(fields, "context", "fact_type", "document_id")
        yield build_record(
            "hindsight", terms, place if fact is data else f"{place}, fact {number}", fields.text("text"),
            source_id=fields.label("source_id", "id") or ("" if fact is data else f"{data.get('id')}:{number}"),
            at=fields.moment("occurred_start", "mentioned_at", "event_date", "date"),
            kind="event" if fields.text("fact_type", "type") in _EXPERIENCES else "fact",
            tags=(*fields.labels("tags"), *fields.labels("entities"))[:20],
            metadata={**fields.texts("metadata"), **kept},
        )  # fmt: skip


def _read_langgraph(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    """Yield the record of an item of LangGraph's store; of LangMem's memories the content alone."""
    fields, value, namespace = ForeignFields(data), data["value"], data["namespace"]
    labels = "/".join(map(str, namespace if isinstance(namespace, list) else str(namespace).split(".")))
    inner = value.get("content", value) if isinstance(value, dict) and "kind" in value else value
    yield build_record(
        "langgraph", terms, place, _flatten(inner), source_id=f"{labels}/{data['key']}", at=fields.moment("updated_at"),
        created_at=fields.moment("created_at"), category=_to_category(labels),
        metadata={"namespace": labels, "key": str(data["key"])},
    )  # fmt: skip


def _flatten(value: Any) -> str:
    """Return the texts of a JSON value, each under its key unless that says nothing."""
    if isinstance(value, dict):
        pairs = ((name, _flatten(each)) for name, each in value.items())
        return "\n".join(text if name in _TEXTS else f"{name}: {text}" for name, text in pairs if text)
    if isinstance(value, list):
        return ", ".join(filter(None, map(_flatten, value)))
    return "" if value is None else to_text(value)


def _is_zep(value: dict[str, Any]) -> bool:
    is_fact = (
        isinstance(value.get("fact"), str) or isinstance(value.get("summary"), str) or "episode_body" in value
    )
    is_message = "content" in value and "source" in value and "role" not in value
    return ("uuid" in value or "uuid_" in value) and (is_fact or is_message)


def _read_zep(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    fields = ForeignFields(data)
    name, identity, fact = fields.label("name"), fields.label("uuid", "uuid_"), fields.text("fact")
    began = fields.moment("valid_at", "created_at")
    if fact or data.get("summary"):
        kept = collect_metadata(fields, "group_id", "source_node_uuid", "target_node_uuid")
        yield build_record(
            "zep", terms, place, fact or f"{name}: {fields.text('summary')}", source_id=identity, at=began,
            tags=fields.labels("labels"), metadata=kept | ({"relation": name} if fact and name else {}),
            **_build_archiving(fields.moment("invalid_at", "expired_at")),
        )  # fmt: skip
        return
    text = fields.text("content", "episode_body")
    speaker, colon, said = text.partition(": ")
    is_named = bool(colon) and len(speaker) < 60
    role = fields.text("role_type").lower() or ("assistant" if speaker.lower() == "assistant" else "user")
    message = {
        "role": role if role in ("user", "assistant", "system") else "user",
        "content": said if is_named and data.get("source") == "message" else text,
        "speaker": fields.label("role") or (speaker if is_named else ""),
        "id": identity, "at": began and began.isoformat(),
    }  # fmt: skip
    session = fields.label("session_id", "thread_id", "group_id") or "episodes"
    yield from read_conversation("zep", session, [message], terms, place, is_whole=False)


def _is_letta(value: dict[str, Any]) -> bool:
    is_file = isinstance(value.get("agents"), list) and isinstance(value.get("blocks"), list)
    return is_file or ("agent_type" in value and isinstance(value.get("core_memory"), list))


def _read_letta(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    for block in (*filter_objects(data.get("blocks")), *filter_objects(data.get("core_memory"))):
        fields = ForeignFields(block)
        label = fields.label("label") or "block"
        for number, tags, text in split_blocks(str(block.get("value") or "")):
            yield build_record(
                "letta", terms, f"{place}, block {label}, line {number}", text,
                source_id=hash_texts(fields.label("id"), label, text), at=fields.moment("updated_at"), tags=tags,
                category=_to_category(f"letta/{label}"), metadata={"block": label},
            )  # fmt: skip
    for agent in filter_objects(data.get("agents")) or [data]:
        name = ForeignFields(agent).label("name", "id") or "agent"
        messages = [_unpack_letta(each) for each in filter_objects(agent.get("messages"))]
        said = [each for each in messages if each["role"] != "system"]
        if said:
            yield from read_conversation("letta", name, said, terms, f"{place}, agent {name}")


def _unpack_letta(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with the text that Letta packs into JSON; an event of the program is marked as such."""
    text = message.get("content", message.get("text"))
    parts = [each.get("text") for each in filter_objects(text)]
    packed = "\n".join(each for each in parts if isinstance(each, str)) if parts else text
    inner, role = parse_object(packed), message.get("role")
    if role == "user" and inner.get("type") not in (None, "user_message"):
        return {**message, "content": packed, "tool": inner.get("type")}
    return {**message, "role": role, "content": inner.get("message", packed), "name": None}


# -- claude-mem --------------------------------------------------------------------------------------------


def _read_observation(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    fields = ForeignFields(data)
    said = fields.text("narrative") or " ".join(_list_texts(data.get("facts"))) or fields.text("text")
    yield build_record(
        "claude-mem", terms, place, ": ".join(filter(None, (fields.text("title"), said))),
        source_id=f"observation {fields.label('id')}", at=fields.moment("created_at_epoch", "created_at"),
        kind=_KINDS.get(fields.text("type"), "event"), tags=tuple(_list_texts(data.get("concepts")))[:20],
        metadata=collect_metadata(fields, "project", "type", "files_read", "files_modified"),
    )  # fmt: skip


def _read_summary(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    fields = ForeignFields(data)
    texts = {name.replace("_", " ").capitalize(): fields.text(name) for name in _SUMMARY}
    yield build_record(
        "claude-mem", terms, place, "\n".join(f"{name}: {text}" for name, text in texts.items() if text),
        source_id=f"summary {fields.label('id')}", at=fields.moment("created_at_epoch", "created_at"), kind="event",
        metadata=collect_metadata(fields, "project"),
    )  # fmt: skip


def _read_prompt(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    """Yield a prompt that was typed in Claude Code as a turn of its session."""
    fields = ForeignFields(data)
    session = fields.label("content_session_id", "claude_session_id", "sdk_session_id") or "prompts"
    message = {
        "role": "user", "content": fields.text("prompt_text"), "id": f"prompt {fields.label('id')}",
        "at": data.get("created_at_epoch") or data.get("created_at"),
    }  # fmt: skip
    return read_conversation("claude-mem", session, [message], terms, place, is_whole=False)


def _list_texts(text: object) -> list[str]:
    """Return the texts of a list that a column has as JSON."""
    try:
        found = json.loads(str(text or "[]"))
    except ValueError:
        return [str(text)]
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


# -- golemcore and RockBot ---------------------------------------------------------------------------------


def _is_golemcore(value: dict[str, Any]) -> bool:
    fields = ForeignFields(value)
    return fields.has("content") and fields.has("layer") and not fields.has("role")


def _read_golemcore(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    fields = ForeignFields(data)
    content = fields.text("content").strip()
    known_kind = fields.choice(KINDS, "type", "kind")
    kind = known_kind or "fact"
    created = fields.moment("createdAt", "timestamp", "updatedAt") or terms.now
    days, accessed = fields.count("ttlDays", "ttl", default=0), fields.moment("lastAccessedAt")
    rest = {
        "title": fields.text("title").strip(),
        "type": "" if known_kind else fields.label("type", "kind"),
        "last_accessed_at": "" if accessed is None else timestamps.format_time(accessed),
    }
    yield build_record(
        "golemcore", terms, place, content, source_id=fields.label("id") or hash_texts(kind, content),
        created_at=created, at=fields.moment("updatedAt"), kind=kind, tags=fields.labels("tags"),
        layer=fields.choice(LAYERS, "layer") or ("episodic" if fields.text("layer") else HOME_LAYERS[kind]),
        confidence=fields.share("confidence", default=0.75),
        importance=fields.share("salience", "importance", default=0.7),
        source=fields.label("source") or "import:golemcore", references=fields.labels("references", longest=2_000),
        expires_at=created + timedelta(days=days) if 0 < days <= _LONGEST_TTL_DAYS else None,
        metadata={name: text for name, text in rest.items() if text},
    )  # fmt: skip


def _is_rockbot(value: dict[str, Any]) -> bool:
    fields = ForeignFields(value)
    has_all = all(map(fields.has, ("id", "content", "createdAt")))
    return has_all and not fields.has("role") and not fields.has("layer")


def read_rockbot(data: dict[str, Any], terms: ImportTerms, place: str, *, folder: str = "") -> Iterator[Item]:
    """Yield the record of an entry.

    Args:
        folder: The folders of its file, which are the category if the entry names none.
    """
    fields = ForeignFields(data)
    content, named = fields.text("content").strip(), fields.category("category")
    kind = infer_kind(category := named or _to_category(folder)) or "fact"
    created = fields.moment("createdAt", "updatedAt") or terms.now
    updated = max(created, fields.moment("updatedAt") or created)
    source_id = fields.label("id") or hash_texts(content)
    by, archived = fields.label("supersededBy"), fields.moment("archivedAt")
    reason = fields.label("archiveReason") or (f"superseded by {by}" if by else "archived")
    kept = {"category": "" if named else fields.label("category"), "superseded_by": by}
    yield build_record(
        "rockbot", terms, place, content, source_id=source_id, created_at=created, at=updated, category=category,
        kind=kind,
        last_seen_at=max(created, fields.moment("lastSeenAt") or updated), tags=fields.labels("tags"),
        importance=fields.share("importanceScore", "importance", default=0.5),
        seen_count=fields.count("reinforcementCount", default=1),
        metadata=fields.texts("metadata") | {name: text for name, text in kept.items() if text},
        **_build_archiving(archived or (updated if by else None), reason), **_keep_id(source_id, terms),
    )  # fmt: skip


def _keep_id(source_id: str, terms: ImportTerms) -> dict[str, str]:
    """Return the id as a field if records have such ids; several scopes cannot share it."""
    try:
        return {} if terms.foreign_scope else {"id": validate_id(source_id)}
    except InvalidInput:
        return {}


# -- the MCP reference memory server, agentkit ---------------------------------------------------------------


def _read_mcp(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    """Yield a record for each observation, and for a relation."""
    fields = ForeignFields(data)
    name, kind = fields.label("name"), fields.label("entityType")
    source, verb, target = fields.label("from"), fields.label("relationType"), fields.label("to")
    found: list[tuple[str, tuple[str, ...], dict[str, str]]] = []
    if data["type"] == "relation":
        if not (source and verb and target):
            raise InvalidInput("a relation needs 'from', 'relationType' and 'to'")
        content = f"{source} {verb.replace('_', ' ')} {target}"
        found.append(
            (content, ("relation", source, verb, target), {"from": source, "relation": verb, "to": target})
        )
    else:
        observations = data.get("observations") or []
        if not name or not isinstance(observations, list):
            raise InvalidInput("an entity needs 'name' and a list of 'observations'")
        about = {"entity": name} | ({"entity_type": kind} if kind else {})
        if not observations:
            found.append((f"{name}: {kind or 'entity'}", ("entity", name, ""), about))
        for observation in observations:
            text = clean_text(observation).strip() if isinstance(observation, str) else None
            own = about | {"observation": text or ""}
            found.append((_name_entity(name, text), ("entity", name, text or ""), own))
    for number, (content, identity, metadata) in enumerate(found, start=1):
        yield build_record(
            "mcp", terms, f"{place}, observation {number}" if "observation" in metadata else place, content,
            source_id=hash_texts(*identity), category="knowledge-graph", metadata=metadata,
            tags=("relation",) if identity[0] == "relation" else (kind,) if kind else (),
        )  # fmt: skip


def _name_entity(name: str, text: str | None) -> Any:
    """Return an observation with the name of its entity, unless it has it."""
    plain = " ".join(name.replace("_", " ").split()).lower()
    has_name = not text or (bool(plain) and plain in " ".join(text.replace("_", " ").split()).lower())
    return text if has_name else f"{name}: {text}"


def read_agentkit(file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
    """Yield the values of a `kv.json`, which only its name tells, as items of the key-value store `agentkit`."""
    for place, value in file.values():
        if not isinstance(value, dict):
            yield Skipped(what="file", place=place, why="broken", detail="no object of keys and texts")
            continue
        for key, text in value.items():
            try:
                record = encode_item(
                    AGENTKIT,
                    PutItem(namespace=(), key=key, value={"value": to_text(text)}),
                    scope=terms.foreign_scope,
                    origin=terms.foreign_origin,
                    now=terms.now,
                    redactor=Redactor(enabled=False),  # secrets go when it is stored
                )
                yield FoundValue(place=f"{place}, key {key!r}", value=validate_record(record))
            except InvalidInput as error:
                yield skip("record", place, error)


# -- tables of formats -------------------------------------------------------------------------------------


def _has(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: all(name in value for name in names)


def _is_hindsight(value: dict[str, Any]) -> bool:
    is_document = isinstance(value.get("facts"), list) and "id" in value
    return is_document or ("text" in value and ("fact_type" in value or "proof_count" in value))


GOLEMCORE = Format("golemcore", _is_golemcore, _read_golemcore)
ROCKBOT = Format("rockbot", _is_rockbot, read_rockbot)
ENTRIES = (
    Format("mcp", lambda value: value.get("type") in ("entity", "relation"), _read_mcp),
    Format("mem0", lambda value: isinstance(value.get("memory"), str) and "id" in value, _read_mem0),
    Format("hindsight", _is_hindsight, _read_hindsight),
    Format("langgraph", _has("namespace", "key", "value"), _read_langgraph),
    Format("letta", _is_letta, _read_letta),
    Format("zep", _is_zep, _read_zep),
    GOLEMCORE,
    ROCKBOT,
)
"""Formats of entries in JSON, in the order in which they are asked."""


class _Table(NamedTuple):
    """A table of another memory's database, whose rows are read like entries.

    Attributes:
        form: The format.
        name: The table.
        columns: Columns that show the format.
        query: Selects the rows.
        read: Returns the items of a row.
    """

    form: Form
    name: str
    columns: frozenset[str]
    query: str
    read: Callable[[dict[str, Any], ImportTerms, str], Iterable[Item]]


_LAST_TEXTS = Path(__file__).with_name("mem0.sql").read_text("utf-8")
_TABLES = (
    _Table("mem0", "history", frozenset({"memory_id", "old_memory", "new_memory", "event"}), _LAST_TEXTS, _read_mem0),
    _Table("claude-mem", "observations", frozenset({"project", "type", "title"}), "", _read_observation),
    _Table("claude-mem", "session_summaries", frozenset({"project", "request"}), "", _read_summary),
    _Table("claude-mem", "user_prompts", frozenset({"prompt_text"}), "", _read_prompt),
    _Table(
        "langgraph", "store", frozenset({"prefix", "key", "value"}),
        "SELECT prefix AS namespace, key, value, created_at, updated_at FROM store ORDER BY prefix, key",
        lambda row, terms, place: _read_langgraph({**row, "value": parse_json(row["value"])}, terms, place),
    ),
)  # fmt: skip


def detect_database_format(path: Path) -> Form | None:
    """Return the format of a database; None for an unknown one.

    Raises:
        InvalidInput: it cannot be read.
    """
    return next((table.form for table in _list_tables(path)), None)


def read_database(path: Path, form: Form, terms: ImportTerms) -> Iterator[Item]:
    """Yield the records and turns of a database.

    Raises:
        InvalidInput: it cannot be read.
    """
    tables = [table for table in _list_tables(path) if table.form == form]
    for table in tables:
        rows = _query(path, table.query or f'SELECT * FROM "{table.name}" ORDER BY rowid')
        for number, row in enumerate(rows, start=1):
            place = f"{table.name}, row {number}"
            try:
                yield from table.read(dict(row), terms, place)
            except InvalidInput as error:
                yield skip("record", place, error)


def _list_tables(path: Path) -> list[_Table]:
    """Return the known tables that a database has."""
    query = "SELECT m.name AS name, c.name AS column FROM sqlite_master m, pragma_table_info(m.name) c"
    columns: dict[str, set[str]] = {}
    for row in _query(path, query):
        columns.setdefault(row["name"], set()).add(row["column"])
    return [table for table in _TABLES if table.columns <= columns.get(table.name, set())]


def _query(path: Path, query: str) -> Iterator[sqlite3.Row]:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            yield from database.execute(query)
    except sqlite3.Error as error:
        raise InvalidInput(f"{path.name} is a database that cannot be read ({error}).") from None
