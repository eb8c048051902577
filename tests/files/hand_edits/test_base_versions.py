"""Tests of the base version of a hand edit, which `files.db` holds only where the journal does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.files.written_texts import read_base_text
from tests.files.hand_edit_fixture import DAY, EditedFolder, build_note_path, make_note, open_edited_folder
from tests.support.contract.factories import make_record, make_time


@pytest.fixture
def edited_folder(tmp_path: Path) -> Iterator[EditedFolder]:
    with open_edited_folder(tmp_path / "m") as folder:
        yield folder


def is_text_stored(edited_folder: EditedFolder, path: str) -> bool:
    with edited_folder.state.lock() as ledger:
        return ledger.read_text(path) is not None


def test_the_text_of_a_record_is_not_stored_a_second_time(edited_folder: EditedFolder) -> None:
    edited_folder.add(make_note(1), make_record(2, layer="episodic", created_at=make_time(0)))
    edited_folder.change(make_note(1), make_note(1, content="A later text"))
    assert not is_text_stored(edited_folder, build_note_path(1))
    assert is_text_stored(edited_folder, DAY)
    database = b"".join(file.read_bytes() for file in edited_folder.root.glob("files.db*"))
    assert b"A later text" not in database


def test_the_base_version_is_the_version_that_was_written_whatever_came_after(
    edited_folder: EditedFolder,
) -> None:
    edited_folder.add(make_note(1))
    edited_folder.change(make_note(1), make_note(1, importance=0.6))
    written = edited_folder.path(build_note_path(1)).read_bytes()
    for number in range(3):
        now = edited_folder.record(1)
        edited_folder.change(now, replace(now, seen_count=now.seen_count + 1), mirrored=number == 2)
        if number < 2:
            with edited_folder.state.lock() as ledger:
                assert read_base_text(edited_folder.store, ledger, build_note_path(1)) == written
