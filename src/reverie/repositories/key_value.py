"""Key-value store for programs: JSON objects under keys in namespaces, each stored as a record.

Values are set, read, replaced and deleted by key, and found by their words. People see them among the records, can edit
them, and undo what a program did. The content of the record is the one text of the value, or the value as JSON; its
metadata has the value itself, losslessly. What a person changes in the text or the JSON is read as the value.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import Enum
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Any, TypeAlias
from uuid import UUID

from reverie.domain.category import LONGEST, validate_category
from reverie.domain.change import Change, Operation
from reverie.domain.errors import Conflict, InvalidInput, quote_value
from reverie.domain.filter import Filter
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.provenance import OriginFunction, least_trusted
from reverie.domain.record import (
    HOME_LAYERS,
    LONGEST_CONTENT,
    ORIGINS,
    Origin,
    Record,
    validate_choice,
    validate_record,
)
from reverie.domain.scope import validate_scope
from reverie.domain.secrets.redactor import Redactor
from reverie.domain.text import timestamps
from reverie.domain.text.validation import clean_text, validate_count, validate_values
from reverie.search.hits import MOST_HITS, SearchRequest
from reverie.search.searcher import Searcher
from reverie.stores.writer import StoreWriter, WritingRepository

Namespace: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[Namespace, str]
"""A namespace and a key in it."""

_Accept: TypeAlias = Callable[[Mapping[str, Any]], bool]

_SPARE = 16  # further hits to ask for, since some are left out afterwards
_SHARE = 100  # a lifetime is renewed only if that adds a hundredth of it, or a minute
_LEAST_GAIN = timedelta(minutes=1)

_HOW = "kept-how"
_VALUE = "kept-value"
_OURS = defer_regex(r"kept(-how|-value(-\d+)?)?")
_PART_SIZE = 50_000
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
        _parse_place((self.namespace, self.key))
        _parse_labels(() if self.texts is None else self.texts, name="texts")
        if not isinstance(self.ttl, timedelta | None):
            raise InvalidInput(f"ttl is {quote_value(self.ttl)}: pass a timedelta, or None for ever")

    @property
    def place(self) -> Place:
        """Its namespace and key."""
        return tuple(self.namespace), self.key


class KeyValueStore(WritingRepository):
    """Values under keys, in namespaces. Safe to use from several threads, and beside other processes.

    `Memory.key_value` returns it. Stores of different names share nothing.

    Example:
        >>> from reverie import Memory
        >>> with Memory.open(":memory:") as memory:
        ...     store = memory.key_value("app")
        ...     _ = store.put(("users", "alice"), "tone", {"text": "Prefers short answers"})
        ...     items = store.search("how should I answer?", namespace=("users",))
        ...     print(store.get(("users", "alice"), "tone").value, [item.key for item in items])
        {'text': 'Prefers short answers'} ['tone']
    """

    def __init__(
        self,
        name: str,
        *,
        writer: StoreWriter,
        searching: Searcher,
        scope: str = "",
        origin: Origin = "agent",
        determine_origin: OriginFunction | None = None,
    ) -> None:
        """Keep values in a store; `Memory.key_value` is the usual way.

        Args:
            name: The name of the store, the first segment of its records' categories.
            writer: Commits the changes.
            searching: Searches the records.
            scope: The scope of the records; those of other scopes are not seen.
            origin: The origin of the values.
            determine_origin: Returns the origin of a text with its labels, if a conversation is known; the less
                trusted of the two counts.

        Raises:
            InvalidInput: name, scope or origin is not of its form.
        """
        super().__init__(writer)
        self.name = validate_category(name, name="name")
        self.scope = validate_scope(scope)
        validate_choice(origin, ORIGINS, name="origin")
        self._origin = origin
        self._determine_origin = determine_origin
        self._clock = writer.clock
        self._searching = searching

    # -- one value ---------------------------------------------------------------------------------------

    def get(self, namespace: Namespace, key: str) -> Item | None:
        """Return the item under a key; None if there is none.

        Args:
            namespace: Its namespace, one text for each level.
            key: Its key.
        """
        place = _parse_place((namespace, key))
        record = self._fetch_records([place]).get(place)
        return None if record is None else self._read(record, self._clock())

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any]) -> None:
        """Store a value under a key, in place of the one that is there. It is on disk when this returns.

        Args:
            namespace: Its namespace, one text for each level.
            key: Its key; any text.
            value: A JSON object of any size.

        Raises:
            InvalidInput: an argument is not of its form; nothing was changed.
        """
        self.put_many([PutItem(namespace=namespace, key=key, value=value)])

    def delete(self, namespace: Namespace, key: str) -> bool:
        """Remove the value under a key by archiving its record; return False if there is none."""
        is_stored = self.get(namespace, key) is not None
        self.put_many([PutItem(namespace=namespace, key=key, value=None)])
        return is_stored

    # -- several -----------------------------------------------------------------------------------------

    def put_many(
        self,
        puts: Iterable[PutItem],
        *,
        expected: Mapping[Place, Mapping[str, Any] | None] = MappingProxyType({}),
        operation: Operation | None = None,
        beside: Callable[[], Sequence[Change]] = tuple,
    ) -> None:
        """Store and remove several values in one transaction; of two with one key the last counts.

        Args:
            puts: The items; one without a value removes the present one.
            expected: The values that some addresses must still have, None for no value: for new values that were
                made from those that were read.
            operation: The operation, for the journal; None for `put` or `delete`.
            beside: Returns further changes of the transaction, such as `Pages.plan`.

        Raises:
            InvalidInput: one of them is not of its form; nothing was changed.
            Conflict: an address has another value than expected.
        """
        wanted = validate_values(puts, name="puts", of="PutItem")
        if wrong := [put for put in wanted if not isinstance(put, PutItem)]:
            raise InvalidInput(f"puts has {quote_value(wrong[0])}: pass a list of PutItem")
        usual: Operation = "delete" if all(put.value is None for put in wanted) else "put"
        self._commit(lambda: [*beside(), *self._plan(wanted, expected)], operation=operation or usual)

    def _plan(
        self, puts: Iterable[PutItem], expected: Mapping[Place, Mapping[str, Any] | None]
    ) -> list[Change]:
        """Return the changes of `put_many`."""
        now = self._clock()
        wanted = {put.place: put for put in puts}
        records = self._fetch_records(wanted)
        present = {place: item.value for place, each in records.items() if (item := self._read(each, now))}
        if any(present.get(place) != value for place, value in expected.items()):
            raise Conflict(f"a value of the key-value store {self.name!r} has been changed: read it again")
        changes = []
        for place, put in wanted.items():
            old = records.get(place)
            if put.value is not None:
                changes.append(Change(before=old, after=self._build_record(put, old, now)))
            elif old is not None and not old.archived:
                changes.append(_build_archive_change(old, now, "deleted"))
        return changes

    def touch(self, places: Sequence[Place]) -> None:
        """Renew the lifetime of values, because they were read.

        To spare the journal, a value that would gain neither a minute nor a hundredth of its lifetime stays as it is.

        Args:
            places: Namespaces and keys; unknown ones, and values without a lifetime, are ignored.
        """

        def find_changes() -> list[Change]:
            now = self._clock()
            changes = []
            for record in self._fetch_records(places).values():
                found = self._read(record, now)
                if found is None or found.ttl is None or found.expires_at is None:
                    continue
                until = timestamps.add_duration(now, found.ttl)
                if until - found.expires_at >= min(_LEAST_GAIN, found.ttl / _SHARE):
                    changes.append(Change(before=record, after=replace(record, expires_at=until)))
            return changes

        self._commit(find_changes, operation="renew")

    # -- looking for values ------------------------------------------------------------------------------

    def search(
        self, query: str, *, namespace: Namespace = (), limit: int = 10, where: _Accept | None = None
    ) -> list[Item]:
        """Return the items in a namespace and those below it that answer a question, best first.

        Args:
            query: The question.
            namespace: The beginning of their namespaces; empty for all.
            limit: The largest number of items.
            where: Returns whether a value is wanted, of the 4,096 that have most words of the question; None for all.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        validate_count(limit, name="limit", least=0)
        now, above = self._clock(), _parse_labels(namespace)
        allowed = self._build_filter(above, alive=now)
        question = SearchRequest(
            text=query,
            allowed=allowed,
            limit=MOST_HITS if where is not None else min(limit + _SPARE, MOST_HITS),
            repeats=True,
            isolated_category=allowed.categories[0],
        )
        hits = self._searching.search(question, ["records"])
        items = [self._read(hit.record, now, hit.score) for hit in hits if hit.record is not None]
        return [
            item
            for item in items
            if item is not None
            and item.searchable
            and item.namespace[: len(above)] == above
            and (where is None or where(item.value))
        ][:limit]

    def items(self, namespace: Namespace = ()) -> Iterator[Item]:
        """Yield the items in a namespace and those below it, the latest changed first."""
        now, above = self._clock(), _parse_labels(namespace)
        found = (self._read(record, now) for record in self._store.find(self._build_filter(above, alive=now)))
        return (item for item in found if item is not None and item.namespace[: len(above)] == above)

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state of the memory until the block ends (`Store.reading`)."""
        return self._store.reading()

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that contain anything, in order."""
        wanted = self._build_filter((), alive=self._clock())
        places = (_decode_place(self.name, record) for record in self._store.find(wanted))
        return sorted({place[0] for place in places if place is not None})

    def sweep(self) -> int:
        """Archive the records of expired values; return their number.

        Expired values are not found before that either. Their records can be read by id, as everything archived.
        """

        def find_changes() -> Iterator[Change]:
            now = self._clock()
            for record in self._store.find(self._build_filter((), alive=None)):
                is_expired = record.expires_at is not None and record.expires_at <= now
                if is_expired and _decode_place(self.name, record) is not None:
                    yield _build_archive_change(record, now, "expired")

        return self._commit_in_chunks(find_changes, operation="expire")

    # -- inside ------------------------------------------------------------------------------------------

    def _commit(self, find_changes: Callable[[], list[Change]], *, operation: Operation) -> None:
        def attempt(_: int) -> None:
            if changes := find_changes():
                self._writer.commit(changes, operation=operation)

        self._run_with_retries(attempt)

    def _fetch_records(self, places: Iterable[Place]) -> dict[Place, Record]:
        """Return the records at some addresses, including archived ones, without addresses that were never used."""
        by_id = {_compute_id(self.scope, _encode_place(self.name, place)): place for place in places}
        return {
            by_id[record.id]: record
            for record in self._store.records(list(by_id))
            if record.scope == self.scope and _decode_place(self.name, record) == by_id[record.id]
        }

    def _read(self, record: Record, now: datetime, score: float | None = None) -> Item | None:
        """Return the item of a record; None if it is archived, expired or has no item of this store."""
        if record.archived or (record.expires_at is not None and record.expires_at <= now):
            return None
        return _decode_item(self.name, record, score=score)

    def _build_record(self, put: PutItem, old: Record | None, now: datetime) -> Record:
        """Return the record of the new value."""
        where = _encode_place(self.name, put.place)
        if self._redactor.text(where) != where:  # it cannot be replaced without changing the address
            raise InvalidInput(
                "a key or namespace holds what looks like a secret: choose another that tells nothing"
            )
        if old is not None and self._read(old, now) is None:
            old = None
        origin = self._origin if put.origin is None else put.origin  # who replaces a value answers for it
        record = encode_item(
            self.name, put, scope=self.scope, origin=origin, now=now, redactor=self._redactor, before=old
        )
        if self._determine_origin is not None:
            said = self._determine_origin(record.content, labels=[*put.namespace, put.key])
            record = replace(record, origin=least_trusted(origin, said))
        return validate_record(record)

    def _build_filter(self, namespace: Namespace, *, alive: datetime | None) -> Filter:
        category = _build_category(self.name, namespace)
        return Filter(scopes=(self.scope,), categories=(category,), alive_at=alive)


def _build_archive_change(record: Record, now: datetime, reason: str) -> Change:
    return Change(before=record, after=replace(record, archived_at=now, archive_reason=reason))


# -- where -----------------------------------------------------------------------------------------------


def _parse_labels(labels: object, *, name: str = "namespace") -> tuple[str, ...]:
    """Return labels as a tuple; raise `InvalidInput` if they are not a sequence of strings."""
    if not isinstance(labels, tuple | list) or not all(isinstance(each, str) for each in labels):
        raise InvalidInput(
            f"{name} is {quote_value(labels)}: pass several strings, such as ('users', 'alice')"
        )
    return tuple(labels)


def _parse_place(place: object) -> Place:
    """Return an address; raise `InvalidInput` if it is not a namespace and a key."""
    if not isinstance(place, tuple | list) or len(place) != 2 or not isinstance(place[1], str):
        raise InvalidInput(f"place is {quote_value(place)}: pass a namespace and a key")
    return _parse_labels(place[0]), place[1]


def _encode_place(store_name: str, place: Place) -> str:
    """Return an address as `item_key` of a record has it."""
    namespace, key = place
    labels = ", ".join(map(encode_basestring, namespace))
    return _escape_unprinted(f"[{encode_basestring(store_name)}, [{labels}], {encode_basestring(key)}]")


def _compute_id(scope: str, place: str) -> str:
    """Return the id of the record at an encoded address."""
    text = f"{scope}\0{place}\x000"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _build_category(store_name: str, namespace: Namespace) -> str:
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


def _decode_place(store_name: str, record: Record) -> Place | None:
    """Return the address of a record's value; None if it is no item of this store."""
    where = record.item_key
    if not where or record.id != _compute_id(record.scope, where):
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
    content = redactor.text(_render_content(put, value, document))
    how: dict[str, Any] = {}
    texts = (name for name, text in value.items() if isinstance(text, str) and clean_text(text) == content)
    if (name := next(texts, None)) is not None or content == document:
        how["edit"] = name
    if put.texts is not None and not any(text.strip() for text in put.texts):
        how["search"] = False
    if put.ttl is not None:
        how["ttl"] = put.ttl.total_seconds()
    values = {_name_part(n): part for n, part in enumerate(_split_document(document, redactor))}
    if before is None:
        item_key = _encode_place(store_name, put.place)
        before = Record(
            id=_compute_id(scope, item_key),
            content=content,
            category=_build_category(store_name, put.place[0]),
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
    clean = redactor.json_text(document)
    with suppress(ValueError, RecursionError):
        if clean == document or isinstance(json.loads(clean), dict):
            return _escape_unprinted(clean)
    raise InvalidInput("a value holds a secret in a form that cannot be replaced: leave it out")


def _split_document(document: str, redactor: Redactor) -> list[str]:
    """Split the document into parts that are short enough."""
    parts = [document[at : at + _PART_SIZE] for at in range(0, len(document), _PART_SIZE)]
    if any(redactor.text(part) != part for part in parts):
        raise InvalidInput("a value holds what looks like a secret: leave it out, or put it in parts")
    return parts


def _encode_document(value: object) -> str:
    """Return a JSON object as text; dates and times, UUIDs, enumerations and mappings as JSON has them."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"a value is {type(value).__name__}: pass a mapping of strings to JSON values")
    try:
        document = json.dumps(dict(value), ensure_ascii=False, default=_to_json_value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a value is not JSON: {error}") from None
    return _escape_unprinted(document)


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


def _render_content(put: PutItem, value: dict[str, Any], document: str) -> str:
    """Return the content of the record: the given texts, else the value as a text or JSON, else its address."""
    text = document if value else ""
    if put.texts is not None:
        text = "\n".join(put.texts)
    elif (
        len(value) == 1 and isinstance(only := next(iter(value.values())), str) and value.keys() <= _SPEAKING
    ):
        text = only
    content = clean_text(text)[:LONGEST_CONTENT]
    if not _NOTHING.fullmatch(content):
        return content
    return clean_text(" ".join((*put.namespace, put.key)))[:LONGEST_CONTENT].strip() or "(empty)"


# -- a record becomes a value ----------------------------------------------------------------------------


def _decode_item(store_name: str, record: Record, *, score: float | None = None) -> Item | None:
    """Return the item of the record; None if it has none of this store, or its value has been removed."""
    place = _decode_place(store_name, record)
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
        value = _apply_edit(value, record.content, how["edit"])
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


def _apply_edit(value: dict[str, Any], content: str, name: str | None) -> dict[str, Any]:
    """Return the value with what a person has changed in the content: the text of that name; for None the JSON."""
    if name is None:
        with suppress(ValueError, RecursionError):  # it is not JSON any more
            edited = json.loads(content)
            return edited if isinstance(edited, dict) else value
    elif isinstance(value.get(name), str) and clean_text(value[name]) != content:
        return {**value, name: content}
    return value
