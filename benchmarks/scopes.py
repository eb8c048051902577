"""Time of searches within a scope beside searches over everything: medians of one run, taking turns.

python -m benchmarks.scopes [--sizes 1000,10000] [--scopes 1,10,1000] [--questions 60]

Half of the records have no scope; the other half is spread evenly over the scopes. A scope sees its own
records and those without a scope. One scope has a conversation of forty turns and is asked.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.texts import Text, Texts
from reverie import EVERY_SCOPE, Memory

TURNS = 40
WARM_UP = 10
HEAD = ("records", "scopes", "in one", "search all", "in a scope", "in its chain", "everybody's", "context")


def choose_scope(text: Text, scopes: int) -> str:
    """Return the scope of a text; every other text has none."""
    return "" if text.number % 2 else f"user:{text.number // 2 % scopes}"


def fill_memory(folder: Path, texts: Texts, size: int, scopes: int) -> Memory:
    """Return a memory with `size` records, all of them committed to the index."""
    memory = Memory.open(folder)
    groups: dict[str, list[dict[str, str]]] = {}
    for text in texts.first(size):
        groups.setdefault(choose_scope(text, scopes), []).append({"content": text.content})
    for scope, records in groups.items():
        memory.scoped(scope).save_many(records)
    chat = memory.scoped("user:0").session("chat")
    chat.add_many(
        {"role": "assistant" if number % 2 else "user", "content": texts.text(size + number).content}
        for number in range(TURNS)
    )
    memory.close()
    return Memory.open(folder)


def measure_medians(memory: Memory, texts: Texts, size: int, questions: int) -> list[float]:
    """Return median milliseconds of each search and of a prompt."""
    scoped = memory.scoped("user:0")
    chat = scoped.session("chat")
    ways: list[Callable[[str], object]] = [
        lambda question: memory.scoped(EVERY_SCOPE).search(question, sources="records"),
        lambda question: memory.scoped("user:0").search(question, sources="records"),
        scoped.search,
        lambda question: memory.scoped("").search(question, sources="records"),
        chat.context,
    ]
    times: list[list[float]] = [[] for _ in ways]
    for number in range(WARM_UP + questions):
        question = texts.question(number * size // (WARM_UP + questions))
        for way, taken in zip(ways, times, strict=True):
            began = time.perf_counter()
            way(question)
            taken.append((time.perf_counter() - began) * 1000)
    return [statistics.median(taken[WARM_UP:]) for taken in times]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000", help="numbers of records")
    parser.add_argument("--scopes", default="1,10,1000", help="numbers of scopes")
    parser.add_argument("--questions", type=int, default=60, help="how many, each another")
    asked = parser.parse_args()
    texts = Texts()
    print("| " + " | ".join(HEAD) + " |\n" + "|---:" * len(HEAD) + "|")
    for size in (int(number) for number in asked.sizes.split(",")):
        for scopes in (int(number) for number in asked.scopes.split(",")):
            if scopes > size // 2:
                continue
            with tempfile.TemporaryDirectory() as name:
                memory = fill_memory(Path(name, "memory"), texts, size, scopes)
                found = measure_medians(memory, texts, size, asked.questions)
                memory.close()
            one = size // 2 // scopes
            cells = [f"{size:,}", f"{scopes:,}", f"{one:,}", *(f"{taken:.1f} ms" for taken in found)]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
