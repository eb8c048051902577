"""On a disk that is full, or not to be written, now and then: refused is refused, told is kept, reads go on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import WORKER, Site, nobody, work
from .weather import RefusedWrites, full_now_and_then, read_only_now_and_then, small_disk

SECONDS = 3.0


@pytest.mark.timeout(120)
def test_a_disk_that_is_full_now_and_then_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=48) as disk:
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


def may_run(user: int) -> bool:
    """Whether that user can run a worker at all."""
    return not subprocess.run(
        [sys.executable, str(WORKER), "--help"], user=user, capture_output=True
    ).returncode


@pytest.mark.timeout(120)
def test_a_folder_that_is_read_only_now_and_then_loses_nothing(open_to_all: Path) -> None:
    user = nobody()
    if (
        user is not None
        and subprocess.run([sys.executable, str(WORKER), "--help"], user=user, capture_output=True).returncode
    ):
        pytest.skip("the user for whom files can be read-only may not run this Python")
    site = Site(folder=open_to_all / "memory")
    with read_only_now_and_then(site.folder, seed=6):
        work(site.folder, site.account, seconds=SECONDS, processes=2, threads=2, seed=22, user=user)
    assert site.examine() == []


@pytest.mark.timeout(120)
def test_writes_that_are_refused_now_and_then_lose_nothing(tmp_path: Path) -> None:
    site = Site(folder=tmp_path / "memory")
    weather = RefusedWrites(seed=7)
    work(site.folder, site.account, seconds=SECONDS, processes=2, threads=2, seed=23, weather=weather)
    assert site.examine() == []
