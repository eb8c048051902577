"""Pages of records that a person edits: line by line, between pages, and while the program goes on."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reverie.domain.change import Change
from reverie.domain.filter import Filter
from reverie.domain.record import Record
from reverie.files import layout
from reverie.files.scan import HandEditReport
from tests.files.folder_fixture import DAY, EditedFolder, make_paragraph, open_edited_folder
from tests.support.contract import factories
from tests.support.contract.factories import NOW

NOTES = "memory/records/notes.md"
ARCHIVE = "memory/.archive/notes.md"


def make_record(number: int, **fields: Any) -> Record:
    return factories.make_record(number, **({"content": f"record {number}"} | fields))


def make_note(number: int, **fields: Any) -> Record:
    return make_record(number, **({"category": "notes"} | fields))


def list_rows(folder: EditedFolder, path: str = NOTES) -> list[str]:
    """Return the lines of a page that have text."""
    return [row for row in folder.read(path).split("\n") if row.startswith("- ")]


def edit_text(folder: EditedFolder, old: str, new: str, path: str = NOTES) -> HandEditReport:
    """Replace a piece of a page, as a person does."""
    text = folder.read(path)
    assert old in text
    folder.write(path, text.replace(old, new))
    folder.clock.move(seconds=1)
    return folder.sync()


def show(folder: EditedFolder) -> dict[str, str]:
    """Return the page of every text in the files."""
    rows = {path: list_rows(folder, path) for path in folder.files() if path.endswith(".md")}
    return {re.sub(r"^- | <!--.*", "", row): path for path, found in rows.items() for row in found}


def test_text_tags_and_pin_of_a_line_are_edited(folder: EditedFolder) -> None:
    note = make_note(1, content="Ana drinks tea", tags=("drinks", "two words"), importance=0.9, seen_count=3)
    folder.add(note, make_note(2))
    report = edit_text(folder, "Ana drinks tea #drinks", "Ana drinks green tea #tea #home/kitchen 📌")
    assert [(edit.what, edit.id) for edit in report.taken] == [("changed", note.id)]
    found = folder.record(1)
    assert (found.content, found.tags, found.pinned) == (
        "Ana drinks green tea",
        ("two words", "tea", "home/kitchen"),
        True,
    )
    assert (found.importance, found.seen_count, found.updated_at) == (0.9, 3, folder.clock())
    assert folder.record(2) == make_note(2)
    edit_text(folder, " 📌", "")
    assert not folder.record(1).pinned
    folder.assert_settled()


def test_a_new_line_is_a_record_of_the_category(folder: EditedFolder) -> None:
    folder.add(make_note(1, category="Notes"))
    folder.write(NOTES, folder.read(NOTES) + "\n## Later\n\n* By hand #new\nWithout a bullet\n---\n")
    report = folder.sync()
    assert [edit.what for edit in report.taken] == ["added", "added"]
    first, second = folder.store.records([edit.id for edit in report.taken])
    assert (first.content, first.tags, first.category, first.origin) == (
        "By hand",
        ("new",),
        "Notes",
        "owner",
    )
    assert second.content == "Without a bullet"
    assert [row.partition(" <")[0] for row in list_rows(folder)] == [
        "- record 1",
        "- By hand #new",
        "- Without a bullet",
    ]
    folder.assert_settled()


def test_a_new_page_makes_records_of_a_new_category_and_its_properties_are_none(folder: EditedFolder) -> None:
    folder.write(
        "memory/records/études/日本語.md", "---\ntags: [x]\n---\n# Title\n- 緑茶を飲む\r\n- Deux\r\n"
    )
    folder.write("memory/records/(unfiled).md", "- Filed nowhere\n")
    folder.write("memory/episodic/2026-02-07.md", "- It snowed\n")
    folder.sync()
    found = {record.content: record for record in folder.store.find(Filter())}
    assert {text: record.category for text, record in found.items()} == {
        "緑茶を飲む": "études/日本語",
        "Deux": "études/日本語",
        "Filed nowhere": None,
        "It snowed": None,
    }
    snow = found["It snowed"]
    assert (snow.kind, snow.layer) == ("event", "episodic")
    assert snow.created_at.isoformat() == "2026-02-07T12:00:00+00:00"
    folder.assert_settled()


def test_a_line_on_another_page_keeps_its_id_and_changes_its_category(folder: EditedFolder) -> None:
    event = make_record(4, layer="episodic", kind="event")
    folder.add(*(make_note(n, scope="user:ann", seen_count=n) for n in (1, 2, 3)), event)
    first, second, third = list_rows(folder)
    folder.write(NOTES, f"{second}\n")
    folder.write("memory/records/plans/Trip.md", f"{first.replace('record 1', 'Said better')}\n")
    folder.write(DAY, "\n".join([*list_rows(folder, DAY), third, ""]))
    report = folder.sync()
    assert sorted((edit.what, edit.id[-1]) for edit in report.taken) == [("changed", "1"), ("changed", "3")]
    assert replace(folder.record(1), updated_at=NOW) == replace(
        make_note(1, scope="user:ann"), category="plans/Trip", content="Said better", updated_at=NOW
    )
    assert (folder.record(3).layer, folder.record(3).category) == ("episodic", "notes")
    assert show(folder) == {
        "record 2": NOTES,
        "Said better": "memory/records/plans/trip.md",
        "record 4": DAY,
        "record 3": DAY,
    }
    folder.write(NOTES, "\n".join([*list_rows(folder), *list_rows(folder, DAY), ""]))
    folder.write(DAY, "")
    folder.path(DAY).unlink()
    folder.sync()
    assert (folder.record(4).layer, folder.record(4).category) == ("semantic", "notes")
    assert folder.record(3).layer == "semantic"
    folder.assert_settled()


def test_a_page_that_is_renamed_gives_its_records_the_new_category(folder: EditedFolder) -> None:
    folder.add(*(make_note(n) for n in range(1, 40)))
    folder.move(NOTES, "memory/records/ideas/new.md")
    assert {edit.what for edit in folder.sync().taken} == {"moved"}
    assert {record.category for record in folder.store.find(Filter(archived=False))} == {"ideas/new"}
    assert folder.files() == ["memory/records/ideas/new.md"]
    folder.assert_settled()


def test_a_line_that_is_gone_archives_its_record_and_putting_it_back_restores_it(
    folder: EditedFolder,
) -> None:
    folder.add(*(make_note(n) for n in (1, 2, 3)))
    before = folder.read(NOTES)
    first, second, third = list_rows(folder)
    assert [edit.what for edit in edit_text(folder, f"{second}\n", "").taken] == ["archived"]
    assert (folder.record(2).archived, folder.record(2).archive_reason) == (True, "file deleted by hand")
    assert list_rows(folder, ARCHIVE)[0].startswith("- record 2 <")
    folder.write(NOTES, before)
    assert [edit.what for edit in folder.sync().taken] == ["restored"]
    assert replace(folder.record(2), updated_at=NOW) == replace(make_note(2), updated_at=NOW)
    assert not folder.path(ARCHIVE).exists()
    folder.write(NOTES, f"{first}\n{third}\n")
    folder.write(ARCHIVE, f"{second}\n")
    folder.sync()
    assert folder.record(2).archived
    folder.write(NOTES, f"{first}\n{third}\n{list_rows(folder, ARCHIVE)[0]}\n")
    folder.path(ARCHIVE).unlink()
    folder.sync()
    assert not folder.record(2).archived
    folder.assert_settled()


def test_lines_that_vanish_in_masses_wait_for_review(folder: EditedFolder) -> None:
    folder.add(*(make_note(n) for n in range(1, 61)))
    rows = list_rows(folder)
    folder.write(NOTES, "\n".join([*rows[:10], "- By hand", ""]))
    assert sorted(edit.what for edit in folder.sync().taken) == ["added", "held"]
    assert not any(record.archived for record in folder.store.find(Filter(archived=None)))
    assert len(list_rows(folder)) == 61
    folder.path(NOTES).unlink()
    report = folder.sync()
    assert (report.lost, report.taken) == (True, [])
    assert len(list_rows(folder)) == 61
    folder.assert_settled()


def test_a_copied_line_is_no_second_record(folder: EditedFolder) -> None:
    folder.add(make_note(1), make_note(2))
    first, second = list_rows(folder)
    folder.write("memory/records/other.md", f"{first}\n- Mine\n")
    assert [edit.what for edit in folder.sync().taken] == ["added"]
    assert [row.partition(" <")[0] for row in list_rows(folder, "memory/records/other.md")] == ["- Mine"]
    text = folder.read("memory/records/other.md") + second.replace("record 2", "Otherwise") + "\n"
    folder.write("memory/records/other.md", text)
    (problem,) = folder.sync().problems
    assert f"line 4: the record '{2:012x}' is in {NOTES}: take its id out" in problem.why
    assert folder.read("memory/records/other.md") == text
    folder.write("memory/records/other.md", re.sub("Otherwise <.*>", "Otherwise", text))
    assert [edit.what for edit in folder.sync().taken] == ["added"]
    folder.write(
        NOTES, f"{first}\n{first.replace('record 1', 'A variant')}\n{second}\n{second}\n- record 1\n"
    )
    assert [edit.what for edit in folder.sync().taken] == ["added"]
    assert len(list_rows(folder)) == 3
    folder.assert_settled()


def test_a_known_text_with_a_new_tag_gives_its_record_the_tag(folder: EditedFolder) -> None:
    folder.add(make_note(1, tags=("a",)))
    folder.write("memory/records/other.md", "- Record 1. #b 📌\n- Record 1. #c\n- New #x\n- New #y\n")
    assert sorted(edit.what for edit in folder.sync().taken) == ["added", "changed"]
    assert (folder.record(1).tags, folder.record(1).pinned) == (("a", "b", "c"), True)
    assert "- New #x #y <!--" in folder.read("memory/records/other.md")
    folder.assert_settled()


def test_a_line_that_the_program_archives_while_its_page_is_in_an_editor_stays_archived(
    folder: EditedFolder,
) -> None:
    folder.add(make_note(1), make_note(2))
    before = folder.read(NOTES)
    folder.change(make_note(1), replace(make_note(1), archived_at=NOW, archive_reason="merged"))
    folder.write(NOTES, before.replace("record 2", "Edited"))
    assert [edit.what for edit in folder.sync().taken] == ["changed"]
    assert folder.record(1).archived
    assert len(list_rows(folder)) == 1
    folder.assert_settled()


def test_a_line_that_lost_its_comment_is_still_that_record(folder: EditedFolder) -> None:
    folder.add(make_note(1), make_note(2))
    folder.write(NOTES, re.sub("record 1 <.*>", "Record 1.", folder.read(NOTES)))
    assert folder.sync().taken == []
    assert folder.record(1) == make_note(1)
    assert len(list_rows(folder)) == 2
    folder.assert_settled()


def test_changes_of_both_sides_meet_and_where_they_collide_the_persons_is_live(folder: EditedFolder) -> None:
    notes = [make_note(n, content=f"Note {n} stands in hall {n}", tags=("a",)) for n in (1, 2, 3)]
    folder.add(*notes)
    text = (
        folder.read(NOTES)
        .replace("hall 1", "hall 8")
        .replace("Note 2", "The note 2")
        .replace(" #a", " #b", 1)
    )
    folder.write(NOTES, text)
    folder.change(notes[0], replace(notes[0], content="Note 1 stands in room 1", seen_count=7))
    folder.change(notes[2], replace(notes[2], archived_at=NOW))
    folder.add(make_note(4, content="Added meanwhile"))
    folder.clock.move(seconds=1)
    folder.sync()
    first = folder.record(1)
    assert (first.content, first.tags, first.seen_count) == ("Note 1 stands in hall 8", ("b",), 7)
    assert folder.record(2).content == "The note 2 stands in hall 2"
    assert (folder.record(3).archived, folder.record(4).archived) == (True, False)
    (conflict,) = folder.importer.conflicts()
    assert (conflict.of, conflict.id, conflict.fields) == (NOTES, first.id, ("content",))
    assert "room 1" in folder.read(conflict.path)
    assert len(list_rows(folder)) == 3
    folder.path(conflict.path).unlink()
    folder.assert_settled()


def test_an_editor_that_saves_in_two_halves_duplicates_nothing(folder: EditedFolder) -> None:
    folder.add(*(make_note(n) for n in range(1, 9)))
    whole = folder.read(NOTES).replace("record 8", "Edited")
    path = folder.path(NOTES)
    for cut in (len(whole) // 2, whole.index("- record 5"), len(whole) - 20):
        path.write_text(whole[:cut])  # the file is young
        report = folder.importer.take_in()
        assert (report.taken, report.unfinished) == ([], [NOTES])
        with path.open("a") as file:
            file.write(whole[cut:])
        old = time.time() - 2
        os.utime(path, (old, old))
        folder.sync()
        assert [row.partition(" <")[0] for row in list_rows(folder)][-1] == "- Edited"
    assert len(list(folder.store.find(Filter(archived=None)))) == 8
    half = folder.read(NOTES)[:-30]
    folder.write(NOTES, half)  # and one that never saves the rest
    (problem,) = folder.sync().problems
    assert "saved half" in problem.why
    assert not any(folder.record(n).archived for n in range(1, 9))
    folder.write(NOTES, whole)
    folder.sync()
    assert len(list(folder.store.find(Filter(archived=None)))) == 8
    folder.assert_settled()


def test_a_line_on_its_way_between_two_pages_is_not_archived(folder: EditedFolder) -> None:
    folder.add(make_note(1), make_note(2), make_record(3, category="plans"))
    first, second = list_rows(folder)
    plans = folder.read("memory/records/plans.md")
    folder.path(NOTES).write_text(f"{second}\n")  # just saved
    report = folder.importer.take_in()
    assert (report.taken, report.unfinished) == ([], [NOTES])
    folder.write("memory/records/plans.md", f"{plans}{first}\n")
    folder.sync()
    assert (folder.record(1).category, folder.record(1).archived) == ("plans", False)
    assert all(row.operation != "delete_file" for row in folder.list_hand_edits())
    folder.assert_settled()


def test_a_line_that_cannot_be_imported_is_held_back_and_all_others_come_in(tmp_path: Path) -> None:
    for number, bad in enumerate((b"Taken already", b"x" * 100_001, b"caf\xe9")):
        with open_edited_folder(tmp_path / str(number), "pages") as folder:
            folder.add(make_record(9, content="Taken already"), *(make_note(n) for n in range(1, 5)))
            rows = [row.encode() for row in list_rows(folder)]
            held = rows[1].replace(b"record 2", bad)
            text = b"\n".join([rows[0], held, rows[2].replace(b"record 3", b"Edited"), b"- New", b""])
            folder.write(NOTES, text)
            assert sorted(edit.what for edit in folder.sync().taken) == ["added", "archived", "changed"]
            (problem,) = folder.importer.problems()
            assert (problem.path, "line 2: " in problem.why) == (NOTES, True)
            assert [folder.record(n).content for n in (1, 2, 3)] == ["record 1", "record 2", "Edited"]
            assert folder.record(4).archived
            assert folder.path(NOTES).read_bytes() == text, "it stays as it is until it is corrected"
            folder.add(make_note(5))  # the program goes on, and the file undoes nothing of it
            folder.change(folder.record(3), replace(folder.record(3), content="Changed by the program"))
            assert folder.sync().taken == []
            assert folder.path(NOTES).read_bytes() == text
            folder.write(NOTES, text.replace(held, rows[1].replace(b"record 2", b"Right now")))
            assert [edit.what for edit in folder.sync().taken] == ["changed"]
            assert [folder.record(n).content for n in (2, 3)] == ["Right now", "Changed by the program"]
            assert len(list_rows(folder)) == 5
            folder.assert_settled()


def test_without_the_state_of_the_files_edits_come_in_and_nothing_is_removed(folder: EditedFolder) -> None:
    folder.add(*(make_note(n) for n in range(1, 5)))
    old = folder.read(NOTES)
    folder.change(make_note(1), replace(make_note(1), content="Changed by the program"))
    folder.change(make_note(4), replace(make_note(4), archived_at=NOW))
    folder.commit(Change(before=make_note(3), after=None))
    text = "\n".join([*old.replace("record 2", "By hand").split("\n")[:3], *old.split("\n")[4:], "- New", ""])
    text = text.replace(list_rows(folder)[1], "- By hand" + list_rows(folder)[1].removeprefix("- record 2"))
    folder.lose_state()
    folder.write(NOTES, text)
    folder.sync()
    folder.sync()
    assert folder.record(1).content == "Changed by the program"
    assert (folder.record(2).archived, folder.record(4).archived) == (False, True)
    assert folder.store.records([f"{3:012x}"]) == [], "an old page brings nothing back"
    assert "New" in {record.content for record in folder.store.find(Filter())}
    folder.assert_settled()


def test_many_records_of_a_category_are_on_several_pages(
    folder: EditedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.setattr(layout, "MAX_LINES", 10)
    for start in range(1, 36, 5):
        folder.add(*(make_note(n) for n in range(start, start + 5)))
    paths = [layout.build_numbered_path("memory/records/notes", number) for number in (1, 2, 3, 4)]
    assert [len(list_rows(folder, path)) for path in paths] == [10, 10, 10, 5]
    folder.write(paths[1], folder.read(paths[1]) + list_rows(folder, paths[3])[0] + "\n")
    folder.write(paths[3], "\n".join([*list_rows(folder, paths[3])[1:], "- By hand", ""]))
    assert [edit.what for edit in folder.sync().taken] == ["added"], "a line moved within its category"
    assert [len(list_rows(folder, path)) for path in paths] == [10, 11, 10, 5]
    folder.change(make_note(12), replace(make_note(12), category="Notes"))
    assert len(list_rows(folder, paths[1])) == 11
    folder.assert_settled()


def test_what_the_program_has_just_appended_is_not_deleted_by_an_editor_that_was_open(
    folder: EditedFolder,
) -> None:
    folder.add(make_note(1), make_paragraph(1, "First."))
    stale = {path: folder.path(path).read_text() for path in (NOTES, "memory/HISTORY.md")}
    folder.add(make_note(2), make_paragraph(2, "Second."))
    for path, text in stale.items():
        folder.path(path).write_text(text.replace("record 1", "record one").replace("First", "Before"))
    assert sorted(edit.what for edit in folder.sync().taken) == ["changed", "changed"]
    assert not folder.record(2).archived
    assert folder.read("memory/HISTORY.md") == "Before.\n\nSecond.\n"
    assert len(list_rows(folder)) == 2
    folder.assert_settled()


def test_the_order_of_lines_is_the_persons(folder: EditedFolder) -> None:
    folder.add(*(make_note(n) for n in (1, 2, 3)))
    rows = list_rows(folder)
    folder.write(NOTES, "\n".join([rows[2], "- New", rows[0], rows[1], ""]))
    folder.sync()
    assert [row.partition(" <")[0] for row in list_rows(folder)] == [
        "- record 3", "- New", "- record 1", "- record 2",
    ]  # fmt: skip
    folder.add(make_note(4))
    assert list_rows(folder)[-1].startswith("- record 4 <")
    folder.assert_settled()


def test_an_edit_that_was_committed_by_a_killed_process_is_not_imported_twice(folder: EditedFolder) -> None:
    folder.add(make_note(1))
    folder.write(NOTES, folder.read(NOTES).replace("record 1", "Edited") + "- New\n")

    class Killed(BaseException):
        pass

    def import_and_be_killed() -> None:
        with folder.state.lock():
            assert len(folder.importer.take_in().taken) == 2
            raise Killed  # what was committed is in the store, and the state does not know of it

    with pytest.raises(Killed):
        import_and_be_killed()
    folder.reopen()
    folder.sync()
    folder.sync()
    assert sorted(record.content for record in folder.store.find(Filter(archived=None))) == ["Edited", "New"]
    assert len(list_rows(folder)) == 2
    folder.assert_settled()


def test_a_secret_that_its_owner_keeps_stays_in_an_edited_line(folder: EditedFolder) -> None:
    key = "sk-ant-api03-" + "Ab3dEf6hIj9kLm2n" * 4
    kept = make_note(1, content=f"The key {key}", keep_secret=True)
    folder.add(kept)
    edit_text(folder, "The key", "The old key")
    assert folder.record(1).content == f"The old key {key}"
    folder.assert_settled()
