"""Files follow the store on a thread: nothing is lost, and nothing erased remains."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from reverie import Memory
from reverie.domain.living_page import parse_line
from reverie.files import folder
from tests.files.folder_fixture import (
    KeptFolder,
    assert_files_match,
    make_page,
    make_paragraph,
    read_all_files,
)
from tests.support.contract.factories import NOW, make_change, make_record, make_session, make_turn


@pytest.fixture
def late(kept_folder: KeptFolder, monkeypatch: pytest.MonkeyPatch) -> KeptFolder:
    """A folder whose files are not written before somebody asks for them."""
    monkeypatch.setattr(folder, "DELAY_S", 600.0)
    return kept_folder


def test_a_change_does_not_wait_for_its_file_which_follows_by_itself(kept_folder: KeptFolder) -> None:
    began = time.monotonic()
    with kept_folder.state.lock():  # nobody can write files now
        kept_folder.add(make_record(60), mirrored=False)
        assert time.monotonic() - began < folder.DELAY_S * 50
        assert not (kept_folder.root / "memory/00000000003c.json").exists()
    deadline = time.monotonic() + 20
    while not (kept_folder.root / "memory/00000000003c.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert kept_folder.folder.flush()
    assert_files_match(kept_folder)


def test_a_file_that_is_not_written_yet_was_not_deleted(late: KeptFolder) -> None:
    late.add(make_record(60), make_record(61, layer="episodic"), make_paragraph(7), mirrored=False)
    late.add(make_session("late"), make_turn(0, "late"), mirrored=False)
    assert late.folder.take_in().taken == []
    late.folder.refresh()
    assert [each.archived for each in late.store.records([f"{60:012x}", f"{61:012x}"])] == [False, False]
    assert late.folder.flush()
    assert_files_match(late)


def test_an_edit_of_the_old_text_while_a_new_one_waits_is_merged(late: KeptFolder) -> None:
    late.change(make_record(2), replace(make_record(2), importance=0.9), mirrored=False)
    late.change(make_page(), make_page("# Memory\n- by the program\n"), mirrored=False)
    late.save("memory/000000000002.json", "Content of record 2", "By hand")
    late.save("memory/MEMORY.md", "# Memory", "# My memory")
    late.folder.sync()
    (found,) = late.store.records([make_record(2).id])
    assert (found.content, found.importance) == ("By hand", 0.9)
    assert late.store.pages(["MEMORY.md"])[0].content == "# My memory\n- by the program\n"
    assert late.folder.conflicts() == []
    assert_files_match(late)


def test_earlier_words_and_places_leave_the_files_at_once(late: KeptFolder) -> None:
    late.add(make_record(60, content="Words to be forgotten"), mirrored=False)
    assert late.folder.flush()
    late.add(make_record(61, content="Words to be forgotten too"), mirrored=False)
    for number in (60, 61):
        (record,) = late.store.records([f"{number:012x}"])
        later = replace(record, content=f"Other words {number}", category="elsewhere")
        late.folder.notice(late.store.erase(make_change(record, later), actor="owner", at=NOW))
        assert_files_match(late)
    assert b"forgotten" not in b"".join(read_all_files(late.root).values())


_UNCLOSED = """
import atexit, os, signal, sys
from reverie import Memory
atexit.register(lambda: memory.save("Ends with a nod"))
memory = Memory.open(sys.argv[1])
assert memory.flush()
memory.save("Begins with a bow")
if sys.argv[2:] == ["killed"]:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_unclosed(root: Path, *options: str) -> set[str]:
    """Run a program that closes nothing; return what its files say then."""
    command = [sys.executable, "-W", "error", "-c", _UNCLOSED, os.fspath(root), *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.stderr == ""
    files = (root / "memory/records").glob("*.md") if (root / "memory").exists() else ()
    rows = [parse_line(row) for file in files for row in file.read_text().split("\n")]
    return {line.text for line in rows if line is not None}


def test_the_end_of_a_program_that_closed_nothing_writes_its_files(tmp_path: Path) -> None:
    assert run_unclosed(tmp_path) == {"Begins with a bow", "Ends with a nod"}


def test_what_a_killed_process_did_not_write_is_there_when_the_memory_is_opened(tmp_path: Path) -> None:
    assert run_unclosed(tmp_path, "killed") == set()
    with Memory.open(tmp_path):
        assert "- Begins with a bow <!--" in (tmp_path / "memory/records/(unfiled).md").read_text()
