"""The files say what the store says: after every change, and after whatever went wrong."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.domain.change import Change
from reverie.domain.page import MEMORY, Page
from tests.files.folder_fixture import (
    EditedFolder,
    assert_files_match,
    build_note_path,
    make_note,
    make_page,
    make_paragraph,
    open_edited_folder,
    read_all_files,
    write_samples,
)
from tests.support.contract.factories import NOW, make_record, make_removals, make_time, make_turn

BOTH = pytest.mark.parametrize("mirrored_folder", ["pages", "records"], indirect=True)


@pytest.fixture
def mirrored_folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EditedFolder]:
    opened = EditedFolder(tmp_path / "memory", getattr(request, "param", "pages"))
    yield opened
    opened.close()


# -- what is written when ----------------------------------------------------------------------------------


@BOTH
def test_everything_is_written_after_the_commit(mirrored_folder: EditedFolder) -> None:
    write_samples(mirrored_folder)
    assert_files_match(mirrored_folder)
    of_records = {
        "pages": ["memory/.archive/a.md", "memory/records/(unfiled).md", "memory/records/a/b.md"],
        "records": [
            "memory/.archive/a/000000000003.json",
            "memory/000000000002.json",
            "memory/a/b/000000000001.json",
        ],
    }
    assert sorted(read_all_files(mirrored_folder.root)) == sorted(
        [
            *of_records[mirrored_folder.layout],
            "memory/2026-03-01.md",
            "memory/HISTORY.md",
            "memory/MEMORY.md",
            "memory/episodic/2026-03-01.md",
            "sessions/telegram:1.jsonl",
        ]
    )


@BOTH
def test_what_was_forgotten_leaves_the_files(mirrored_folder: EditedFolder) -> None:
    write_samples(mirrored_folder)
    gone = [make_record(1, category="a/b", tags=("x",)), make_record(4, layer="episodic", kind="event")]
    last = make_turn(1, "telegram:1")
    mirrored_folder.store.erase(make_removals(*gone, last), actor="owner", at=NOW)
    mirrored_folder.mirror.write()
    assert_files_match(mirrored_folder)
    text = b"".join(read_all_files(mirrored_folder.root).values())
    assert b"record 1" not in text
    assert b"record 4" not in text
    assert b"turn 1" not in text


# -- catching up -------------------------------------------------------------------------------------------


# -- random changes ----------------------------------------------------------------------------------------


# -- lost and foreign --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mirrored_folder", ["records"], indirect=True)
def test_old_versions_are_written_anew_where_the_state_was_lost(mirrored_folder: EditedFolder) -> None:
    write_samples(mirrored_folder)
    old = read_all_files(mirrored_folder.root)
    mirrored_folder.change(make_record(2), replace(make_record(2), content="Newer"))
    mirrored_folder.add(make_turn(2, "telegram:1"), make_paragraph(5))
    mirrored_folder.change(make_page(), make_page("Newer\n"))
    mirrored_folder.change(
        make_record(1, category="a/b", tags=("x",)), make_record(1, category="c", tags=("x",))
    )
    mirrored_folder.lose_state()
    for path, data in old.items():
        (mirrored_folder.root / path).parent.mkdir(parents=True, exist_ok=True)
        (mirrored_folder.root / path).write_bytes(data)
    mirrored_folder.settle()
    assert_files_match(mirrored_folder)


def test_the_state_of_another_memory_is_not_believed(mirrored_folder: EditedFolder, tmp_path: Path) -> None:
    other = EditedFolder(tmp_path / "other", mirrored_folder.layout)
    other.add(*(make_record(n, moment=make_time(n)) for n in range(50)))
    other.store.commit([Change(before=None, after=make_page())], actor="somebody else", at=make_time(1))
    other.mirror.write()
    other.close()
    write_samples(mirrored_folder)
    mirrored_folder.close()
    for name in ("files.db-wal", "files.db-shm"):
        (mirrored_folder.root / name).unlink(missing_ok=True)
    shutil.copy(other.root / "files.db", mirrored_folder.root / "files.db")
    again = EditedFolder(mirrored_folder.root, mirrored_folder.layout)
    again.mirror.write()
    assert_files_match(again)
    again.close()


def test_a_store_restored_from_a_backup_gets_the_files_of_its_time(
    mirrored_folder: EditedFolder, tmp_path: Path
) -> None:
    write_samples(mirrored_folder)
    backup = sqlite3.connect(tmp_path / "backup.db")
    source = sqlite3.connect(mirrored_folder.root / "reverie.db")
    source.backup(backup)
    source.close()
    backup.close()
    mirrored_folder.add(make_record(50, category="late"), make_turn(2, "telegram:1"))
    mirrored_folder.change(make_page(), make_page("late\n"))
    mirrored_folder.close()
    for name in ("reverie.db", "reverie.db-wal", "reverie.db-shm"):
        (mirrored_folder.root / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", mirrored_folder.root / "reverie.db")
    again = EditedFolder(mirrored_folder.root, mirrored_folder.layout)
    outcome = again.mirror.write()
    # What came after the backup is in no journal any more, so nobody knows that it is not a person's.
    assert sorted(set(outcome.edited)) == ["memory/MEMORY.md"]
    assert (again.root / "memory/records/late.md").exists()
    again.close()


def edit_quietly(folder: EditedFolder, path: str, old: bytes, new: bytes) -> None:
    """Edit a file as `cp -p` and `rsync -a` do: neither its size nor its time shows it."""
    file = folder.path(path)
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size


def test_a_hand_edit_with_the_same_size_and_time_is_imported_and_not_written_over(tmp_path: Path) -> None:
    note = make_note(1, content="It stands in hall 3")
    page = Page(name=MEMORY, content="- kept in hall 3\n", updated_at=NOW)
    with open_edited_folder(tmp_path / "memory") as folder:
        folder.add(note, page)
        edit_quietly(folder, build_note_path(1), b"hall 3", b"hall 8")
        edit_quietly(folder, "memory/MEMORY.md", b"hall 3", b"hall 8")
        folder.change(note, replace(note, importance=0.9))
        folder.change(page, replace(page, content="- kept in hall 3\n- and more\n"))
        assert b"hall 8" in folder.path(build_note_path(1)).read_bytes()
        folder.sync()
        assert (folder.record(1).content, folder.record(1).importance) == ("It stands in hall 8", 0.9)
        assert folder.store.pages()[0].content == "- kept in hall 8\n- and more\n"
        assert folder.read("memory/MEMORY.md") == "- kept in hall 8\n- and more\n"
