"""What is due is found in the store and done once, by whoever is there; nothing depends on who it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie.consolidation.worker import LEASE, Worker
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, ModelRefused, ModelTimeout, ModelUnavailable
from reverie.domain.page import HISTORY
from reverie.domain.record import Record
from reverie.domain.text.ids import generate_id
from reverie.domain.text.timestamps import compute_next_run
from reverie.llm import model_from_function
from reverie.llm.protocol import ModelReply, ModelRequest
from reverie.search.analyzer import analyze
from reverie.settings import Settings
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.writer import StoreWriter
from tests.factories import MovableClock, believe

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

Answer = Callable[[ModelRequest], str | ModelReply]


@dataclass
class World:
    """A store with a clock, conversations and workers."""

    store: SQLiteStore
    clock: MovableClock

    def worker(self, answer: Answer | None = None, **settings: Any) -> Worker:
        return Worker(
            StoreWriter(store=self.store, clock=self.clock),
            settings=Settings(**settings),
            model=None if answer is None else model_from_function(answer),
            plan_records=lambda records: [],
        )

    def talk(self, count: int, *, scope: str = "", text: str = "message") -> None:
        state = self.store.session("chat:1")
        begun = [] if state is not None else [SessionState(id="chat:1", created_at=NOW, scope=scope)]
        there = len(self.store.turns(session="chat:1"))
        turns = [
            Turn(
                id=generate_id(),
                session="chat:1",
                position=there + n,
                role="user" if n % 2 == 0 else "assistant",
                content=f"{text} {there + n}",
                at=NOW - timedelta(minutes=count - n),
                scope=scope,
            )
            for n in range(count)
        ]
        self.store.commit(
            [Change(before=None, after=each) for each in (*begun, *turns)], actor="owner", at=NOW
        )

    def fact(self, content: str) -> None:
        at = self.clock.now
        made = {"created_at": at, "updated_at": at, "last_seen_at": at}
        one = Record(id=generate_id(), content=content, kind="decision", layer="episodic", **made)  # type: ignore[arg-type]
        self.store.commit([Change(before=None, after=one)], actor="owner", at=at)

    def lease(self, lasting: timedelta) -> None:
        entry = Entry(namespace=LEASE, key="other", data="", stored_at=NOW, expires_at=NOW + lasting)
        self.store.put_entry(entry, capacity=1, now=NOW)

    @property
    def window(self) -> int:
        state = self.store.session("chat:1")
        assert state is not None
        return len(self.store.turns(session="chat:1")) - state.window_start

    @property
    def history(self) -> list[str]:
        return [paragraph.content for paragraph in self.store.paragraphs(page=HISTORY)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    store = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    yield World(store, MovableClock(NOW))
    store.close()


def digesting() -> Callable[[ModelRequest], ModelReply]:
    record = {"content": "message 0", "kind": "fact", "category": "", "turns": ["T1"]}
    return believe(lambda ask: json.dumps({"history": "It begins with message 0.", "add": [record]}))


def wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_done() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert is_done()


# -- windows -------------------------------------------------------------------------------------------


def test_a_window_over_its_size_is_digested_and_ten_messages_stay(world: World) -> None:
    world.talk(50)
    before = world.store.sequence()
    assert world.worker(digesting()).run_due().outcomes == ()
    assert world.store.sequence() == before, "nothing due writes nothing"
    world.talk(1)
    (outcome,) = world.worker(digesting()).run_due().outcomes
    assert (outcome.name, outcome.state, world.window) == ("read", "applied", 10)
    assert len(world.store.turns(session="chat:1")) == 51, "turns are never removed"
    (paragraph,) = world.history
    assert paragraph.endswith("It begins with message 0.")
    assert world.worker(digesting()).run_due().outcomes == ()


def test_a_failed_call_loses_nothing_and_is_tried_again(world: World) -> None:
    def failing(ask: ModelRequest) -> str:
        raise ModelUnavailable("too slow")

    world.talk(60)
    (outcome,) = world.worker(failing).run_due().outcomes
    assert (outcome.state, outcome.why, world.window) == ("failed", "too slow", 60)
    assert world.store.count("read.failed") == 1
    world.talk(5)
    (outcome,) = world.worker(digesting()).run_due().outcomes
    assert (outcome.state, world.window) == ("applied", 10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failing", "most"),
    [
        (lambda: ModelReply(text='{"history": "They', finish="length"), 13),
        (lambda: ModelReply(text="I would rather not."), 6),
        (lambda: raising(ModelTimeout("too slow")), 6),
        (lambda: raising(ModelRefused("against the rules")), 6),
    ],
)
def test_a_model_that_fails_for_a_month_is_asked_now_and_then_and_reads_what_waited_when_it_works(
    world: World, failing: Callable[[], str | ModelReply], most: int
) -> None:
    asked: list[str] = []
    is_broken = True

    def answer(request: ModelRequest) -> str | ModelReply:
        asked.extend([request.messages[-1].content] * (request.purpose == "read"))
        return failing() if is_broken else digesting()(request)

    world.talk(60)
    one = world.worker(answer)
    for _ in range(30 * 4):
        one.run_due()
        world.clock.move(hours=6)
    assert 3 <= len(asked) <= most
    assert world.window == 10, "a window is shortened by rule then"
    is_broken = False
    asked.clear()
    for _ in range(8 * 4):
        world.clock.move(hours=6)
        one.run_due()
    assert [text.count("] USER: message") for text in asked] == [30], "every message is read, once"


def raising(error: Exception) -> str:
    raise error


def test_turns_that_arrive_meanwhile_are_kept(world: World) -> None:
    def answer(ask: ModelRequest) -> ModelReply:
        if ask.purpose == "read":
            world.talk(3, text="late")
        return digesting()(ask)

    world.talk(60)
    world.worker(answer).run_due()
    assert world.window == 13
    assert world.store.turns(session="chat:1")[-1].content == "late 62"


def test_without_consolidation_the_window_is_cut_to_ten_and_nobody_is_asked(world: World) -> None:
    def never(ask: ModelRequest) -> str:
        raise AssertionError("asked")

    world.talk(11)
    (outcome,) = world.worker(never, memory_window=0).run_due().outcomes
    assert (outcome.name, outcome.state, world.window) == ("compact", "applied", 10)
    assert world.history == []


def test_a_scoped_session_is_compacted_and_leaves_nothing_in_everybodys_pages(world: World) -> None:
    world.talk(60, scope="user:alice")
    (outcome,) = world.worker(lambda ask: "They talked.").run_due().outcomes
    state = world.store.session("chat:1")
    assert state is not None
    assert (outcome.name, state.summary, world.window) == ("compact", "They talked.", 20)
    assert world.history == world.store.pages() == []


def test_a_window_of_few_long_messages_is_compacted(world: World) -> None:
    world.talk(30, text="long " * 2_000)
    assert world.worker(compaction_enabled=False).run_due().outcomes == ()
    (outcome,) = world.worker().run_due().outcomes
    assert (outcome.state, world.window) == ("applied", 20)


def test_a_long_past_is_digested_in_parts(world: World) -> None:
    world.talk(700)
    one = world.worker()
    while one.run_due().outcomes:
        pass
    assert (world.window, len(world.history)) == (10, 4)


def test_by_hand_the_window_can_be_shortened_to_any_length(world: World) -> None:
    world.talk(30)
    one = world.worker(lambda ask: "They talked.")
    for keep, state in ((5, "applied"), (0, "applied"), (0, "skipped")):
        assert one.run_window("chat:1", "compact", keep=keep).state == state
        assert world.window == keep
    assert one.run_window("nobody", "compact").state == "failed"
    wrong: list[Any] = [(5, "compact", 5), ("chat:1", "shorten", 5), ("chat:1", "compact", -1)]
    for session, kind, keep in wrong:
        with pytest.raises(InvalidInput):
            one.run_window(session, kind, keep=keep)


# -- dreams --------------------------------------------------------------------------------------------


def test_a_dream_waits_until_nobody_talks_and_comes_once_in_an_interval(world: World) -> None:
    world.fact("We use Postgres")
    one = world.worker(dream_interval="1h", dream_idle="5m")
    assert one.run_due().outcomes == ()
    world.clock.move(minutes=6)
    assert [each.state for each in one.run_due().outcomes] == [*["skipped"] * 4, "applied"]
    world.clock.move(minutes=30)
    world.fact("We use Redis")
    world.clock.move(minutes=10)
    assert one.run_due().outcomes == ()
    world.clock.move(minutes=30)
    assert one.run_due().outcomes[-1].state == "applied"
    world.clock.move(days=3)
    assert one.run_due().outcomes == (), "nothing new, nothing to do"
    world.fact("We use Kafka")
    world.clock.move(days=9)
    assert world.worker(dream_interval=None).run_due().outcomes == ()
    assert len(world.worker(dream_interval=None).run().outcomes) == 5


def test_a_dream_by_schedule_and_an_hour_with_nothing_to_do_waits_for_the_next(world: World) -> None:
    one = world.worker(dream_schedule="0 3 * * *")
    one.run_due()
    for now, content, count in (
        (datetime(2026, 3, 3, 3, 1, tzinfo=UTC), "", 0),
        (datetime(2026, 3, 3, 12, tzinfo=UTC), "We use Postgres", 0),
        (datetime(2026, 3, 4, 2, 59, tzinfo=UTC), "", 0),
        (datetime(2026, 3, 4, 3, 1, tzinfo=UTC), "", 5),
    ):
        world.clock.now = now
        if content:
            world.fact(content)
        assert len(one.run_due().outcomes) == count
    assert compute_next_run("0 3 * * *", NOW) == datetime(2026, 3, 2, 3, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="five fields"):
        compute_next_run("at three", NOW)


def test_a_clock_that_was_far_ahead_once_stops_nothing(world: World) -> None:
    one = world.worker()
    for days in (400, -400):
        world.clock.move(days=days)
        world.fact(f"We moved by {days} days")
        world.clock.move(hours=1)
        assert len(one.run_due().outcomes) == 5


# -- one owner at a time -------------------------------------------------------------------------------


def test_somebody_elses_lease_is_respected_until_it_ends_unless_its_clock_was_wrong(world: World) -> None:
    world.talk(60)
    world.lease(timedelta(minutes=10))
    one = world.worker()
    assert one.run_due().busy
    assert one.run().busy
    assert world.window == 60
    world.clock.move(minutes=10, seconds=1)
    assert one.run_due().outcomes
    assert world.store.entries(LEASE, now=world.clock()) == [], "given back"
    world.talk(60)
    world.lease(timedelta(days=400))
    assert world.worker().run_due().outcomes
    assert world.window == 10


def test_the_thread_does_what_is_due_and_ends(world: World) -> None:
    one = world.worker()
    one.start()
    one.start()
    world.talk(60)

    def is_done() -> bool:
        one.wake()
        return world.window == 10

    wait_until(is_done)
    assert one.stop()
    assert one.stop()
    assert _count_threads() == 0


def test_a_bug_in_ours_does_not_end_the_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one = world.worker()
    monkeypatch.setattr(one, "run_due", lambda: 1 / 0)
    one.start()

    def has_failed_twice() -> bool:
        one.wake()
        return world.store.count("worker.failed") >= 2

    wait_until(has_failed_twice)
    assert one.stop()


class Held:
    """A model that says when it is asked, and answers when it may go on."""

    def __init__(self) -> None:
        self.asked, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, ask: ModelRequest) -> str | ModelReply:
        self.asked.set()
        assert self.may_go_on.wait(20)
        return digesting()(ask)


def test_a_thread_that_was_told_to_stop_is_not_revived_by_another(world: World) -> None:
    model = Held()
    world.talk(60)
    one = world.worker(model)
    one.start()
    assert model.asked.wait(20)
    assert not one.stop(timeout_s=0.01), "it waits for the model"
    one.start()
    model.may_go_on.set()
    wait_until(lambda: _count_threads() == 1)
    assert one.stop()


def test_the_threads_of_a_process_work_one_after_the_other(world: World) -> None:
    model = Held()
    world.talk(60)
    one, other = world.worker(model), world.worker(digesting())
    one.start()
    assert model.asked.wait(20)
    assert other.run(["promote"]).busy, "the thread is still at it"
    model.may_go_on.set()
    assert not one.run(["promote"]).busy, "it waits for the thread"
    assert one.stop()
    assert not other.run(["promote"]).busy


def test_a_forked_process_does_not_share_the_lease(world: World) -> None:
    one = world.worker()
    with one._lease.hold() as leased:
        assert leased
        child = os.fork()
        if not child:
            os._exit(0 if one.run(["promote"]).busy else 1)
        assert os.waitpid(child, 0)[1] == 0
        child = os.fork()
        if not child:
            world.store.drop_entries(LEASE)
            is_wrong = one.run(["promote"]).busy or world.store.entries(LEASE, now=world.clock())
            os._exit(1 if is_wrong else 0)
        assert os.waitpid(child, 0)[1] == 0
    assert not one.run(["promote"]).busy


def _count_threads() -> int:
    return [thread.name for thread in threading.enumerate()].count("reverie-worker")


CHILD = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.consolidation.test_worker import NOW, World
from tests.factories import MovableClock
from reverie.search.analyzer import analyze
from reverie.stores.sqlite import SQLiteStore
world = World(SQLiteStore(Path(sys.argv[1]), analyse=analyze), MovableClock(NOW))
world.talk(60)
world.worker(lambda ask: os.kill(os.getpid(), 9)).run_due()
"""


@pytest.mark.slow
def test_what_a_killed_process_left_undone_the_next_one_does(tmp_path: Path) -> None:
    path, root = tmp_path / "reverie.db", Path(__file__).parents[2]
    SQLiteStore(path, analyse=analyze).close()
    done = subprocess.run([sys.executable, "-c", CHILD, str(path), str(root)], capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    world = World(SQLiteStore(path, analyse=analyze), MovableClock(NOW))
    try:
        assert world.window == 60
        assert world.worker().run_due().busy, "its lease still holds"
        world.clock.move(minutes=11)
        outcomes = world.worker(digesting()).run_due().outcomes
        assert [each.state for each in outcomes if each.name == "read"] == ["applied"]
        assert (world.window, len(world.history)) == (10, 1)
    finally:
        world.store.close()
