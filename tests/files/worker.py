"""Processes that write a folder for tests.

python worker.py steps FOLDER WAY N   in FOLDER/0, FOLDER/N, FOLDER/2N, … a fixed round of changes by a
                                      child that is killed before the step of that number on the disk, with
                                      files replaced in WAY (exchange, link, rename), until it gets through
python worker.py busy FOLDER NAME N   N changes, beside others that do the same
python worker.py full FOLDER          changes where no file can grow beyond a limit
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reverie.domain.errors import Conflict
from reverie.files.disk import atomic, rename
from reverie.files.disk.state import FileState
from reverie.stores.contract.factories import (
    NOW,
    make_additions,
    make_change,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)

sys.path.insert(0, os.fspath(Path(__file__).parents[2]))
from tests.files.house import House, page, paragraph


def round_of_changes(house: House) -> None:
    """Every sort of file created, replaced, added to, moved and removed."""
    first, second = make_record(1, category="a"), make_record(2, layer="episodic")
    house.make(make_additions(first, second, make_session("x"), make_turn(0, "x"), page(), paragraph(1)))
    house.make(
        make_additions(
            make_turn(1, "x"), paragraph(2), make_record(3, layer="episodic", created_at=make_time(3))
        )
    )
    house.make(make_change(first, replace(first, seen_count=2)))
    house.make(make_change(replace(first, seen_count=2), make_record(1, category="b/c", seen_count=2)))
    house.make(make_change(second, replace(second, seen_count=2)))
    house.make(make_change(page(), page("other\n")))
    state = make_session("x")
    house.make(make_change(state, replace(state, summary="so far")))
    house.make(make_removals(paragraph(1)))
    house.make(make_change(make_record(1, category="b/c", seen_count=2), replace(first, archived_at=NOW)))
    house.make(
        make_removals(make_turn(1, "x"), make_turn(0, "x"), replace(state, summary="so far"), page("other\n"))
    )


class Killer:
    """Kills this process before a step of a number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def before(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*args, **options)

        return stepping


def torn(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    """`os.write` in two halves, as a large one may be."""

    def writing(handle: int, data: bytes) -> int:
        half = len(data) // 2
        done = write(handle, data[:half]) if half else 0
        return done + write(handle, data[done:])

    return writing


def steps(folder: Path, way: str, stride: int) -> None:
    if way != "exchange":
        rename._native = None
    if way == "rename":
        os.link = refused  # type: ignore[assignment]
    number = 0
    while True:
        place = folder / str(number)
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            killer = Killer(number)
            os.write = torn(killer.before(os.write))  # type: ignore[assignment]
            for name in ("open", "unlink", "rename", "replace", "mkdir", "rmdir"):
                setattr(os, name, killer.before(getattr(os, name)))
            atomic.exchange = killer.before(atomic.exchange)
            atomic.rename_to_new = killer.before(atomic.rename_to_new)
            FileState._begin_transaction = killer.before(FileState._begin_transaction)  # type: ignore[method-assign]
            round_of_changes(House(place))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        number += stride
        if not os.WIFSIGNALED(status):
            assert status == 0, status
            return


def refused(*args: object, **options: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def busy(folder: Path, name: str, count: int) -> None:
    house = House(folder)
    base = int(name) * 1_000_000 + 1
    mine = make_record(base, category="mine")
    house.make(make_additions(mine))
    for number in range(count):
        match number % 3:
            case 0:
                fresh = base + number + 1
                house.make(
                    make_additions(make_record(fresh, layer="episodic", created_at=make_time(fresh % 7)))
                )
            case 1:
                new = replace(mine, seen_count=number, category=f"mine/{number % 4}")
                house.make(make_change(mine, new))
                mine = new
            case _:
                talk(house, f"{base + number:012x}")


def talk(house: House, name: str) -> None:
    while True:
        position = len(house.store.turns(session="shared"))
        try:
            house.make(make_additions(make_turn(position, "shared", id=name)))
            return
        except Conflict:
            continue


def full(folder: Path) -> None:
    house = House(folder)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    house.make(make_additions(make_session("long"), make_record(1)))
    for number in range(1, 90):
        rows = house.commit(
            make_additions(make_turn(number - 1, "long", content="word " * 700), make_record(number + 1))
        )
        limit = 20_000 * (number % 4) or resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        house.mirror.notice(rows)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert house.mirror.failed


if __name__ == "__main__":
    what, where, *more = sys.argv[1:]
    match what:
        case "steps":
            steps(Path(where), more[0], int(more[1]))
        case "busy":
            busy(Path(where), more[0], int(more[1]))
        case "full":
            full(Path(where))
