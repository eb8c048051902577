"""Processes that work on a folder until they are killed, and the account of what must be there afterwards."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reverie import Memory, Record
from reverie.files.layout import build_path, parse_form, render_lines
from reverie.files.state import FileState
from tests.system.torture.hands import Person
from tests.system.torture.worker import SESSIONS

WORKER = Path(__file__).with_name("worker.py")

Line = list[Any]


class Worker:
    """A running `worker.py`, and every line it wrote before it was killed."""

    def __init__(self, folder: Path, seed: int, threads: int, *options: str) -> None:
        command = [sys.executable, "-W", "error", str(WORKER), str(folder), str(seed), str(threads), *options]
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


class Wrong(NamedTuple):
    """Something that is not as it must be."""

    kind: str
    what: str


_UNTOUCHED = object()


class Account:
    """What was acknowledged to workers, and what they may have done besides before they were killed."""

    def __init__(self, workers: Sequence[Worker] = ()) -> None:
        self.saved: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.state: dict[tuple[str, str], list[Any]] = {}  # the last acknowledged, and those tried since
        self.turns: list[tuple[str, list[str]]] = []
        self.turns_tried: Counter[tuple[str, str]] = Counter()
        self.added: dict[tuple[str, str], bool] = {}  # lines of pages, paragraphs: whether acknowledged
        self.kept: dict[str, bool] = {}  # what the journal must have, whatever people did to the record
        self.full: set[str] = set()
        self.refused: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.acknowledged = 0
        self.kills = 0
        for worker in workers:
            self.take(worker)

    def take(self, worker: Worker) -> None:
        """Add what a worker said before it was killed."""
        self.kills += 1
        for line in worker.lines:
            self._take(line)
        if b"Traceback" in worker.errors or b"Warning" in worker.errors:
            self.wrong.append(worker.errors.decode(errors="replace"))

    def _take(self, line: Line) -> None:
        self.acknowledged += line[0] == "done"
        if line[0] in ("try", "done") and not self._take_record(line):
            self._take_rest(line)
        match line:
            case ["full", key]:
                self.full.add(key)
            case ["refused", what, _kind, _why]:
                self.refused["reads" if what in ("read", "look") else "writes"] += 1
            case ["wrong", text]:
                self.wrong.append(text)

    def _take_record(self, line: Line) -> bool:
        match line:
            case ["try" | "done" as when, "save" | "repeat", text]:
                (self.saved if when == "done" else self.tried)[text] += 1
            case ["try" | "done" as when, "many", texts]:
                (self.saved if when == "done" else self.tried).update(texts)
            case ["try", "source" | "live" | "set" as what, name, value]:
                self.state.setdefault((what, name), [_UNTOUCHED]).append(value)
            case ["done", "source" | "live" | "set" as what, name, value]:
                self.state[(what, name)] = [value]
            case _:
                return False
        return True

    def _take_rest(self, line: Line) -> None:
        match line:
            case ["try" | "done" as when, "board" | "paint", text]:
                self.kept[text] = when == "done" or self.kept.get(text, False)
            case ["try" | "done" as when, "line", page, text]:
                self.added[(page, text)] = when == "done"
            case ["try" | "done" as when, "paragraph", text]:
                self.added[("HISTORY.md", text)] = when == "done"
            case ["try", "turn", session, texts]:
                self.turns_tried.update((session, text) for text in texts)
            case ["done", "turn", session, texts]:
                self.turns.append((session, texts))


_LONGEST_WITHOUT_WORK = 30.0


class _Death:
    """When a worker is killed: one in four wherever it is, and the others once they have worked for a while.

    A worker that opened a file while that was read-only never works, and is killed after a while too.
    """

    def __init__(self, chance: random.Random) -> None:
        self._at = time.monotonic() + chance.uniform(0.0, 2.0) if chance.random() < 0.25 else 0.0
        self._after = chance.uniform(0.1, 2.5)
        self._latest = time.monotonic() + _LONGEST_WITHOUT_WORK

    def is_due(self, worker: Worker) -> bool:
        now = time.monotonic()
        if not self._at and any(line[0] == "done" for line in worker.lines):
            self._at = now + self._after
        return 0.0 < self._at <= now or (not self._at and self._latest <= now)


def work(
    folder: Path,
    account: Account,
    *,
    seconds: float,
    processes: int,
    threads: int,
    seed: int,
    options: Callable[[random.Random], Sequence[str]] = lambda chance: (),
    always: Sequence[str] = (),
    interfere: Callable[[Sequence[int]], None] = lambda processes: None,
) -> None:
    """Let processes work on the folder, kill them at random moments and start others, for so long.

    Args:
        folder: The memory's.
        account: Gets what they reported.
        seconds: How long processes are started. Each gets the time to begin, however busy the machine is.
        processes: How many at once, and one more that only reads and is killed at the end.
        threads: In each of them.
        seed: Of what is random. Different for every call with the same account.
        options: Of each new process that writes.
        always: Options of all.
        interfere: Called again and again with the ids of the processes.
    """
    chance = random.Random(seed)
    end = time.monotonic() + seconds
    running: list[tuple[_Death, Worker]] = []
    started = 0
    with ExitStack() as ending:
        reader = Worker(folder, seed * 1_000 + 999, 2, "--reads", *always)
        ending.callback(lambda: account.take(reader))
        ending.callback(reader.kill)
        while time.monotonic() < end or running:
            while len(running) < processes and time.monotonic() < end:
                worker = Worker(folder, seed * 1_000 + started, threads, *always, *options(chance))
                running.append((_Death(chance), worker))
                started += 1
            time.sleep(0.01)
            interfere([worker.process.pid for _, worker in running if worker.process.poll() is None])
            for death, worker in list(running):
                if death.is_due(worker) or worker.process.poll() is not None:
                    worker.kill()
                    running.remove((death, worker))
                    account.take(worker)
            if chance.random() < 0.005:
                shutil.rmtree(folder / "index", ignore_errors=True)


# -- what must be there --------------------------------------------------------------------------------------


def wrongs(memory: Memory, account: Account) -> Iterator[Wrong]:
    """Everything that is not as the account says it must be."""
    yield from (Wrong("said by a process", text) for text in account.wrong)
    yield from _records(memory, account)
    yield from _turns(memory, account)
    yield from _pages(memory, account)
    yield from _journal(memory, account)


def _records(memory: Memory, account: Account) -> Iterator[Wrong]:
    """Records: each acknowledged text once, seen as often as it was saved."""
    stored: dict[str, list[Record]] = {}
    for archived in (False, True):
        for record in memory.list(limit=None, archived=archived):
            stored.setdefault(record.content, []).append(record)
    for text, times in account.saved.items():
        found = stored.get(text, [])
        if len(found) != 1:
            yield Wrong("duplicated" if found else "lost", f"{text!r} is there {len(found)} times")
        elif not times <= found[0].seen_count <= account.tried[text]:
            kind = "lost" if found[0].seen_count < times else "duplicated"
            yield Wrong(kind, f"{text!r} was saved {times} times and seen {found[0].seen_count}")
    for text in stored:
        if text.startswith(("Crate", "Pallet")) and not account.tried[text]:
            yield Wrong("wrong", f"{text!r} was never saved")
    yield from _states(memory, account, stored)


def _states(memory: Memory, account: Account, stored: Mapping[str, Sequence[Record]]) -> Iterator[Wrong]:
    """Records and entries of working memory: each in its last state."""
    entries = {entry.key: entry.data for entry in memory.session("chat:0").working.list()}
    for (what, name), values in account.state.items():
        if values[0] is _UNTOUCHED:
            continue
        record = stored[name][0] if name in stored else None
        if what == "set" and name not in account.full:
            if entries.get(name) not in {str(value) for value in values}:
                yield Wrong("lost", f"{name!r} in working memory is {entries.get(name)!r}, not of {values!r}")
        elif what == "live" and record is not None and (not record.archived) not in values:
            yield Wrong("lost", f"{name!r} is not {values!r}, as it was left")
        elif what == "source" and record is not None and not _is_one_of(record.source, values):
            yield Wrong("lost", f"the source of {name!r} is {record.source!r}, not of {values!r}")


def _is_one_of(source: str, counts: Sequence[Any]) -> bool:
    return any(source.endswith(f"n{count}") for count in counts)


def _turns(memory: Memory, account: Account) -> Iterator[Wrong]:
    """Turns: each once, those added together together, in the order in which a thread said them."""
    there = {session: [turn.content for turn in memory.turns(session)] for session in SESSIONS}
    places: dict[tuple[str, str], int] = {}
    for session, texts in there.items():
        for place, text in enumerate(texts):
            if (session, text) in places:
                yield Wrong("duplicated", f"turn {text!r} is there twice")
            places[(session, text)] = place
            if not account.turns_tried[(session, text)]:
                yield Wrong("wrong", f"turn {text!r} was never added")
    last: dict[tuple[str, str], int] = {}
    for session, texts in account.turns:
        found = [places.get((session, text)) for text in texts]
        first = found[0]
        if first is None or None in found:
            yield Wrong("lost", f"turns {texts!r} are not there")
            continue
        if found != list(range(first, first + len(texts))):
            yield Wrong("torn", f"turns {texts!r} were torn apart")
        thread = texts[0].split()[1].split("n")[0]
        if last.get((session, thread), -1) >= first:
            yield Wrong("wrong", f"turns {texts!r} came before what was said before them")
        last[(session, thread)] = first


def _pages(memory: Memory, account: Account) -> Iterator[Wrong]:
    """Lines of pages and paragraphs of history: each acknowledged one once."""
    texts: dict[str, Counter[str]] = {}
    for (page, text), acknowledged in account.added.items():
        if page not in texts:
            content = memory.pages.read(page)
            texts[page] = Counter(line.partition("] ")[2] or line for line in content.split("\n"))
        times = texts[page][text]
        if times > 1:
            yield Wrong("duplicated", f"{text!r} is in {page} {times} times")
        elif acknowledged and not times:
            yield Wrong("lost", f"{text!r} is not in {page}")


def _journal(memory: Memory, account: Account) -> Iterator[Wrong]:
    """Changes of records that people changed too: the journal has each acknowledged one."""
    told: set[str] = set()
    for row in changes(memory):
        after = None if row.edit is None else row.edit.after
        if isinstance(after, Record):
            told |= {after.content, f"{after.source} "}
    for text, acknowledged in account.kept.items():
        if acknowledged and text not in told:
            yield Wrong("lost", f"{text!r} is not in the journal")


def changes(memory: Memory) -> Iterator[Any]:
    """The whole journal."""
    after = 0
    while rows := memory.history.log(after=after, limit=1_000):
        yield from rows
        after = rows[-1].sequence


# -- files ---------------------------------------------------------------------------------------------------


def torn_files(memory: Memory, folder: Path, *, but: Collection[str] = ()) -> Iterator[Wrong]:
    """Files that cannot be read, or do not say what the store says; `but` those that a person broke."""
    records = {
        record.id: record
        for archived in (False, True)
        for record in memory.list(limit=None, archived=archived)
    }
    with closing(FileState(folder)) as state:
        pages = state.find_pages()
    for path, names in pages.items():
        there = [records.pop(name) for name in names if name in records]
        file = folder / path
        if path in but:
            continue
        if not file.exists():
            yield Wrong("torn", f"{path} is missing")
        elif file.read_bytes() != render_lines(path, there):
            yield Wrong("torn", f"{path} says something else than the store")
    for file in sorted((folder / "memory").rglob("*.md")):
        path = file.relative_to(folder).as_posix()
        if parse_form(path) == "lines" and path not in pages and path not in but:
            yield Wrong("torn", f"{path} stands for nothing")
    yield from (Wrong("torn", f"{name} is on no page") for name in records)
    for overview in memory.sessions():
        file = folder / build_path(overview.state)
        lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
        ids = [json.loads(line)["id"] for line in lines[1:-1]]
        if lines[-1:] != [""] or ids != [turn.id for turn in memory.turns(overview.state.id)]:
            yield Wrong("torn", f"{file.name} does not have the turns of its session")


# -- a whole round -------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Site:
    """A folder that is worked on in several rounds, and everything that was said about it."""

    folder: Path
    account: Account = field(default_factory=Account)
    person: Person = field(init=False)
    told: set[Wrong] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.person = Person(self.folder)

    def examine(self) -> list[Wrong]:
        """Everything new that is wrong with the folder after a round; it is left as by a tidy person."""
        with Memory.open(self.folder) as memory:
            assert memory.folder is not None
            memory.folder.sync()
            diagnosis = memory.admin.doctor()
            found = [
                Wrong("doctor", f"{finding.code}: {finding.what}")
                for finding in diagnosis.findings
                if finding.severity != "note" and not self.person.explains(finding)
            ]
            found += wrongs(memory, self.account)
            found += torn_files(memory, self.folder, but=self.person.broken(memory))
            gone = list(self.person.lost(memory))
            found += [Wrong("lost by hand", what) for what in gone]
            self.person.tidy_up(memory)
            self.person.found -= len(gone)
            memory.folder.sync()
            left = memory.admin.doctor()
            found += [
                Wrong("doctor", f"at last {each.code}: {each.what}")
                for each in left.findings
                if each.severity != "note"
            ]
        new = [each for each in dict.fromkeys(found) if each not in self.told]
        self.told.update(new)
        print(*new, sep="\n")  # whole, where an assertion shows a part
        return new


def as_nobody() -> list[str]:
    """Options for workers for whom a file can be read-only, which for root is none."""
    return ["--user", "65534"] if os.geteuid() == 0 else []
