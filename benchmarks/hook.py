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
from collections.abc import Mapping
from pathlib import Path

from benchmarks.texts import Texts
from reverie import Memory
from reverie.interfaces.hooks.client import get_socket_path

PROGRAM = [sys.executable, "-c", "from reverie.interfaces.cli.entry import main; main()"]


def measure_cpu() -> float:
    """Return the processor time of all ended child processes in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_event(
    event: str, folder: Path, payload: Mapping[str, str], env: Mapping[str, str]
) -> tuple[float, float]:
    """Run one event; return its wall time and processor time in seconds."""
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
    return took, measure_cpu() - before


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often")
    parser.add_argument("--records", type=int, default=3000, help="records in the memory")
    asked = parser.parse_args()
    texts = Texts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "memory")
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = str(
            Path(name, "compiled")
        )  # compiled files are cached, as after an installation
        with Memory.open(folder) as memory:
            memory.save_many({"content": text.content} for text in texts.first(asked.records))
        print(f"{asked.records:,} records, {asked.times} times each, from start to end of the process:")
        measure("alone", folder, asked.times, texts, env)
        command = [*PROGRAM, "mcp", "--store", str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=env) as server:
            path = get_socket_path(str(folder))
            while not os.path.exists(path):
                time.sleep(0.1)
            measure("beside a serving process", folder, asked.times, texts, env)
            assert server.stdin is not None
            server.stdin.close()


def measure(label: str, folder: Path, times: int, texts: Texts, env: Mapping[str, str]) -> None:
    """Run all events some times, and print the results."""
    taken: dict[str, list[tuple[float, float]]] = {"user-prompt": [], "stop": [], "session-start": []}
    for number in range(times + 1):
        payload = {
            "session_id": label,
            "cwd": str(folder.parent),
            "prompt": texts.question(number),
            "last_assistant_message": texts.text(number).content,
        }
        for event, figures in taken.items():
            figures.append(run_event(event, folder, payload, env))
    print(f"{label}:")
    for event, figures in taken.items():
        seconds, processor = zip(*figures[1:], strict=True)  # the first run compiles
        print(f"{event:>14}: best {min(seconds) * 1000:.0f} ms, median {format_median(seconds)} ms; ", end="")
        print(f"of processor time best {min(processor) * 1000:.0f} ms, median {format_median(processor)} ms")


def format_median(seconds: tuple[float, ...]) -> str:
    """Return the median in milliseconds."""
    return f"{statistics.median(seconds) * 1000:.0f}"


if __name__ == "__main__":
    main()
