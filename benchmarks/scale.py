"""Growth of one PostgreSQL database with the number of memories and records in it.

    python -m benchmarks.scale [--records 10000] [--memories 100] [--samples 30] [--folder /var/tmp]

Loads the records evenly into the memories in four steps, each with as many memories more, and measures after each
step. A record costs the same wherever it is if the columns do not grow. Times are the fastest of some samples, since
other work only adds to them, and depend on the machine; sizes do not. The server is started here, with `fsync`.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
from tests.stores.postgres.server import CannotStart, PostgresServer

from benchmarks.texts import Texts
from reverie import Memory, Settings
from reverie.search.analyzer import analyze
from reverie.stores.contract.factories import NOW, make_additions, make_record
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.address import parse_postgres_url
from reverie.stores.postgres.work import WorkQueue

_STEPS = (0.125, 0.25, 0.5, 1.0)
_BATCH = 500
_SIZES = (
    "SELECT sum(pg_table_size(c.oid)) FILTER (WHERE c.relname LIKE 'thing%'), "
    "sum(pg_indexes_size(c.oid)) FILTER (WHERE c.relname LIKE 'thing%'), "
    "sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname LIKE 'journal%'), "
    "sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname !~ '^(thing|journal)') "
    "FROM pg_class AS c WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind = 'r'"
)
_COLUMNS = (
    "records", "memories", "load ms", "table B", "indexes B", "journal B", "rest B", "save ms", "sequence ms",
    "claim ms", "first search ms", "search ms", "index B",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loader:
    """A server with memories that are filled with generated texts."""

    server: PostgresServer
    texts: Texts
    each: int

    def open(self, memory: int) -> PostgresStore:
        """Return the store of a memory; the caller closes it."""
        return PostgresStore(self.server.url(f"memory-{memory}"), analyse=analyze)

    def fill(self, memory: int) -> None:
        """Save the texts of one memory."""
        first = memory * self.each
        numbers = range(first, first + self.each)
        with closing(self.open(memory)) as store:
            for start in range(0, self.each, _BATCH):
                records = [
                    make_record(n, content=self.texts.text(n).content, category=self.texts.text(n).category)
                    for n in numbers[start : start + _BATCH]
                ]
                store.commit(make_additions(*records), actor="load", at=NOW)


def main() -> None:
    """Run the measurements and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--memories", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--samples", type=int, default=30)
    options = parser.parse_args()
    if options.memories < 8 or options.records < options.memories:
        parser.error("at least 8 memories with a record each are needed")
    try:
        server = PostgresServer(18, durable=True, base=options.folder)
    except CannotStart as error:
        parser.exit(3, f"{error}\n")
    try:
        with tempfile.TemporaryDirectory(dir=options.folder) as cache:
            loader = Loader(server, Texts(), options.records // options.memories)
            print(f"| {' | '.join(_COLUMNS)} |\n|{' --: |' * len(_COLUMNS)}")
            filled = 0
            for share in _STEPS:
                wanted = round(options.memories * share)
                began = time.perf_counter()
                for memory in range(filled, wanted):
                    loader.fill(memory)
                load_s = (time.perf_counter() - began) / ((wanted - filled) * loader.each)
                filled = wanted
                cells = [load_s * 1000, *measure(loader, filled, Path(cache) / str(filled), options.samples)]
                shown = [f"{filled * loader.each:,}", f"{filled:,}", *(f"{cell:,.2f}" for cell in cells)]
                print(f"| {' | '.join(shown)} |", flush=True)
    finally:
        server.remove()


def measure(loader: Loader, memories: int, cache: Path, samples: int) -> list[float]:
    """Return the figures of `_COLUMNS` from `table B` on; sizes are bytes for each record."""
    chance = random.Random(memories)
    records = memories * loader.each
    database = parse_postgres_url(loader.server.url("any"))
    with psycopg.connect(database.connection, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        sizes = [float(size) / records for size in connection.execute(_SIZES).fetchone() or ()]
    saves, sequences, firsts, searches, indexes = [], [], [], [], []
    for number in range(samples):
        with closing(loader.open(chance.randrange(memories))) as store:
            store.sequence()
            one = make_record(
                10_000_000 + memories * 100 + number, content=f"Sampled text {memories} {number}"
            )
            saves.append(time_call(lambda s=store, r=one: s.commit(make_additions(r), actor="b", at=NOW)))
            sequences.append(time_call(store.sequence))
    with closing(WorkQueue(database)) as queue:
        claims = [time_call(queue.claim) for _ in range(min(samples, memories))]
    for number in range(min(10, samples)):
        url = loader.server.url(f"memory-{chance.randrange(memories)}")
        folder = cache / str(number)
        with Memory.open(url, settings=Settings(index_cache=str(folder))) as memory:
            question = loader.texts.text(chance.randrange(records)).content
            firsts.append(time_call(lambda m=memory, q=question: m.search(q)))
            searches += [time_call(lambda m=memory, q=question: m.search(q)) for _ in range(3)]
        indexes.append(
            sum(os.path.getsize(file) for file in folder.rglob("*") if file.is_file()) / loader.each
        )
    fastest = [min(times) for times in (saves, sequences, claims, firsts, searches)]
    return [*sizes, *fastest, statistics.median(indexes)]


def time_call(call: Callable[[], object]) -> float:
    """Return the milliseconds that a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
