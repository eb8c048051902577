"""Edits come in soon where somebody watches."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reverie.domain.errors import StoreUnavailable
from reverie.domain.page import Page
from reverie.files import folder as folders
from reverie.files.folder import FolderWatcher
from reverie.files.hand_edits.intake import HandEditReport
from tests.files.hand_edit_fixture import EditedFolder, build_note_path, make_note, open_edited_folder
from tests.support.contract.factories import NOW


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "POLL_S", 0.05)


@pytest.fixture
def edited_folder(tmp_path: Path) -> Iterator[EditedFolder]:
    with open_edited_folder(tmp_path / "memory") as opened:
        opened.add(make_note(1), Page(name="MEMORY.md", content="one\n", updated_at=NOW))
        yield opened


class Watched:
    """A folder that is watched, and the reports of its watcher."""

    def __init__(self, edited_folder: EditedFolder) -> None:
        self.edited_folder = edited_folder
        self.told: list[HandEditReport] = []
        self.looks = 0
        self.looked = threading.Event()
        self.looking = False
        self.watcher = FolderWatcher(self._take_in, tell=self.told.append)

    def _take_in(self) -> HandEditReport:
        self.looks += 1
        self.looking = True
        try:
            taken = self.edited_folder.importer.take_in()
            if taken:
                self.edited_folder.mirror.write()
        finally:
            self.looking = False
        self.looked.set()
        return taken

    def __enter__(self) -> Watched:
        self.watcher.start()
        assert self.looked.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.watcher.stop()

    def wait_for(self, what: Any, seconds: float = 20.0) -> None:
        """Wait until something holds, and the files say so too: no look is under way."""
        until = time.monotonic() + seconds
        while not what() or self.looking:
            assert time.monotonic() < until, "it was not taken in"
            time.sleep(0.01)


def test_an_edit_comes_in_at_once(edited_folder: EditedFolder) -> None:
    with Watched(edited_folder) as watched:
        edited_folder.edit(build_note_path(1), content="Edited")
        watched.wait_for(lambda: edited_folder.record(1).content == "Edited")
        watched.wait_for(lambda: watched.told)
        assert [taken.what for taken in watched.told[0].taken] == ["changed"]


def test_what_is_broken_is_told_once(edited_folder: EditedFolder) -> None:
    with Watched(edited_folder) as watched:
        edited_folder.write(build_note_path(1), "{")
        watched.wait_for(lambda: watched.told)
        count = watched.looks
        watched.wait_for(lambda: watched.looks > count + 5)
        assert len(watched.told) == 1
        assert [problem.path for problem in watched.told[0].problems] == [build_note_path(1)]
        edited_folder.write(build_note_path(1), json.dumps({"content": "Whole again"}))
        watched.wait_for(lambda: edited_folder.record(1).content == "Whole again")


def test_a_look_that_fails_is_made_again(
    edited_folder: EditedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def take_in() -> HandEditReport:
        tries.append(1)
        if len(tries) < 3:
            raise StoreUnavailable("the disk is full: make room")
        return HandEditReport()

    with (
        caplog.at_level(logging.WARNING, "reverie"),
        FolderWatcher(take_in),
    ):
        until = time.monotonic() + 20
        while len(tries) < 4 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(tries) >= 4
    assert "the disk is full" in caplog.text


def test_it_stops_at_once_and_its_thread_ends(edited_folder: EditedFolder) -> None:
    before = threading.active_count()
    watcher = FolderWatcher(HandEditReport)
    watcher.start()
    with pytest.raises(RuntimeError, match="started already"):
        watcher.start()
    watcher.stop()
    watcher.stop()
    assert threading.active_count() == before
