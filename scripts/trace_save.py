"""Print the files of the package that one save passes, with the number of calls in each.

Usage: python scripts/trace_save.py [--max N]

A memory in a temporary folder is opened, warmed up with one save, and traced during the next save. With `--max` the
script ends with 1 if the save passes more files.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

from reverie import Memory

PACKAGE = Path(sys.modules["reverie"].__file__ or "").parent


def main(arguments: list[str]) -> int:
    """Trace a save and print its files; return an exit code."""
    calls: Counter[str] = Counter()

    def count_call(frame: FrameType, event: str, argument: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(PACKAGE):
            calls[file.relative_to(PACKAGE).as_posix()] += 1

    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        memory.save("The staging database moved to Friday")
        sys.setprofile(count_call)
        try:
            memory.save("The launch moved to Thursday")
        finally:
            sys.setprofile(None)
    for file, count in calls.most_common():
        sys.stdout.write(f"{count:6} {file}\n")
    sys.stdout.write(f"{calls.total():6} calls in {len(calls)} files\n")
    allowed = int(arguments[1]) if arguments[:1] == ["--max"] else len(calls)
    return int(len(calls) > allowed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
