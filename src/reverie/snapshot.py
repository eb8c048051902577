"""Read-only snapshot of a memory at an earlier moment.

Records, turns, sessions, pages and the journal are what they were then. Working memory, what a session had been
shown, counters and the files of the profile are not journalled, so they are not part of it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from reverie.admin.history.journal import Journal, When
from reverie.admin.history.snapshot_store import SnapshotStore
from reverie.admin.stats import Stats, compute_stats
from reverie.domain.text.timestamps import Clock
from reverie.files.profile import Profile
from reverie.reader import MemoryReader, create_searcher
from reverie.repositories.pages import Pages
from reverie.search.analyzer import analyze
from reverie.search.index.search_index import SearchIndex
from reverie.session import Session
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.admin.transfer.export import ExportReport


class Snapshot(MemoryReader):
    """Memory at an earlier moment, for reading: `Memory.as_of` returns it. Safe to use from several threads.

    Like `Memory`, it shows what belongs to everybody; `scoped` shows a scope. It holds its content in memory.
    Only its history is read from the memory it was taken from, which has to stay open for that.

    Attributes:
        at: The moment, at which its clock stands still.
        sequence: The number of the last change made by then.
        settings: The settings, which are those of today.
        pages: Its pages and logs.
        history: The changes made by then.
    """

    def __init__(
        self,
        store: Store,
        when: When,
        *,
        settings: Settings,
        clock: Clock,
        profile: Profile | None,
    ) -> None:
        """Take a snapshot of a store; `Memory.as_of` is the usual way.

        Args:
            store: The store.
            when: The moment; or the number of a change, for the state after its transaction.
            settings: The settings.
            clock: The clock.
            profile: The profile for prompts.

        Raises:
            InvalidInput: it is neither a moment with a time zone nor a number.
            NotFound: there is no change of that number.
        """
        analyze_once = cache(analyze)
        then = SnapshotStore(store, when, analyse=analyze_once, now=clock)
        self._index = SearchIndex(then, None)
        searcher = create_searcher(then, self._index, clock=lambda: then.moment, settings=settings)
        super().__init__(then, searcher, scope="", settings=settings, clock=lambda: then.moment)
        self.at: datetime = then.moment
        self.sequence: int = then.last
        self.history = Journal(store, until=then.last, things=then)
        self._writer = StoreWriter(store=then, clock=self._clock, actor="")
        self.pages = Pages(self._writer, settings=settings)
        self._profile = profile

    def session(self, id: str) -> Session:
        """Return a conversation as it was; changing it is refused.

        Args:
            id: The id under which it is stored, of any scope; one that had not begun has no turns.
        """
        return Session(
            id,
            writer=self._writer,
            recaller=self._searcher,
            settings=self.settings,
            standing=lambda scopes: self.pages.build_static_context(
                scopes, self._profile.read() if self._profile else ()
            ),
        )

    def total_stats(self) -> Stats:
        """Return how much the whole memory held then, in all scopes."""
        return compute_stats(self._store, self._index, now=self.at, path=None)

    def export(
        self,
        target: str | os.PathLike[str],
        *,
        scope: str | Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> ExportReport:
        """Export the memory as it was; see `reverie.admin.administration.Administration.export`."""
        from reverie.admin.transfer import export

        return export.export(self._store, target, scope=scope, at=self._clock(), overwrite=overwrite)

    def close(self) -> None:
        """Release what it holds."""
        self._index.close()
        self._store.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
