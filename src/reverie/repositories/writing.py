"""What repositories share: writing with retries, and named cursors."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from reverie.domain.change import Change, Operation
from reverie.stores.forks import ForkSafeLock
from reverie.stores.redacting import get_redactor
from reverie.stores.writer import StoreWriter, setting_cursors

_T = TypeVar("_T")

_CHUNK = 1_000


class WritingRepository:
    """A repository that changes a store. Safe to use from several threads, and beside other processes."""

    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store
        self._redactor = get_redactor(writer.store)
        self._lock = ForkSafeLock()

    def _run_with_retries(self, attempt: Callable[[int], _T]) -> _T:
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


# -- cursors --------------------------------------------------------------------------------------


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
