"""Random operations on a store, compared with a model after each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reverie.domain.change import Change, Value
from reverie.domain.conversation import SessionState
from reverie.domain.errors import Conflict
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY
from reverie.domain.passage import SEARCHABLE
from reverie.domain.record import Record
from reverie.stores.protocol import Store
from tests.profiles import examples as scale_examples
from tests.support.contract.factories import (
    NOW,
    make_additions,
    make_change,
    make_entry,
    make_page,
    make_paragraph,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
    undo_of,
)
from tests.support.contract.model import StoreModel
from tests.support.contract.replay import is_journal_consistent, read_contents, replay

SCOPES = ("", "user:a", "user:b")
CATEGORIES = (None, "a", "a/b", "a-b", "a0", "b")
TAGS = ("x", "y", ",", 'q"')
CONTENTS = ("Likes tea", "likes  TEA", "Lives in Oslo?", "100% sure_", "ÅSE")
SESSIONS = ("chat:1", "chat:2", "000000000001")
PAGES = ("MEMORY.md", "a/b.md")
LOGS = (HISTORY, HISTORY, "2026-03-01.md")
MARKS = ("m", "n", "o")
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
        "created_at": SECONDS.map(make_time),
        "updated_at": SECONDS.map(make_time),
        "valid_from": st.none() | SECONDS.map(make_time),
        "valid_to": st.none() | st.integers(5, 9).map(make_time),
        "expires_at": st.none() | SECONDS.map(make_time),
        "archived_at": st.none() | SECONDS.map(make_time),
        "metadata": st.dictionaries(st.sampled_from(("k", "l")), st.sampled_from(("", "v")), max_size=2),
        "parts": st.sampled_from(((), ("e" * 12,), ("e" * 12, "f" * 12))),
    },
)
turn_fields = st.fixed_dictionaries(
    {},
    optional={
        "content": st.sampled_from(CONTENTS),
        "speaker": st.sampled_from(("", "Bo", "BO", "Al")),
        "role": st.sampled_from(("user", "assistant")),
        "scope": st.sampled_from(SCOPES),
        "at": SECONDS.map(make_time),
    },
)
session_fields = st.fixed_dictionaries(
    {},
    optional={
        "scope": st.sampled_from(SCOPES),
        "status": st.sampled_from(("active", "terminated")),
        "window_start": st.integers(0, 3),
        "created_at": SECONDS.map(make_time),
    },
)
paragraph_fields = st.fixed_dictionaries(
    {},
    optional={
        "page": st.sampled_from(LOGS),
        "position": st.sampled_from((-1.0, 0.0, 1.0, 2.5)),
        "content": st.sampled_from(CONTENTS),
        "source": st.sampled_from(("", "f" * 12)),
        "at": SECONDS.map(make_time),
    },
)
FILTER_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "scopes": st.lists(st.sampled_from(SCOPES), unique=True).map(tuple),
    "categories": st.sampled_from((("a",), ("a/b",), ("a-", "b"))),
    "tags": st.lists(st.sampled_from(TAGS), max_size=2, unique=True).map(tuple),
    "kinds": st.sampled_from((("fact",), ("event", "fix"))),
    "layers": st.just(("semantic",)),
    "origins": st.just(("web", "import")),
    "created_after": SECONDS.map(make_time),
    "created_before": SECONDS.map(make_time),
    "valid_at": st.integers(0, 9).map(make_time),
    "alive_at": SECONDS.map(make_time),
    "archived": st.sampled_from((None, True)),
    "pinned": st.booleans(),
    "headlines": st.booleans(),
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
    created_after=st.none() | SECONDS.map(make_time),
    sessions=st.lists(st.sampled_from(SESSIONS), max_size=2, unique=True).map(tuple),
    roles=st.sampled_from(((), ("user",))),
)


class StoreStateMachine(RuleBasedStateMachine):
    """Random operations on a store and on its model; their answers may never differ.

    Attributes:
        durable: Whether the store can be opened again with everything in it.
    """

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="reverie-store-"))
        self.store = self.open_store(self.place)
        self.model = StoreModel()
        self.stale: dict[str, Value] = {}
        self.forgets = False

    def open_store(self, place: Path) -> Store:
        """Open the store under test at a folder, making it when there is none; use `analyse` for it."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Check that the store is sound, and that the journal alone gives the same contents."""
        try:
            assert self.store.check() == []
            assert is_journal_consistent(self.store)
            assert read_contents(self.store) == read_contents(self.model)
            self._replay()
        finally:
            self.store.close()
            shutil.rmtree(self.place)

    @initialize(forgets=st.booleans())
    def begin(self, forgets: bool) -> None:
        """Choose whether to erase: a journal with erased entries cannot be replayed."""
        self.forgets = forgets

    # -- changes -------------------------------------------------------------------------------------

    @rule(number=NUMBERS, fields=record_fields, old=st.booleans())
    def save_record(self, number: int, fields: dict[str, Any], old: bool) -> None:
        """Create a record or change the one that is there, now and then from a stale reading."""
        self._commit([self._build_record_change(number, fields, old)])

    @rule(
        edits=st.lists(st.tuples(NUMBERS, record_fields), min_size=2, max_size=5),
        since=st.none() | st.integers(0, 20),
    )
    def save_several(self, edits: list[tuple[int, dict[str, Any]]], since: int | None) -> None:
        """Save several records in one commit. If one is named twice, the commit is refused."""
        self._commit(
            [self._build_record_change(number, fields, False) for number, fields in edits], since=since
        )

    @rule(number=NUMBERS)
    def purge_record(self, number: int) -> None:
        """Remove a record for good, or one that never was."""
        current = self.model.records([make_record(number).id]) or [make_record(number)]
        self._commit(make_removals(*current))

    @rule(name=st.sampled_from(SESSIONS), fields=session_fields)
    def save_session(self, name: str, fields: dict[str, Any]) -> None:
        """Create or change a session."""
        current = self.model.session(name)
        after = make_session(name, **fields) if current is None else replace(current, **fields)
        self._commit([Change(before=current, after=after)])

    @rule(
        name=st.sampled_from(SESSIONS),
        said=st.lists(turn_fields, min_size=1, max_size=4),
        skip=st.sampled_from((0, 0, 0, 0, 1, -1)),
    )
    def say(self, name: str, said: list[dict[str, Any]], skip: int) -> None:
        """Add turns to a session that may not be there, sometimes at a place that is taken or too far."""
        start = max(0, len(self.model.turns(session=name)) + skip)
        turns = [make_turn(start + number, name, **fields) for number, fields in enumerate(said)]
        self._commit(make_additions(*turns))

    @rule(name=st.sampled_from(SESSIONS), pick=st.integers(0, 5), fields=turn_fields)
    def correct_turn(self, name: str, pick: int, fields: dict[str, Any]) -> None:
        """Change what was said."""
        turns = self.model.turns(session=name)
        if turns:
            before = turns[pick % len(turns)]
            self._commit(make_change(before, replace(before, **fields)))

    @rule(name=st.sampled_from(SESSIONS), keep=st.integers(0, 3), whole=st.booleans())
    def delete_turns(self, name: str, keep: int, whole: bool) -> None:
        """Delete the first turns (which leaves a gap unless it is all), and perhaps the session."""
        turns: list[Value] = [*self.model.turns(session=name)]
        state = self.model.session(name)
        deleted = turns[: len(turns) - keep] + ([state] if whole and state is not None else [])
        self._commit(make_removals(*deleted))

    @rule(
        name=st.sampled_from(PAGES),
        content=st.none() | st.sampled_from(("", *CONTENTS)),
        old=st.booleans(),
    )
    def write_page(self, name: str, content: str | None, old: bool) -> None:
        """Write a page or remove it, now and then from a stale reading."""
        before = self._read_before(name, self.model.pages([name]), old)
        if before is not None or content is not None:
            after = None if content is None else make_page(name, content=content)
            self._commit([Change(before=before, after=after)])

    @rule(told=st.lists(st.tuples(NUMBERS, paragraph_fields), min_size=1, max_size=3))
    def tell(self, told: list[tuple[int, dict[str, Any]]]) -> None:
        """Add paragraphs, or change those that are there. If one is named twice, the commit is refused."""
        edits = []
        for number, fields in told:
            current = self.model.paragraphs([make_paragraph(number).id])
            before = current[0] if current else None
            edits.append(Change(before=before, after=replace(before or make_paragraph(number), **fields)))
        self._commit(edits)

    @rule(number=NUMBERS)
    def remove_paragraph(self, number: int) -> None:
        """Remove a paragraph, or one that never was."""
        current = self.model.paragraphs([make_paragraph(number).id]) or [make_paragraph(number)]
        self._commit(make_removals(*current))

    @precondition(lambda self: self.forgets)
    @rule(
        picks=st.lists(
            st.tuples(st.integers(0, 50), st.sampled_from(("gone", "stays", "changes"))), max_size=4
        ),
        marks=st.lists(st.sampled_from(MARKS), max_size=2),
        scrub=st.booleans(),
    )
    def erase(self, picks: list[tuple[int, str]], marks: list[str], scrub: bool) -> None:
        """Forget some of what is there, and perhaps have nothing left of it; one may be named twice."""
        there = self._list_all_values()
        edits = []
        for pick, what in picks if there else []:
            before = there[pick % len(there)]
            after = {"gone": None, "stays": before}.get(what, _change_content(before))
            edits.append(Change(before=before, after=after))
        self._compare("erase", edits, actor="machine", at=make_time(1), tombstones=marks)
        if scrub:
            self._compare("scrub")
        self._compare("journal")
        self._compare("tombstones", MARKS)

    @precondition(lambda self: self.forgets)
    @rule(number=NUMBERS)
    def erase_what_was_removed(self, number: int) -> None:
        """Put a record back that may have been there before, only to have its past erased."""
        one = make_record(number, scope="nobody", content=f"-{number}")
        self._compare("erase", [*make_additions(one), *make_removals(one)], actor="machine", at=NOW)

    @rule(count=st.integers(1, 4))
    def undo(self, count: int) -> None:
        """Take the last changes back: everything is then as it was before them."""
        last = self.model.sequence()
        rows = self.model.journal(after=last - count)
        self._commit(undo_of(rows))

    @rule(
        name=st.sampled_from("ab"),
        value=st.none() | st.sampled_from(("1", "2")),
        options=st.fixed_dictionaries(
            {"counts": st.dictionaries(st.sampled_from("ab"), st.integers(-2, 2))},
            optional={"since": st.integers(0, 20)},
        ),
    )
    def set_cursor(self, name: str, value: str | None, options: dict[str, Any]) -> None:
        """Set or remove a cursor, and add to counters, unless a record has changed."""
        self._compare("commit", [], actor="machine", at=NOW, cursors={name: value}, **options)
        for one in "ab":
            self._compare("count", one)

    @rule(
        key=st.sampled_from("abc"),
        seconds=st.none() | SECONDS,
        capacity=st.none() | st.integers(0, 3),
        now=SECONDS,
    )
    def put_entry(self, key: str, seconds: int | None, capacity: int | None, now: int) -> None:
        """Set an entry of working memory, when there is room."""
        one = make_entry(key, expires_at=None if seconds is None else make_time(seconds), tags=("x",))
        self._compare("put_entry", one, capacity=capacity, now=make_time(now))

    @rule(keys=st.none() | st.lists(st.sampled_from("abc"), unique=True))
    def drop_entries(self, keys: list[str] | None) -> None:
        """Drop entries."""
        self._compare("drop_entries", "agent", keys)

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
        """Compare the records of a filter, their order and their tallies."""
        self._compare("find", wanted, **options)
        for what in ("category", "tag", "kind", "scope"):
            self._compare("tally", what, wanted)

    @rule(
        wanted=turn_filters,
        containing=st.sampled_from((None, "tea")),
        limit=st.none() | st.integers(0, 2),
    )
    def scan(self, wanted: Filter, containing: str | None, limit: int | None) -> None:
        """Compare the turns of a filter, and the sessions of its scopes."""
        self._compare("scan_turns", wanted, containing=containing)
        self._compare("sessions", scopes=wanted.scopes, limit=limit)

    @rule(keys=st.lists(st.integers(1, 40)), around=st.integers(0, 2), after=st.integers(0, 10))
    def passages(self, keys: list[int], around: int, after: int) -> None:
        """Compare the passages and the values of keys."""
        for method in ("records", "turns", "paragraphs"):
            self._compare(method, keys)
        for subject in SEARCHABLE:
            self._compare("passages", subject, keys, around=around)
            self._compare("live", subject, after=after, limit=3)

    @rule(scopes=st.none() | st.lists(st.sampled_from(SCOPES), unique=True))
    def measure(self, scopes: list[str] | None) -> None:
        """Compare the counters with a recount."""
        for subject in SEARCHABLE:
            self._compare("measure", subject, scopes)

    @rule(
        names=st.none() | st.lists(st.sampled_from(PAGES)),
        log=st.sampled_from(LOGS),
        start=st.integers(-3, 4),
    )
    def read_pages(self, names: list[str] | None, log: str, start: int) -> None:
        """Compare pages, logs and parts of them."""
        self._compare("pages", names)
        self._compare("paragraphs", page=log, start=start)
        self._compare("logs")

    @rule(
        name=st.sampled_from(SESSIONS),
        start=st.integers(-3, 5),
        stop=st.none() | st.integers(0, 6),
    )
    def history(self, name: str, start: int, stop: int | None) -> None:
        """Compare parts of a conversation, and the journal of one thing."""
        self._compare("turns", session=name, start=start, stop=stop)
        for one in (name, *PAGES):
            self._compare("journal", id=one, after=max(start, 0), until=stop)
            self._compare("journal", id=one, newest_first=True, limit=3)

    @invariant()
    def check_same_journal(self) -> None:
        """Compare the newest changes, cursors and entries."""
        last = self.model.sequence()
        self._compare("sequence")
        self._compare("journal", after=last - 6)
        for name in "ab":
            self._compare("cursor", name)
        self._compare("entries", "agent", now=make_time(2))

    # -- below ---------------------------------------------------------------------------------------

    def _read_before(self, name: str, current: Sequence[Value], old: bool) -> Value | None:
        """Return a thing as it is, or with `old` as it was first read."""
        before = current[0] if current else None
        if old:
            before = self.stale.get(name, before)
        if before is not None:
            self.stale.setdefault(name, before)
        return before

    def _build_record_change(self, number: int, fields: dict[str, Any], old: bool) -> Change:
        name = make_record(number).id
        before = self._read_before(name, self.model.records([name]), old)
        base = before if isinstance(before, Record) else make_record(number)
        return Change(before=before, after=replace(base, **fields))

    def _commit(self, edits: list[Change], *, since: int | None = None) -> None:
        if edits:
            self._compare("commit", edits, actor="machine", note="test", at=NOW, since=since)

    def _compare(self, method: str, *given: Any, **options: Any) -> None:
        """Call a method of both stores, and compare the answers."""
        answer, expected = (_ask(store, method, given, options) for store in (self.store, self.model))
        assert answer == expected

    def _list_all_values(self) -> list[Value]:
        there: list[Value] = [*self.model.find(Filter(archived=None))]
        for overview in self.model.sessions():
            there += [overview.state, *self.model.turns(session=overview.state.id)]
        for log in self.model.logs():
            there += self.model.paragraphs(page=log)
        return [*there, *self.model.pages()]

    def _replay(self) -> None:
        """Make every change of the journal again, in an empty store, and compare what there is then."""
        rows = self.store.journal(limit=1_000_000)
        if any(row.forgotten for row in rows):
            return  # see `tests.support.contract.replay`
        place = self.place / "again"
        place.mkdir()
        again = self.open_store(place)
        try:
            replay(rows, again)
            assert again.journal(limit=1_000_000) == rows
            assert read_contents(again) == read_contents(self.store)
        finally:
            again.close()


def _change_content(value: Value) -> Value:
    """Return the value with another content."""
    if isinstance(value, SessionState):
        return replace(value, summary="Other words?")
    return replace(value, content="Other words?")


def _ask(store: Any, method: str, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Return the answer of a store in a form that can be compared; of a conflict, its message."""
    try:
        answer = getattr(store, method)(*given, **options)
    except Conflict as error:
        return str(error)
    if method == "passages":  # they come in any order
        return sorted(answer)
    return (
        list(answer.items() if isinstance(answer, dict) else answer)
        if isinstance(answer, Iterable)
        else answer
    )


def build_case(machine: type[StoreStateMachine], *, examples: int, steps: int) -> type:
    """Return the test case of a machine, with that many examples and steps."""
    case = machine.TestCase
    case.settings = settings(
        max_examples=scale_examples(examples),
        stateful_step_count=steps,
        deadline=None,
    )
    return case
