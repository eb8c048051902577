"""Asynchronous operations of the LangGraph store beside `AsyncSqliteStore`: `python -m benchmarks.langgraph`.

Both stores run the same puts, gets and searches in one process, each kind all at once, as the nodes of many graphs
do. Both write to files with their own defaults, and neither embeds texts. They take turns, and of each kind the
fastest round counts. Times are those of the processor in all threads, which other programs change little. The
ratio is Reverie's time over that of `AsyncSqliteStore`.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from langgraph.store.base import BaseStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from reverie import Memory
from reverie.integrations.langgraph import ReverieStore

OPERATIONS = 6_000
ROUNDS = 5
MOST = 5.0
"""Largest accepted ratio over all operations."""

_USERS = 100
_KINDS = ("put", "get", "search")


def _list_operations(store: BaseStore, kind: str, count: int) -> Iterable[Awaitable[Any]]:
    for number in range(count):
        namespace = ("users", f"u{number % _USERS}")
        if kind == "put":
            value = {"text": f"Note {number} of a user", "topic": f"t{number % 7}", "deep": {"n": number}}
            yield store.aput(namespace, f"k{number}", value)
        elif kind == "get":
            yield store.aget(namespace, f"k{number}")
        else:
            yield store.asearch(namespace, filter={"topic": f"t{number % 7}"}, limit=5)


async def _run_all(store: BaseStore, count: int) -> tuple[dict[str, float], list[Any]]:
    """Return the processor seconds of each kind of operation, and what the reads returned."""
    seconds: dict[str, float] = {}
    results: list[Any] = []
    for kind in _KINDS:
        start = time.process_time()
        results.append(await asyncio.gather(*_list_operations(store, kind, count)))
        seconds[kind] = time.process_time() - start
    return seconds, results


async def _measure_reverie(folder: Path, count: int) -> tuple[dict[str, float], list[Any]]:
    with Memory.open(folder, embedder="none") as memory:
        return await _run_all(ReverieStore(memory), count)


async def _measure_sqlite(folder: Path, count: int) -> tuple[dict[str, float], list[Any]]:
    async with AsyncSqliteStore.from_conn_string(str(folder / "store.db")) as store:
        await store.setup()
        return await _run_all(store, count)


def _measure(run: Callable[[Path, int], Any], count: int) -> tuple[dict[str, float], list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        seconds, results = asyncio.run(run(Path(folder), count))
        return seconds, results


def _to_values(results: list[Any]) -> list[Any]:
    """Return what the gets and the searches found, in a form that two stores have in common."""
    _, gets, searches = results
    return [
        [item.value for item in gets],
        [sorted(item.value["deep"]["n"] for item in found) for found in searches],
    ]


def main() -> int:
    """Print the seconds of both stores and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    count = max(1, parser.parse_args().operations // len(_KINDS))
    theirs = dict.fromkeys(_KINDS, math.inf)
    ours = dict(theirs)
    for _ in range(ROUNDS):
        their_seconds, expected = _measure(_measure_sqlite, count)
        our_seconds, found = _measure(_measure_reverie, count)
        if _to_values(expected)[0] != _to_values(found)[0]:
            raise SystemExit("the stores returned different items: the figures mean nothing")
        theirs = {kind: min(theirs[kind], their_seconds[kind]) for kind in _KINDS}
        ours = {kind: min(ours[kind], our_seconds[kind]) for kind in _KINDS}
    print("| operations | ReverieStore | AsyncSqliteStore | ratio |")
    print("|---|---|---|---|")
    for kind in _KINDS:
        print(
            f"| {count} {kind} | {ours[kind]:.2f} s | {theirs[kind]:.2f} s | {ours[kind] / theirs[kind]:.1f} |"
        )
    total, reference = sum(ours.values()), sum(theirs.values())
    verdict = "met" if total <= MOST * reference else "missed"
    print(f"| all {3 * count} | {total:.2f} s | {reference:.2f} s | {total / reference:.1f} |")
    print(f"At most {MOST:g} times as long: {verdict}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
