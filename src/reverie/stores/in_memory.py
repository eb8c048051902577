"""In-memory store: for tests, throw-away agents, and as the model of other stores.

Other stores are compared with it. So each method is the simplest correct one, and nothing is counted in
advance.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from reverie.domain.category import is_within_category
from reverie.domain.change import (
    Change,
    JournalEntry,
    JournalNote,
    Subject,
    Value,
    build_entries,
    get_subject,
)
from reverie.domain.conversation import SessionOverview, SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import StoreUnavailable
from reverie.domain.filter import Filter, is_record_allowed, is_turn_allowed
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import Analyse, AnalyzedText, CollectionStats, Passage, Searchable
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import BaseStore, build_conflict
from reverie.stores.codec import analyze_searched, find_ids
from reverie.stores.forks import ForkSafeLock
from reverie.stores.protocol import CommitOptions, NestedChange, Order

if TYPE_CHECKING:
    from reverie.stores.protocol import StoreProblem

T = TypeVar("T")
V = TypeVar("V", bound=Value)

_CAPITALS = {ord(capital): ord(capital.lower()) for capital in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


@dataclass(frozen=True, kw_only=True)
class _StoredValue:
    """A stored value with its key, and its analysis, which is made when it is needed."""

    key: int
    value: Value
    analyse: Analyse

    @cached_property
    def analysis(self) -> AnalyzedText | None:
        """Its analysis; None for what is not searched."""
        return analyze_searched(self.value, self.analyse)

    @property
    def place(self) -> tuple[str, int] | None:
        """The session and position of a turn."""
        return (self.value.session, self.value.position) if isinstance(self.value, Turn) else None

    @property
    def words(self) -> tuple[str, str] | None:
        """The scope and fingerprint of a live record."""
        if isinstance(self.value, Record) and not self.value.archived:
            return self.value.scope, self.value.fingerprint
        return None

    @property
    def scope(self) -> str | None:
        """The scope in which search counts it; None if it is not searched."""
        value = self.value
        if isinstance(value, Record):
            return None if value.archived else value.scope
        if isinstance(value, Turn):
            return value.scope
        return "" if isinstance(value, Paragraph) and value.page == HISTORY else None


@dataclass(slots=True)
class _Data:
    """Everything that a store holds, and the number of `reading` blocks that see it."""

    journal: list[JournalEntry] = field(default_factory=list)
    things: dict[tuple[Subject, str], _StoredValue] = field(default_factory=dict)
    keys: dict[int, _StoredValue] = field(default_factory=dict)
    by_words: dict[tuple[str, str], _StoredValue] = field(default_factory=dict)
    places: dict[str, dict[int, _StoredValue]] = field(default_factory=dict)
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    cursors: dict[str, str] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)
    tombstones: set[str] = field(default_factory=set)
    names: dict[int, tuple[Subject, str]] = field(default_factory=dict)  # of every key there ever was
    measures: dict[tuple[Searchable, tuple[str, ...] | None, str | None], tuple[int, CollectionStats]] = (
        field(default_factory=dict)
    )
    readers: int = 0

    def copy(self) -> _Data:
        """Return a copy that can change while others read this one."""
        data = _Data(**{each.name: copy(getattr(self, each.name)) for each in fields(self)})
        data.places = {session: dict(places) for session, places in self.places.items()}
        data.readers = 0
        return data


class InMemoryStore(BaseStore):
    """A store in memory, lost when the program ends. Safe to use from several threads.

    Args:
        analyse: Returns the tokens of a record, turn or paragraph.

    Example:
        >>> store = InMemoryStore(analyse=lambda value: AnalyzedText(terms="", length=0))
        >>> store.sequence()
        0
    """

    def __init__(self, *, analyse: Analyse) -> None:
        self._analyse = analyse
        self._lock = ForkSafeLock(self._reset_after_fork)
        self._closed = False
        self._live = _Data()
        self._thread = threading.local()

    def _reset_after_fork(self) -> None:
        self._closed = True  # it may hold half of a change

    @property
    def _data(self) -> _Data:
        """Data that this thread sees: those of its `reading` block, or the newest."""
        data: _Data | None = getattr(self._thread, "data", None)
        return self._live if data is None else data

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let all reads of this thread see one state until the block ends."""
        if getattr(self._thread, "data", None) is not None:
            yield
            return
        with self._open():
            data = self._live
            data.readers += 1
        self._thread.data = data
        try:
            yield
        finally:
            self._thread.data = None
            with self._lock:
                data.readers -= 1

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock for a change; readers keep the data that they see."""
        if getattr(self._thread, "data", None) is not None:
            raise NestedChange
        with self._open():
            if self._live.readers:
                self._live = self._live.copy()
            yield

    # -- changing ------------------------------------------------------------------------------------

    def commit(
        self, edits: Sequence[Change], *, actor: str, at: datetime, **options: Unpack[CommitOptions]
    ) -> list[JournalEntry]:
        """Make all changes, or none, with a journal row for each."""
        with self._changing():
            self._refuse_if_changed(options.get("since"))
            for name, wanted in (options.get("expected") or {}).items():
                if self._data.cursors.get(name) != wanted:
                    raise build_conflict("cursor", name=name)
            rows = self._apply_changes(edits, actor=actor, at=at, note=options)
            self._data.journal += rows
            for name, value in (options.get("cursors") or {}).items():
                self._data.cursors.pop(name, None)
                if value is not None:
                    self._data.cursors[name] = value
            self._data.counters.update(options.get("counts") or {})
            return rows

    def erase(
        self,
        edits: Sequence[Change],
        *,
        actor: str,
        at: datetime,
        tombstones: Sequence[str] = (),
    ) -> list[JournalEntry]:
        """Make all changes, or none, and remove the content of the things concerned from the journal."""
        with self._changing():
            rows = self._apply_changes(edits, actor=actor, at=at, note={"operation": "forget"})
            first = len(self._data.journal)
            self._data.journal += rows
            last = {(edit.subject, edit.id): number for number, edit in enumerate(edits, first)}
            for number, row in enumerate(self._data.journal):
                newest = last.get(self._data.names[row.key])
                if newest is None:
                    continue
                left = None
                if number == newest and row.after is not None:
                    left = Change(before=None, after=row.after)
                self._data.journal[number] = replace(row, note="", reference="", edit=left)
            self._data.tombstones.update(tombstones)
            self._data.names = {
                key: (name[0], "") if name in last and self._loses_name(name) else name
                for key, name in self._data.names.items()
            }
            return self._data.journal[first:]

    def _loses_name(self, name: tuple[Subject, str]) -> bool:
        return name[0] in ("session", "page") and name not in self._data.things

    def tombstones(self, marks: Sequence[str]) -> set[str]:
        """Return those of some marks that `erase` has stored."""
        with self._open():
            return self._data.tombstones.intersection(marks)

    def scrub(self) -> bool:
        """Return True: nothing is left of erased content."""
        with self._open():
            return True

    def _apply_changes(
        self, edits: Sequence[Change], *, actor: str, at: datetime, note: JournalNote
    ) -> list[JournalEntry]:
        """Make the changes, or none; return their rows, which are not in the journal yet."""
        first = len(self._data.journal) + 1
        keys: list[int] = []
        with ExitStack() as failed:
            for sequence, edit in enumerate(edits, first):
                old = self._get_expected_item(edit)
                key = sequence if old is None else old.key
                new = None if edit.after is None else self._build_item(key, edit.after)
                self._refuse_taken(old, new)
                self._swap(old, new)
                failed.callback(self._swap, new, old)
                keys.append(key)
            self._refuse_gaps(edits)
            failed.pop_all()
        self._data.names.update((key, (edit.subject, edit.id)) for key, edit in zip(keys, edits, strict=True))
        made = ((key, edit.subject, edit) for key, edit in zip(keys, edits, strict=True))
        return build_entries(first, made, at=at, actor=actor, note=note)

    def _refuse_if_changed(self, since: int | None) -> None:
        if since is not None:
            for row in self._data.journal[since:]:
                if row.subject == "record":
                    raise build_conflict("since", sequence=row.sequence, since=since)

    def _get_expected_item(self, edit: Change) -> _StoredValue | None:
        """Return the stored value that a change expects; raise `Conflict` if it differs."""
        old = self._data.things.get((edit.subject, edit.id))
        if edit.before is None:
            if old is not None:
                raise build_conflict("exists", subject=edit.subject, id=edit.id)
            return None
        if old is None:
            raise build_conflict("missing", subject=edit.subject, id=edit.id)
        if old.value != edit.before:
            raise build_conflict("changed", subject=edit.subject, id=edit.id)
        return old

    def _build_item(self, key: int, value: Value) -> _StoredValue:
        return _StoredValue(key=key, value=value, analyse=self._analyse)

    def _refuse_taken(self, old: _StoredValue | None, new: _StoredValue | None) -> None:
        if new is None:
            if (
                old is not None
                and isinstance(old.value, SessionState)
                and self._data.places.get(old.value.id)
            ):
                raise build_conflict("has turns", id=old.value.id)
            return
        value = new.value
        if new.words is not None:
            other = self._data.by_words.get(new.words)
            if other is not None and other is not old:
                raise build_conflict("same words", id=value.id, other=other.value.id)
        if isinstance(value, Turn):
            if ("session", value.session) not in self._data.things:
                raise build_conflict("no session", session=value.session, id=value.id)
            there = self._data.places.get(value.session, {}).get(value.position)
            if there is not None and there is not old:
                raise build_conflict(
                    "place taken", id=value.id, position=value.position, session=value.session
                )

    def _refuse_gaps(self, edits: Sequence[Change]) -> None:
        turns = [value for edit in edits for value in edit.values if isinstance(value, Turn)]
        for session in {turn.session for turn in turns}:
            places = self._data.places.get(session, {})
            for position in range(len(places)):
                if position not in places:
                    raise build_conflict("gap", session=session, position=position)

    def _swap(self, old: _StoredValue | None, new: _StoredValue | None) -> None:
        """Replace one item by another; the reverse call undoes it."""
        for item, insert in ((old, False), (new, True)):
            if item is None:
                continue
            subject = get_subject(item.value)
            for where, name in (
                (self._data.things, (subject, item.value.id)),
                (self._data.keys, item.key),
                (self._data.by_words, item.words),
            ):
                _put(where, name, item, insert)
            if item.place is not None:
                session, position = item.place
                _put(self._data.places.setdefault(session, {}), position, item, insert)

    # -- the journal ---------------------------------------------------------------------------------

    def sequence(self) -> int:
        """Return the number of the newest journal row; 0 if there is none."""
        with self._open():
            return len(self._data.journal)

    def citing(self, ids: Sequence[str]) -> list[str]:
        """Return the ids of values of which a version in the journal names one of these ids."""
        with self._open():
            cited = set(ids)
            found = {
                row.key: value.id
                for row in self._data.journal
                for value in row.values
                if not cited.isdisjoint(find_ids(repr(value)) - {value.id})
            }
            return [found[key] for key in sorted(found)]

    def sequence_at(self, moment: datetime) -> int:
        """Return the number of the last journal row made at a moment or before it; 0 if there is none."""
        with self._open():
            return next((row.sequence for row in reversed(self._data.journal) if row.at <= moment), 0)

    def journal(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        earliest: datetime | None = None,
        latest: datetime | None = None,
        id: str | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[JournalEntry]:
        """Return journal rows in ascending order, or the newest first."""
        with self._open():
            rows = self._data.journal[max(after, 0) : until]
            if newest_first:
                rows.reverse()
            return [
                row
                for row in rows
                if (id is None or self._data.names[row.key][1] == id)
                and (earliest is None or row.at >= earliest)
                and (latest is None or row.at <= latest)
            ][:limit]

    # -- records -------------------------------------------------------------------------------------

    def records_like(self, marks: Sequence[tuple[str, str]]) -> list[Record]:
        """Return the live records with one of these scopes and fingerprints."""
        with self._open():
            items = map(self._data.by_words.get, marks)
            return [item.value for item in items if item is not None and isinstance(item.value, Record)]

    def find(
        self,
        wanted: Filter,
        *,
        order: Order = "updated",
        containing: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Iterator[Record]:
        """Yield the records that match a filter, newest first."""
        found = [
            (record.updated_at if order == "updated" else record.created_at, key, record)
            for key, record in self._list_things(Record)
            if is_record_allowed(wanted, record) and _has_text(record.content, containing)
        ]
        yield from _sort_newest_first(found)[offset : None if limit is None else offset + limit]

    def tally(self, what: Literal["category", "tag", "kind", "scope"], wanted: Filter) -> dict[str, int]:
        """Count the records that match a filter by category, tag, kind or scope."""
        names: dict[str, Callable[[Record], Sequence[str]]] = {
            "category": lambda record: [record.category or ""],
            "tag": lambda record: record.tags,
            "kind": lambda record: [record.kind],
            "scope": lambda record: [record.scope],
        }
        found = Counter(
            name
            for _, record in self._list_things(Record)
            if is_record_allowed(wanted, record)
            for name in names[what](record)
        )
        return dict(sorted(found.items()))

    # -- conversations -------------------------------------------------------------------------------

    def _fetch_turns(self, session: str, start: int, stop: int | None) -> list[Turn]:
        with self._open():
            places = sorted(self._data.places.get(session, {}).items())
            return [item.value for _, item in places if isinstance(item.value, Turn)][start:stop]

    def scan_turns(self, wanted: Filter, *, containing: str | None = None) -> Iterator[Turn]:
        """Yield every turn that matches a filter, newest first."""
        found = [
            (turn.at, key, turn)
            for key, turn in self._list_things(Turn)
            if is_turn_allowed(wanted, turn) and _has_text(turn.content, containing)
        ]
        yield from _sort_newest_first(found)

    def sessions(
        self, *, scopes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        """Return sessions with their numbers of turns, the most recently active first."""
        with self._open():
            found = []
            for key, state in self._list_things(SessionState):
                if scopes is None or state.scope in scopes:
                    turns = self.turns(session=state.id)
                    last_at = turns[-1].at if turns else state.created_at
                    overview = SessionOverview(state=state, turns=len(turns), last_at=last_at)
                    found.append((last_at, key, overview))
        return _sort_newest_first(found)[:limit]

    # -- pages -----------------------------------------------------------------------------------------

    def _fetch_pages(self) -> list[Page]:
        return sorted((page for _, page in self._list_things(Page)), key=lambda page: page.name)

    def _fetch_paragraphs(self, page: str, start: int) -> list[Paragraph]:
        there = [(one.position, key, one) for key, one in self._list_things(Paragraph) if one.page == page]
        return [one for _, _, one in sorted(there, key=lambda one: one[:2])][start:]

    def logs(self) -> dict[str, int]:
        """Return the names of all logs, sorted, with their numbers of paragraphs."""
        return dict(sorted(Counter(one.page for _, one in self._list_things(Paragraph)).items()))

    def latest_paragraphs(self, logs: Sequence[str], *, limit: int) -> list[Paragraph]:
        """Return the last paragraphs of several logs: logs by descending name, last paragraph first."""
        paragraphs = self._list_things(Paragraph)
        there = [(one.page, one.position, key, one) for key, one in paragraphs if one.page in logs]
        return [one for *_, one in sorted(there, key=lambda one: one[:3], reverse=True)[:limit]]

    # -- for search -----------------------------------------------------------------------------------

    def passages(self, subject: Searchable, keys: Sequence[int], *, around: int = 0) -> list[Passage]:
        """Return live passages by key, in any order; unknown and archived ones are left out."""
        with self._open():
            found: dict[int, Passage] = {}
            for item in self._select_items(subject, keys):
                near = [item]
                if isinstance(item.value, Turn):
                    places = self._data.places[item.value.session]
                    reach = range(item.value.position - around, item.value.position + around + 1)
                    near = [places[position] for position in reach if position in places]
                for one in near:
                    if (passage := self._build_passage(one)) is not None:
                        found[one.key] = passage
            return list(found.values())

    def live(
        self, subject: Searchable, *, after: int = 0, limit: int = 1000
    ) -> list[tuple[Passage, Record | Turn | Paragraph]]:
        """Return live passages and their values by ascending key, for building an index."""
        with self._open():
            found: list[tuple[Passage, Record | Turn | Paragraph]] = []
            for key in sorted(key for key in self._data.keys if key > after):
                if len(found) >= limit:
                    break
                value, passage = self._data.keys[key].value, self._build_passage(self._data.keys[key])
                if passage is not None and _is(subject, value):
                    assert isinstance(value, Record | Turn | Paragraph)
                    found.append((passage, value))
            return found

    def measure(
        self, subject: Searchable, scopes: Sequence[str] | None, *, category: str | None = None
    ) -> CollectionStats:
        """Count the live passages and tokens of some scopes (None: of all), exactly."""
        with self._open():
            asked = (subject, None if scopes is None else tuple(scopes), category)
            sequence, measure = self._data.measures.get(asked, (-1, None))
            if measure is None or sequence != len(self._data.journal):
                measure = self._compute_stats(subject, scopes, category)
                self._data.measures[asked] = (len(self._data.journal), measure)
            return measure

    def _compute_stats(
        self, subject: Searchable, scopes: Sequence[str] | None, category: str | None
    ) -> CollectionStats:
        found = [
            item.analysis
            for item in self._data.keys.values()
            if item.analysis is not None
            and _is(subject, item.value)
            and item.scope is not None
            and (scopes is None or item.scope in scopes)
            and (category is None or is_within_category(getattr(item.value, "category", None), category))
        ]
        return CollectionStats(
            passages=len(found),
            tokens=sum(analysis.length for analysis in found),
            speakers=frozenset(analysis.speaker for analysis in found if analysis.speaker),
        )

    def _build_passage(self, item: _StoredValue) -> Passage | None:
        value, analysis = item.value, item.analysis
        if analysis is None or item.scope is None:
            return None
        passage = Passage(key=item.key, **analysis._asdict())
        if isinstance(value, Turn):
            return passage._replace(
                thread=self._data.things["session", value.session].key,
                position=value.position,
                at=to_microseconds(value.at) / 1e6,
                kind="turn",
            )
        if isinstance(value, Paragraph):
            return passage._replace(at=to_microseconds(value.at) / 1e6, kind="paragraph")
        assert isinstance(value, Record)
        return passage._replace(
            at=to_microseconds(value.created_at) / 1e6,
            importance=value.importance,
            confidence=value.confidence,
            kind=value.kind,
            pinned=value.pinned,
            expires_at=None if value.expires_at is None else to_microseconds(value.expires_at) / 1e6,
        )

    # -- working memory --------------------------------------------------------------------------------

    def entries(self, namespace: str | None, *, now: datetime) -> list[Entry]:
        """Return the live entries of a namespace (None: of all) by namespace and key."""
        with self._open():
            found = [entry for entry in self._data.entries.values() if namespace in (None, entry.namespace)]
            live = [entry for entry in found if entry.live(now)]
            return sorted(live, key=lambda entry: (entry.namespace, entry.key))

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        """Set an entry, replacing one with the same namespace and key; False if the namespace is full."""
        with self._changing():
            live = {there.key for there in self.entries(entry.namespace, now=now)}
            if capacity is not None and entry.key not in live and len(live) >= capacity:
                return False
            for there in list(self._data.entries.values()):
                if there.namespace == entry.namespace and not there.live(now):
                    del self._data.entries[there.namespace, there.key]
            self._data.entries[entry.namespace, entry.key] = entry
            return True

    def drop_entries(self, namespace: str, keys: Sequence[str] | None = None) -> int:
        """Remove entries (None: all of the namespace); return how many there were."""
        with self._changing():
            there = [
                name
                for name in self._data.entries
                if name[0] == namespace and (keys is None or name[1] in keys)
            ]
            for name in there:
                del self._data.entries[name]
            return len(there)

    # -- housekeeping ----------------------------------------------------------------------------------

    def count(self, name: str) -> int:
        """Return the value of a counter that `commit` adds to; 0 for an unknown one."""
        with self._open():
            return self._data.counters[name]

    def cursor(self, name: str) -> str | None:
        """Return the value of a cursor set by `commit`; None if there is none."""
        with self._open():
            return self._data.cursors.get(name)

    def cursors(self, prefix: str = "") -> dict[str, str]:
        """Return the values of all cursors by name, or of those whose names begin with a prefix."""
        with self._open():
            cursors = self._data.cursors
            return {name: cursors[name] for name in sorted(cursors) if name.startswith(prefix)}

    def check(self) -> list[StoreProblem]:
        """Return no problems: there is nothing to check."""
        with self._open():
            return []

    def close(self) -> None:
        """Close the store; any other use afterwards raises `StoreUnavailable`."""
        with self._lock:
            self._closed = True

    # -- below -----------------------------------------------------------------------------------------

    def _open(self) -> ForkSafeLock:
        """Return the lock to hold while the store is used; refuse if the store is closed."""
        if self._closed:
            raise StoreUnavailable("the store has been closed: open another")
        return self._lock

    def _list_things(self, kind: type[V]) -> list[tuple[int, V]]:
        """Return the key and the value of everything of a type."""
        with self._open():
            items = self._data.keys.values()
            return [(item.key, item.value) for item in items if isinstance(item.value, kind)]

    def _fetch_things(self, subject: Subject, wanted: Sequence[str | int]) -> list[Any]:
        return [item.value for item in self._select_items(subject, wanted)]

    def _select_items(self, subject: Subject, wanted: Sequence[str | int]) -> list[_StoredValue]:
        with self._open():
            found = [
                self._data.things.get((subject, name)) if isinstance(name, str) else self._data.keys.get(name)
                for name in wanted
            ]
            return [item for item in found if item is not None and _is(subject, item.value)]


def _sort_newest_first(found: list[tuple[datetime, int, T]]) -> list[T]:
    """Return values by their times, and those of one time by their keys, the largest first."""
    return [value for _, _, value in sorted(found, key=lambda one: one[:2], reverse=True)]


def _put(where: dict[Any, _StoredValue], name: Any, item: _StoredValue, insert: bool) -> None:
    if insert and name is not None:
        where[name] = item
    else:
        where.pop(name, None)


def _is(subject: Subject, value: Value) -> bool:
    return get_subject(value) == subject


def _has_text(text: str, wanted: str | None) -> bool:
    return wanted is None or wanted.translate(_CAPITALS) in text.translate(_CAPITALS)
