"""The folder as a whole: at every turn it says what the store says and gives what people wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from reverie import Memory, Settings
from reverie.domain.change import Change, JournalEntry
from reverie.domain.page import HISTORY
from reverie.files import folder
from reverie.files.folder import MemoryFolder
from reverie.files.mirror import writer
from reverie.stores.contract.factories import (
    NOW,
    make_additions,
    make_change,
    make_record,
    make_session,
    make_turn,
)
from reverie.stores.writer import StoreWriter
from tests.files.house import House, agree, expected, on_disk, page, paragraph, some_of_everything


class Home(House):
    """A memory's folder that is kept by a `MemoryFolder`."""

    def open(self) -> None:
        super().open()
        self.told: list[JournalEntry] = []
        self.folder = MemoryFolder(
            self.root, StoreWriter(store=self.store, clock=lambda: NOW, publish=self.told.extend)
        )

    def make(self, edits: Sequence[Change]) -> None:  # type: ignore[override]
        self.folder.notice(self.commit(edits))

    def close(self) -> None:
        self.folder.close()
        super().close()

    def edit(self, path: str, old: str, new: str) -> None:
        """As an editor that saves by renaming."""
        file = self.root / path
        text = file.read_text()
        assert old in text
        other = file.with_name(f".{file.name}.swp")
        other.write_text(text.replace(old, new))
        other.rename(file)

    def edit_in_place(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def content(self, number: int) -> str:
        (found,) = self.store.records([f"{number:012x}"])
        return found.content


def small(patch: pytest.MonkeyPatch) -> None:
    """All files are looked at at every turn."""
    patch.setattr(folder, "QUICK_S", 60.0)


def large(patch: pytest.MonkeyPatch) -> None:
    """As with very many files: all of them are looked at in the background only."""
    patch.setattr(folder, "QUICK_S", -1.0)
    patch.setattr(folder, "SHARE", 1e-6)


@pytest.fixture(params=[small, large])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    request.param(monkeypatch)
    opened = Home(tmp_path / "memory")
    some_of_everything(opened)
    opened.folder.sync(wait=False)
    assert opened.folder.flush()
    yield opened
    opened.close()


def test_nothing_is_touched_before_it_is_started(tmp_path: Path) -> None:
    home = Home(tmp_path / "memory")
    assert not (home.root / "files.db").exists()
    home.folder.start()
    assert sorted(os.listdir(home.root)) == sorted(
        name for name in os.listdir(home.root) if name.startswith(("reverie.db", "files.db"))
    )
    home.close()


def test_starting_writes_what_is_missing_and_takes_in_what_people_changed(tmp_path: Path) -> None:
    home = Home(tmp_path / "memory")
    some_of_everything(home)
    home.folder.close()
    home.edit("memory/000000000002.json", "Content of record 2", "Edited while nobody looked")
    home.commit(make_additions(make_record(30)))
    home.open()
    home.folder.start()
    assert home.content(2) == "Edited while nobody looked"
    agree(home)
    home.close()


def test_what_a_person_saves_is_there_at_the_next_turn(home: Home) -> None:
    home.edit("memory/MEMORY.md", "# Memory", "# My memory")
    home.edit("memory/000000000002.json", "Content of record 2", "By hand")
    home.folder.refresh()
    assert home.store.pages(["MEMORY.md"])[0].content == "# My memory\n"
    assert home.content(2) == "By hand"
    assert {row.actor for row in home.told} == {"owner, by hand"}
    agree(home)


def test_a_page_changed_in_place_is_seen_at_the_next_turn(home: Home) -> None:
    home.edit_in_place("memory/MEMORY.md", "# Memory", "# My memory")
    home.edit_in_place("memory/HISTORY.md", "Paragraph 1", "What happened first")
    home.folder.refresh()
    assert home.store.pages(["MEMORY.md"])[0].content == "# My memory\n"
    assert "What happened first" in home.store.paragraphs(page=HISTORY)[0].content
    agree(home)


def test_a_file_added_renamed_or_deleted_is_seen_at_the_next_turn(home: Home) -> None:
    home.make(make_additions(make_record(40, category="c"), make_record(41, category="c")))
    home.folder.refresh()
    fresh = home.root / "memory/new/by-hand.json"
    fresh.parent.mkdir()
    fresh.write_text(json.dumps({"content": "Written by hand"}))
    (home.root / "memory/000000000002.json").unlink()
    (home.root / "memory/c/000000000028.json").rename(home.root / "memory/a/000000000028.json")
    home.folder.refresh()
    (moved,) = home.store.records([f"{40:012x}"])
    (gone,) = home.store.records([f"{2:012x}"])
    assert moved.category == "a"
    assert gone.archived
    home.folder.refresh()  # a folder that has just come into being is looked into by now
    assert [
        r.content for r in home.store.records([p.stem for p in (home.root / "memory/new").iterdir()])
    ] == ["Written by hand"]
    agree(home)


def test_a_record_changed_in_place_is_seen_in_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.edit_in_place("memory/000000000002.json", "Content of record 2", "By hand")
    monkeypatch.setattr(folder, "SHARE", 1e6)  # so that it is time
    home.folder.refresh()
    assert home.folder.flush()
    assert home.content(2) == "By hand"
    agree(home)


def test_what_is_done_here_is_no_reason_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large(monkeypatch)
    home = Home(tmp_path / "memory")
    some_of_everything(home)
    home.folder.sync(wait=False)
    assert home.folder.flush()
    seen: list[object] = []
    monkeypatch.setattr(home.folder._hands, "take_in", seen.append)
    home.make(make_change(make_record(2), replace(make_record(2), content="Other")))
    home.make(make_additions(make_record(50)))
    home.make(make_change(make_record(50), make_record(50, category="a/b")))
    home.folder.refresh()
    assert seen == []
    (home.root / "memory/a/b/other.json").write_text("{}")
    home.folder.refresh()
    assert len(seen) == 1
    home.close()


def test_what_another_process_committed_and_did_not_write_is_written_at_the_next_turn(home: Home) -> None:
    home.commit(make_additions(make_record(60)))
    home.folder.refresh()
    agree(home)


@pytest.mark.parametrize("top", ["memory", "sessions"])
@pytest.mark.parametrize("how", ["refresh", "sync", "notice", "start"])
def test_a_folder_that_was_lost_is_written_again_and_nothing_is_archived(
    home: Home, top: str, how: str
) -> None:
    before = expected(home.store)
    shutil.rmtree(home.root / top)
    match how:
        case "refresh":
            home.folder.refresh()
        case "sync":
            home.folder.sync()
        case "notice":
            home.make(make_change(page(), page("else\n")))
            before["memory/MEMORY.md"] = b"else\n"
        case _:
            home.folder.close()
            home.open()
            home.folder.start()
    home.folder.flush()
    assert on_disk(home.root) == before
    agree(home)


def test_a_state_that_was_removed_costs_no_edit_and_no_record(home: Home) -> None:
    home.edit("memory/000000000002.json", "Content of record 2", "By hand")
    for name in ("files.db", "files.db-wal", "files.db-shm"):
        (home.root / name).unlink()
    home.folder.refresh()
    home.folder.flush()
    home.folder.sync()
    assert home.content(2) == "By hand"
    agree(home)


def test_a_broken_file_is_a_problem_until_it_is_mended(home: Home) -> None:
    good = home.read("memory/000000000002.json").decode()
    home.edit("memory/000000000002.json", good, good[:-20])
    home.folder.refresh()
    assert ["000000000002.json" in problem.what for problem in home.folder.problems()] == [True]
    home.make(make_change(make_record(2), replace(make_record(2), importance=0.9)))
    assert home.read("memory/000000000002.json").decode() == good[:-20]
    home.edit("memory/000000000002.json", good[:-20], good.replace("record 2", "record two"))
    home.folder.refresh()
    assert home.folder.problems() == []
    (mended,) = home.store.records([make_record(2).id])
    assert (mended.content, mended.importance) == ("Content of record two", 0.9)
    agree(home)


def test_a_failed_write_is_a_problem_until_it_is_made_good(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_CREAT and "/memory/.reverie/" in os.fspath(path):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    home.make(make_additions(make_record(70)))
    assert home.folder.failed == 1
    (problem,) = home.folder.problems()
    assert "memory/000000000046.json" in problem.what
    assert "Permission denied" in problem.what
    monkeypatch.setattr(os, "open", real)
    home.make(make_additions(make_record(71)))
    assert (home.folder.failed, home.folder.problems()) == (0, [])
    home.folder.sync()
    agree(home)


def test_what_both_sides_changed_is_a_conflict_and_both_are_kept(home: Home) -> None:
    home.edit("memory/000000000002.json", "Content of record 2", "By hand")
    home.make(make_change(make_record(2), replace(make_record(2), content="By the program")))
    home.folder.sync()
    (conflict,) = home.folder.conflicts()
    assert home.content(2) == "By hand"
    assert "By the program" in (home.root / conflict.path).read_text()
    (home.root / conflict.path).unlink()
    home.folder.sync()
    assert home.folder.conflicts() == []
    agree(home)


# -- the background ----------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Much to be written is more than ten changes; each batch waits to be let on."""
    monkeypatch.setattr(folder, "AT_ONCE", 10)
    monkeypatch.setattr(writer, "AT_ONCE", 10)
    monkeypatch.setattr(writer, "_BATCH", 5)
    monkeypatch.setattr(folder, "_BATCHES", 1)
    gate = threading.Semaphore(0)
    real = writer.MirrorWriter._follow

    def follow(self: writer.MirrorWriter, *args: object) -> bool:
        if threading.current_thread().name == "reverie-files":
            gate.acquire(timeout=20)
        return real(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(writer.MirrorWriter, "_follow", follow)

    def let_on() -> None:
        gate.release(1_000)

    return let_on


def test_much_that_is_missing_is_written_in_the_background(tmp_path: Path, slow: Callable[[], None]) -> None:
    home = Home(tmp_path / "memory")
    for number in range(1, 60):
        home.commit(make_additions(make_record(number)))
    home.folder.start()
    assert not home.folder.flush(0.01)
    home.make(make_additions(make_record(100)))  # does not wait
    home.folder.refresh()
    slow()
    assert home.folder.flush()
    agree(home)
    home.close()


def test_closing_does_not_wait_for_all_of_it_and_the_next_goes_on(
    tmp_path: Path, slow: Callable[[], None]
) -> None:
    home = Home(tmp_path / "memory")
    for number in range(1, 200):
        home.commit(make_additions(make_record(number)))
    home.folder.start()
    time.sleep(0.05)
    closing = threading.Thread(target=home.folder.close)
    closing.start()
    time.sleep(0.05)
    slow()
    closing.join(30)
    assert not closing.is_alive()
    assert len(on_disk(home.root)) < 100
    home.make(make_additions(make_record(500)))  # after closing, nothing happens
    home.folder.refresh()
    home.folder.sync()
    home.open()
    home.folder.start()
    assert home.folder.flush()
    agree(home)
    home.close()


def test_there_is_no_thread_when_there_is_nothing_to_do(home: Home) -> None:
    home.folder.sync(wait=False)
    assert home.folder.flush()
    deadline = time.monotonic() + 10
    while any(thread.name == "reverie-files" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_store_that_is_closed_costs_no_exception(tmp_path: Path) -> None:
    home = Home(tmp_path / "memory")
    some_of_everything(home)
    home.store.close()
    home.folder.refresh()
    home.folder.sync()
    assert home.folder.problems()
    home.close()


# -- several at once ---------------------------------------------------------------------------------------


def test_threads_that_change_read_and_edit_at_once_lose_nothing(home: Home) -> None:
    errors: list[BaseException] = []

    def change(name: int) -> None:
        try:
            for number in range(25):
                home.make(make_additions(make_record(1_000 * name + number, category=f"c{number % 3}")))
                home.folder.refresh()
        except BaseException as error:
            errors.append(error)
            raise

    def write() -> None:
        for number in range(25):
            (home.root / f"memory/by-hand-{number}.json").write_text(
                json.dumps({"content": f"Hand {number}"})
            )
            time.sleep(0.005)

    threads = [threading.Thread(target=change, args=(name,)) for name in (1, 2, 3)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    home.folder.sync()
    assert errors == []
    contents = {
        json.loads(data)["content"] for path, data in on_disk(home.root).items() if path.endswith(".json")
    }
    assert {f"Hand {number}" for number in range(25)} <= contents
    agree(home)


def test_two_memories_in_one_process_share_a_folder(home: Home) -> None:
    other = Home(home.root)
    other.folder.start()
    other.make(make_additions(make_record(80)))
    home.make(make_additions(make_record(81)))
    other.edit("memory/MEMORY.md", "# Memory", "# Shared")
    home.folder.refresh()
    assert other.store.pages()[0].content == "# Shared\n"
    agree(home)
    agree(other)
    other.close()


def test_a_fork_leaves_both_processes_with_a_folder_that_works(tmp_path: Path) -> None:
    script = f"""
        import os, sys
        from pathlib import Path
        sys.path.insert(0, {os.fspath(Path(__file__).parents[2])!r})
        from tests.files.test_folder import Home
        from reverie.stores.contract.factories import make_additions, make_record
        home = Home(Path({os.fspath(tmp_path / "memory")!r}))
        home.folder.start()
        home.make(make_additions(make_record(1)))
        home.folder.sync(wait=False)
        for number in range(5):
            child = os.fork()
            if child == 0:
                home.make(make_additions(make_record(100 + number)))
                home.folder.refresh()
                home.folder.sync(wait=False)
                assert home.folder.flush(20)
                home.folder.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            home.make(make_additions(make_record(200 + number)))
        home.folder.sync()
        home.close()
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    home = Home(tmp_path / "memory")
    agree(home)
    assert len(on_disk(home.root)) == 11
    home.close()


def test_turns_of_two_processes_stand_once_each(home: Home) -> None:
    home.make(make_additions(make_session("s"), make_turn(0, "s")))
    other = Home(home.root)
    for number in range(1, 20):
        (home if number % 2 else other).make(make_additions(make_turn(number, "s")))
    agree(home)
    home.make(make_additions(paragraph(90)))
    other.make(make_additions(paragraph(91)))
    agree(other)
    other.close()


def test_a_memory_may_keep_no_files_and_begin_with_them_later(tmp_path: Path) -> None:
    with Memory.open(tmp_path, settings=Settings(files=False)) as memory:
        memory.save("Prefers short answers", category="style")
        memory.session("telegram:1").add("user", "Hello")
        assert memory.folder is None
    assert not {"memory", "sessions", "files.db"} & set(os.listdir(tmp_path))
    with Memory.open(tmp_path) as memory:
        assert memory.folder is not None
        (path,) = (path for path in on_disk(tmp_path) if path.startswith("memory/style/"))
        assert "sessions/telegram:1.jsonl" in on_disk(tmp_path)
        memory.update(Path(path).stem, content="Prefers long answers")
        assert b"Prefers long answers" in on_disk(tmp_path)[path]
    with Memory.open(tmp_path, settings=Settings(files=False)) as memory:
        memory.update(Path(path).stem, content="Prefers no answers")
    assert b"Prefers long answers" in on_disk(tmp_path)[path]
    with Memory.open(tmp_path):
        assert b"Prefers no answers" in on_disk(tmp_path)[path]
