"""`python -m tests.system.nights --nights 1000 --seed 1`: hostile nights, what was found wrong, a table of numbers.

Ends with 1 when any rule was broken, and when no headline was accepted at all, since nothing would be proved.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.system.nights.echo import echoed
from tests.system.nights.simulation import Plan, Simulation


def table(simulation: Simulation, seconds: float) -> Iterator[tuple[str, int | float | str]]:
    """The numbers by name."""
    account = simulation.account
    yield "nights", simulation.plan.nights
    yield "seed", simulation.plan.seed
    yield "arrivals", account.arrivals
    yield "turns", account.turns
    yield "live records in the end", account.live
    yield (
        "headlines of the moods that mean well",
        sum(number for mood, number in simulation.accepted.items() if mood.startswith("good")),
    )
    for title, counter in (
        ("counted", account.counts + simulation.counts),
        ("refused", simulation.refused),
        ("passes", simulation.states),
    ):
        yield title, sum(counter.values())
        yield from ((f"  {name}", number) for name, number in counter.most_common())
    yield "most questions in a night", simulation.most_asks
    yield "tokens of the longest question", simulation.longest_ask
    yield "rules broken", len(account.wrong)
    yield "seconds", round(seconds, 1)
    yield "  of them thinking", round(simulation.thinking, 1)


def main() -> int:
    """The nights and the echo."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.nights", description=__doc__)
    parser.add_argument("--nights", type=int, default=1_000, help="how many")
    parser.add_argument("--records", type=int, default=500, help="how many there are before the first")
    parser.add_argument("--arrivals", type=int, default=3, help="how many new facts a day brings, about")
    parser.add_argument("--seed", type=int, default=1, help="of what is random")
    parser.add_argument("--files", action="store_true", help="write the readable files too")
    asked = parser.parse_args()
    logging.getLogger("reverie").setLevel(logging.CRITICAL)  # of every answer that fails
    plan = Plan(
        nights=asked.nights,
        records=asked.records,
        arrivals=asked.arrivals,
        seed=asked.seed,
        files=asked.files,
    )
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="reverie-nights-") as base:
        simulation = Simulation(plan=plan, folder=Path(base) / "memory")
        simulation.run()
        seconds = time.perf_counter() - began
        echo = echoed(Path(base) / "echo", days=60, records=290, seed=asked.seed)
    print("| | |\n|---|---:|")
    for name, number in table(simulation, seconds):
        print(f"| {name} | {number:,} |" if isinstance(number, int | float) else f"| {name} | {number} |")
    print(f"\n{echo}")
    for wrong in simulation.account.wrong[:40]:
        print(f"\nbroken: {wrong.rule}: {wrong.what} (night {wrong.night}, {wrong.mood}; seed {plan.seed})")
    if not simulation.account.counts["headlines"]:
        print("\nno headline was accepted at all: nothing is proved")
        return 1
    return 1 if simulation.account.wrong or not echo.holds else 0


if __name__ == "__main__":
    sys.exit(main())
