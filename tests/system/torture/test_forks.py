"""A fork in the middle of another thread's work leaves the child a memory that works."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reverie import Memory

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")

WAYS: dict[str, Callable[[Memory], object]] = {
    "records": lambda memory: memory.save(f"Process {os.getpid()} likes tea"),
    "session": lambda memory: memory.session("chat:1").add("user", f"I am process {os.getpid()}"),
    "page": lambda memory: memory.pages.append("HISTORY.md", f"[2026-01-01 10:00] Process {os.getpid()}"),
    "values": lambda memory: memory.key_value("kept").put(("a",), str(os.getpid()), {"pid": os.getpid()}),
}


class HeldClock:
    """A clock that holds one thread up, at its last question of a piece of work, as long as somebody wants."""

    def __init__(self) -> None:
        self.asked = 0
        self.held: dict[int, int] = {}
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> datetime:
        self.asked += 1
        here = threading.get_ident()
        if here in self.held:
            self.held[here] -= 1
            if self.held[here] == 0:
                self.reached.set()
                assert self.go_on.wait(60)
        return datetime.now(UTC)


@pytest.fixture(params=["folder", "in memory"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return tmp_path / "m" if request.param == "folder" else ":memory:"


def child_succeeds(work: Callable[[], object]) -> bool:
    """Whether a forked child does the work, in ten seconds."""
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        done = False
        try:
            work()
            done = True
        finally:
            os._exit(0 if done else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("way", WAYS)
def test_a_child_is_not_held_up_by_a_thread_that_it_does_not_have(where: str | Path, way: str) -> None:
    clock = HeldClock()
    with Memory.open(where, clock=clock) as memory:
        memory.save("Something known before")
        write = WAYS[way]
        write(memory)
        before = clock.asked
        write(memory)
        questions = clock.asked - before

        def run() -> None:
            clock.held[threading.get_ident()] = questions
            write(memory)

        thread = threading.Thread(target=run)
        thread.start()
        assert clock.reached.wait(30)

        def work() -> None:
            for other in WAYS.values():
                other(memory)
            assert memory.search("likes tea")

        try:
            assert child_succeeds(work)
        finally:
            clock.go_on.set()
            thread.join()
        write(memory)
        assert memory.admin.check() == []
