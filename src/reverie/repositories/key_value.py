"""Key-value store for programs: values in namespaces, each stored as a record.

Values are set, read, replaced and deleted by key, and found by their words. People see them among the
records, can edit them, and undo what a program did. `key_value_codec` defines their form as records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, TypeAlias

from reverie.domain import category
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
from reverie.repositories import key_value_codec
from reverie.repositories.key_value_codec import Item, Namespace, Place, PutItem
from reverie.search.hits import MOST_HITS, SearchRequest
from reverie.search.searcher import Searcher
from reverie.stores.writer import StoreWriter, WritingRepository

_SPARE = 16  # further hits to ask for, since some are left out afterwards
_SHARE = 100  # a lifetime is renewed only if that adds a hundredth of it, or a minute
_LEAST_GAIN = timedelta(minutes=1)
_REASON_EXPIRED = "expired"

_Accept: TypeAlias = Callable[[Mapping[str, Any]], bool]


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
        self.name = category.validate_category(name, name="name")
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
        return self.get_many([(namespace, key)])[0]

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
        there = self.get(namespace, key) is not None
        self.put_many([PutItem(namespace=namespace, key=key, value=None)])
        return there

    # -- several -----------------------------------------------------------------------------------------

    def get_many(self, places: Sequence[Place]) -> list[Item | None]:
        """Return the items at several addresses, in their order; None where there is none.

        Args:
            places: Namespaces and keys.
        """
        places = validate_values(places, name="places", of="pairs of a namespace and a key")
        places = [_validate_address(place) for place in places]
        now = self._clock()
        there = self._fetch_records(places)
        return [None if (record := there.get(place)) is None else self._read(record, now) for place in places]

    def put_many(
        self, puts: Iterable[PutItem], *, expected: Mapping[Place, Mapping[str, Any] | None] | None = None
    ) -> None:
        """Store and remove several values in one transaction; of two with one key the last counts.

        Args:
            puts: The items; one without a value removes what is there.
            expected: The values that some addresses must still have, None for no value. For new values that were
                made from those that were read.

        Raises:
            InvalidInput: one of them is not of its form; nothing was changed.
            Conflict: an address has another value than expected, or others kept changing the same values.
        """
        if expected is not None and not isinstance(expected, Mapping):
            raise InvalidInput(f"expected is {quote_value(expected)}: pass a mapping of places to values")
        wanted = {}
        for put in validate_values(puts, name="puts", of="PutItem"):
            if not isinstance(put, PutItem):
                raise InvalidInput(f"puts has {quote_value(put)}: pass a list of PutItem")
            wanted[_validate_place(put.namespace, put.key)] = put
        for place, put in wanted.items():
            if put.texts is not None and not _are_strings(put.texts):
                raise InvalidInput(
                    f"texts is {quote_value(put.texts)}: pass a list of strings, or None for the whole value"
                )
            if not isinstance(put.ttl, timedelta | None):
                raise InvalidInput(f"ttl is {quote_value(put.ttl)}: pass a timedelta, or None for ever")
            if put.value is not None:
                self._refuse_secret(place)
        if wanted and not self._run_with_retries(lambda _: self._put_all(wanted, expected or {})):
            raise Conflict(f"a value of the key-value store {self.name!r} has been changed: read it again")

    def touch(self, places: Sequence[Place]) -> int:
        """Renew the lifetime of values, because they were read.

        To spare the journal, a value that would gain neither a minute nor a hundredth of its lifetime stays as it is.

        Args:
            places: Namespaces and keys; unknown ones, and values without a lifetime, are ignored.

        Returns:
            The number of values that live longer now.
        """
        places = validate_values(places, name="places", of="pairs of a namespace and a key")

        def attempt(_: int) -> int:
            now = self._clock()
            edits = []
            for record in self._fetch_records(places).values():
                found = self._read(record, now)
                if found is None or found.ttl is None or found.expires_at is None:
                    continue
                until = timestamps.add_duration(now, found.ttl)
                if until - found.expires_at >= min(_LEAST_GAIN, found.ttl / _SHARE):
                    edits.append(Change(before=record, after=replace(record, expires_at=until)))
            self._commit(edits, operation="renew")
            return len(edits)

        return self._run_with_retries(attempt)

    # -- looking for values ------------------------------------------------------------------------------

    def search(
        self,
        query: str | None = None,
        *,
        namespace: Namespace = (),
        limit: int = 10,
        offset: int = 0,
        where: _Accept | None = None,
    ) -> list[Item]:
        """Return the items in a namespace and those below it: the best answers first, or the latest changed.

        Args:
            query: The question; None for all values.
            namespace: The beginning of their namespaces; empty for all.
            limit: The largest number of items.
            offset: The number of items to skip.
            where: Tells whether a value is wanted; None for all. With a question it chooses among the 4,096 values
                that have most of its words.

        Raises:
            InvalidInput: an argument is not of its form.
        """
        validate_count(limit, name="limit", least=0)
        validate_count(offset, name="offset", least=0)
        wanted = _build_test(namespace, where)
        found = (
            self._iterate_items(namespace)
            if query is None
            else self._search_items(query, namespace, offset + limit)
        )
        return list(islice(filter(wanted, found), offset, offset + limit))

    def items(self, namespace: Namespace = ()) -> Iterator[Item]:
        """Yield the items in a namespace and those below it, the latest changed first."""
        return filter(_build_test(namespace), self._iterate_items(namespace))

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state of the memory until the block ends (`Store.reading`)."""
        return self._store.reading()

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that contain anything, in order."""
        wanted = self._build_filter((), alive=self._clock())
        places = (key_value_codec.decode_place(self.name, record) for record in self._store.find(wanted))
        return sorted({place[0] for place in places if place is not None})

    # -- expiry ------------------------------------------------------------------------------------------

    def sweep(self) -> int:
        """Archive the records of expired values; return their number.

        Expired values are not found before that either. Their records can be read by id, as everything archived.
        """

        def find_changes() -> Iterator[Change]:
            now = self._clock()
            for record in self._store.find(self._build_filter((), alive=None)):
                if (
                    record.expires_at is not None
                    and record.expires_at <= now
                    and key_value_codec.decode_place(self.name, record) is not None
                ):
                    yield _build_archive_change(record, now, _REASON_EXPIRED)

        return self._commit_in_chunks(find_changes, operation="expire")

    # -- inside ------------------------------------------------------------------------------------------

    def _fetch_records(self, places: Iterable[Place]) -> dict[Place, Record]:
        """Return the records at some addresses, including archived ones, without addresses that were never used."""
        by_id = {self._compute_id(place): place for place in map(_validate_address, places)}
        return {
            by_id[record.id]: record
            for record in self._store.records(list(by_id))
            if record.scope == self.scope
            and key_value_codec.decode_place(self.name, record) == by_id[record.id]
        }

    def _compute_id(self, place: Place) -> str:
        return key_value_codec.compute_id(self.scope, key_value_codec.encode_place(self.name, place))

    def _read(self, record: Record, now: datetime, score: float | None = None) -> Item | None:
        """Return the item of a record; None if it is archived, expired or has no item of this store."""
        if record.archived or (record.expires_at is not None and record.expires_at <= now):
            return None
        return key_value_codec.decode(self.name, record, score=score)

    def _put_all(
        self, wanted: Mapping[Place, PutItem], expected: Mapping[Place, Mapping[str, Any] | None]
    ) -> bool:
        """Put the items; return False, and change nothing, if something else stands there than was expected."""
        now = self._clock()
        there = self._fetch_records(wanted)
        for place, value in expected.items():
            found = self._read(there[place], now) if place in there else None
            if (None if found is None else found.value) != value:
                return False
        edits = []
        for place, put in wanted.items():
            old = there.get(place)
            if put.value is not None:
                edits.append(Change(before=old, after=self._build_record(place, put, old, now)))
            elif old is not None and not old.archived:
                edits.append(_build_archive_change(old, now, "deleted"))
        only_gone = all(put.value is None for put in wanted.values())
        self._commit(edits, operation="delete" if only_gone else "put")
        return True

    def _build_record(self, place: Place, put: PutItem, old: Record | None, now: datetime) -> Record:
        """Return the record of the new value."""
        if old is None or self._read(old, now) is None:
            old = key_value_codec.build_blank_record(
                self.name, place, scope=self.scope, origin=self._origin, now=now
            )
        record = note_dates(key_value_codec.encode(old, put, self._redactor), now, self._zone)
        origin = self._origin
        if self._determine_origin is not None:
            labels = [*place[0], place[1]]
            origin = least_trusted(origin, self._determine_origin(record.content, labels=labels))
        return validate_record(
            replace(
                record,
                origin=origin,  # who replaces a value answers for it
                updated_at=max(now, old.updated_at),
                expires_at=None if put.ttl is None else timestamps.add_duration(now, put.ttl),
            )
        )

    def _refuse_secret(self, place: Place) -> None:
        """Raise `InvalidInput` if an address holds a secret, which cannot be replaced without changing the address."""
        where = key_value_codec.encode_place(self.name, place)
        if self._redactor.text(where) != where:
            raise InvalidInput(
                "a key or namespace holds what looks like a secret: choose another that tells nothing"
            )

    def _build_filter(self, namespace: Namespace, *, alive: datetime | None) -> Filter:
        category = key_value_codec.build_category(self.name, namespace)
        return Filter(scopes=(self.scope,), categories=(category,), alive_at=alive)

    def _iterate_items(self, namespace: Namespace) -> Iterator[Item]:
        """Yield the items that may be in a namespace, the latest changed first."""
        now = self._clock()
        for record in self._store.find(self._build_filter(namespace, alive=now)):
            if (found := self._read(record, now)) is not None:
                yield found

    def _search_items(self, query: str, namespace: Namespace, wanted: int) -> Iterator[Item]:
        """Yield the items that may be in a namespace and answer a question, best first."""
        now = self._clock()
        allowed = self._build_filter(namespace, alive=now)
        seen: set[str] = set()
        limit = min(wanted + _SPARE, MOST_HITS)
        while True:
            question = SearchRequest(
                text=query,
                allowed=allowed,
                limit=limit,
                exclude=frozenset(seen),
                repeats=True,
                isolated_category=allowed.categories[0],
            )
            hits = self._searching.records(question)
            for hit in hits:
                if hit.record is None:
                    continue
                seen.add(hit.record.id)
                found = self._read(hit.record, now, hit.score)
                if found is not None and found.searchable:
                    yield found
            if len(hits) < limit:
                return
            limit = MOST_HITS

    def _commit(self, edits: Sequence[Change], *, operation: Operation) -> None:
        if edits:
            self._writer.commit(edits, operation=operation)


def _build_test(namespace: Namespace, where: _Accept | None = None) -> Callable[[Item], bool]:
    """Return a test whether an item is in a namespace, by whole labels, and its value is wanted."""
    above = _validate_namespace(namespace)
    return lambda item: item.namespace[: len(above)] == above and (where is None or where(item.value))


def _validate_namespace(namespace: Namespace) -> Namespace:
    if not _are_strings(namespace):
        raise InvalidInput(
            f"namespace is {quote_value(namespace)}: pass a tuple of strings, such as ('users', 'alice')"
        )
    return tuple(namespace)


def _validate_address(place: object) -> Place:
    if not isinstance(place, Sequence) or isinstance(place, str) or len(place) != 2:
        raise InvalidInput(f"place is {quote_value(place)}: pass a namespace and a key")
    return _validate_place(*place)


def _validate_place(namespace: Namespace, key: str) -> Place:
    if not isinstance(key, str):
        raise InvalidInput(f"key is {quote_value(key)}: pass a string")
    return _validate_namespace(namespace), key


def _are_strings(values: object) -> bool:
    return (
        isinstance(values, Sequence)
        and not isinstance(values, str)
        and all(isinstance(each, str) for each in values)
    )


def _build_archive_change(record: Record, now: datetime, reason: str) -> Change:
    return Change(before=record, after=replace(record, archived_at=now, archive_reason=reason))
