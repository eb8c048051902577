"""What must a store be able to do? The protocol, and nothing else.

A store keeps records, turns, sessions, pages and working-memory entries, changes them only in
transactions, and writes a journal row for every change of a record, turn, session, page or paragraph in
that same transaction. It decides nothing: what counts as a duplicate, what is relevant, what is due is
settled above it.

Extending: write a class with these methods and run `reverie.stores.contract.suite.StoreContract` and
`reverie.stores.contract.suite.StoreStateMachine` on it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeVar

from reverie.domain.change import Change, JournalEntry
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.passage import CollectionStats, Passage, Searchable
from reverie.domain.record import Record

_log = logging.getLogger("reverie")

Thing = TypeVar("Thing")
Order = Literal["updated", "created"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreProblem:
    """A problem that `check` found.

    Attributes:
        what: What is wrong, with the id or table concerned; never content.
        fix: What a person can do about it.
        repairable: Whether the store can repair it from what else it holds.
    """

    what: str
    fix: str
    repairable: bool = False


class Store(Protocol):
    """Where everything is kept. Safe to use from several threads; several processes may open one place.

    Every method may raise `StoreUnavailable` (disk full, read-only, locked too long) and, where it reads
    rows, `StoreCorrupt`. A method that raised has changed nothing.
    """

    # -- changing ------------------------------------------------------------------------------------

    def commit(
        self,
        edits: Sequence[Change],
        *,
        actor: str,
        reason: str = "",
        at: datetime,
        since: int | None = None,
        cursors: Mapping[str, str | None] | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> list[JournalEntry]:
        """Make all edits, or none, durably, with a journal row for each in the same transaction.

        Args:
            edits: What to change, in order. Values are taken as checked.
            actor: Who changes it.
            reason: Why.
            at: When; stored in the journal rows.
            since: If given, refuse when the journal holds a change of a record made by anybody after
                this sequence number: for decisions that rest on what a search found.
            cursors: Names and values to set along with it; None removes one. Not journalled.
            counts: Names of counters and what to add to each along with it. Not journalled.

        Returns:
            The journal rows, in the order of the edits.

        Raises:
            Conflict: a `before` is not what is stored, an id is taken, a live record of the same scope
                and fingerprint exists, a turn's position is taken or leaves a gap, or `since` has passed.
        """
        ...

    def erase(
        self,
        edits: Sequence[Change],
        *,
        actor: str,
        at: datetime,
        tombstones: Sequence[str] = (),
    ) -> list[JournalEntry]:
        """Make all edits, or none, and take out of the journal whatever it ever said of these things.

        Every journal row there is of a thing edited here, however old, keeps its number, time, actor and
        subject, and loses `before`, `after` and `reason`. The new row of an edit has no `before`, and no
        `edit` at all where the thing goes. An edit whose `before` equals its `after` empties only the past.
        Of a session that goes not even the id is kept: it is often a person's number.

        Args:
            edits: What to change, in order, as in `commit`.
            actor: Who changes it.
            at: When.
            tombstones: Marks without content, kept for ever, such as keyed hashes of what was erased.

        Returns:
            The new journal rows, in the order of the edits.

        Raises:
            Conflict: as in `commit`.
        """
        ...

    def tombstones(self, marks: Sequence[str]) -> set[str]:
        """Those of the marks that were left by `erase`."""
        ...

    def scrub(self) -> bool:
        """Rewrite what is stored so that nothing erased or overwritten is left in free space or logs.

        Returns:
            False when others who have the place open kept it from being finished: try again later.
        """
        ...

    # -- reading ---------------------------------------------------------------------------------------

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state, with one sequence number, until the block ends.

        A question that needs several reads takes one state this way, and at the price of one transaction.
        Blocks can be nested: the outermost counts. A change inside a block raises `RuntimeError`.
        """
        ...

    def sequence(self) -> int:
        """The number of the newest journal row; 0 when nothing was ever changed. Cheap: every search asks."""
        ...

    def journal(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        id: str | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[JournalEntry]:
        """Journal rows in ascending order.

        Args:
            after: Only rows with a larger sequence number.
            until: Only rows up to this sequence number.
            id: Only changes of the thing of this id.
            limit: At most so many.
            newest_first: In descending order instead, so that `build_limit_schema` keeps the newest.
        """
        ...

    # -- records -------------------------------------------------------------------------------------

    def records(self, wanted: Sequence[str | int]) -> list[Record]:
        """Records by id (text) or key (number), archived ones too, in the order asked for.

        Unknown ones are left out.

        Raises:
            StoreCorrupt: a row of them cannot be read; the message names it.
        """
        ...

    def record_like(self, scope: str, fingerprint: str) -> Record | None:
        """The live record of that scope and fingerprint, if there is one."""
        ...

    def find(
        self,
        wanted: Filter,
        *,
        order: Order = "updated",
        containing: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Iterator[Record]:
        """Records that the filter lets through, newest first (ties: larger key first).

        A row that cannot be read is skipped with a warning on the `reverie` logger; `check` names it.

        Args:
            wanted: The restriction.
            order: By `updated_at` or by `created_at`.
            containing: Only those whose content has this text, case-insensitively for ASCII.
            limit: At most so many; None for all.
            offset: Leave out so many first.
        """
        ...

    def tally(self, what: Literal["category", "tag", "kind", "scope"], wanted: Filter) -> dict[str, int]:
        """How many records that the filter lets through there are of each category, tag, kind or scope.

        Records without a category are counted under the empty text.
        """
        ...

    # -- conversations -------------------------------------------------------------------------------

    def turns(
        self,
        wanted: Sequence[str | int] | None = None,
        *,
        session: str | None = None,
        start: int = 0,
        stop: int | None = None,
    ) -> list[Turn]:
        """Turns by id or key (in the order asked for), or those of a session from position `start` up to,
        not including, `stop`; a negative `start` counts from the end. An unknown session has none.
        """
        ...

    def scan_turns(self, wanted: Filter, *, containing: str | None = None) -> Iterator[Turn]:
        """Every turn that the filter lets through, newest first, one after the other."""
        ...

    def session(self, id: str) -> SessionState | None:
        """What is kept of a session; None if there is no such session."""
        ...

    def sessions(
        self, *, scopes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Sessions with their number of turns, the latest active first."""
        ...

    # -- pages -----------------------------------------------------------------------------------------

    def pages(self, names: Sequence[str] | None = None) -> list[Page]:
        """Pages by name (None: all, by name), in the order asked for; unknown ones are left out."""
        ...

    def paragraphs(
        self,
        wanted: Sequence[str | int] | None = None,
        *,
        page: str | None = None,
        start: int = 0,
    ) -> list[Paragraph]:
        """Paragraphs by id or key (in the order asked for), or those of a log in their order from `start` on.

        A negative `start` counts from the end. An unknown log has none.
        """
        ...

    def latest_paragraphs(self, logs: Sequence[str], *, limit: int) -> list[Paragraph]:
        """The last paragraphs of several logs: logs by descending name, the last paragraph first.

        Args:
            logs: Names of logs; unknown ones have no paragraphs.
            limit: At most so many in all.
        """
        ...

    def logs(self) -> dict[str, int]:
        """The names of all logs that have paragraphs, in order, with their numbers of paragraphs."""
        ...

    # -- what search needs -----------------------------------------------------------------------------

    def passages(self, subject: Searchable, keys: Sequence[int], *, around: int = 0) -> list[Passage]:
        """Live passages by key, in any order; unknown and archived ones are left out.

        Args:
            subject: Records, turns, or paragraphs of `HISTORY.md`.
            keys: Which; for turns, with `around`, also those up to so many positions before and after
                each of them in the same session, none twice.
        """
        ...

    def live(
        self, subject: Searchable, *, after: int = 0, limit: int = 1000
    ) -> list[tuple[Passage, Record | Turn | Paragraph]]:
        """Live passages with the values they were made from, by ascending key, for building an index.

        A row that cannot be read is skipped with a warning, as in `find`.

        Args:
            subject: Records, turns, or paragraphs of `HISTORY.md` (other logs are not searched).
            after: Only those of a larger key.
            limit: At most so many.
        """
        ...

    def measure(self, subject: Searchable, scopes: Sequence[str] | None) -> CollectionStats:
        """How many live passages and tokens there are in those scopes (None: in all), exactly."""
        ...

    # -- working memory --------------------------------------------------------------------------------

    def entries(self, namespace: str | None, *, now: datetime) -> list[Entry]:
        """The live entries of a namespace (None: of all, by namespace), by key."""
        ...

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry, replacing one of the same namespace and key. Expired ones there are removed.

        Returns:
            False when it would be a new one and the namespace has `capacity` live entries already; nothing
            was changed then. A live entry can always be overwritten.
        """
        ...

    def drop_entries(self, namespace: str, keys: Sequence[str] | None = None) -> int:
        """Remove entries (None: all of the namespace); returns how many were there."""
        ...

    # -- housekeeping ----------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """The value of a counter that `commit` adds to; 0 if nobody ever did."""
        ...

    def cursor(self, name: str) -> str | None:
        """The value of a cursor set by `commit`; None if there is none."""
        ...

    def check(self) -> list[StoreProblem]:
        """Everything that is wrong with what is stored; an empty list when it is sound."""
        ...

    def close(self) -> None:
        """Let go of the place. Closing twice is fine; any other use afterwards raises `StoreUnavailable`."""
        ...


def refuse_nested_change(is_reading: bool) -> None:
    """Raise `RuntimeError` if a thread that is in a `Store.reading` block changes the store."""
    if is_reading:
        raise RuntimeError("a store cannot be changed inside its reading() block: end the block first")


def read_or_none(read: Callable[[Sequence[int]], Sequence[Thing]], keys: Sequence[int]) -> list[Thing | None]:
    """The values of some keys, in that order; None for one that has gone or cannot be read.

    One broken row must not cost the others: it is named in the log, and `check` names it too.

    Args:
        read: `Store.records` or `Store.turns`.
        keys: Which.
    """
    try:
        values = read(keys)
    except StoreCorrupt:
        values = ()
    if len(values) == len(keys):
        return list(values)
    return [_read_one_or_none(read, key) for key in keys]


def _read_one_or_none(read: Callable[[Sequence[int]], Sequence[Thing]], key: int) -> Thing | None:
    try:
        values = read([key])
    except StoreCorrupt as error:
        _log.warning("left out: %s", error)
        return None
    return values[0] if values else None
