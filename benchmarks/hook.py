"""Time of `reverie hook` from start to end, as a coding agent waits for it.

python -m benchmarks.hook [--times 20] [--records 3000]

Each prompt differs, is stored in one conversation and answered with what is recalled. Processor time is
measured as well; it does not depend on other load.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.texts import Texts
from reverie import Memory
from reverie.interfaces.hooks.client import get_socket_path

PROGRAM = [sys.executable, "-c", "from reverie.interfaces.cli.entry import main; main()"]


def measure_cpu() -> float:
    """Return the processor time of all ended child processes in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Spent(NamedTuple):
    """Seconds from the start of a process to its end.

    Attributes:
        clock: By the clock.
        processor: Of processor time.
    """

    clock: float
    processor: float


def run_event(event: str, folder: Path, payload: Mapping[str, str], env: Mapping[str, str]) -> Spent:
    """Run one event."""
    before, began = measure_cpu(), time.perf_counter()
    done = subprocess.run(
        [*PROGRAM, "hook", event, "--store", str(folder)],
        input=json.dumps(payload).encode(),
        capture_output=True,
        env=env,
        check=True,
    )
    took = time.perf_counter() - began
    assert not done.stderr, done.stderr.decode()
    return Spent(took, measure_cpu() - before)


EVENTS = ("user-prompt", "stop", "session-start")


def measure(
    records: int, times: int, events: Collection[str] = EVENTS
) -> tuple[dict[str, list[Spent]], dict[str, list[Spent]]]:
    """Measure events with so many records in the memory: alone, and beside a process that serves the folder."""
    texts = Texts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "memory")
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        # Compiled files are cached, as after an installation.
        env["PYTHONPYCACHEPREFIX"] = str(Path(name, "compiled"))
        with Memory.open(folder) as memory:
            memory.save_many({"content": text.content} for text in texts.first(records))
        run = partial(measure_events, folder, events, times, texts, env)
        alone = run("alone")
        command = [*PROGRAM, "mcp", "--store", str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env) as server:
            path = get_socket_path(str(folder))
            while not os.path.exists(path):
                time.sleep(0.1)
            beside = run("beside")
            assert server.stdin is not None
            server.stdin.close()
    return alone, beside


def measure_events(
    folder: Path, events: Collection[str], times: int, texts: Texts, env: Mapping[str, str], session: str
) -> dict[str, list[Spent]]:
    """Run each event so often, and once before, which compiles."""
    taken: dict[str, list[Spent]] = {event: [] for event in events}
    for number in range(times + 1):
        payload = {
            "session_id": session,
            "cwd": str(folder.parent),
            "prompt": texts.question(number),
            "last_assistant_message": texts.text(number).content,
        }
        for event, spent in taken.items():
            spent.append(run_event(event, folder, payload, env))
    return {event: spent[1:] for event, spent in taken.items()}


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often")
    parser.add_argument("--records", type=int, default=3000, help="records in the memory")
    asked = parser.parse_args()
    print(f"{asked.records:,} records, {asked.times} times each, from start to end of the process:")
    measured = measure(asked.records, asked.times)
    for label, taken in zip(("alone", "beside a serving process"), measured, strict=True):
        print(f"{label}:")
        for event, spent in taken.items():
            clock, processor = zip(*spent, strict=True)
            print(f"{event:>14}: best {min(clock) * 1000:.0f} ms, median {format_median(clock)} ms; ", end="")
            print(
                f"of processor time best {min(processor) * 1000:.0f} ms, median {format_median(processor)} ms"
            )


def format_median(seconds: tuple[float, ...]) -> str:
    """Return the median in milliseconds."""
    return f"{statistics.median(seconds) * 1000:.0f}"


if __name__ == "__main__":
    main()
