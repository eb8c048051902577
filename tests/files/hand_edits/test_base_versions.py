"""Tests of the base version of a hand edit, which `files.db` holds only where the journal does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.admin.history.thinning import thin
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


def test_an_edit_that_cannot_be_imported_keeps_its_base_version_when_the_journal_is_thinned(
    edited_folder: EditedFolder,
) -> None:
    edited_folder.add(make_note(1))
    fields = edited_folder.load_json(build_note_path(1))
    edited_folder.write(build_note_path(1), "{")
    edited_folder.sync()
    for importance in (0.7, 0.8, 0.9):
        edited_folder.clock.now = make_time(10_000 + int(importance * 10))
        edited_folder.change(edited_folder.record(1), make_note(1, importance=importance, seen_count=2))
    edited_folder.add(make_note(2, content="The last change"))
    assert thin(edited_folder.store, edited_folder.store.sequence(), dry_run=False).changes
    edited_folder.write(build_note_path(1), json.dumps(fields | {"content": "By hand"}))
    edited_folder.sync()
    found = edited_folder.record(1)
    assert (found.content, found.importance, found.seen_count) == ("By hand", 0.9, 2)
    assert edited_folder.importer.conflicts() == []
    edited_folder.assert_settled()
