"""A piece of a page or a memory is replaced only where it is clear which; otherwise the model is helped."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reverie import Memory
from reverie.tools import ToolResult
from tests.tools.conftest import Call


def test_a_piece_that_stands_once_in_memory_md_is_replaced(memory: Memory, call: Call) -> None:
    memory.pages.write("MEMORY.md", "# Ada\n\nAda lives in Bern.\n")
    told = call("edit_memory", old="lives in Bern", new="lives in Basel")
    assert told.text == "Edited MEMORY.md: lives in Bern is now lives in Basel"
    assert memory.pages.read() == "# Ada\n\nAda lives in Basel.\n"
    assert memory.history.log()[-1].operation == "write"
    assert call("edit_memory", old="\n\nAda lives in Basel.", new="").text.endswith("is now gone")


def test_an_edit_that_changes_nothing_says_so(memory: Memory, call: Call) -> None:
    memory.pages.write("MEMORY.md", "Ada lives in Bern\n")
    saved = memory.save("Ada drinks tea", category="habits", tags=["tea"]).record
    sequence = memory.history.log()[-1].sequence
    for name, given in (
        ("edit_memory", {"old": "Bern", "new": "Bern"}),
        ("edit_memory", {"id": saved.id, "old": "tea", "new": "tea"}),
        ("memory", {"operation": "update", "id": saved.id, "content": "Ada drinks tea"}),
        ("memory", {"operation": "update", "id": saved.id, "category": "habits", "tags": ["tea"]}),
    ):
        assert call(name, **given).text.startswith("Nothing changed: ")
    assert memory.update(saved.id, content="Ada drinks tea", importance=0.5) == saved
    assert memory.pages.write("MEMORY.md", memory.pages.read()).outcome == "unchanged"
    assert memory.history.log()[-1].sequence == sequence


def test_a_line_is_added_where_nothing_is_replaced(memory: Memory, call: Call) -> None:
    assert call("edit_memory", new="Ada lives in Bern").text == "Added to MEMORY.md: Ada lives in Bern"
    call("edit_memory", new="Ada has a cat", page="MEMORY.md")
    assert memory.pages.read() == "Ada lives in Bern\nAda has a cat\n"
    assert "new is empty" in call("edit_memory", new=" ").text


def test_a_piece_that_stands_more_than_once_is_counted(memory: Memory, call: Call) -> None:
    memory.pages.write("MEMORY.md", "tea\ntea\ntea\n")
    told = call("edit_memory", old="tea", new="coffee")
    assert told.failed
    assert told.text == (
        "Nothing was done: the text to be replaced is 3 times in MEMORY.md; pass more of what is around it, "
        "so that it stands there once."
    )
    assert memory.pages.read() == "tea\ntea\ntea\n"


def test_a_piece_that_is_not_there_is_answered_with_what_is_like_it(memory: Memory, call: Call) -> None:
    memory.pages.write("MEMORY.md", "# People\nAda  lives in Bern since 2020.\nBen plays chess.\n")
    told = call("edit_memory", old="Ada lives in Berne since 2020", new="x")
    assert told.failed
    assert told.text == (
        "Nothing was done: the text to be replaced is not in MEMORY.md; similar there is: "
        '"Ada lives in Bern since 2020.".'
    )
    nothing = call("edit_memory", old="llamas", new="x")
    assert nothing.text.endswith("not in MEMORY.md; read MEMORY.md and pass a piece of it.")


def test_a_memory_is_edited_by_its_id(memory: Memory, call: Call) -> None:
    record = memory.save("Ada prefers tea", category="user-preferences").record
    told = call("edit_memory", id=record.id, old="tea", new="coffee")
    assert told.text == f"Edited {record.id}:\n- [{record.id}] (user-preferences): Ada prefers coffee (today)"
    after = memory.get(record.id)
    assert after is not None
    assert (after.content, after.origin) == ("Ada prefers coffee", "agent")
    assert f"is not in {record.id}" in call("edit_memory", id=record.id, old="tea", new="x").text
    assert "old is missing" in call("edit_memory", id=record.id, new="x").text
    assert "search_memory finds the right id" in call("edit_memory", id="f" * 12, old="a", new="b").text
    assert "not both" in call("edit_memory", id=record.id, page="MEMORY.md", old="a", new="b").text


def test_logs_only_grow(memory: Memory, call: Call) -> None:
    memory.pages.append("HISTORY.md", "We chose PostgreSQL.")
    for page in ("HISTORY.md", "2026-03-01.md"):
        told = call("edit_memory", page=page, old="We", new="They")
        assert told.failed
        assert f"{page} only grows" in told.text


def test_pages_are_read_between_marks(memory: Memory, call: Call) -> None:
    assert call("read_page").text == "MEMORY.md is empty."
    memory.pages.write("projects/atlas.md", "# Atlas\nports\n")
    told = call("read_page", page="projects/atlas.md")
    assert told.text.startswith("projects/atlas.md (14 characters):\n<<<data ")
    assert "\n# Atlas\nports\n" in told.text
    unknown = call("read_page", page="nope.md")
    assert unknown.text == "Nothing was done: no page nope.md; there are: projects/atlas.md."
    assert "leave old out to begin it" in call("edit_memory", page="nope.md", old="a", new="b").text


def test_a_scope_reads_pages_and_does_not_write_them(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "Everybody keeps time\n")
    tools = memory.scoped("user:alice").tools()
    assert "Everybody keeps time" in tools.call("read_page").text
    for given in ({"new": "x"}, {"old": "time", "new": "x"}):
        told = tools.call("edit_memory", given)
        assert told.failed
        assert "the shared scope" in told.text
    assert memory.pages.read() == "Everybody keeps time\n"


@pytest.mark.parametrize("where", ["sqlite", "in memory"])
def test_edits_of_different_pieces_of_one_memory_at_once_all_land(where: str, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory" if where == "sqlite" else ":memory:") as memory:
        record = memory.save(" ".join(f"Desk {number:02} is free." for number in range(12))).record
        start = threading.Barrier(12)

        def edit(number: int) -> ToolResult:
            tools = memory.tools()
            start.wait()
            return tools.call(
                "edit_memory",
                {"id": record.id, "old": f"Desk {number:02} is free", "new": f"Desk {number:02} is Ada's"},
            )

        with ThreadPoolExecutor(12) as pool:
            results = list(pool.map(edit, range(12)))
        assert [result.text for result in results if result.failed] == []
        after = memory.get(record.id)
        assert after is not None
        assert after.content.count("Ada's") == 12
