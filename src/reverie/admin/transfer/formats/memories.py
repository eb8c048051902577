"""Readers of exports of other memories in JSON: mem0, Hindsight, LangGraph, LangMem, Zep, Graphiti, Letta, agentkit.

Each entry of a memory becomes a record with its own times, tags and metadata, and each message a turn. A format is a
row of the table `_SHAPES`: how its entries are recognised and read. Fields that no record has are in its metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from reverie.admin.transfer.batch import Form, FoundValue, ImportTerms, Item, Skipped, hash_texts
from reverie.admin.transfer.formats.foreign import (
    ConversationBuilder,
    ForeignFields,
    build_foreign_record,
    filter_objects,
    parse_moment,
    skip,
    to_text,
)
from reverie.admin.transfer.formats.messages import parse_turns
from reverie.admin.transfer.formats.notes import split_blocks
from reverie.admin.transfer.safe_reading import SourceFile, parse_json
from reverie.domain.conversation import ORIGIN
from reverie.domain.errors import InvalidInput
from reverie.domain.record import HOME_LAYERS, Kind, Origin, validate_record
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text.validation import clean_text
from reverie.repositories import key_value_codec
from reverie.tools.large_results import split_text

_LISTS = (
    "results",
    "memories",
    "items",
    "facts",
    "edges",
    "relevant_facts",
    "nodes",
    "episodes",
    "observations",
)
"""Fields of an export with a list of entries."""

AGENTKIT = "agentkit"
"""Name of the key-value store with agentkit's scratchpad."""

_MAX_CONTENT_CHARS = 2_000
_TEXTS = ("memory", "text", "content", "fact", "summary", "data", "value")
_EXPERIENCES = frozenset({"experience", "bank", "event"})


class ForeignEntry(NamedTuple):
    """An entry of another memory.

    Attributes:
        id: Its id there.
        content: Its text; empty for none.
        at: When it was last changed; None if unknown.
        created_at: When it was made; None for `at`.
        ended_at: Since when it is no longer valid; None if it is.
        kind: Its kind.
        category: Its category; None for none.
        tags: Its tags.
        metadata: What else is known of it.
    """

    id: str
    content: str
    at: datetime | None = None
    created_at: datetime | None = None
    ended_at: datetime | None = None
    kind: Kind = "fact"
    category: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})


def build_entry_items(form: Form, entry: ForeignEntry, terms: ImportTerms, place: str) -> Iterator[Item]:
    """Yield the records of an entry; a long one is cut into passages."""
    content = clean_text(entry.content).strip()
    if not content:
        yield Skipped(what="record", place=place, why="empty")
        return
    created = entry.created_at or entry.at or terms.now
    source_id = entry.id or hash_texts(content)
    ended = (
        {} if entry.ended_at is None else {"archived_at": entry.ended_at, "archive_reason": "no longer valid"}
    )
    for number, passage in enumerate(split_text(content, _MAX_CONTENT_CHARS)):
        yield build_foreign_record(
            form,
            terms,
            f"{source_id}:{number}" if number else source_id,
            passage.strip(),
            place=place,
            at=max(created, entry.at or created),
            created_at=created,
            kind=entry.kind,
            layer=HOME_LAYERS[entry.kind],
            category=entry.category,
            tags=entry.tags,
            metadata=entry.metadata,
            **ended,
        )


def collect_metadata(fields: ForeignFields, *names: str) -> dict[str, str]:
    """Return the fields of those names that have a value, as text."""
    values = {name: fields.value(name) for name in names}
    return {name: to_text(value) for name, value in values.items() if value not in (None, "", [], {})}


class JsonMemory:
    """The format of one memory's entries, alone, in a list, or in an object with a list of them."""

    def __init__(self, form: Form) -> None:
        self.form: Form = form
        self._shape = _SHAPES[form]

    def recognises(self, value: object) -> bool:
        """Return whether a value is an entry of this memory, or an object with a list of some."""
        return any(map(self._shape.recognises, _list_entries(value)))

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield the records and turns of a file."""
        for place, value in file.values():
            if isinstance(value, InvalidInput):
                yield skip("line", place, value)
                continue
            for number, entry in enumerate(_list_entries(value), start=1):
                where = place if entry is value else f"{place}, entry {number}"
                if self._shape.recognises(entry):
                    yield from self._shape.read(entry, terms, where)
                elif entry is not value or not any(isinstance(value.get(each), list) for each in _LISTS):
                    yield Skipped(
                        what="line", place=where, why="unsupported", detail=f"no entry of {self.form}"
                    )


def _list_entries(value: object) -> list[Any]:
    """Return the entries that a value holds, after the value itself."""
    if not isinstance(value, dict):
        return []
    return [value, *(each for name in _LISTS for each in filter_objects(value.get(name)))]


# -- entries of each memory --------------------------------------------------------------------------------


def _read_mem0(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    fields = ForeignFields(data)
    metadata = collect_metadata(fields, "user_id", "agent_id", "run_id", "actor_id", "app_id")
    entry = ForeignEntry(
        id=fields.label("id"), content=fields.text("memory"), at=fields.moment("updated_at", "created_at"),
        created_at=fields.moment("created_at"), tags=fields.labels("categories"),
        metadata={**fields.texts("metadata"), **metadata},
    )  # fmt: skip
    return build_entry_items("mem0", entry, terms, place)


def _read_hindsight(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    for number, fact in enumerate(data.get("facts", [data]), start=1):
        if not isinstance(fact, dict):
            continue
        fields = ForeignFields(fact)
        kind: Kind = "event" if fields.text("fact_type", "type") in _EXPERIENCES else "fact"
        named = fields.label("source_id", "id")
        happened = next(
            filter(None, map(fields.moment, ("occurred_start", "mentioned_at", "event_date", "date"))), None
        )
        entry = ForeignEntry(
            id=named or (f"{data.get('id')}:{number}" if fact is not data else ""),
            content=fields.text("text"), at=happened, kind=kind,
            tags=(*fields.labels("tags"), *fields.labels("entities"))[:20],
            metadata={**fields.texts("metadata"), **collect_metadata(fields, "context", "fact_type", "document_id")},
        )  # fmt: skip
        where = f"{place}, fact {number}" if fact is not data else place
        yield from build_entry_items("hindsight", entry, terms, where)


def read_store_item(
    namespace: Any, key: str, value: Any, terms: ImportTerms, place: str, *, times: Iterable[datetime | None]
) -> Iterator[Item]:
    """Yield the record of an item of LangGraph's store; of LangMem's memories the content alone."""
    created, updated = times
    labels = namespace if isinstance(namespace, list) else str(namespace).split(".")
    inner = value.get("content", value) if isinstance(value, dict) and "kind" in value else value
    entry = ForeignEntry(
        id=f"{'/'.join(map(str, labels))}/{key}", content=_flatten(inner), at=updated, created_at=created,
        category=ForeignFields({"category": "/".join(map(str, labels))}).category("category"),
        metadata={"namespace": "/".join(map(str, labels)), "key": key},
    )  # fmt: skip
    return build_entry_items("langgraph", entry, terms, place)


def _read_langgraph(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    times = (parse_moment(data.get("created_at")), parse_moment(data.get("updated_at")))
    return read_store_item(data["namespace"], str(data["key"]), data["value"], terms, place, times=times)


def _read_zep(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    fields = ForeignFields(data)
    if data.get("fact") or data.get("summary"):
        name, is_fact = fields.label("name"), bool(data.get("fact"))
        entry = ForeignEntry(
            id=fields.label("uuid", "uuid_"), content=fields.text("fact") or f"{name}: {fields.text('summary')}",
            at=fields.moment("valid_at", "created_at"), created_at=fields.moment("valid_at", "created_at"),
            ended_at=fields.moment("invalid_at", "expired_at"), tags=fields.labels("labels"),
            metadata=collect_metadata(fields, "group_id", "source_node_uuid", "target_node_uuid")
            | ({"relation": name} if is_fact and name else {}),
        )  # fmt: skip
        yield from build_entry_items("zep", entry, terms, place)
        return
    text = fields.text("content", "episode_body")
    speaker, colon, said = text.partition(": ")
    role = fields.text("role_type").lower() or ("assistant" if speaker.lower() == "assistant" else "user")
    message = {
        "role": role if role in ("user", "assistant", "system") else "user",
        "content": said if colon and len(speaker) < 60 and data.get("source") == "message" else text,
        "speaker": fields.label("role") or (speaker if colon and len(speaker) < 60 else ""),
        "id": fields.label("uuid", "uuid_"), "at": data.get("valid_at") or data.get("created_at"),
    }  # fmt: skip
    session = f"zep:{fields.label('session_id', 'thread_id', 'group_id') or 'episodes'}"
    yield from _build_session("zep", session, [message], terms, place, is_whole=False)


def _read_letta(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    agents = filter_objects(data.get("agents")) or [data]
    blocks = [*filter_objects(data.get("blocks")), *filter_objects(data.get("core_memory"))]
    for block in blocks:
        fields = ForeignFields(block)
        label = fields.label("label") or "block"
        for number, tags, text in split_blocks(str(block.get("value") or "")):
            entry = ForeignEntry(
                id=hash_texts(fields.label("id"), label, text), content=text, at=fields.moment("updated_at"),
                category=ForeignFields({"category": f"letta/{label}"}).category("category"), tags=tags,
                metadata={"block": label},
            )  # fmt: skip
            yield from build_entry_items("letta", entry, terms, f"{place}, block {label}, line {number}")
    for agent in agents:
        name = ForeignFields(agent).label("name", "id") or "agent"
        said = [message for each in filter_objects(agent.get("messages")) if (message := _unpack_letta(each))]
        if said:
            yield from _build_session("letta", f"letta:{name}", said, terms, f"{place}, agent {name}")


def _unpack_letta(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return a message with the text that Letta packs into JSON; None for the system's."""
    if message.get("role") == "system":
        return None
    text = message.get("content", message.get("text"))
    parts = [each.get("text") for each in filter_objects(text)]
    packed = "\n".join(each for each in parts if isinstance(each, str)) if parts else text
    inner = _parse_object(packed)
    if message.get("role") == "user" and inner.get("type") not in (None, "user_message"):
        return {**message, "content": packed, "tool": inner.get("type")}  # an event of the program
    return {**message, "content": inner.get("message", packed), "name": None}


def _build_session(
    form: Form,
    session: str,
    said: list[dict[str, Any]],
    terms: ImportTerms,
    place: str,
    *,
    is_whole: bool = True,
) -> Iterator[Item]:
    times = [parse_moment(each.get("created_at", each.get("at"))) for each in said]
    try:
        chat = ConversationBuilder(
            session, form=form, place=place, terms=terms, times=times, metadata={"imported_from": form},
            after="" if is_whole else None, is_whole=is_whole,
        )  # fmt: skip
        for number, message in enumerate(said):
            for turn in parse_turns(message):
                name = str(message.get("id") or hash_texts(str(number), turn["content"]))
                origin: Origin | None = "tool" if turn.pop("metadata", {}).get(ORIGIN) else None
                chat.add(f"{name}:r" if turn["role"] == "tool" and message["role"] != "tool" else name,
                         origin=origin, **turn)  # fmt: skip
    except InvalidInput as error:
        yield skip("session", place, error)
        return
    yield from chat.items()


def _read_agentkit(data: dict[str, Any], terms: ImportTerms, place: str) -> Iterator[Item]:
    """Yield the values as items of the key-value store `agentkit`, where `integrations.agentkit.Store` has its own."""
    for key, value in data.items():
        try:
            blank = key_value_codec.build_blank_record(
                AGENTKIT, ((), key), scope=terms.foreign_scope, origin=terms.foreign_origin, now=terms.now
            )
            put = key_value_codec.PutItem(namespace=(), key=key, value={"value": to_text(value)})
            record = validate_record(key_value_codec.encode(blank, put, Redactor(enabled=False)))
            yield FoundValue(place=f"{place}, key {key!r}", value=record)  # secrets go when it is stored
        except InvalidInput as error:
            yield skip("record", place, error)


def _flatten(value: Any) -> str:
    """Return the texts of a JSON value, each under its key unless that says nothing."""
    if isinstance(value, dict):
        pairs = ((name, _flatten(each)) for name, each in value.items())
        return "\n".join(text if name in _TEXTS else f"{name}: {text}" for name, text in pairs if text)
    if isinstance(value, list):
        return ", ".join(filter(None, map(_flatten, value)))
    return "" if value is None else to_text(value)


def _parse_object(text: Any) -> dict[str, Any]:
    try:
        value = parse_json(text) if isinstance(text, str) and text.startswith("{") else {}
    except InvalidInput:
        return {}
    return value if isinstance(value, dict) else {}


class _Shape(NamedTuple):
    """How the entries of a memory are recognised and read."""

    recognises: Callable[[dict[str, Any]], bool]
    read: Callable[[dict[str, Any], ImportTerms, str], Iterator[Item]]


def _has(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: all(name in value for name in names)


def _is_hindsight(value: dict[str, Any]) -> bool:
    is_document = isinstance(value.get("facts"), list) and "id" in value
    return is_document or ("text" in value and ("fact_type" in value or "proof_count" in value))


def _is_zep(value: dict[str, Any]) -> bool:
    named = "uuid" in value or "uuid_" in value
    entry = (
        isinstance(value.get("fact"), str) or isinstance(value.get("summary"), str) or "episode_body" in value
    )
    return named and (entry or ("content" in value and "source" in value and "role" not in value))


def _is_letta(value: dict[str, Any]) -> bool:
    if isinstance(value.get("agents"), list) and isinstance(value.get("blocks"), list):
        return True
    return "agent_type" in value and isinstance(value.get("core_memory"), list)


def _is_mem0(value: dict[str, Any]) -> bool:
    return isinstance(value.get("memory"), str) and "id" in value


_SHAPES: Mapping[Form, _Shape] = {
    "mem0": _Shape(_is_mem0, _read_mem0),
    "hindsight": _Shape(_is_hindsight, _read_hindsight),
    "langgraph": _Shape(_has("namespace", "key", "value"), _read_langgraph),
    "letta": _Shape(_is_letta, _read_letta),
    "zep": _Shape(_is_zep, _read_zep),
}


class AgentkitValues:
    """The format of agentkit's `kv.json`, which only its name tells: an object of texts."""

    form: Form = "agentkit"

    def recognises(self, value: object) -> bool:
        """Return False: a file has this format by its name."""
        return False

    def read(self, file: SourceFile, terms: ImportTerms) -> Iterator[Item]:
        """Yield a record for each key of the file."""
        for place, value in file.values():
            if isinstance(value, dict):
                yield from _read_agentkit(value, terms, place)
            else:
                yield Skipped(what="file", place=place, why="broken", detail="no object of keys and texts")
