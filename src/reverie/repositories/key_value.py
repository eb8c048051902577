"""Key-value store for programs: values in namespaces, each stored as a record.

Values are set, read, replaced and deleted by key, and found by their words. People see them among the
records, can edit them, and undo what a program did. `key_value_codec` defines their form as records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeAlias

from reverie.domain.category import validate_category
from reverie.domain.change import Change, Operation
from reverie.domain.errors import Conflict, InvalidInput, quote_value
from reverie.domain.filter import Filter
from reverie.domain.provenance import OriginFunction, least_trusted
from reverie.domain.record import (
    ORIGINS,
    Origin,
    Record,
    note_dates,
    validate_choice,
    validate_record,
)
from reverie.domain.scope import validate_scope
from reverie.domain.text import timestamps
from reverie.domain.text.validation import validate_count, validate_values
from reverie.repositories.key_value_codec import (
    Item,
    Namespace,
    Place,
    PutItem,
    build_category,
    compute_id,
    decode_item,
    decode_place,
    encode_item,
    encode_place,
    parse_namespace,
    parse_place,
)
from reverie.search.hits import MOST_HITS, SearchRequest
from reverie.search.searcher import Searcher
from reverie.stores.writer import StoreWriter, WritingRepository

_Accept: TypeAlias = Callable[[Mapping[str, Any]], bool]

_SPARE = 16  # further hits to ask for, since some are left out afterwards
_SHARE = 100  # a lifetime is renewed only if that adds a hundredth of it, or a minute
_LEAST_GAIN = timedelta(minutes=1)


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
        zone: tzinfo = UTC,
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
            zone: The owner's time zone, for dates such as "yesterday".

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
        self._zone = zone

    # -- one value ---------------------------------------------------------------------------------------

    def get(self, namespace: Namespace, key: str) -> Item | None:
        """Return the item under a key; None if there is none.

        Args:
            namespace: Its namespace, one text for each level.
            key: Its key.
        """
        place = parse_place((namespace, key))
        record = self._fetch_records([place]).get(place)
        return None if record is None else self._read(record, self._clock())

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        texts: Sequence[str] | None = None,
        ttl: timedelta | None = None,
    ) -> None:
        """Store a value under a key, in place of the one that is there. It is on disk when this returns.

        Args:
            namespace: Its namespace, one text for each level.
            key: Its key; any text.
            value: A JSON object of any size.
            texts: The texts that a search looks at; None for the whole value, empty to leave it out of search.
            ttl: Its lifetime; None for ever.

        Raises:
            InvalidInput: an argument is not of its form; nothing was changed.
        """
        self.put_many([PutItem(namespace=namespace, key=key, value=value, texts=texts, ttl=ttl)])

    def delete(self, namespace: Namespace, key: str) -> bool:
        """Remove the value under a key by archiving its record; return False if there is none."""
        is_stored = self.get(namespace, key) is not None
        self.put_many([PutItem(namespace=namespace, key=key, value=None)])
        return is_stored

    # -- several -----------------------------------------------------------------------------------------

    def put_many(self, puts: Iterable[PutItem]) -> None:
        """Store and remove several values in one transaction; of two with one key the last counts.

        Args:
            puts: The items; one without a value removes the present one.

        Raises:
            InvalidInput: one of them is not of its form; nothing was changed.
        """
        wanted = validate_values(puts, name="puts", of="PutItem")
        if wrong := [put for put in wanted if not isinstance(put, PutItem)]:
            raise InvalidInput(f"puts has {quote_value(wrong[0])}: pass a list of PutItem")
        operation: Operation = "delete" if all(put.value is None for put in wanted) else "put"
        self._commit(lambda: self.plan(wanted), operation=operation)

    def plan(
        self, puts: Iterable[PutItem], expected: Mapping[Place, Mapping[str, Any] | None] | None = None
    ) -> list[Change]:
        """Return the changes of `put_many`, to be committed together with others.

        Args:
            puts: The items.
            expected: The values that some addresses must still have, None for no value: for new values that were
                made from those that were read.

        Raises:
            InvalidInput: an item is not of its form.
            Conflict: an address has another value than expected.
        """
        now = self._clock()
        wanted = {put.place: put for put in puts}
        records = self._fetch_records(wanted)
        for place, value in (expected or {}).items():
            found = self._read(records[place], now) if place in records else None
            if (None if found is None else found.value) != value:
                raise Conflict(
                    f"a value of the key-value store {self.name!r} has been changed: read it again"
                )
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
        wanted = list(map(parse_place, places))

        def find_changes() -> list[Change]:
            now = self._clock()
            changes = []
            for record in self._fetch_records(wanted).values():
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
            where: Tells whether a value is wanted; None for all. It chooses among the 4,096 values that have most words
                of the question.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        validate_count(limit, name="limit", least=0)
        now, above = self._clock(), parse_namespace(namespace)
        allowed = self._build_filter(above, alive=now)
        seen: set[str] = set()
        found: list[Item] = []
        for most in (min(limit + _SPARE, MOST_HITS), MOST_HITS):
            question = SearchRequest(
                text=query,
                allowed=allowed,
                limit=most,
                exclude=frozenset(seen),
                repeats=True,
                isolated_category=allowed.categories[0],
            )
            hits = self._searching.records(question)
            seen.update(hit.id for hit in hits)
            items = [self._read(hit.record, now, hit.score) for hit in hits if hit.record is not None]
            found += [
                item
                for item in items
                if item is not None
                and item.searchable
                and item.namespace[: len(above)] == above
                and (where is None or where(item.value))
            ]
            if len(found) >= limit or len(hits) < most:
                break
        return found[:limit]

    def items(self, namespace: Namespace = ()) -> Iterator[Item]:
        """Yield the items in a namespace and those below it, the latest changed first."""
        now, above = self._clock(), parse_namespace(namespace)
        found = (self._read(record, now) for record in self._store.find(self._build_filter(above, alive=now)))
        return (item for item in found if item is not None and item.namespace[: len(above)] == above)

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state of the memory until the block ends (`Store.reading`)."""
        return self._store.reading()

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that contain anything, in order."""
        wanted = self._build_filter((), alive=self._clock())
        places = (decode_place(self.name, record) for record in self._store.find(wanted))
        return sorted({place[0] for place in places if place is not None})

    def sweep(self) -> int:
        """Archive the records of expired values; return their number.

        Expired values are not found before that either. Their records can be read by id, as everything archived.
        """

        def find_changes() -> Iterator[Change]:
            now = self._clock()
            for record in self._store.find(self._build_filter((), alive=None)):
                is_expired = record.expires_at is not None and record.expires_at <= now
                if is_expired and decode_place(self.name, record) is not None:
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
        by_id = {compute_id(self.scope, encode_place(self.name, place)): place for place in places}
        return {
            by_id[record.id]: record
            for record in self._store.records(list(by_id))
            if record.scope == self.scope and decode_place(self.name, record) == by_id[record.id]
        }

    def _read(self, record: Record, now: datetime, score: float | None = None) -> Item | None:
        """Return the item of a record; None if it is archived, expired or has no item of this store."""
        if record.archived or (record.expires_at is not None and record.expires_at <= now):
            return None
        return decode_item(self.name, record, score=score)

    def _build_record(self, put: PutItem, old: Record | None, now: datetime) -> Record:
        """Return the record of the new value."""
        where = encode_place(self.name, put.place)
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
        return validate_record(note_dates(record, now, self._zone))

    def _build_filter(self, namespace: Namespace, *, alive: datetime | None) -> Filter:
        category = build_category(self.name, namespace)
        return Filter(scopes=(self.scope,), categories=(category,), alive_at=alive)


def _build_archive_change(record: Record, now: datetime, reason: str) -> Change:
    return Change(before=record, after=replace(record, archived_at=now, archive_reason=reason))
