"""Candidates of a search: the weights of terms, the status of an index, and the places of indexes on this machine."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reverie.domain.errors import translate_os_errors
from reverie.domain.lazy_dataclass import dataclass
from reverie.domain.passage import SEARCHABLE, Among, CandidateQuery, Searchable, TermWeight
from reverie.search.index.inverted_index import BRIEFEST, OFTEN, compute_emphasis
from reverie.stores.protocol import Store

if TYPE_CHECKING:
    from reverie.search.index.search_index import SearchIndex

_FINENESS = 32  # weights are rounded to multiples of 1/32
_BATCH = 1_000
_ROUNDS = 5
_LARGEST_SUM = (1 << 23) // (BRIEFEST * compute_emphasis(OFTEN[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """State of the index.

    Attributes:
        state: `current`; `rebuilding` while a lost index is built again (searches stay correct);
            `in memory` if the disk refuses it.
        committed: Passages in the commit on disk.
        waiting: Passages changed since, held in memory.
        segments: Number of segments of the commit.
        sequence: Number of the last journal entry that searches cover.
        problem: The error, if there was one.
    """

    state: Literal["current", "rebuilding", "in memory"]
    committed: int
    waiting: int
    segments: int
    sequence: int
    problem: str = ""


def compute_rarities(
    query: CandidateQuery, passages: int, frequencies: Mapping[str, int]
) -> list[TermWeight]:
    """Return the terms of a query that passages have, each weighted by its rarity.

    Args:
        query: The query.
        passages: Number of passages in the scopes.
        frequencies: Number of these passages with each word.
    """
    rarities: list[tuple[Among, str, float]] = [
        ("words", word, weight * log(1 + max(0, passages - held + 0.5) / (held + 0.5)))
        for word, weight in query.words
        if (held := frequencies[word])
    ]
    rarities += [("dates", token, weight * log(1 + passages)) for token, weight in query.dates]
    rarities += [("speakers", token, weight * log(1 + passages)) for token, weight in query.speakers]
    # Coarser for large queries, so that a sum times the largest brevity fits into 24 bits.
    fineness = min(_FINENESS, _LARGEST_SUM / (1 + sum(weight for _, _, weight in rarities)))
    return [
        TermWeight(among=among, token=token, weight=max(1, round(fineness * weight)))
        for among, token, weight in rarities
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMismatch:
    """Differences between an index and its store.

    Attributes:
        missing: Number of live passages that a search cannot find.
        surplus: Number of passages in the index that are not live.
        passages: Number of compared passages.
    """

    missing: int
    surplus: int
    passages: int


def compare_index(index: SearchIndex, store: Store) -> IndexMismatch:
    """Compare the passages of an index and its store, which may change at the same time.

    Raises:
        IndexCorrupt: the index cannot be read.
        StoreUnavailable: the store cannot be read.
    """
    for _ in range(_ROUNDS):
        stored: set[int] = set()
        indexed: set[int] = set()
        with store.reading(), index.reading():
            sequence = store.sequence()
            for subject in SEARCHABLE:
                stored |= _collect_live_keys(store, subject)
                indexed |= index.collect_keys(subject)
        if stored == indexed or store.sequence() == sequence:  # else the index may be ahead of this view
            break
    return IndexMismatch(missing=len(stored - indexed), surplus=len(indexed - stored), passages=len(stored))


def _collect_live_keys(store: Store, subject: Searchable) -> set[int]:
    keys: set[int] = set()
    after = 0
    while batch := store.live(subject, after=after, limit=_BATCH):
        keys.update(passage.key for passage, _ in batch)
        after = batch[-1][0].key
    return keys


# -- cache ----------------------------------------------------------------------------------------


_LOCK = ".lock"
_MEGABYTE = 1_000_000


class IndexCache:
    """The folder of one memory's indexes in the cache of this machine, in use until it is closed.

    Args:
        base: The folder of the cache, made for its owner alone when it is missing.
        name: Unique name of the memory, such as a UUID that its store made.
        origin: Text that differs for copies of the database, and after a restore. Unused folders of the memory with
            another origin are removed.
        limit_mb: Most megabytes of all folders of the cache; unused folders are removed beyond that.

    Attributes:
        path: The folder.

    Raises:
        StoreUnavailable: the cache cannot be made or written.
    """

    def __init__(self, base: Path, name: str, *, origin: str = "", limit_mb: int) -> None:
        self.path = base / (f"{name}-{origin}" if origin else name)
        with translate_os_errors(f"the cache of search indexes in {str(base)!r} cannot be used"):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _open_locked(self.path)
            try:
                self.path.mkdir(mode=0o700, exist_ok=True)
                for lock in (base / f"{name}{_LOCK}", *base.glob(f"{name}-*{_LOCK}")):
                    if lock.name != self.path.name + _LOCK:
                        _remove(lock)
                _evict(base, limit_mb * _MEGABYTE)
            except OSError:
                self.close()
                raise

    def close(self) -> None:
        """Allow the removal of the folder when others need the room. Closing twice is allowed."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _open_locked(folder: Path) -> int:
    """Return the handle of a folder's shared lock, whose file time is the time of the last use."""
    lock = folder.with_name(folder.name + _LOCK)
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if os.stat(lock).st_ino == os.fstat(handle).st_ino:
                now = time.time()
                os.utime(handle, (now, now))
                return handle
        os.close(handle)  # it was removed between the two


def _evict(base: Path, limit: int) -> None:
    """Remove the least recently used folders until the others are within the limit, or in use."""
    sizes = {lock: _measure(lock.with_name(lock.name.removesuffix(_LOCK))) for lock in base.glob(f"*{_LOCK}")}
    excess = sum(sizes.values()) - limit
    for lock in sorted(sizes, key=_get_last_use):
        if excess <= 0:
            return
        if _remove(lock):
            excess -= sizes[lock]


def _remove(lock: Path) -> bool:
    """Remove the folder of a lock and the lock, unless the folder is in use; return whether they were removed."""
    with _try_to_own(lock) as is_owned:
        if is_owned:
            import shutil  # here: few memories are in a database

            shutil.rmtree(lock.with_name(lock.name.removesuffix(_LOCK)), ignore_errors=True)
            lock.unlink(missing_ok=True)
    return is_owned


@contextmanager
def _try_to_own(lock: Path) -> Iterator[bool]:
    """Hold a folder's lock exclusively, if the folder is not in use; yield whether it is held."""
    try:
        file = lock.open("rb")
    except FileNotFoundError:
        yield False
        return
    with closing(file):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _get_last_use(lock: Path) -> float:
    try:
        return lock.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _measure(folder: Path) -> int:
    """Return the bytes of a folder's files; others may be removing some meanwhile."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(place, name)).st_size
    return size
