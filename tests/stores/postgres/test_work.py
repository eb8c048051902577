"""Background work of many memories: each look is given out once, and a lost lease refuses changes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from click.testing import CliRunner

from reverie import Memory, Settings
from reverie.domain.errors import StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY
from reverie.interfaces.cli.main import cli
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.connections import parse_postgres_url
from reverie.stores.postgres.work import WorkClaim, WorkQueue
from tests.llm.server import Handler, Script, says, serving
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.factories import NOW, analyse, make_additions, make_entry, make_record

LASTING = timedelta(seconds=30)


@pytest.fixture
def database(postgres: PostgresServer, empty_database: str) -> Callable[[str], str]:
    """What builds the URL of a memory in an empty database; the empty name is the whole database."""

    def build_url(memory: str) -> str:
        return postgres.url(quote(memory), database=empty_database).removesuffix("&memory=")

    return build_url


@contextmanager
def opened(url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(url, analyse=analyse)) as store:
        yield store


@contextmanager
def queue(database: Callable[[str], str]) -> Iterator[WorkQueue]:
    with closing(WorkQueue(parse_postgres_url(database("")))) as made:
        yield made


def execute(database: Callable[[str], str], statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database(""), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def change(store: PostgresStore, number: int) -> None:
    store.commit(make_additions(make_record(number)), actor="owner", at=NOW)


def take(looking: WorkQueue) -> WorkClaim:
    """Return the next claim, which there is."""
    claim = looking.claim()
    assert claim is not None
    return claim


# -- leases --------------------------------------------------------------------------------------------


def test_a_worker_whose_lease_was_taken_over_cannot_write(database: Callable[[str], str]) -> None:
    with opened(database("acme")) as one, opened(database("acme")) as two:
        token = one.take_lease("one", LASTING)
        assert token is not None
        assert one.take_lease("one", LASTING) == token, "renewed"
        assert two.take_lease("two", LASTING) is None
        with one.fencing(token):
            change(one, 1)
            execute(database, "UPDATE reverie.work SET expires_at = clock_timestamp()")
            change(one, 2)  # nobody has taken over
            assert one.put_entry(make_entry("kept"), capacity=None, now=NOW)
            taken = two.take_lease("two", LASTING)
            assert taken is not None
            assert taken > token
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="another worker has taken over"):
                    change(one, 3)
            for write in (
                lambda: one.commit([], actor="dream", at=NOW, cursors={"position": "3"}),
                lambda: one.put_entry(make_entry("lost"), capacity=None, now=NOW),
                lambda: one.put_entry(make_entry("kept", data="1"), capacity=None, now=NOW),
                lambda: one.drop_entries(make_entry().namespace),
            ):
                with pytest.raises(StoreUnavailable, match="another worker has taken over"):
                    write()
            other = threading.Thread(target=change, args=(one, 4))
            other.start()  # an agent in the same process is not the worker
            other.join()
        with two.fencing(taken):
            change(two, 5)
        two.release_lease("one")
        assert one.take_lease("one", LASTING) is None, "only the owner gives it back"
        two.release_lease("two")
        again = one.take_lease("one", LASTING)
        assert again is not None
        assert again > taken
        assert {record.id for record in one.find(Filter())} == {make_record(n).id for n in (1, 2, 4, 5)}
        assert one.cursors() == {}
        assert two.entries(None, now=NOW) == [make_entry("kept")]
        assert one.drop_entries(make_entry().namespace) == 1, "an agent needs no lease"
        assert one.check() == []


def test_a_lease_does_not_change_hands_while_a_commit_is_under_way(database: Callable[[str], str]) -> None:
    with opened(database("acme")) as store:
        token = store.take_lease("one", LASTING)
        execute(database, "UPDATE reverie.work SET expires_at = clock_timestamp()")
        with psycopg.connect(database("")) as writing:
            writing.execute("SELECT FROM reverie.space FOR UPDATE")
            taking = threading.Thread(target=store.take_lease, args=("two", LASTING))
            taking.start()
            taking.join(0.3)
            assert taking.is_alive()
            assert execute(database, "SELECT token FROM reverie.work") == [(token,)]
        taking.join(10)
        assert execute(database, "SELECT owner FROM reverie.work") == [("two",)]


# -- looks ---------------------------------------------------------------------------------------------


def test_a_change_makes_its_memory_due_and_a_look_is_given_out_once(database: Callable[[str], str]) -> None:
    with (
        opened(database("acme")) as store,
        opened(database("other")),
        queue(database) as first,
        queue(database) as second,
    ):
        assert first.claim() is None, "nothing has been written"
        change(store, 1)
        claim = take(first)
        assert claim.memory == "acme"
        assert second.claim() is None
        first.finish(claim, None)
        assert second.claim() is None, "nothing is due before the next change"
        change(store, 2)
        claim = take(second)
        change(store, 3)
        second.finish(claim, None)
        claim = take(first)  # it was changed during the look
        first.finish(claim, datetime.now(UTC) + timedelta(hours=1))
        assert first.claim() is None
        execute(database, "UPDATE reverie.work SET due_at = due_at - interval '1 hour'")
        assert first.claim() is not None, "the time has come"


def test_a_look_whose_worker_died_is_given_out_again(database: Callable[[str], str]) -> None:
    with opened(database("acme")) as store, queue(database) as first, queue(database) as second:
        change(store, 1)
        lost = take(first)
        execute(database, "UPDATE reverie.work SET due_at = due_at - interval '30 seconds'")
        store.take_lease("one", LASTING)
        assert second.claim() is None, "its lease has not ended"
        store.release_lease("one")
        take(second)
        first.finish(lost, None)
        execute(database, "UPDATE reverie.work SET due_at = due_at - interval '30 seconds'")
        assert first.claim() is not None, "what the first one says of its look is too late"


def test_the_memory_that_has_waited_longest_comes_first(database: Callable[[str], str]) -> None:
    with opened(database("busy")) as busy, opened(database("quiet")) as quiet, queue(database) as looking:
        change(busy, 1)
        change(quiet, 1)
        seen = []
        for number in range(2, 6):
            claim = take(looking)
            seen.append(claim.memory)
            change(busy, number)
            looking.finish(claim, None)
        assert seen == ["busy", "quiet", "busy", "busy"]


def test_failures_make_the_pauses_longer_whatever_is_written(database: Callable[[str], str]) -> None:
    with opened(database("acme")) as store, queue(database) as looking:
        change(store, 1)
        pauses = []
        for number in range(2, 11):
            claim = take(looking)
            looking.finish(claim, None, has_failed=True)
            change(store, number)
            ((pause,),) = execute(database, "SELECT due_at - clock_timestamp() FROM reverie.work")
            pauses.append(round(pause.total_seconds() / 60))
            execute(database, "UPDATE reverie.work SET due_at = clock_timestamp()")
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        claim = take(looking)
        looking.finish(claim, None)
        change(store, 11)
        assert looking.claim() is not None, "a change counts again"


# -- workers -------------------------------------------------------------------------------------------


def answer(handler: Handler) -> None:
    """Answer a request to read a conversation, and any other one with nothing to do."""
    wanted = handler.asked["response_format"]["json_schema"]["schema"]["properties"]
    says(json.dumps({name: "They talked." if name == "history" else [] for name in wanted}))(handler)


def count_requests(script: Script) -> Counter[tuple[str, str]]:
    """Return how often a model was asked for each kind of answer about each memory."""
    return Counter(
        (
            ",".join(sorted(asked["response_format"]["json_schema"]["schema"]["properties"])),
            ",".join(sorted(set(re.findall("message [0-9]+ in ([a-z0-9]+)", json.dumps(asked["messages"]))))),
        )
        for asked in script.asked
    )


def talk(url: str, cache: Path, *, name: str = "acme", turns: int = 60) -> None:
    """Fill a session beyond its window, an hour ago."""
    before = datetime.now(UTC) - timedelta(hours=1)
    with Memory.open(url, settings=Settings(index_cache=str(cache)), clock=lambda: before) as memory:
        session = memory.session("chat:1")
        for number in range(turns):
            session.add("user" if number % 2 == 0 else "assistant", f"message {number} in {name}")


def start_worker(url: str, folder: Path, *args: str, **env: str) -> subprocess.Popen[bytes]:
    with (folder / f"worker-{uuid.uuid4().hex}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", "from reverie.interfaces.cli.main import main; main()", "worker",
             "--store", url, *args],
            stdout=log, stderr=log,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": str(folder),
                              "REVERIE_INDEX_CACHE": str(folder / uuid.uuid4().hex), "REVERIE_LEARN": "false", **env},
        )  # fmt: skip


def read_logs(folder: Path) -> str:
    return "".join(log.read_text() for log in folder.glob("worker-*.log"))


def count_summaries(database: Callable[[str], str], memories: list[str]) -> Counter[int]:
    """Return how many memories have how many paragraphs in their history: one a conversation that was read."""
    found: Counter[int] = Counter()
    for name in memories:
        with opened(database(name)) as store:
            found[len(store.paragraphs(page=HISTORY))] += 1
            assert store.check() == []
    return found


def test_one_worker_does_what_is_due_in_all_memories_and_ends(
    database: Callable[[str], str], tmp_path: Path
) -> None:
    memories = ["a", "b & c", "d"]
    for name in memories[:2]:
        talk(database(name), tmp_path / "cache")
    talk(database("d"), tmp_path / "cache", turns=3)
    env = {"HOME": str(tmp_path), "REVERIE_INDEX_CACHE": str(tmp_path / "c"), "REVERIE_LEARN": "false"}
    for _ in range(2):
        done = CliRunner().invoke(cli, ["worker", "--once", "--store", database("")], env=env)
        assert (done.exit_code, done.output) == (0, "")
        assert count_summaries(database, memories) == {1: 3}
    due = "SELECT count(*) FROM reverie.work WHERE due_at <= clock_timestamp()"
    assert execute(database, due) == [(0,)]
    assert execute(database, "SELECT 1 FROM reverie.worker") == []


@pytest.mark.slow
def test_eight_workers_do_each_due_pass_once(database: Callable[[str], str], tmp_path: Path) -> None:
    memories = [f"memory{number}" for number in range(16)]
    for name in memories:
        talk(database(name), tmp_path / "cache", name=name)
    with serving(answer) as script:
        workers = [
            start_worker(database(""), tmp_path, "--once", "--model", "openai:scripted",
                         OPENAI_BASE_URL=script.url)
            for _ in range(8)
        ]  # fmt: skip
        assert [worker.wait(300) for worker in workers] == [0] * 8, read_logs(tmp_path)
        requests = count_requests(script)
    assert {name for _, name in requests} == set(memories)
    twice = {key: count for key, count in requests.items() if count > 1}
    assert twice == {}, "a model was asked twice for the same work"
    assert count_summaries(database, memories) == {1: 16}


@pytest.mark.slow
def test_a_killed_worker_is_taken_over_within_a_minute(
    database: Callable[[str], str], tmp_path: Path
) -> None:
    talk(database("acme"), tmp_path / "cache")
    is_asked, may_answer = threading.Event(), threading.Event()

    def hang(handler: Handler) -> None:
        is_asked.set()
        may_answer.wait(120)

    with serving(hang, answer) as script:
        model = {"OPENAI_BASE_URL": script.url}
        first = start_worker(database(""), tmp_path, "--model", "openai:scripted", **model)
        assert is_asked.wait(60), read_logs(tmp_path)
        second = start_worker(database(""), tmp_path, "--model", "openai:scripted", **model)
        time.sleep(8)
        assert len(script.asked) == 1, "the second one leaves it to the first"
        first.kill()
        first.wait()
        killed = time.monotonic()
        try:
            while count_summaries(database, ["acme"]) != {1: 1}:
                assert time.monotonic() - killed < 60, read_logs(tmp_path)
                time.sleep(0.5)
            assert max(count_requests(script).values()) == 2, "the one that was lost, and again"
        finally:
            may_answer.set()
            second.terminate()
            assert second.wait(30) == 0, read_logs(tmp_path)
    assert execute(database, "SELECT count(*) FROM reverie.worker") == [(1,)], "the killed one, for a day"
