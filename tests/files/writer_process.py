"""Processes for tests that write the files of a folder.

python writer_process.py steps FOLDER WAY N   in FOLDER/0, FOLDER/N, FOLDER/2N, … make fixed changes in a child
                                              that is killed before that many steps on the disk, until one is
                                              not killed; files are replaced in WAY (exchange, rename)
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reverie.files import atomic
from reverie.files.state import FileState
from tests.support.contract.factories import (
    NOW,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)

sys.path.insert(0, os.fspath(Path(__file__).parents[2]))
from tests.files.folder_fixture import EditedFolder, make_page, make_paragraph


def change_everything(mirrored_folder: EditedFolder) -> None:
    """Create, replace, extend, move and remove a file of each form."""
    first, second = make_record(1, category="a"), make_record(2, layer="episodic")
    mirrored_folder.add(first, second, make_session("x"), make_turn(0, "x"), make_page(), make_paragraph(1))
    mirrored_folder.add(
        make_turn(1, "x"), make_paragraph(2), make_record(3, layer="episodic", created_at=make_time(3))
    )
    mirrored_folder.change(first, replace(first, seen_count=2))
    mirrored_folder.change(replace(first, seen_count=2), make_record(1, category="b/c", seen_count=2))
    mirrored_folder.change(second, replace(second, seen_count=2))
    mirrored_folder.change(make_page(), make_page("other\n"))
    state = make_session("x")
    mirrored_folder.change(state, replace(state, summary="so far"))
    mirrored_folder.commit(*make_removals(make_paragraph(1)))
    mirrored_folder.change(make_record(1, category="b/c", seen_count=2), replace(first, archived_at=NOW))
    mirrored_folder.commit(
        *make_removals(
            make_turn(1, "x"), make_turn(0, "x"), replace(state, summary="so far"), make_page("other\n")
        )
    )


class Killer:
    """Killer of this process before a step of a given number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def before(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*args, **options)

        return stepping


def write_in_halves(write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
    """Return a version of `os.write` that writes in two halves, as may happen with large data."""

    def writing(handle: int, data: bytes) -> int:
        half = len(data) // 2
        done = write(handle, data[:half]) if half else 0
        return done + write(handle, data[done:])

    return writing


def run_until_killed(folder: Path, way: str, stride: int) -> None:
    if way != "exchange":
        atomic.find_exchange = lambda: None
        os.link = refuse  # type: ignore[assignment]
    number = 0
    while True:
        place = folder / str(number)
        place.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            killer = Killer(number)
            os.write = write_in_halves(killer.before(os.write))  # type: ignore[assignment]
            for name in ("open", "link", "unlink", "rename", "replace", "mkdir", "rmdir"):
                setattr(os, name, killer.before(getattr(os, name)))
            atomic.exchange = killer.before(atomic.exchange)  # type: ignore[attr-defined]
            atomic.rename_to_new = killer.before(atomic.rename_to_new)  # type: ignore[attr-defined]
            FileState._begin = killer.before(FileState._begin)  # type: ignore[method-assign]
            change_everything(EditedFolder(place))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        number += stride
        if not os.WIFSIGNALED(status):
            assert status == 0, status
            return


def refuse(*args: object, **options: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


if __name__ == "__main__":
    _, where, how, every = sys.argv[1:]
    run_until_killed(Path(where), how, int(every))
