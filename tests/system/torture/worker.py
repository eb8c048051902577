"""A process that works on a memory with several threads until it is killed, and reports each call and its result.

Run as `python worker.py FOLDER SEED THREADS [--reads] [--crash-points CHANCE] [--jumping-clock]`. It writes lines of
JSON: `["try", what, …]` before a call and `["done", what, …]` after the call has returned; `["refused", what,
why]` when it raised an error that allows another attempt;
`["wrong", text]` when something was not as it must be. Whatever is reported as done must be there afterwards,
however the process ends.

With `--crash-points` it kills itself, with that chance at each, before or after the steps between which a crash
would do the most harm: between a commit and its files, or between a file and its record.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import json
import os
import random
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from reverie import EVERY_SCOPE, Conflict, Memory, StoreUnavailable, WorkingMemoryFull

SHARED = [
    "Bread is baked before sunrise at the northern mill",
    "Copper roofs turn green after about twenty winters",
    "Quiet trains leave the harbour station on even days",
    "Spare lanterns hang behind the blue pantry door",
    "Walnut shelves must never be oiled in July",
]
"""Facts that everybody saves: one record each, seen as often as it was saved."""

SESSIONS = ("chat:0", "chat:1", "chat:2")
"""Conversations that everybody adds to."""

BOARDS = "boards"
"""The category of records that people edit by hand meanwhile."""

PAGES = ("MEMORY.md", "books/left.md", "books/right.md")
"""Pages that everybody, and people by hand, add lines to."""

CRASH_POINTS = (
    ("reverie.files.folder", "MemoryFolder.notice"),  # committed, no file written yet
    ("reverie.files.atomic", "exchange"),  # the new file is written, and does not have its name yet
    ("reverie.files.atomic", "rename_to_new"),
    ("reverie.files.atomic", "_write"),
    ("reverie.files.state", "FileState.put"),  # the file has its name, and is not recorded yet
    ("reverie.files.state", "FileState.advance"),
    (
        "reverie.files.hand_edits.intake",
        "HandEditRun.commit_edits",
    ),  # a hand edit is read, and not imported yet
    ("reverie.files.hand_edits.intake", "HandEditRun.settle"),  # it is imported, and that is not recorded yet
    ("reverie.search.index.tantivy_index", "TantivyIndex.write"),
    ("os", "unlink"),
    ("os", "rename"),
)
"""Functions before or after which a process may kill itself: module and name."""

_BUSY_WAIT_S = 0.05


class Thread:
    """One thread's work: a random choice of calls, each announced and acknowledged."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self._name = name
        self._random = random.Random(name)
        self._count = 0
        self._own: list[tuple[str, str]] = []
        self._boards: list[tuple[str, str]] = []

    def calls(self) -> list[Callable[[], None]]:
        """What it does, in a sensible order; what it does more often stands there more often."""
        return [
            self._save, self._save, self._repeat, self._update, self._archive, self._restore,
            self._turn, self._turn, self._turns, self._set, self._many, self._look,
            self._board, self._paint, self._paint, self._line, self._paragraph,
        ]  # fmt: skip

    def run(self) -> None:
        """Work until the process ends."""
        calls = self.calls()
        with _reporting_errors():
            while True:
                self._count += 1
                self._random.choice(calls)()

    def _call(self, what: str, *about: Any, call: Callable[[], Any]) -> Any:
        report("try", what, *about)
        try:
            result = call()
        except (Conflict, StoreUnavailable) as error:
            report("refused", what, type(error).__name__, str(error))
            time.sleep(_BUSY_WAIT_S)
            return None
        report("done", what, *about)
        return result

    def _mark(self) -> str:
        return f"{self._name}n{self._count}"

    def _save(self) -> None:
        mark = self._mark()
        text = f"Crate {mark} holds {self._random.choice(('plums', 'pears', 'figs'))}"
        saved = self._call("save", text, call=lambda: self._memory.save(text))
        if saved is None:
            return
        if saved.outcome != "created" or saved.record.content != text:
            report("wrong", f"{text!r} was {saved.outcome} as {saved.record.content!r}")
        self._own.append((saved.record.id, text))

    def _many(self) -> None:
        texts = [f"Pallet {self._mark()}m{n} waits in hall {n}" for n in range(3)]
        saved = self._call("many", texts, call=lambda: self._memory.save_many({"content": t} for t in texts))
        if saved is not None:
            self._own += [(each.record.id, text) for each, text in zip(saved, texts, strict=True)]

    def _repeat(self) -> None:
        text = self._random.choice(SHARED)
        self._call("repeat", text, call=lambda: self._memory.save(text))

    def _update(self) -> None:
        if self._own:
            name, text = self._random.choice(self._own)
            source = self._mark()
            self._call("source", text, self._count, call=lambda: self._memory.update(name, source=source))

    def _archive(self) -> None:
        if self._own:
            name, text = self._random.choice(self._own)
            self._call("live", text, False, call=lambda: self._memory.archive(name, reason=self._mark()))

    def _restore(self) -> None:
        if self._own:
            name, text = self._random.choice(self._own)
            self._call("live", text, True, call=lambda: self._memory.restore(name))

    def _board(self) -> None:
        text = f"Board {self._mark()} hangs in the yard"
        saved = self._call("board", text, call=lambda: self._memory.save(text, category=BOARDS))
        if saved is not None:
            self._boards.append((saved.record.id, text))

    def _paint(self) -> None:
        """Change a record that a person may be changing in its file at the same time."""
        if self._boards:
            name, _ = self._random.choice(self._boards[-10:])
            source = f"paint {self._mark()} "
            self._call("paint", source, call=lambda: self._memory.update(name, source=source.strip()))

    def _line(self) -> None:
        page, text = self._random.choice(PAGES), f"- line {self._mark()} of a page"
        self._call("line", page, text, call=lambda: self._memory.pages.append(page, text))

    def _paragraph(self) -> None:
        text = f"Paragraph {self._mark()} of history"
        self._call("paragraph", text, call=lambda: self._memory.pages.append("HISTORY.md", text))

    def _turn(self) -> None:
        session, text = self._random.choice(SESSIONS), f"Turn {self._mark()} of mine"
        self._call("turn", session, [text], call=lambda: self._memory.session(session).add("user", text))

    def _turns(self) -> None:
        session = self._random.choice(SESSIONS)
        texts = [f"Turn {self._mark()}m{n} of mine" for n in range(4)]
        given = [{"role": "user", "content": text} for text in texts]
        self._call("turn", session, texts, call=lambda: self._memory.session(session).add_many(given))

    def _set(self) -> None:
        key = f"{self._name}/{self._random.randrange(3)}"

        def call() -> None:
            try:
                self._memory.session("chat:0").working.set(key, str(self._count), ttl=None)
            except WorkingMemoryFull:
                report("full", key)

        self._call("set", key, self._count, call=call)

    def _look(self) -> None:
        try:
            self._find()
        except StoreUnavailable as error:
            report("refused", "look", type(error).__name__, str(error))

    def _find(self) -> None:
        """What this thread saved last is found at once; what it asks for otherwise must not fail."""
        if self._own:
            name, text = self._own[-1]
            record = self._memory.get(name)
            hits = self._memory.scoped(EVERY_SCOPE).search(text, limit=3)
            if record is None:
                report("wrong", f"{text!r} is gone")
            elif not record.archived and all(hit.id != name for hit in hits):
                report("wrong", f"{text!r} is not found by its own words")
        self._memory.session(self._random.choice(SESSIONS)).context("which crates hold plums?")


class Reader:
    """One thread that only reads."""

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory = memory
        self._random = random.Random(name)

    def run(self) -> None:
        """Read until the process ends."""
        reads: dict[str, Callable[[], object]] = {
            "search": lambda: self._memory.scoped(EVERY_SCOPE).search(self._question()),
            "search_turns": lambda: self._memory.scoped(EVERY_SCOPE).search(
                self._question(), sources="turns"
            ),
            "list": lambda: self._memory.scoped(EVERY_SCOPE).list(limit=20),
            "page": lambda: self._memory.pages.read("MEMORY.md"),
            "turns": lambda: self._memory.turns(self._random.choice(SESSIONS), start=-20),
        }
        with _reporting_errors():
            while True:
                try:
                    self._random.choice(list(reads.values()))()
                except (
                    StoreUnavailable
                ) as error:  # the first to open a store after a kill needs room on the disk
                    report("refused", "read", type(error).__name__, str(error))
                time.sleep(self._random.uniform(0, 0.01))

    def _question(self) -> str:
        return self._random.choice((*SHARED, "crates of plums", "pallet in hall 2", "a board in the yard"))


@contextlib.contextmanager
def _reporting_errors() -> Iterator[None]:
    try:
        yield
    except BaseException:  # noqa: BLE001 - the test gets every error
        report("wrong", traceback.format_exc())
        os._exit(3)


class JumpingClock:
    """A clock that is set back and forth by up to two days, as one is that was wrong."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._offset = timedelta()

    def __call__(self) -> datetime:
        if self._random.random() < 0.05:
            self._offset = timedelta(hours=self._random.uniform(-48, 48))
        return datetime.now(UTC) + self._offset


def set_crash_points(chance: float, seed: int) -> None:
    """Let this process kill itself before or after a crash point, with that chance whenever one is reached."""
    choice = random.Random(seed)
    for module, name in CRASH_POINTS:
        owner: Any = import_module(module)
        *within, attribute = name.split(".")
        for part in within:
            owner = getattr(owner, part)
        setattr(owner, attribute, _add_crash_point(getattr(owner, attribute), choice, chance))


def _add_crash_point(step: Callable[..., Any], choice: random.Random, chance: float) -> Callable[..., Any]:
    def stepped(*args: Any, **kwargs: Any) -> Any:
        dies, before = choice.random() < chance, choice.random() < 0.5
        if dies and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = step(*args, **kwargs)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return stepped


_lock = threading.Lock()
_output = 1


@contextlib.contextmanager
def _reporting_to(handle: int) -> Iterator[None]:
    global _output
    _output = handle
    try:
        yield
    finally:
        _output = 1


def report(*what: Any) -> None:
    """Write one line, without other threads' output in it."""
    line = (json.dumps(what) + "\n").encode()
    with _lock:
        while line:
            line = line[os.write(_output, line) :]


def switch_user(user: int) -> None:
    """Run as another user, who may not be able to read where Python and its modules are."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        thread = Thread(memory, "warm")
        with open(os.devnull, "wb") as nowhere, _reporting_to(nowhere.fileno()):
            for call in thread.calls():
                call()
    for encoding in ("utf-8-sig", "utf-16", "latin-1"):
        codecs.lookup(encoding)
    import_module("heapq")  # by Counter.most_common, when it is first called
    import_module("stopwordsiso")  # by a search in another language
    import_module("difflib")  # by an edit that collides
    import_module("reverie.files.hand_edits.importer")  # by the first hand edit
    os.setgid(user)
    os.setuid(user)


def opened(folder: str, clock: Callable[[], datetime] | None) -> Memory:
    """The memory, as soon as it can be opened, without vectors: their model loads for as long as a process lives."""
    given: dict[str, Any] = {} if clock is None else {"clock": clock}
    while True:
        try:
            return Memory.open(folder, embedder="none", **given)
        except StoreUnavailable as error:
            report("refused", "open", type(error).__name__, str(error))
            time.sleep(_BUSY_WAIT_S)


def main() -> None:
    """Start the threads; they end with the process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("seed", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("--reads", action="store_true")
    parser.add_argument("--crash-points", type=float, default=0.0)
    parser.add_argument("--jumping-clock", action="store_true")
    parser.add_argument("--user", type=int, help="as whom to run, having imported everything")
    asked = parser.parse_args()
    if asked.user is not None:
        switch_user(asked.user)
    if asked.crash_points:
        set_crash_points(asked.crash_points, asked.seed)
    memory = opened(asked.folder, JumpingClock(asked.seed) if asked.jumping_clock else None)
    report("open")
    kind = Reader if asked.reads else Thread
    names = [f"s{asked.seed}t{n}" for n in range(asked.threads)]
    running = [threading.Thread(target=kind(memory, name).run, daemon=True) for name in names]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main()
