"""Search index that follows the journal and finds candidates as of the latest change.

The index is derived from the store. A tantivy commit on disk is complete up to some journal entry. Later changes are
in two small inverted indexes: passages as they are now (`fresh`), and committed versions that are out of date
(`stale`). Together they give the same candidates and exactly the same word statistics as a new commit, in every
process, after every write. Of erased passages (`Store.erase`) only the keys are noted (`gone`); the commit tells what
to subtract.

When the inverted indexes have grown, the process that gets tantivy's writer lock commits them on a thread of its own.
The others notice the commit and drop what it covers. A missing or damaged index is rebuilt from the store, in memory
if the disk refuses it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from reverie.domain.change import JournalEntry
from reverie.domain.conversation import Turn
from reverie.domain.errors import StoreError
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Paragraph
from reverie.domain.passage import (
    SEARCHABLE,
    Analyse,
    AnalyzedText,
    CandidateQuery,
    Searchable,
    TermWeight,
)
from reverie.domain.record import Record
from reverie.search.index.candidates import compute_rarities
from reverie.search.index.inverted_index import IndexedPassage, InvertedIndex, Value, build_predicate
from reverie.search.index.tantivy_index import (
    IndexBatch,
    IndexCorrupt,
    TantivyIndex,
    WriterBusy,
    remove_index,
    remove_older,
)
from reverie.stores.forks import renew_lock_after_fork
from reverie.stores.protocol import Store

if TYPE_CHECKING:
    from reverie.search.index.status import IndexStatus

_log = logging.getLogger("reverie")

FOLD_AT = 1_000
"""Fold when so many passages are in no commit: searching them costs well under a millisecond."""

FOLD_ON_CLOSE = 200
"""Fold on closing when so many are: reading them at the next start costs about ten milliseconds."""

_BATCH = 1_000
_MOST_EXTENTS = 10_000
_MOST_COUNTS = 20_000  # words of one selection of scopes
_MOST_COUNTED = 200  # selections
_REBUILD_AT = 2_000
_WAIT_FOR_REBUILD_S = 60.0
_WAIT_FOR_SCRUB_S = 30.0
_TRIES = 3
_NOT_FOLLOWED = -1
_FEW = 8  # entries of the journal whose texts are analyzed again sooner than read
_NEAR = 50  # passages that are looked at for words near an unknown one


class SearchIndex:
    """Candidates and exact word statistics over a store. Safe to use from several threads.

    Nothing is opened before the first question.
    """

    def __init__(
        self, store: Store, folder: Path | None, *, analyse: Analyse, fold_at: int = FOLD_AT
    ) -> None:
        """Follow `store`, with the commit in `folder` (None: in memory).

        Args:
            store: The truth.
            folder: Where the index lies; it may be missing, outdated or broken.
            analyse: The same analyzer that the store was opened with.
            fold_at: Fold when so many passages are in no commit.
        """
        self._store = store
        self._folder = folder
        self._analyse = analyse
        self._fold_at = fold_at
        self._lock = threading.RLock()
        renew_lock_after_fork(self)
        self._folding: threading.Thread | None = None
        self._closing = False
        self._committed: TantivyIndex | None = None
        self._lost = False
        self._problem = ""
        self._followed = 0
        self._extents: dict[tuple[Searchable, tuple[str, ...], str | None], tuple[int, bool]] = {}
        self._extents_at = 0
        self._counts: dict[tuple[Searchable, tuple[str, ...] | None, str | None], dict[str, int]] = {}
        self._counts_at = 0
        self._question = threading.local()
        self._forget_tail(0)

    def _reset_after_fork(self) -> None:
        self._committed, self._lost = None, False
        self._forget_tail(0)

    # -- reading -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Follow the journal at the first call of this thread only, until the block ends.

        For one question, whose reads of the store see one state of it (`Store.reading`).
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
        """Return the keys of passages that may answer best, the newest changes included.

        Args:
            subject: Records, turns, or paragraphs.
            query: The query.
            allowed: What the result is restricted to.
            limit: At most so many from the commit, and so many from what changed since.
            category: With scopes, count words in this category alone, to which the filter is restricted.
        """
        with self._lock:
            committed = self._catch_up()
            if allowed.scopes is not None:
                weights = self._compute_rarities(subject, query, allowed.scopes, category)
                return self._search_weighted(subject, weights, allowed, limit, brief=True)
            passes = build_predicate(subject, allowed)
            fresh = self._fresh[subject].search_any(query, passes, limit)
            return (
                self._search_without_stale(
                    subject, limit, lambda most: committed.search_any(subject, query, allowed, most)
                )
                + fresh
            )

    def alike(self, cues: Sequence[str], allowed: Filter, limit: int) -> tuple[list[int], int]:
        """Return the keys of records that may say the same as another: they share some of its cues.

        Args:
            cues: The cues of the other one.
            allowed: What the result is restricted to.
            limit: At most so many from the commit, and so many from what changed since.

        Returns:
            Their keys, and the journal row up to which this is the whole answer.
        """
        with self._lock:
            committed = self._catch_up()
            if allowed.scopes is not None:
                weights = [TermWeight(among="cues", token=cue, weight=1) for cue in cues]
                return self._search_weighted("record", weights, allowed, limit, brief=False), self._followed
            fresh = self._fresh["record"].alike(cues, build_predicate("record", allowed), limit)
            keys = self._search_without_stale(
                "record", limit, lambda most: committed.alike(cues, allowed, most)
            )
            return fresh + keys, self._followed

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
            committed = self._catch_up()
            if scopes is not None and self._measure_extent(subject, scopes, category)[1]:
                scopes = None
            if self._counts_at != self._followed or len(self._counts) >= _MOST_COUNTED:
                self._counts_at = self._followed
                self._counts.clear()
            known = self._counts.setdefault(
                (subject, None if scopes is None else tuple(scopes), category), {}
            )
            if len(known) >= _MOST_COUNTS:
                known.clear()
            unknown = [word for word in words if word not in known]
            if unknown:
                fresh, stale, gone = self._fresh[subject], self._stale[subject], sorted(self._gone[subject])
                for word in unknown:
                    known[word] = (
                        committed.compute_frequency(subject, word, scopes, category)
                        + fresh.compute_frequency(word, scopes, category)
                        - stale.compute_frequency(word, scopes, category)
                        - (committed.among(subject, word, scopes, gone, category) if gone else 0)
                    )
            return {word: known[word] for word in words}

    def collect_words(
        self,
        subject: Searchable,
        word: str,
        allowed: Filter,
        *,
        category: str | None = None,
    ) -> set[str]:
        """Return the words of passages that have a word near this one, and all words that no commit holds yet.

        Args:
            subject: Records, turns, or paragraphs.
            word: The word, in the analyzer's form.
            allowed: Whose passages are looked at: the newest that have a word near it.
            category: Only words of this category, to which the filter is restricted.
        """
        with self._lock:
            committed = self._catch_up()
            words = set(self._fresh[subject].list_words(allowed.scopes, category))
            keys = committed.search_near(subject, word, allowed, _NEAR)
        for passage in self._store.passages(subject, keys):
            words.update(passage.terms.split())
        return words

    def status(self) -> IndexStatus:
        """Return the state of the index."""
        from reverie.search.index.status import IndexStatus  # here: seldom needed

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

    def collect_keys(self, subject: Searchable, after: int, until: int | None) -> set[int]:
        """Return the keys of all passages that a search could find, for comparing with the store.

        Args:
            subject: Records, turns, or paragraphs.
            after: Only larger ones.
            until: Only those up to this one; None for all.

        Raises:
            IndexCorrupt: the commit cannot be read.
        """
        with self._lock:
            committed = self._catch_up().collect_keys(subject, after, until)
            fresh = self._fresh[subject].collect_keys()
            in_range = {key for key in fresh if after < key and (until is None or key <= until)}
            return (committed - self._collect_stale_keys(subject)) | in_range

    def _compute_rarities(
        self, subject: Searchable, query: CandidateQuery, scopes: Collection[str], category: str | None
    ) -> list[TermWeight]:
        """Return the terms, each weighted by its rarity in these scopes. The caller holds the lock."""
        passages, _ = self._measure_extent(subject, scopes, category)
        held = self.frequencies(subject, [word for word, _ in query.words], scopes, category)
        return compute_rarities(query, passages, held)

    def _search_weighted(
        self,
        subject: Searchable,
        weights: Sequence[TermWeight],
        allowed: Filter,
        limit: int,
        *,
        brief: bool,
    ) -> list[int]:
        """Return candidates within a scope. What other scopes hold must not change them.

        So they are not chosen by tantivy's BM25, whose frequencies are those of all scopes, and neither by
        what is in the commit and what is not yet, which depends on what others write: all matches are put in
        order by exact figures, those of the same figure the newest first. The caller has the lock.
        """
        committed = self._committed
        assert committed is not None
        fresh = self._fresh[subject].search_weighted(
            weights, build_predicate(subject, allowed), limit, brief=brief
        )
        if committed.holds_none(subject, weights):
            return [key for key, _ in fresh]
        if allowed.scopes is not None and self._measure_extent(subject, allowed.scopes)[1]:
            allowed = replace(allowed, scopes=None)
        left_out = self._collect_stale_keys(subject)

        most = 4 * limit
        while True:
            scored = committed.search_weighted(subject, weights, allowed, most, brief=brief)
            is_all = len(scored) < most
            least = -1 if is_all else scored[-1][1]  # of that figure there may be more
            kept = [(key, figure) for key, figure in scored if figure > least and key not in left_out]
            if is_all or len(kept) >= limit:
                break
            # There may be thousands of the same figure, such as all that have just the one frequent word, so
            # the newest of them are looked for among the newest that have anything at all.
            newest = committed.search_newest(subject, weights, allowed, most)
            scored = committed.search_weighted(
                subject, weights, allowed, most, brief=brief, after=newest[-1] - 1
            )
            tied = sorted((key for key, figure in scored if figure == least), reverse=True)
            kept += [(key, least) for key in tied if key not in left_out]
            if len(kept) >= limit:
                break
            most *= 8
        best = sorted(fresh + kept, key=lambda one: (-one[1], -one[0]))
        return [key for key, _ in best[:limit]]

    def _collect_stale_keys(self, subject: Searchable) -> Set[int]:
        """Return the keys of committed passages that are out of date."""
        stale, gone = self._stale[subject].collect_keys(), self._gone[subject]
        return stale | gone if stale or gone else frozenset()

    def _measure_extent(
        self, subject: Searchable, scopes: Collection[str], category: str | None = None
    ) -> tuple[int, bool]:
        """Return the number of passages in some scopes, and whether that is all: then no filter is needed.

        The result is cached until something changes. The caller holds the lock and has caught up.
        """
        if self._extents_at != self._followed or len(self._extents) >= _MOST_EXTENTS:
            self._extents_at = self._followed
            self._extents.clear()
        asked = (subject, tuple(scopes), category)
        known = self._extents.get(asked)
        if known is None:
            passages = self._store.measure(subject, asked[1], category=category).passages
            known = passages, passages == self._store.measure(subject, None).passages
            if self._store.sequence() != self._followed:  # counted later than what is followed here
                return passages, False
            self._extents[asked] = known
        return known

    def _search_without_stale(
        self, subject: Searchable, limit: int, ask: Callable[[int], list[int]]
    ) -> list[int]:
        stale, gone = self._stale[subject], self._gone[subject]
        left_out = len(stale) + len(gone)
        if not left_out:
            return ask(limit)
        most = limit + min(left_out, limit)
        while True:
            keys = ask(most)
            current = [key for key in keys if key not in stale and key not in gone]
            if len(current) >= limit or len(keys) < most:
                return current[:limit]
            most *= 4

    # -- following ---------------------------------------------------------------------------------

    def notice(self, rows: Sequence[JournalEntry]) -> None:
        """Apply changes that this process made, which saves reading them from the journal."""
        with self._lock:
            if self._committed is not None and rows and rows[0].sequence == self._followed + 1:
                for row in rows:
                    self._follow(row, {})
                self._followed = rows[-1].sequence

    def _catch_up(self) -> TantivyIndex:
        """Apply everything that the journal holds. The caller holds the lock."""
        # A thread whose view of the store is older may have gone back to a commit meanwhile, and followed less.
        followed = getattr(self._question, "followed", None)
        if (
            followed not in (None, _NOT_FOLLOWED)
            and self._committed is not None
            and self._followed >= followed
        ):
            return self._committed
        newest = self._store.sequence()  # first: who has lost the store has no business with its index
        committed = self._committed if self._committed is not None else self._open()
        if self._lost:
            self._start(self._rebuild)  # unless that is under way
        else:
            try:
                if committed.refresh():
                    self._forget_tail(committed.sequence)
            except IndexCorrupt as error:
                self._handle_loss(error)
        while self._followed < newest:
            rows = self._store.journal(after=self._followed, until=newest, limit=_BATCH)
            if not rows:
                break
            analyses = self._read_analyses(rows)
            for row in rows:
                self._follow(row, analyses)
            self._followed = rows[-1].sequence
        if self._count_waiting() >= self._fold_at:
            self._start(self._fold_quietly)
        if followed is not None:
            self._question.followed = self._followed
        return committed

    def _read_analyses(self, rows: Sequence[JournalEntry]) -> dict[tuple[str, int], AnalyzedText]:
        """Return what the store keeps beside the values that entries of the journal left, by subject and key.

        Analyzing hundreds of texts again would take most of the time of a process that answers one question.
        """
        if len(rows) < _FEW:
            return {}
        analyses: dict[tuple[str, int], AnalyzedText] = {}
        for subject in SEARCHABLE:
            keys = [row.key for row in rows if row.subject == subject]
            for passage in self._store.passages(subject, keys):
                analyses[subject, passage.key] = passage.analysis
        return analyses

    def _follow(self, row: JournalEntry, analyses: Mapping[tuple[str, int], AnalyzedText]) -> None:
        if row.subject not in SEARCHABLE:
            return
        fresh, stale = self._fresh[row.subject], self._stale[row.subject]
        before, after = row.before, row.after
        if row.forgotten:
            # What the commit has of it is not known any more, so its words cannot be counted off: the key
            # is noted, and the commit itself is asked in which of these keys a word stands.
            fresh.remove(row.key)
            stale.remove(row.key)
            if self._committed is None or row.key <= self._committed.sequence:
                self._gone[row.subject].add(row.key)
        elif row.key in fresh:
            fresh.remove(row.key)
        elif row.key not in stale and _is_live(before):
            stale.add(IndexedPassage(row.key, before, self._analyse(before)))
        if _is_live(after):
            analysis = analyses.get((row.subject, row.key)) or self._analyse(after)
            fresh.add(IndexedPassage(row.key, after, analysis))

    def _forget_tail(self, followed: int) -> None:
        self._followed = followed
        self._counts.clear()
        self._fresh: dict[Searchable, InvertedIndex] = {subject: InvertedIndex() for subject in SEARCHABLE}
        self._stale: dict[Searchable, InvertedIndex] = {subject: InvertedIndex() for subject in SEARCHABLE}
        self._gone: dict[Searchable, set[int]] = {subject: set() for subject in SEARCHABLE}

    def _count_waiting(self) -> int:
        sides: tuple[Mapping[Searchable, Sized], ...] = (self._fresh, self._stale, self._gone)
        return sum(len(lexicon) for side in sides for lexicon in side.values())

    # -- opening and building ------------------------------------------------------------------------

    def _open(self) -> TantivyIndex:
        try:
            committed = TantivyIndex(self._folder)
        except IndexCorrupt as error:
            _log.warning("the search index cannot be read and is built again: %s", error)
            committed = self._replace()
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
        """Fill an empty index from the store; wait if another process does so."""
        deadline = time.monotonic() + _WAIT_FOR_REBUILD_S
        broken = 0
        while True:
            try:
                try:
                    committed.write(self._fill, merge=True)
                except WriterBusy:
                    if time.monotonic() > deadline:
                        return committed  # correct all the same: everything is followed in memory
                    time.sleep(0.05)
                committed.refresh()
            except IndexCorrupt as error:  # deleted while it was built, or the disk is full
                broken += 1
                committed = self._replace() if broken < _TRIES else self._open_in_memory(error)
                continue
            if committed.sequence or not self._store.sequence():
                return committed

    def _fill(self, batch: IndexBatch) -> int:
        """Add every passage of the store, then the changes that the journal has got meanwhile."""
        sequence = self._store.sequence()
        for leaf in self._iterate_leaves():
            batch.add(leaf)
        while rows := self._store.journal(after=sequence, limit=_BATCH):
            for row in rows:
                batch.remove(row.key)
                after = row.after
                if _is_live(after):
                    batch.add(IndexedPassage(row.key, after, self._analyse(after)))
            sequence = rows[-1].sequence
        return sequence

    def _iterate_leaves(self) -> Iterator[IndexedPassage]:
        for subject in SEARCHABLE:
            after = 0
            while batch := self._store.live(subject, after=after, limit=_BATCH):
                after = batch[-1][0].key
                for passage, value in batch:
                    yield IndexedPassage(passage.key, value, passage.analysis)

    def _handle_loss(self, error: Exception) -> None:
        """Go on with the files that are still open, since those on disk are gone or broken, and build new ones."""
        _log.warning("the search index was lost and is built again: %s", error)
        self._lost = True
        self._start(self._rebuild)

    def _rebuild(self) -> None:
        replacement = self._build(self._replace())
        with self._lock:
            self._committed = replacement
            self._forget_tail(replacement.sequence)
            self._lost = False

    # -- folding -----------------------------------------------------------------------------------

    def fold(self) -> bool:
        """Make a commit of everything that changed since the last.

        Returns:
            Whether it was made; False when another process is writing, which is fine.
        """
        with self._lock:
            committed = self._catch_up()
            if not self._count_waiting() or self._lost:
                return False
            fresh = [leaf for lexicon in self._fresh.values() for leaf in lexicon.list_leaves()]
            stale = [leaf.key for lexicon in self._stale.values() for leaf in lexicon.list_leaves()]
            stale += [key for keys in self._gone.values() for key in keys]
            sequence = self._followed

        def fill(batch: IndexBatch) -> int:
            for key in (*stale, *(leaf.key for leaf in fresh)):
                batch.remove(key)
            for leaf in fresh:
                batch.add(leaf)
            return sequence

        try:
            committed.write(fill, merge=True)
        except WriterBusy:
            return False
        except IndexCorrupt as error:
            with self._lock:
                if not self._lost:
                    self._handle_loss(error)
            return False
        return True

    def scrub(self) -> bool:
        """Write the commit afresh from the store, so that no file holds a word of what was forgotten.

        tantivy only marks what is deleted; its words stay in the files until these are merged. Other
        processes go over to the new commit at their next search, as to any other.

        Returns:
            Whether it was done; False when another process was writing all the while.
        """
        deadline = time.monotonic() + _WAIT_FOR_SCRUB_S
        while True:
            with self._lock:
                committed = self._catch_up()
                unusable = self._lost or bool(self._problem)
            try:
                if unusable:
                    raise IndexCorrupt("it was lost before")
                committed.write(self._fill, merge=False, afresh=True)
            except WriterBusy:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.02)
                continue
            except IndexCorrupt:
                self.rebuild()
                return not self._problem or self._folder is None or not self._folder.exists()
            with self._lock:
                self._catch_up()
            return True

    def rebuild(self) -> None:
        """Delete the index and build it again from the store. Other processes that have it open notice."""
        with self._lock:
            self._lost, self._problem = False, ""
            self._rebuild()

    def _fold_quietly(self) -> None:
        if not self.fold() and not self._lost:
            time.sleep(0.05)  # somebody else folds: do not ask again at once
        if self._lost:  # found by this thread, or while it was busy
            self._rebuild()

    def _run_unless_store_fails(self, work: Callable[[], object]) -> None:
        try:
            work()
        except StoreError as error:  # removed: whoever asks next is told by the store itself
            _log.warning("the search index is left as it is: %s", error)

    def _start(self, work: Callable[[], object]) -> None:
        if self._closing:  # the store may be closed before it is done; who opens it next sees to it
            return
        if self._folding is None or not self._folding.is_alive():
            self._folding = threading.Thread(
                target=self._run_unless_store_fails, args=(work,), name="reverie-index", daemon=True
            )
            self._folding.start()

    def close(self) -> None:
        """Finish pending work, and commit if much has changed since the last commit."""
        with self._lock:
            self._closing = True
            folding = self._folding
        if folding is not None:
            folding.join()
        with self._lock:
            worthwhile = self._committed is not None and self._count_waiting() >= FOLD_ON_CLOSE
        if worthwhile and self._folder is not None:
            self._run_unless_store_fails(self.fold)
        with self._lock:
            self._committed = None
            self._forget_tail(0)


def _is_live(value: object) -> TypeGuard[Value]:
    """Return whether a search may find it: daily notes are not searched, since they repeat turns."""
    return (
        isinstance(value, Turn)
        or (isinstance(value, Record) and not value.archived)
        or (isinstance(value, Paragraph) and value.page == HISTORY)
    )
