"""What is due is found in the store and done once, by whoever is there; nothing depends on who it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie.consolidation.lease import LEASE
from reverie.consolidation.worker import Worker
from reverie.domain.change import Change
from reverie.domain.conversation import SessionState, Turn
from reverie.domain.entry import Entry
from reverie.domain.errors import InvalidInput, ModelUnavailable, NotFound
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


@pytest.fixture
def now() -> MovableClock:
    return MovableClock(NOW)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    found = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    yield found
    found.close()


def worker(
    store: SQLiteStore,
    now: MovableClock,
    answer: Callable[[ModelRequest], str | ModelReply] | None = None,
    **settings: Any,
) -> Worker:
    chosen = Settings(**settings)
    model = None if answer is None else model_from_function(answer)
    writer = StoreWriter(store=store, clock=now)
    return Worker(writer, settings=chosen, model=model, plan_records=lambda records: [])


def talk(
    store: SQLiteStore, count: int, *, session: str = "chat:1", scope: str = "", text: str = "message"
) -> None:
    state = store.session(session)
    begun = [] if state is not None else [SessionState(id=session, created_at=NOW, scope=scope)]
    there = len(store.turns(session=session))
    turns = [
        Turn(
            id=generate_id(),
            session=session,
            position=there + n,
            role="user" if n % 2 == 0 else "assistant",
            content=f"{text} {there + n}",
            at=NOW - timedelta(minutes=count - n),
            scope=scope,
        )
        for n in range(count)
    ]
    store.commit([Change(before=None, after=each) for each in (*begun, *turns)], actor="owner", at=NOW)


def window(store: SQLiteStore, session: str = "chat:1") -> int:
    state = store.session(session)
    assert state is not None
    return len(store.turns(session=session)) - state.window_start


def digesting(
    content: str = "message 0",
) -> Callable[[ModelRequest], ModelReply]:
    record = {"content": content, "kind": "fact", "category": "", "turns": ["T1"]}
    return believe(lambda ask: json.dumps({"history": "It begins with message 0.", "add": [record]}))


# -- windows -------------------------------------------------------------------------------------------


def test_a_window_over_its_size_is_digested_and_ten_messages_stay(
    store: SQLiteStore, now: MovableClock
) -> None:
    talk(store, 50)
    assert worker(store, now, digesting()).run_due().outcomes == ()
    talk(store, 1)
    (outcome,) = worker(store, now, digesting()).run_due().outcomes
    assert (outcome.name, outcome.state) == ("read", "applied")
    assert window(store) == 10
    assert len(store.turns(session="chat:1")) == 51, "turns are never removed"
    (paragraph,) = store.paragraphs(page=HISTORY)
    assert paragraph.content.endswith("It begins with message 0.")
    assert worker(store, now, digesting()).run_due().outcomes == ()


def test_a_failed_call_loses_nothing_and_is_tried_again(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 60)

    def failing(ask: ModelRequest) -> str:
        raise ModelUnavailable("too slow")

    (outcome,) = worker(store, now, failing).run_due().outcomes
    assert (outcome.state, outcome.why) == ("failed", "too slow")
    assert window(store) == 60
    assert store.count("read.failed") == 1
    talk(store, 5)
    (outcome,) = worker(store, now, digesting()).run_due().outcomes
    assert outcome.state == "applied"
    assert window(store) == 10


def test_turns_that_arrive_meanwhile_are_kept(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 60)

    def answer(ask: ModelRequest) -> ModelReply:
        if ask.purpose == "read":
            talk(store, 3, text="late")
        return digesting()(ask)

    worker(store, now, answer).run_due()
    assert window(store) == 13
    assert store.turns(session="chat:1")[-1].content == "late 62"


def test_without_consolidation_the_window_is_cut_to_ten_and_nobody_is_asked(
    store: SQLiteStore, now: MovableClock
) -> None:
    def never(ask: ModelRequest) -> str:
        raise AssertionError("asked")

    talk(store, 11)
    (outcome,) = worker(store, now, never, memory_window=0).run_due().outcomes
    assert (outcome.name, outcome.state, window(store)) == ("trim", "applied", 10)
    assert store.paragraphs(page=HISTORY) == []


def test_a_scoped_session_is_compacted_and_leaves_nothing_in_everybodys_pages(
    store: SQLiteStore, now: MovableClock
) -> None:
    talk(store, 60, scope="user:alice")
    (outcome,) = worker(store, now, lambda ask: "They talked.").run_due().outcomes
    assert outcome.name == "compact"
    state = store.session("chat:1")
    assert state is not None
    assert (state.summary, window(store)) == ("They talked.", 20)
    assert store.paragraphs(page=HISTORY) == []
    assert store.pages() == []


def test_a_window_of_few_long_messages_is_compacted(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 30, text="long " * 2_000)
    assert worker(store, now, compaction_enabled=False).run_due().outcomes == ()
    (outcome,) = worker(store, now).run_due().outcomes
    assert outcome.state == "applied"
    assert window(store) == 20


def test_a_long_past_is_digested_in_parts(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 700)
    one = worker(store, now)
    while one.run_due().outcomes:
        pass
    assert window(store) == 10
    assert len(store.paragraphs(page=HISTORY)) == 4


def test_by_hand_the_window_can_be_shortened_to_any_length(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 30)
    one = worker(store, now, lambda ask: "They talked.")
    assert one.run_window("chat:1", "compact", keep=5).state == "applied"
    assert window(store) == 5
    assert one.run_window("chat:1", "compact", keep=0).state == "applied"
    assert window(store) == 0
    assert one.run_window("chat:1", "compact", keep=0).state == "skipped"
    assert one.run_window("nobody", "compact").state == "failed"
    wrong: list[tuple[Any, Any, Any]] = [
        (5, "compact", 5),
        ("chat:1", "shorten", 5),
        ("chat:1", "compact", -1),
    ]
    for session, kind, keep in wrong:
        with pytest.raises(InvalidInput):
            one.run_window(session, kind, keep=keep)
    with pytest.raises(NotFound):
        one.plan("compact", session="nobody")
    with pytest.raises(InvalidInput, match="keep"):
        one.plan("compact", session="chat:1", keep=-1)


# -- dreams --------------------------------------------------------------------------------------------


def fact(store: SQLiteStore, content: str, at: datetime = NOW) -> None:
    made = {"created_at": at, "updated_at": at, "last_seen_at": at}
    one = Record(id=generate_id(), content=content, kind="decision", layer="episodic", **made)  # type: ignore[arg-type]
    store.commit([Change(before=None, after=one)], actor="owner", at=at)


def test_a_dream_waits_until_nobody_talks_and_comes_once_in_an_interval(
    store: SQLiteStore, now: MovableClock
) -> None:
    fact(store, "We use Postgres")
    one = worker(store, now, dream_interval="1h", dream_idle="5m")
    assert one.run_due().outcomes == ()
    now.now += timedelta(minutes=6)
    assert [each.state for each in one.run_due().outcomes] == [
        "skipped",
        "skipped",
        "skipped",
        "skipped",
        "applied",
    ]
    now.now += timedelta(minutes=30)
    fact(store, "We use Redis", now.now)
    now.now += timedelta(minutes=10)
    assert one.run_due().outcomes == ()
    now.now += timedelta(minutes=30)
    assert [each.state for each in one.run_due().outcomes][-1] == "applied"
    now.now += timedelta(days=3)
    assert one.run_due().outcomes == (), "nothing new, nothing to do"


def test_a_dream_by_schedule(store: SQLiteStore, now: MovableClock) -> None:
    one = worker(store, now, dream_schedule="0 3 * * *")
    fact(store, "We use Postgres")
    now.now += timedelta(hours=1)
    assert one.run_due().outcomes == ()
    now.now = datetime(2026, 3, 2, 2, 59, tzinfo=UTC)
    assert one.run_due().outcomes == ()
    now.now = datetime(2026, 3, 2, 3, 0, 1, tzinfo=UTC)
    assert len(one.run_due().outcomes) == 5
    assert compute_next_run("0 3 * * *", NOW) == datetime(2026, 3, 2, 3, tzinfo=UTC)
    with pytest.raises(InvalidInput, match="five fields"):
        compute_next_run("at three", NOW)


def test_a_clock_that_was_far_ahead_once_stops_nothing(store: SQLiteStore, now: MovableClock) -> None:
    one = worker(store, now)
    now.now += timedelta(days=400)
    fact(store, "We use Postgres", now.now)
    now.now += timedelta(hours=1)
    assert len(one.run_due().outcomes) == 5
    now.now -= timedelta(days=400)
    fact(store, "We use Redis", now.now)
    now.now += timedelta(hours=1)
    assert len(one.run_due().outcomes) == 5


# -- one owner at a time -------------------------------------------------------------------------------


def test_somebody_elses_lease_is_respected_until_it_ends(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 60)
    until = NOW + timedelta(minutes=10)
    store.put_entry(
        Entry(namespace=LEASE, key="other", data="", stored_at=NOW, expires_at=until), capacity=1, now=NOW
    )
    one = worker(store, now)
    assert one.run_due().busy
    assert one.run().busy
    assert window(store) == 60
    now.now += timedelta(minutes=10, seconds=1)
    assert one.run_due().outcomes
    assert store.entries(LEASE, now=now()) == [], "given back"


def test_the_thread_does_what_is_due_and_ends(store: SQLiteStore, now: MovableClock) -> None:
    one = worker(store, now)
    one.start(every_s=60)
    one.start()
    talk(store, 60)
    deadline = time.monotonic() + 20
    while window(store) > 10 and time.monotonic() < deadline:
        one.wake()
        time.sleep(0.02)
    assert window(store) == 10
    assert one.stop()
    assert one.stop()
    assert "reverie-worker" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(InvalidInput, match="every_s"):
        one.start(every_s=0)


def test_a_bug_in_ours_does_not_end_the_thread(
    store: SQLiteStore, now: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = worker(store, now)
    monkeypatch.setattr(one, "run_due", lambda: 1 / 0)
    one.start(every_s=0.01)
    deadline = time.monotonic() + 20
    while store.count("worker.failed") < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert store.count("worker.failed") >= 2
    assert one.stop()


def digesting_when_told(
    asked: threading.Event, go_on: threading.Event
) -> Callable[[ModelRequest], str | ModelReply]:
    """Return a model that says when it is asked, and answers when it may go on."""

    def wait(ask: ModelRequest) -> str | ModelReply:
        asked.set()
        assert go_on.wait(20)
        return digesting()(ask)

    return wait


def test_a_thread_that_was_told_to_stop_is_not_revived_by_another(
    store: SQLiteStore, now: MovableClock
) -> None:
    asked, go_on = threading.Event(), threading.Event()
    wait = digesting_when_told(asked, go_on)
    talk(store, 60)
    one = worker(store, now, wait)
    one.start(every_s=0.01)
    assert asked.wait(20)
    assert not one.stop(timeout_s=0.01), "it waits for the model"
    one.start(every_s=0.01)
    go_on.set()
    deadline = time.monotonic() + 20
    while _count_threads() > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _count_threads() == 1
    assert one.stop()


def test_the_lease_is_kept_while_another_thread_of_the_process_works(
    store: SQLiteStore, now: MovableClock
) -> None:
    asked, go_on = threading.Event(), threading.Event()
    wait = digesting_when_told(asked, go_on)
    talk(store, 60)
    one, other = worker(store, now, wait), worker(store, now, digesting())
    one.start(every_s=60)
    assert asked.wait(20)
    assert not one.run(["promote"]).busy
    assert other.run(["promote"]).busy, "the thread is still at it"
    go_on.set()
    assert one.stop()
    assert not other.run(["promote"]).busy


def test_a_forked_process_does_not_share_the_lease(store: SQLiteStore, now: MovableClock) -> None:
    one = worker(store, now)
    with one._lease.hold() as leased:
        assert leased
        child = os.fork()
        if not child:
            os._exit(0 if one.run(["promote"]).busy else 1)
        assert os.waitpid(child, 0)[1] == 0
        child = os.fork()
        if not child:
            store.drop_entries(LEASE)
            os._exit(1 if one.run(["promote"]).busy or store.entries(LEASE, now=now()) else 0)
        assert os.waitpid(child, 0)[1] == 0
    assert not one.run(["promote"]).busy


def _count_threads() -> int:
    return [thread.name for thread in threading.enumerate()].count("reverie-worker")


CHILD = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.consolidation.test_worker import NOW, talk, worker
from tests.factories import MovableClock
from reverie.search.analyzer import analyze
from reverie.stores.sqlite import SQLiteStore
store = SQLiteStore(Path(sys.argv[1]), analyse=analyze)
talk(store, 60)
def dies(ask):
    os.kill(os.getpid(), 9)
worker(store, MovableClock(NOW), dies).run_due()
"""


@pytest.mark.slow
def test_what_a_killed_process_left_undone_the_next_one_does(tmp_path: Path, now: MovableClock) -> None:
    path = tmp_path / "reverie.db"
    SQLiteStore(path, analyse=analyze).close()
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", CHILD, str(path), str(root)], capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    store = SQLiteStore(path, analyse=analyze)
    try:
        assert window(store) == 60
        assert worker(store, now).run_due().busy, "its lease still holds"
        now.now += timedelta(minutes=11)
        assert [
            each.state for each in worker(store, now, digesting()).run_due().outcomes if each.name == "read"
        ] == ["applied"]
        assert window(store) == 10
        assert len(store.paragraphs(page=HISTORY)) == 1
    finally:
        store.close()


def test_a_schedule_whose_hour_had_nothing_to_do_waits_for_the_next(
    store: SQLiteStore, now: MovableClock
) -> None:
    one = worker(store, now, dream_schedule="0 3 * * *")
    now.now += timedelta(hours=1)
    one.run_due()
    now.now = datetime(2026, 3, 3, 3, 1, tzinfo=UTC)
    assert one.run_due().outcomes == ()
    fact(store, "We use Postgres", now.now + timedelta(hours=9))
    now.now += timedelta(hours=10)
    assert one.run_due().outcomes == (), "three o'clock is over"
    now.now = datetime(2026, 3, 4, 3, 1, tzinfo=UTC)
    assert len(one.run_due().outcomes) == 5


def test_a_lease_taken_by_a_clock_that_was_wrong_holds_nobody_up(
    store: SQLiteStore, now: MovableClock
) -> None:
    talk(store, 60)
    until = NOW + timedelta(days=400)
    store.put_entry(
        Entry(namespace=LEASE, key="other", data="", stored_at=NOW, expires_at=until), capacity=1, now=NOW
    )
    assert worker(store, now).run_due().outcomes
    assert window(store) == 10


def test_nothing_due_takes_no_lease_and_writes_nothing(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 5)
    before = store.sequence()
    worker(store, now).run_due()
    assert store.sequence() == before


def test_no_interval_no_dream(store: SQLiteStore, now: MovableClock) -> None:
    fact(store, "We use Postgres")
    now.now += timedelta(days=9)
    assert worker(store, now, dream_interval=None).run_due().outcomes == ()
    assert len(worker(store, now, dream_interval=None).run().outcomes) == 5


def test_several_workers_digest_a_window_once(store: SQLiteStore, now: MovableClock) -> None:
    talk(store, 60)
    workers = [worker(store, now, digesting()) for _ in range(6)]
    threads = [threading.Thread(target=each.run_due) for each in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.paragraphs(page=HISTORY)) == 1
