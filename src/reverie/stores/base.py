"""What stores share: reading rows, checks of changes, the copy of one store into another, and migrations."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, TypeAlias

from reverie.domain.change import Change
from reverie.domain.entry import Entry
from reverie.domain.errors import Conflict, StoreCorrupt, TextExists
from reverie.domain.record import NOTHING, Record, move_former_metadata
from reverie.stores.codec import RECORDS, UnreadableRow, from_document
from reverie.stores.protocol import Store

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
