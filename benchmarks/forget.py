"""How much does forgetting one record cost beside saving one, and does it depend on the size of the memory?

Usage: python -m benchmarks.forget [SIZES ...], such as 500 5000 50000.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from reverie import Memory

_TIMES = 10
_VOCABULARY = tuple(f"word{number}" for number in range(4_000))


def measure(size: int, folder: Path) -> tuple[float, float]:
    """Return the processor time in seconds of saving and of forgetting a record in a memory of that size."""
    choose = random.Random(size)

    def write(number: int) -> str:
        return f"{' '.join(choose.choices(_VOCABULARY, k=12))} number {number}"

    with Memory.open(folder, embedder="none") as memory:
        saved = memory.save_many([{"content": write(number)} for number in range(size)])
        memory.search(write(0))
        memory.admin.forget(saved[0].record.id)  # imports, and the first index
        texts = [write(size + number) for number in range(_TIMES)]
        save = median(_time(lambda text=text: memory.save(text)) for text in texts)  # type: ignore[misc]
        ids = [choose.choice(saved[1:]).record.id for _ in range(_TIMES)]
        forget = median(_time(lambda name=name: memory.admin.forget(name)) for name in dict.fromkeys(ids))  # type: ignore[misc]
    return save, forget


def _time(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print the times of each size, and their ratio."""
    sizes = [int(size) for size in sys.argv[1:]] or [500, 5_000]
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            save, forget = measure(size, Path(folder) / "memory")
        print(
            f"{size:>7,} records: save {save * 1e3:6.2f} ms, forget {forget * 1e3:8.2f} ms, ratio {forget / save:6.1f}"
        )


if __name__ == "__main__":
    main()
