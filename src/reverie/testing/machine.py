"""Does a store stay right under any sequence of changes? Random operations beside the in-memory store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from reverie.edits import Edit, Value, undo_of
from reverie.errors import Conflict
from reverie.filters import Filter
from reverie.records import Record
from reverie.stores.base import Store
from reverie.stores.inmemory import InMemoryStore
from reverie.testing.values import NOW, analyse, at, entry, record, session, turn

SCOPES = ("", "user:a", "user:b")
CATEGORIES = (None, "a", "a/b", "a-b", "a0", "b")
TAGS = ("x", "y", ",", 'q"')
CONTENTS = ("Likes tea", "likes  TEA", "Lives in Oslo?", "100% sure_", "ÅSE")
SESSIONS = ("chat:1", "chat:2", "000000000001")
NUMBERS = st.integers(1, 8)
SECONDS = st.integers(0, 5)

record_fields = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(CONTENTS),
        "scope": st.sampled_from(SCOPES),
        "category": st.sampled_from(CATEGORIES),
        "tags": st.lists(st.sampled_from(TAGS), unique=True).map(tuple),
        "kind": st.sampled_from(("fact", "event")),
        "layer": st.sampled_from(("semantic", "episodic")),
        "origin": st.sampled_from(("owner", "web")),
        "pinned": st.booleans(),
        "confidence": st.floats(0, 1),
        "importance": st.sampled_from((0, 0.5, 1)),
        "seen_count": st.integers(1, 3),
        "created_at": SECONDS.map(at),
        "updated_at": SECONDS.map(at),
        "valid_from": st.none() | SECONDS.map(at),
        "valid_to": st.none() | st.integers(5, 9).map(at),
        "expires_at": st.none() | SECONDS.map(at),
        "archived_at": st.none() | SECONDS.map(at),
        "metadata": st.dictionaries(st.sampled_from(("k", "l")), st.sampled_from(("", "v")), max_size=2),
    },
)
turn_fields = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(CONTENTS),
        "speaker": st.sampled_from(("", "Bo", "BO", "Al")),
        "role": st.sampled_from(("user", "assistant")),
        "scope": st.sampled_from(SCOPES),
        "at": SECONDS.map(at),
    },
)
session_fields = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from(SCOPES),
        "status": st.sampled_from(("active", "terminated")),
        "window_start": st.integers(0, 3),
        "created_at": SECONDS.map(at),
    },
)
FILTER_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "scopes": st.lists(st.sampled_from(SCOPES), unique=True).map(tuple),
    "category": st.sampled_from(("a", "a/b", "a-", "b")),
    "tags": st.lists(st.sampled_from(TAGS), max_size=2, unique=True).map(tuple),
    "kinds": st.sampled_from((("fact",), ("event", "fix"))),
    "layers": st.just(("semantic",)),
    "origins": st.just(("web", "import")),
    "created_after": SECONDS.map(at),
    "created_before": SECONDS.map(at),
    "valid_at": st.integers(0, 9).map(at),
    "alive_at": SECONDS.map(at),
    "archived": st.sampled_from((None, True)),
    "pinned": st.booleans(),
}
# One or two restrictions at a time: with more, most filters let nothing through and so show nothing.
filters = (
    st.lists(st.sampled_from(sorted(FILTER_FIELDS)), max_size=2, unique=True)
    .flatmap(lambda names: st.fixed_dictionaries({name: FILTER_FIELDS[name] for name in names}))
    .map(lambda fields: Filter(**fields))
)
turn_filters = st.builds(
    Filter,
    scopes=st.none() | st.lists(st.sampled_from(SCOPES), unique=True).map(tuple),
    created_after=st.none() | SECONDS.map(at),
    sessions=st.lists(st.sampled_from(SESSIONS), max_size=2, unique=True).map(tuple),
    roles=st.sampled_from(((), ("user",))),
)


class StoreMachine(RuleBasedStateMachine):
    """Random operations on a store and on the in-memory one; their answers may never differ.

    Attributes:
        durable: Whether the store can be opened again with everything in it.
    """

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="reverie-store-"))
        self.store = self.open_store(self.place)
        self.model = InMemoryStore(analyse=analyse)
        self.stale: dict[str, Value] = {}

    def open_store(self, place: Path) -> Store:
        """Open the store under test at a folder, making it when there is none; use `analyse` for it."""
        raise NotImplementedError

    def teardown(self) -> None:
        """The last word: sound, and the journal alone makes the same again."""
        try:
            assert self.store.check() == []
            self._replay()
        finally:
            self.store.close()
            shutil.rmtree(self.place)

    # -- changes -------------------------------------------------------------------------------------

    @rule(number=NUMBERS, fields=record_fields, old=st.booleans())
    def save_record(self, number: int, fields: dict[str, Any], old: bool) -> None:
        """Create a record or change the one that is there, now and then from a stale reading."""
        self._commit([self._record_edit(number, fields, old)])

    @rule(
        edits=st.lists(st.tuples(NUMBERS, record_fields), min_size=2, max_size=5),
        since=st.none() | st.integers(0, 20),
    )
    def save_several(self, edits: list[tuple[int, dict[str, Any]]], since: int | None) -> None:
        """Several records in one commit; one thing may be named twice, and then does not fit."""
        self._commit([self._record_edit(number, fields, False) for number, fields in edits], since=since)

    @rule(number=NUMBERS)
    def purge_record(self, number: int) -> None:
        """Remove a record for good, or one that never was."""
        current = self.model.records([record(number).id])
        self._commit([Edit(before=current[0] if current else record(number), after=None)])

    @rule(name=st.sampled_from(SESSIONS), fields=session_fields)
    def save_session(self, name: str, fields: dict[str, Any]) -> None:
        """Create or change a session."""
        current = self.model.session(name)
        after = session(name, **fields) if current is None else replace(current, **fields)
        self._commit([Edit(before=current, after=after)])

    @rule(
        name=st.sampled_from(SESSIONS),
        said=st.lists(turn_fields, min_size=1, max_size=4),
        skip=st.sampled_from((0, 0, 0, 0, 1, -1)),
    )
    def say(self, name: str, said: list[dict[str, Any]], skip: int) -> None:
        """Add turns to a session that may not be there, sometimes at a place that is taken or too far."""
        start = max(0, len(self.model.turns(session=name)) + skip)
        turns = [turn(start + number, name, **fields) for number, fields in enumerate(said)]
        self._commit([Edit(before=None, after=one) for one in turns])

    @rule(name=st.sampled_from(SESSIONS), pick=st.integers(0, 5), fields=turn_fields)
    def correct_turn(self, name: str, pick: int, fields: dict[str, Any]) -> None:
        """Change what was said."""
        turns = self.model.turns(session=name)
        if turns:
            before = turns[pick % len(turns)]
            self._commit([Edit(before=before, after=replace(before, **fields))])

    @rule(name=st.sampled_from(SESSIONS), keep=st.integers(0, 3), whole=st.booleans())
    def delete_turns(self, name: str, keep: int, whole: bool) -> None:
        """Delete the first turns (which leaves a gap unless it is all), and perhaps the session."""
        turns: list[Value] = [*self.model.turns(session=name)]
        state = self.model.session(name)
        gone = turns[: len(turns) - keep] + ([state] if whole and state is not None else [])
        self._commit([Edit(before=value, after=None) for value in gone])

    @rule(count=st.integers(1, 4))
    def undo(self, count: int) -> None:
        """Take the last changes back: everything is then as it was before them."""
        last = self.model.sequence()
        rows = self.model.journal(after=last - count)
        self._commit(undo_of(rows))

    @rule(name=st.sampled_from("ab"), value=st.none() | st.sampled_from(("1", "2")))
    def set_cursor(self, name: str, value: str | None) -> None:
        """Set or remove a cursor."""
        self._both(lambda store: store.commit([], actor="machine", at=NOW, cursors={name: value}))

    @rule(
        key=st.sampled_from("abc"),
        seconds=st.none() | SECONDS,
        capacity=st.none() | st.integers(0, 3),
        now=SECONDS,
    )
    def put_entry(self, key: str, seconds: int | None, capacity: int | None, now: int) -> None:
        """Set an entry of working memory, when there is room."""
        one = entry(key, expires_at=None if seconds is None else at(seconds), tags=("x",))
        self._both(lambda store: store.put_entry(one, capacity=capacity, now=at(now)))

    @rule(keys=st.none() | st.lists(st.sampled_from("abc"), unique=True))
    def drop_entries(self, keys: list[str] | None) -> None:
        """Drop entries."""
        self._both(lambda store: store.drop_entries("agent", keys))

    @precondition(lambda self: self.durable)
    @rule()
    def reopen(self) -> None:
        """Close the store and open it again."""
        self.store.close()
        self.store = self.open_store(self.place)

    # -- questions -----------------------------------------------------------------------------------

    @rule(
        wanted=filters,
        order=st.sampled_from(("updated", "created")),
        containing=st.sampled_from((None, "TEA", "%", "å", "_")),
        limit=st.none() | st.integers(0, 3),
        offset=st.integers(0, 2),
    )
    def find(self, wanted: Filter, **options: Any) -> None:
        """Any filter gives the same records in the same order, and the same tallies."""
        self._both(lambda store: list(store.find(wanted, **options)))
        for what in ("category", "tag", "kind", "scope"):
            self._both(lambda store, what=what: store.tally(what, wanted))  # type: ignore[misc]

    @rule(wanted=turn_filters, containing=st.sampled_from((None, "tea")), limit=st.none() | st.integers(0, 2))
    def scan(self, wanted: Filter, containing: str | None, limit: int | None) -> None:
        """Any filter gives the same turns, and any scopes the same sessions."""
        self._both(lambda store: list(store.scan_turns(wanted, containing=containing)))
        self._both(lambda store: store.sessions(scopes=wanted.scopes, limit=limit))

    @rule(keys=st.lists(st.integers(1, 40)), around=st.integers(0, 2), after=st.integers(0, 10))
    def passages(self, keys: list[int], around: int, after: int) -> None:
        """Any keys give the same passages, and the same values."""
        self._both(lambda store: store.records(keys))
        self._both(lambda store: store.turns(keys))
        for subject in ("record", "turn"):
            self._both(
                lambda store, subject=subject: sorted(store.passages(subject, keys, around=around))  # type: ignore[misc]
            )
            self._both(lambda store, subject=subject: store.live(subject, after=after, limit=3))  # type: ignore[misc]

    @rule(scopes=st.none() | st.lists(st.sampled_from(SCOPES), unique=True))
    def measure(self, scopes: list[str] | None) -> None:
        """The counters are what a recount gives."""
        self._both(lambda store: store.measure("record", scopes))
        self._both(lambda store: store.measure("turn", scopes))

    @rule(name=st.sampled_from(SESSIONS), start=st.integers(-3, 5), stop=st.none() | st.integers(0, 6))
    def history(self, name: str, start: int, stop: int | None) -> None:
        """Parts of a conversation, and the account of one thing."""
        self._both(lambda store: store.turns(session=name, start=start, stop=stop))
        self._both(lambda store: store.journal(id=name, after=max(start, 0), until=stop))

    @invariant()
    def same_account(self) -> None:
        """Both have made the same changes."""
        last = self.model.sequence()
        self._both(lambda store: store.sequence())
        self._both(lambda store: store.journal(after=last - 6))
        self._both(lambda store: [store.cursor(name) for name in "ab"])
        self._both(lambda store: store.entries("agent", now=at(2)))

    # -- below ---------------------------------------------------------------------------------------

    def _record_edit(self, number: int, fields: dict[str, Any], old: bool) -> Edit:
        name = record(number).id
        current = self.model.records([name])
        before: Value | None = current[0] if current else None
        if old:
            before = self.stale.get(name, before)
        if before is not None:
            self.stale.setdefault(name, before)
        base = before if isinstance(before, Record) else record(number)
        return Edit(before=before, after=replace(base, **fields))

    def _commit(self, edits: list[Edit], *, since: int | None = None) -> None:
        if edits:
            self._both(lambda store: store.commit(edits, actor="machine", reason="test", at=NOW, since=since))

    def _both(self, ask: Callable[[Store], Any]) -> None:
        told, expected = (_answer(ask, store) for store in (self.store, self.model))
        assert told == expected

    def _replay(self) -> None:
        """Make every change of the journal again, in an empty store, and compare what there is then."""
        again = InMemoryStore(analyse=analyse)
        rows = self.store.journal(limit=1_000_000)
        for batch in dict.fromkeys(row.batch for row in rows):
            edits = [row.edit for row in rows if row.batch == batch]
            again.commit(edits, actor="replay", at=NOW)
        assert list(again.find(Filter(archived=None))) == list(self.store.find(Filter(archived=None)))
        assert again.sessions() == self.store.sessions()
        assert list(again.scan_turns(Filter())) == list(self.store.scan_turns(Filter()))


def _answer(ask: Callable[[Store], Any], store: Store) -> Any:
    """What the store says; a refusal is an answer too."""
    try:
        return ask(store)
    except Conflict as error:
        return str(error)


__all__ = ["StoreMachine"]
