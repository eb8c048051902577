"""What stores share: conflicts, forms of a copy, merges of former records, and filters as conditions in SQL."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

from reverie.domain.change import Change, Subject
from reverie.domain.conversation import SessionOverview, SessionState
from reverie.domain.entry import Entry
from reverie.domain.errors import Conflict, StoreCorrupt, TextExists
from reverie.domain.filter import Filter
from reverie.domain.lazy_dataclass import dataclass, replace
from reverie.domain.record import NOTHING, Record, move_former_metadata
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.codec import TABLES, Row, UnreadableRow, count_positions, decode_moment

_log = logging.getLogger("reverie")


# -- conflicts, with the same words in every store -----------------------------------------------------------


_MESSAGES = {
    "since": "a record was changed (change {sequence}) after change {since}: search again and retry",
    "exists": "{subject} {id!r} exists already: read it, or take another id",
    "missing": "{subject} {id!r} is not there any more: read again and retry",
    "changed": "{subject} {id!r} has changed since it was read: read it again and retry",
    "has turns": "session {id!r} still has turns: delete them first",
    "same words": "record {id!r} says the same as the live record {other!r}: read that one and change it",
    "no session": "no session {session!r} to put turn {id!r} in: create it first",
    "place taken": "turn {id!r}: position {position} of session {session!r} is taken: "
    "read the session again and retry",
    "gap": "session {session!r} would have later turns but none at position {position}: "
    "read it again and retry",
    "cursor": "{name!r} has changed since it was read: read it again and retry",
}


def build_conflict(reason: str, **values: object) -> Conflict:
    """Return the conflict to raise.

    Args:
        reason: A key of the messages above.
        **values: The values that the message names.
    """
    kind = TextExists if reason == "same words" else Conflict
    return kind(_MESSAGES[reason].format(**values))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProblem:
    """A problem that `check` found.

    Attributes:
        what: What is wrong, with the id or table concerned; never content.
        fix: What a person can do about it.
        repairable: Whether the store can repair it.
    """

    what: str
    fix: str
    repairable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """Result of a repair.

    Attributes:
        kept: The damaged file, under its new name.
        changes: Number of entries of the journal.
        lost: What could not be read, such as `3 changes`; never content.
    """

    kept: Path
    changes: int
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """Health of the server of a memory, as this process sees it.

    Attributes:
        version: Version of the server.
        round_trip_ms: How long a query takes that does nothing.
        connections: Connections that this process has open, for all its memories in the database.
        idle_connections: How many of them are not in use.
        most_connections: How many it may open.
        waiting_calls: Calls that wait for a connection.
        lost_connections: Connections that were lost or refused since the process began.
        memories: Memories in the database.
        workers: Processes of `reverie worker` that were heard of within a minute.
        due: Memories at which a worker has to look.
        due_for_s: How long the first of them has waited, in seconds.
        failing: Memories whose background work failed last time.
        standbys: Standbys that follow the server.
        standby_lag_s: How far the last of them is behind, in seconds; None if it is not, or the role may not know.
    """

    version: str
    round_trip_ms: float
    connections: int
    idle_connections: int
    most_connections: int
    waiting_calls: int
    lost_connections: int
    memories: int
    workers: int
    due: int
    due_for_s: float
    failing: int
    standbys: int
    standby_lag_s: float | None


class KeptVector(NamedTuple):
    """Vector of a passage as a store keeps it.

    Attributes:
        digest: Hash of its text and scope, of 8 bytes.
        scale: What its numbers are multiplied with.
        numbers: Its numbers, each a byte with a sign.
    """

    digest: int
    scale: float
    numbers: bytes


class NestedChange(RuntimeError):
    """A change of a store inside its `reading()` block, which is a fault of the caller."""

    def __init__(self) -> None:
        super().__init__("a store cannot be changed inside its reading() block: end the block first")


# -- copying --------------------------------------------------------------------------------------


class CopiedRow(NamedTuple):
    """A journal row as it is stored.

    All fields but the last are those of `reverie.stores.codec.CHANGE_COLUMNS`.

    Attributes:
        sequence: Its number.
        batch: The number of the first row of its transaction.
        at: When it was made, in microseconds since 1970.
        actor: Who made it.
        operation: The operation.
        note: A person's words.
        reference: Its origin.
        key: The key of the thing changed.
        subject: Which kind of thing that is.
        before: The document that was, if there was one.
        after: The document that is.
        id: The id of the thing; empty where it was erased.
    """

    sequence: int
    batch: int
    at: int
    actor: str
    operation: str
    note: str
    reference: str
    key: int
    subject: Subject
    before: str | None
    after: str | None
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjournaled:
    """Contents of a store that do not follow from the journal.

    Attributes:
        entries: Entries of working memory, expired ones too.
        cursors: Values of cursors.
        counters: Values of counters.
        tombstones: Marks of what was erased.
    """

    entries: Sequence[Entry]
    cursors: Mapping[str, str]
    counters: Mapping[str, int]
    tombstones: Sequence[str]


MARKED = ("at", "batch", "actor", "operation")
"""Columns of an entry of the journal that tell one history from another."""

ROWS = 1_000
"""Rows of a batch."""


@contextmanager
def translating_damage() -> Iterator[None]:
    """Raise `StoreCorrupt` for a row or document that cannot be read."""
    try:
        yield
    except UnreadableRow as error:
        raise StoreCorrupt(
            f"what is to be copied cannot be read, {error}: run `reverie doctor` on it"
        ) from error


# -- migration of records ----------------------------------------------------------------------------------
#
# In an earlier version Reverie's own facts were metadata, and a kind was part of the text. The facts move from the
# metadata to fields, and records get the fingerprints of today. Of live records with the same text, one stays.


def move_fields(record: Record) -> Record:
    """Return a record with the facts in its metadata as fields."""
    moved = move_former_metadata({"archived_at": record.archived_at, "metadata": record.metadata})
    metadata = moved.pop("metadata")
    if metadata is record.metadata:
        return record
    moved["replaces"] = tuple(moved.get("replaces", ()))
    return replace(record, metadata=MappingProxyType(metadata) if metadata else NOTHING, **moved)


def find_merges(records: Iterable[Record], *, now: datetime) -> list[Change]:
    """Return the changes that leave one live record for each scope and fingerprint."""
    from reverie.domain.similarity.deduplication import merge_same_texts  # here: stores are seldom migrated

    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if not record.archived:
            groups[record.scope, record.fingerprint].append(record)
    merged = (merge_same_texts(group, now=now) for group in groups.values() if len(group) > 1)
    return [change for changes in merged for change in changes]


# -- filters and queries -------------------------------------------------------------------------------

_ALL = 2**63 - 1


class Conditions(ABC):
    """Conditions that must all hold for the rows that a query calls `it`.

    Attributes:
        placeholder: What replaces the question marks of the conditions in the SQL of the database.
        created_at: The column with the time of a record's creation.
        role: The column with the role of a turn.
        parts: The parts of a headline.
        values: The values of the placeholders, in their order.
    """

    placeholder: ClassVar[str]
    created_at: ClassVar[str]
    role: ClassVar[str]
    parts: ClassVar[str]

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[Any] = []

    def __str__(self) -> str:
        return " AND ".join(self._conditions or ["true"]).replace("?", self.placeholder)

    @abstractmethod
    def add_any(self, column: str, wanted: Sequence[Any]) -> None:
        """Add that a column has one of some values."""

    def add_like(self, scope: str, fingerprints: Sequence[str]) -> None:
        """Add that a record is live in a scope with one of some fingerprints."""
        self.add("it.archived_at IS NULL AND it.scope = ?", scope)
        self.add_any("it.fingerprint", fingerprints)

    @abstractmethod
    def add_tags(self, tags: Sequence[str]) -> None:
        """Add that a record has all of some tags, whatever their case."""

    @abstractmethod
    def add_sessions(self, ids: Sequence[str]) -> None:
        """Add that a turn is of one of some sessions."""

    @abstractmethod
    def add_text(self, text: str) -> None:
        """Add that the content has a text, whatever the case of ASCII letters."""

    def add(self, condition: str, *values: Any) -> None:
        """Add a condition."""
        self._conditions.append(condition)
        self.values += values

    def add_span(
        self, column: str, earliest: datetime | None, latest: datetime | None, until: str = "<="
    ) -> None:
        """Add that a time is not before or after another one; with `<`, that it is before the latter."""
        for comparison, moment in ((">=", earliest), (until, latest)):
            if moment is not None:
                self.add(f"{column} {comparison} ?", to_microseconds(moment))

    def add_record_filter(self, wanted: Filter, containing: str | None = None) -> None:
        """Add the restrictions of a filter to records, and that their content has a text."""
        if wanted.only_turns:
            self.add("false")
        self.add_span(self.created_at, wanted.created_after, wanted.created_before, "<")
        if wanted.archived is not None:
            self.add(f"it.archived_at IS {'NOT ' if wanted.archived else ''}NULL")
        if wanted.scopes is not None:
            self.add_any("it.scope", wanted.scopes)
        if wanted.categories:
            # A range, for which the index of categories serves, without names that only begin alike.
            within = "(it.category >= ? AND it.category < ? AND (it.category = ? OR it.category >= ?))"
            bounds = [(each, f"{each}0", each, f"{each}/") for each in wanted.categories]  # `0` follows `/`
            self.add(f"({' OR '.join([within] * len(bounds))})", *chain.from_iterable(bounds))
        for column, allowed in (("kind", wanted.kinds), ("layer", wanted.layers), ("origin", wanted.origins)):
            if allowed:
                self.add_any(f"it.{column}", allowed)
        if wanted.pinned is not None:
            self.add("it.pinned = ?", wanted.pinned)
        if wanted.tags:
            self.add_tags(wanted.tags)
        if wanted.headlines is not None:
            self.add(f"{self.parts} IS {'NOT ' if wanted.headlines else ''}NULL")
        if containing is not None:
            self.add_text(containing)
        self._add_validity(wanted)

    def _add_validity(self, wanted: Filter) -> None:
        if wanted.valid_at is not None:
            moment = to_microseconds(wanted.valid_at)
            self.add("(it.valid_from IS NULL OR it.valid_from <= ?)", moment)
            self.add("(it.valid_to IS NULL OR ? < it.valid_to)", moment)
        if wanted.alive_at is not None:
            self.add("(it.expires_at IS NULL OR it.expires_at > ?)", to_microseconds(wanted.alive_at))

    def add_turn_filter(self, wanted: Filter, containing: str | None = None) -> None:
        """Add the restrictions of a filter to turns, and that their content has a text."""
        if wanted.only_records:
            self.add("false")
        if wanted.scopes is not None:
            self.add_any("it.scope", wanted.scopes)
        if wanted.roles:
            self.add_any(self.role, wanted.roles)
        self.add_span("it.at", wanted.created_after, wanted.created_before, "<")
        if wanted.sessions:
            self.add_sessions(wanted.sessions)
        if containing is not None:
            self.add_text(containing)


def build_placeholders(count: int) -> str:
    """Return a number of question marks, with commas between them."""
    return ",".join("?" * count)


def format_limit(limit: int | None, offset: int = 0) -> str:
    """Return the end of a query; the numbers stand in the text, for plans that are made without parameters."""
    return f" LIMIT {_ALL if limit is None else int(limit)} OFFSET {int(offset)}"


# -- queries --------------------------------------------------------------------------------------------

_MAX_NAMES = 16_384  # in one statement; SQLite allows 32,766 variables
_BATCH = 256


class StoreConnections(Protocol):
    """Connections of a store to its database. Safe to use from several threads."""

    _thread: threading.local  # its `view` is the state that the thread sees

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, from the state that this thread sees."""

    def rows_now(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query from the present state, which may be newer than the one that this thread sees."""
        view, self._thread.view = getattr(self._thread, "view", None), None
        try:
            return self.rows(sql, values)
        finally:
            self._thread.view = view

    def sequence(self) -> int:
        """Return the number of the newest journal row that this thread sees; 0 if there is none."""

    def viewing(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state until the block ends."""

    def reading(self) -> AbstractContextManager[Any]:
        """Return a context with a connection that sees one state, that of this thread's view if it has one."""

    def close(self) -> None:
        """Close what is idle, and let any further use raise `StoreUnavailable`."""


class Queries(ABC):
    """Queries of a store that are alike in all databases."""

    _REMEDY: ClassVar[str]
    """Advice for a row that cannot be read."""

    _connections: StoreConnections

    @abstractmethod
    def _where(self, table: str) -> Conditions:
        """Return conditions for the rows of a table that belong to this memory."""

    @abstractmethod
    def _name(self, table: str) -> str:
        """Return a table as it stands behind FROM, where the query calls it `it`."""

    @abstractmethod
    def _form(self, subject: Subject) -> tuple[str, str]:
        """Return the columns of a value behind SELECT, its key and its id first, and the tables behind FROM."""

    @abstractmethod
    def _decode(self, subject: Subject, row: Row) -> Any:
        """Return the value in the columns of `_form`; raise `UnreadableRow`."""

    def _read_by_key(self, connection: Any, subject: Subject, keys: Sequence[int]) -> dict[int, Row]:
        """Return the rows of values by key."""
        (columns, source), where = self._form(subject), self._where(TABLES[subject].name)
        where.add_any("it.key", keys)
        found = connection.execute(f"SELECT {columns} FROM {source} WHERE {where}", where.values)
        return {row[0]: row for row in found.fetchall()}

    def _select(
        self, subject: Subject, where: Conditions, order: str, *, limit: int | None = None, offset: int = 0
    ) -> list[Any]:
        """Return values; raise `StoreCorrupt` if one cannot be read."""
        columns, source = self._form(subject)
        sql = f"SELECT {columns} FROM {source} WHERE {where} ORDER BY {order}{format_limit(limit, offset)}"
        return [self._decode_or_raise(subject, row) for row in self._connections.rows(sql, where.values)]

    def _fetch(self, subject: Subject, wanted: Sequence[str | int]) -> list[Any]:
        """Return things by id (text) or key (number), in the order asked for."""
        columns, source = self._form(subject)
        found: dict[str | int, Row] = {}
        ids = [name for name in wanted if isinstance(name, str)]
        for place, column, names in (
            (1, "id", ids), (0, "key", [name for name in wanted if not isinstance(name, str)])
        ):  # fmt: skip
            for start in range(0, len(names), _MAX_NAMES):
                where = self._where(TABLES[subject].name)
                where.add_any(f"it.{column}", names[start : start + _MAX_NAMES])
                rows = self._connections.rows(f"SELECT {columns} FROM {source} WHERE {where}", where.values)
                found |= {row[place]: row for row in rows}
        return [self._decode_or_raise(subject, found[name]) for name in wanted if name in found]

    def _scan(
        self, subject: Subject, where: Conditions, order: str, *, limit: int | None = None, offset: int = 0
    ) -> Iterator[Any]:
        """Yield values from one state, without those that cannot be read.

        Keys are read first, then rows in batches, because sorting keys is cheaper than sorting rows.
        """
        source = self._name(TABLES[subject].name)
        sql = f"SELECT it.key FROM {source} WHERE {where} ORDER BY {order}{format_limit(limit, offset)}"
        with self._connections.reading() as connection:
            keys = [key for (key,) in connection.execute(sql, where.values).fetchall()]
            for start in range(0, len(keys), _BATCH):
                some = keys[start : start + _BATCH]
                rows = self._read_by_key(connection, subject, some)
                for key in some:
                    if (value := self._decode_or_skip(subject, key, rows.get(key))) is not None:
                        yield value

    def _decode_or_raise(self, subject: Subject, row: Row) -> Any:
        try:
            return self._decode(subject, row)
        except UnreadableRow as error:
            raise StoreCorrupt(f"{subject} {row[1]!r} cannot be read, {error}: {self._REMEDY}") from error

    def _decode_or_skip(self, subject: Subject, key: int, row: Row | None) -> Any:
        """Return the value of a row; None, with a warning, if it is missing or cannot be read."""
        try:
            if row is None:
                raise UnreadableRow("it or its session is missing from its table")
            return self._decode(subject, row)
        except UnreadableRow as error:
            name = None if row is None else row[1]
            _log.warning(
                "%s %r (key %d) cannot be read and is left out, %s: run check()", subject, name, key, error
            )
            return None

    def _build_overview(self, row: Row, last: Any, last_at: Any) -> SessionOverview:
        """Return a session from its row, the position of its last turn and the time of that turn."""
        state: SessionState = self._decode_or_raise("session", row)
        try:
            moment = decode_moment(last_at)
        except UnreadableRow:
            _log.warning("the last turn of session %r has a time that cannot be read: run check()", state.id)
            moment = state.created_at
        return SessionOverview(state=state, turns=count_positions(last, state.id), last_at=moment)

    def _read(self, columns: str, table: str, where: Conditions | None = None, end: str = "") -> list[Row]:
        """Return columns of the rows of a table that belong to this memory."""
        where = where or self._where(table)
        return self._connections.rows(
            f"SELECT {columns} FROM {self._name(table)} WHERE {where}{end}", where.values
        )

    def _get_value(self, table: str, name: str) -> Any:
        where = self._where(table)
        where.add("it.name = ?", name)
        return next((value for (value,) in self._read("it.value", table, where)), None)
