"""Nothing acknowledged is lost or made twice when clients or the server are killed, and no number is missed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from reverie.domain.filter import Filter
from reverie.stores.postgres import PostgresStore
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.factories import NOW, analyse, make_additions, make_record
from tests.support.contract.replay import is_journal_consistent

pytestmark = pytest.mark.slow

_ROOM = 1_000_000
"""How far the numbers of one writer are from those of the next."""


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A server of this test's own, which writes to the disk before it acknowledges."""
    server = PostgresServer(postgres.version, durable=True)
    yield server
    server.remove()


class Writers:
    """Processes that save records, each with numbers of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder
        self._files: list[Path] = []
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start one more."""
        file = self._folder / f"writer-{len(self._files)}"
        with file.open("wb") as output, file.with_suffix(".errors").open("wb") as errors:
            self.running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.stores.postgres.writer_process", self._url,
                     str((len(self._files) + 1) * _ROOM)],
                    stdout=output, stderr=errors,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
            )  # fmt: skip
        self._files.append(file)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill one without warning."""
        process.kill()
        process.wait()
        self.running.remove(process)

    def kill_all(self) -> None:
        """Kill all that run."""
        for process in list(self.running):
            self.kill(process)

    def read_acknowledged(self) -> list[int]:
        """Return the numbers that were acknowledged so far; a line that was cut short does not count."""
        lines = [line for file in self._files for line in file.read_text().splitlines(keepends=True)]
        return [int(line) for line in lines if line.endswith("\n")]

    def read_errors(self) -> str:
        """Return what the writers complained of."""
        return "".join(file.with_suffix(".errors").read_text() for file in self._files)

    def wait_for(self, more: int) -> None:
        """Wait until each has begun, and so many more were acknowledged."""
        before, until = len(self.read_acknowledged()), time.monotonic() + 60
        while len(self.read_acknowledged()) < before + more or not all(map(os.path.getsize, self._files)):
            assert all(process.poll() is None for process in self.running), self.read_errors()
            assert time.monotonic() < until
            time.sleep(0.05)


@pytest.fixture
def writers(server: PostgresServer, tmp_path: Path) -> Iterator[Writers]:
    """No writers yet, for an empty memory."""
    url = server.url("acme")
    PostgresStore(url, analyse=analyse).close()
    writers = Writers(url, tmp_path)
    yield writers
    writers.kill_all()


def assert_nothing_lost_or_doubled(url: str, acknowledged: list[int], *, unacknowledged: int) -> None:
    """Compare a memory with what its writers were told."""
    with closing(PostgresStore(url, analyse=analyse)) as store:
        there = {record.id for record in store.find(Filter())}
        told = {make_record(number).id for number in acknowledged}
        assert len(told) == len(acknowledged)
        assert told <= there, "an acknowledged record is lost"
        assert len(there - told) <= unacknowledged
        assert store.sequence() == len(there) == store.count("made"), "a commit was made twice"
        assert store.check() == []
        assert is_journal_consistent(store)


def test_killed_clients_lose_nothing(server: PostgresServer, writers: Writers) -> None:
    chance = random.Random(1)
    for _ in range(3):
        writers.start()
    for _ in range(10):
        writers.wait_for(20)
        time.sleep(chance.uniform(0, 0.1))
        writers.kill(chance.choice(writers.running))
        writers.start()
    writers.kill_all()
    assert_nothing_lost_or_doubled(server.url("acme"), writers.read_acknowledged(), unacknowledged=13)


def test_a_killed_server_loses_nothing_and_clients_go_on(server: PostgresServer, writers: Writers) -> None:
    chance = random.Random(2)
    for _ in range(3):
        writers.start()
    for _ in range(6):
        writers.wait_for(30)
        time.sleep(chance.uniform(0, 0.1))
        server.kill()
        server.start()
    writers.wait_for(30)
    writers.kill_all()
    assert_nothing_lost_or_doubled(server.url("acme"), writers.read_acknowledged(), unacknowledged=3)


def test_clients_go_on_with_a_standby_that_takes_over(server: PostgresServer, tmp_path: Path) -> None:
    standby = server.make_standby()
    url = server.url("acme").replace(str(server.folder), f"{server.folder},{standby.folder}")
    writers = Writers(f"{url}&target_session_attrs=read-write", tmp_path)
    try:
        PostgresStore(server.url("acme"), analyse=analyse).close()
        for _ in range(3):
            writers.start()
        writers.wait_for(30)
        server.kill()
        standby.promote()
        writers.wait_for(30)
        writers.kill_all()
        assert_nothing_lost_or_doubled(standby.url("acme"), writers.read_acknowledged(), unacknowledged=3)
    finally:
        writers.kill_all()
        standby.remove()


def test_a_follower_that_sleeps_misses_no_number(postgres: PostgresServer) -> None:
    url = postgres.url(uuid.uuid4().hex)
    writers, each = 8, 60

    def write(writer: int) -> None:
        with closing(PostgresStore(url, analyse=analyse)) as store:
            for number in range(each):
                one = make_record(writer * _ROOM + number)
                store.commit(make_additions(one), actor=f"writer {writer}", at=NOW)

    chance = random.Random(3)
    seen: list[int] = []
    with closing(PostgresStore(url, analyse=analyse)) as store, ThreadPoolExecutor(writers) as threads:
        writing = [threads.submit(write, writer) for writer in range(writers)]
        while len(seen) < writers * each and not any(done.done() and done.exception() for done in writing):
            newest = store.sequence()
            rows = store.journal(after=seen[-1] if seen else 0, limit=chance.randint(1, 50))
            seen += [row.sequence for row in rows]
            assert seen == list(range(1, len(seen) + 1)), "a number was not visible when a later one was"
            assert newest <= len(seen) or len(rows) > 0
            time.sleep(chance.choice((0, 0, 0.01, 0.05)))
        for done in writing:
            done.result()
        assert store.sequence() == writers * each
        assert store.check() == []
