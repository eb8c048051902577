"""The base of every store, with what it has to do.

A store keeps records, turns, sessions, pages and working-memory entries, changes them only in
transactions, and writes a journal row for every change of a record, turn, session, page or paragraph in
that same transaction. It decides nothing: duplicates, relevance and due work are decided above it.

To add a store, write a class with the abstract methods and run on it `StoreContract` and `StoreStateMachine` of
`tests.support.contract.suite`, which the source distribution has.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypedDict, TypeVar, Unpack

from reverie.domain.change import Change, JournalEntry, JournalNote, Subject, Value
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import CollectionStats, Passage, Searchable
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import (
    MARKED,
    Conditions,
    CopiedRow,
    Queries,
    RepairReport,
    StoreProblem,
    Unjournaled,
    format_limit,
    translating_damage,
)
from reverie.stores.codec import ENTRIES, TABLES, Row, UnreadableRow, count_positions

if TYPE_CHECKING:
    from reverie.stores.sqlite.derived import Changes, DerivedDatabase


_log = logging.getLogger("reverie")

Key = TypeVar("Key", int, str | int)
Thing = TypeVar("Thing")
Order = Literal["updated", "created"]

_HOUR = 3_600_000_000  # microseconds


class CommitOptions(JournalNote, total=False):
    """Options of a commit, besides what the journal says of it.

    Attributes:
        since: Refuse if a record was changed after this sequence number: for decisions that rest on a search.
        cursors: Names and values to set in the same transaction; None removes one. Not journalled.
        counts: Names of counters and what to add to each. Not journalled.
        expected: Names of cursors and the values they must have before; None where there must be none.
        tombstones: Marks to keep for ever. With them, even with none, the commit is that of `Store.erase`.
    """

    since: int | None
    cursors: Mapping[str, str | None] | None
    counts: Mapping[str, int] | None
    expected: Mapping[str, str | None] | None
    tombstones: Sequence[str]


_CHUNK = 500  # values in one statement
# Not the bare column: SQLite would scan a whole log by its index to find one key.
_LIVE = {"record": "it.archived_at IS NULL", "turn": "true", "paragraph": f"it.page || '' = '{HISTORY}'"}


class Store(Queries):
    """A store. Safe to use from several threads; several processes may open the same one.

    Every method may raise `StoreUnavailable` (disk full, read-only, locked too long) and, where it reads
    rows, `StoreCorrupt`. A method that raises has changed nothing.

    Queries are alike for all databases. A table of things has the name of `TABLES`; others are `journal`, `entries`,
    `cursors`, `counters` and `tombstones`.

    Attributes:
        is_on_server: Whether it is on a server, which keeps logs and copies that the store cannot reach.
    """

    is_on_server: ClassVar[bool] = False

    _TALLIED: ClassVar[Mapping[str, tuple[str, str]]]
    """Columns by which records are counted, each with what is joined for it."""

    _derived: DerivedDatabase

    # -- changing ------------------------------------------------------------------------------------

    @abstractmethod
    def commit(
        self, edits: Sequence[Change], *, actor: str, at: datetime, **options: Unpack[CommitOptions]
    ) -> list[JournalEntry]:
        """Make all changes, or none, durably, with a journal row for each in the same transaction.

        Args:
            edits: The changes, in order. Their values are not validated again.
            actor: The author, for the journal.
            at: The time of the change, for the journal.
            **options: See `CommitOptions`.

        Returns:
            The journal rows, in the order of the changes.

        Raises:
            Conflict: a `before` is not what is stored, an id is taken, a live record of the same scope
                and fingerprint exists, a turn's position is taken or leaves a gap, `since` has passed, or a
                cursor has not its `expected` value.
        """

    def erase(
        self, edits: Sequence[Change], *, actor: str, at: datetime, tombstones: Sequence[str] = ()
    ) -> list[JournalEntry]:
        """Make all changes, or none, and remove the content of the things concerned from the journal.

        Every journal row of such a thing, however old, keeps its number, time, actor, operation and subject, and
        loses `before`, `after`, `note` and `reference`. The new row, a `forget`, has no `before`, and no `edit` if
        the thing is removed. A change whose `before` equals its `after` clears only the earlier rows. A removed
        session or page loses its id as well, which is often a person's number or name.

        Args:
            edits: The changes, in order, as in `commit`.
            actor: The author, for the journal.
            at: The time of the change.
            tombstones: Marks without content to keep for ever, such as keyed hashes of what was erased.

        Returns:
            The new journal rows, in the order of the changes.

        Raises:
            Conflict: as in `commit`.
        """
        return self.commit(edits, actor=actor, at=at, operation="forget", tombstones=tombstones)

    def tombstones(self, marks: Sequence[str]) -> set[str]:
        """Return those of some marks that `erase` has stored."""
        found: set[str] = set()
        for start in range(0, len(marks), _CHUNK):
            where = self._where("tombstones")
            where.add_any("it.mark", marks[start : start + _CHUNK])
            found.update(mark for (mark,) in self._read("it.mark", "tombstones", where))
        return found

    @abstractmethod
    def scrub(self) -> bool:
        """Rewrite the store so that no erased or overwritten content is left in free space or logs.

        Returns:
            False if other users of the store prevented it: try again later.
        """

    # -- reading ---------------------------------------------------------------------------------------

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state, with one sequence number, until the block ends.

        The reads together cost one transaction.
        Blocks can be nested: the outermost counts. A change inside a block raises `RuntimeError`.
        """
        return self._connections.viewing()

    def sequence(self) -> int:
        """Return the number of the newest journal row; 0 if there is none. Cheap: every search calls it."""
        return self._connections.sequence()

    def sequence_at(self, moment: datetime) -> int:
        """Return the number of the last journal row made at a moment or before it; 0 if there is none.

        Clocks are set back now and then: it is the last number, not the latest time.
        """
        where = self._where("journal")
        where.add("it.at <= ?", to_microseconds(moment))
        return int(self._read("coalesce(max(it.sequence), 0)", "journal", where)[0][0])

    def count_changes(self, since: datetime) -> Iterator[tuple[datetime, str, int]]:
        """Yield each hour since a moment and each operation in it, with the number of its changes."""
        where = self._where("journal")
        where.add("it.at >= ?", to_microseconds(since))
        columns = f"it.at / {_HOUR}, it.operation, count(*)"
        for hour, operation, number in self._read(columns, "journal", where, " GROUP BY 1, 2 ORDER BY 1, 2"):
            yield datetime.fromtimestamp(hour * 3_600, UTC), operation, number

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
        """Return journal rows in ascending order.

        Args:
            after: Only rows with a larger sequence number.
            until: Only rows up to this sequence number.
            earliest: Only rows made at this time or later. Clocks are set back now and then, so the times of rows
                need not ascend.
            latest: Only rows made at this time or earlier.
            id: Only changes of the thing with this id.
            limit: The largest number of rows.
            newest_first: Use descending order, so that `limit` keeps the newest.
        """
        where = self._where("journal")
        where.add("it.sequence > ?", after)
        if until is not None:
            where.add("it.sequence <= ?", until)
        where.add_span("it.at", earliest, latest)
        return self._select_changes(where, id, "DESC" if newest_first else "ASC", limit)

    @abstractmethod
    def citing(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of values of which a version in the journal names one of these ids, by ascending key.

        Args:
            ids: Ids of 12 hexadecimal digits; others are cited by nothing.
        """

    # -- records -------------------------------------------------------------------------------------

    def records(self, wanted: Sequence[str | int]) -> list[Record]:
        """Return records by id (text) or key (number), archived ones too, in the given order.

        Unknown ones are left out.

        Raises:
            StoreCorrupt: a row cannot be read; the message names it.
        """
        return self._fetch("record", wanted)

    def record_like(self, scope: str, fingerprint: str) -> Record | None:
        """Return the live record with this scope and fingerprint; None if there is none."""
        return next(iter(self.records_like([(scope, fingerprint)])), None)

    def records_like(self, marks: Sequence[tuple[str, str]]) -> list[Record]:
        """Return the live records with one of these scopes and fingerprints, in any order."""
        found: list[Record] = []
        for scope, group in groupby(sorted(marks), key=itemgetter(0)):
            fingerprints = [fingerprint for _, fingerprint in group]
            for start in range(0, len(fingerprints), _CHUNK):
                where = self._where("records")
                where.add_like(scope, fingerprints[start : start + _CHUNK])
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
        """Yield the records that match a filter, newest first (ties: larger key first).

        A row that cannot be read is skipped with a warning on the `reverie` logger; `check` names it.

        Args:
            wanted: The filter.
            order: The time to sort by.
            containing: Only records whose content contains this text, case-insensitively for ASCII.
            limit: The largest number of records; None for all.
            offset: The number of records to skip.
        """
        where = self._where("records")
        where.add_record_filter(wanted, containing)
        column = where.created_at if order == "created" else "it.updated_at"
        # The plus keeps SQLite from reading all records in the order of time; headlines are few.
        by_time = f"{'+' if wanted.headlines else ''}{column} DESC, it.key DESC"
        return self._scan("record", where, by_time, limit=limit, offset=offset)

    def tally(self, what: Literal["category", "tag", "kind", "scope"], wanted: Filter) -> dict[str, int]:
        """Count the records that match a filter by category, tag, kind or scope.

        Records without a category are counted under the empty text.
        """
        where = self._where("records")
        where.add_record_filter(wanted)
        column, joined = self._TALLIED[what]
        # Not grouped: SQLite would sort all records first, and take three times as long.
        rows = self._connections.rows(
            f"SELECT {column} FROM {self._name('records')}{joined} WHERE {where}", where.values
        )
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
        """Return turns by id or key, in the order asked for, or those of a session.

        Of a session, the turns from position `start` up to, not including, `stop`; a negative `start` counts from
        the end. An unknown session has none.
        """
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
        """Yield every turn that matches a filter, newest first."""
        where = self._where("turns")
        where.add_turn_filter(wanted, containing)
        return self._scan("turn", where, "it.at DESC, it.key DESC")

    def session(self, id: str) -> SessionState | None:
        """Return the state of a session; None if there is no such session."""
        return next(iter(self._fetch("session", [id])), None)

    @abstractmethod
    def sessions(
        self, *, scopes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Return sessions with their numbers of turns, the most recently active first."""

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
        """Return paragraphs by id or key in the given order, or those of a log from `start` on.

        A negative `start` counts from the end. An unknown log has no paragraphs.
        """
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
        """Return the last paragraphs of several logs: logs by descending name, last paragraph first.

        Args:
            logs: Names of logs; unknown ones have no paragraphs.
            limit: The largest number of paragraphs in all.
        """
        where = self._where("paragraphs")
        where.add_any("it.page", logs)
        return self._select("paragraph", where, "it.page DESC, it.position DESC, it.key DESC", limit=limit)

    def logs(self) -> dict[str, int]:
        """Return the names of all logs, sorted, with their numbers of paragraphs."""
        end = " GROUP BY it.page ORDER BY it.page"
        return {page: int(count) for page, count in self._read("it.page, count(*)", "paragraphs", end=end)}

    # -- for search -----------------------------------------------------------------------------------

    def passages(self, subject: Searchable, keys: Sequence[int], *, around: int = 0) -> list[Passage]:
        """Return live passages by key, in any order; unknown and archived ones are left out.

        Args:
            subject: Records, turns, or paragraphs of `HISTORY.md`.
            keys: Their keys.
            around: For turns, include so many neighbours before and after each, none twice.
        """
        return self._derived.read_passages(self, subject, keys, around)

    def live(
        self, subject: Searchable, *, after: int = 0, limit: int = 1000
    ) -> list[tuple[Passage, Record | Turn | Paragraph]]:
        """Return live passages and their values by ascending key, for building an index.

        A row that cannot be read is skipped with a warning, as in `find`.

        Args:
            subject: Records, turns, or paragraphs of `HISTORY.md` (other logs are not searched).
            after: Only larger keys.
            limit: The largest number of passages.
        """
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

    def read_changes(self, after: int) -> tuple[int, Changes] | None:
        """Return the number of the last of the next entries of the journal and what they changed; None at the end.

        A passage may be newer than the entry. Then a later entry changes it again.
        """
        return self._derived.read_changes(self, after)

    def measure(
        self, subject: Searchable, scopes: Sequence[str] | None, *, category: str | None = None
    ) -> CollectionStats:
        """Count the live passages and tokens of some scopes (None: of all), exactly.

        Args:
            subject: Records, turns, or paragraphs of `HISTORY.md`.
            scopes: The scopes.
            category: Only records of this category and those below it; turns and paragraphs have none.
        """
        return self._derived.measure(self, subject, scopes, category)

    # -- working memory --------------------------------------------------------------------------------

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

    @abstractmethod
    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry, replacing one with the same namespace and key, and remove expired entries there.

        Returns:
            False if the entry is new and the namespace already has `capacity` live entries; nothing was
            changed then. A live entry can always be overwritten.
        """

    @abstractmethod
    def drop_entries(self, namespace: str, keys: Sequence[str] | None = None) -> int:
        """Remove entries (None: all of the namespace); return how many there were."""

    # -- housekeeping ----------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """Return the value of a counter that `commit` adds to; 0 for an unknown one."""
        value = self._get_value("counters", name)
        if type(value) not in (int, type(None)):
            raise StoreCorrupt(f"the counter {name!r} is not a number: run check()")
        return value or 0

    def cursor(self, name: str) -> str | None:
        """Return the value of a cursor set by `commit`; None if there is none."""
        value = self._get_value("cursors", name)
        return None if value is None else str(value)

    def cursors(self, prefix: str = "") -> dict[str, str]:
        """Return the values of all cursors by name, or of those whose names begin with a prefix."""
        where = self._where("cursors")
        where.add("it.name >= ? AND it.name < ?", prefix, f"{prefix}\U0010ffff")
        return dict(self._read("it.name, it.value", "cursors", where, " ORDER BY it.name"))

    @abstractmethod
    def check(self) -> list[StoreProblem]:
        """Return all problems of the stored data; an empty list if there are none."""

    def close(self) -> None:
        """Close the store. Closing twice is allowed; any other use afterwards raises `StoreUnavailable`."""
        self._connections.close()
        self._derived.close()

    def repair(self) -> RepairReport | None:
        """Repair what `check` calls repairable; return a report if the store was replaced by a copy."""
        return None

    @abstractmethod
    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return journal rows with larger numbers, in ascending order."""

    # -- below: queries, and what the derived database follows --------------------------------------------------

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
        return next((" ".join(map(str, row)) for row in self._connections.rows_now(sql, where.values)), None)

    @translating_damage()
    def read_unjournaled(self) -> Unjournaled:
        """Return what is not in the journal."""
        return Unjournaled(
            entries=[ENTRIES.decode(row) for row in self._read(", ".join(ENTRIES.names), "entries")],
            cursors=self.cursors(),
            counters=dict(self._read("it.name, it.value", "counters")),
            tombstones=[mark for (mark,) in self._read("it.mark", "tombstones")],
        )


def get_reader(store: Store, subject: Subject) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return the method of a store that reads records, turns, pages or paragraphs, by id or key."""
    read: Callable[[Sequence[Any]], Sequence[Any]] = getattr(store, TABLES[subject].name)
    return read


def read_or_none(read: Callable[[Sequence[Key]], Sequence[Thing]], keys: Sequence[Key]) -> list[Thing | None]:
    """Return the values of some keys in order; None for one that is missing or unreadable.

    An unreadable row does not affect the others: it is logged, and `check` names it.

    Args:
        read: `Store.records` or `Store.turns`.
        keys: The keys.
    """
    try:
        values = read(keys)
    except StoreCorrupt as error:
        values = ()
        if len(keys) == 1:
            _log.warning("left out: %s", error)
    if len(values) == len(keys):
        return list(values)
    return [None] if len(keys) == 1 else [value for key in keys for value in read_or_none(read, [key])]


class JournalFilter(TypedDict, total=False):
    """Restrictions of journal rows; see `Store.journal`."""

    earliest: datetime | None
    latest: datetime | None
    id: str | None


def iter_rows(
    store: Store,
    *,
    after: int = 0,
    until: int | None = None,
    chunk: int = _CHUNK,
    newest_first: bool = False,
    **filters: Unpack[JournalFilter],
) -> Iterator[JournalEntry]:
    """Yield the changes after `after` up to `until` (None: all), read in chunks."""
    while rows := store.journal(after=after, until=until, limit=chunk, newest_first=newest_first, **filters):
        yield from rows
        if newest_first:
            until = rows[-1].sequence - 1
        else:
            after = rows[-1].sequence


class RowSource(Protocol):
    """A store, or a file, whose journal is copied."""

    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return journal rows with larger numbers, in ascending order."""


def iterate_rows(store: RowSource, *, after: int = 0) -> Iterator[list[CopiedRow]]:
    """Yield the journal rows after a number in batches."""
    while rows := store.read_rows(after, _CHUNK):
        yield rows
        after = rows[-1].sequence


def iter_values(store: Store) -> Iterator[Value]:
    """Yield every record, turn, session, page and paragraph."""
    yield from store.find(Filter(archived=None))
    yield from store.scan_turns(Filter())
    yield from (overview.state for overview in store.sessions())
    yield from store.pages()
    for log in store.logs():
        yield from store.paragraphs(page=log)
