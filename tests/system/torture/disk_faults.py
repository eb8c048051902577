"""Faults of a disk while programs work on it: it is full or read-only for a moment, at random times."""

from __future__ import annotations

import contextlib
import random
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.support.disks import fill

_LONGEST_S = 0.6
_LEAST = 4_096


@contextlib.contextmanager
def running_beside(run: Callable[[], None], stopped: threading.Event) -> Iterator[None]:
    """Run something in a thread of its own until the block ends; raise its error then."""
    failed: list[BaseException] = []

    def run_and_keep_errors() -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread of the test
            failed.append(error)

    thread = threading.Thread(target=run_and_keep_errors)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    if failed:
        raise failed[0]


@contextlib.contextmanager
def _alternate(begin: Callable[[], None], end: Callable[[], None], seed: int) -> Iterator[None]:
    """Begin and end a fault at random times until the block ends; end it at last."""
    chance, stopped = random.Random(seed), threading.Event()

    def run() -> None:
        while not stopped.wait(chance.uniform(0, _LONGEST_S)):
            begin()
            stopped.wait(chance.uniform(0, _LONGEST_S))
            end()

    try:
        with running_beside(run, stopped):
            yield
    finally:
        end()


@contextlib.contextmanager
def full_now_and_then(disk: Path, seed: int) -> Iterator[None]:
    """Fill the disk to the last byte, and free it again, at random times."""
    filler = disk / "filler"
    with _alternate(lambda: fill(filler), lambda: filler.unlink(missing_ok=True), seed):
        yield


@contextlib.contextmanager
def read_only_now_and_then(folder: Path, seed: int) -> Iterator[None]:
    """Make the folder and what is in it read-only, and writable again, at random times."""
    chance = random.Random(seed)
    tops = (folder, folder / "memory", folder / "sessions", folder / "reverie.db")

    def close() -> None:
        for place in chance.sample(tops, k=chance.randint(1, len(tops))):
            with contextlib.suppress(FileNotFoundError):
                place.chmod(0o500 if place.is_dir() else 0o400)

    def reopen() -> None:
        for place in tops:
            with contextlib.suppress(FileNotFoundError):
                place.chmod(0o700 if place.is_dir() else 0o600)

    with _alternate(close, reopen, seed):
        yield


class RefusedWrites:
    """Refuses the writes of processes to any file with `EFBIG`, at random times; root is refused too."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._changes_at = 0.0
        self._refused = False

    def __call__(self, processes: Sequence[int]) -> None:
        """Set or lift the limit of these processes, as the time requires."""
        if time.monotonic() > self._changes_at:
            self._changes_at = time.monotonic() + self._chance.uniform(0.05, _LONGEST_S)
            self._refused = not self._refused
        for process in processes:
            _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
            resource.prlimit(process, resource.RLIMIT_FSIZE, (_LEAST if self._refused else most, most))
