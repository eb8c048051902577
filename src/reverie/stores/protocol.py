"""The protocol of a store.

A store keeps records, turns, sessions, pages and working-memory entries, changes them only in
transactions, and writes a journal row for every change of a record, turn, session, page or paragraph in
that same transaction. It decides nothing: duplicates, relevance and due work are decided above it.

To add a store, write a class with these methods and run on it `StoreContract` and `StoreStateMachine` of
`tests.support.contract.suite`, which the source distribution has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

from reverie.domain.change import Change, JournalEntry, JournalNote, Subject, Value
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.passage import CollectionStats, Passage, Searchable
from reverie.domain.record import Record


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


@dataclass(frozen=True, slots=True, kw_only=True)
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


_log = logging.getLogger("reverie")

Key = TypeVar("Key", int, str | int)
Thing = TypeVar("Thing")
Order = Literal["updated", "created"]


class CommitOptions(JournalNote, total=False):
    """Options of a commit, besides what the journal says of it.

    Attributes:
        since: Refuse if a record was changed after this sequence number: for decisions that rest on a search.
        cursors: Names and values to set in the same transaction; None removes one. Not journalled.
        counts: Names of counters and what to add to each. Not journalled.
        expected: Names of cursors and the values they must have before; None where there must be none.
    """

    since: int | None
    cursors: Mapping[str, str | None] | None
    counts: Mapping[str, int] | None
    expected: Mapping[str, str | None] | None


class Store(Protocol):
    """A store. Safe to use from several threads; several processes may open the same one.

    Every method may raise `StoreUnavailable` (disk full, read-only, locked too long) and, where it reads
    rows, `StoreCorrupt`. A method that raises has changed nothing.
    """

    # -- changing ------------------------------------------------------------------------------------

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
        self,
        edits: Sequence[Change],
        *,
        actor: str,
        at: datetime,
        tombstones: Sequence[str] = (),
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

    def tombstones(self, marks: Sequence[str]) -> set[str]:
        """Return those of some marks that `erase` has stored."""

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

    def sequence(self) -> int:
        """Return the number of the newest journal row; 0 if there is none. Cheap: every search calls it."""

    def sequence_at(self, moment: datetime) -> int:
        """Return the number of the last journal row made at a moment or before it; 0 if there is none.

        Clocks are set back now and then: it is the last number, not the latest time.
        """

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

    def record_like(self, scope: str, fingerprint: str) -> Record | None:
        """Return the live record with this scope and fingerprint; None if there is none."""

    def records_like(self, marks: Sequence[tuple[str, str]]) -> list[Record]:
        """Return the live records with one of these scopes and fingerprints, in any order."""

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

    def tally(self, what: Literal["category", "tag", "kind", "scope"], wanted: Filter) -> dict[str, int]:
        """Count the records that match a filter by category, tag, kind or scope.

        Records without a category are counted under the empty text.
        """

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

    def scan_turns(self, wanted: Filter, *, containing: str | None = None) -> Iterator[Turn]:
        """Yield every turn that matches a filter, newest first."""

    def session(self, id: str) -> SessionState | None:
        """Return the state of a session; None if there is no such session."""

    def sessions(
        self, *, scopes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Return sessions with their numbers of turns, the most recently active first."""

    # -- pages -----------------------------------------------------------------------------------------

    def pages(self, names: Sequence[str] | None = None) -> list[Page]:
        """Return pages by name in the given order (None: all, sorted); unknown ones are left out."""

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

    def latest_paragraphs(self, logs: Sequence[str], *, limit: int) -> list[Paragraph]:
        """Return the last paragraphs of several logs: logs by descending name, last paragraph first.

        Args:
            logs: Names of logs; unknown ones have no paragraphs.
            limit: The largest number of paragraphs in all.
        """

    def logs(self) -> dict[str, int]:
        """Return the names of all logs, sorted, with their numbers of paragraphs."""

    # -- for search -----------------------------------------------------------------------------------

    def passages(self, subject: Searchable, keys: Sequence[int], *, around: int = 0) -> list[Passage]:
        """Return live passages by key, in any order; unknown and archived ones are left out.

        Args:
            subject: Records, turns, or paragraphs of `HISTORY.md`.
            keys: Their keys.
            around: For turns, include so many neighbours before and after each, none twice.
        """

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

    def measure(
        self, subject: Searchable, scopes: Sequence[str] | None, *, category: str | None = None
    ) -> CollectionStats:
        """Count the live passages and tokens of some scopes (None: of all), exactly.

        Args:
            subject: Records, turns, or paragraphs of `HISTORY.md`.
            scopes: The scopes.
            category: Only records of this category and those below it; turns and paragraphs have none.
        """

    # -- working memory --------------------------------------------------------------------------------

    def entries(self, namespace: str | None, *, now: datetime) -> list[Entry]:
        """Return the live entries of a namespace (None: of all) by namespace and key."""

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry, replacing one with the same namespace and key, and remove expired entries there.

        Returns:
            False if the entry is new and the namespace already has `capacity` live entries; nothing was
            changed then. A live entry can always be overwritten.
        """

    def drop_entries(self, namespace: str, keys: Sequence[str] | None = None) -> int:
        """Remove entries (None: all of the namespace); return how many there were."""

    # -- housekeeping ----------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """Return the value of a counter that `commit` adds to; 0 for an unknown one."""

    def cursor(self, name: str) -> str | None:
        """Return the value of a cursor set by `commit`; None if there is none."""

    def cursors(self, prefix: str = "") -> dict[str, str]:
        """Return the values of all cursors by name, or of those whose names begin with a prefix."""

    def check(self) -> list[StoreProblem]:
        """Return all problems of the stored data; an empty list if there are none."""

    def close(self) -> None:
        """Close the store. Closing twice is allowed; any other use afterwards raises `StoreUnavailable`."""


@runtime_checkable
class LeasingStore(Protocol):
    """A store that gives the background work of a memory to one worker at a time, by a clock of its own.

    A worker that was suspended may wake up when another one has its work. Its changes are refused then.
    """

    def take_lease(self, owner: str, lasting: timedelta) -> int | None:
        """Take or renew the lease; return its token, None where another owner has it."""

    def release_lease(self, owner: str) -> None:
        """Give the lease back, if this owner has it."""

    def fencing(self, token: int) -> AbstractContextManager[None]:
        """Refuse all changes of this thread with `StoreUnavailable` once the lease has another token."""


@runtime_checkable
class StoreOnServer(Protocol):
    """A store on a server, which keeps logs and copies that the store cannot reach.

    Attributes:
        identity: An identifier of the memory that no other memory of any server has.
    """

    identity: str

    def describe_remains(self) -> tuple[str, ...]:
        """Return descriptions of where erased content remains although `scrub` has done what it can."""

    def server_status(self) -> ServerStatus:
        """Return the health of the server, of the connections to it, and of background work."""


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


@runtime_checkable
class VectorStore(Protocol):
    """A store that keeps vectors of its passages for all machines, so that each text is embedded once.

    An embedder is named by a hash of its fingerprint, of 8 bytes.
    """

    def read_vectors(self, embedder: int, keys: Sequence[int]) -> dict[int, KeptVector]:
        """Return the vectors that are there of some passages, by key. They may be of an earlier text."""
        ...

    def keep_vectors(self, embedder: int, vectors: Mapping[int, KeptVector], *, read_at: int) -> None:
        """Keep vectors of passages, except of those that have changed or gone meanwhile.

        Args:
            embedder: What made them.
            vectors: The vectors by key.
            read_at: The sequence number at which the texts were read.
        """
        ...

    def drop_vectors(self, *, but: int) -> None:
        """Remove the vectors of all embedders except one."""
        ...


class NestedChange(RuntimeError):
    """A change of a store inside its `reading()` block, which is a fault of the caller."""

    def __init__(self) -> None:
        super().__init__("a store cannot be changed inside its reading() block: end the block first")


def get_reader(store: Store, subject: Subject) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return the method of a store that reads records, turns, pages or paragraphs, by id or key."""
    methods: Mapping[Subject, Callable[[Sequence[Any]], Sequence[Any]]] = {
        "record": store.records, "turn": store.turns, "page": store.pages, "paragraph": store.paragraphs,
    }  # fmt: skip
    return methods[subject]


def read_or_none(read: Callable[[Sequence[Key]], Sequence[Thing]], keys: Sequence[Key]) -> list[Thing | None]:
    """Return the values of some keys in order; None for one that is missing or unreadable.

    An unreadable row does not affect the others: it is logged, and `check` names it.

    Args:
        read: `Store.records` or `Store.turns`.
        keys: The keys.
    """
    try:
        values = read(keys)
    except StoreCorrupt:
        values = ()
    if len(values) == len(keys):
        return list(values)
    return [_read_one_or_none(read, key) for key in keys]


def _read_one_or_none(read: Callable[[Sequence[Key]], Sequence[Thing]], key: Key) -> Thing | None:
    try:
        values = read([key])
    except StoreCorrupt as error:
        _log.warning("left out: %s", error)
        return None
    return values[0] if values else None


# -- everything in a store ---------------------------------------------------------------------------------


_CHUNK = 1_000


class JournalFilter(TypedDict, total=False):
    """Restrictions of journal rows; see `Store.journal`."""

    earliest: datetime | None
    latest: datetime | None
    id: str | None


def iter_rows_forwards(
    store: Store,
    *,
    after: int = 0,
    until: int | None = None,
    chunk: int = _CHUNK,
    **filters: Unpack[JournalFilter],
) -> Iterator[JournalEntry]:
    """Yield the changes after `after` up to `until` (None: all), read in chunks."""
    while rows := store.journal(after=after, until=until, limit=chunk, **filters):
        yield from rows
        after = rows[-1].sequence


def iter_rows_backwards(
    store: Store,
    *,
    after: int = 0,
    until: int | None = None,
    chunk: int = _CHUNK,
    **filters: Unpack[JournalFilter],
) -> Iterator[JournalEntry]:
    """Yield the changes from `until` (None: the newest) down to the one after `after`, read in chunks."""
    while rows := store.journal(after=after, until=until, limit=chunk, newest_first=True, **filters):
        yield from rows
        until = rows[-1].sequence - 1


def iter_values(store: Store) -> Iterator[Value]:
    """Yield every record, turn, session, page and paragraph."""
    yield from store.find(Filter(archived=None))
    yield from store.scan_turns(Filter())
    yield from (overview.state for overview in store.sessions())
    yield from store.pages()
    for log in store.logs():
        yield from store.paragraphs(page=log)
