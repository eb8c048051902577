"""Judge of pairs: does a changed record end a similar older one, or may it have replaced it?

A fitted model of pairs decides, without a language model. Nothing is deleted, and every change is in the journal.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from reverie.domain.change import Change, JournalEntry
from reverie.domain.errors import Conflict, StoreError, translate_os_errors
from reverie.domain.filter import Filter, get_start
from reverie.domain.lazy_dataclass import replace
from reverie.domain.passage import CandidateQuery
from reverie.domain.record import ORIGINS, STANDING, Record
from reverie.domain.similarity.grounding import extract_content, is_among
from reverie.domain.similarity.pair_model import (
    PairContext,
    is_comparable,
    judge_pair,
    list_thresholds,
    rank_similar,
)
from reverie.domain.text.tokenizer import tokenize
from reverie.repositories.records import COMPATIBLE
from reverie.search.index.search_index import SearchIndex
from reverie.stores.base import NestedChange
from reverie.stores.forks import ForkSafeLock
from reverie.stores.protocol import iter_rows, read_or_none
from reverie.stores.writer import StoreWriter

if TYPE_CHECKING:
    from reverie.search.vectors.vector_index import VectorIndex

_log = logging.getLogger("reverie")

ACTOR = "rules"
"""Author of the changes in the journal."""

POSITION = "pairs.judged"
"""Cursor with the number of the last journal entry that was considered."""

MAX_RECORDS = 32
"""Changed records that a search judges before it answers."""

MAX_BACKLOG = 512
"""Changes since the last judgement after which a search leaves them to the worker."""
MAX_TIME_S = 1.0
"""Time that a search gives to judging."""

NEAREST = 5
"""Similar records by words, and as many by vectors, with which a changed record is compared."""

_WITHDRAWALS = frozenset({"archive", "withdraw"})
_POOL = 24
_MAX_WORDS = 32


_Similar: TypeAlias = tuple[Record, float | None, PairContext]
"""A record that is similar to another, with the cosine of their vectors if there are any."""


def _is_compared(record: Record, scope: str, now: datetime) -> bool:
    return (
        record.scope == scope
        and not (record.archived or record.is_headline or record.is_item)
        and (record.expires_at is None or record.expires_at > now)
        and is_comparable(record.content)
    )


class PairJudge:
    """Judge of changed records. Safe to use from several threads and processes."""

    def __init__(self, writer: StoreWriter, index: SearchIndex, vectors: VectorIndex | None) -> None:
        """Create a judge.

        Args:
            writer: The writer of the store.
            index: Index of candidates in it.
            vectors: Index of vectors; None judges by words alone.
        """
        self._writer = writer.acting(ACTOR)
        self._store = writer.store
        self._index = index
        self._vectors = vectors
        self._clock = writer.clock
        self._lock = ForkSafeLock()
        self._position: int | None = None
        self._left_at: int | None = None  # the newest entry when a search left too many to the worker

    def has_pending(self) -> bool:
        """Return whether there are changes since the last ones that were judged, or left to the worker."""
        return self._store.sequence() not in (self._position, self._left_at)

    def prepare_search(self) -> None:
        """Judge pending records for a search, within `MAX_RECORDS` and `MAX_TIME_S`; a failure is only logged.

        After more than `MAX_BACKLOG` changes, such as an import, the worker or the next dream judges them. No search
        waits until they have.
        """
        try:
            if self.has_pending() and self._lock.acquire(timeout=MAX_TIME_S):
                try:
                    with translate_os_errors("the model of pairs cannot be read"):
                        self._judge_pending(
                            self._store.sequence(), MAX_RECORDS, MAX_TIME_S, backlog=MAX_BACKLOG
                        )
                finally:
                    self._lock.release()
        except NestedChange:
            return  # a search within a reading block sees one state of the store; a later one judges
        except StoreError as error:
            _log.warning("changed records could not be judged: %s", error)

    def judge_pending(self) -> int:
        """Judge all records that were changed since the last time, write the result, and return their number.

        Raises:
            StoreError: the result could not be written.
        """
        with self._lock:
            return self._judge_pending(self._store.sequence())

    def _judge_pending(
        self, newest: int, most: float = inf, time_s: float = inf, *, backlog: float = inf
    ) -> int:
        """Judge what was changed up to an entry of the journal, unless that is more than `backlog` entries."""
        ends_at = time.monotonic() + time_s
        position = start = self._read_position()
        if newest - start > backlog:
            self._left_at = newest
            return 0
        judged: dict[str, None] = {}
        changes: dict[str, Change] = {}
        is_over = has_erased = False
        for entry in iter_rows(self._store, after=start, until=newest):
            if _has_new_content(entry) and _get_id(entry) not in judged:
                if is_over := len(judged) >= most or time.monotonic() > ends_at:
                    break
                judged[_get_id(entry)] = None
                self._judge(entry, changes)
            has_erased |= entry.subject == "record" and entry.edit is None
            position = entry.sequence
            if position == newest:
                break  # without another look into the journal
        if position == start:
            return 0
        if has_erased:
            self._unlink_erased(changes)
        try:
            if changes or judged:
                rows = self._writer.commit(
                    list(changes.values()), operation="settle", cursors={POSITION: str(position)}
                )
                own = list(range(position + 1, position + len(rows) + 1))
                if not is_over and [row.sequence for row in rows] == own:
                    position += len(rows)
        except Conflict:
            return 0  # another writer was faster: the next search judges again
        self._position = position
        return len(judged)

    def _read_position(self) -> int:
        stored = self._store.cursor(POSITION) or "0"
        return max(self._position or 0, int(stored) if stored.isascii() and stored.isdigit() else 0)

    def _judge(self, entry: JournalEntry, changes: dict[str, Change]) -> None:
        """Add the changes of the records that are linked to a changed one, or similar to it."""
        name, now = _get_id(entry), self._clock()
        is_gone = entry.after is None or entry.operation in _WITHDRAWALS
        for old in list(self._get(self._store.citing([name]), changes)):
            if old.perhaps_replaced_by == name or (is_gone and old.replaced_by == name):
                self._unlink(old, changes)
            elif old.replaced_by == name and old.references:
                self._mark_tellers(old, changes)
        record = next(iter(self._get([name], changes)), None)
        if record is None or not _is_compared(record, record.scope, now):
            return
        if record.perhaps_replaced_by and entry.edit is not None and entry.before is not None:
            _add(changes, record, replace(record, perhaps_replaced_by=""))
        for similar in self._find_similar(record, entry.key, now):
            for other in self._get([similar[0].id], changes):
                (record,) = self._get([name], changes)
                is_newer = entry.before is not None or get_start(record) >= get_start(other)
                old, new = (other, record) if is_newer else (record, other)
                if _may_replace(old, new, now):
                    self._settle(old, new, similar, changes)

    def _mark_tellers(self, ended: Record, changes: dict[str, Change]) -> None:
        """Add the marks of the other records from the turns of a replaced one that have half of its words."""
        words = extract_content(ended.content)
        for other in list(self._get(self._store.citing(ended.references), changes)):
            is_live = not (other.archived or other.replaced_by or other.id == ended.replaced_by)
            own = extract_content(other.content) if is_live else frozenset()
            if 0 < len(words) <= 2 * sum(is_among(word, own) for word in words):
                _add(changes, other, replace(other, perhaps_replaced_by=ended.replaced_by))

    def _find_similar(self, record: Record, key: int, now: datetime) -> list[_Similar]:
        """Return the nearest comparable records of the same scope by words, then by vectors."""
        allowed = Filter(scopes=(record.scope,), alive_at=now, headlines=False)
        words = list(dict.fromkeys(tokenize(record.content)))[:_MAX_WORDS]
        query = CandidateQuery(words=[(word, 1.0) for word in words])
        keys = self._index.search_any("record", query, allowed, _POOL) if words else []
        cosines = {} if self._vectors is None else self._vectors.find_similar("record", key, allowed.scopes)
        nearest = sorted(cosines, key=lambda other: -cosines[other])[: NEAREST + 1]
        keys = [other for other in dict.fromkeys((*keys, *nearest)) if other != key]
        found = {
            other: value
            for other, value in zip(keys, read_or_none(self._store.records, keys), strict=True)
            if value is not None and _is_compared(value, record.scope, now)
        }
        held = self._index.frequencies("record", words, allowed.scopes)
        total = self._store.measure("record", allowed.scopes).passages
        others = list(found)
        texts = [set(tokenize(found[other].content)) for other in others]
        contexts = {others[number]: each for number, each in rank_similar(words, texts, held, total)}
        last = PairContext(place=len(contexts), share=0.0, nearness=0.0, rarity=0.0)
        first = max(found, key=lambda other: cosines.get(other, -1.0), default=key)
        similar = []
        for other in dict.fromkeys((*list(contexts)[:NEAREST], *filter(found.__contains__, nearest))):
            cosine, is_same = cosines.get(other), found[other].category == record.category
            lag = 0.0 if cosine is None else cosines[first] - cosine
            context = contexts.get(other, last)._replace(has_same_category=is_same, lag=lag)
            similar.append((found[other], cosine, context))
        return similar

    def _unlink_erased(self, changes: dict[str, Change]) -> None:
        """Add the changes of the records that are linked to an erased one, of which the journal has no id."""
        linked = [each for each in self._store.find(Filter()) if each.replaced_by or each.perhaps_replaced_by]
        targets = {name for each in linked for name in (each.replaced_by, each.perhaps_replaced_by) if name}
        left = {each.id for each in self._store.records(sorted(targets))}
        for old in list(self._get([each.id for each in linked], changes)):
            if not {old.perhaps_replaced_by, old.replaced_by} <= {*left, ""}:
                self._unlink(old, changes)

    def _unlink(self, old: Record, changes: dict[str, Change]) -> None:
        """Add the change of a record that a later one no longer marks, or else no longer ends."""
        is_marked = bool(old.perhaps_replaced_by)
        _add(changes, old, replace(old, perhaps_replaced_by="") if is_marked else self._revive(old))

    def _revive(self, old: Record) -> Record:
        """Return a record that a withdrawn one had ended, as it was valid before; unchanged if a person ended it."""
        for entry in self._store.journal(id=old.id, newest_first=True):
            before, after = entry.before, entry.after
            if not isinstance(after, Record) or after.replaced_by != old.replaced_by:
                break
            if not isinstance(before, Record) or before.replaced_by != old.replaced_by:
                if entry.actor != ACTOR:
                    break
                return replace(old, replaced_by="", valid_to=getattr(before, "valid_to", None))
        return old

    def _settle(self, old: Record, new: Record, similar: _Similar, changes: dict[str, Change]) -> None:
        """Add the change of an older record if a newer one replaces it, or may have."""
        context = similar[2]._replace(days=(get_start(new) - get_start(old)) / timedelta(days=1))
        chance = judge_pair(old.content, new.content, similar[1], context)
        thresholds = list_thresholds(with_vectors=similar[1] is not None)
        if chance >= thresholds["ends"]:
            valid_to = max(get_start(new), old.valid_from or get_start(new))
            _add(changes, old, replace(old, replaced_by=new.id, valid_to=valid_to, perhaps_replaced_by=""))
        elif chance >= thresholds["marks"]:
            _add(changes, old, replace(old, perhaps_replaced_by=new.id))

    def _get(self, names: Sequence[str], changes: dict[str, Change]) -> Iterator[Record]:
        """Yield the records of some ids with the changes so far."""
        for record in filter(None, read_or_none(self._store.records, names)):
            change = changes.get(record.id)
            yield record if change is None or not isinstance(change.after, Record) else change.after


def _add(changes: dict[str, Change], before: Record, after: Record) -> None:
    """Add a change of a record to those before it, as one change."""
    known = changes.get(before.id)
    first = before if known is None else known.before
    if first == after:
        changes.pop(before.id, None)
    else:
        changes[before.id] = Change(before=first, after=after)


def _get_id(entry: JournalEntry) -> str:
    return "" if entry.edit is None else entry.edit.id


def _has_new_content(entry: JournalEntry) -> bool:
    """Return whether a change made, reworded, archived, restored or deleted a record.

    A change that an undo makes is not judged again, so that what a person took back stays so.
    """
    if entry.subject != "record" or entry.edit is None:
        return False
    before, after = entry.before, entry.after
    if entry.operation == "undo":
        return after is None
    if not isinstance(before, Record) or not isinstance(after, Record):
        return True
    return (before.content, before.archived, before.scope) != (after.content, after.archived, after.scope)


def _may_replace(old: Record, new: Record, now: datetime) -> bool:
    """Return whether rules allow that an older record is ended or marked because of a newer one."""
    return (
        not (old.pinned or old.kind == "event" or old.replaced_by)
        and (old.kind != "constraint" or new.kind in STANDING)  # a fact is no other rule
        and (old.valid_to is None or old.valid_to > now)
        and (new.valid_to is None or new.valid_to > now)
        and ORIGINS.index(new.origin) <= ORIGINS.index(old.origin)
        and new.id not in old.metadata.get(COMPATIBLE, "").split()
        and old.id not in new.metadata.get(COMPATIBLE, "").split()
    )
