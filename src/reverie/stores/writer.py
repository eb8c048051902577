"""Writer that commits changes to a store as one actor, publishes them, and retries; repositories that use it."""

from __future__ import annotations

import builtins
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from itertools import islice
from typing import TypeAlias, TypeVar, Unpack

from reverie.domain.change import Change, JournalEntry, Operation
from reverie.domain.errors import Conflict, InvalidInput, build_os_error
from reverie.domain.lazy_dataclass import dataclass, replace
from reverie.domain.text.ids import NewId, generate_id
from reverie.domain.text.timestamps import Clock, utc_now
from reverie.stores.forks import ForkSafeLock
from reverie.stores.protocol import CommitOptions, Store
from reverie.stores.redacting import get_redactor

ATTEMPTS = 60
"""Number of attempts before a change fails with `Conflict`."""

_LONGEST_PAUSE_S = 0.02
_CHUNK = 1_000

T = TypeVar("T")
Publish: TypeAlias = Callable[[Sequence[JournalEntry]], None]
Propose: TypeAlias = Callable[[Sequence[Change], str], None]

_log = logging.getLogger("reverie")


_EXTRA_CURSORS: ContextVar[Mapping[str, str | None] | None] = ContextVar("extra_cursors", default=None)


@contextmanager
def setting_cursors(cursors: Mapping[str, str | None]) -> Iterator[None]:
    """Set cursors in every transaction that this thread commits until the block ends.

    With it, a request is marked as done by the same transaction that does it.
    """
    token = _EXTRA_CURSORS.set(cursors)
    try:
        yield
    finally:
        _EXTRA_CURSORS.reset(token)


def add_extra_cursors(cursors: Mapping[str, str | None] | None) -> Mapping[str, str | None] | None:
    """Return the cursors of a transaction with those of `setting_cursors`."""
    extra = _EXTRA_CURSORS.get()
    return cursors if extra is None else {**(cursors or {}), **extra}


def discard_rows(rows: Sequence[JournalEntry]) -> None:
    """Ignore journal entries: the `publish` of a writer without followers."""


def refuse_changes(changes: Sequence[Change], why: str) -> None:
    """Report changes that nobody is asked about, and do not make them: the `propose` of a writer without an inbox."""
    _log.warning("%d changes are not made: %s", len(changes), why)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreWriter:
    """Writer of a store: the store, and what every change of it needs.

    Attributes:
        store: The store.
        clock: Returns the current time.
        new_id: Returns a new id.
        actor: The author of the changes, as named in the journal.
        publish: Receives the journal entries of each commit; the search index and the files follow it.
        propose: Receives changes that wait for the owner's decision, and the reason.
    """

    store: Store
    clock: Clock = utc_now
    new_id: NewId = generate_id
    actor: str = "owner"
    publish: Publish = discard_rows
    propose: Propose = refuse_changes

    def acting(self, actor: str) -> StoreWriter:
        """Return a writer for the same store with another actor."""
        return replace(self, actor=actor)

    def commit(
        self, changes: Sequence[Change], *, at: datetime | None = None, **options: Unpack[CommitOptions]
    ) -> list[JournalEntry]:
        """Commit changes in one transaction, then publish them; see `Store.commit`.

        Args:
            changes: The changes.
            at: The time of the change; None for now.
            **options: See `CommitOptions`.

        Raises:
            Conflict: the store has changed since it was read; nothing was changed.
        """
        if not isinstance(note := options.get("note", ""), str):
            raise InvalidInput(f"reason is {type(note).__name__}: pass a string")
        options["cursors"] = add_extra_cursors(options.get("cursors"))
        at = self.clock() if at is None else at
        rows = self.store.commit(changes, actor=self.actor, at=at, **options)
        if rows:
            self.publish(rows)
        return rows

    def retrying(self, attempt: Callable[[int], T], *, attempts: int = ATTEMPTS) -> T:
        """Return the result of `attempt`, repeated with short pauses while it raises `Conflict`.

        A conflict that repeats although nothing was committed in between is not a lost race: it is raised.

        Args:
            attempt: Reads, decides and commits; receives the number of failed attempts before it.
            attempts: The largest number of attempts.

        Raises:
            Conflict: the last attempt failed, or the conflict is permanent.
            StoreUnavailable: the operating system refused something, such as another open file.
        """
        try:
            return retry_conflicts(attempt, read_state=self.store.sequence, attempts=attempts)
        except OSError as error:
            advice = "see that there are room and permissions, and try again"
            raise build_os_error("a change cannot be made", error, advice) from error


def retry_conflicts(
    attempt: Callable[[int], T], *, read_state: Callable[[], object], attempts: int = ATTEMPTS
) -> T:
    """Return the result of `attempt`, repeated as `StoreWriter.retrying` does.

    Args:
        attempt: Reads, decides and commits; receives the number of failed attempts before it.
        read_state: Returns something that differs after every lost race.
        attempts: The largest number of attempts.

    Raises:
        Conflict: the last attempt failed, or two attempts failed on the same state.
    """
    failed_on: object = None
    for tries in range(attempts - 1):
        try:
            return attempt(tries)
        except Conflict:
            state = read_state()
            if tries and state == failed_on:
                raise
            failed_on = state
            if tries:  # one lost race may be chance; after two, spread the competitors over time
                import random  # here: few calls meet another writer

                time.sleep(random.uniform(0, _LONGEST_PAUSE_S))
    return attempt(attempts - 1)


class WritingRepository:
    """A repository that changes a store. Safe to use from several threads, and beside other processes."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store
        self._redactor = get_redactor(writer.store)
        self._lock = ForkSafeLock()

    def _run_with_retries(self, attempt: Callable[[int], T]) -> T:
        """Run `StoreWriter.retrying`, one thread at a time: a lock costs less than a lost race."""
        with self._lock:
            return self._writer.retrying(attempt)

    def _commit_in_chunks(self, find_changes: Callable[[], Iterable[Change]], *, operation: Operation) -> int:
        """Commit changes, a thousand in a transaction, until none are found; return their number.

        Args:
            find_changes: Finds the changes that remain; called again after each transaction and each lost race.
            operation: The operation, for the journal.
        """

        def attempt(_: int) -> int:
            changes = list(islice(find_changes(), _CHUNK))
            if changes:
                self._writer.commit(changes, operation=operation)
            return len(changes)

        total = 0
        while number := self._run_with_retries(attempt):
            total += number
        return total


class Cursors:
    """Named texts in one store. Safe to use from several threads and processes."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store

    def get(self, name: str) -> str | None:
        """Return the text of that name; None if there is none."""
        return self._store.cursor(name)

    def list(self, prefix: str) -> builtins.dict[str, str]:
        """Return the texts whose names begin so, by name."""
        return dict(self._store.cursors(prefix))

    def set(self, values: Mapping[str, str | None]) -> None:
        """Write texts in one transaction.

        Args:
            values: Texts by name; None removes one.

        Raises:
            StoreUnavailable: they could not be written; nothing was changed.
        """
        self._writer.commit([], cursors=values)

    @contextmanager
    def setting(self, values: Mapping[str, str | None]) -> Iterator[None]:
        """Write texts in every transaction that this thread makes until the block ends."""
        with setting_cursors(values):
            yield
