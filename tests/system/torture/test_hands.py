"""The person of the torture tests does not lose edits by itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system.torture.hands import Person
from tests.system.torture.worker import BOARDS


@pytest.fixture
def boards(tmp_path: Path) -> Path:
    folder = tmp_path / "memory" / BOARDS
    folder.mkdir(parents=True)
    return folder


def test_a_file_that_is_broken_has_the_mark_of_the_edit_and_is_no_json(tmp_path: Path, boards: Path) -> None:
    """A file that a person added and nobody imported yet may end with the field that is changed."""
    person, file = Person(tmp_path), boards / "notice-h592h.json"
    for number in range(200):
        file.write_text(json.dumps({"content": "Handmade h592h notice"}))
        assert person._break(f"h{number}h")
        text = file.read_text()
        assert f"h{number}h" in text
        with pytest.raises(ValueError, match=r"."):
            json.loads(text)


def test_a_file_that_is_broken_keeps_the_marks_of_earlier_edits_that_nobody_has_read(
    tmp_path: Path, boards: Path
) -> None:
    """On a busy machine the program does not read a file between two edits of it."""
    person, file = Person(tmp_path), boards / "00000000000a.json"
    edits = {"content": "Board by hand h1h", "tags": ["h2h"], "source": "by hand h3h"}
    person.made = {f"h{number}h": "changed 00000000000a.json" for number in (1, 2, 3)}
    for number in range(4, 200):
        file.write_text(json.dumps({**edits, "origin": "owner"}))
        assert person._break(f"h{number}h")
        text = file.read_text()
        assert all(mark in text for mark in (*person.made, f"h{number}h"))
        with pytest.raises(ValueError, match=r"."):
            json.loads(text)


def test_a_file_that_is_moved_replaces_no_other(tmp_path: Path, boards: Path) -> None:
    person = Person(tmp_path)
    for name in ("old", "new"):
        (boards / name).mkdir()
        (boards / name / "00000000000a.json").write_text('{"content": "an edit that nobody has read"}')
    (boards / "00000000000a.json").write_text("{}")
    for _ in range(20):
        try:
            person._move("h1h")
        except FileExistsError:
            continue
    texts = [file.read_text() for file in boards.rglob("*.json")]
    unread = '{"content": "an edit that nobody has read"}'
    assert sorted(texts) == sorted(["{}", unread, unread])
