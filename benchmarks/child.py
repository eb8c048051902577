"""Actions that run in a process of their own: fill an engine, open it, wait for another process's write.

`python -m benchmarks.child ACTION ENGINE FOLDER SIZE SEED` prints one line of JSON. Peak memory is
measured per process, so each engine gets its own process.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.engines import ENGINES, Engine
from benchmarks.texts import Texts

SERVED = 50
"""Number of questions answered before memory is measured."""

PATIENCE = 60.0

PAUSE = 0.05
"""Seconds between the saves of a process that works beside the measured one."""


def build(kind: type[Engine], folder: Path, size: int, texts: Texts) -> dict[str, float]:
    """Fill an empty engine."""
    engine = kind(folder)
    began, cpu_began = time.perf_counter(), time.process_time()
    engine.load(texts.first(size))
    seconds = time.perf_counter() - began
    engine.close()
    return {
        "load_s": seconds,
        "load_cpu_s": time.process_time() - cpu_began,
        "load_memory_mb": peak_memory(),
    }


def generate(kind: type[Engine], folder: Path, size: int, texts: Texts) -> dict[str, float]:
    """Generate the texts only, to measure their share of every load."""
    began, cpu_began = time.perf_counter(), time.process_time()
    for _ in texts.first(size):
        pass
    return {
        "load_s": time.perf_counter() - began,
        "load_cpu_s": time.process_time() - cpu_began,
        "load_memory_mb": peak_memory(),
    }


def serve(kind: type[Engine], folder: Path, size: int, texts: Texts) -> dict[str, float]:
    """Open a filled engine and answer some questions."""
    if kind.needs:
        importlib.import_module(kind.needs)
    began = time.perf_counter()
    engine = kind(folder)
    opened = time.perf_counter()
    engine.search(texts.question(0))
    first = time.perf_counter()
    for number in range(1, SERVED):
        engine.search(texts.question(number * size // SERVED))
    memory = peak_memory()
    engine.close()
    return {"open_ms": (opened - began) * 1000, "first_ms": (first - opened) * 1000, "memory_mb": memory}


def start(kind: type[Engine], folder: Path, size: int, texts: Texts) -> dict[str, float]:
    """Import Reverie, open the memory in the folder and build a first prompt; processor time in milliseconds."""
    question = texts.question(0)
    began = time.process_time()
    memory = importlib.import_module("reverie").Memory.open(folder, embedder="none")
    opened = time.process_time()
    memory.session("chat:first").context(question)
    packed = time.process_time()
    memory.close()
    return {"start_cpu_ms": (opened - began) * 1000, "first_context_ms": (packed - opened) * 1000}


def watch(kind: type[Engine], folder: Path, size: int, texts: Texts) -> dict[str, float]:
    """Print `ready`; for each word read, search until it is found and print the time."""
    engine = kind(folder)
    engine.search(texts.question(0))
    print("ready", flush=True)
    for line in sys.stdin:
        found_at = wait_until_found(engine, line.strip())
        print(json.dumps(found_at), flush=True)
    engine.close()
    return {}


def work(kind: type[Engine], folder: Path, size: int, texts: Texts) -> dict[str, float]:
    """Print `ready`; save a text and ask a question every `PAUSE` seconds until the input ends."""
    engine = kind(folder)
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    print("ready", flush=True)
    number = 0
    while not ended.wait(PAUSE):
        engine.save(texts.text(size + number))
        engine.search(texts.question(number % size))
        number += 1
    engine.close()
    return {"saved": number}


def wait_until_found(engine: Engine, word: str) -> float:
    """Search until a text with the word is found; return the time on the monotonic clock of all processes.

    An engine that corrects spelling may find another text first.
    """
    deadline = time.monotonic() + PATIENCE
    while not any(word in text for text in engine.search(word)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{engine.name}: not found within {PATIENCE:.0f} s of the write")
        time.sleep(0.0005)
    return time.monotonic()


def peak_memory() -> float:
    """Return the peak memory of this process in MiB.

    On Linux this reads `/proc`, since `getrusage` there includes the parent's maximum.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


ACTIONS: dict[str, Callable[[type[Engine], Path, int, Texts], dict[str, float]]] = {
    action.__name__: action for action in (build, generate, serve, start, watch, work)
}


def main() -> None:
    """Run the action named on the command line."""
    action, engine, folder, size, seed = sys.argv[1:]
    figures = ACTIONS[action](ENGINES[engine], Path(folder), int(size), Texts(int(seed)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
