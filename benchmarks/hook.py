"""How long does a coding agent wait for its hook? From the start of `reverie hook user-prompt` to its end.

python -m benchmarks.hook [--times 20] [--records 3000]

Each prompt is another one, stored and answered with what is remembered for it, in one conversation. The
processor time is measured as well: it is what the hook takes on a machine that does nothing else.
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

PROGRAM = [sys.executable, "-c", "from reverie.interfaces.cli.entry import main; main()"]


def processor_s() -> float:
    """Processor time of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def once(event: str, folder: Path, told: Mapping[str, str], env: Mapping[str, str]) -> tuple[float, float]:
    """One event: seconds from start to end, and seconds of processor time."""
    before, began = processor_s(), time.perf_counter()
    done = subprocess.run(
        [*PROGRAM, "hook", event, "--folder", str(folder)],
        input=json.dumps(told).encode(),
        capture_output=True,
        env=env,
        check=True,
    )
    took = time.perf_counter() - began
    assert not done.stderr, done.stderr.decode()
    return took, processor_s() - before


def main() -> None:
    """Measure, and print."""
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
        )  # as where it is installed: nothing to compile
        with Memory.open(folder) as memory:
            memory.save_many({"content": text.content} for text in texts.first(asked.records))
        taken = {"user-prompt": [], "stop": [], "session-start": []}
        for number in range(asked.times + 1):
            told = {
                "session_id": "benchmark",
                "cwd": name,
                "prompt": texts.question(number),
                "last_assistant_message": texts.text(number).content,
            }
            for event, figures in taken.items():
                figures.append(once(event, folder, told, env))
    print(f"{asked.records:,} records, {asked.times} times each, from start to end of the process:")
    for event, figures in taken.items():
        seconds, processor = zip(*figures[1:], strict=True)  # the first one compiles
        print(f"{event:>14}: best {min(seconds) * 1000:.0f} ms, median {median_ms(seconds)} ms; ", end="")
        print(f"of processor time best {min(processor) * 1000:.0f} ms, median {median_ms(processor)} ms")


def median_ms(seconds: tuple[float, ...]) -> str:
    """Their median, in milliseconds."""
    return f"{statistics.median(seconds) * 1000:.0f}"


if __name__ == "__main__":
    main()
