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
from tests.files.desk import Desk, desk_in, file_of, note

WAYS: tuple[Way, ...] = ("events", "polling")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "POLL_S", 0.05)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with desk_in(tmp_path / "memory") as opened:
        opened.add(note(1), Page(name="MEMORY.md", content="one\n", updated_at=NOW))
        yield opened


class Watched:
    """A desk that is watched, and what the watcher has told of."""

    def __init__(self, desk: Desk, way: Way | None) -> None:
        self.desk = desk
        self.told: list[HandEditReport] = []
        self.looks: list[Sequence[str] | None] = []
        self.looked = threading.Event()
        self.looking = False
        self.watcher = FolderWatcher(desk.root, self._take_in, tell=self.told.append, way=way)

    def _take_in(self, paths: Sequence[str] | None) -> HandEditReport:
        self.looks.append(paths)
        self.looking = True
        try:
            taken = self.desk.hands.take_in(paths)
            if taken:
                self.desk.mirror.write()
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
def test_an_edit_comes_in_at_once(desk: Desk, way: Way) -> None:
    with Watched(desk, way) as watched:
        assert watched.watcher.way == way
        desk.edit(file_of(1), content="Edited")
        watched.wait_for(lambda: desk.record(1).content == "Edited")
        watched.wait_for(lambda: watched.told)
        assert [taken.what for taken in watched.told[0].taken] == ["changed"]


@pytest.mark.parametrize("way", WAYS)
def test_files_added_moved_and_deleted_come_in_too(desk: Desk, way: Way) -> None:
    with Watched(desk, way) as watched:
        desk.write("memory/new/deep/er.json", '{"content": "New"}')
        watched.wait_for(lambda: len(desk.by_hand()) == 1)
        desk.path("memory/ideas").mkdir()
        desk.path(file_of(1)).rename(desk.path("memory/ideas/000000000001.json"))
        watched.wait_for(lambda: desk.record(1).category == "ideas")
        desk.path("memory/ideas/000000000001.json").unlink()
        watched.wait_for(lambda: desk.record(1).archived)
        desk.write("memory/MEMORY.md", "two\n")
        watched.wait_for(lambda: desk.store.pages()[0].content == "two\n")


def test_with_events_only_what_changed_is_looked_at_and_reading_is_no_change(desk: Desk) -> None:
    with Watched(desk, "events") as watched:
        time.sleep(0.5)
        assert watched.looks == [None]
        desk.edit(file_of(1), content="Edited")
        watched.wait_for(lambda: watched.told)
        time.sleep(0.5)  # the file was written again in our own form, of which the system tells too
        assert all(look is not None and set(look) == {file_of(1)} for look in watched.looks[1:])
        assert len(watched.looks) <= 4
        desk.path(file_of(1)).read_bytes()
        desk.files()
        before = len(watched.looks)
        time.sleep(0.5)
        assert len(watched.looks) == before


def test_a_folder_that_comes_back_is_watched_again(desk: Desk) -> None:
    with Watched(desk, "events") as watched:
        shutil.rmtree(desk.path("memory"))
        watched.wait_for(lambda: desk.path(file_of(1)).exists())
        time.sleep(0.3)
        desk.edit(file_of(1), content="Edited")
        watched.wait_for(lambda: desk.record(1).content == "Edited")
        assert not desk.record(1).archived


def test_what_is_broken_is_told_once(desk: Desk) -> None:
    with Watched(desk, "polling") as watched:
        desk.write(file_of(1), "{")
        watched.wait_for(lambda: watched.told)
        count = len(watched.looks)
        watched.wait_for(lambda: len(watched.looks) > count + 5)
        assert len(watched.told) == 1
        assert [problem.path for problem in watched.told[0].problems] == [file_of(1)]
        desk.write(file_of(1), json.dumps({"content": "Whole again"}))
        watched.wait_for(lambda: desk.record(1).content == "Whole again")


def test_without_the_package_it_looks_again_and_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, package: str | None = None) -> Any:
        if name.startswith("watchdog"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without)
    with Watched(desk, None) as watched:
        assert watched.watcher.way == "polling"
        desk.edit(file_of(1), content="Edited")
        watched.wait_for(lambda: desk.record(1).content == "Edited")


def test_where_the_system_refuses_it_looks_again_and_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from watchdog.observers import Observer

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(Observer, "schedule", refuse)
    with caplog.at_level(logging.WARNING, "reverie"), Watched(desk, None) as watched:
        assert watched.watcher.way == "polling"
        desk.edit(file_of(1), content="Edited")
        watched.wait_for(lambda: desk.record(1).content == "Edited")
    assert "watch limit" in caplog.text


def test_a_look_that_fails_is_made_again(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    tries = []

    def take_in(paths: Sequence[str] | None) -> HandEditReport:
        tries.append(paths)
        if len(tries) < 3:
            raise StoreUnavailable("the disk is full: make room")
        return HandEditReport()

    with caplog.at_level(logging.WARNING, "reverie"), FolderWatcher(desk.root, take_in, way="polling"):
        until = time.monotonic() + 20
        while len(tries) < 4 and time.monotonic() < until:
            time.sleep(0.01)
    assert len(tries) >= 4
    assert "the disk is full" in caplog.text


def test_it_stops_at_once_and_its_thread_ends(desk: Desk) -> None:
    before = threading.active_count()
    for way in WAYS:
        watcher = FolderWatcher(desk.root, lambda paths: HandEditReport(), way=way)
        watcher.start()
        with pytest.raises(RuntimeError, match="started already"):
            watcher.start()
        began = time.monotonic()
        watcher.stop()
        watcher.stop()
        assert time.monotonic() - began < 5
    assert threading.active_count() == before
