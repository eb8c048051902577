"""Check that the published figures of speed are not older than the code by a milestone.

A milestone is a change of more than a fifth of the lines of the code. Without the history of the repository, only the
presence of a commit is checked.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PUBLISHED = ("docs/project/benchmarks.md",)
REPEAT = "run `make bench` on an idle machine, and `python -m benchmarks.publish` with its results"

_ORIGIN = re.compile(r"Reverie \d+\.\d+[\d.a-z]* at commit `([0-9a-f]{7,40})`")
_MOST_CHANGED = 0.2


def main() -> int:
    """Print what is outdated; return 1 if anything is."""
    problems = [problem for name in PUBLISHED if (problem := find_problem(ROOT / name))]
    for problem in problems:
        sys.stdout.write(f"{problem}: {REPEAT}\n")
    return int(bool(problems))


def find_problem(file: Path) -> str:
    """Return what is wrong with the figures of a file; "" if nothing is."""
    origins = _ORIGIN.findall(" ".join(file.read_text(encoding="utf-8").split()))
    if not origins:
        return f"{file.name} does not say at which version and commit its speed was measured"
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in ROOT.glob("src/**/*.py"))
    for commit in origins:
        changed = count_changed_lines(commit)
        if changed is not None and changed > _MOST_CHANGED * lines:
            return (
                f"{file.name} has the speed of commit {commit}, since which {changed:,} lines of code changed"
            )
    return ""


def count_changed_lines(commit: str) -> int | None:
    """Return how many lines of the code were added or removed since a commit; None if it is not known here."""
    command = ["git", "diff", "--numstat", commit, "--", "src/*.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    return sum(int(number) for line in done.stdout.splitlines() for number in line.split("\t")[:2])


if __name__ == "__main__":
    sys.exit(main())
