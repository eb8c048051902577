"""Growth of one PostgreSQL database with the number of memories and records in it.

    python -m benchmarks.scale [--records 10000] [--memories 100] [--samples 30] [--cluster FOLDER]

Loads the records evenly into the memories in four steps, each with as many memories more, and measures after each
step. A record costs the same wherever it is if the columns do not grow. Times are the fastest of some samples, since
other work only adds to them, and depend on the machine; those of a search by tables are the median and the 95th of a
hundred. Sizes do not depend on it. The server is started here, with `fsync`. With `--cluster` its folder is kept, and
a run that was interrupted goes on where it ended.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
from tests.stores.postgres.server import CannotStart, PostgresServer
from tests.support.contract.factories import NOW, make_additions, make_record

from benchmarks.loading import Loader
from benchmarks.texts import Texts
from reverie import Memory, Settings
from reverie.search.analyzer import analyze
from reverie.stores.postgres import PostgresStore
from reverie.stores.postgres.connections import parse_postgres_url
from reverie.stores.postgres.work import WorkQueue

_STEPS = (0.125, 0.25, 0.5, 1.0)
_QUIET = Settings(embedder=None, dream_interval=None)
"""Nothing works beside a search: an embedding model that is installed would take both processor cores."""
_SIZES = (
    "SELECT sum(pg_table_size(c.oid)) FILTER (WHERE c.relname LIKE 'thing%'), "
    "sum(pg_indexes_size(c.oid)) FILTER (WHERE c.relname LIKE 'thing%'), "
    "sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname LIKE 'journal%'), "
    "sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname !~ '^(thing|journal)') "
    "FROM pg_class AS c WHERE c.relnamespace = 'reverie'::regnamespace AND c.relkind = 'r'"
)
_COLUMNS = (
    "records", "memories", "load ms", "table B", "indexes B", "journal B", "rest B", "save ms",
    "sequence ms", "claim ms", "first search ms", "search ms", "index B",
)  # fmt: skip


def main() -> None:
    """Run the measurements and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--memories", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--cluster", type=Path)
    parser.add_argument("--samples", type=int, default=30)
    options = parser.parse_args()
    if options.memories < 8 or options.records < options.memories:
        parser.error("at least 8 memories with a record each are needed")
    try:
        server = PostgresServer(18, durable=True, base=options.folder, folder=options.cluster)
    except CannotStart as error:
        parser.exit(3, f"{error}\n")
    try:
        with tempfile.TemporaryDirectory(dir=options.folder) as cache:
            run(Loader(server, Texts(), options.records // options.memories), options, Path(cache))
    finally:
        server.stop() if options.cluster else server.remove()


def run(loader: Loader, options: argparse.Namespace, cache: Path) -> None:
    """Load and measure in steps."""
    print(f"| {' | '.join(_COLUMNS)} |\n|{' --: |' * len(_COLUMNS)}", flush=True)
    for share in _STEPS:
        wanted = round(options.memories * share)
        began = time.perf_counter()

        def tell(what: str, done: int, *, of: int = wanted, since: float = began) -> None:
            if done % 10 == 0:
                print(f"{what} {done} of {of} memories, {time.perf_counter() - since:.0f} s", file=sys.stderr)

        filled = loader.fill(wanted, tell)
        if not filled and share < 1:
            continue  # it was loaded, and measured, by an earlier run, and what came after is there too
        load_ms = (time.perf_counter() - began) * 1000 / max(1, filled * loader.each)
        cells = measure(loader, wanted, cache / str(wanted), options.samples)
        shown = [f"{wanted * loader.each:,}", f"{wanted:,}", f"{load_ms:,.2f}" if filled else "–"]
        shown += [f"{cell:,.2f}" for cell in cells]
        print(f"| {' | '.join(shown)} |", flush=True)


def measure(loader: Loader, memories: int, cache: Path, samples: int) -> list[float]:
    """Return the figures of `_COLUMNS` from `table B` on; sizes are bytes for each record."""
    chance = random.Random(memories)
    records = memories * loader.each
    database = parse_postgres_url(loader.url(0))
    with psycopg.connect(database.connection, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        sizes = [float(size) / records for size in connection.execute(_SIZES).fetchone() or ()]
    sequences, firsts, searches, indexes = [], [], [], []
    for _ in range(samples):
        with closing(PostgresStore(loader.url(chance.randrange(memories)), analyse=analyze)) as store:
            store.sequence()
            sequences.append(time_call(store.sequence))
    for number in range(min(10, samples)):
        memory = chance.randrange(memories)
        folder = cache / str(number)
        with Memory.open(loader.url(memory), settings=replace(_QUIET, index_cache=str(folder))) as opened:
            question = ask(loader, chance, memory)
            firsts.append(time_call(lambda m=opened, q=question: m.search(q, sources="records")))
            searches += [
                time_call(lambda m=opened, q=question: m.search(q, sources="records")) for _ in range(3)
            ]
        indexes.append(
            sum(os.path.getsize(file) for file in folder.rglob("*") if file.is_file()) / loader.each
        )
    save = time_saves(loader, chance, memories, samples)
    with closing(WorkQueue(database)) as queue:
        claims = [time_call(queue.claim) for _ in range(min(samples, memories))]
    fastest = [min(times) for times in (sequences, claims, firsts, searches)]
    return [*sizes, save, *fastest, statistics.median(indexes)]


def time_saves(loader: Loader, chance: random.Random, memories: int, samples: int) -> float:
    """Return the milliseconds of the fastest save, into memories of their own, so that others stay as they are.

    The first save of a connection is not counted: the server compiles the function of a commit then.
    """
    times = []
    for _ in range(samples):
        url = loader.server.url(f"saved-{chance.randrange(memories)}")
        with closing(PostgresStore(url, analyse=analyze)) as store:
            for is_first in (True, False):
                number = secrets.randbits(40)  # another one in each run, since saves stay
                text = loader.texts.text(number % 1_000_000)
                one = make_record(number, content=f"{text.content} {number}", category=text.category)
                took = time_call(lambda s=store, r=one: s.commit(make_additions(r), actor="b", at=NOW))
                times += [] if is_first else [took]
    return min(times)


def ask(loader: Loader, chance: random.Random, memory: int) -> str:
    """Return a question about one of the texts of a memory."""
    return loader.texts.question(memory * loader.each + chance.randrange(loader.each))


def time_call(call: Callable[[], object]) -> float:
    """Return the milliseconds that a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
