"""A process that lets children die at one exact moment each, and keeps what they had been told by then.

Run as `python -m tests.system.torture.seams FOLDER`. For every seam and the first few times that it is come to, a
child works on a folder of its own until it kills itself there; `{folder}.told` has what it said, and
`{folder}.finished` is there where it never came to the seam. Children are forked from a process that has
opened nothing, because starting Python thirty times takes too long.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from reverie import Memory
from tests.factories import get_search_index
from tests.system.torture.worker import SEAMS, Thread, arm

TIMES = 4
_ROUNDS = 3


def cases() -> Iterator[tuple[str, tuple[str, str], int]]:
    """Name, seam, and at which of its times: even numbers die before the step, odd ones after it."""
    for module, name in SEAMS:
        for at in range(TIMES):
            yield f"{module}.{name}.{at}", (module, name), at


def live(folder: Path, seam: tuple[str, str], at: int) -> None:
    """Work on the folder, and edit it by hand, until the seam."""
    arm(0.0, 0, only=seam, at=at)
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
    """Let them all die, one after the other."""
    folder = Path(sys.argv[1])
    for name, seam, at in cases():
        child = os.fork()
        if not child:
            told = os.open(folder / f"{name}.told", os.O_WRONLY | os.O_CREAT, 0o600)
            os.dup2(told, 1)
            live(folder / name, seam, at)
            (folder / f"{name}.finished").touch()
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
