"""Properties of the journal: undo restores, replay gives the same, an earlier state answers as it did then."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reverie import Conflict, InvalidInput, Memory, NotFound, Settings
from reverie.domain.filter import Filter
from reverie.domain.record import FIL
from reverie.search.hits import SOURCES
from reverie.snapshot import Snapshot
from tests.profiles import examples

BEGIN = datetime(2025, 6, 2, 9, 0, tzinfo=UTC)
SENTENCES = (
    "The staging database listens on port 5433",
    "The staging database listens on port 5433 and takes 40 connections",
    "Deploys of the shop happen on Friday",
    "Prefers short answers in the morning",
    "Ana paints boats in the harbour of Kiel",
    "Bread is baked at five o'clock",
    "Never restart the queue while invoices are being sent",
    "El tren sale a las 7 de la mañana",
)
QUESTIONS = ("staging database port", "boats in Kiel", "short answers", "when do deploys happen?", "queue")
PAGES = ("MEMORY.md", "projects/atlas.md")
LOGS = ("HISTORY.md", "2025-06-01.md")
CHATS = ("cli:1", "telegram:7")
LINES = ("# Notes", "one line", "another line", "a third", "and a last one", "")

REFUSED = (InvalidInput, NotFound, Conflict)


class World:
    """A memory with a clock and ids of its own, and what can be done to it, as numbers say."""

    def __init__(self, where: Path) -> None:
        self.now = BEGIN
        self.ids = 0
        self.memory = Memory.open(
            where,
            clock=self.time,
            new_id=self.id,
            settings=Settings(dream_idle=1_000_000),  # a living page is of today, and in no snapshot
        )

    def time(self) -> datetime:
        return self.now

    def id(self) -> str:
        self.ids += 1
        return f"{self.ids:012x}"

    def record(self, n: int) -> str:
        """One of the records, archived or not; an id of none when there is none."""
        found = sorted(r.id for archived in (False, True) for r in self.records(archived=archived))
        return found[n % len(found)] if found else "f" * 12

    def records(self, *, archived: bool) -> list[Any]:
        return self.memory.list(limit=None, archived=archived)

    def do(self, name: str, n: int, m: int) -> None:
        """Do something; what is refused changes nothing."""
        with contextlib.suppress(*REFUSED):
            OPERATIONS[name](self, n, m)

    def dump(self) -> str:
        """Everything there is, to the byte."""
        return dumped(self.memory)


def dumped(memory: Memory | Snapshot) -> str:
    store = memory._store
    things = [
        *(one.to_dict() for one in sorted(store.find(Filter(archived=None)), key=lambda one: one.id)),
        *(one.state.to_dict() for one in sorted(store.sessions(), key=lambda one: one.state.id)),
        *(turn.to_dict() for name in CHATS for turn in store.turns(session=name)),
        *(page.to_dict() for page in store.pages()),
        *(one.to_dict() for name in store.logs() for one in store.paragraphs(page=name)),
    ]
    return json.dumps(things, ensure_ascii=False, indent=1)


def page_text(n: int, m: int) -> str:
    return "".join(f"{LINES[(n + k * (m + 1)) % len(LINES)]}\n" for k in range(n % 5 + 1))


def tool_turns(n: int) -> list[dict[str, Any]]:
    call = {"id": f"call{n}", "name": "read_file", "arguments": {"path": f"{n}.txt"}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": f"content of {n}", "tool_call_id": f"call{n}"},
        {"role": "assistant", "content": f"It says content of {n}.", "metadata": {"n": str(n)}},
    ]


OPERATIONS: dict[str, Callable[[World, int, int], Any]] = {
    "save": lambda w, n, m: w.memory.save(
        SENTENCES[n % len(SENTENCES)], tags=[f"t{m % 3}"], category=(None, "project", "project/atlas")[m % 3],
        importance=(n % 5) / 4, references=[f"ref{n % 2}"], ttl="2h" if m % 5 == 4 else None,
        metadata={"b": str(m), "a": "1"} if m % 4 == 3 else None,
    ),
    "save many": lambda w, n, m: w.memory.save_many(
        {"content": SENTENCES[(n + k) % len(SENTENCES)], "tags": [f"m{m}"]} for k in range(m % 4 + 1)
    ),
    "update": lambda w, n, m: w.memory.update(
        w.record(n), content=SENTENCES[m % len(SENTENCES)], tags=[f"u{m % 4}"], metadata={"m": str(m)}
    ),
    "revalue": lambda w, n, m: w.memory.update(
        w.record(n), importance=(m % 9) / 8, valid_to=BEGIN + timedelta(days=m), kind="decision"
    ),
    "archive": lambda w, n, m: w.memory.archive(w.record(n), reason=f"because {m}"),
    "restore": lambda w, n, m: w.memory.restore(w.record(n)),
    "pin": lambda w, n, m: w.memory.update(w.record(n), pinned=bool(m % 2)),
    "purge": lambda w, n, m: w.memory.admin.purge(older_than=0),
    "say": lambda w, n, m: w.memory.session(CHATS[n % 2]).add(
        ("user", "assistant")[m % 2], SENTENCES[(n + m) % len(SENTENCES)], speaker=("", "Ana")[n % 2]
    ),
    "say much": lambda w, n, m: w.memory.session(CHATS[n % 2]).add_many(
        [{"role": "user", "content": f"Read file {m}"}, *tool_turns(m)]
    ),
    "begin anew": lambda w, n, m: w.memory.session(CHATS[n % 2]).reset(),
    "pause": lambda w, n, m: w.memory.session(CHATS[n % 2]).pause(),
    "resume": lambda w, n, m: w.memory.session(CHATS[n % 2]).resume(),
    "label": lambda w, n, m: w.memory.session(CHATS[n % 2]).set_metadata(f"k{m % 3}", str(m) if m % 4 else None),
    "delete session": lambda w, n, m: w.memory.delete_session(CHATS[n % 2]),
    "write": lambda w, n, m: w.memory.pages.write(PAGES[n % 2], page_text(n, m)),
    "append": lambda w, n, m: w.memory.pages.append(
        (*LOGS, *PAGES)[n % 4], f"{SENTENCES[m % len(SENTENCES)]} ({n})",
        source=f"turn {m}" if n % 4 < len(LOGS) else "",
    ),
    "replace": lambda w, n, m: w.memory.pages.write(
        PAGES[n % 2], w.memory.pages.read(PAGES[n % 2]).replace(LINES[n % 5], LINES[m % 5])
    ),
    "delete page": lambda w, n, m: w.memory.pages.delete((*PAGES, *LOGS)[n % 4]),
    "undo": lambda w, n, m: w.memory.history.undo(w.memory._store.sequence() - n % 9),
    "undo batch": lambda w, n, m: w.memory.history.undo(batch=w.memory._store.sequence() - n % 9),
}  # fmt: skip

numbers = st.integers(0, 12)
steps = st.tuples(st.sampled_from(sorted(OPERATIONS)), numbers, numbers)
waits = st.sampled_from((1, 1, 30, 3_600, 90_000))
plans = st.lists(st.tuples(steps, waits), min_size=1, max_size=30)

laws = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    @contextlib.contextmanager
    def made() -> Iterator[World]:
        opened = World(tmp_path_factory.mktemp("law") / "memory")
        try:
            yield opened
            assert opened.memory.admin.check() == []
        finally:
            opened.memory.close()

    return made


def play(world: World, plan: list[tuple[tuple[str, int, int], int]]) -> Iterator[None]:
    for step, seconds in plan:
        world.now += timedelta(seconds=seconds)
        world.do(*step)
        yield


@given(plan=plans, step=steps)
@laws
def test_undoing_what_one_call_did_gives_back_what_was(
    world: Callable[[], Any], plan: list[Any], step: tuple[str, int, int]
) -> None:
    with world() as here:
        list(play(here, plan))
        before, last = here.dump(), here.memory._store.sequence()
        here.now += timedelta(hours=5)
        here.do(*step)
        rows = here.memory.history.log(after=last)
        after = here.dump()
        if not rows:
            assert after == before
            return
        undone = here.memory.history.undo(rows)
        assert here.dump() == before
        assert undone.changes == tuple(row.sequence for row in reversed(rows))
        here.memory.history.undo(undone.rows or rows)
        assert here.dump() == (after if undone.rows else before)


@given(plan=plans, pick=st.integers(0, 1_000))
@laws
def test_undoing_everything_since_a_moment_gives_back_what_was_then(
    world: Callable[[], Any], plan: list[Any], pick: int
) -> None:
    with world() as here:
        moments = [(here.now, 0, here.dump())]
        for _ in play(here, plan):
            moments.append((here.now, here.memory._store.sequence(), here.dump()))
        (moment, sequence, then), last = moments[pick % len(moments)], here.dump()
        since = moment + timedelta(microseconds=1)
        tried = here.memory.history.undo(since=since, dry_run=True)
        assert here.dump() == last
        undone = here.memory.history.undo(since=since)
        assert here.dump() == then
        assert (undone.changes, undone.differences) == (tried.changes, tried.differences)
        assert undone.left == ()
        assert set(undone.changes) == set(range(sequence + 1, moments[-1][1] + 1))
        if undone.rows:
            here.memory.history.undo(batch=undone.rows[0].batch)
            assert here.dump() == last


@given(plan=plans, picks=st.lists(st.integers(0, 1_000), min_size=1, max_size=3), whole=st.booleans())
@laws
def test_undoing_any_changes_is_refused_or_can_be_undone(
    world: Callable[[], Any], plan: list[Any], picks: list[int], whole: bool
) -> None:
    """And touches nothing but what those changes were about."""
    with world() as here:
        list(play(here, plan))
        last = here.memory._store.sequence()
        if not last:
            return
        before, things = here.dump(), {(d.subject, d.id): d.after for d in changes_of(here.memory)}
        numbers = sorted({pick % last + 1 for pick in picks})
        try:
            undone = (
                here.memory.history.undo(batch=numbers[0]) if whole else here.memory.history.undo(numbers)
            )
        except Conflict:
            assert here.dump() == before
            assert here.memory._store.sequence() == last
            return
        rows = [here.memory.history.log(after=number - 1, limit=1)[0] for number in undone.changes]
        about = {(row.subject, row.edit.id) for row in rows if row.edit is not None}
        now = {(d.subject, d.id): d.after for d in changes_of(here.memory)}
        for name in {*things, *now} - about:
            assert things.get(name) == now.get(name)
        if undone.rows:
            here.memory.history.undo(undone.rows)
        assert here.dump() == before


def changes_of(memory: Memory) -> list[Any]:
    return memory.history.changes(since=0)


@given(plan=plans, picks=st.lists(st.integers(0, 1_000), min_size=1, max_size=4))
@laws
def test_as_it_was_then_a_memory_gives_the_answers_of_then(
    world: Callable[[], Any], plan: list[Any], picks: list[int]
) -> None:
    with world() as here:
        moments = [(here.now, 0, here.dump(), answers(here.memory))]
        chosen = {pick % (len(plan) + 1) for pick in picks}
        for number, _ in enumerate(play(here, plan), 1):
            if number in chosen:
                here.memory.dreams.judge_pending()  # a search would do it, and write the result
                sequence = here.memory._store.sequence()
                moments.append((here.now, sequence, here.dump(), answers(here.memory)))
        for moment, sequence, then, answered in moments:
            with here.memory.as_of(moment) as past:
                assert past.sequence == sequence
                assert dumped(past) == then
                assert answers(past) == answered
            if sequence:
                with here.memory.as_of(sequence) as past:
                    assert dumped(past) == then


def answers(memory: Memory | Snapshot) -> dict[str, Any]:
    """What a memory says, in its order, to questions of every sort."""
    stats = memory.total_stats() if isinstance(memory, Snapshot) else memory.admin.stats()
    return {
        "records": memory.list(limit=None),
        "archived": memory.list(limit=None, archived=True),
        "some": memory.list(limit=2, offset=1, category="project"),
        "get": [memory.get(f"{n:012x}") for n in range(1, 40)],
        "get_turn": [memory.get_turn(f"{n:012x}") for n in range(1, 40)],
        "tallies": (memory.categories(), memory.tags()),
        "search": [memory.search(question) for question in (*QUESTIONS, None)],
        "literal": [memory.search("the", mode="literal"), memory.search("b.t", mode="regex")],
        "only": memory.search("database", tags=["t1"], created_after=BEGIN),
        "turns found": [memory.search(question, sources="turns") for question in QUESTIONS],
        "sessions found": [
            memory.search(question, unit="session", sources="turns") for question in QUESTIONS
        ],
        "history found": [memory.search(question, sources="pages") for question in QUESTIONS],
        "recall": [memory.search(question, sources=SOURCES) for question in QUESTIONS],
        "fil": [memory.search("measure", kind=kind) for kind in FIL],
        "sessions": memory.sessions(),
        "turns": [memory.turns(name) for name in CHATS],
        "windows": [memory.session(name).turns() for name in CHATS],
        "packs": [
            (pack.text, pack.messages, [hit.id for hit in pack.hits])
            for name in CHATS
            for pack in [memory.session(name).context(QUESTIONS[0], record_shown=False)]
        ],
        "pages": [(name, memory.pages.read(name)) for name in memory.pages.names()],
        "overview": memory.pages.overview(),
        "prompt": memory.pages.context(),
        "history": memory.history.log(limit=1_000_000),
        "stats": (stats.records, stats.archived, stats.turns, stats.sessions, stats.journal, stats.by_kind),
    }
