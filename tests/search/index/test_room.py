"""Commits of the index leave no memory with the threads that made them."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

_COMMITS = """
import sys
from pathlib import Path

from reverie.search.analyzer import analyze
from reverie.search.index.inverted_index import IndexedPassage
from reverie.search.index.tantivy_index import IndexBatch, TantivyIndex
from tests.support.contract.factories import make_record


def read_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0])


def commit(index: TantivyIndex, number: int) -> None:
    def fill(batch: IndexBatch) -> int:
        for key in range(number * 20 + 1, number * 20 + 21):
            record = make_record(key, content=f"Crate {key} is in hall {number}")
            batch.add(IndexedPassage(key, record, analyze(record)))
        return number + 1

    index.write(fill)
    index.refresh()


index = TantivyIndex(Path(sys.argv[1]))
commit(index, 0)
before = read_memory()
for number in range(1, 32):
    commit(index, number)
print(read_memory() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep nothing for a thread")
def test_memory_that_a_commit_has_freed_is_returned(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMMITS, str(tmp_path / "index" / "1")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert int(done.stdout) < 40_000, "KiB"
