"""`python -m tests.system.torture --seconds 60`: rounds of torture, what was found wrong, and a table of numbers.

Each round lets processes work on a folder while they are killed and a person edits its files, under one of
several conditions; then everything is examined, and the next round goes on with the same folder. Ends with 1
when anything was wrong.
"""

from __future__ import annotations

import argparse
import logging
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.torture.disk_faults import (
    NoSmallDisk,
    RefusedWrites,
    full_now_and_then,
    read_only_now_and_then,
    small_disk,
)
from tests.system.torture.harness import Site, Wrong, as_nobody, work

PROCESSES, THREADS = 4, 3
_ROUND_S = 10.0
_DISK_MB = 512
_KINDS = ("lost", "duplicated", "torn", "lost by hand", "doctor")


@dataclass(frozen=True, kw_only=True)
class Condition:
    """The conditions of a round.

    Attributes:
        name: Its name, as it is printed.
        site: The folder that is worked on.
        options: Returns random options for a process.
        always: Options of all processes.
        around: Returns a block that the round runs in, for a seed.
        interfere: Returns what is called again and again with the ids of the processes, for a seed.
    """

    name: str
    site: Site
    options: Callable[[random.Random], Sequence[str]] = lambda chance: ()
    always: Sequence[str] = ()
    around: Callable[[int], AbstractContextManager[None]] = lambda seed: nullcontext()
    interfere: Callable[[int], Callable[[Sequence[int]], None]] = lambda seed: lambda processes: None


def conditions(base: Path, ending: ExitStack) -> Iterator[Condition]:
    """Yield all conditions that this system can create."""
    plain = Site(folder=base / "plain" / "memory")
    plain.folder.parent.mkdir(mode=0o777)
    yield Condition(name="killed at random moments", site=plain)
    yield Condition(
        name="killed at crash points too", site=plain, options=lambda chance: ["--crash-points", "0.003"]
    )
    yield Condition(name="clocks that jump", site=plain, options=lambda chance: ["--jumping-clock"])
    yield Condition(name="writes refused now and then", site=plain, interfere=RefusedWrites)
    try:
        disk = ending.enter_context(small_disk(base / "disk", _DISK_MB))
    except NoSmallDisk as error:
        print(f"left out: a disk that is full now and then ({error})")
    else:
        yield Condition(
            name="disk full now and then",
            site=Site(folder=disk / "memory"),
            around=lambda seed: full_now_and_then(disk, seed),
        )
    shut = Site(folder=base / "shut" / "memory")
    shut.folder.parent.mkdir()
    shut.folder.parent.chmod(0o777)
    yield Condition(
        name="read-only now and then",
        site=shut,
        always=as_nobody(),
        around=lambda seed: read_only_now_and_then(shut.folder, seed),
    )


def run(condition: Condition, *, seconds: float, seed: int) -> list[Wrong]:
    """One round, and what is wrong after it."""
    site = condition.site
    with condition.around(seed), site.person.working():
        work(
            site.folder,
            site.account,
            seconds=seconds,
            processes=PROCESSES,
            threads=THREADS,
            seed=seed,
            options=condition.options,
            always=condition.always,
            interfere=condition.interfere(seed),
        )
    return site.examine()


def table(sites: Sequence[Site], wrong: Sequence[Wrong], rounds: int) -> Iterator[tuple[str, Any]]:
    """The numbers by name."""
    accounts = [site.account for site in sites]
    yield "rounds", rounds
    yield "processes at once, and one that reads", PROCESSES
    yield "threads in each", THREADS
    yield "processes killed", sum(account.kills for account in accounts)
    yield "acknowledged writes", sum(account.acknowledged for account in accounts)
    yield "writes refused, to be tried again", sum(account.refused["writes"] for account in accounts)
    yield "reads refused, on a disk without room", sum(account.refused["reads"] for account in accounts)
    yield "of files: writes that failed and were made good", sum(site.failed for site in sites)
    yield "hand edits made", sum(site.person.found for site in sites) + _count(wrong, "lost by hand")
    yield "hand edits kept", sum(site.person.found for site in sites)
    yield "acknowledged writes lost", _count(wrong, "lost")
    yield "duplicated", _count(wrong, "duplicated")
    yield "torn files or sessions", _count(wrong, "torn")
    yield "findings of the doctor", _count(wrong, "doctor")
    yield "anything else wrong", sum(each.kind not in _KINDS for each in wrong)
    reads = sorted(took for account in accounts for times in account.reads.values() for took in times)
    yield "reads timed", len(reads)
    for share in (0.5, 0.95, 0.99, 0.999):
        yield f"a read took, p{share * 100:g} (ms)", reads[int(share * len(reads))] if reads else "-"
    yield "longest read (ms)", reads[-1] if reads else "-"


def _count(wrong: Sequence[Wrong], kind: str) -> int:
    return sum(each.kind == kind for each in wrong)


def _base(folder: Path | None) -> AbstractContextManager[str]:
    """Where the folders are: the one asked for, which is kept, or one that is removed in the end."""
    if folder is None:
        return tempfile.TemporaryDirectory(prefix="reverie-torture-", ignore_cleanup_errors=True)
    folder.mkdir(parents=True)
    return nullcontext(str(folder))


def main() -> int:
    """Rounds under all conditions by turns, until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.torture", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long all rounds take together")
    parser.add_argument("--seed", type=int, default=1, help="of what is random")
    parser.add_argument("--only", help="only conditions with this in their name")
    parser.add_argument("--store", type=Path, help="a new folder to work in, which is kept")
    asked = parser.parse_args()
    logging.getLogger("reverie").setLevel(logging.ERROR)  # thousands of broken files are logged
    wrong: list[Wrong] = []
    rounds = 0
    with (
        _base(asked.store) as base,
        ExitStack() as ending,
    ):
        Path(base).chmod(0o755)
        kinds = [each for each in conditions(Path(base), ending) if (asked.only or "") in each.name]
        seconds = max(4.0, min(_ROUND_S, asked.seconds / len(kinds)))
        end = time.monotonic() + asked.seconds
        while time.monotonic() < end or rounds < len(kinds):
            condition = kinds[rounds % len(kinds)]
            found = run(condition, seconds=seconds, seed=asked.seed * 1_000 + rounds)
            rounds += 1
            account = condition.site.account
            figures = f"{account.kills:5} killed {account.acknowledged:8,} acknowledged"
            print(f"{rounds:3} {condition.name:28} {figures}", flush=True)
            for each in found:
                print(f"    {each.kind}: {each.what[-900:]}")
            wrong += found
        sites = list({id(each.site): each.site for each in kinds}.values())
        print("\n| | |\n|---|---:|")
        for name, number in table(sites, wrong, rounds):
            print(f"| {name} | {number:,} |" if isinstance(number, int | float) else f"| {name} | {number} |")
        print(
            f"| time of processors used (s) | {resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime:,.0f} |"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
