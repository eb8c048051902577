"""Pages and logs: written, merged, guarded, noted after turns, and put into prompts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reverie import Conflict, InvalidInput, Memory, Paragraph, Settings
from reverie.domain.page import HISTORY, LONGEST_PAGE
from reverie.domain.text.escaping import NOTICE
from tests.factories import MovableClock
from tests.support.contract.factories import undo_of


def talk(memory: Memory, session: str, *texts: str, **how: object) -> None:
    """Add turns of user and assistant in turn."""
    for number, text in enumerate(texts):
        role = "assistant" if number % 2 else "user"
        memory.session(session).add(role, text, **how)  # type: ignore[arg-type]


def notes(memory: Memory, page: str = "2025-06-02.md") -> list[str]:
    return [note.content for note in memory.pages.paragraphs(page)]


# -- pages -------------------------------------------------------------------------------------------------


def test_a_page_reads_as_it_was_written(memory: Memory) -> None:
    assert memory.pages.read() == memory.pages.read("projects/atlas.md") == ""
    written = memory.pages.write("MEMORY.md", "# Facts\r\nUser likes tea.\r\n")
    assert (written.outcome, written.merged) == ("created", False)
    assert memory.pages.read() == "# Facts\nUser likes tea.\n"
    assert memory.pages.write("MEMORY.md", "").outcome == "changed"
    assert memory.pages.read() == ""
    assert memory.pages.names() == ["MEMORY.md"]


@pytest.mark.parametrize("name", ["", "memory", "/MEMORY.md", "../MEMORY.md", "a b.md", "x/.hidden.md", 3])
def test_a_page_has_a_name_that_a_file_can_have(memory: Memory, name: str) -> None:
    for refused in (
        lambda: memory.pages.read(name),
        lambda: memory.pages.write(name, "x"),
        lambda: memory.pages.append(name, "x"),
        lambda: memory.pages.delete(name),
    ):
        with pytest.raises(InvalidInput, match="page is"):
            refused()


def test_two_names_that_differ_in_case_alone_are_one_file_on_many_disks(memory: Memory) -> None:
    memory.pages.write("notes/Atlas.md", "x")
    memory.pages.append(HISTORY, "x")
    for name, taken in (("notes/atlas.md", "notes/Atlas.md"), ("history.md", "HISTORY.md")):
        with pytest.raises(InvalidInput, match=f"there is '{taken}' already"):
            memory.pages.write(name, "y")


def test_a_page_that_is_too_long_or_no_text_is_refused(memory: Memory) -> None:
    for text, says in (
        ("x" * (LONGEST_PAGE + 1), "200,000"),
        ("a\0b", "NUL"),
        (3, "int"),
        ("\ud800", "surrogate"),
    ):
        with pytest.raises(InvalidInput, match=says):
            memory.pages.write("MEMORY.md", text)  # type: ignore[arg-type]
    assert memory.pages.names() == []


def test_a_log_is_not_written_as_a_whole(memory: Memory) -> None:
    for refused in (
        lambda: memory.pages.write(HISTORY, "x"),
        lambda: memory.pages.paragraphs("MEMORY.md"),
    ):
        with pytest.raises(InvalidInput, match=r"only grows|not divided"):
            refused()


def test_the_changes_of_both_sides_are_kept(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "# Facts\n- tea\n- port 5432\n- Oslo\n")
    seen = memory.pages.read()
    memory.pages.write("MEMORY.md", "# Facts\n- green tea\n- port 5432\n- Oslo\n- by hand\n")
    written = memory.pages.write("MEMORY.md", seen.replace("5432", "5433"), expected=seen)
    assert written.merged
    assert memory.pages.read() == "# Facts\n- green tea\n- port 5433\n- Oslo\n- by hand\n"
    assert not memory.pages.write("MEMORY.md", "x", expected=memory.pages.read()).merged
    assert memory.pages.write("MEMORY.md", "y").page.content == "y"


def test_a_line_is_appended_to_a_page(memory: Memory) -> None:
    memory.pages.append("MEMORY.md", "one")
    memory.pages.write("MEMORY.md", "one")
    memory.pages.append("MEMORY.md", "two\n")
    assert memory.pages.read() == "one\ntwo\n"
    with pytest.raises(InvalidInput, match="leave at and source out"):
        memory.pages.append("MEMORY.md", "three", source="x")
    with pytest.raises(InvalidInput, match="text is empty"):
        memory.pages.append("MEMORY.md", " \n")


def test_every_change_of_a_page_is_in_the_journal_and_can_be_taken_back(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "one\n", reason="first")
    memory.pages.append("MEMORY.md", "two")
    memory.pages.append(HISTORY, "told")
    assert memory.pages.delete("MEMORY.md")
    assert memory.pages.delete(HISTORY)
    assert not memory.pages.delete(HISTORY)
    rows = memory.history.log()
    assert [(row.subject, row.summary) for row in rows] == [
        ("page", "write: first"),
        ("page", "append"),
        ("paragraph", "append"),
        ("page", "delete"),
        ("paragraph", "delete"),
    ]
    memory._store.commit(undo_of(rows[3:]), actor="test", at=rows[-1].at)
    assert (memory.pages.read(), memory.pages.read(HISTORY)) == ("one\ntwo\n", "[2025-06-02 09:00] told")


# -- logs --------------------------------------------------------------------------------------------------


def told(memory: Memory, text: str, **how: object) -> tuple[str, str]:
    paragraph = memory.pages.append(HISTORY, text, **how)  # type: ignore[arg-type]
    assert isinstance(paragraph, Paragraph)
    return f"{paragraph.at:%Y-%m-%d %H:%M}", paragraph.content


def test_a_paragraph_of_the_history_begins_with_its_time(memory: Memory) -> None:
    now = "2025-06-02 09:00"
    then = datetime(2025, 1, 15, 10, 31, tzinfo=UTC)
    assert told(memory, "Moved to db2.") == (now, f"[{now}] Moved to db2.")
    assert told(memory, "Moved.", at=then) == ("2025-01-15 10:31", "[2025-01-15 10:31] Moved.")
    assert told(memory, "[2025-01-14 08:00] Met.") == ("2025-01-14 08:00", "[2025-01-14 08:00] Met.")
    assert told(memory, "2025-01-15 10:30: User asked.") == (
        "2025-01-15 10:30",
        "[2025-01-15 10:30] User asked.",
    )
    assert told(memory, "[2025-13-40 08:00] Odd.") == (now, f"[{now}] [2025-13-40 08:00] Odd.")
    assert told(memory, "2025-01-15 was cold.") == (now, f"[{now}] 2025-01-15 was cold.")
    assert memory.pages.paragraphs()[2].text == "Met."
    with pytest.raises(InvalidInput, match="text is empty"):
        memory.pages.append(HISTORY, "[2025-01-14 08:00]  ")


def test_a_paragraph_stays_one_whatever_line_ends_it_has(memory: Memory) -> None:
    memory.pages.append(HISTORY, "  First.\r\n\r\n  \nSecond.\n")
    memory.pages.append(HISTORY, "Third.")
    stamp = "[2025-06-02 09:00]"
    assert memory.pages.read(HISTORY) == f"{stamp} First.\nSecond.\n\n{stamp} Third."


def test_a_line_of_a_daily_note_begins_with_the_time_of_day(memory: Memory) -> None:
    for text in ("Called\nAnn", "[08:15] Was up early", "Fine"):
        memory.pages.append("2025-06-02.md", text)
    memory.pages.append("2025-05-30.md", "Left early")
    memory.pages.append("2025-05-30.md", "Late", at=datetime(2025, 5, 30, 23, 59, tzinfo=UTC))
    assert notes(memory) == ["[09:00] Called Ann", "[08:15] Was up early", "[09:00] Fine"]
    assert notes(memory, "2025-05-30.md") == ["Left early", "[23:59] Late"]
    at = [
        note.at.hour for name in ("2025-06-02.md", "2025-05-30.md") for note in memory.pages.paragraphs(name)
    ]
    assert at == [9, 8, 9, 12, 23]


def test_a_list_says_how_much_there_is(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "four")
    memory.pages.append(HISTORY, "told")
    memory.pages.append("2025-06-01.md", "x")
    memory.pages.append("2025-06-02.md", "y")
    memory.pages.append("2025-06-02.md", "z")
    assert [(each.name, each.size) for each in memory.pages.overview()] == [
        ("MEMORY.md", "4 characters"),
        ("HISTORY.md", "1 paragraph"),
        ("2025-06-02.md", "2 paragraphs"),
        ("2025-06-01.md", "1 paragraph"),
    ]
    assert memory.pages.names() == ["2025-06-01.md", "2025-06-02.md", "HISTORY.md", "MEMORY.md"]
    stats = memory.admin.stats()
    assert (stats.pages, stats.paragraphs) == (1, 4)


# -- daily notes -------------------------------------------------------------------------------------------


def test_an_exchange_is_noted_when_its_answer_is_added(memory: Memory, clock: MovableClock) -> None:
    talk(memory, "cli:1", "How do I start?", "Run it.", "Thanks!")
    clock.move(minutes=5)
    talk(memory, "cli:2", "Did it\nwork?", "x" * 400)
    assert notes(memory) == [
        "[09:00] User: How do I start? | Assistant: Run it.",
        f"[09:05] User: Did it work? | Assistant: {'x' * 297}...",
    ]
    (first, _) = memory.pages.paragraphs("2025-06-02.md")
    assert first.source == memory.turns("cli:1")[1].id


def test_an_answer_between_calls_of_tools_is_not_noted(memory: Memory) -> None:
    chat = memory.session("cli:1")
    chat.add("user", "Is it up?")
    chat.add("assistant", "Let me look.", tool_calls=[{"id": "c", "name": "ping"}])
    chat.add("tool", "2 ms", tool_call_id="c")
    assert memory.pages.names() == []
    chat.add("assistant", "It is.")
    assert notes(memory) == ["[09:00] User: Is it up? | Assistant: It is."]


def test_old_conversations_that_are_read_in_are_not_noted(memory: Memory, clock: MovableClock) -> None:
    talk(memory, "import:1", "Hello", "Hi", at=clock.now - timedelta(days=400))
    assert memory.pages.names() == []
    talk(memory, "import:2", "Hello", "Hi", at=clock.now - timedelta(hours=20))
    assert memory.pages.names() == ["2025-06-01.md"]


def test_notes_can_be_switched_off(clock: MovableClock) -> None:
    with Memory.open(":memory:", clock=clock, settings=Settings(daily_notes=False)) as memory:
        talk(memory, "cli:1", "Hello", "Hi")
        assert memory.pages.names() == []


def test_a_turn_and_its_note_are_stored_together_or_not_at_all(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        talk(memory, "cli:1", "Hello")
        with closing(sqlite3.connect(tmp_path / "reverie.db")) as file, file:
            file.execute(
                "CREATE TRIGGER no_room BEFORE INSERT ON paragraphs "
                "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
            )
        with pytest.raises(Conflict):
            memory.session("cli:1").add("assistant", "Hi")
        assert [turn.content for turn in memory.turns("cli:1")] == ["Hello"]


def test_the_notes_of_a_session_go_with_it(memory: Memory) -> None:
    talk(memory, "cli:1", "Hello", "Hi")
    talk(memory, "cli:2", "Good evening", "Welcome")
    assert memory.delete_session("cli:1") == 2
    assert notes(memory) == ["[09:00] User: Good evening | Assistant: Welcome"]


# -- in prompts --------------------------------------------------------------------------------------------


def test_the_context_text_has_three_sections(memory: Memory, clock: MovableClock) -> None:
    assert memory.pages.context() == ""
    for day in range(10):
        memory.pages.append((clock.now - timedelta(days=day)).strftime("%Y-%m-%d.md"), f"[10:00] day {day}")
    memory.pages.write("MEMORY.md", "User prefers concise responses.\n")
    text = memory.pages.context()
    assert text.startswith(
        "## Long-term Memory\nUser prefers concise responses.\n\n## Today's Notes\n[10:00] day 0\n\n"
        "## Recent Context\n### 2025-06-01\n[10:00] day 1\n\n### 2025-05-31\n[10:00] day 2\n\n"
    )
    assert text.endswith("### 2025-05-26\n[10:00] day 7")
    assert memory.pages.context(clock.now + timedelta(days=30)) == (
        "## Long-term Memory\nUser prefers concise responses."
    )


def test_how_many_days_and_tokens_are_settings(clock: MovableClock) -> None:
    settings = Settings(recent_days=1, page_tokens=40, notes_tokens=30)
    with Memory.open(":memory:", clock=clock, settings=settings) as memory:
        memory.pages.write("MEMORY.md", "A fact of many words\n" * 100)
        for day in range(3):
            memory.pages.append(
                (clock.now - timedelta(days=day)).strftime("%Y-%m-%d.md"), f"[10:00] day {day}"
            )
        text = memory.pages.context()
        assert "day 1" in text
        assert "day 2" not in text
        assert len(text) <= 4 * (40 + 30)
        talk(memory, "cli:1", "Hello")
        assert (
            len(memory.session("cli:1").context().text)
            <= 4 * (40 + 30) + len(f"{NOTICE}\n\n# Memory\n\n") + 2
        )


def test_a_page_and_the_notes_of_other_sessions_stand_in_the_prompt(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "User prefers concise responses.\n")
    talk(memory, "cli:1", "Which port?", "5433.")
    talk(memory, "cli:2", "And which port again?")
    pack = memory.session("cli:2").context()
    assert pack.stable_text == f"{NOTICE}\n\n# Memory\n\n## Long-term Memory\nUser prefers concise responses."
    assert "\n\n## Today's Notes\n[09:00] User: Which port? | Assistant: 5433." in pack.text
    own = memory.session("cli:1").context("Well well").text
    assert "Today's Notes" not in own
