"""What stores share: reading rows, checks of changes, the copy of one store into another, and migrations."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from reverie.domain.change import Change, Subject
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import Conflict, InvalidInput, StoreCorrupt, TextExists
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.passage import CollectionStats, Searchable
from reverie.domain.record import NOTHING, Record, move_former_metadata
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.codec import RECORDS, UnreadableRow, from_document
from reverie.stores.protocol import Store

_log = logging.getLogger("reverie")


class BaseStore(ABC):
    """Base of stores whose things of every kind are read in one way."""

    @abstractmethod
    def _fetch_things(self, subject: Subject, wanted: Sequence[str | int]) -> list[Any]:
        """Return things by id (text) or key (number), in the order asked for."""

    @abstractmethod
    def _fetch_turns(self, session: str, start: int, stop: int | None) -> list[Turn]:
        """Return the turns of a session by position."""

    @abstractmethod
    def _fetch_pages(self) -> list[Page]:
        """Return all pages by name."""

    @abstractmethod
    def _fetch_paragraphs(self, page: str, start: int) -> list[Paragraph]:
        """Return the paragraphs of a log; a negative `start` counts from the end."""

    @abstractmethod
    def records_like(self, marks: Sequence[tuple[str, str]]) -> list[Record]:
        """Return the live records with one of these scopes and fingerprints."""

    def record_like(self, scope: str, fingerprint: str) -> Record | None:
        """Return the live record with this scope and fingerprint; None if there is none."""
        return next(iter(self.records_like([(scope, fingerprint)])), None)

    def records(self, wanted: Sequence[str | int]) -> list[Record]:
        """Return records by id (text) or key (number), archived ones too, in the given order."""
        return self._fetch_things("record", wanted)

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
            return self._fetch_things("turn", wanted)
        if session is None:
            raise InvalidInput("neither turns nor a session are named: pass ids, or session=")
        return self._fetch_turns(session, start, stop)

    def session(self, id: str) -> SessionState | None:
        """Return the state of a session; None if there is no such session."""
        return next(iter(self._fetch_things("session", [id])), None)

    def pages(self, names: Sequence[str] | None = None) -> list[Page]:
        """Return pages by name in the given order (None: all, sorted); unknown ones are left out."""
        return self._fetch_pages() if names is None else self._fetch_things("page", names)

    def paragraphs(
        self,
        wanted: Sequence[str | int] | None = None,
        *,
        page: str | None = None,
        start: int = 0,
    ) -> list[Paragraph]:
        """Return paragraphs by id or key in the given order, or those of a log from `start` on."""
        if wanted is not None:
            return self._fetch_things("paragraph", wanted)
        if page is None:
            raise InvalidInput("neither paragraphs nor a log are named: pass ids, or page=")
        return self._fetch_paragraphs(page, start)


class DatabaseStore(BaseStore):
    """Base of stores in a database with a table of search counters, one row for each voice in an area.

    An area is `*` for everything, or `=` with a scope.
    """

    @abstractmethod
    def _get_known_measures(self) -> dict[str, list[Sequence[Any]]]:
        """Return the counters that the thread's view has read by area, to be added to."""

    @abstractmethod
    def _read_measures(self, areas: Sequence[str]) -> Iterable[Sequence[Any]]:
        """Return area, subject, voice, passages and tokens of the counters of areas."""

    @abstractmethod
    def _count_records(self, wanted: Filter) -> tuple[int, int]:
        """Return the number of the records that match a filter, and of their tokens."""

    def measure(
        self, subject: Searchable, scopes: Sequence[str] | None, *, category: str | None = None
    ) -> CollectionStats:
        """Count the live passages and tokens of some scopes (None: of all), exactly."""
        if category is not None:
            wanted = Filter(scopes=None if scopes is None else tuple(scopes), categories=(category,))
            passages, tokens = self._count_records(wanted) if subject == "record" else (0, 0)
            return CollectionStats(passages=passages, tokens=int(tokens))
        areas = ["*"] if scopes is None else [f"={scope}" for scope in dict.fromkeys(scopes)]
        known = self._get_known_measures()
        if missing := [area for area in areas if area not in known]:
            known |= {area: [] for area in missing}
            for area, *row in self._read_measures(missing):
                known[area].append(row)
        counted = [row for area in areas for row in known[area] if row[0] == subject]
        readable = [
            row
            for row in counted
            if type(row[1]) is str and int is type(row[2]) is type(row[3]) and min(row[2:4]) >= 0
        ]
        if len(readable) < len(counted):
            _log.warning("a counter of %ss cannot be read and is left out: run check()", subject)
        return CollectionStats(
            passages=sum(row[2] for row in readable),
            tokens=sum(row[3] for row in readable),
            speakers=frozenset(row[1] for row in readable if row[1]),
        )


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


# -- filters -----------------------------------------------------------------------------------------------


class Conditions:
    """Conditions that must all hold for the rows that a query calls `it`.

    Args:
        placeholder: What replaces the question marks of the conditions in the SQL of the database.

    Attributes:
        values: The values of the placeholders, in their order.
    """

    def __init__(self, placeholder: str = "?") -> None:
        self._placeholder = placeholder
        self._conditions: list[str] = []
        self.values: list[Any] = []

    def __str__(self) -> str:
        return " AND ".join(self._conditions or ["true"]).replace("?", self._placeholder)

    def add(self, condition: str, *values: Any) -> None:
        """Add a condition."""
        self._conditions.append(condition)
        self.values += values

    def add_any(self, column: str, wanted: Sequence[str]) -> None:
        """Add that a column has one of some values."""
        self.add(f"{column} IN ({build_placeholders(len(wanted))})", *wanted)

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

    def add_record_filter(self, wanted: Filter, *, created_at: str) -> None:
        """Add the restrictions of a filter to records, except tags, headlines and metadata.

        Args:
            wanted: The filter.
            created_at: The column with the time of creation.
        """
        if wanted.only_turns:
            self.add("false")
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
        self.add_times(created_at, wanted)
        if wanted.valid_at is not None:
            moment = to_microseconds(wanted.valid_at)
            self.add("(it.valid_from IS NULL OR it.valid_from <= ?)", moment)
            self.add("(it.valid_to IS NULL OR ? < it.valid_to)", moment)
        if wanted.alive_at is not None:
            self.add("(it.expires_at IS NULL OR it.expires_at > ?)", to_microseconds(wanted.alive_at))

    def add_turn_filter(self, wanted: Filter, *, role: str) -> None:
        """Add the restrictions of a filter to turns, except sessions.

        Args:
            wanted: The filter.
            role: The column with the role.
        """
        if wanted.only_records:
            self.add("false")
        if wanted.scopes is not None:
            self.add_any("it.scope", wanted.scopes)
        if wanted.roles:
            self.add_any(role, wanted.roles)
        self.add_times("it.at", wanted)


def build_placeholders(count: int) -> str:
    """Return a number of question marks, with commas between them."""
    return ",".join("?" * count)


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


MIGRATOR = "reverie"


def move_fields(record: Record) -> Record:
    """Return a record with the facts in its metadata as fields."""
    moved = move_former_metadata({"archived_at": record.archived_at, "metadata": record.metadata})
    metadata = moved.pop("metadata")
    if metadata is record.metadata:
        return record
    moved["replaces"] = tuple(moved.get("replaces", ()))
    return replace(record, metadata=MappingProxyType(metadata) if metadata else NOTHING, **moved)


def read_moved(document: str | None) -> Record | None:
    """Return the record of a document in the journal if its fields move; None otherwise, or if it cannot be read."""
    if document is None or '"metadata"' not in document:
        return None
    try:
        record = from_document(RECORDS, document)
    except UnreadableRow:
        return None
    moved = move_fields(record)
    return None if moved is record else moved


def find_merges(records: Iterable[Record], *, now: datetime) -> list[Change]:
    """Return the changes that leave one live record for each scope and fingerprint."""
    from reverie.domain.similarity.deduplication import merge_same_texts  # here: stores are seldom migrated

    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if not record.archived:
            groups[record.scope, record.fingerprint].append(record)
    merged = (merge_same_texts(group, now=now) for group in groups.values() if len(group) > 1)
    return [change for changes in merged for change in changes]
