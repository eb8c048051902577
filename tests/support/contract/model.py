"""The simplest store that is right: dictionaries that a change copies. The state machine compares stores with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Unpack

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
from reverie.domain.filter import Filter, is_record_allowed, is_turn_allowed
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import CollectionStats, Passage, Searchable
from reverie.domain.record import Record
from reverie.domain.text.timestamps import to_microseconds
from reverie.stores.base import build_conflict
from reverie.stores.protocol import CommitOptions
from tests.support.contract.factories import analyse

Name = tuple[Subject, str]
Things = dict[Name, tuple[int, Value]]


class StoreModel:
    """What a store has to answer to the questions of `StoreStateMachine`."""

    def __init__(self) -> None:
        self.rows: list[JournalEntry] = []
        self.names: dict[int, Name] = {}  # of every key there ever was
        self.things: Things = {}
        self.working: dict[tuple[str, str], Entry] = {}
        self.values: dict[str, str] = {}
        self.counters: Counter[str] = Counter()
        self.marks: set[str] = set()

    # -- changing ------------------------------------------------------------------------------------

    def commit(
        self, edits: Sequence[Change], *, actor: str, at: datetime, **options: Unpack[CommitOptions]
    ) -> list[JournalEntry]:
        since = options.get("since")
        for row in [] if since is None else self.rows[since:]:
            if row.subject == "record":
                raise build_conflict("since", sequence=row.sequence, since=since)
        rows = self._apply(edits, actor, at, options)
        for name, value in (options.get("cursors") or {}).items():
            self.values.pop(name, None)
            if value is not None:
                self.values[name] = value
        self.counters.update(options.get("counts") or {})
        return rows

    def erase(
        self, edits: Sequence[Change], *, actor: str, at: datetime, tombstones: Sequence[str] = ()
    ) -> list[JournalEntry]:
        first = len(self.rows)
        self._apply(edits, actor, at, {"operation": "forget"})
        last = {(edit.subject, edit.id): number for number, edit in enumerate(edits, first)}
        for number, row in enumerate(self.rows):
            if (newest := last.get(self.names[row.key])) is not None:
                is_left = number == newest and row.after is not None
                left = Change(before=None, after=row.after) if is_left else None
                self.rows[number] = replace(row, note="", reference="", edit=left)
        for key, name in self.names.items():
            if name in last and name[0] in ("session", "page") and name not in self.things:
                self.names[key] = (name[0], "")
        self.marks.update(tombstones)
        return self.rows[first:]

    def _apply(
        self, edits: Sequence[Change], actor: str, at: datetime, note: JournalNote
    ) -> list[JournalEntry]:
        things, made = dict(self.things), []
        for sequence, edit in enumerate(edits, len(self.rows) + 1):
            name: Name = (edit.subject, edit.id)
            _refuse(things, edit)
            key, _ = things.pop(name, (sequence, None))
            if edit.after is not None:
                things[name] = key, edit.after
            made.append((key, name, edit))
        for session in {value.session for edit in edits for value in edit.values if isinstance(value, Turn)}:
            places = {turn.position for _, turn in things.values() if _is_in(session, turn)}
            for position in range(len(places)):
                if position not in places:
                    raise build_conflict("gap", session=session, position=position)
        self.things = things
        self.names.update((key, name) for key, name, _ in made)
        entries = ((key, name[0], edit) for key, name, edit in made)
        rows = build_entries(len(self.rows) + 1, entries, at=at, actor=actor, note=note)
        self.rows += rows
        return rows

    def tombstones(self, marks: Sequence[str]) -> set[str]:
        return self.marks.intersection(marks)

    def scrub(self) -> bool:
        return True

    # -- the journal ---------------------------------------------------------------------------------

    def sequence(self) -> int:
        return len(self.rows)

    def journal(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        id: str | None = None,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> list[JournalEntry]:
        rows = self.rows[max(after, 0) : until][:: -1 if newest_first else 1]
        return [row for row in rows if id is None or self.names[row.key][1] == id][:limit]

    # -- values --------------------------------------------------------------------------------------

    def _list(self, kind: type[Any]) -> list[tuple[int, Any]]:
        return sorted((key, value) for key, value in self.things.values() if isinstance(value, kind))

    def _get(self, kind: type[Any], wanted: Sequence[str | int]) -> list[Any]:
        there = {name: value for key, value in self._list(kind) for name in (key, value.id)}
        return [there[name] for name in wanted if name in there]

    def records(self, wanted: Sequence[str | int]) -> list[Record]:
        return self._get(Record, wanted)

    def session(self, id: str) -> SessionState | None:
        return next(iter(self._get(SessionState, [id])), None)

    def turns(
        self,
        wanted: Sequence[str | int] | None = None,
        *,
        session: str | None = None,
        start: int = 0,
        stop: int | None = None,
    ) -> list[Turn]:
        if wanted is not None:
            return self._get(Turn, wanted)
        turns = [turn for _, turn in self._list(Turn) if turn.session == session]
        return sorted(turns, key=lambda turn: turn.position)[start:stop]

    def pages(self, names: Sequence[str] | None = None) -> list[Page]:
        return self._get(Page, sorted(page.name for _, page in self._list(Page)) if names is None else names)

    def paragraphs(
        self, wanted: Sequence[str | int] | None = None, *, page: str | None = None, start: int = 0
    ) -> list[Paragraph]:
        if wanted is not None:
            return self._get(Paragraph, wanted)
        there = [one for _, one in self._list(Paragraph) if one.page == page]
        return sorted(there, key=lambda one: one.position)[start:]

    def logs(self) -> dict[str, int]:
        return dict(sorted(Counter(one.page for _, one in self._list(Paragraph)).items()))

    def find(
        self,
        wanted: Filter,
        *,
        order: str = "updated",
        containing: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Record]:
        found = [
            (getattr(record, f"{order}_at"), key, record)
            for key, record in self._list(Record)
            if is_record_allowed(wanted, record) and _has_text(record, containing)
        ]
        return _sort_newest_first(found)[offset : None if limit is None else offset + limit]

    def tally(self, what: str, wanted: Filter) -> dict[str, int]:
        found: Counter[str] = Counter()
        for record in self.find(wanted):
            names = {"category": [record.category or ""], "tag": record.tags, "kind": [record.kind]}
            found.update(names.get(what, [record.scope]))
        return dict(sorted(found.items()))

    def scan_turns(self, wanted: Filter, *, containing: str | None = None) -> list[Turn]:
        turns = self._list(Turn)
        return _sort_newest_first(
            (turn.at, key, turn)
            for key, turn in turns
            if is_turn_allowed(wanted, turn) and _has_text(turn, containing)
        )

    def sessions(
        self, *, scopes: Sequence[str] | None = None, limit: int | None = None
    ) -> list[SessionOverview]:
        found = []
        for key, state in self._list(SessionState):
            if scopes is None or state.scope in scopes:
                turns = self.turns(session=state.id)
                last_at = turns[-1].at if turns else state.created_at
                found.append((last_at, key, SessionOverview(state=state, turns=len(turns), last_at=last_at)))
        return _sort_newest_first(found)[:limit]

    # -- for search -----------------------------------------------------------------------------------

    def passages(self, subject: Searchable, keys: Sequence[int], *, around: int = 0) -> list[Passage]:
        found: dict[int, Passage] = {}
        live = dict(self._iterate_live(subject))
        for key in set(keys) & live.keys():
            for near, value in live.items():
                is_near = isinstance(value, Turn) and _is_in(live[key].session, value)
                if near == key or (is_near and abs(value.position - live[key].position) <= around):
                    found[near] = self._build_passage(near, value)
        return list(found.values())

    def live(self, subject: Searchable, *, after: int = 0, limit: int = 1000) -> list[tuple[Passage, Value]]:
        there = [(key, value) for key, value in self._iterate_live(subject) if key > after][:limit]
        return [(self._build_passage(key, value), value) for key, value in there]

    def measure(
        self, subject: Searchable, scopes: Sequence[str] | None, *, category: str | None = None
    ) -> CollectionStats:
        there = [value for _, value in self._iterate_live(subject)]
        if category is not None:
            there = [one for one in there if is_within_category(getattr(one, "category", None), category)]
        counted = [analyse(one) for one in there if scopes is None or getattr(one, "scope", "") in scopes]
        return CollectionStats(
            passages=len(counted),
            tokens=sum(each.length for each in counted),
            speakers=frozenset(each.speaker for each in counted if each.speaker),
        )

    def _iterate_live(self, subject: Searchable) -> Iterable[tuple[int, Any]]:
        for key, value in self._list(object):
            is_searched = not getattr(value, "archived", False) and getattr(value, "page", HISTORY) == HISTORY
            if get_subject(value) == subject and is_searched:
                yield key, value

    def _build_passage(self, key: int, value: Any) -> Passage:
        passage = Passage(key=key, **analyse(value)._asdict())
        if not isinstance(value, Record):
            passage = passage._replace(at=to_microseconds(value.at) / 1e6, kind=get_subject(value))
            if isinstance(value, Turn):
                thread, _ = self.things["session", value.session]
                passage = passage._replace(thread=thread, position=value.position)
            return passage
        return passage._replace(
            at=to_microseconds(value.created_at) / 1e6,
            importance=value.importance,
            confidence=value.confidence,
            kind=value.kind,
            pinned=value.pinned,
            expires_at=None if value.expires_at is None else to_microseconds(value.expires_at) / 1e6,
        )

    # -- working memory, cursors, counters -------------------------------------------------------------

    def entries(self, namespace: str, *, now: datetime) -> list[Entry]:
        there = [self.working[name] for name in sorted(self.working) if name[0] == namespace]
        return [entry for entry in there if entry.live(now)]

    def put_entry(self, entry: Entry, *, capacity: int | None, now: datetime) -> bool:
        live = {there.key: there for there in self.entries(entry.namespace, now=now)}
        if capacity is not None and entry.key not in live and len(live) >= capacity:
            return False
        others = {name: there for name, there in self.working.items() if name[0] != entry.namespace}
        mine = {(entry.namespace, there.key): there for there in (live | {entry.key: entry}).values()}
        self.working = others | mine
        return True

    def drop_entries(self, namespace: str, keys: Sequence[str] | None = None) -> int:
        dropped = [
            name for name in self.working if name[0] == namespace and (keys is None or name[1] in keys)
        ]
        for name in dropped:
            del self.working[name]
        return len(dropped)

    def count(self, name: str) -> int:
        return self.counters[name]

    def cursor(self, name: str) -> str | None:
        return self.values.get(name)


def _refuse(things: Mapping[Name, tuple[int, Value]], edit: Change) -> None:
    """Raise the conflict that a change meets."""
    _, there = things.get((edit.subject, edit.id), (0, None))
    if there != edit.before:
        reason = "exists" if edit.before is None else "missing" if there is None else "changed"
        raise build_conflict(reason, subject=edit.subject, id=edit.id)  # type: ignore[arg-type]
    new, others = edit.after, [value for _, value in things.values() if value is not there]
    if new is None and isinstance(there, SessionState) and any(_is_in(there.id, each) for each in others):
        raise build_conflict("has turns", id=edit.id)
    if isinstance(new, Record) and not new.archived:
        for other in others:
            is_twin = isinstance(other, Record) and not other.archived and other.scope == new.scope
            if is_twin and other.fingerprint == new.fingerprint:  # type: ignore[union-attr]
                raise build_conflict("same words", id=new.id, other=other.id)
    if isinstance(new, Turn):
        if ("session", new.session) not in things:
            raise build_conflict("no session", session=new.session, id=new.id)
        if any(_is_in(new.session, each) and each.position == new.position for each in others):  # type: ignore[union-attr]
            raise build_conflict("place taken", id=new.id, position=new.position, session=new.session)


def _is_in(session: str, value: Value) -> bool:
    return isinstance(value, Turn) and value.session == session


def _has_text(value: Record | Turn, text: str | None) -> bool:
    return text is None or text.encode().lower() in value.content.encode().lower()  # ASCII letters only


def _sort_newest_first(found: Iterable[tuple[datetime, int, Any]]) -> list[Any]:
    return [value for *_, value in sorted(found, key=lambda one: one[:2], reverse=True)]
