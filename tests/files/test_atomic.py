"""Files are put in their place in one step, and no edit that slips in between is lost, on any system."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reverie import Memory
from reverie.files import atomic
from reverie.files.atomic import DRAFTS, AtomicFolder, UnsafePath

FILE = "memory/a/1.json"


def no_links(*args: object, **options: object) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def exchanging(patch: pytest.MonkeyPatch) -> None:
    assert atomic._native is not None


def renaming_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(atomic, "_native", None)
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


def test_a_file_is_created_replaced_added_to_and_removed(root: Path, way: str) -> None:
    disk = AtomicFolder(root)
    assert disk.stat(FILE) is None
    assert disk.read(FILE) is None
    seen = written(disk, FILE, b"one\n")
    assert seen == disk.stat(FILE)
    assert disk.read(FILE) == (b"one\n", seen)
    seen = disk.replace(FILE, b"two\n", seen)
    assert seen is not None
    assert disk.read(FILE) == (b"two\n", seen)
    seen = disk.append(FILE, b"three\n", seen)
    assert seen is not None
    assert disk.read(FILE) == (b"two\nthree\n", seen)
    assert disk.remove(FILE, seen)
    assert not (root / FILE).exists()
    assert disk.recovered == []


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


def test_nothing_is_created_over_a_file_that_somebody_else_made(root: Path, way: str) -> None:
    (root / "memory/a").mkdir(parents=True)
    (root / FILE).write_bytes(b"theirs")
    assert AtomicFolder(root).create(FILE, b"ours") is None
    assert (root / FILE).read_bytes() == b"theirs"


@pytest.mark.parametrize("save", SAVES)
def test_a_file_that_was_edited_since_it_was_seen_is_left_alone(
    root: Path, way: str, save: Callable[[Path, bytes], None]
) -> None:
    disk = AtomicFolder(root)
    seen = written(disk, FILE, b"one\n")
    save(root / FILE, b"theirs\n")
    assert disk.replace(FILE, b"two\n", seen) is None
    assert disk.append(FILE, b"more\n", seen) is None
    assert not disk.remove(FILE, seen)
    assert (root / FILE).read_bytes() == b"theirs\n"
    assert disk.recovered == []


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
    (root / f"{FILE}.recovered-1").write_bytes(b"older")

    before_swap(lambda: save(root / FILE, b"theirs\n"))
    assert disk.replace(FILE, b"two\n", seen) == disk.stat(FILE)
    assert (root / FILE).read_bytes() == b"two\n"
    assert (root / f"{FILE}.recovered-2").read_bytes() == b"theirs\n"
    assert disk.recovered == [(f"{FILE}.recovered-2", FILE)]


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
    there = {name: (root / "memory/a" / name).read_bytes() for name in os.listdir(root / "memory/a")}
    assert there == {"1.json": b"two\nsecond edit\n", "1.json.recovered-1": b"first edit\n"}


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
def test_an_edit_just_before_the_removal_is_put_back(
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


@pytest.mark.parametrize("save", SAVES)
def test_an_edit_during_an_addition_is_seen(
    root: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, bytes], None]
) -> None:
    disk = AtomicFolder(root)
    seen = written(disk, FILE, b"one\n")
    real = os.write

    def late(handle: int, data: bytes) -> int:
        if data == b"two\n":
            save(root / FILE, b"theirs\n")
        return real(handle, data)

    monkeypatch.setattr(os, "write", late)
    assert disk.append(FILE, b"two\n", seen) is None
    assert (root / FILE).read_bytes().startswith(b"theirs\n")


def test_a_file_removed_by_somebody_else_is_not_made_again(root: Path, way: str) -> None:
    disk = AtomicFolder(root)
    seen = written(disk, FILE, b"one\n")
    (root / FILE).unlink()
    assert disk.replace(FILE, b"two\n", seen) is None
    assert disk.append(FILE, b"two\n", seen) is None
    assert disk.remove(FILE, seen)
    assert not (root / FILE).exists()


def test_folders_that_become_empty_are_removed_and_others_stay(root: Path) -> None:
    disk = AtomicFolder(root)
    deep, beside = "memory/.archive/a/b/1.json", "memory/.archive/2.json"
    seen, other = written(disk, deep, b"x"), written(disk, beside, b"y")
    disk.remove(deep, seen)
    assert sorted(os.listdir(root / "memory/.archive")) == ["2.json"]
    (root / "memory/.archive/mine.txt").write_text("a person's")
    disk.remove(beside, other)
    assert sorted(os.listdir(root / "memory/.archive")) == ["mine.txt"]
    top = written(disk, "memory/3.json", b"z")
    disk.remove("memory/3.json", top)
    assert (root / "memory").is_dir()


def test_a_link_in_place_of_a_file_is_refused_and_left(root: Path, way: str) -> None:
    elsewhere = root / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (root / "memory/a").mkdir(parents=True)
    (root / FILE).symlink_to(elsewhere)
    disk = AtomicFolder(root)
    for act in (disk.stat, disk.read):
        with pytest.raises(UnsafePath, match=r"'memory/a/1.json' is a symbolic link"):
            act(FILE)
    assert disk.create(FILE, b"ours") is None
    assert (root / FILE).is_symlink()
    assert elsewhere.read_bytes() == b"precious"


@pytest.mark.parametrize("link", ["memory", "memory/a"])
def test_a_link_in_place_of_a_folder_is_refused(root: Path, link: str) -> None:
    outside = root / "outside"
    (outside / "a").mkdir(parents=True)
    (root / link).parent.mkdir(exist_ok=True)
    (root / link).symlink_to(outside)
    disk = AtomicFolder(root)
    with pytest.raises(UnsafePath, match=f"'{link}' is a symbolic link"):
        disk.stat(FILE)
    assert sorted(os.listdir(outside)) == ["a"]
    assert os.listdir(outside / "a") == []


def test_a_folder_that_becomes_a_link_is_noticed(root: Path) -> None:
    outside = root / "outside"
    outside.mkdir()
    disk = AtomicFolder(root)
    assert disk.create(FILE, b"x") is not None
    assert disk.stat(FILE) is not None
    (root / FILE).unlink()
    (root / FILE).parent.rmdir()
    (root / FILE).parent.symlink_to(outside)
    with pytest.raises(UnsafePath, match="is a symbolic link"):
        disk.stat(FILE)


def test_a_link_in_place_of_the_folder_of_drafts_is_refused(root: Path) -> None:
    outside = root / "outside"
    outside.mkdir()
    (root / "memory").mkdir()
    (root / "memory" / DRAFTS).symlink_to(outside)
    with pytest.raises(UnsafePath):
        AtomicFolder(root).create(FILE, b"x")
    assert os.listdir(outside) == []
    (root / "memory" / DRAFTS).unlink()


def test_what_is_no_file_is_refused(root: Path) -> None:
    (root / FILE).mkdir(parents=True)
    with pytest.raises(UnsafePath, match="no regular file"):
        AtomicFolder(root).stat(FILE)
    (root / "memory/b").write_bytes(b"a file where a folder should be")
    with pytest.raises(UnsafePath, match="'memory/b' is no folder"):
        AtomicFolder(root).stat("memory/b/1.json")


def test_a_disk_that_is_full_leaves_files_as_they_were(root: Path) -> None:
    script = f"""
        import resource, signal
        from pathlib import Path
        from reverie.files.atomic import AtomicFolder
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        disk = AtomicFolder(Path({str(root)!r}))
        seen = disk.create({FILE!r}, b"x" * 6000)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        for act in (disk.append, disk.replace):
            try:
                act({FILE!r}, b"y" * 20000, seen)
            except OSError as error:
                print(error.errno)
        assert disk.stat({FILE!r})[0] == 6000
        try:
            disk.create("memory/2.json", b"z" * 20000)
        except OSError as error:
            print(error.errno)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()) == (0, [str(errno.EFBIG)] * 3), ran.stderr
    assert (root / FILE).read_bytes() == b"x" * 6000
    assert not (root / "memory/2.json").exists()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (FILE, FILE),
        ("memory/MEMORY.md", "memory/MEMORY.md"),
        ("sessions/a%2Fb~12345678.jsonl", "sessions/a%2Fb~12345678.jsonl"),
        (f"memory/{'a/' * 99}1.json", "memory/1.json"),
    ],
)
def test_what_was_left_tells_which_file_it_belongs_to(tmp_path: Path, path: str, told: str) -> None:
    disk = AtomicFolder(tmp_path)
    draft = disk._write_draft(path, b"left", False)
    ((left, belongs),) = disk.list_drafts()
    assert tmp_path / left == Path(draft)
    assert belongs == told
    assert disk.put_back(left, belongs)
    assert (tmp_path / belongs).read_bytes() == b"left"
    assert disk.list_drafts() == []


def test_what_was_left_is_put_beside_a_file_that_is_there(tmp_path: Path) -> None:
    disk = AtomicFolder(tmp_path)
    disk.create(FILE, b"there")
    disk._write_draft(FILE, b"left", False)
    ((left, path),) = disk.list_drafts()
    assert not disk.put_back(left, path)
    assert (tmp_path / f"{FILE}.recovered-1").read_bytes() == b"left"
    disk._write_draft(FILE, b"left", False)
    ((left, path),) = disk.list_drafts()
    disk.remove_draft(left)
    assert disk.list_drafts() == []


def test_the_file_of_a_session_with_a_long_odd_name_is_written(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory") as memory:
        for name in ("emoji\N{GRINNING FACE}" * 30, "a, b/c" * 30, "%" * 200):
            memory.session(name).add("user", "hello")
        assert memory.folder is not None
        assert memory.flush()
        assert memory.folder.problems() == []
        assert len(list((tmp_path / "memory" / "sessions").glob("*.jsonl"))) == 3


def test_a_file_that_is_written_all_the_time_is_not_read_for_ever(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = AtomicFolder(root)
    written(disk, FILE, b"one\n")
    fstat, reads = os.fstat, 0

    def append_and_fstat(handle: int) -> os.stat_result:
        """As if somebody else appended to the file between any two steps."""
        nonlocal reads
        reads += 1
        assert reads < 10_000
        with (root / FILE).open("ab") as file:
            file.write(b".")
        return fstat(handle)

    monkeypatch.setattr(os, "fstat", append_and_fstat)
    with pytest.raises(OSError, match="all the time"):
        disk.read(FILE)
