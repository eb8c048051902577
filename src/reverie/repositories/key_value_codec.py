"""Conversion between key-value items and the records that people read.

The content of the record says in words what the value holds, for people, prompts and search; its metadata has the value
itself, as JSON, losslessly. A text of the value that a person changed is read with that change. Pure: stores nothing
(`reverie.repositories.key_value` does).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import Enum
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from reverie.domain.category import LONGEST
from reverie.domain.errors import InvalidInput, quote_value
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.record import HOME_LAYERS, LONGEST_CONTENT, Origin, Record
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text import timestamps
from reverie.domain.text.validation import clean_text

Namespace: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Namespace, str]
"""A namespace and a key in it."""

_Path: TypeAlias = tuple[str | int, ...]

_HOW = "kept-how"
_VALUE = "kept-value"
_OURS = defer_regex(r"kept(-how|-value(-\d+)?)?")
_PART_SIZES = (50_000, 47_000, 44_000, 41_000)
_UNPRINTED = defer_regex(r"[\x7f\ud800-\udfff]")
_NOT_IN_A_CATEGORY = defer_regex(r"[^A-Za-z0-9_-]|(?<=-)-")
_LONGEST_LABEL = 48
_NOTHING = defer_regex(r"[\s\u200b-\u200f\u2028-\u202e\u2060-\u2064\ufeff]*")
_SPEAKING = frozenset({"content", "text", "memory", "message", "data", "value", "note", "summary"})
"""Keys that tell nothing about their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Item under a key.

    Attributes:
        namespace: Its namespace, one text for each level.
        key: Its key.
        value: A JSON object, which the caller may change.
        created_at: When a value was first stored there.
        updated_at: When it was last stored, or changed by a person.
        record: The id of its record.
        origin: The origin of its record.
        expires_at: When it expires; None for never.
        ttl: Its lifetime, which `KeyValueStore.touch` renews; None for ever.
        searchable: Whether a search with a question may find it.
        score: How well it answers the question, 0 to 1; None without a question.
    """

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    record: str
    origin: Origin
    expires_at: datetime | None = None
    ttl: timedelta | None = None
    searchable: bool = True
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutItem:
    """New item for a key.

    Attributes:
        namespace: Its namespace, one text for each level.
        key: Its key; any text.
        value: A JSON object; None to remove the present one.
        texts: The texts that a search looks at; None for the whole value, empty to leave it out of search.
        ttl: Its lifetime; None for ever.
        origin: Its origin; None for that of the store.

    Raises:
        InvalidInput: a field is not of its form.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    texts: Sequence[str] | None = None
    ttl: timedelta | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        parse_place((self.namespace, self.key))
        if self.texts is not None and not _are_strings(self.texts):
            raise InvalidInput(
                f"texts is {quote_value(self.texts)}: pass a list of strings, or None for the whole value"
            )
        if not isinstance(self.ttl, timedelta | None):
            raise InvalidInput(f"ttl is {quote_value(self.ttl)}: pass a timedelta, or None for ever")

    @property
    def place(self) -> Place:
        """Its namespace and key."""
        return tuple(self.namespace), self.key


# -- where -----------------------------------------------------------------------------------------------


def parse_namespace(namespace: object) -> Namespace:
    """Return a namespace; raise `InvalidInput` if it is not a sequence of strings."""
    if not _are_strings(namespace):
        raise InvalidInput(
            f"namespace is {quote_value(namespace)}: pass a tuple of strings, such as ('users', 'alice')"
        )
    return tuple(namespace)  # type: ignore[arg-type]


def parse_place(place: object) -> Place:
    """Return an address; raise `InvalidInput` if it is not a namespace and a key."""
    if not isinstance(place, tuple | list) or len(place) != 2 or not isinstance(place[1], str):
        raise InvalidInput(f"place is {quote_value(place)}: pass a namespace and a key")
    return parse_namespace(place[0]), place[1]


def _are_strings(values: object) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(each, str) for each in values)


def encode_place(store_name: str, place: Place) -> str:
    """Return an address as `item_key` of a record has it."""
    namespace, key = place
    labels = ", ".join(map(encode_basestring, namespace))
    return _escape_unprinted(f"[{encode_basestring(store_name)}, [{labels}], {encode_basestring(key)}]")


def compute_id(scope: str, place: str) -> str:
    """Return the id of the record at an encoded address."""
    text = f"{scope}\0{place}\x000"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def build_category(store_name: str, namespace: Namespace) -> str:
    """Return the category of a namespace; a longer namespace is below that of its prefix.

    No two namespaces have the same. A character that a category cannot have becomes its code, `--40-` for `@`;
    a label that is too long so becomes a digest, as `--h0123456789abcdef-`.

    Raises:
        InvalidInput: the namespace has too many labels for a category.
    """
    category = "/".join((store_name, *map(_encode_label, namespace)))
    if len(category) > LONGEST:
        raise InvalidInput(
            f"a namespace of {len(namespace)} labels makes a category of {len(category)} characters, and at most "
            f"{LONGEST} are allowed: use fewer or shorter labels"
        )
    return category


def _encode_label(label: str) -> str:
    segment = _NOT_IN_A_CATEGORY.sub(lambda found: f"--{ord(found.group()):x}-", label) or "--x-"
    if len(segment) <= _LONGEST_LABEL:
        return segment
    return f"--h{hashlib.sha256(label.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}-"


def decode_place(store_name: str, record: Record) -> Place | None:
    """Return the address of a record's value; None if it is no item of this store."""
    where = record.item_key
    if not where or record.id != compute_id(record.scope, where):
        return None
    try:
        name, namespace, key = json.loads(where)
        return (tuple(namespace), key) if name == store_name else None
    except (ValueError, TypeError, RecursionError):
        return None


# -- a value becomes a record ----------------------------------------------------------------------------


def encode_item(
    store_name: str,
    put: PutItem,
    *,
    scope: str,
    origin: Origin,
    now: datetime,
    redactor: Redactor,
    before: Record | None = None,
) -> Record:
    """Return the record of an item, without the checks of `validate_record`.

    Args:
        store_name: The name of the key-value store.
        put: The item, with a value.
        scope: The scope of the record.
        origin: The origin of the value.
        now: The time of the change.
        redactor: Replaces secrets.
        before: The record of the present value, of which other fields and metadata stay; None for a new one.

    Raises:
        InvalidInput: the value is not a JSON object, or holds a secret that cannot be replaced.
    """
    document = _redact_document(_encode_document(put.value), redactor)
    value = json.loads(document)
    content = redactor.text(_render_content(put, value))
    texts = (name for name, text in value.items() if isinstance(text, str) and clean_text(text) == content)
    how: dict[str, Any] = {}
    if (text := next(texts, None)) is not None or (put.texts is None and len(content) < LONGEST_CONTENT):
        how["edit"] = text
    if put.texts is not None and not any(text.strip() for text in put.texts):
        how["search"] = False
    if put.ttl is not None:
        how["ttl"] = put.ttl.total_seconds()
    values = {_name_part(n): part for n, part in enumerate(_split_document(document, redactor))}
    if before is None:
        item_key = encode_place(store_name, put.place)
        before = Record(
            id=compute_id(scope, item_key),
            content=content,
            category=build_category(store_name, put.place[0]),
            kind="fact",
            layer=HOME_LAYERS["fact"],
            scope=scope,
            created_at=now,
            updated_at=now,
            last_seen_at=now,
            item_key=item_key,
        )
    metadata = {**select_other_metadata(before.metadata), _HOW: json.dumps(how), **values}
    return replace(
        before,
        content=content,
        metadata=MappingProxyType(metadata),
        origin=origin,
        updated_at=max(now, before.updated_at),
        expires_at=None if put.ttl is None else timestamps.add_duration(now, put.ttl),
    )


def select_other_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a record besides its value."""
    return {name: text for name, text in metadata.items() if not _OURS.fullmatch(name)}


def _name_part(number: int) -> str:
    return f"{_VALUE}-{number + 1}" if number else _VALUE


def _redact_document(document: str, redactor: Redactor) -> str:
    """Return the document with secrets replaced in its texts, each examined together with its key."""
    if redactor.json_text(document) == document:
        return document
    with suppress(ValueError, RecursionError):
        document = redactor.text(_to_json(redactor.json_value(json.loads(document))))
        if isinstance(json.loads(document), dict):
            return document
    raise InvalidInput("a value holds a secret in a form that cannot be replaced: leave it out")


def _split_document(document: str, redactor: Redactor) -> list[str]:
    """Split the document into parts that are short enough; no cut makes a part look like a secret."""
    for size in _PART_SIZES:
        parts = [document[at : at + size] for at in range(0, len(document), size)]
        if all(redactor.text(part) == part for part in parts):
            return parts
    raise InvalidInput("a value holds what looks like a secret: leave it out, or put it in parts")


def _encode_document(value: object) -> str:
    """Return a JSON object as text; dates and times, UUIDs, enumerations and mappings as JSON has them."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"a value is {type(value).__name__}: pass a mapping of strings to JSON values")
    try:
        _check_keys(value)
        return _to_json(dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a value is no JSON: {error}") from None


def _to_json(value: Any) -> str:
    return _escape_unprinted(json.dumps(value, ensure_ascii=False, default=_to_json_value))


def _escape_unprinted(document: str) -> str:
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found.group()):04x}", document)


def _to_json_value(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, date):  # times too
        return value.isoformat()
    if isinstance(value, UUID | Enum):
        return str(value) if isinstance(value, UUID) else value.value
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _check_keys(value: object) -> None:
    inner = value
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"the key {wrong[0]!r} is no string")
        inner = list(value.values())
    for each in inner if isinstance(inner, list | tuple) else ():
        _check_keys(each)


def _render_content(put: PutItem, value: dict[str, Any]) -> str:
    """Return the content of the record: the given texts, else the value as lines, else its address."""
    text = _render_lines(value) if put.texts is None else "\n".join(put.texts)
    if not _NOTHING.fullmatch(content := clean_text(text)[:LONGEST_CONTENT]):
        return content
    return clean_text(" ".join((*put.namespace, put.key)))[:LONGEST_CONTENT].strip() or "(empty)"


def _render_lines(value: dict[str, Any]) -> str:
    leaves = list(_iterate_leaves(value))
    if len(leaves) == 1 and isinstance(leaves[0][1], str) and _SPEAKING.issuperset(leaves[0][0]):
        return leaves[0][1]
    return "\n".join(
        f"{'.'.join(map(str, path))}: {leaf if isinstance(leaf, str) else json.dumps(leaf, ensure_ascii=False)}"
        for path, leaf in leaves
    )


def _iterate_leaves(value: object, path: _Path = ()) -> Iterator[tuple[_Path, object]]:
    """Yield each text, number, truth value, null and empty container in a value, with its path."""
    if isinstance(value, dict | list) and value:
        for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _iterate_leaves(inner, (*path, step))
    elif path:
        yield path, value


# -- a record becomes a value ----------------------------------------------------------------------------


def decode_item(store_name: str, record: Record, *, score: float | None = None) -> Item | None:
    """Return the item of the record; None if it has none of this store, or its value has been removed."""
    place = decode_place(store_name, record)
    if place is None:
        return None
    parts: list[str] = []
    while (part := record.metadata.get(_name_part(len(parts)))) is not None:
        parts.append(part)
    try:
        value, how = json.loads("".join(parts)), json.loads(record.metadata.get(_HOW, "{}"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    how = how if isinstance(how, dict) else {}
    if "edit" in how:
        _apply_edit(value, record.content, how["edit"])
    ttl = None
    with suppress(TypeError, ValueError, OverflowError):  # a person may have written something else there
        ttl = timedelta(seconds=how["ttl"]) if "ttl" in how else None
    return Item(
        namespace=place[0],
        key=place[1],
        value=value,
        created_at=record.created_at,
        updated_at=record.updated_at,
        record=record.id,
        origin=record.origin,
        expires_at=record.expires_at,
        ttl=ttl,
        searchable=how.get("search") is not False,
        score=score,
    )


def _apply_edit(value: dict[str, Any], content: str, name: str | None) -> None:
    """Take what a person has changed in the content into the texts of a value.

    Args:
        value: The value.
        content: The content as it is now.
        name: The key of the text that is the whole content; None if the content lists the fields, each on a line.
    """
    texts = {} if name is None else {name: content}
    if name is None:
        lines = [line.partition(": ") for line in content.split("\n")]
        labels = [".".join(map(str, path)) for path, _ in _iterate_leaves(value)]
        if [label for label, _, _ in lines] == labels:
            texts = {label: text for label, _, text in lines}
    for label, text in texts.items():
        if isinstance(value.get(label), str) and clean_text(value[label]) != text:
            value[label] = text
