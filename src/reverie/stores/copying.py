"""Copying between stores of any kind, so that both have the same journal to the last byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from reverie.domain.entry import Entry
from reverie.domain.errors import StoreCorrupt
from reverie.stores.codec import UnreadableRow


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
    """A store that is copied from."""

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads of this thread see one state until the block ends."""

    def read_rows(self, after: int, limit: int) -> list[CopiedRow]:
        """Return journal rows with larger numbers, in ascending order."""

    def read_unjournaled(self) -> Unjournaled:
        """Return what is not in the journal."""


class CopyTarget(CopySource, Protocol):
    """A store that is being filled, which nobody else can open before `publish`."""

    def write_rows(self, rows: Sequence[CopiedRow]) -> None:
        """Append rows to the journal in one transaction."""

    def finish(self, rest: Unjournaled) -> None:
        """Make all things from the journal, and store the rest, in one transaction."""

    def publish(self) -> None:
        """Give the store its own name, by which it is opened.

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
