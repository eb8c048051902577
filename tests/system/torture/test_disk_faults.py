"""A disk that is full or read-only now and then: what was acknowledged is kept, and reads go on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.support.disks import small_disk
from tests.system.torture.disk_faults import RefusedWrites, full_now_and_then, read_only_now_and_then
from tests.system.torture.harness import Site, as_nobody, work

SECONDS = max(2.5, float(os.environ.get("REVERIE_TORTURE_SECONDS", "0")) / 4)
TIMEOUT = SECONDS * 10 + 120


@pytest.mark.skipif(
    not os.environ.get("REVERIE_TORTURE_SECONDS"),
    reason="`make torture` fills a disk for longer; opening a store on a full one can be refused",
)
@pytest.mark.timeout(TIMEOUT)
def test_a_disk_that_is_full_now_and_then_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "48m") as disk:
        site = Site(folder=disk / "memory")
        with full_now_and_then(disk, seed=5):
            work(site.folder, site.account, seconds=SECONDS, processes=2, threads=2, seed=21)
        assert site.examine() == []
    print(f"{sum(site.account.refused.values())} refused, {site.account.acknowledged} acknowledged")


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A place where another user may work."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


@pytest.mark.timeout(TIMEOUT)
def test_a_folder_that_is_read_only_now_and_then_loses_nothing(open_to_all: Path) -> None:
    site = Site(folder=open_to_all / "memory")
    with read_only_now_and_then(site.folder, seed=6):
        seeds = count(22)
        # On a loaded machine every save may meet the folder as read-only.
        while not site.account.acknowledged:
            work(
                site.folder,
                site.account,
                seconds=SECONDS,
                processes=2,
                threads=2,
                seed=next(seeds),
                always=as_nobody(),
            )
    assert site.examine() == []


@pytest.mark.timeout(TIMEOUT)
def test_writes_that_are_refused_now_and_then_lose_nothing(tmp_path: Path) -> None:
    site = Site(folder=tmp_path / "memory")
    interfere = RefusedWrites(seed=7)
    work(site.folder, site.account, seconds=SECONDS, processes=2, threads=2, seed=43, interfere=interfere)
    assert site.examine() == []
    assert site.account.acknowledged
