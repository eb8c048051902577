"""Files that people edit, writers that are killed, disks that fail: nothing is lost, and it is made good."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.domain.change import Change
from reverie.files.layout import build_path, render_record
from reverie.files.mirror import FILES_FAILED
from reverie.files.state import FileRecord, compute_checksum
from tests.files.folder_fixture import (
    EditedFolder,
    assert_files_match,
    failing_below,
    make_page,
    make_paragraph,
    render_all_files,
    write_samples,
)
from tests.support.contract.factories import (
    make_additions,
    make_change,
    make_record,
    make_removals,
    make_session,
    make_turn,
)

WORKER = ("-W", "error", "-m", "tests.files.writer_process")
STRIDE = "1" if os.environ.get("REVERIE_TORTURE_SECONDS") else "5"
"""Every how many steps on the disk a process is killed."""


# -- hand edits --------------------------------------------------------------------------------------------

EDITS: list[tuple[str, list[Change]]] = [
    (
        "memory/000000000002.json",
        make_change(make_record(2), replace(make_record(2), content="By the program")),
    ),
    ("memory/000000000002.json", make_change(make_record(2), make_record(2, category="else"))),
    ("memory/MEMORY.md", make_change(make_page(), make_page("By the program\n"))),
    ("memory/HISTORY.md", make_additions(make_paragraph(9))),
    ("sessions/telegram:1.jsonl", make_additions(make_turn(2, "telegram:1"))),
    ("memory/episodic/2026-03-01.md", make_removals(make_record(4, layer="episodic", kind="event"))),
]


def test_what_a_person_edited_is_left_until_it_was_taken_in(tmp_path: Path) -> None:
    for number, (path, changes) in enumerate(EDITS):
        edited_folder = EditedFolder(tmp_path / str(number))
        write_samples(edited_folder)
        file = edited_folder.root / path
        edited = file.read_bytes().replace(b"1", b"one", 1) + b"By hand\n"
        file.write_bytes(edited)
        edited_folder.commit(*changes)
        if path.startswith("sessions/"):  # nothing of a person's is kept there
            assert_files_match(edited_folder)
            edited_folder.close()
            continue
        assert file.read_bytes() == edited
        assert edited_folder.state.due() == [path]
        edited_folder.lose_state()
        edited_folder.mirror.write()
        assert file.read_bytes() == edited
        seen = file.stat()
        with edited_folder.state.lock() as ledger:  # as `handedits` does when its content is in the store
            ledger.put([FileRecord(path, seen.st_size, seen.st_mtime_ns, compute_checksum(edited))])
            ledger.mark_due([path])
        edited_folder.mirror.write()
        assert_files_match(edited_folder)
        edited_folder.close()


# -- interrupted -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["sessions/telegram:1.jsonl", "memory/HISTORY.md"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_torn_addition_is_made_whole(edited_folder: EditedFolder, path: str, lost: bool) -> None:
    write_samples(edited_folder)
    before = edited_folder.path(path).read_bytes()
    edited_folder.add(
        make_turn(2, "telegram:1"),
        make_turn(3, "telegram:1"),
        make_paragraph(8),
        make_paragraph(9),
        mirrored=False,
    )
    whole = render_all_files(edited_folder.store, edited_folder.state)[path]
    for cut in range(len(before) + 1, len(whole) + 1, 17):
        (edited_folder.root / path).write_bytes(whole[:cut])
        if lost:
            edited_folder.lose_state()
        outcome = edited_folder.mirror.write()
        assert outcome.edited == []
        assert_files_match(edited_folder)
        with edited_folder.state.lock() as ledger:  # as if it had not been written
            ledger.put([FileRecord(path, len(before), 1, compute_checksum(before))])
            ledger.mark_due([path])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exchange", "rename"])
def test_a_process_may_be_killed_at_any_step(tmp_path: Path, way: str) -> None:
    """A child is killed before its first, second, … step on the disk, each time in a folder of its own."""
    folder = tmp_path / way
    command = [sys.executable, *WORKER, "steps", str(folder), way, STRIDE]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert ran.returncode == 0, ran.stderr
    ends = sorted(folder.iterdir())
    assert len(ends) > 100 / int(STRIDE)
    for end in ends:
        edited_folder = EditedFolder(end)
        edited_folder.settle()
        assert_files_match(edited_folder)
        edited_folder.close()


# -- failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failed_write_is_a_warning_and_a_counter_and_is_tried_again(
    edited_folder: EditedFolder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: int,
) -> None:
    write_samples(edited_folder)
    monkeypatch.setattr(os, "open", failing_below(edited_folder.root / "memory", number))
    outcome = edited_folder.add(make_record(20), make_session("y"))
    assert outcome.failed == {"memory/000000000014.json": os.strerror(number)}
    assert edited_folder.mirror.failed == outcome.failed
    assert edited_folder.store.count(FILES_FAILED) == 1
    assert (edited_folder.root / "sessions/y.jsonl").exists()
    assert [message for message in caplog.messages if "memory/000000000014.json" in message]
    edited_folder.add(make_record(21))
    assert edited_folder.store.count(FILES_FAILED) == 2
    monkeypatch.undo()
    edited_folder.add(make_record(22))
    assert edited_folder.mirror.failed == {}
    edited_folder.mirror.write()
    assert_files_match(edited_folder)


def test_a_state_that_cannot_be_kept_costs_no_exception(edited_folder: EditedFolder) -> None:
    (edited_folder.root / "files.db").mkdir()
    outcome = edited_folder.add(make_record(1))
    assert not outcome.complete
    assert list(edited_folder.mirror.failed) == [""]
    (edited_folder.root / "files.db").rmdir()
    edited_folder.add(make_record(2))
    assert edited_folder.mirror.failed == {}
    assert_files_match(edited_folder)


def test_a_record_that_cannot_be_read_costs_the_others_nothing(edited_folder: EditedFolder) -> None:
    edited_folder.add(*(make_record(n) for n in range(3)))
    with sqlite3.connect(edited_folder.root / "reverie.db") as file:
        file.execute("UPDATE records SET kind = 'nonsense' WHERE id = ?", (make_record(1).id,))
    file.close()
    edited_folder.change(make_record(0), replace(make_record(0), seen_count=2), mirrored=False)
    edited_folder.add(make_record(3), mirrored=False)
    with edited_folder.state.lock() as ledger:
        ledger.mark_due([build_path(make_record(1))])
    outcome = edited_folder.mirror.write()
    assert list(outcome.failed) == [build_path(make_record(1))]
    assert edited_folder.path(build_path(make_record(1))).read_bytes() == render_record(make_record(1))
    assert '"seen_count": 2' in edited_folder.read(build_path(make_record(0)))
    assert (edited_folder.root / build_path(make_record(3))).exists()


# -- erasure -----------------------------------------------------------------------------------------------
