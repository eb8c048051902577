"""Whoever is killed, whenever: what was acknowledged is there, once, and search agrees with the store."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import Hit, Memory

from .worker import SESSIONS, SHARED

SECONDS = float(os.environ.get("REVERIE_TORTURE_SECONDS", "0")) or 7.0
WORKER = Path(__file__).with_name("worker.py")
NOW = datetime(2040, 1, 1, tzinfo=UTC)

Line = list[Any]


class Worker:
    """A running `worker.py`, and every line it wrote before it was killed."""

    def __init__(self, folder: Path, seed: int, threads: int) -> None:
        command = [sys.executable, "-W", "error", str(WORKER), str(folder), str(seed), str(threads)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines: list[Line] = []
        self.errors = b""
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # the last one may be cut by the kill
                self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors = self.process.stderr.read()

    def kill(self) -> None:
        """End it without any warning, and read what it still had written."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=60)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


class Account:
    """What the workers were told, and what they may have done besides before they were killed."""

    def __init__(self, workers: list[Worker]) -> None:
        self.saved: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.state: dict[tuple[str, str], list[Any]] = {}  # what it can be: the last told, and tried since
        self.turns: list[tuple[str, list[str]]] = []
        self.turns_tried: Counter[tuple[str, str]] = Counter()
        self.full: set[str] = set()
        self.acknowledged = 0
        for worker in workers:
            for line in worker.lines:
                self._take(line)

    def _take(self, line: Line) -> None:
        match line:
            case ["try" | "done" as when, "save" | "repeat", text]:
                (self.saved if when == "done" else self.tried)[text] += 1
            case ["try" | "done" as when, "many", texts]:
                (self.saved if when == "done" else self.tried).update(texts)
            case ["try", "source" | "live" | "set" as what, name, value]:
                self.state.setdefault((what, name), [_UNTOUCHED]).append(value)
            case ["done", "source" | "live" | "set" as what, name, value]:
                self.state[(what, name)] = [value]
            case ["try", "turn", session, texts]:
                self.turns_tried.update((session, text) for text in texts)
            case ["done", "turn", session, texts]:
                self.turns.append((session, texts))
            case ["full", key]:
                self.full.add(key)
        self.acknowledged += line[0] == "done"


_UNTOUCHED = object()


def torture(folder: Path, *, seconds: float, processes: int, threads: int, seed: int) -> list[Worker]:
    """Processes that work on the folder, killed at random moments and started again, for so long."""
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    running: list[tuple[float, Worker]] = []
    ended: list[Worker] = []
    while time.monotonic() < end or running:
        while len(running) < processes and time.monotonic() < end:
            number = len(ended) + len(running)
            dies = min(end, time.monotonic() + chance.uniform(0.3, 2.5))
            running.append((dies, Worker(folder, seed * 1_000_000 + number, threads)))
        time.sleep(0.01)
        for due, worker in list(running):
            if time.monotonic() >= due or worker.process.poll() is not None:
                worker.kill()
                running.remove((due, worker))
                ended.append(worker)
        if chance.random() < 0.005:
            shutil.rmtree(folder / "index", ignore_errors=True)
    return ended


def answers(folder: Path, questions: list[str]) -> tuple[list[list[Hit]], list[list[Hit]]]:
    """The records and the turns that a memory finds at one moment."""
    with Memory.open(folder, clock=lambda: NOW) as memory:
        return [memory.search(text) for text in questions], [memory.search_turns(text) for text in questions]


def good(hits: list[Hit]) -> list[tuple[float, str]]:
    """The hits at least half as good as the best, by id where no other has the same score.

    Of thousands that fit equally badly it is chance which ones are looked at (decisions/0002).
    """
    count = Counter(hit.score for hit in hits)
    return [
        (hit.score, hit.id if count[hit.score] == 1 else "tied")
        for hit in hits
        if hit.score >= 0.5 * hits[0].score
    ]


def best_is_among_the_best(hits: list[Hit], others: list[Hit]) -> bool:
    """Turns: neighbours count as far as they were looked at, so scores may differ a little."""
    if not hits or hits[0].score < 0.1:
        return True
    return any(hits[0].score * 0.9 <= other.score for other in others) and (
        hits[0].id in {other.id for other in others if other.score >= 0.9 * others[0].score}
        or others[-1].score >= 0.9 * others[0].score
    )


def without_index(folder: Path, copy: Path) -> Path:
    """The same store in another folder that has no index."""
    copy.mkdir()
    source, target = sqlite3.connect(folder / "reverie.db"), sqlite3.connect(copy / "reverie.db")
    source.backup(target)
    source.close()
    target.close()
    return copy


def everything_acknowledged_is_there(memory: Memory, account: Account) -> None:
    """Records: each acknowledged text once, seen as often as it was saved, in its last state."""
    stored: dict[str, list[Any]] = {}
    for archived in (False, True):
        for record in memory.records(limit=None, archived=archived):
            stored.setdefault(record.content, []).append(record)
    for text, times in account.saved.items():
        assert len(stored.get(text, [])) == 1, f"{text!r} is there {len(stored.get(text, []))} times"
        assert times <= stored[text][0].seen_count <= account.tried[text], text
    for text in stored:
        assert account.tried[text], f"{text!r} was never saved"
    for (what, name), values in account.state.items():
        if what == "live" and values[0] is not _UNTOUCHED:
            assert (not stored[name][0].archived) in values, name
        elif what == "source" and values[0] is not _UNTOUCHED:
            source = stored[name][0].source
            assert any(source.endswith(f"n{value}") for value in values), (name, source, values)
    entries = {entry.key: entry.data for entry in memory.session("chat:0").working.list()}
    for (what, name), values in account.state.items():
        if what == "set" and values[0] is not _UNTOUCHED and name not in account.full:
            assert entries.get(name) in {str(value) for value in values}, name


def every_turn_is_there_once_and_in_order(memory: Memory, account: Account) -> None:
    there = {session: [turn.content for turn in memory.turns(session)] for session in SESSIONS}
    places: dict[tuple[str, str], int] = {}
    for session, texts in there.items():
        for place, text in enumerate(texts):
            assert (session, text) not in places, f"{text!r} is there twice"
            places[(session, text)] = place
            assert account.turns_tried[(session, text)], f"{text!r} was never added"
    last: dict[tuple[str, str], int] = {}
    for session, texts in account.turns:
        found = [places.get((session, text)) for text in texts]
        assert None not in found, f"{texts!r} is lost"
        first = found[0]
        assert first is not None
        assert found == list(range(first, first + len(texts))), f"{texts!r} was torn apart"
        thread = texts[0].split()[1].split("n")[0]
        assert last.get((session, thread), -1) < first, f"{texts!r} came before what was said before it"
        last[(session, thread)] = first


def found_by_its_own_words(memory: Memory, texts: list[str]) -> None:
    for text in texts:
        live = [record for record in memory.search(text, mode="literal") if record.content == text]
        if live:
            assert memory.search(text, limit=1)[0].content == text


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Worker]]:
    """A folder that processes worked on until they were killed, and these processes."""
    folder = tmp_path_factory.mktemp("killed") / "memory"
    return folder, torture(folder, seconds=SECONDS, processes=3, threads=3, seed=11)


@pytest.mark.timeout(SECONDS * 3 + 120)
def test_what_was_acknowledged_survives_every_kill(killed: tuple[Path, list[Worker]]) -> None:
    folder, workers = killed
    for worker in workers:
        assert worker.errors == b"" or b"search index" in worker.errors, worker.errors.decode()
        assert [line for line in worker.lines if line[0] == "wrong"] == []
    account = Account(workers)
    assert account.acknowledged > 50
    with Memory.open(folder) as memory:
        assert memory.check() == []
        everything_acknowledged_is_there(memory, account)
        every_turn_is_there_once_and_in_order(memory, account)
        found_by_its_own_words(memory, sample(account))
    print(f"{len(workers)} kills, {account.acknowledged} acknowledged writes")


def test_search_agrees_with_one_that_built_its_index_afresh(
    killed: tuple[Path, list[Worker]], tmp_path: Path
) -> None:
    folder, workers = killed
    questions = [*sample(Account(workers)), *SHARED, "crates of plums", "which pallet waits in hall 2"]
    records, turns = answers(folder, questions)
    other_records, other_turns = answers(without_index(folder, tmp_path / "copy"), questions)
    assert [good(hits) for hits in records] == [good(hits) for hits in other_records]
    for hits, others in zip(turns, other_turns, strict=True):
        assert best_is_among_the_best(hits, others), (hits, others)
        assert best_is_among_the_best(others, hits), (hits, others)


def test_nobody_who_saves_is_told_to_try_again(killed: tuple[Path, list[Worker]]) -> None:
    _, workers = killed
    assert [line for worker in workers for line in worker.lines if line[0] == "refused"] == []


def sample(account: Account) -> list[str]:
    """Some of what was saved and some of what was said."""
    chance = random.Random(3)
    said = [text for _, texts in account.turns for text in texts]
    return chance.sample(sorted(account.saved), k=min(40, len(account.saved))) + chance.sample(
        said, k=min(20, len(said))
    )
