"""The cache of indexes stays within its bound, and no index in use is removed."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import closing
from pathlib import Path

import pytest

from reverie.domain.errors import StoreUnavailable
from reverie.search.index.candidates import IndexCache


def fill(cache: IndexCache, bytes_: int) -> None:
    (cache.path / "index").mkdir(exist_ok=True)
    (cache.path / "index" / "data").write_bytes(b"x" * bytes_)


def use(base: Path, name: str, *, bytes_: int = 600_000, at: int) -> None:
    """Use an index once, at a moment."""
    with closing(IndexCache(base, name, limit_mb=1_000)) as cache:
        fill(cache, bytes_)
    os.utime(base / f"{name}.lock", (at, at))


def list_folders(base: Path) -> list[str]:
    return sorted(folder.name for folder in base.iterdir() if folder.is_dir())


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    for at, name in enumerate(("one", "two", "three", "four"), 1_000):
        use(tmp_path, name, at=at)
    use(tmp_path, "one", at=2_000)
    IndexCache(tmp_path, "five", limit_mb=2).close()
    assert list_folders(tmp_path) == ["five", "four", "one", "three"]
    IndexCache(tmp_path, "three", limit_mb=1).close()
    assert list_folders(tmp_path) == ["five", "three"]
    assert sorted(file.name for file in tmp_path.glob("*.lock")) == ["five.lock", "three.lock"]


def test_an_index_in_use_stays_whatever_the_bound(tmp_path: Path) -> None:
    with closing(IndexCache(tmp_path, "used", limit_mb=1_000)) as used:
        fill(used, 600_000)
        os.utime(tmp_path / "used.lock", (1, 1))
        IndexCache(tmp_path, "other", limit_mb=0).close()
        assert list_folders(tmp_path) == ["other", "used"]
    IndexCache(tmp_path, "other", limit_mb=0).close()
    assert "used" not in list_folders(tmp_path)


def test_two_that_use_one_index_keep_it_until_both_are_closed(tmp_path: Path) -> None:
    first, second = (IndexCache(tmp_path, "shared", limit_mb=1_000) for _ in range(2))
    fill(first, 10)
    first.close()
    first.close()
    IndexCache(tmp_path, "other", limit_mb=0).close()
    assert "shared" in list_folders(tmp_path)
    second.close()
    IndexCache(tmp_path, "other", limit_mb=0).close()
    assert "shared" not in list_folders(tmp_path)


def test_the_index_of_another_origin_goes_when_nobody_uses_it(tmp_path: Path) -> None:
    use(tmp_path, "one", at=1_000)
    with closing(IndexCache(tmp_path, "one", origin="a", limit_mb=1_000)) as cache:
        fill(cache, 10)
        IndexCache(tmp_path, "one", origin="b", limit_mb=1_000).close()
        IndexCache(tmp_path, "one1", origin="c", limit_mb=1_000).close()
        assert list_folders(tmp_path) == ["one-a", "one-b", "one1-c"]
    IndexCache(tmp_path, "one", origin="b", limit_mb=1_000).close()
    assert list_folders(tmp_path) == ["one-b", "one1-c"]


def test_the_cache_is_for_its_owner_alone(tmp_path: Path) -> None:
    with closing(IndexCache(tmp_path / "cache", "one", limit_mb=1)) as cache:
        assert stat.S_IMODE(cache.path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(cache.path.stat().st_mode) == 0o700


def test_a_place_that_cannot_hold_a_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cache of search indexes"):
        IndexCache(tmp_path / "file", "one", limit_mb=1)


def test_a_folder_that_cannot_be_made_is_not_kept_in_use(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("no folder")
    with pytest.raises(StoreUnavailable):
        IndexCache(tmp_path, "one", limit_mb=1)
    with (tmp_path / "one.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
