"""A person edits, adds, moves and deletes files: it comes in, and nothing anybody wrote is lost."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.files.layout import render_record
from reverie.stores.contract.factories import NOW, make_session, make_time, make_turn
from tests.files.desk import CHAT, DAY, Desk, contents, desk_in, file_of, note, page, paragraph


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path / "memory") as opened:
        yield opened


# -- a record's file -----------------------------------------------------------------------------------------


def test_an_edited_record_comes_in_as_a_change_by_the_owners_hand(desk: Desk) -> None:
    desk.add(note(tags=("a",)))
    desk.clock.move(hours=1)
    desk.edit(file_of(1), content="My own words", tags=["a", "b"])
    (taken,) = desk.sync().taken
    assert (taken.what, taken.id, taken.path) == ("changed", f"{1:012x}", file_of(1))
    found = desk.record(1)
    assert (found.content, found.tags) == ("My own words", ("a", "b"))
    assert found.updated_at == desk.clock()
    (row,) = desk.by_hand()
    assert row.reason == f"edited by hand: {file_of(1)}"
    assert desk.rows == [row]
    assert desk.read(file_of(1)) == render_record(found).decode()
    desk.quiet()


def test_fields_left_out_keep_their_values_and_a_file_written_otherwise_is_put_in_our_form(
    desk: Desk,
) -> None:
    desk.add(note(tags=("a",), importance=0.9))
    desk.write(file_of(1), b'\xef\xbb\xbf{"content":\r\n "Just this"}\r\n')
    assert [each.what for each in desk.sync().taken] == ["changed"]
    assert desk.record(1) == replace(note(tags=("a",), importance=0.9), content="Just this", updated_at=NOW)
    assert desk.path(file_of(1)).read_bytes() == render_record(desk.record(1))
    desk.quiet()


def test_a_file_that_was_only_reformatted_is_no_change(desk: Desk) -> None:
    desk.add(note())
    before = desk.store.sequence()
    desk.write(file_of(1), json.dumps(note().to_dict()))
    assert not desk.sync().taken
    assert desk.store.sequence() == before
    assert desk.path(file_of(1)).read_bytes() == render_record(note())
    desk.quiet()


def test_a_file_that_was_only_touched_is_no_change(desk: Desk) -> None:
    desk.add(note())
    desk.later(file_of(1))
    assert not desk.sync()
    desk.quiet()


def test_a_new_file_needs_nothing_but_content(desk: Desk) -> None:
    desk.write("memory/anti-patterns/python/anything.json", '{"content": "Do not use bare except"}')
    (taken,) = desk.sync().taken
    assert taken.what == "added"
    (found,) = desk.store.records([taken.id])
    assert (found.category, found.kind, found.layer) == ("anti-patterns/python", "anti_pattern", "procedural")
    assert (found.created_at, found.origin, found.tags) == (NOW, "owner", ("anti-pattern",))
    assert desk.files() == [f"memory/anti-patterns/python/{taken.id}.json"]
    desk.quiet()


def test_a_new_file_at_the_root_has_no_category_and_may_bring_its_own_id(desk: Desk) -> None:
    desk.write("memory/abcdefabcdef.json", '{"content": "By its name"}')
    desk.write("memory/other.json", '{"content": "By its field", "id": "123456123456", "category": "x/y"}')
    desk.sync()
    assert [r.category for r in desk.store.records(["abcdefabcdef", "123456123456"])] == [None, "x/y"]
    assert desk.files() == ["memory/abcdefabcdef.json", "memory/x/y/123456123456.json"]
    desk.quiet()


def test_a_deleted_file_archives_its_record(desk: Desk) -> None:
    desk.add(note(1), note(2))
    desk.path(file_of(1)).unlink()
    (taken,) = desk.sync().taken
    assert (taken.what, taken.id) == ("archived", f"{1:012x}")
    assert (desk.record(1).archived_at, desk.record(1).archive_reason) == (NOW, "file deleted by hand")
    assert desk.by_hand()[0].reason == f"file deleted by hand: {file_of(1)}"
    assert desk.files() == ["memory/.archive/notes/000000000001.json", file_of(2)]
    desk.quiet()


def test_a_deleted_file_that_is_put_back_restores_its_record(desk: Desk) -> None:
    desk.add(note(1))
    trash = desk.path(file_of(1)).read_bytes()
    desk.path(file_of(1)).unlink()
    desk.sync()
    assert desk.record(1).archived
    desk.write(file_of(1), trash)
    (taken,) = desk.sync().taken
    assert taken.what == "restored"
    assert desk.record(1) == note(1)
    assert desk.files() == [file_of(1)]
    desk.quiet()


def test_the_file_of_an_archived_record_can_be_edited_and_moved_back(desk: Desk) -> None:
    desk.add(note(1))
    desk.path(file_of(1)).unlink()
    desk.sync()
    archived = "memory/.archive/notes/000000000001.json"
    desk.edit(archived, content="Said better")
    desk.sync()
    assert desk.record(1).archived
    assert desk.record(1).content == "Said better"
    desk.path("memory/notes").mkdir(exist_ok=True)
    desk.path(archived).rename(desk.path(file_of(1)))
    (taken,) = desk.sync().taken
    assert taken.what == "restored"
    assert (desk.record(1).archived, desk.record(1).archive_reason) == (False, "")
    assert desk.record(1).content == "Said better"
    assert desk.files() == [file_of(1)]
    desk.quiet()


def test_a_file_moved_into_the_archive_archives(desk: Desk) -> None:
    desk.add(note(1))
    desk.path("memory/.archive/notes").mkdir(parents=True)
    desk.path(file_of(1)).rename(desk.path("memory/.archive/notes/000000000001.json"))
    assert [each.what for each in desk.sync().taken] == ["archived"]
    assert desk.record(1).archived
    desk.quiet()


def test_deleting_the_file_of_an_archived_record_loses_nothing(desk: Desk) -> None:
    desk.add(note(1, archived_at=make_time(1), archive_reason="old"))
    desk.path("memory/.archive/notes/000000000001.json").unlink()
    (taken,) = desk.sync().taken
    assert taken.what == "kept"
    assert desk.record(1).archived
    assert desk.files() == ["memory/.archive/notes/000000000001.json"]
    desk.quiet()


def test_archived_at_null_restores_too(desk: Desk) -> None:
    desk.add(note(1, archived_at=make_time(1), archive_reason="old"))
    desk.edit("memory/.archive/notes/000000000001.json", archived_at=None)
    assert [each.what for each in desk.sync().taken] == ["restored"]
    assert (desk.record(1).archived, desk.record(1).archive_reason) == (False, "")
    assert desk.files() == [file_of(1)]
    desk.quiet()


def test_a_file_moved_to_another_folder_changes_the_category(desk: Desk) -> None:
    desk.add(note(1))
    desk.path("memory/ideas/new").mkdir(parents=True)
    desk.path(file_of(1)).rename(desk.path("memory/ideas/new/000000000001.json"))
    (taken,) = desk.sync().taken
    assert (taken.what, taken.id) == ("moved", f"{1:012x}")
    assert desk.record(1).category == "ideas/new"
    assert desk.files() == ["memory/ideas/new/000000000001.json"]
    desk.quiet()


def test_a_moved_and_edited_file_is_still_the_same_record(desk: Desk) -> None:
    desk.add(note(1))
    text = desk.json(file_of(1)) | {"content": "Edited on the way"}
    desk.path(file_of(1)).unlink()
    desk.write("memory/renamed.json", json.dumps(text))
    assert [each.what for each in desk.sync().taken] == ["changed"]
    found = desk.record(1)
    assert (found.content, found.category, found.archived) == ("Edited on the way", None, False)
    assert desk.files() == ["memory/000000000001.json"]
    desk.quiet()


def test_a_renamed_file_gets_its_name_again(desk: Desk) -> None:
    desk.add(note(1))
    desk.path(file_of(1)).rename(desk.path("memory/notes/my favourite.json"))
    assert not desk.sync().taken
    assert desk.record(1) == note(1)
    assert desk.files() == [file_of(1)]
    desk.quiet()


def test_a_renamed_file_without_an_id_is_known_by_what_it_says(desk: Desk) -> None:
    desk.add(note(1))
    desk.path(file_of(1)).unlink()
    desk.write("memory/notes/mine.json", json.dumps({"content": note(1).content, "tags": ["new"]}))
    desk.sync()
    assert (desk.record(1).tags, desk.record(1).archived) == (("new",), False)
    assert desk.files() == [file_of(1)]
    desk.quiet()


def test_the_category_field_moves_the_file(desk: Desk) -> None:
    desk.add(note(1))
    desk.edit(file_of(1), category="ideas")
    desk.sync()
    assert desk.record(1).category == "ideas"
    assert desk.files() == ["memory/ideas/000000000001.json"]
    desk.quiet()


def test_a_pin_can_be_taken_back_by_hand(desk: Desk) -> None:
    """The file then says exactly what it said before the pin, and is not taken for an old one."""
    desk.add(note(1))
    desk.change(note(1), note(1, pinned=True))
    desk.edit(file_of(1), pinned=False)
    desk.sync()
    assert not desk.record(1).pinned
    desk.quiet()


# -- both at once --------------------------------------------------------------------------------------------


def test_changes_of_different_fields_merge_silently(desk: Desk) -> None:
    desk.add(note(1))
    desk.edit(file_of(1), content="The person's")
    desk.change(note(1), note(1, importance=0.9, seen_count=2, last_seen_at=make_time(60)))
    assert [each.what for each in desk.sync().taken] == ["changed"]
    found = desk.record(1)
    assert (found.content, found.importance, found.seen_count) == ("The person's", 0.9, 2)
    assert desk.hands.conflicts() == []
    desk.quiet()


def test_what_both_changed_is_live_as_the_person_wrote_it_and_kept_as_the_program_did(desk: Desk) -> None:
    desk.add(note(1))
    desk.edit(file_of(1), content="The person's")
    program = note(1, content="The program's", tags=("t",))
    desk.change(note(1), program)
    desk.sync()
    assert (desk.record(1).content, desk.record(1).tags) == ("The person's", ("t",))
    (conflict,) = desk.hands.conflicts()
    assert conflict.path == "memory/notes/000000000001.conflict.json"
    assert (conflict.of, conflict.id, conflict.fields) == (file_of(1), f"{1:012x}", ("content",))
    assert desk.path(conflict.path).read_bytes() == render_record(program)
    assert desk.path(conflict.path).stat().st_mode & 0o777 == 0o600
    desk.quiet()
    desk.path(conflict.path).unlink()
    assert desk.hands.conflicts() == []
    desk.quiet()


def test_a_second_conflict_does_not_overwrite_the_first(desk: Desk) -> None:
    desk.add(note(1))
    for number in (1, 2):
        desk.edit(file_of(1), content=f"The person's {number}")
        now = desk.record(1)
        desk.change(now, replace(now, content=f"The program's {number}"))
        desk.sync()
    paths = [conflict.path for conflict in desk.hands.conflicts()]
    assert [desk.json(path)["content"] for path in sorted(paths, key=len)] == [
        "The program's 1",
        "The program's 2",
    ]


def test_conflicts_are_found_again_when_the_state_of_the_files_was_lost(desk: Desk) -> None:
    desk.add(note(1))
    desk.edit(file_of(1), content="The person's")
    desk.change(note(1), note(1, content="The program's"))
    desk.sync()
    desk.state.close()
    for path in desk.root.glob("files.db*"):
        path.unlink()
    with desk_in(desk.root) as again:
        again.mirror.write()
        again.sync()
        assert [conflict.path for conflict in again.hands.conflicts()] == [
            "memory/notes/000000000001.conflict.json"
        ]


def test_a_record_archived_by_the_program_while_a_person_edits_it_is_live_with_a_conflict(desk: Desk) -> None:
    desk.add(note(1))
    desk.edit(file_of(1), content="Still of use")
    desk.change(note(1), note(1, archived_at=make_time(5), archive_reason="merged"))
    desk.sync()
    assert (desk.record(1).content, desk.record(1).archived) == ("Still of use", False)
    assert [conflict.fields for conflict in desk.hands.conflicts()] == [("archived_at",)]
    assert file_of(1) in desk.files()
    desk.quiet()


def test_a_record_moved_by_the_program_while_a_person_edits_it_has_both(desk: Desk) -> None:
    desk.add(note(1))
    desk.edit(file_of(1), content="Edited at the old place")
    desk.change(note(1), note(1, category="ideas", updated_at=make_time(5)))
    desk.sync()
    assert (desk.record(1).content, desk.record(1).category) == ("Edited at the old place", "ideas")
    assert desk.files() == ["memory/ideas/000000000001.json"]
    desk.quiet()


def test_an_old_version_on_disk_is_stale_and_not_an_edit(desk: Desk) -> None:
    desk.add(note(1))
    old = desk.path(file_of(1)).read_bytes()
    desk.change(note(1), note(1, content="Newer", updated_at=make_time(5)))
    desk.write(file_of(1), old)
    before = desk.store.sequence()
    assert not desk.sync().taken
    assert desk.store.sequence() == before
    assert desk.json(file_of(1))["content"] == "Newer"
    desk.quiet()


def test_the_edit_of_a_file_whose_state_was_lost_starts_from_the_version_most_like_it(desk: Desk) -> None:
    desk.add(note(1))
    desk.edit(file_of(1), content="Edited")
    desk.change(note(1), note(1, importance=0.9))
    desk.state.close()
    for path in desk.root.glob("files.db*"):
        path.unlink()
    with desk_in(desk.root) as again:
        again.mirror.write()
        again.sync()
        found = again.record(1)
        assert (found.content, found.importance) == ("Edited", 0.9)
        again.quiet()


# -- an editor that had the file open before the program wrote to it -----------------------------------------


def test_what_the_program_changed_while_a_record_was_open_stays(desk: Desk) -> None:
    desk.add(note(1))
    open_in_editor = desk.json(file_of(1))
    desk.change(note(1), note(1, source="s2", updated_at=make_time(5)))
    desk.write(file_of(1), json.dumps(open_in_editor | {"tags": ["by hand"]}))
    desk.sync()
    assert (desk.record(1).source, desk.record(1).tags) == ("s2", ("by hand",))
    assert desk.hands.conflicts() == []
    desk.quiet()


def test_an_editor_that_stays_open_saves_again_and_again(desk: Desk) -> None:
    """Each time what it began with is older, and what the program did meanwhile stays."""
    desk.add(note(1, tags=("a",), metadata={"k": "v"}), page("- one\n"))
    buffer, text = desk.json(file_of(1)), desk.read("memory/MEMORY.md")
    for number in range(1, 4):
        desk.clock.move(minutes=1)
        now, there = desk.record(1), desk.store.pages()[0]
        after = replace(
            now,
            importance=number / 10,
            tags=(*now.tags, f"program {number}"),
            metadata={**now.metadata, f"program {number}": "yes"},
            updated_at=desk.clock(),
        )
        desk.change(now, after)
        desk.change(there, replace(there, content=f"{there.content}- by the program: {number}\n"))
        buffer |= {"content": f"Person {number}", "tags": [*buffer["tags"], f"person {number}"]}
        text += f"- what a person wrote, part {number}\n"
        desk.write(file_of(1), json.dumps(buffer))
        desk.write("memory/MEMORY.md", text)
        desk.sync()
    found = desk.record(1)
    assert (found.content, found.importance) == ("Person 3", 0.3)
    assert set(found.tags) == {"a", *(f"{who} {n}" for who in ("program", "person") for n in (1, 2, 3))}
    assert set(found.metadata) == {"k", "program 1", "program 2", "program 3"}
    lines = desk.read("memory/MEMORY.md").split("\n")
    assert sorted(lines) == sorted(
        ["", "- one"]
        + [f"- by the program: {n}" for n in (1, 2, 3)]
        + [f"- what a person wrote, part {n}" for n in (1, 2, 3)]
    )
    assert desk.hands.conflicts() == []
    desk.quiet()


# -- guards --------------------------------------------------------------------------------------------------


def test_a_lost_folder_is_written_again_and_archives_nothing(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.add(*(note(number) for number in range(1, 60)))
    shutil.rmtree(desk.path("memory"))
    with caplog.at_level(logging.WARNING, "reverie"):
        desk.sync()
    assert len(desk.files()) == 59
    assert desk.by_hand() == []
    assert caplog.records
    desk.quiet()


def test_the_folder_lost_while_only_hand_edits_look_is_no_deletion_either(desk: Desk) -> None:
    desk.add(*(note(number) for number in range(1, 5)))
    shutil.rmtree(desk.path("memory"))
    assert desk.hands.take_in().lost
    desk.mirror.write()
    assert len(desk.files()) == 4
    assert desk.by_hand() == []
    desk.quiet()


def test_many_files_gone_at_once_are_taken_for_lost(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.add(*(note(number) for number in range(1, 51)))
    for number in range(1, 31):
        desk.path(file_of(number)).unlink()
    with caplog.at_level(logging.WARNING, "reverie"):
        taken = desk.sync()
    assert taken.lost
    assert taken.taken == []
    assert "30 files" in caplog.text
    assert len(desk.files()) == 50
    assert desk.by_hand() == []
    desk.quiet()


def test_a_few_files_gone_are_deleted_even_if_they_are_most(desk: Desk) -> None:
    desk.add(*(note(number) for number in range(1, 21)))
    for number in range(1, 21):
        desk.path(file_of(number)).unlink()
    assert len(desk.sync().taken) == 20
    assert all(desk.record(number).archived for number in range(1, 21))
    desk.quiet()


def test_many_files_moved_at_once_are_not_lost(desk: Desk) -> None:
    desk.add(*(note(number) for number in range(1, 41)))
    desk.path("memory/notes").rename(desk.path("memory/ideas"))
    taken = desk.sync()
    assert not taken.lost
    assert {each.what for each in taken.taken} == {"moved"}
    assert all(desk.record(number).category == "ideas" for number in range(1, 41))
    desk.quiet()


# -- what cannot be taken in ---------------------------------------------------------------------------------


def test_a_broken_file_is_reported_once_its_last_content_holds_and_it_is_not_overwritten(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.add(note(1))
    desk.write(file_of(1), '{"content": "half')
    with caplog.at_level(logging.WARNING, "reverie"):
        for _ in range(3):
            (problem,) = desk.sync().problems
            assert problem.path == file_of(1)
            assert "saved half" in problem.why
    assert caplog.text.count("not taken in") == 1
    assert desk.record(1) == note(1)
    assert [each.path for each in desk.hands.problems()] == [file_of(1)]
    desk.change(note(1), note(1, importance=0.9))
    desk.sync()
    assert desk.read(file_of(1)) == '{"content": "half'
    desk.write(file_of(1), '{"content": "whole"}')
    desk.sync()
    assert (desk.record(1).content, desk.record(1).importance) == ("whole", 0.9)
    assert desk.hands.problems() == []
    desk.quiet()


def test_another_broken_version_is_reported_again(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.add(note(1))
    with caplog.at_level(logging.WARNING, "reverie"):
        for text in ("{", "[]"):
            desk.write(file_of(1), text)
            desk.sync()
    assert caplog.text.count("not taken in") == 2


def test_deleting_a_broken_file_brings_back_what_is_in_force(desk: Desk) -> None:
    desk.add(note(1))
    desk.write(file_of(1), "{")
    desk.sync()
    desk.path(file_of(1)).unlink()
    desk.sync()
    assert not desk.record(1).archived
    assert desk.path(file_of(1)).read_bytes() == render_record(note(1))
    assert desk.hands.problems() == []
    desk.quiet()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("memory/my notes/x.json", '{"content": "x"}', "category is 'my notes'"),
        ("memory/notes/x.json", '{"contents": "x"}', "unknown field 'contents'"),
        ("memory/notes/x.json", '{"content": "x", "tags": "a"}', "'tags' is text"),
        ("memory/notes/x.json", '{"content": ""}', "content is empty"),
        ("memory/notes/x.json", '{"tags": []}', "'content' is missing"),
        ("memory/notes/x.json", "", "it is empty"),
        ("memory/notes/x.json", b"\xff\xfe{\x00", "UTF-16"),
        ("memory/notes/x.json", "<<<<<<< a\n{}\n=======\n{}\n>>>>>>> b\n", "merge-conflict"),
        ("memory/notes/x.json", '{"content": "x", "id": "nonsense"}', "id is 'nonsense'"),
        ("memory/My Notes.md", "text", "name it like"),
        ("memory/episodic/2026-03-01.jsonl", '{"content": "x"', "line 1, column 16"),
        ("sessions/chat.jsonl", '{"role": "user"}', "unknown field 'role'"),
        ("sessions/%zz.jsonl", '{"id": "other"}\n', "not that of the file"),
    ],
)
def test_what_is_wrong_is_said_in_words(desk: Desk, name: str, text: str | bytes, why: str) -> None:
    desk.add(note(1))
    desk.write(name, text)
    (problem,) = desk.sync().problems
    assert problem.path == name
    assert why in problem.why
    data = text if isinstance(text, bytes) else text.encode()
    assert desk.path(name).read_bytes() == data
    assert desk.by_hand() == []
    desk.path(name).unlink()
    desk.sync()
    assert desk.hands.problems() == []
    desk.quiet()


def test_a_copy_of_a_file_is_reported_and_the_first_stays_in_force(desk: Desk) -> None:
    desk.add(note(1))
    shutil.copy(desk.path(file_of(1)), desk.path("memory/notes/copy.json"))
    desk.later("memory/notes/copy.json")
    (problem,) = desk.sync().problems
    assert problem.path == "memory/notes/copy.json"
    assert file_of(1) in problem.why
    desk.path(file_of(1)).unlink()  # now the copy is the record
    desk.sync()
    assert not desk.record(1).archived
    assert desk.files() == [file_of(1)]
    desk.quiet()


def test_the_content_of_another_record_pasted_into_a_file_is_refused(desk: Desk) -> None:
    desk.add(note(1), note(2))
    desk.write(file_of(1), desk.read(file_of(2)))
    (problem,) = desk.sync().problems
    assert "it is the file of '000000000001'" in problem.why
    assert (desk.record(1), desk.record(2)) == (note(1), note(2))


def test_a_record_that_would_say_the_same_as_another_is_reported(desk: Desk) -> None:
    desk.add(note(1), note(2))
    desk.edit(file_of(1), content=note(2).content)
    desk.write("memory/notes/new.json", json.dumps({"content": note(2).content.upper()}))
    assert sorted(problem.path for problem in desk.sync().problems) == [file_of(1), "memory/notes/new.json"]
    assert (desk.record(1), desk.record(2)) == (note(1), note(2))
    desk.change(note(2), note(2, content="Something else now"))
    desk.sync()
    assert desk.record(1).content == note(2).content
    assert [problem.path for problem in desk.hands.problems()] == ["memory/notes/new.json"]


def test_links_are_never_followed(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.json").write_text('{"content": "outside"}')
    desk.add(note(1))
    desk.path("memory/notes/link.json").symlink_to(outside / "x.json")
    desk.path("memory/linked").symlink_to(outside)
    os.mkfifo(desk.path("memory/notes/pipe.json"))
    found = {problem.path: problem.why for problem in desk.sync().problems}
    assert set(found) == {"memory/notes/link.json", "memory/linked", "memory/notes/pipe.json"}
    assert "symbolic link" in found["memory/linked"]
    assert desk.by_hand() == []


def test_a_file_turned_into_a_link_archives_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.add(note(1))
    (tmp_path / "elsewhere.json").write_bytes(desk.path(file_of(1)).read_bytes())
    desk.path(file_of(1)).unlink()
    desk.path(file_of(1)).symlink_to(tmp_path / "elsewhere.json")
    assert [problem.path for problem in desk.sync().problems] == [file_of(1)]
    assert not desk.record(1).archived


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_archives_nothing(desk: Desk) -> None:
    desk.add(note(1))
    desk.path("memory/notes").chmod(0)
    try:
        assert [problem.path for problem in desk.sync().problems] == ["memory/notes"]
        assert not desk.record(1).archived
    finally:
        desk.path("memory/notes").chmod(0o700)


def test_what_editors_leave_beside_is_not_looked_at(desk: Desk) -> None:
    desk.add(note(1))
    for name in ("x.json~", ".x.json.swp", "#x.json#", "x.json.tmp", ".hidden.json", "notes.txt"):
        desk.write(f"memory/notes/{name}", '{"content": "left by an editor"}')
    assert not desk.sync()
    assert desk.by_hand() == []


# -- looking at some -----------------------------------------------------------------------------------------


def test_a_look_at_some_files_takes_in_those_and_no_others(desk: Desk) -> None:
    desk.add(note(1), note(2), page("a\n"))
    desk.edit(file_of(1), content="One")
    desk.edit(file_of(2), content="Two")
    desk.write("memory/MEMORY.md", "b\n")
    desk.hands.take_in(["memory/MEMORY.md", file_of(1)])
    assert (desk.record(1).content, desk.record(2).content) == ("One", note(2).content)
    desk.hands.take_in(["memory/notes"])
    assert desk.record(2).content == "Two"
    desk.mirror.write()
    desk.quiet()


def test_a_file_moved_away_from_where_one_looks_is_not_taken_for_deleted(desk: Desk) -> None:
    desk.add(note(1))
    desk.path("memory/ideas").mkdir()
    desk.path(file_of(1)).rename(desk.path("memory/ideas/000000000001.json"))
    desk.hands.take_in(["memory/notes"])
    assert (desk.record(1).archived, desk.record(1).category) == (False, "ideas")


def test_what_nobody_changed_needs_no_lock(desk: Desk) -> None:
    desk.add(note(1), page("a\n"))
    desk.write("memory/notes/broken.json", "{")
    desk.sync()
    with desk_in(desk.root) as other, other.state.lock():
        assert [problem.path for problem in desk.hands.take_in().problems] == ["memory/notes/broken.json"]


# -- after mishaps -------------------------------------------------------------------------------------------


def test_an_edit_taken_in_by_a_process_that_was_killed_is_not_taken_in_twice(desk: Desk) -> None:
    desk.add(note(1), page("a\n"), paragraph(1, "One."), make_session(), make_turn(0))
    desk.edit(file_of(1), content="Edited")
    desk.write("memory/notes/new.json", '{"content": "New"}')
    desk.write("memory/MEMORY.md", "a\nmine\n")
    desk.write("memory/HISTORY.md", "One.\n\nTwo.\n")
    desk.write(DAY, '{"content": "It rained"}\n')
    desk.write(CHAT, desk.read(CHAT) + '{"role": "user", "content": "More"}\n')

    class Killed(BaseException):
        pass

    def take_in_and_be_killed() -> None:
        with desk.state.lock():
            assert len(desk.hands.take_in().taken) == 6
            raise Killed  # what was committed is in the store, and the state does not know of it

    with pytest.raises(Killed):
        take_in_and_be_killed()
    before = desk.store.sequence()
    taken = desk.sync()
    assert taken.taken == []
    assert taken.problems == []
    assert desk.store.sequence() == before
    assert contents(desk) == ["One.", "Two."]
    assert len(desk.store.turns(session="chat:1")) == 2
    desk.quiet()


def test_an_edit_that_slipped_in_while_its_file_was_replaced_is_taken_in(desk: Desk) -> None:
    desk.add(note(1), page("a\nb\n"))
    edited = desk.json(file_of(1)) | {"content": "Slipped in"}
    desk.change(note(1), note(1, importance=0.9, updated_at=make_time(1)))
    desk.change(page("a\nb\n"), page("a\nb\nprogram\n"))
    desk.write(f"{file_of(1)}.recovered-1", json.dumps(edited))
    desk.write("memory/MEMORY.md.recovered-1", "person\na\nb\n")
    desk.sync()
    assert (desk.record(1).content, desk.record(1).importance) == ("Slipped in", 0.9)
    assert desk.read("memory/MEMORY.md") == "person\na\nb\nprogram\n"
    assert desk.files() == ["memory/MEMORY.md", file_of(1)]
    desk.quiet()


def test_two_who_take_in_the_same_edit_take_it_in_once(desk: Desk) -> None:
    desk.add(note(1), paragraph(1, "One."))
    desk.write("memory/HISTORY.md", "One.\n\nTwo.\n")
    desk.write("memory/notes/new.json", '{"content": "New"}')
    with desk_in(desk.root) as other:
        assert len(desk.hands.take_in().taken) == 2
        assert other.hands.take_in().taken == []
        other.mirror.write()
    assert len(desk.by_hand()) == 2
    desk.quiet()
