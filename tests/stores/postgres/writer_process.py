"""A process that saves records without end and prints the number of each one when its commit has returned."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import count

from reverie.stores.postgres import PostgresStore
from tests.support.contract.factories import NOW, analyse, make_additions, make_record


def main() -> None:
    url, first = sys.argv[1], int(sys.argv[2])
    store = PostgresStore(url, analyse=analyse, busy_timeout=timedelta(seconds=60))
    for number in count(first):
        store.commit(make_additions(make_record(number)), actor="writer", at=NOW, counts={"made": 1})
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
