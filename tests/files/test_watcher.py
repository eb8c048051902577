"""Edits come in at once where somebody watches, with the system's help or without."""

from __future__ import annotations

import importlib
import json
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from reverie.domain.errors import StoreUnavailable
from reverie.domain.page import Page
from reverie.files import watcher
from reverie.files.hand_edits.importer import HandEditReport
from reverie.files.watcher import LOOK_EVERY_S, FolderWatcher, Way
from reverie.stores.contract.factories import NOW
from tests.files.hand_edit_fixture import EditedFolder, build_note_path, make_note, open_edited_folder

WAYS: tuple[Way, ...] = ("events", "polling")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "POLL_S", 0.05)


@pytest.fixture
def edited_folder(tmp_path: Path) -> Iterator[EditedFolder]:
    with open_edited_folder(tmp_path / "memory") as opened:
        opened.add(make_note(1), Page(name="MEMORY.md", content="one\n", updated_at=NOW))
        yield opened


class Watched:
    """A folder that is watched, and the reports of its watcher."""

    def __init__(self, edited_folder: EditedFolder, way: Way | None) -> None:
        self.edited_folder = edited_folder
        self.told: list[HandEditReport] = []
        self.looks: list[Sequence[str] | None] = []
        self.looked = threading.Event()
        self.looking = False
        self.watcher = FolderWatcher(edited_folder.root, self._take_in, tell=self.told.append, way=way)

    def _take_in(self, paths: Sequence[str] | None) -> HandEditReport:
        self.looks.append(paths)
        self.looking = True
        try:
            taken = self.edited_folder.importer.take_in(paths)
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

    def wait_for(self, what: Any, seconds: float = LOOK_EVERY_S + 20.0) -> None:
        """Wait until something holds, and the files say so too: no look is under way."""
        until = time.monotonic() + seconds
        while not what() or self.looking:
            assert time.monotonic() < until, "it was not taken in"
            time.sleep(0.01)


@pytest.mark.parametrize("way", WAYS)
def test_an_edit_comes_in_at_once(edited_folder: EditedFolder, way: Way) -> None:
    with Watched(edited_folder, way) as watched:
        assert watched.watcher.way == way
        edited_folder.edit(build_note_path(1), content="Edited")
        watched.wait_for(lambda: edited_folder.record(1).content == "Edited")
        watched.wait_for(lambda: watched.told)
        assert [taken.what for taken in watched.told[0].taken] == ["changed"]


@pytest.mark.parametrize("way", WAYS)
def test_files_added_moved_and_deleted_come_in_too(edited_folder: EditedFolder, way: Way) -> None:
    with Watched(edited_folder, way) as watched:
        edited_folder.write("memory/new/deep/er.json", '{"content": "New"}')
        watched.wait_for(lambda: len(edited_folder.list_hand_edits()) == 1)
        edited_folder.path("memory/ideas").mkdir()
        edited_folder.path(build_note_path(1)).rename(edited_folder.path("memory/ideas/000000000001.json"))
        watched.wait_for(lambda: edited_folder.record(1).category == "ideas")
        edited_folder.path("memory/ideas/000000000001.json").unlink()
        watched.wait_for(lambda: edited_folder.record(1).archived)
        edited_folder.write("memory/MEMORY.md", "two\n")
        watched.wait_for(lambda: edited_folder.store.pages()[0].content == "two\n")


@pytest.mark.slow
def test_with_events_only_what_changed_is_looked_at_and_reading_is_no_change(
    edited_folder: EditedFolder,
) -> None:
    with Watched(edited_folder, "events") as watched:
        time.sleep(0.5)
        assert watched.looks == [None]
        edited_folder.edit(build_note_path(1), content="Edited")
        watched.wait_for(lambda: watched.told)
        time.sleep(0.5)  # the file was written again in our own form, of which the system tells too
        assert all(look is not None and set(look) == {build_note_path(1)} for look in watched.looks[1:])
        assert len(watched.looks) <= 4
        edited_folder.path(build_note_path(1)).read_bytes()
        edited_folder.files()
        before = len(watched.looks)
        time.sleep(0.5)
        assert len(watched.looks) == before


def test_a_folder_that_comes_back_is_watched_again(edited_folder: EditedFolder) -> None:
    with Watched(edited_folder, "events") as watched:
        shutil.rmtree(edited_folder.path("memory"))
        watched.wait_for(lambda: edited_folder.path(build_note_path(1)).exists())
        time.sleep(0.3)
        edited_folder.edit(build_note_path(1), content="Edited")
        watched.wait_for(lambda: edited_folder.record(1).content == "Edited")
        assert not edited_folder.record(1).archived


def test_what_is_broken_is_told_once(edited_folder: EditedFolder) -> None:
    with Watched(edited_folder, "polling") as watched:
        edited_folder.write(build_note_path(1), "{")
        watched.wait_for(lambda: watched.told)
        count = len(watched.looks)
        watched.wait_for(lambda: len(watched.looks) > count + 5)
        assert len(watched.told) == 1
        assert [problem.path for problem in watched.told[0].problems] == [build_note_path(1)]
        edited_folder.write(build_note_path(1), json.dumps({"content": "Whole again"}))
        watched.wait_for(lambda: edited_folder.record(1).content == "Whole again")


def test_without_the_package_it_looks_again_and_again(
    edited_folder: EditedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name.startswith("watchdog"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with Watched(edited_folder, None) as watched:
        assert watched.watcher.way == "polling"
        edited_folder.edit(build_note_path(1), content="Edited")
        watched.wait_for(lambda: edited_folder.record(1).content == "Edited")


def test_where_the_system_refuses_it_looks_again_and_again(
    edited_folder: EditedFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from watchdog.observers import Observer

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(Observer, "schedule", refuse)
    with caplog.at_level(logging.WARNING, "reverie"), Watched(edited_folder, None) as watched:
        assert watched.watcher.way == "polling"
        edited_folder.edit(build_note_path(1), content="Edited")
        watched.wait_for(lambda: edited_folder.record(1).content == "Edited")
    assert "watch limit" in caplog.text


def test_a_look_that_fails_is_made_again(
    edited_folder: EditedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    tries = []

    def take_in(paths: Sequence[str] | None) -> HandEditReport:
        tries.append(paths)
        if len(tries) < 3:
            raise StoreUnavailable("the disk is full: make room")
        return HandEditReport()

    with (
        caplog.at_level(logging.WARNING, "reverie"),
        FolderWatcher(edited_folder.root, take_in, way="polling"),
    ):
        until = time.monotonic() + 20
        while len(tries) < 4 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(tries) >= 4
    assert "the disk is full" in caplog.text


def test_it_stops_at_once_and_its_thread_ends(edited_folder: EditedFolder) -> None:
    before = threading.active_count()
    for way in WAYS:
        watcher = FolderWatcher(edited_folder.root, lambda paths: HandEditReport(), way=way)
        watcher.start()
        with pytest.raises(RuntimeError, match="started already"):
            watcher.start()
        watcher.stop()
        watcher.stop()
    assert threading.active_count() == before
