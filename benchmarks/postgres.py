"""Time of a durable save in PostgreSQL beside a bare insert by psycopg, and of a search beside one in a folder.

    python -m benchmarks.postgres [--saves 500] [--folder /var/tmp]

Prints milliseconds and, which is what can be compared between machines, ratios. The time of the processor is told apart
for the client, which is this process, and the server, where the system has `/proc`. The server is started by this
program in a folder on a real disk, with `fsync`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.factories import NOW, make_additions, make_record

from benchmarks.texts import Texts
from reverie import Memory, Settings
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.connections import parse_postgres_url

_TEXT = "The deployment of the billing service to staging happens every Tuesday at ten, after the stand-up."
_TABLE = (
    "CREATE TABLE bare (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), content text NOT NULL)"
)
_SEARCHED = 1_000
_numbers = itertools.count()
_INSERT = "INSERT INTO bare (id, content) VALUES (%s, %s)"


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saves", type=int, default=500)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    server = PostgresServer(18, durable=True, base=options.folder)
    try:
        with connect(server) as connection:
            connection.execute(_TABLE)
        compare_one_writer(server, options.saves)
        compare_processors(server, options.saves)
        compare_eight(server, options.saves)
        compare_searches(server, options.saves, options.folder)
    finally:
        server.remove()


def connect(server: PostgresServer) -> psycopg.Connection:
    return psycopg.connect(parse_postgres_url(server.url("any")).connection, autocommit=True)


def compare_one_writer(server: PostgresServer, saves: int) -> None:
    """Alternate one insert and one save, so that both see the same machine."""
    with connect(server) as connection, closing(open_store(server)) as store:
        acts: dict[str, Callable[[], object]] = {
            "insert": lambda: insert(connection),
            "save": lambda: save(store),
        }
        took: dict[str, list[float]] = {name: [] for name in acts}
        for number in range(saves + 50):
            for name in random.sample(list(acts), len(acts)):
                start = time.perf_counter()
                acts[name]()
                if number >= 50:  # the first ones fill caches
                    took[name].append((time.perf_counter() - start) * 1000)
    for how, figure in (
        ("median", statistics.median),
        ("fastest tenth", lambda of: statistics.quantiles(of, n=10)[0]),
    ):
        bare, plain = (figure(times) for times in took.values())
        print(f"one writer, {how}: bare insert {bare:.2f} ms, save {plain:.2f} ms, ratio {plain / bare:.2f}")


def compare_processors(server: PostgresServer, saves: int) -> None:
    """Print the time of the processor that one insert and one save take in the client and in the server."""
    with connect(server) as connection, closing(open_store(server)) as store:
        acts: dict[str, Callable[[], object]] = {
            "bare insert": lambda: insert(connection),
            "save": lambda: save(store),
        }
        for name, act in acts.items():
            for _ in range(50):
                act()
            client, own = time.process_time(), server.read_cpu()
            for _ in range(saves):
                act()
            client, own = time.process_time() - client, server.read_cpu() - own
            print(
                f"processor, {name}: client {client / saves * 1000:.2f} ms, server {own / saves * 1000:.2f} ms"
            )


def compare_eight(server: PostgresServer, saves: int) -> None:
    """Let eight writers save into eight memories, and eight insert rows."""
    each = max(1, saves // 4)
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(server)) for _ in range(8)]
        stores = [stack.enter_context(closing(open_store(server))) for _ in range(8)]
        results = []
        for jobs in (
            [lambda c=one: [insert(c) for _ in range(each)] for one in connections],
            [lambda s=one: [save(s) for _ in range(each)] for one in stores],
        ):
            cpu = time.process_time() + server.read_cpu()
            results.append((run_at_once(jobs), time.process_time() + server.read_cpu() - cpu))
    (bare, bare_cpu), (saved, saved_cpu) = results
    print(f"eight writers: bare inserts {8 * each / bare:.0f}/s, saves into eight memories {8 * each / saved:.0f}/s, "
          f"ratio {bare / saved:.2f}; processor for each insert {bare_cpu / each / 8 * 1000:.2f} ms, for each save "
          f"{saved_cpu / each / 8 * 1000:.2f} ms, client and server together, of {os.cpu_count()} cores")  # fmt: skip


def compare_searches(server: PostgresServer, searches: int, folder: Path) -> None:
    """Alternate one search in a folder and one in a database, each of the same thousand texts."""
    texts = Texts()
    with tempfile.TemporaryDirectory(dir=folder) as place, ExitStack() as stack:
        settings = Settings(embedder=None, dream_interval=None, index_cache=f"{place}/indexes")
        urls = [f"{place}/memory", server.url(uuid.uuid4().hex)]
        memories = [stack.enter_context(Memory.open(url, settings=settings)) for url in urls]
        took: list[list[float]] = [[] for _ in memories]
        for memory in memories:
            memory.save_many({"content": text.content} for text in texts.first(_SEARCHED))
            memory.search(texts.question(0), sources="records")
        server.execute("agents", "VACUUM ANALYZE")  # as the server does by itself within a minute
        for number in range(searches):
            question = texts.question(number % _SEARCHED)
            for place_of, memory in random.sample(list(enumerate(memories)), len(memories)):
                start = time.perf_counter()
                memory.search(question, sources="records")
                took[place_of].append((time.perf_counter() - start) * 1000)
    local, plain = (statistics.median(times) for times in took)
    slow = statistics.quantiles(took[-1], n=20)[-1]
    print(f"search of {_SEARCHED:,} texts, median: folder {local:.2f} ms, database {plain:.2f} ms, "
          f"ratio {plain / local:.2f}, p95 {slow:.2f} ms")  # fmt: skip


def run_at_once(jobs: list[Callable[[], object]]) -> float:
    """Return the seconds that all jobs take, each in a thread."""
    threads = [threading.Thread(target=job) for job in jobs]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def open_store(server: PostgresServer, options: str = "") -> PostgresStore:
    return PostgresStore(server.url(uuid.uuid4().hex) + options, analyse=analyze)


def insert(connection: psycopg.Connection) -> None:
    connection.execute(_INSERT, (uuid.uuid4().hex, _TEXT))


def save(store: PostgresStore) -> None:
    number = next(_numbers)  # no text twice: the analysis of a text is remembered
    one = make_record(number, content=f"{_TEXT} {number}")
    store.commit(make_additions(one), actor="bench", at=NOW)


if __name__ == "__main__":
    main()
