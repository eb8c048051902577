"""A program whose child processes each kill themselves at one crash point; it keeps what they reported before.

Run as `python -m tests.system.torture.crash_points FOLDER`. For every crash point, and the first few times that it is
reached, a child works on a folder of its own until it kills itself there. `{folder}.reported` has its reports.
`{folder}.finished` exists if it never reached the point. The children are forked from a process that has
opened nothing, because starting Python thirty times takes too long.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from reverie import Memory
from tests.factories import get_search_index
from tests.system.torture.worker import CRASH_POINTS, Thread, set_crash_points

TIMES = 4
_ROUNDS = 3


def list_cases() -> Iterator[tuple[str, tuple[str, str], int]]:
    """Yield name, crash point and number: even numbers are killed before the step, odd ones after it."""
    for module, name in CRASH_POINTS:
        for at in range(TIMES):
            yield f"{module}.{name}.{at}", (module, name), at


def work_until_killed(folder: Path, point: tuple[str, str], at: int) -> None:
    """Work on the folder, and edit it by hand, until the crash point."""
    set_crash_points(0.0, 0, only=point, at=at)
    with Memory.open(folder) as memory:
        thread = Thread(memory, "s1t1")
        for _ in range(_ROUNDS):
            for call in thread.calls():
                thread._count += 1
                call()
                memory.flush()
            for file in sorted((folder / "memory").rglob("*.md")):
                file.write_text(f"{file.read_text()}\n- by hand {file.name}\n")
            memory.folder.refresh()
            get_search_index(memory).fold()


def main() -> None:
    """Run all children, one after the other."""
    folder = Path(sys.argv[1])
    for name, point, at in list_cases():
        child = os.fork()
        if not child:
            reports = os.open(folder / f"{name}.reported", os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(reports, 1)
            work_until_killed(folder / name, point, at)
            (folder / f"{name}.finished").touch()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
