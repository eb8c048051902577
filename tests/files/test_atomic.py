"""Files are put in their place in one step, and no edit that slips in between is lost, on any system."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reverie.files import atomic
from reverie.files.atomic import AtomicFolder
from reverie.files.layout import DRAFTS

FILE = "memory/a/1.json"


def no_links(*args: object, **options: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def exchanging(patch: pytest.MonkeyPatch) -> None:
    assert atomic.find_exchange() is not None


def renaming_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(atomic, "find_exchange", lambda: None)
    patch.setattr(os, "link", no_links)


@pytest.fixture(params=[exchanging, renaming_aside])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the ways of replacing a file that systems have."""
    request.param(monkeypatch)
    return str(request.param.__name__)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for top in ("memory", "sessions"):
        assert not list((tmp_path / top / DRAFTS).glob("*")), "something was left"


def written(disk: AtomicFolder, path: str, data: bytes) -> atomic.FileStamp:
    seen = disk.create(path, data)
    assert seen is not None
    return seen


def save_in_place(file: Path, data: bytes) -> None:
    """As an editor that opens the file and writes."""
    with file.open("r+b") as opened:
        opened.truncate(0)
        opened.write(data)


def save_by_renaming(file: Path, data: bytes) -> None:
    """As an editor that writes another file and renames it."""
    other = file.with_name(".editor")
    other.write_bytes(data)
    other.rename(file)


SAVES = [save_in_place, save_by_renaming]


@pytest.mark.parametrize("umask", [0, 0o077, 0o277])
def test_files_and_folders_are_for_their_owner_alone_whatever_the_umask(
    root: Path, way: str, umask: int
) -> None:
    before = os.umask(umask)
    try:
        disk = AtomicFolder(root)
        seen = written(disk, FILE, b"one")
        disk.replace(FILE, b"two", seen)
        written(disk, "sessions/x.jsonl", b"one")
    finally:
        os.umask(before)
    for place in root.rglob("*"):
        assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600), place


@pytest.fixture
def before_swap(way: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something done after the last check of a file, just before another takes its name."""

    def patch(act: Callable[[], None]) -> None:
        module, name = (atomic, "exchange") if way == "exchanging" else (os, "rename")
        step, acts = getattr(module, name), iter([act])

        def late(one: str, other: str) -> None:
            next(acts, lambda: None)()
            step(one, other)

        monkeypatch.setattr(module, name, late)

    return patch


@pytest.mark.parametrize("save", SAVES)
def test_an_edit_just_before_the_replacement_is_kept_beside(
    root: Path, before_swap: Callable[[Callable[[], None]], None], save: Callable[[Path, bytes], None]
) -> None:
    disk = AtomicFolder(root)
    seen = written(disk, FILE, b"one\n")
    before_swap(lambda: save(root / FILE, b"theirs\n"))
    assert disk.replace(FILE, b"two\n", seen) == disk.stat(FILE)
    assert (root / FILE).read_bytes() == b"two\n"
    ((draft, path),) = disk.recovered
    assert (path, (root / draft).read_bytes()) == (FILE, b"theirs\n")
    assert disk.list_drafts() == [(draft, FILE)]
    disk.unlink(draft)


@pytest.mark.parametrize("save", SAVES)
def test_an_editor_that_reads_our_file_in_the_middle_of_a_replacement_saves_over_no_edit(
    root: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, bytes], None]
) -> None:
    """On a busy machine much time may pass between the exchange and the check of the old file."""
    disk = AtomicFolder(root)
    seen = written(disk, FILE, b"one\n")
    real, texts = atomic.exchange, []  # type: ignore[attr-defined]

    def slow(one: str, other: str) -> None:
        if not texts:
            save(root / FILE, b"first edit\n")
        real(one, other)
        texts.append((root / FILE).read_bytes())

    monkeypatch.setattr(atomic, "exchange", slow)
    disk.replace(FILE, b"two\n", seen)
    save(root / FILE, texts[0] + b"second edit\n")
    assert (root / FILE).read_bytes() == b"two\nsecond edit\n"
    ((draft, _),) = disk.recovered
    assert (root / draft).read_bytes() == b"first edit\n"
    disk.unlink(draft)


def test_a_file_saved_into_the_gap_of_renaming_aside_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renaming_aside(monkeypatch)
    disk = AtomicFolder(root)
    seen = written(disk, FILE, b"one\n")
    real = atomic.rename_to_new  # type: ignore[attr-defined]

    def late(one: str, other: str) -> None:
        (root / FILE).write_bytes(b"theirs\n")
        real(one, other)

    monkeypatch.setattr(atomic, "rename_to_new", late)
    assert disk.replace(FILE, b"two\n", seen) is None
    assert (root / FILE).read_bytes() == b"theirs\n"


@pytest.mark.parametrize("save", SAVES)
def test_an_edit_just_before_the_removal_is_put_back_and_can_be_removed(
    root: Path, way: str, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, bytes], None]
) -> None:
    disk = AtomicFolder(root)
    seen = written(disk, FILE, b"one\n")
    real, times = os.rename, iter([True])

    def late(one: str, other: str) -> None:
        if next(times, False):
            save(root / FILE, b"theirs\n")
        real(one, other)

    monkeypatch.setattr(os, "rename", late)
    assert not disk.remove(FILE, seen)
    assert (root / FILE).read_bytes() == b"theirs\n"
    (root / "memory" / DRAFTS).rmdir()
    seen = disk.stat(FILE)
    assert seen is not None
    assert disk.remove(FILE, seen)
    assert not (root / FILE).exists()
