"""A person edits pages, logs, days and sessions: it comes in line by line, and nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.domain.change import Change
from reverie.domain.page import Page
from reverie.stores.contract.factories import NOW, make_record, make_session, make_time, make_turn
from tests.files.desk import CHAT, DAY, Desk, contents, desk_in, file_of, note, page, paragraph


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path / "memory") as opened:
        yield opened


# -- pages ---------------------------------------------------------------------------------------------------


def test_an_edited_page_comes_in_with_line_ends_and_mark_of_windows_dropped(desk: Desk) -> None:
    desk.add(page("# Memory\n\n- one\n"))
    desk.write("memory/MEMORY.md", b"\xef\xbb\xbf# Memory\r\n\r\n- one\r\n- two\r\n")
    assert [each.what for each in desk.sync().taken] == ["changed"]
    assert desk.store.pages(["MEMORY.md"])[0].content == "# Memory\n\n- one\n- two\n"
    assert desk.read("memory/MEMORY.md") == "# Memory\n\n- one\n- two\n"
    desk.quiet()


def test_a_page_edited_while_the_program_rewrites_it_has_both_changes(desk: Desk) -> None:
    desk.add(page("# Memory\n\n- one\n- two\n"))
    desk.write("memory/MEMORY.md", "# Memory\n\n- one, says the person\n- two\n- the person's\n")
    desk.change(page("# Memory\n\n- one\n- two\n"), page("# Memory\n\n- one\n- the program's\n"))
    desk.sync()
    assert desk.read("memory/MEMORY.md") == (
        "# Memory\n\n- one, says the person\n- the program's\n- the person's\n"
    )
    assert desk.hands.conflicts() == []
    desk.quiet()


def test_new_pages_may_lie_in_folders_and_deleted_ones_go(desk: Desk) -> None:
    desk.write("memory/projects/atlas.md", "# Atlas\n")
    desk.sync()
    assert [each.name for each in desk.store.pages()] == ["projects/atlas.md"]
    desk.path("memory/projects/atlas.md").unlink()
    (taken,) = desk.sync().taken
    assert (taken.what, taken.subject) == ("removed", "page")
    assert desk.store.pages() == []
    assert desk.by_hand()[-1].edit == Change(
        before=Page(name="projects/atlas.md", content="# Atlas\n", updated_at=NOW), after=None
    )
    desk.quiet()
    desk.write("memory/projects/atlas.md", "# Atlas\n")  # and may come back
    assert [each.what for each in desk.sync().taken] == ["added"]
    desk.quiet()


def test_a_page_emptied_at_once_is_taken_for_a_mishap(desk: Desk) -> None:
    desk.add(page("# Memory\n"))
    desk.write("memory/MEMORY.md", b"")
    assert [problem.path for problem in desk.sync().problems] == ["memory/MEMORY.md"]
    assert desk.store.pages()[0].content == "# Memory\n"


# -- logs ----------------------------------------------------------------------------------------------------


def test_paragraphs_of_a_log_are_edited_added_and_taken_out_and_the_others_keep_their_ids(desk: Desk) -> None:
    there = [paragraph(n, f"[2026-03-0{n} 10:00] Paragraph {n}.", source=f"s{n}") for n in range(1, 6)]
    desk.add(*there)
    desk.clock.move(hours=2)
    text = desk.read("memory/HISTORY.md")
    text = text.replace("Paragraph 2.", "Paragraph two, corrected.")
    text = text.replace("[2026-03-04 10:00] Paragraph 4.\n\n", "")
    text = text.replace("[2026-03-05", "[2026-03-04 12:00] Something new.\n\n[2026-03-05")
    desk.write("memory/HISTORY.md", text)
    assert sorted(each.what for each in desk.sync().taken) == ["changed", "changed"]
    found = desk.store.paragraphs(page="HISTORY.md")
    assert [each.content[19:] for each in found] == [
        "Paragraph 1.", "Paragraph two, corrected.", "Paragraph 3.", "Something new.", "Paragraph 5.",
    ]  # fmt: skip
    assert [each.id for each in found] == [each.id for each in there]
    assert found[0] == there[0]
    assert (found[1].source, found[1].position) == ("s2", 2.0)
    assert desk.read("memory/HISTORY.md") == text
    desk.quiet()


def test_the_last_paragraph_can_be_taken_out(desk: Desk) -> None:
    desk.add(*(paragraph(n, f"Paragraph {n}.") for n in (1, 2, 3)))
    desk.clock.move(hours=2)
    desk.write("memory/HISTORY.md", "Paragraph 1.\n\nParagraph 2.\n")
    assert [each.what for each in desk.sync().taken] == ["removed"]
    assert contents(desk) == ["Paragraph 1.", "Paragraph 2."]
    desk.quiet()


def test_paragraphs_added_by_both_are_both_there(desk: Desk) -> None:
    desk.add(paragraph(1, "Paragraph 1."))
    desk.write("memory/HISTORY.md", "Before all.\n\nParagraph 1.\n\nThe person's.\n")
    desk.add(paragraph(2, "The program's."))
    desk.sync()
    assert contents(desk) == ["Before all.", "Paragraph 1.", "The person's.", "The program's."]
    assert desk.read("memory/HISTORY.md") == (
        "Before all.\n\nParagraph 1.\n\nThe person's.\n\nThe program's.\n"
    )
    desk.quiet()


def test_a_paragraph_changed_by_both_stands_in_both_versions(desk: Desk) -> None:
    first = paragraph(1, "One.")
    desk.add(first, paragraph(2, "Two."))
    desk.write("memory/HISTORY.md", "One, says the person.\n\nTwo.\n")
    desk.change(first, replace(first, content="One, says the program."))
    desk.sync()
    assert contents(desk) == ["One, says the person.", "One, says the program.", "Two."]
    desk.quiet()


def test_a_daily_note_is_edited_line_by_line_and_takes_the_times_that_stand_there(desk: Desk) -> None:
    desk.add(paragraph(1, "[09:00] User: hello | Assistant: hello", "2026-03-01.md", at=make_time(-10_800)))
    desk.write(
        "memory/2026-03-01.md", "[09:00] User: hello | Assistant: hello\n\n[11:30] Went for a walk\nlater\n"
    )
    desk.sync()
    found = desk.store.paragraphs(page="2026-03-01.md")
    assert [each.content for each in found][1:] == ["[11:30] Went for a walk", "later"]
    assert found[1].at == NOW.replace(hour=11, minute=30)
    assert found[2].at == NOW
    assert desk.read("memory/2026-03-01.md").count("\n") == 3
    desk.quiet()


def test_most_of_a_log_gone_is_taken_for_a_mishap_and_all_of_it_is_not(desk: Desk) -> None:
    desk.add(*(paragraph(n, f"Paragraph {n}.") for n in range(1, 31)))
    desk.clock.move(hours=2)
    whole = desk.read("memory/HISTORY.md")
    desk.write("memory/HISTORY.md", "\n\n".join(whole.split("\n\n")[:5]) + "\n")
    (problem,) = desk.sync().problems
    assert "25 of 30 paragraphs are missing" in problem.why
    assert len(contents(desk)) == 30
    desk.write("memory/HISTORY.md", whole)
    desk.sync()
    assert desk.hands.problems() == []
    desk.path("memory/HISTORY.md").unlink()
    desk.sync()
    assert contents(desk) == []
    assert desk.store.paragraphs(["000000000001"]) == []
    assert desk.by_hand()[0].edit == Change(before=paragraph(1, "Paragraph 1."), after=None)
    desk.quiet()


def test_many_paragraphs_put_between_two_find_room(desk: Desk) -> None:
    desk.add(paragraph(1, "First."), paragraph(2, "Last."))
    middle = [f"Number {n}." for n in range(200)]
    text = "\n\n".join(["First.", *middle, "Last."]) + "\n"
    desk.write("memory/HISTORY.md", text)
    desk.sync()
    assert contents(desk) == ["First.", *middle, "Last."]
    for _ in range(70):  # and where numbers are used up, all get new ones
        text = text.replace("First.\n\n", "First.\n\nAgain.\n\n")
        desk.write("memory/HISTORY.md", text)
        desk.sync()
    assert len(contents(desk)) == 272
    assert desk.read("memory/HISTORY.md") == text
    desk.quiet()


# -- episodic files ------------------------------------------------------------------------------------------


def test_lines_of_an_episodic_file_are_edited_added_and_taken_out(desk: Desk) -> None:
    desk.add(*(make_record(n, layer="episodic", kind="event", moment=make_time(n)) for n in (1, 2, 3)))
    desk.clock.move(hours=2)
    desk.edit_line(DAY, 1, content="Corrected")
    lines = desk.read(DAY).split("\n")
    desk.write(DAY, "\n".join([*lines[1:3], '{"content": "Something happened"}', ""]))
    taken = desk.sync().taken
    assert sorted(each.what for each in taken) == ["added", "archived", "changed"]
    assert desk.record(2).content == "Corrected"
    assert (desk.record(1).archived, desk.record(1).archive_reason) == (True, "file deleted by hand")
    added = next(each.id for each in taken if each.what == "added")
    (found,) = desk.store.records([added])
    assert (found.kind, found.layer, found.created_at) == ("event", "episodic", desk.clock())
    assert desk.files() == ["memory/.archive/000000000001.json", DAY]
    assert desk.read(DAY).count("\n") == 3
    desk.quiet()


def test_a_new_line_for_another_day_is_of_that_day(desk: Desk) -> None:
    desk.write("memory/episodic/2026-02-07.jsonl", '{"content": "It snowed"}\n')
    (taken,) = desk.sync().taken
    (found,) = desk.store.records([taken.id])
    assert found.created_at.isoformat() == "2026-02-07T12:00:00+00:00"
    assert desk.files() == ["memory/episodic/2026-02-07.jsonl"]
    desk.quiet()


def test_a_line_added_by_the_program_meanwhile_is_not_taken_for_deleted(desk: Desk) -> None:
    desk.add(*(make_record(n, layer="episodic", moment=make_time(n)) for n in (1, 2)))
    desk.edit_line(DAY, 0, content="Corrected")
    desk.add(make_record(3, layer="episodic", moment=make_time(3)))
    desk.sync()
    assert [desk.record(n).archived for n in (1, 2, 3)] == [False, False, False]
    assert desk.record(1).content == "Corrected"
    assert desk.read(DAY).count("\n") == 3
    desk.quiet()


def test_a_deleted_episodic_file_archives_its_records(desk: Desk) -> None:
    desk.add(*(make_record(n, layer="episodic", moment=make_time(n)) for n in (1, 2)))
    desk.path(DAY).unlink()
    assert [each.what for each in desk.sync().taken] == ["archived", "archived"]
    assert desk.files() == ["memory/.archive/000000000001.json", "memory/.archive/000000000002.json"]
    desk.quiet()


def test_the_layer_of_a_record_can_be_changed_by_hand(desk: Desk) -> None:
    desk.add(note(1))
    desk.clock.move(seconds=1)
    desk.edit(file_of(1), layer="episodic")
    desk.sync()
    assert desk.files() == [DAY]
    desk.edit_line(DAY, 0, layer="semantic")
    desk.sync()
    assert desk.files() == [file_of(1)]
    desk.quiet()


# -- sessions ------------------------------------------------------------------------------------------------


def test_what_a_turn_says_can_be_changed_and_turns_added_at_the_end(desk: Desk) -> None:
    desk.add(make_session(), make_turn(0), make_turn(1, role="assistant"))
    desk.edit_line(CHAT, 1, content="What I meant")
    desk.edit_line(CHAT, 0, metadata={"topic": "x"})
    desk.write(CHAT, desk.read(CHAT) + '{"role": "user", "content": "One more thing"}\n')
    desk.sync()
    found = desk.store.turns(session="chat:1")
    assert [each.content for each in found] == ["What I meant", "Words of turn 1", "One more thing"]
    assert found[0].id == make_turn(0).id
    assert (found[2].position, found[2].at) == (2, NOW)
    state = desk.store.session("chat:1")
    assert state is not None
    assert state.metadata == {"topic": "x"}
    desk.quiet()


def test_a_turn_added_by_the_program_meanwhile_comes_first(desk: Desk) -> None:
    desk.add(make_session(), make_turn(0))
    desk.write(CHAT, desk.read(CHAT) + '{"role": "user", "content": "The person\'s"}\n')
    desk.add(make_turn(1, content="The program's"))
    desk.sync()
    said = [each.content for each in desk.store.turns(session="chat:1")]
    assert said == ["Words of turn 0", "The program's", "The person's"]
    desk.quiet()


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ((0, 1, 3), "turn 1 is missing"),
        ((0, 1, 2), "turn 2 is missing"),
        ((0, 2, 1, 3), "another order"),
        ((0, 1, 4, 2, 3), "stands between others"),
    ],
)
def test_turns_are_not_taken_out_nor_put_in_another_order(
    desk: Desk, order: tuple[int, ...], why: str
) -> None:
    desk.add(make_session(), make_turn(0), make_turn(1), make_turn(2))
    desk.clock.move(hours=2)
    lines = [*desk.read(CHAT).split("\n")[:4], '{"role": "user", "content": "New"}']
    desk.write(CHAT, "\n".join(lines[n] for n in order) + "\n")
    (problem,) = desk.sync().problems
    assert why in problem.why
    assert len(desk.store.turns(session="chat:1")) == 3
    desk.path(CHAT).unlink()
    desk.sync()
    assert desk.read(CHAT) == "\n".join(lines[:4]) + "\n"
    desk.quiet()


def test_a_deleted_session_file_is_written_again(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.add(make_session(), make_turn(0))
    desk.path(CHAT).unlink()
    with caplog.at_level(logging.WARNING, "reverie"):
        (taken,) = desk.sync().taken
    assert (taken.what, taken.id) == ("kept", "chat:1")
    assert "forget" in caplog.text
    assert desk.path(CHAT).exists()
    desk.quiet()


def test_a_new_session_can_be_written_by_hand(desk: Desk) -> None:
    desk.write(
        "sessions/diary:1.jsonl", '{}\n{"content": "Dear diary"}\n{"role": "assistant", "content": "Yes"}\n'
    )
    desk.sync()
    assert [each.role for each in desk.store.turns(session="diary:1")] == ["user", "assistant"]
    assert desk.files() == ["sessions/diary:1.jsonl"]
    desk.quiet()


# -- an editor that had the file open before the program wrote to it -----------------------------------------


def test_what_the_program_wrote_while_a_page_was_open_is_not_taken_out(desk: Desk) -> None:
    desk.add(page("- one\n"))
    text = desk.read("memory/MEMORY.md")
    desk.change(page("- one\n"), page("- one\n- two, by the program\n"))
    desk.write("memory/MEMORY.md", text + "- three, by hand\n")
    desk.sync()
    assert sorted(desk.read("memory/MEMORY.md").split("\n")) == [
        "", "- one", "- three, by hand", "- two, by the program",
    ]  # fmt: skip
    desk.quiet()


def test_a_line_that_the_program_has_just_written_can_be_corrected(desk: Desk) -> None:
    desk.add(page("- one\n"))
    desk.change(page("- one\n"), page("- one\n- the user likes short anwsers in the morning\n"))
    desk.write("memory/MEMORY.md", "- one\n- the user likes short answers in the morning\n")
    desk.sync()
    assert desk.read("memory/MEMORY.md") == "- one\n- the user likes short answers in the morning\n"
    desk.quiet()


def test_a_line_can_be_taken_out_that_has_stood_there_for_long(desk: Desk) -> None:
    desk.add(page("- one\n"))
    desk.change(page("- one\n"), page("- one\n- two\n"))
    desk.clock.move(hours=2)
    desk.write("memory/MEMORY.md", "- one\n")
    desk.sync()
    assert desk.read("memory/MEMORY.md") == "- one\n"
    desk.quiet()


def test_what_the_program_added_while_a_log_was_open_stays(desk: Desk) -> None:
    desk.add(
        paragraph(1, "One."),
        make_record(1, layer="episodic", moment=make_time(1)),
        make_session(),
        make_turn(0),
    )
    before = {name: desk.read(name) for name in ("memory/HISTORY.md", DAY, CHAT)}
    desk.add(
        paragraph(2, "Two, by the program."),
        make_record(2, layer="episodic", moment=make_time(2)),
        make_turn(1, content="by the program"),
    )
    desk.write("memory/HISTORY.md", before["memory/HISTORY.md"] + "\nThree, by hand.\n")
    desk.write(DAY, before[DAY] + '{"content": "by hand"}\n')
    desk.write(CHAT, before[CHAT] + '{"role": "user", "content": "by hand"}\n')
    assert desk.sync().problems == []
    assert sorted(contents(desk)) == ["One.", "Three, by hand.", "Two, by the program."]
    assert not desk.record(2).archived
    assert len(desk.store.turns(session="chat:1")) == 3
    assert desk.read(DAY).count("\n") == 3
    desk.quiet()


def test_a_paragraph_that_the_program_has_just_written_can_be_corrected(desk: Desk) -> None:
    desk.add(paragraph(1, "One."), paragraph(2, "The deploy of Atlas faild on Monday."))
    desk.write("memory/HISTORY.md", "One.\n\nThe deploy of Atlas failed on Monday.\n")
    desk.sync()
    assert contents(desk) == ["One.", "The deploy of Atlas failed on Monday."]
    desk.quiet()
