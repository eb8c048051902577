"""Small named texts that an interface keeps in the store, such as access tokens. They are no part of the journal."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from reverie.stores.writer import StoreWriter, setting_cursors


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
