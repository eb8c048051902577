"""Files whose writer was killed, or refused the commit of `files.db`: they are no hand edits."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.domain.change import Change, Value
from reverie.domain.record import Record
from reverie.files.layout import Layout, build_path, build_stem
from tests.files.folder_fixture import (
    EditedFolder,
    assert_files_match,
    failing_below,
    make_note,
    make_page,
    make_paragraph,
    open_edited_folder,
)
from tests.support.contract.factories import NOW, make_session, make_turn

NOTE = make_note(pinned=False)
ARCHIVED = replace(NOTE, archived_at=NOW, archive_reason="old")
PAGE = make_page("# Memory\n- one\n")
EVENT = make_note(2, layer="episodic", kind="event")
OTHER_EVENT = replace(EVENT, content="Another")
SESSION = make_session("chat:1")
TURN = make_turn(0, "chat:1")
NOTES = "memory/records/notes.md"
PARAGRAPH = make_paragraph(1, "First")


def write_unrecorded(edited_folder: EditedFolder) -> None:
    """Write the files of all changes, and lose what `files.db` was told of it."""
    database = edited_folder.root / "files.db"
    edited_folder.state.known()  # so that there is one
    edited_folder.state.close()
    before = database.read_bytes()
    edited_folder.reopen()
    edited_folder.mirror.write()
    edited_folder.state.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    database.write_bytes(before)
    edited_folder.reopen()


def write_without_sessions(edited_folder: EditedFolder) -> None:
    """Write the files on a disk without room for those of sessions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", failing_below(edited_folder.root / "sessions", errno.ENOSPC))
        edited_folder.mirror.write(retry=False)


STATES: list[list[Value | None]] = [
    [NOTE, ARCHIVED, replace(NOTE, pinned=True), replace(NOTE, category="else")],
    [PAGE, make_page("# Memory\n- one\n- two\n"), make_page("# Memory\n- two\n"), None],
    [EVENT, replace(EVENT, archived_at=NOW, archive_reason="old"), replace(EVENT, pinned=True), OTHER_EVENT],
    [PARAGRAPH, replace(PARAGRAPH, content="Changed"), None, PARAGRAPH],
    [SESSION, replace(SESSION, summary="Talk"), replace(SESSION, metadata={"a": "1"}), SESSION],
    [TURN, replace(TURN, content="Changed"), replace(TURN, metadata={"a": "1"}), TURN],
]
STEPS: dict[str, Callable[[EditedFolder], object]] = {
    "write": lambda folder: folder.mirror.write(),
    "write without sessions": write_without_sessions,
    "write unrecorded": write_unrecorded,
    "take in": lambda folder: folder.importer.take_in(),
    "nothing": lambda folder: None,
}


@pytest.mark.parametrize("layout", ["pages", "records"])
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from(sorted(STEPS))), max_size=12
    )
)
def test_nobody_edits_whatever_is_recorded_and_whenever_files_are_examined(
    changes: list[tuple[int, int, str]], layout: Layout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("memory")
    try:
        with open_edited_folder(root, layout) as folder:
            now: list[Value | None] = [each[0] for each in STATES]
            folder.add(*(value for value in now if value is not None))
            for which, number, step in changes:
                value = STATES[which][number]
                if value != now[which]:
                    folder.commit(Change(before=now[which], after=value), mirrored=False)
                    now[which] = value
                STEPS[step](folder)
            folder.sync()
            folder.sync()
            assert folder.list_hand_edits() == []
            stems = [build_stem(value, layout) if isinstance(value, Record) else None for value in now]
            assert folder.files() == sorted(
                {
                    build_path(value) if stem is None else f"{stem}.md"
                    for value, stem in zip(now, stems, strict=True)
                    if value is not None
                }
            )
            folder.assert_settled()
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("room", [1, 40, 90])
def test_half_a_line_that_a_process_was_killed_in_is_no_new_record(folder: EditedFolder, room: int) -> None:
    folder.add(NOTE)
    folder.add(make_note(3))
    size = folder.path(NOTES).stat().st_size
    folder.add(make_note(4), mirrored=False)
    write_unrecorded(folder)
    folder.write(NOTES, folder.path(NOTES).read_bytes()[: size + room])
    soon = time.time() + 1.5  # so it need not be waited for, and is as soon after the last addition
    os.utime(folder.path(NOTES), (soon, soon))
    assert folder.importer.take_in().taken == []
    folder.settle()
    assert_files_match(folder)


def test_what_was_replaced_before_the_state_was_lost_takes_away_nothing(folder: EditedFolder) -> None:
    folder.add(NOTE)
    before = folder.read(NOTES)
    folder.add(make_note(3))
    folder.lose_state()
    folder.slip_in(NOTES, before)  # as a process leaves it that is killed just then
    folder.mirror.write()
    folder.settle()
    assert_files_match(folder)


def test_a_record_that_moves_when_not_all_first_writes_succeeded_is_on_one_page(folder: EditedFolder) -> None:
    folder.add(SESSION, NOTE, mirrored=False)
    write_without_sessions(folder)
    folder.change(NOTE, replace(NOTE, pinned=True), mirrored=False)
    write_unrecorded(folder)
    folder.change(replace(NOTE, pinned=True), replace(NOTE, category="else"), mirrored=False)
    write_without_sessions(folder)
    folder.settle()
    assert_files_match(folder)
