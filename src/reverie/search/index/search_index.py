"""Search index that follows the journal and finds candidates as of the latest change.

The index is derived from the store. A tantivy commit on disk is complete up to some journal entry. Passages that have
changed since are in a small inverted index (`fresh`). The keys of their committed versions are kept (`stale`), and
these are left out and subtracted from the counts of the commit. Together they give the same candidates and exactly the
same word statistics as a new commit, in every process, after every write.

When the inverted index has grown, the process that gets tantivy's writer lock commits them on a separate thread.
The others notice the commit and drop what it covers. A missing or damaged index is rebuilt from the store, in memory
if the disk refuses it. An erasure empties the files; who has them open goes on with what is open, and the index is
rebuilt a little later.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from reverie.domain.errors import StoreError
from reverie.domain.filter import Filter
from reverie.domain.lazy_dataclass import replace
from reverie.domain.passage import (
    SEARCHABLE,
    CandidateQuery,
    Searchable,
    TermWeight,
)
from reverie.search.index.candidates import IndexStatus, compute_rarities
from reverie.search.index.inverted_index import IndexedPassage, InvertedIndex, build_predicate
from reverie.search.index.tantivy_index import (
    IndexBatch,
    IndexCorrupt,
    TantivyIndex,
    WriterBusy,
    remove_index,
    remove_older,
)
from reverie.stores.forks import ForkSafeLock, delaying_forks
from reverie.stores.protocol import Store

_log = logging.getLogger("reverie")

FOLD_AT = 1_000
"""Uncommitted passages from which a commit is made; searching them takes well under a millisecond."""

FOLD_ON_CLOSE = 200
"""The same on closing; reading them at the next start takes about ten milliseconds."""

_REBUILD_AT = 2_000
_WAIT_FOR_REBUILD_S = 60.0
_WAIT_FOR_SCRUB_S = 30.0
_QUIET_S = 2.0  # without an erasure, before an emptied index is built again
_REBUILT_A_SECOND = 20_000  # passages; as long as that takes, no erasure is to come either
_TRIES = 3
_FAR = 2_000  # entries of the journal that are better written to the disk than followed in memory
_LOAD_S = 15.0  # of a load that become one segment at most, since each segment has all of its words again
_AWAITED = "awaited"  # a file beside the segments: an erasure of another process waits for a load
_PAUSE_S = 0.5  # without changes, after which a load has ended
_NOT_FOLLOWED = -1
_MAX_COUNTS = 100_000
_NEAR = 50  # passages that are searched for words near an unknown one


class SearchIndex:
    """Candidates and exact word statistics over a store. Safe to use from several threads.

    Nothing is opened before the first search.
    """

    def __init__(self, store: Store, folder: Path | None, *, fold_at: int = FOLD_AT) -> None:
        """Follow `store`, with the commit in `folder` (None: in memory).

        Args:
            store: The store.
            folder: Folder of the index; it may be missing, outdated or broken.
            fold_at: Uncommitted passages from which a commit is made.
        """
        self._store = store
        self._folder = folder
        self._fold_at = fold_at
        self._lock = ForkSafeLock(self._reset_after_fork)
        self._folding: threading.Thread | None = None
        self._closing = self._is_hurried = False
        self._committed: TantivyIndex | None = None
        self._lost = False
        self._cleared_at: float | None = None
        self._problem = ""
        self._followed = 0
        self._question = threading.local()
        self._written = threading.Event()  # whether no changes are being written to the disk
        self._written.set()
        self._awaited = threading.Event()  # whether somebody waits for that
        self._forget_tail(0)

    def _reset_after_fork(self) -> None:
        self._committed, self._lost, self._cleared_at = None, False, None
        self._forget_tail(0)

    # -- reading -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Follow the journal only at the first call of this thread, until the block ends.

        It is for one search, whose reads of the store see one state of it (`Store.reading`).
        """
        if getattr(self._question, "followed", None) is not None:
            yield
            return
        self._question.followed = _NOT_FOLLOWED
        try:
            yield
        finally:
            self._question.followed = None

    def search_any(
        self,
        subject: Searchable,
        query: CandidateQuery,
        allowed: Filter,
        limit: int,
        *,
        category: str | None = None,
    ) -> list[int]:
        """Return the keys of passages that may answer best, with the newest changes.

        Args:
            subject: Records, turns, or paragraphs.
            query: The query.
            allowed: Filter of the result.
            limit: Most keys.
            category: Count words in this category alone, to which the filter is restricted.
        """
        with self._lock:
            committed, scopes = self._catch_up(), allowed.scopes
            passages, _ = self._measure_extent(subject, scopes, category)
            held = self._count_words(committed, subject, [word for word, _ in query.words], scopes, category)
            return self._search_weighted(subject, compute_rarities(query, passages, held), allowed, limit)

    def frequencies(
        self,
        subject: Searchable,
        words: Sequence[str],
        scopes: Collection[str] | None,
        category: str | None = None,
    ) -> dict[str, int]:
        """Return the exact number of live passages in those scopes (None: in all) with each word.

        With a category, only records of it and those below it count.
        """
        with self._lock:
            return self._count_words(self._catch_up(), subject, words, scopes, category)

    def _count_words(
        self,
        committed: TantivyIndex,
        subject: Searchable,
        words: Sequence[str],
        scopes: Collection[str] | None,
        category: str | None,
    ) -> dict[str, int]:
        if scopes is not None and self._measure_extent(subject, scopes, category)[1]:
            scopes = None
        known = self._get_counts()
        selection = (subject, None if scopes is None else tuple(scopes), category)
        fresh, stale = self._fresh[subject], sorted(self._stale[subject])
        for word in words:
            if (selection, word) not in known:
                known[selection, word] = (
                    committed.compute_frequency(subject, word, scopes, category)
                    + (fresh.compute_frequency(word, scopes, category) if fresh else 0)
                    - (committed.among(subject, word, scopes, stale, category) if stale else 0)
                )
        return {word: known[selection, word] for word in words}

    def collect_words(
        self,
        subject: Searchable,
        word: str,
        allowed: Filter,
        *,
        category: str | None = None,
    ) -> set[str]:
        """Return the words of passages with a word near this one, and all uncommitted words.

        Args:
            subject: Records, turns, or paragraphs.
            word: The word, in the analyzer's form.
            allowed: Filter of the passages; the newest ones with a near word are read.
            category: Only words of this category, to which the filter is restricted.
        """
        with self._lock:
            committed = self._catch_up()
            words = self._fresh[subject].list_words(allowed.scopes, category)
            keys = committed.search_near(subject, word, allowed, _NEAR)
        for passage in self._store.passages(subject, keys):
            words.update(passage.terms.split())
        return words

    def status(self) -> IndexStatus:
        """Return the state of the index."""
        with self._lock:
            committed = self._catch_up()
            return IndexStatus(
                state="rebuilding" if self._lost else "in memory" if self._problem else "current",
                committed=committed.passages,
                waiting=self._count_waiting(),
                segments=committed.segments,
                sequence=self._followed,
                problem=self._problem,
            )

    def collect_keys(self, subject: Searchable) -> set[int]:
        """Return the keys of all searchable passages; raises `IndexCorrupt` if the commit cannot be read."""
        with self._lock:
            committed = self._catch_up().collect_keys(subject)
            return (committed - self._stale[subject]) | self._fresh[subject].collect_keys()

    def _search_weighted(
        self, subject: Searchable, weights: Sequence[TermWeight], allowed: Filter, limit: int
    ) -> list[int]:
        """Return the keys of the passages with the largest weights, the newest first of equal ones.

        Within a scope the content of other scopes must not change candidates. So all matches are sorted by exact
        weights: tantivy's BM25 would use the frequencies of all scopes, and the state of the commit depends on writes
        in other scopes. The caller holds the lock.
        """
        committed = self._committed
        assert committed is not None
        fresh = self._fresh[subject].search_weighted(weights, build_predicate(subject, allowed), limit)
        if allowed.scopes is not None and self._measure_extent(subject, allowed.scopes)[1]:
            allowed = replace(allowed, scopes=None)
        left_out = self._stale[subject]

        most = 2 * limit
        while True:
            scored = committed.search_weighted(subject, weights, allowed, most)
            is_all = len(scored) < most
            least = -1 if is_all else scored[-1][1]  # there may be more with this weight
            kept = [(key, figure) for key, figure in scored if figure > least and key not in left_out]
            if is_all or len(kept) >= limit:
                break
            # There may be thousands with the same weight, such as all with one frequent word. So the newest of
            # them are taken from the newest matches.
            newest = committed.search_newest(subject, weights, allowed, most)
            scored = committed.search_weighted(subject, weights, allowed, most, after=newest[-1] - 1)
            tied = sorted((key for key, figure in scored if figure == least), reverse=True)
            kept += [(key, least) for key in tied if key not in left_out]
            if len(kept) >= limit:
                break
            most *= 8
        best = sorted(fresh + kept, key=lambda one: (-one[1], -one[0]))
        return [key for key, _ in best[:limit]]

    def _measure_extent(
        self, subject: Searchable, scopes: Collection[str] | None, category: str | None = None
    ) -> tuple[int, bool]:
        """Return the number of passages in some scopes, and whether these are all, so that no filter is needed.

        The result is cached until the next change. The caller holds the lock and has caught up.
        """
        selection = (subject, None if scopes is None else tuple(scopes), category)
        known: tuple[int, bool] | None = self._get_counts().get(selection)
        if known is None:
            passages = self._store.measure(subject, selection[1], category=category).passages
            known = passages, passages == self._store.measure(subject, None).passages
            if self._store.sequence() != self._followed:  # the count includes later changes
                return passages, False
            self._get_counts()[selection] = known
        return known

    # -- following ---------------------------------------------------------------------------------

    def follow(self) -> None:
        """Follow the journal."""
        with self._lock:
            self._catch_up()

    def follow_soon(self) -> None:
        """Follow the journal on a separate thread, so that the next search need not follow many changes."""
        self._start(self._fold_quietly)

    def _catch_up(self) -> TantivyIndex:
        """Apply all entries of the journal. The caller holds the lock."""
        # A thread with an older view of the store may have gone back to a commit meanwhile.
        followed = getattr(self._question, "followed", None)
        if (
            followed not in (None, _NOT_FOLLOWED)
            and self._committed is not None
            and self._followed >= followed
        ):
            return self._committed
        newest = self._store.sequence()  # first, since it fails if the store is gone
        thread = self._folding
        is_elsewhere = thread not in (None, threading.current_thread()) and thread.is_alive()
        if newest - self._followed >= _FAR and is_elsewhere:
            self._awaited.set()
            self._written.wait(_WAIT_FOR_REBUILD_S)  # another thread writes many changes to the disk
        committed = self._committed if self._committed is not None else self._open()
        self._notice_others(committed)
        if newest - self._followed >= _FAR and not self._lost:
            self.fold()
        while self._followed < newest and (found := self._store.read_changes(self._followed)):
            self._followed, changes = found
            for subject, (keys, live) in changes.items():
                for key in keys:
                    self._fresh[subject].remove(key)
                    if key <= committed.sequence:
                        self._stale[subject].add(key)
                for passage, value in live:
                    self._fresh[subject].add(IndexedPassage(passage.key, value, passage.analysis))
        if self._count_waiting() >= self._fold_at:
            self._start(self._fold_quietly)
        if followed is not None:
            self._question.followed = self._followed
        return committed

    def _notice_others(self, committed: TantivyIndex) -> None:
        """Go on from a newer commit, and have an index that was emptied or damaged built again."""
        if self._lost:
            quiet_s = _QUIET_S + committed.passages / _REBUILT_A_SECOND
            if self._cleared_at is None or time.monotonic() > self._cleared_at + quiet_s:
                self._start(self._rebuild)  # unless that is under way
        else:
            try:
                found = committed.find_newer()
                if found == 0 and committed.sequence:
                    self._lost, self._cleared_at = True, time.monotonic()
                elif found:  # an index that is as empty as before changes nothing: all is followed in memory
                    committed.refresh()
                    self._forget_tail(committed.sequence)
            except IndexCorrupt as error:
                self._handle_loss(error)

    def _forget_tail(self, followed: int) -> None:
        self._followed = followed
        self._counts: dict[Any, Any] = {}
        self._counted = followed
        self._fresh: dict[Searchable, InvertedIndex] = {subject: InvertedIndex() for subject in SEARCHABLE}
        self._stale: dict[Searchable, set[int]] = {subject: set() for subject in SEARCHABLE}

    def _get_counts(self) -> dict[Any, Any]:
        """Return the counts that are valid until the next change, to read and to add to."""
        if self._counted != self._followed or len(self._counts) > _MAX_COUNTS:
            self._counted, self._counts = self._followed, {}
        return self._counts

    def _count_waiting(self) -> int:
        return sum(len(self._fresh[subject]) + len(self._stale[subject]) for subject in SEARCHABLE)

    # -- opening and building ------------------------------------------------------------------------

    def _open_or_replace(self) -> TantivyIndex:
        try:
            return TantivyIndex(self._folder)
        except IndexCorrupt as error:
            _log.warning("the search index cannot be read and is built again: %s", error)
            return self._replace()

    def _open(self) -> TantivyIndex:
        committed = self._open_or_replace()
        if committed.sequence > self._store.sequence():
            # An index of another store, or of one that was restored from a backup.
            committed = self._replace()
        if committed.sequence == 0 and self._folder is not None:
            remove_older(self._folder)
        if committed.sequence == 0 and self._store.sequence() >= _REBUILD_AT:
            committed = self._build(committed)
        self._committed = committed
        self._forget_tail(committed.sequence)
        return committed

    def _replace(self) -> TantivyIndex:
        """Return an empty index in place of what is there; in memory if the disk refuses."""
        if self._folder is not None:
            remove_index(self._folder)
        try:
            return TantivyIndex(self._folder)
        except IndexCorrupt as error:
            return self._open_in_memory(error)

    def _open_in_memory(self, error: Exception) -> TantivyIndex:
        _log.warning("the search index cannot be kept on disk and is held in memory: %s", error)
        self._problem = str(error)
        return TantivyIndex(None)

    def _build(self, committed: TantivyIndex) -> TantivyIndex:
        """Fill an empty index from the store, or wait while another process does so."""
        deadline = time.monotonic() + _WAIT_FOR_REBUILD_S
        broken = 0
        while True:
            try:
                try:
                    with delaying_forks(self._awaited):
                        committed.write(self._fill)
                except WriterBusy:
                    if time.monotonic() > deadline:
                        return committed  # still correct, since all changes are followed in memory
                    time.sleep(0.05)
                committed.refresh()
            except IndexCorrupt as error:  # deleted while it was built, or the disk is full
                broken += 1
                committed = self._replace() if broken < _TRIES else self._open_in_memory(error)
                continue
            if committed.sequence or self._is_hurried or not self._store.sequence():
                return committed

    def _fill(self, batch: IndexBatch) -> int:
        """Add every passage of the store; return the number of the last entry of the journal."""
        newest, last = self._store.sequence(), self._fill_changes(batch, 0, until=None)
        return (
            last if self._is_hurried else max(newest, last)
        )  # the last change of a snapshot is not in its journal

    def _fill_changes(self, batch: IndexBatch, sequence: int, *, until: int | None) -> int:
        """Add the changes after a journal entry, up to another one (None: all); return the number of the last one."""
        while (until is None or sequence < until) and not self._is_too_far(sequence):
            if not (found := self._store.read_changes(sequence)):
                break
            last, changes = found
            for keys, live in changes.values():
                for key in keys:
                    if key <= sequence:  # else it is created in these
                        batch.remove(key)
                for passage, value in live:
                    batch.add(IndexedPassage(passage.key, value, passage.analysis))
            sequence = last
        return sequence

    def _fill_load(self, batch: IndexBatch, sequence: int, newest: int) -> int:
        """Add the changes after a journal entry, and, on the thread, those that come until a load has ended."""
        deadline = time.monotonic() + _LOAD_S
        sequence = self._fill_changes(batch, sequence, until=newest)
        while threading.current_thread() is self._folding and self._wait_for_more(sequence, deadline):
            sequence = self._fill_changes(batch, sequence, until=self._store.sequence())
        return sequence

    def _wait_for_more(self, sequence: int, deadline: float) -> bool:
        """Wait until many changes came after a journal entry, or none do any more; return whether some have come."""
        before, newest = 0, self._store.sequence()
        while before < newest < sequence + FOLD_AT and not self._awaited.wait(_PAUSE_S):
            if time.monotonic() > deadline or (
                self._folder is not None and (self._folder / _AWAITED).exists()
            ):
                return False
            before, newest = newest, self._store.sequence()
        is_left = self._is_too_far(sequence) if self._is_hurried else self._awaited.is_set()
        return newest > sequence and not is_left and time.monotonic() < deadline

    def _is_too_far(self, sequence: int) -> bool:
        """Return whether the index is being closed, and the next process has to follow what comes after an entry."""
        return self._is_hurried and self._store.sequence() - sequence >= _FAR

    def _handle_loss(self, error: Exception) -> None:
        """Go on with the files that are still open, since those on disk are gone or broken, and build new ones."""
        _log.warning("the search index was lost and is built again: %s", error)
        self._lost, self._cleared_at = True, None
        self._start(self._rebuild)

    def _rebuild(self) -> None:
        replacement = self._replace() if self._cleared_at is None else self._open_or_replace()
        if replacement.sequence == 0:  # no other process has built it meanwhile
            replacement = self._build(replacement)
        with self._lock:
            self._committed = replacement
            self._forget_tail(replacement.sequence)
            self._lost, self._cleared_at = False, None

    # -- folding -----------------------------------------------------------------------------------

    def fold(self) -> bool:
        """Commit all changes since the last commit.

        Returns:
            Whether that was done; False if another process is writing.
        """
        with self._lock:
            newest = self._store.sequence()
            committed = self._committed if self._committed is not None else self._open()
            is_far_behind = not self._lost and newest - self._followed >= FOLD_AT
            if not is_far_behind:
                self._catch_up()
                if not self._count_waiting() or self._lost:
                    return False
                fresh = [leaf for index in self._fresh.values() for leaf in index.list_leaves()]
                stale = [key for keys in self._stale.values() for key in keys]
                sequence = self._followed

        def fill(batch: IndexBatch) -> int:
            if is_far_behind:  # from the journal to the disk, without holding all of it in memory
                return self._fill_load(batch, committed.sequence, newest)
            for key in (*stale, *(leaf.key for leaf in fresh)):
                batch.remove(key)
            for leaf in fresh:
                batch.add(leaf)
            return sequence

        self._written.clear()
        self._awaited.clear()
        try:
            with delaying_forks(self._awaited):
                committed.write(fill)
        except WriterBusy:
            return False
        except IndexCorrupt as error:
            self._written.set()
            with self._lock:
                if not self._lost:
                    self._handle_loss(error)
            return False
        finally:
            self._written.set()
        if is_far_behind:
            with self._lock, contextlib.suppress(IndexCorrupt):  # the next search finds out
                if self._committed is committed and not self._lost:
                    committed.refresh()
                    self._forget_tail(committed.sequence)
        return True

    def scrub(self) -> bool:
        """Empty the index on disk, so that no file has a word of erased text, in a time that is the same for any size.

        Tantivy only marks deleted passages; their words stay in the files until these are merged. All processes go on
        with the files that they have open, without what was erased, until the index has been built again: from two
        seconds after the last erasure on, and some more for a large index, at a search, or else on closing.

        Returns:
            Whether that was done; False if another process was writing the whole time.
        """
        if self._folder is None:
            return True
        deadline = time.monotonic() + _WAIT_FOR_SCRUB_S
        while True:
            self._awaited.set()
            try:
                with delaying_forks(self._awaited):
                    TantivyIndex(self._folder).clear()
                break
            except WriterBusy:
                if time.monotonic() > deadline:
                    return False
                with contextlib.suppress(OSError):
                    (self._folder / _AWAITED).touch()
                time.sleep(0.02)
            except IndexCorrupt as error:
                _log.warning("the search index cannot be emptied and is removed: %s", error)
                remove_index(self._folder)
                if self._folder.exists():
                    return False
                break
        with self._lock:
            self._catch_up()
            if self._cleared_at is not None:
                self._cleared_at = time.monotonic()
        return True

    def rebuild(self) -> None:
        """Delete the index and build it again from the store. Other processes that have it open notice."""
        with self._lock:
            self._lost, self._cleared_at, self._problem = False, None, ""
            self._rebuild()

    def _fold_quietly(self) -> None:
        while (is_done := self.fold()) and not self._closing:
            if self._store.sequence() - self._followed < self._fold_at:
                return  # no more changes were made meanwhile
        if not is_done and not self._lost:
            time.sleep(0.05)  # another process is writing
        if self._lost:  # found by this thread, or while it was busy
            self._rebuild()

    def _run_unless_store_fails(self, work: Callable[[], object]) -> None:
        try:
            work()
        except StoreError as error:  # the next call on the store raises it again
            _log.warning("the search index is left as it is: %s", error)

    def _start(self, work: Callable[[], object]) -> None:
        if self._closing:  # the store may be closed before the work is done
            return
        if self._folding is None or not self._folding.is_alive():
            self._folding = threading.Thread(
                target=self._run_unless_store_fails, args=(work,), name="reverie-index", daemon=True
            )
            self._folding.start()

    def _is_worth_folding(self) -> bool:
        try:
            behind = self._store.sequence() - self._followed
        except StoreError:  # the fold would fail too
            return False
        return behind < _FAR and self._count_waiting() + behind >= FOLD_ON_CLOSE

    def close(self) -> None:
        """Commit what was followed, and the changes since unless they are many: then the next process follows them."""
        self._closing = self._is_hurried = True  # before the lock, which the thread may have for long
        self._awaited.set()
        with self._lock:
            folding = self._folding
        if folding is not None:
            folding.join()
        self._is_hurried = False
        with self._lock:
            worthwhile = self._committed is not None and self._is_worth_folding()
        if self._cleared_at is not None:  # so that the next process need not build it at its first search
            self._run_unless_store_fails(self._rebuild)
        elif worthwhile and self._folder is not None:
            self._run_unless_store_fails(self.fold)
        with self._lock:
            self._committed = None
            self._forget_tail(0)
