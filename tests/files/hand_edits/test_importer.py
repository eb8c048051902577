"""A person edits, adds, moves and deletes files: it comes in, and nothing anybody wrote is lost."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from reverie.files.layout import render_record
from tests.files.folder_fixture import (
    EditedFolder,
    build_note_path,
    make_note,
    make_page,
    make_paragraph,
    open_edited_folder,
)
from tests.support.contract.factories import NOW, make_record, make_session, make_time, make_turn
from tests.support.rights import without_rights_of_root

# -- a record's file -----------------------------------------------------------------------------------------


def test_an_edited_record_comes_in_as_a_change_by_the_owners_hand(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_note(tags=("a",)))
    edited_folder.clock.move(hours=1)
    edited_folder.edit(build_note_path(1), content="My own words", tags=["a", "b"])
    (taken,) = edited_folder.sync().taken
    assert (taken.what, taken.id, taken.path) == ("changed", f"{1:012x}", build_note_path(1))
    found = edited_folder.record(1)
    assert (found.content, found.tags) == ("My own words", ("a", "b"))
    assert found.updated_at == edited_folder.clock()
    (row,) = edited_folder.list_hand_edits()
    assert row.summary == f"edit file: {build_note_path(1)}"
    assert edited_folder.published == [row]
    assert edited_folder.read(build_note_path(1)) == render_record(found).decode()
    edited_folder.assert_settled()


NOTE, ARCHIVED_NOTE = build_note_path(1), "memory/.archive/notes/000000000001.json"


def move_and_edit(folder: EditedFolder) -> None:
    text = folder.load_json(NOTE) | {"content": "Edited on the way"}
    folder.path(NOTE).unlink()
    folder.write("memory/renamed.json", json.dumps(text))


def rename_without_id(folder: EditedFolder) -> None:
    folder.path(NOTE).unlink()
    folder.write("memory/notes/mine.json", json.dumps({"content": make_note(1).content, "tags": ["new"]}))


def delete_and_put_back(folder: EditedFolder) -> None:
    text = folder.path(NOTE).read_bytes()
    folder.path(NOTE).unlink()
    folder.sync()
    assert folder.record(1).archived
    folder.write(NOTE, text)


ARCHIVED = {"archived_at": make_time(1), "archive_reason": "old"}
LIVE = {"archived_at": None, "archive_reason": ""}
Act = Callable[[EditedFolder], object]
ACTS: dict[str, tuple[dict[str, Any], Act, list[str], dict[str, Any], str]] = {
    "touched": ({}, lambda folder: folder.touch(NOTE), [], {}, NOTE),
    "moved into the archive": (
        {}, lambda folder: folder.move(NOTE, ARCHIVED_NOTE), ["archived"], {"archived_at": NOW}, ARCHIVED_NOTE,
    ),
    "deleted in the archive": (
        ARCHIVED, lambda folder: folder.path(ARCHIVED_NOTE).unlink(), ["kept"], ARCHIVED, ARCHIVED_NOTE,
    ),
    "archived_at set to null": (
        ARCHIVED, lambda folder: folder.edit(ARCHIVED_NOTE, archived_at=None), ["restored"], LIVE, NOTE,
    ),
    "deleted and put back": ({}, delete_and_put_back, ["restored"], {}, NOTE),
    "moved to another folder": (
        {}, lambda folder: folder.move(NOTE, "memory/ideas/new/000000000001.json"), ["moved"],
        {"category": "ideas/new"}, "memory/ideas/new/000000000001.json",
    ),
    "another category": (
        {}, lambda folder: folder.edit(NOTE, category="ideas"), ["moved"],
        {"category": "ideas"}, "memory/ideas/000000000001.json",
    ),
    "moved and edited": (
        {}, move_and_edit, ["changed"],
        {"content": "Edited on the way", "category": None}, "memory/000000000001.json",
    ),
    "renamed": ({}, lambda folder: folder.move(NOTE, "memory/notes/my favourite.json"), [], {}, NOTE),
    "renamed, without an id": ({}, rename_without_id, ["changed"], {"tags": ("new",)}, NOTE),
    "a pin is taken back": (
        {"pinned": True}, lambda folder: folder.edit(NOTE, pinned=False), ["changed"], {"pinned": False}, NOTE,
    ),
}  # fmt: skip
"""Fields of a record, what a person does to its file, what is imported, fields afterwards, and its place."""


def test_what_a_person_does_to_a_file_is_done_to_its_record(tmp_path: Path) -> None:
    for number, (name, (fields, act, taken, after, place)) in enumerate(ACTS.items()):
        with open_edited_folder(tmp_path / str(number)) as edited_folder:
            edited_folder.add(make_note(1, **fields))
            act(edited_folder)
            assert [each.what for each in edited_folder.sync().taken] == taken, name
            expected = replace(make_note(1, **fields), **after)
            found = edited_folder.record(1)
            assert found == replace(expected, updated_at=found.updated_at), name
            assert edited_folder.files() == [place], name
            edited_folder.assert_settled()


# -- both at once --------------------------------------------------------------------------------------------


def test_what_both_changed_is_live_as_the_person_wrote_it_and_kept_as_the_program_did(
    edited_folder: EditedFolder,
) -> None:
    edited_folder.add(make_note(1))
    edited_folder.edit(build_note_path(1), content="The person's")
    program = make_note(1, content="The program's", tags=("t",))
    edited_folder.change(make_note(1), program)
    edited_folder.sync()
    assert (edited_folder.record(1).content, edited_folder.record(1).tags) == ("The person's", ("t",))
    (conflict,) = edited_folder.importer.conflicts()
    assert conflict.path == "memory/notes/000000000001.conflict.json"
    assert (conflict.of, conflict.id, conflict.fields) == (build_note_path(1), f"{1:012x}", ("content",))
    kept = json.loads(edited_folder.read(conflict.path))
    assert kept.items() >= program.to_dict().items()
    assert edited_folder.path(conflict.path).stat().st_mode & 0o777 == 0o600
    edited_folder.assert_settled()
    edited_folder.path(conflict.path).unlink()
    assert edited_folder.importer.conflicts() == []
    edited_folder.assert_settled()


# -- guards --------------------------------------------------------------------------------------------------


def test_a_lost_folder_is_written_again_and_archives_nothing(
    edited_folder: EditedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    edited_folder.add(*(make_note(number) for number in range(1, 60)))
    shutil.rmtree(edited_folder.path("memory"))
    with caplog.at_level(logging.WARNING, "reverie"):
        edited_folder.sync()
    assert len(edited_folder.files()) == 59
    assert edited_folder.list_hand_edits() == []
    assert caplog.records
    edited_folder.assert_settled()


# -- what cannot be taken in ---------------------------------------------------------------------------------


def test_a_broken_file_is_reported_once_its_last_content_holds_and_it_is_not_overwritten(
    edited_folder: EditedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    edited_folder.add(make_note(1))
    edited_folder.write(build_note_path(1), '{"content": "half')
    with caplog.at_level(logging.WARNING, "reverie"):
        for _ in range(3):
            (problem,) = edited_folder.sync().problems
            assert problem.path == build_note_path(1)
            assert "saved half" in problem.why
    assert caplog.text.count("not taken in") == 1
    assert edited_folder.record(1) == make_note(1)
    assert [each.path for each in edited_folder.importer.problems()] == [build_note_path(1)]
    edited_folder.change(make_note(1), make_note(1, importance=0.9))
    edited_folder.sync()
    assert edited_folder.read(build_note_path(1)) == '{"content": "half'
    edited_folder.write(build_note_path(1), '{"content": "whole"}')
    edited_folder.sync()
    assert (edited_folder.record(1).content, edited_folder.record(1).importance) == ("whole", 0.9)
    assert edited_folder.importer.problems() == []
    edited_folder.assert_settled()


def test_deleting_a_broken_file_brings_back_what_is_in_force(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_note(1))
    edited_folder.write(build_note_path(1), "{")
    edited_folder.sync()
    edited_folder.path(build_note_path(1)).unlink()
    edited_folder.sync()
    assert not edited_folder.record(1).archived
    assert edited_folder.path(build_note_path(1)).read_bytes() == render_record(make_note(1))
    assert edited_folder.importer.problems() == []
    edited_folder.assert_settled()


def test_deleting_an_emptied_file_removes_what_it_said_as_the_problem_advises(
    edited_folder: EditedFolder,
) -> None:
    edited_folder.add(make_note(1), make_note(2), make_page("- likes tea\n"))
    for path, text in ((build_note_path(1), ""), (build_note_path(2), " \n"), ("memory/MEMORY.md", "")):
        edited_folder.write(path, text)
        edited_folder.sync()
        (problem,) = edited_folder.importer.problems()
        assert problem.why.startswith("it is empty: ")
        assert "delete the file" in problem.why
        edited_folder.path(path).unlink()
        edited_folder.sync()
        assert not edited_folder.path(path).exists()
        assert edited_folder.importer.problems() == []
    assert edited_folder.record(1).archived
    assert edited_folder.record(2).archived
    assert edited_folder.store.pages() == []
    edited_folder.assert_settled()


WRONG: list[tuple[str, str | bytes, str]] = [
    ("memory/my.notes/x.json", '{"content": "x"}', "category is 'my.notes'"),
    ("memory/notes/x.json", '{"contents": "x"}', "unknown field 'contents'"),
    ("memory/notes/x.json", '{"content": "x", "tags": "a"}', "'tags' is text"),
    ("memory/notes/x.json", '{"content": ""}', "content is empty"),
    ("memory/notes/x.json", '{"tags": []}', "'content' is missing"),
    ("memory/notes/x.json", "", "it is empty"),
    ("memory/notes/x.json", b"\xff\xfe{\x00", "UTF-16"),
    ("memory/notes/x.json", "<<<<<<< a\n{}\n=======\n{}\n>>>>>>> b\n", "merge-conflict"),
    ("memory/notes/x.json", '{"content": "x", "id": "nonsense"}', "id is 'nonsense'"),
    ("memory/My Notes.md", "text", "name it like"),
    ("memory/episodic/2026-03-01.md", "", "it is empty"),
    ("memory/records/x (1).md", "- x", "category is 'x (1)'"),
    ("sessions/chat.jsonl", '{"role": "user"}', "unknown field 'role'"),
    ("sessions/%zz.jsonl", '{"id": "other"}\n', "not that of the file"),
]


def test_what_is_wrong_is_said_in_words(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_note(1))
    for name, text, why in WRONG:
        edited_folder.write(name, text)
        (problem,) = edited_folder.sync().problems
        assert problem.path == name
        assert why in problem.why
        data = text if isinstance(text, bytes) else text.encode()
        assert edited_folder.path(name).read_bytes() == data
        assert edited_folder.list_hand_edits() == []
        edited_folder.path(name).unlink()
        edited_folder.sync()
        assert edited_folder.importer.problems() == []
    edited_folder.assert_settled()


def test_a_copy_of_a_file_is_reported_and_the_first_stays_in_force(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_note(1))
    shutil.copy(edited_folder.path(build_note_path(1)), edited_folder.path("memory/notes/copy.json"))
    edited_folder.touch("memory/notes/copy.json")
    (problem,) = edited_folder.sync().problems
    assert problem.path == "memory/notes/copy.json"
    assert "'000000000001'" in problem.why
    assert "…" not in edited_folder.importer.problems()[0].why
    edited_folder.path(build_note_path(1)).unlink()  # now the copy is the record
    edited_folder.sync()
    assert not edited_folder.record(1).archived
    assert edited_folder.files() == [build_note_path(1)]
    edited_folder.assert_settled()


def test_links_are_never_followed(edited_folder: EditedFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.json").write_text('{"content": "outside"}')
    edited_folder.add(make_note(1))
    edited_folder.path("memory/notes/link.json").symlink_to(outside / "x.json")
    edited_folder.path("memory/linked").symlink_to(outside)
    os.mkfifo(edited_folder.path("memory/notes/pipe.json"))
    found = {problem.path: problem.why for problem in edited_folder.sync().problems}
    assert set(found) == {"memory/notes/link.json", "memory/linked", "memory/notes/pipe.json"}
    assert "symbolic link" in found["memory/linked"]
    assert edited_folder.list_hand_edits() == []


UNREADABLE = [
    ("memory", 0o000),
    ("memory", 0o300),
    ("memory/notes", 0o000),
    ("memory/notes", 0o400),
    ("memory/episodic", 0o100),
    ("sessions", 0o000),
    (build_note_path(1), 0o000),
    ("memory/MEMORY.md", 0o000),
]


@pytest.mark.parametrize(("path", "mode"), UNREADABLE)
def test_what_may_not_be_read_is_reported_and_never_counts_as_deleted(
    edited_folder: EditedFolder, path: str, mode: int
) -> None:
    records = [make_note(1), make_record(2, layer="episodic", moment=make_time(2))]
    edited_folder.add(*records, make_page("a\n"), make_session(), make_turn(0))
    before = edited_folder.files()
    place = edited_folder.path(path)
    usual = place.stat().st_mode
    if place.is_file():
        edited_folder.touch(path)
    with without_rights_of_root():
        place.chmod(mode)
        try:
            report = edited_folder.importer.take_in()
            assert not report.taken
            assert [problem.path for problem in report.problems] == [path]
            assert report.problems[0].why.endswith("cannot be read (Permission denied)")
            edited_folder.add(make_record(3, category="elsewhere"))
            assert edited_folder.sync().problems
        finally:
            place.chmod(usual)
    edited_folder.sync()
    assert [edited_folder.record(n) for n in (1, 2)] == records
    assert edited_folder.importer.problems() == []
    assert set(before) < set(edited_folder.files())
    edited_folder.assert_settled()


def test_what_editors_leave_beside_is_not_looked_at(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_note(1))
    for name in ("x.json~", ".x.json.swp", "#x.json#", "x.json.tmp", ".hidden.json", "notes.txt"):
        edited_folder.write(f"memory/notes/{name}", '{"content": "left by an editor"}')
    assert not edited_folder.sync()
    assert edited_folder.list_hand_edits() == []


COPIES = [
    "{}-KIMSPC",
    "{} (1)",
    "{} (2)",
    "{} 2",
    "{} - Copy",
    "{} copy",
    "Copy of {}",
    "{}_conf(2)",
    "{}.sync-conflict-20260301-101112-K3XQ2BA",
    "{} (Kim's conflicted copy 2026-03-01)",
    "{} (conflicted copy 2026-03-01 101112)",
    "{}_old",
    "Kopie von {}",
    "{}~HEAD",
    "{} のコピー",
]
"""How programs name the copy of a file that was changed on two machines, and editors a copy."""  # fmt: skip

PAGE = "# Memory\n\n- Kim drinks green tea\n- The gate is locked at nine\n"


def test_copies_that_sync_programs_leave_are_reported_and_not_imported(edited_folder: EditedFolder) -> None:
    history = [make_paragraph(n, f"[2026-03-0{n} 10:00] Kim painted wall {n}.") for n in (1, 2)]
    note = make_paragraph(5, "[10:00] User: Where is Ana? | Assistant: In Porto", "2026-03-02.md")
    event = make_record(2, layer="episodic", moment=make_time(2))
    page = make_page("# 記憶\n\n金さんは緑茶を飲む。門は九時に閉まる。\n", "plans/two.md")
    edited_folder.add(
        make_note(1), event, make_page(PAGE), page, *history, note, make_session(), make_turn(0)
    )
    before, sequence = edited_folder.files(), edited_folder.store.sequence()
    for path in before:
        folder, _, name = path.rpartition("/")
        stem, _, ending = name.rpartition(".")
        text = edited_folder.read(path)
        for number, pattern in enumerate(COPIES):
            version = text.replace("a", "o", 2 * (number % 2))
            copy = f"{folder}/{pattern.format(stem)}.{ending}"
            edited_folder.write(copy, version)
            (problem,) = edited_folder.sync().problems
            assert (problem.path, f"nearly that of {path}," in problem.why) == (copy, True), problem
            assert edited_folder.importer.problems() == [problem]
            assert edited_folder.read(copy) == version
            edited_folder.path(copy).unlink()
    assert edited_folder.store.sequence() == sequence
    edited_folder.assert_settled()


def test_a_page_that_only_extends_a_name_or_replaces_a_page_is_imported(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_page(PAGE), make_page("# Notes\n", "notes.md"))
    own = {
        "MEMORY-KIMSPC.md": "# Memory\n\n- The printer of the office needs black ink\n",
        "MEMORY2.md": "- The gate of the garden is open\n",
        "notes-atlas.md": "# Notes\n\nAtlas is written in Go.\n",
        "other.md": PAGE,
        "projects/MEMORY-2.md": PAGE,
    }
    for name, text in own.items():
        edited_folder.write(f"memory/{name}", text)
    report = edited_folder.sync()
    assert (sorted(each.id for each in report.taken), report.problems) == (sorted(own), [])
    edited_folder.path("memory/MEMORY.md").rename(edited_folder.path("memory/MEMORY-old.md"))
    assert sorted(each.what for each in edited_folder.sync().taken) == ["added", "removed"]
    edited_folder.assert_settled()


# -- looking at some -----------------------------------------------------------------------------------------


# -- after mishaps -------------------------------------------------------------------------------------------


def test_an_edit_that_slipped_in_while_its_file_was_replaced_is_taken_in(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_note(1), make_page("a\nb\n"))
    edited = edited_folder.load_json(build_note_path(1)) | {"content": "Slipped in"}
    edited_folder.slip_in(build_note_path(1), json.dumps(edited))
    edited_folder.slip_in("memory/MEMORY.md", "person\na\nb\n")
    edited_folder.change(make_note(1), make_note(1, importance=0.9, updated_at=make_time(1)))
    edited_folder.change(make_page("a\nb\n"), make_page("a\nb\nprogram\n"))
    edited_folder.sync()
    assert (edited_folder.record(1).content, edited_folder.record(1).importance) == ("Slipped in", 0.9)
    assert edited_folder.read("memory/MEMORY.md") == "person\na\nb\nprogram\n"
    assert edited_folder.files() == ["memory/MEMORY.md", build_note_path(1)]
    edited_folder.assert_settled()


EDITOR = """
import os, sys, time
path = sys.argv[1]
for save, (pieces, pause) in enumerate(((2, 0.3), (6, 0.05))):
    text = open(path, encoding="utf-8").read() + f"- by hand {save}\\n"
    size = len(text) // pieces + 1
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
    for begin in range(0, len(text), size):
        time.sleep(pause)
        os.write(handle, text[begin:begin + size].encode())
    os.close(handle)
    time.sleep(1.3)
"""


def test_an_editor_that_saves_in_pieces_doubles_no_line_and_loses_none(tmp_path: Path) -> None:
    lines = [f"- fact number {number} of the memory" for number in range(30)]
    with Memory.open(tmp_path) as memory:
        memory.pages.write("MEMORY.md", "\n".join(lines) + "\n")
        assert memory.folder is not None
        memory.folder.sync()
        path = tmp_path / "memory" / "MEMORY.md"
        editor = subprocess.Popen([sys.executable, "-c", EDITOR, str(path)])
        while editor.poll() is None:
            memory.folder.refresh()
            found = memory.pages.read("MEMORY.md").splitlines()
            assert len(found) == len(set(found)), "a line is twice in the page"
            assert set(lines) <= set(found), "a line was lost"
            time.sleep(0.01)
        assert editor.returncode == 0
        memory.folder.sync()
        expected = [*lines, "- by hand 0", "- by hand 1"]
        assert memory.pages.read("MEMORY.md").splitlines() == expected
        assert path.read_text().splitlines() == expected
