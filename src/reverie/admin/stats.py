"""Numbers of a memory: records, turns, sessions, and the space on the disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from reverie.domain.filter import Filter
from reverie.search.index.candidates import IndexStatus
from reverie.search.index.search_index import SearchIndex
from reverie.stores.base import ServerStatus
from reverie.stores.protocol import Store
from reverie.stores.redacting import get_server_store

if TYPE_CHECKING:
    from reverie.search.vectors.vector_index import VectorStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeStats:
    """Statistics of what is visible from one scope.

    Attributes:
        records: Live records.
        archived: Archived records.
        turns: Turns of all sessions.
        sessions: Sessions.
        by_kind: Live records of each kind.
        by_category: Live records of each category; those without one under the empty text.
    """

    records: int
    archived: int
    turns: int
    sessions: int
    by_kind: Mapping[str, int]
    by_category: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(ScopeStats):
    """Statistics of a memory.

    Attributes:
        pages: Pages, such as `MEMORY.md`.
        paragraphs: Paragraphs of all logs, which are `HISTORY.md` and the daily notes.
        journal: Changes ever made.
        bytes_on_disk: Size of the folder's files; 0 in memory.
        failed: How often each background step failed, such as `learn`, `dream.tidy`; without those that never did.
        index: Status of the search index.
        path: The folder; None in memory.
        vectors: Status of the vectors; None without an embedder.
        server: Health of the database server; None for a memory in a folder.
    """

    pages: int
    paragraphs: int
    journal: int
    bytes_on_disk: int
    failed: Mapping[str, int]
    index: IndexStatus
    path: Path | None
    vectors: VectorStatus | None = None
    server: ServerStatus | None = None


FAILURES = (
    *("files", "learn", "worker", "read", "compact"),
    *(f"dream.{name}" for name in ("enrich", "verify", "tidy", "preferences", "promote", "dream")),
    *(f"model.{name}" for name in ("read", "compact", "enrich", "extract", "tidy", "preferences", "verify")),
)
"""Steps whose failures are counted, as in `Stats.failed`; in the store their counters end in `.failed`."""


def compute_stats(store: Store, index: SearchIndex, *, now: datetime, path: Path | None) -> Stats:
    """Return the numbers of a whole memory, in all scopes."""
    live = Filter(alive_at=now)
    by_kind = store.tally("kind", live)
    sessions = store.sessions()
    on_server = get_server_store(store)
    return Stats(
        records=sum(by_kind.values()),
        archived=sum(store.tally("kind", Filter(archived=True)).values()),
        turns=sum(each.turns for each in sessions),
        sessions=len(sessions),
        pages=len(store.pages()),
        paragraphs=sum(store.logs().values()),
        journal=store.sequence(),
        by_kind=by_kind,
        by_category=store.tally("category", live),
        bytes_on_disk=compute_folder_size(path),
        failed=count_failures(store),
        index=index.status(),
        path=path,
        server=None if on_server is None else on_server.server_status(),
    )


def count_failures(store: Store) -> dict[str, int]:
    """Return how often each background step failed, without those that never did."""
    return {name: count for name in FAILURES if (count := store.count(f"{name}.failed"))}


def compute_folder_size(path: Path | None) -> int:
    """Return the bytes of all files in a folder."""
    return 0 if path is None else sum(status.st_size for _, status in iter_files(path))


def iter_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files below a folder with their status, without those that vanish meanwhile."""
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                status = os.stat(file := Path(place, name))
                if stat.S_ISREG(status.st_mode):
                    yield file, status
