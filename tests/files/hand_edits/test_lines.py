"""A person edits pages, logs, days and sessions: it comes in line by line, and nothing is lost."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from reverie.domain.change import Change
from tests.files.folder_fixture import (
    CHAT,
    DAY,
    EditedFolder,
    list_paragraph_texts,
    make_page,
    make_paragraph,
)
from tests.support.contract.factories import NOW, make_record, make_session, make_time, make_turn

# -- pages ---------------------------------------------------------------------------------------------------


def test_an_edited_page_comes_in_with_line_ends_and_mark_of_windows_dropped(
    edited_folder: EditedFolder,
) -> None:
    edited_folder.add(make_page("# Memory\n\n- one\n"))
    edited_folder.write("memory/MEMORY.md", b"\xef\xbb\xbf# Memory\r\n\r\n- one\r\n- two\r\n")
    assert [each.what for each in edited_folder.sync().taken] == ["changed"]
    assert edited_folder.store.pages(["MEMORY.md"])[0].content == "# Memory\n\n- one\n- two\n"
    assert edited_folder.read("memory/MEMORY.md") == "# Memory\n\n- one\n- two\n"
    edited_folder.assert_settled()


def test_a_page_edited_while_the_program_rewrites_it_has_both_changes(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_page("# Memory\n\n- one\n- two\n"))
    edited_folder.write("memory/MEMORY.md", "# Memory\n\n- one, says the person\n- two\n- the person's\n")
    edited_folder.change(
        make_page("# Memory\n\n- one\n- two\n"), make_page("# Memory\n\n- one\n- the program's\n")
    )
    edited_folder.sync()
    assert edited_folder.read("memory/MEMORY.md") == (
        "# Memory\n\n- one, says the person\n- the program's\n- the person's\n"
    )
    assert edited_folder.importer.conflicts() == []
    edited_folder.assert_settled()


def test_a_page_emptied_at_once_is_taken_for_a_mishap(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_page("# Memory\n"))
    edited_folder.write("memory/MEMORY.md", b"")
    assert [problem.path for problem in edited_folder.sync().problems] == ["memory/MEMORY.md"]
    assert edited_folder.store.pages()[0].content == "# Memory\n"


# -- logs ----------------------------------------------------------------------------------------------------


def test_paragraphs_of_a_log_are_edited_added_and_taken_out_and_the_others_keep_their_ids(
    edited_folder: EditedFolder,
) -> None:
    there = [make_paragraph(n, f"[2026-03-0{n} 10:00] Paragraph {n}.", source=f"s{n}") for n in range(1, 6)]
    edited_folder.add(*there)
    edited_folder.clock.move(hours=2)
    text = edited_folder.read("memory/HISTORY.md")
    text = text.replace("Paragraph 2.", "Paragraph two, corrected.")
    text = text.replace("[2026-03-04 10:00] Paragraph 4.\n\n", "")
    text = text.replace("[2026-03-05", "[2026-03-04 12:00] Something new.\n\n[2026-03-05")
    edited_folder.write("memory/HISTORY.md", text)
    assert sorted(each.what for each in edited_folder.sync().taken) == ["changed", "changed"]
    found = edited_folder.store.paragraphs(page="HISTORY.md")
    assert [each.content[19:] for each in found] == [
        "Paragraph 1.", "Paragraph two, corrected.", "Paragraph 3.", "Something new.", "Paragraph 5.",
    ]  # fmt: skip
    assert [each.id for each in found] == [each.id for each in there]
    assert found[0] == there[0]
    assert (found[1].source, found[1].position) == ("s2", 2.0)
    assert edited_folder.read("memory/HISTORY.md") == text
    edited_folder.assert_settled()


def test_a_paragraph_changed_by_both_stands_in_both_versions(edited_folder: EditedFolder) -> None:
    first = make_paragraph(1, "One.")
    edited_folder.add(first, make_paragraph(2, "Two."))
    edited_folder.write("memory/HISTORY.md", "One, says the person.\n\nTwo.\n")
    edited_folder.change(first, replace(first, content="One, says the program."))
    edited_folder.sync()
    assert list_paragraph_texts(edited_folder) == ["One, says the person.", "One, says the program.", "Two."]
    edited_folder.assert_settled()


def test_a_daily_note_is_edited_line_by_line_and_takes_the_times_that_stand_there(
    edited_folder: EditedFolder,
) -> None:
    edited_folder.add(
        make_paragraph(1, "[09:00] User: hello | Assistant: hello", "2026-03-01.md", at=make_time(-10_800))
    )
    edited_folder.write(
        "memory/2026-03-01.md", "[09:00] User: hello | Assistant: hello\n\n[11:30] Went for a walk\nlater\n"
    )
    edited_folder.sync()
    found = edited_folder.store.paragraphs(page="2026-03-01.md")
    assert [each.content for each in found][1:] == ["[11:30] Went for a walk", "later"]
    assert found[1].at == NOW.replace(hour=11, minute=30)
    assert found[2].at == NOW
    assert edited_folder.read("memory/2026-03-01.md").count("\n") == 3
    edited_folder.assert_settled()


def test_most_of_a_log_gone_is_taken_for_a_mishap_and_all_of_it_is_not(edited_folder: EditedFolder) -> None:
    edited_folder.add(*(make_paragraph(n, f"Paragraph {n}.") for n in range(1, 31)))
    edited_folder.clock.move(hours=2)
    whole = edited_folder.read("memory/HISTORY.md")
    edited_folder.write("memory/HISTORY.md", "\n\n".join(whole.split("\n\n")[:5]) + "\n")
    (problem,) = edited_folder.sync().problems
    assert "25 of 30 paragraphs are missing" in problem.why
    assert len(list_paragraph_texts(edited_folder)) == 30
    edited_folder.write("memory/HISTORY.md", whole)
    edited_folder.sync()
    assert edited_folder.importer.problems() == []
    edited_folder.path("memory/HISTORY.md").unlink()
    edited_folder.sync()
    assert list_paragraph_texts(edited_folder) == []
    assert edited_folder.store.paragraphs(["000000000001"]) == []
    assert edited_folder.list_hand_edits()[0].edit == Change(
        before=make_paragraph(1, "Paragraph 1."), after=None
    )
    edited_folder.assert_settled()


# -- sessions ------------------------------------------------------------------------------------------------


def test_an_edited_session_is_written_again_and_a_new_one_is_imported(
    edited_folder: EditedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    edited_folder.add(make_session(), make_turn(0), make_turn(1, role="assistant"))
    written = edited_folder.read(CHAT)
    edited_folder.edit_line(CHAT, 1, content="What I meant")
    edited_folder.write(CHAT, edited_folder.read(CHAT) + '{"role": "user", "content": "One more thing"}\n')
    with caplog.at_level(logging.WARNING, "reverie"):
        assert edited_folder.sync().taken == []
    assert f"{CHAT} was edited" in caplog.text
    assert [each.content for each in edited_folder.store.turns(session="chat:1")] == [
        "Words of turn 0", "Words of turn 1",
    ]  # fmt: skip
    assert edited_folder.read(CHAT) == written
    edited_folder.write(
        "sessions/diary:1.jsonl", '{}\n{"content": "Dear diary"}\n{"role": "assistant", "content": "Yes"}\n'
    )
    edited_folder.sync()
    assert [each.role for each in edited_folder.store.turns(session="diary:1")] == ["user", "assistant"]
    edited_folder.assert_settled()


def test_a_deleted_session_file_is_written_again(
    edited_folder: EditedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    edited_folder.add(make_session(), make_turn(0))
    edited_folder.path(CHAT).unlink()
    with caplog.at_level(logging.WARNING, "reverie"):
        (taken,) = edited_folder.sync().taken
    assert (taken.what, taken.id) == ("kept", "chat:1")
    assert "forget" in caplog.text
    assert edited_folder.path(CHAT).exists()
    edited_folder.assert_settled()


# -- an editor that had the file open before the program wrote to it -----------------------------------------


# -- the text that was last written, and what happens without it ---------------------------------------------


def test_without_the_state_of_the_files_an_edit_comes_in_and_nothing_is_removed(
    edited_folder: EditedFolder,
) -> None:
    edited_folder.add(
        make_page("- one\n- two\n"),
        make_paragraph(1, "One."),
        make_paragraph(2, "Two."),
        *(make_record(n, layer="episodic", moment=make_time(n)) for n in (1, 2)),
    )
    edited_folder.clock.move(hours=2)
    edited_folder.write("memory/MEMORY.md", "- one\n- by hand\n")
    edited_folder.write("memory/HISTORY.md", "Two.\n\nBy hand.\n")
    edited_folder.write(DAY, edited_folder.read(DAY).split("\n")[3] + "\n- By hand\n")
    edited_folder.lose_state()
    edited_folder.sync()
    assert set(edited_folder.read("memory/MEMORY.md").split("\n")) == {"- one", "- two", "- by hand", ""}
    assert sorted(list_paragraph_texts(edited_folder)) == ["By hand.", "One.", "Two."]
    assert [edited_folder.record(n).archived for n in (1, 2)] == [False, False]
    assert edited_folder.read(DAY).count("\n") == 5
    edited_folder.assert_settled()
