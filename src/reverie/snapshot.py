"""What would this memory have answered at an earlier moment? It is put together as it was then, for reading.

Records, turns, sessions, pages and the journal are what they were; working memory, what a session had been
shown, counters and the profile's files are not journalled, and so not part of it.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from reverie.admin.history import Journal, When
from reverie.admin.history.snapshot_store import SnapshotStore
from reverie.domain.text.timestamps import Clock
from reverie.files.profile import Profile
from reverie.reader import MemoryReader
from reverie.repositories.pages import Pages
from reverie.search.analyzer import analyze
from reverie.search.index.search_index import SearchIndex
from reverie.search.ranking import RankingSettings
from reverie.search.searcher import Searcher, to_scoring_settings
from reverie.session import Session
from reverie.settings import Settings
from reverie.stores.protocol import Store
from reverie.stores.writer import StoreWriter


class Snapshot(MemoryReader):
    """A memory as it was at an earlier moment: `Memory.as_of` gives it. It answers, and changes nothing.

    It holds all that there was in memory; only its journal is read from the memory it was taken from, which
    has to stay open for that. Safe to use from several threads.

    Attributes:
        at: The moment, at which its clock stands still.
        sequence: The number of the last change made by then.
        settings: The settings, which are those of today.
        path: None: it is in no folder.
        pages: Its pages and logs, for reading.
        journal: The changes made by then.
    """

    def __init__(
        self, store: Store, when: When, *, settings: Settings, clock: Clock, profile: Profile | None = None
    ) -> None:
        """Put together what there was.

        Args:
            store: The store as it is.
            when: A moment, or the number of a change: as things were after its transaction.
            settings: The settings.
            clock: What tells the time.
            profile: The profile for prompts.

        Raises:
            InvalidInput: it is no moment with a time zone, and no number.
            NotFound: there is no change of that number.
        """
        then = SnapshotStore(store, when, analyse=analyze, now=clock)
        self.at: datetime = then.moment
        self.sequence: int = then.last
        self.settings = settings
        self.path: Path | None = None
        self._store = then
        self._clock = lambda: then.moment
        self._profile = profile
        self._index = SearchIndex(then, None, analyse=then.analysis)
        self._searching = Searcher(
            then,
            self._index,
            clock=self._clock,
            settings=RankingSettings(),
            floor=settings.min_relevance,
            weights=to_scoring_settings(settings),
        )
        self.journal = Journal(store, until=then.last, things=then)
        self._writer = StoreWriter(store=then, clock=self._clock, actor="")
        self.pages = Pages(self._writer, settings=settings)

    def session(self, id: str, *, scope: str = "") -> Session:
        """A conversation as it was: what changes it is refused.

        Args:
            id: Its id; one that had not begun has no turns.
            scope: Whose memory it would be, if it had not begun.
        """
        return Session(
            id,
            writer=self._writer,
            recaller=self._searching,
            settings=self.settings,
            scope=scope,
            standing=self._read_standing,
        )

    def close(self) -> None:
        """Let go of what it holds."""
        self._index.close()
        self._store.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
