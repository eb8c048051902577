"""The person of the torture tests does not lose edits by itself."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.system.torture.hands import Person
from tests.system.torture.worker import BOARDS

LINE = "- Board by hand h1h #h2h <!-- 00000000000a 2026-03-01T12:00:00Z -->"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    folder = tmp_path / "memory" / "records"
    (folder / BOARDS).mkdir(parents=True)
    return folder / f"{BOARDS}.md"


def test_a_page_that_is_broken_keeps_the_marks_of_edits_that_nobody_has_read(
    tmp_path: Path, page: Path
) -> None:
    """On a busy machine the program does not read a file between two edits of it."""
    person = Person(tmp_path)
    person.made = {"h1h": "changed boards.md", "h2h": "changed boards.md"}
    for number in range(4, 200):
        page.write_text(f"{LINE}\n- Other\n")
        assert person._break(f"h{number}h")
        text = page.read_text()
        assert all(mark in text for mark in (*person.made, f"h{number}h"))
        assert not text.endswith("- Other\n")


def test_a_line_that_is_moved_is_on_one_page_and_replaces_none(tmp_path: Path, page: Path) -> None:
    person = Person(tmp_path)
    other = "- Other <!-- 00000000000b 2026-03-01T12:00:00Z -->"
    for name in ("old", "new"):
        (page.parent / BOARDS / f"{name}.md").write_text(f"{other}\n")
    page.write_text(f"{LINE}\n")
    for _ in range(20):
        with suppress(FileNotFoundError):
            person._move("h1h")
    texts = [file.read_text() for file in page.parent.rglob("*.md")]
    assert sorted("".join(texts).split("\n"))[-3:] == sorted([LINE, other, other])
