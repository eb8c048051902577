"""What stores share: conflicts, copies of one store into another, migrations, and queries that are alike in SQL."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

from reverie.domain.change import Change, JournalEntry, Subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import Conflict, InvalidInput, StoreCorrupt, TextExists
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import SEARCHABLE, Analyse, CollectionStats, Passage, Searchable
from reverie.domain.record import NOTHING, Record, move_former_metadata
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.codec import ENTRIES, TABLES, Row, UnreadableRow, count_positions
from reverie.stores.protocol import Order, Store

if TYPE_CHECKING:
    from reverie.stores.sqlite.derived import DerivedDatabase

_log = logging.getLogger("reverie")


# -- conflicts, with the same words in every store -----------------------------------------------------------


Reason: TypeAlias = Literal[
    "since",
    "exists",
    "missing",
    "changed",
    "has turns",
    "same words",
    "no session",
    "place taken",
    "gap",
    "cursor",
]

_MESSAGES: dict[Reason, str] = {
    "since": "a record was changed (change {sequence}) after change {since}: search again and retry",
    "exists": "{subject} {id!r} exists already: read it, or take another id",
    "missing": "{subject} {id!r} is not there any more: read again and retry",
    "changed": "{subject} {id!r} has changed since it was read: read it again and retry",
    "has turns": "session {id!r} still has turns: delete them first",
    "same words": "record {id!r} says the same as the live record {other!r}: read that one and change it",
    "no session": "there is no session {session!r} to put turn {id!r} in: create it first",
    "place taken": "turn {id!r}: position {position} of session {session!r} is taken: "
    "read the session again and retry",
    "gap": "session {session!r} would have later turns but none at position {position}: "
    "read it again and retry",
    "cursor": "{name!r} has changed since it was read: read it again and retry",
}


def build_conflict(reason: Reason, **values: object) -> Conflict:
    """Return the conflict to raise; the values are those that the message of the reason names."""
    kind = TextExists if reason == "same words" else Conflict
    return kind(_MESSAGES[reason].format(**values))


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
    subject: str
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


class CopySource(Protocol):
    """A store, or a file with a history, that is copied from."""

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state until the block ends."""

    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return journal rows with larger numbers, in ascending order."""

    def read_unjournaled(self) -> Unjournaled:
        """Return what is not in the journal."""

    def close(self) -> None:
        """Close it."""


class CopiedStore(CopySource, Store, Protocol):
    """A store that can be copied."""


class CopyTarget(Protocol):
    """A store that is being filled, which nobody else can open before `publish`."""

    def write_rows(self, rows: Sequence[CopiedRow]) -> None:
        """Append rows to the journal in one transaction."""

    def finish(self, rest: Unjournaled) -> None:
        """Make all things from the journal, and store the rest, in one transaction."""

    def publish(self) -> None:
        """Close the store and give it its own name, by which it is opened.

        Raises:
            InvalidInput: there is another of that name by now.
        """


ROWS = 1_000
"""Rows of a batch."""


def iterate_rows(source: CopySource, *, after: int = 0) -> Iterator[list[CopiedRow]]:
    """Yield the journal rows after a number in batches."""
    while rows := source.read_rows(after, ROWS):
        yield rows
        after = rows[-1].sequence


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
MARKED = ("at", "batch", "actor", "operation")
"""Columns of an entry of the journal that tell one history from another."""

_CHUNK = 500  # values in one statement
# Not the bare column: SQLite would scan a whole log by its index to find one key.
_LIVE = {"record": "it.archived_at IS NULL", "turn": "true", "paragraph": f"it.page || '' = '{HISTORY}'"}


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

    def add_span(self, column: str, earliest: datetime | None, latest: datetime | None) -> None:
        """Add that a time is not before or after another one."""
        for comparison, moment in ((">=", earliest), ("<=", latest)):
            if moment is not None:
                self.add(f"{column} {comparison} ?", to_microseconds(moment))

    def add_times(self, column: str, wanted: Filter) -> None:
        """Add that a time lies between those of the filter."""
        if wanted.created_after is not None:
            self.add(f"{column} >= ?", to_microseconds(wanted.created_after))
        if wanted.created_before is not None:
            self.add(f"{column} < ?", to_microseconds(wanted.created_before))

    def add_record_filter(self, wanted: Filter, containing: str | None = None) -> None:
        """Add the restrictions of a filter to records, and that their content has a text."""
        if wanted.only_turns:
            self.add("false")
        self.add_times(self.created_at, wanted)
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
        self.add_times("it.at", wanted)
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


class SQLStore(ABC):
    """Base of the stores in SQL.

    A table of things has the name of `TABLES`; others are `journal`, `entries`, `cursors`, `counters` and
    `tombstones`. An area of the search counters is `*` for everything, or `=` with a scope.
    """

    _TALLIED: ClassVar[Mapping[str, tuple[str, str]]]
    """Columns by which records are counted, each with what is joined for it."""

    _COUNTED: ClassVar[tuple[str, str]]
    """Number of a row, and the end of a query that counts rows."""

    _analyse: Analyse
    _derived: DerivedDatabase

    @abstractmethod
    def sequence(self) -> int:
        """Return the number of the newest journal row; 0 if there is none."""

    @abstractmethod
    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, from the state that this thread sees."""

    @abstractmethod
    def _where(self, table: str) -> Conditions:
        """Return conditions for the rows of a table that belong to this memory."""

    @abstractmethod
    def _name(self, table: str) -> str:
        """Return a table as it stands behind FROM, where the query calls it `it`."""

    @abstractmethod
    def _select(
        self, subject: Subject, where: Conditions, order: str, *, limit: int | None = None, offset: int = 0
    ) -> list[Any]:
        """Return values; raise `StoreCorrupt` if one cannot be read."""

    @abstractmethod
    def _scan(
        self, subject: Subject, where: Conditions, order: str, *, limit: int | None = None, offset: int = 0
    ) -> Iterator[Any]:
        """Yield values from one state, without those that cannot be read."""

    @abstractmethod
    def _fetch(self, subject: Subject, wanted: Sequence[str | int]) -> list[Any]:
        """Return things by id (text) or key (number), in the order asked for."""

    @abstractmethod
    def _select_changes(
        self, where: Conditions, id: str | None, order: str, limit: int
    ) -> list[JournalEntry]:
        """Return entries of the journal, with an id only those of the thing that has it."""

    @abstractmethod
    def read_searched(
        self, subject: Searchable, keys: Sequence[int]
    ) -> list[tuple[int, Record | Turn | Paragraph, int | None, str]]:
        """Return those of some values that are searched: key, value, key of a turn's session, document."""

    @abstractmethod
    def _rows_now(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Return the rows of a query from the present state, which may be newer than the one that this thread sees."""

    def _read(self, columns: str, table: str, where: Conditions | None = None, end: str = "") -> list[Row]:
        """Return columns of the rows of a table that belong to this memory."""
        where = where or self._where(table)
        return self._rows(f"SELECT {columns} FROM {self._name(table)} WHERE {where}{end}", where.values)

    # -- the journal ---------------------------------------------------------------------------------

    def tombstones(self, marks: Sequence[str]) -> set[str]:
        """Return those of some marks that `erase` has stored."""
        found: set[str] = set()
        for start in range(0, len(marks), _CHUNK):
            where = self._where("tombstones")
            where.add_any("it.mark", marks[start : start + _CHUNK])
            found.update(mark for (mark,) in self._read("it.mark", "tombstones", where))
        return found

    def sequence_at(self, moment: datetime) -> int:
        """Return the number of the last journal row made at a moment or before it; 0 if there is none."""
        where = self._where("journal")
        where.add("it.at <= ?", to_microseconds(moment))
        return int(self._read("coalesce(max(it.sequence), 0)", "journal", where)[0][0])

    def journal(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        earliest: datetime | None = None,
        latest: datetime | None = None,
        id: str | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[JournalEntry]:
        """Return journal rows in ascending order, or the newest first."""
        where = self._where("journal")
        where.add("it.sequence > ?", after)
        if until is not None:
            where.add("it.sequence <= ?", until)
        where.add_span("it.at", earliest, latest)
        return self._select_changes(where, id, "DESC" if newest_first else "ASC", limit)

    # -- records -------------------------------------------------------------------------------------

    def records(self, wanted: Sequence[str | int]) -> list[Record]:
        """Return records by id (text) or key (number), archived ones too, in the given order."""
        return self._fetch("record", wanted)

    def record_like(self, scope: str, fingerprint: str) -> Record | None:
        """Return the live record with this scope and fingerprint; None if there is none."""
        return next(iter(self.records_like([(scope, fingerprint)])), None)

    def records_like(self, marks: Sequence[tuple[str, str]]) -> list[Record]:
        """Return the live records with one of these scopes and fingerprints."""
        found: list[Record] = []
        for start in range(0, len(marks), _CHUNK):
            some = marks[start : start + _CHUNK]
            where = self._where("records")
            where.add("it.archived_at IS NULL")
            if len(some) == 1:
                where.add("it.fingerprint = ? AND it.scope = ?", *reversed(some[0]))
            else:
                pairs = ", ".join(["(?, ?)"] * len(some))
                where.add(f"(it.scope, it.fingerprint) IN (VALUES {pairs})", *chain.from_iterable(some))
            found += self._select("record", where, "it.key")
        return found

    def find(
        self,
        wanted: Filter,
        *,
        order: Order = "updated",
        containing: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Iterator[Record]:
        """Yield the records that match a filter, newest first, from one state of the store."""
        where = self._where("records")
        where.add_record_filter(wanted, containing)
        column = where.created_at if order == "created" else "it.updated_at"
        # The plus keeps SQLite from reading all records in the order of time; headlines are few.
        by_time = f"{'+' if wanted.headlines else ''}{column} DESC, it.key DESC"
        return self._scan("record", where, by_time, limit=limit, offset=offset)

    def tally(self, what: Literal["category", "tag", "kind", "scope"], wanted: Filter) -> dict[str, int]:
        """Count the records that match a filter by category, tag, kind or scope."""
        where = self._where("records")
        where.add_record_filter(wanted)
        column, joined = self._TALLIED[what]
        # Not grouped: SQLite would sort all records first, and take three times as long.
        rows = self._rows(f"SELECT {column} FROM {self._name('records')}{joined} WHERE {where}", where.values)
        return dict(sorted(Counter(name for (name,) in rows).items()))

    # -- conversations -------------------------------------------------------------------------------

    def turns(
        self,
        wanted: Sequence[str | int] | None = None,
        *,
        session: str | None = None,
        start: int = 0,
        stop: int | None = None,
    ) -> list[Turn]:
        """Return turns by id or key, or those of a session by position."""
        if wanted is not None:
            return self._fetch("turn", wanted)
        if session is None:
            raise InvalidInput("neither turns nor a session are named: pass ids, or session=")
        where = self._where("turns")
        where.add_sessions([session])
        if start < 0 and stop is None:
            return self._select("turn", where, "it.position DESC", limit=-start)[::-1]
        if start < 0 or (stop is not None and stop < 0):
            ((last,),) = self._read("max(it.position)", "turns", where)
            start, stop, _ = slice(start, stop).indices(count_positions(last, session))
        where.add("it.position >= ?", start)
        if stop is not None:
            where.add("it.position < ?", stop)
        return self._select("turn", where, "it.position")

    def scan_turns(self, wanted: Filter, *, containing: str | None = None) -> Iterator[Turn]:
        """Yield every turn that matches a filter, newest first, from one state of the store."""
        where = self._where("turns")
        where.add_turn_filter(wanted, containing)
        return self._scan("turn", where, "it.at DESC, it.key DESC")

    def session(self, id: str) -> SessionState | None:
        """Return the state of a session; None if there is no such session."""
        return next(iter(self._fetch("session", [id])), None)

    # -- pages -----------------------------------------------------------------------------------------

    def pages(self, names: Sequence[str] | None = None) -> list[Page]:
        """Return pages by name in the given order (None: all, sorted); unknown ones are left out."""
        if names is not None:
            return self._fetch("page", names)
        return self._select("page", self._where("pages"), "it.id")

    def paragraphs(
        self,
        wanted: Sequence[str | int] | None = None,
        *,
        page: str | None = None,
        start: int = 0,
    ) -> list[Paragraph]:
        """Return paragraphs by id or key in the given order, or those of a log from `start` on."""
        if wanted is not None:
            return self._fetch("paragraph", wanted)
        if page is None:
            raise InvalidInput("neither paragraphs nor a log are named: pass ids, or page=")
        where = self._where("paragraphs")
        where.add("it.page = ?", page)
        if start < 0:
            return self._select("paragraph", where, "it.position DESC, it.key DESC", limit=-start)[::-1]
        return self._select("paragraph", where, "it.position, it.key", offset=start)

    def latest_paragraphs(self, logs: Sequence[str], *, limit: int) -> list[Paragraph]:
        """Return the last paragraphs of several logs: logs by descending name, last paragraph first."""
        where = self._where("paragraphs")
        where.add_any("it.page", logs)
        return self._select("paragraph", where, "it.page DESC, it.position DESC, it.key DESC", limit=limit)

    def logs(self) -> dict[str, int]:
        """Return the names of all logs, sorted, with their numbers of paragraphs."""
        end = " GROUP BY it.page ORDER BY it.page"
        return {page: int(count) for page, count in self._read("it.page, count(*)", "paragraphs", end=end)}

    # -- for search -----------------------------------------------------------------------------------

    def passages(self, subject: Searchable, keys: Sequence[int], *, around: int = 0) -> list[Passage]:
        """Return live passages by key, in any order; unknown and archived ones are left out."""
        return self._derived.read_passages(self, subject, keys, around)

    def live(
        self, subject: Searchable, *, after: int = 0, limit: int = 1000
    ) -> list[tuple[Passage, Record | Turn | Paragraph]]:
        """Return live passages and their values by ascending key, for building an index."""
        table = TABLES[subject].name
        end = f" ORDER BY it.key{format_limit(limit)}"
        while True:
            where = self._where(table)
            where.add(f"{_LIVE[subject]} AND it.key > ?", after)
            if not (keys := [key for (key,) in self._read("it.key", table, where, end)]):
                return []
            values = {key: value for key, value, _, _ in self.read_searched(subject, keys)}
            if found := sorted(self.passages(subject, list(values))):
                return [(passage, values[passage.key]) for passage in found]
            after = keys[-1]  # not one of them can be read: an empty answer would mean the end

    def measure(
        self, subject: Searchable, scopes: Sequence[str] | None, *, category: str | None = None
    ) -> CollectionStats:
        """Count the live passages and tokens of some scopes (None: of all), exactly."""
        return self._derived.measure(self, subject, scopes, category)

    def read_changed_keys(self, after: int, limit: int) -> list[Row]:
        """Return number, subject and key of the entries of the journal after a number."""
        where = self._where("journal")
        where.add("it.sequence > ?", after)
        end = f" ORDER BY it.sequence{format_limit(limit)}"
        return self._read("it.sequence, it.subject, it.key", "journal", where, end)

    def read_mark(self, sequence: int) -> str | None:
        """Return a text that another store, or another history of this one, has not for a number of the journal."""
        where = self._where("journal")
        where.add("it.sequence = ?", sequence)
        sql = f"SELECT {', '.join(MARKED)} FROM {self._name('journal')} WHERE {where}"
        return next((" ".join(map(str, row)) for row in self._rows_now(sql, where.values)), None)

    def find_stale_analyses(self) -> list[str]:
        """Return the ids of passages whose stored words differ from what the analyzer makes of their texts."""
        stale, after = [], 0
        for subject in SEARCHABLE:
            while found := self.live(subject, after=after):
                stale += [value.id for passage, value in found if passage.analysis != self._analyse(value)]
                after = found[-1][0].key
            after = 0
        return stale

    def refresh_analyses(self) -> None:
        """Analyse every text again."""
        self._derived.clear()
        self._derived.follow(self)

    # -- what is not in the journal ---------------------------------------------------------------------

    def entries(self, namespace: str | None, *, now: datetime) -> list[Entry]:
        """Return the live entries of a namespace (None: of all) by namespace and key."""
        where = self._where("entries")
        if namespace is not None:
            where.add("it.namespace = ?", namespace)
        where.add("(it.expires_at IS NULL OR it.expires_at > ?)", to_microseconds(now))
        columns = ", ".join(ENTRIES.names)
        rows = self._read(columns, "entries", where, " ORDER BY it.namespace, it.key")
        try:
            return [ENTRIES.decode(row) for row in rows]
        except UnreadableRow as error:
            raise StoreCorrupt(
                f"an entry {f'of namespace {namespace!r} ' if namespace is not None else ''}cannot be read, "
                f"{error}: drop it with drop_entries"
            ) from error

    def count(self, name: str) -> int:
        """Return the value of a counter that `commit` adds to; 0 for an unknown one."""
        value = self._get_value("counters", name)
        if type(value) not in (int, type(None)):
            raise StoreCorrupt(f"the counter {name!r} is no number: run check()")
        return value or 0

    def cursor(self, name: str) -> str | None:
        """Return the value of a cursor set by `commit`; None if there is none."""
        value = self._get_value("cursors", name)
        return None if value is None else str(value)

    def _get_value(self, table: str, name: str) -> Any:
        where = self._where(table)
        where.add("it.name = ?", name)
        return next((value for (value,) in self._read("it.value", table, where)), None)

    def cursors(self, prefix: str = "") -> dict[str, str]:
        """Return the values of all cursors by name, or of those whose names begin with a prefix."""
        where = self._where("cursors")
        where.add("it.name >= ? AND it.name < ?", prefix, f"{prefix}\U0010ffff")
        return dict(self._read("it.name, it.value", "cursors", where, " ORDER BY it.name"))

    @translating_damage()
    def read_unjournaled(self) -> Unjournaled:
        """Return what is not in the journal."""
        return Unjournaled(
            entries=[ENTRIES.decode(row) for row in self._read(", ".join(ENTRIES.names), "entries")],
            cursors=self.cursors(),
            counters=dict(self._read("it.name, it.value", "counters")),
            tombstones=[mark for (mark,) in self._read("it.mark", "tombstones")],
        )
