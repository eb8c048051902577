"""What is known of the files: kept over processes, begun anew when broken, locked against others."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reverie.files.layout import build_numbered_path
from reverie.files.state import (
    NO_PROGRESS,
    FileRecord,
    FileState,
    MirrorProgress,
    StateUnavailable,
    compute_checksum,
)
from tests.files.folder_fixture import build_note_path, make_note, open_edited_folder

A = FileRecord("memory/a/1.json", 10, 1_700_000_000_000_000_001, compute_checksum(b"a"))
B = FileRecord("memory/b.json", 20, 1_700_000_000_000_000_002, compute_checksum(b"b"))
C = FileRecord("sessions/x.jsonl", 30, 1_700_000_000_000_000_003, compute_checksum(b"c"), 4)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[FileState]:
    opened = FileState(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_the_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        state = FileState(tmp_path)
        with state.lock() as ledger:
            ledger.put([A])
        modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        state.close()
    finally:
        os.umask(before)
    assert modes == {0o600}


def another_program(file: Path) -> None:
    file.unlink()
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE files (x)")


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100] + os.urandom(file.stat().st_size - 100))


SPOILT: list[Callable[[Path], object]] = [
    another_program,
    damage,
    Path.unlink,
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"no database" * 1000),
    lambda file: file.write_bytes(file.read_bytes().replace(b"CREATE TABLE", b"CREAT\xed TABLE")),
]


def test_a_file_that_cannot_be_used_is_begun_anew(tmp_path: Path) -> None:
    for spoil in SPOILT:
        state = FileState(tmp_path)
        with state.lock() as ledger:
            ledger.put([A])
            ledger.advance(MirrorProgress(5, "x"))
        state.close()
        spoil(tmp_path / "files.db")
        again = FileState(tmp_path)
        assert (again.progress, again.known()) == (NO_PROGRESS, {})
        with again.lock() as ledger:
            ledger.put([B])
        assert again.known() == {B.path: B}
        again.close()


def test_a_hand_edit_is_imported_although_the_state_of_the_files_is_damaged(tmp_path: Path) -> None:
    with open_edited_folder(tmp_path / "memory") as folder:
        folder.add(make_note(1))
        folder.state.close()
        for number, damage in enumerate(
            (
                "files SET path = CAST(x'ff' AS TEXT)",
                "progress SET sequence = 'x'",
                "contents SET data = 7",
            )
        ):
            folder.state.close()
            with sqlite3.connect(folder.path("files.db")) as file:
                file.execute(f"UPDATE {damage}")
            file.close()
            folder.reopen()
            folder.edit(build_note_path(1), content=f"Changed by hand {number}")
            for _ in range(2):
                with contextlib.suppress(StateUnavailable):
                    folder.sync()
            assert folder.record(1).content == f"Changed by hand {number}"


def test_the_page_of_a_record_is_found_wherever_it_was_put(state: FileState) -> None:
    ids, pages = [f"{n:012x}" for n in range(12)], [build_numbered_path("memory/work", n) for n in range(12)]
    with state.lock() as ledger:
        for n in range(1, 12):
            ledger.add_ids(pages[n], ids[n : n + 1])
        ledger.add_ids(pages[11], ids[:1])
        assert ledger.find_last_page("memory/work") == (11, 2)
        ledger.set_ids(pages[2], ids[1:3])
        ledger.set_ids(pages[1], [])
        ledger.set_ids(pages[11], ids[:1])
        assert list(map(ledger.locate, ids[:4])) == [pages[11], pages[2], pages[2], pages[3]]
        assert ledger.locate(ids[11]) is None


def test_a_link_in_its_place_is_not_followed(state: FileState, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    (tmp_path / "files.db").symlink_to(elsewhere)
    with state.lock() as ledger:
        ledger.put([A])
    assert elsewhere.read_bytes() == b"precious"
    assert not (tmp_path / "files.db").is_symlink()


def test_scrubbing_leaves_no_text_of_a_file_that_was_changed_or_removed(
    state: FileState, tmp_path: Path
) -> None:
    (tmp_path / "memory").mkdir()
    for name in ("same", "changed", "removed"):
        file = tmp_path / f"memory/{name}.md"
        file.write_bytes(b"secret " + name.encode())
        seen = file.stat()
        with state.lock() as ledger:
            record = FileRecord(
                f"memory/{name}.md", seen.st_size, seen.st_mtime_ns, compute_checksum(file.read_bytes())
            )
            ledger.put_content(record, file.read_bytes(), "page")
    (tmp_path / "memory/changed.md").write_bytes(b"by hand")
    (tmp_path / "memory/removed.md").unlink()
    assert state.scrub()
    data = b"".join(file.read_bytes() for file in tmp_path.glob("files.db*"))
    assert zlib.compress(b"secret same") in data
    assert zlib.compress(b"secret changed") not in data
    assert zlib.compress(b"secret removed") not in data
