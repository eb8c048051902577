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
from typing import Any

import pytest

from reverie import Memory, Settings
from reverie.domain.change import Change, JournalEntry
from reverie.domain.page import HISTORY
from reverie.files import folder
from reverie.files.disk.state import FileState
from reverie.files.folder import MemoryFolder
from reverie.files.mirror import writer
from reverie.stores.contract.factories import (
    NOW,
    make_additions,
    make_change,
    make_record,
    make_removals,
    make_session,
    make_turn,
)
from reverie.stores.writer import StoreWriter
from tests.files.mirror_fixture import (
    MirroredFolder,
    assert_files_match,
    make_page,
    make_paragraph,
    read_all_files,
    render_all_files,
    write_samples,
)


class KeptFolder(MirroredFolder):
    """A memory's folder that is kept by a `MemoryFolder`."""

    def open(self) -> None:
        super().open()
        self.told: list[JournalEntry] = []
        self.folder = MemoryFolder(
            self.root, StoreWriter(store=self.store, clock=lambda: NOW, publish=self.told.extend)
        )

    def commit_and_mirror(self, edits: Sequence[Change]) -> None:  # type: ignore[override]
        """Change the store and have the files written now."""
        self.change_store(edits)
        self.folder.flush()

    def change_store(self, edits: Sequence[Change]) -> None:
        """Change the store; the files follow."""
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
    patch.setattr(folder, "FREE_S", 60.0)
    patch.setattr(folder, "QUICK_S", 60.0)


def middle(patch: pytest.MonkeyPatch) -> None:
    """As with a thousand files: all of them are looked at by a turn, but not by every turn."""
    patch.setattr(folder, "FREE_S", -1.0)
    patch.setattr(folder, "QUICK_S", 60.0)
    patch.setattr(folder, "SHARE", 1e-6)


def large(patch: pytest.MonkeyPatch) -> None:
    """As with very many files: all of them are looked at in the background only."""
    patch.setattr(folder, "FREE_S", -1.0)
    patch.setattr(folder, "QUICK_S", -1.0)
    patch.setattr(folder, "SHARE", 1e-6)


@pytest.fixture(params=[small, middle, large])
def kept_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KeptFolder]:
    request.param(monkeypatch)
    opened = KeptFolder(tmp_path / "memory")
    write_samples(opened)
    opened.folder.sync(wait=False)
    assert opened.folder.flush()
    yield opened
    opened.close()


def test_nothing_is_touched_before_it_is_started(tmp_path: Path) -> None:
    kept_folder = KeptFolder(tmp_path / "memory")
    assert not (kept_folder.root / "files.db").exists()
    kept_folder.folder.start()
    assert sorted(os.listdir(kept_folder.root)) == sorted(
        name for name in os.listdir(kept_folder.root) if name.startswith(("reverie.db", "files.db"))
    )
    kept_folder.close()


def test_starting_writes_what_is_missing_and_takes_in_what_people_changed(tmp_path: Path) -> None:
    kept_folder = KeptFolder(tmp_path / "memory")
    write_samples(kept_folder)
    kept_folder.folder.close()
    kept_folder.edit("memory/000000000002.json", "Content of record 2", "Edited while nobody looked")
    kept_folder.commit(make_additions(make_record(30)))
    kept_folder.open()
    kept_folder.folder.start()
    assert kept_folder.content(2) == "Edited while nobody looked"
    assert_files_match(kept_folder)
    kept_folder.close()


def test_what_a_person_saves_is_there_at_the_next_turn(kept_folder: KeptFolder) -> None:
    kept_folder.edit("memory/MEMORY.md", "# Memory", "# My memory")
    kept_folder.edit("memory/000000000002.json", "Content of record 2", "By hand")
    kept_folder.folder.refresh()
    assert kept_folder.store.pages(["MEMORY.md"])[0].content == "# My memory\n"
    assert kept_folder.content(2) == "By hand"
    assert {row.actor for row in kept_folder.told} == {"owner, by hand"}
    assert_files_match(kept_folder)


def test_a_page_changed_in_place_is_seen_at_the_next_turn(kept_folder: KeptFolder) -> None:
    kept_folder.edit_in_place("memory/MEMORY.md", "# Memory", "# My memory")
    kept_folder.edit_in_place("memory/HISTORY.md", "Paragraph 1", "What happened first")
    kept_folder.folder.refresh()
    assert kept_folder.store.pages(["MEMORY.md"])[0].content == "# My memory\n"
    assert "What happened first" in kept_folder.store.paragraphs(page=HISTORY)[0].content
    assert_files_match(kept_folder)


def test_a_file_added_renamed_or_deleted_is_seen_at_the_next_turn(kept_folder: KeptFolder) -> None:
    kept_folder.commit_and_mirror(
        make_additions(make_record(40, category="c"), make_record(41, category="c"))
    )
    kept_folder.folder.refresh()
    fresh = kept_folder.root / "memory/new/by-hand.json"
    fresh.parent.mkdir()
    fresh.write_text(json.dumps({"content": "Written by hand"}))
    (kept_folder.root / "memory/000000000002.json").unlink()
    (kept_folder.root / "memory/c/000000000028.json").rename(kept_folder.root / "memory/a/000000000028.json")
    kept_folder.folder.refresh()
    (moved,) = kept_folder.store.records([f"{40:012x}"])
    (gone,) = kept_folder.store.records([f"{2:012x}"])
    assert moved.category == "a"
    assert gone.archived
    kept_folder.folder.refresh()  # a folder that has just come into being is looked into by now
    assert [
        r.content
        for r in kept_folder.store.records([p.stem for p in (kept_folder.root / "memory/new").iterdir()])
    ] == ["Written by hand"]
    assert_files_match(kept_folder)


def test_a_record_changed_in_place_is_seen_in_time(
    kept_folder: KeptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_folder.edit_in_place("memory/000000000002.json", "Content of record 2", "By hand")
    monkeypatch.setattr(folder, "SHARE", 1e6)  # so that it is time
    kept_folder.folder.refresh()
    assert kept_folder.folder.flush()
    assert kept_folder.content(2) == "By hand"
    assert_files_match(kept_folder)


@pytest.mark.parametrize("many", [middle, large])
def test_what_is_done_here_is_no_reason_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: Callable[[pytest.MonkeyPatch], None]
) -> None:
    many(monkeypatch)
    kept_folder = KeptFolder(tmp_path / "memory")
    write_samples(kept_folder)
    kept_folder.folder.sync(wait=False)
    assert kept_folder.folder.flush()
    seen: list[object] = []
    monkeypatch.setattr(kept_folder.folder._hands, "take_in", seen.append)
    kept_folder.commit_and_mirror(make_change(make_record(2), replace(make_record(2), content="Other")))
    kept_folder.commit_and_mirror(make_additions(make_record(50)))
    kept_folder.commit_and_mirror(make_change(make_record(50), make_record(50, category="a/b")))
    kept_folder.folder.refresh()
    assert seen == []
    (kept_folder.root / "memory/a/b/other.json").write_text("{}")
    kept_folder.folder.refresh()
    assert len(seen) == 1
    kept_folder.close()


def test_what_another_process_committed_and_did_not_write_is_written_at_the_next_turn(
    kept_folder: KeptFolder,
) -> None:
    kept_folder.commit(make_additions(make_record(60)))
    kept_folder.folder.refresh()
    assert kept_folder.folder.flush()
    assert_files_match(kept_folder)


@pytest.mark.parametrize("top", ["memory", "sessions"])
@pytest.mark.parametrize("how", ["refresh", "sync", "notice", "start"])
def test_a_folder_that_was_lost_is_written_again_and_nothing_is_archived(
    kept_folder: KeptFolder, top: str, how: str
) -> None:
    before = render_all_files(kept_folder.store)
    shutil.rmtree(kept_folder.root / top)
    match how:
        case "refresh":
            kept_folder.folder.refresh()
        case "sync":
            kept_folder.folder.sync()
        case "notice":
            kept_folder.commit_and_mirror(make_change(make_page(), make_page("else\n")))
            before["memory/MEMORY.md"] = b"else\n"
        case _:
            kept_folder.folder.close()
            kept_folder.open()
            kept_folder.folder.start()
    kept_folder.folder.flush()
    assert read_all_files(kept_folder.root) == before
    assert_files_match(kept_folder)


def test_a_state_that_was_removed_costs_no_edit_and_no_record(kept_folder: KeptFolder) -> None:
    kept_folder.edit("memory/000000000002.json", "Content of record 2", "By hand")
    for name in ("files.db", "files.db-wal", "files.db-shm"):
        (kept_folder.root / name).unlink()
    kept_folder.folder.refresh()
    kept_folder.folder.flush()
    kept_folder.folder.sync()
    assert kept_folder.content(2) == "By hand"
    assert_files_match(kept_folder)


def test_a_broken_file_is_a_problem_until_it_is_mended(kept_folder: KeptFolder) -> None:
    good = kept_folder.read("memory/000000000002.json").decode()
    kept_folder.edit("memory/000000000002.json", good, good[:-20])
    kept_folder.folder.refresh()
    assert ["000000000002.json" in problem.what for problem in kept_folder.folder.problems()] == [True]
    kept_folder.commit_and_mirror(make_change(make_record(2), replace(make_record(2), importance=0.9)))
    assert kept_folder.read("memory/000000000002.json").decode() == good[:-20]
    kept_folder.edit("memory/000000000002.json", good[:-20], good.replace("record 2", "record two"))
    kept_folder.folder.refresh()
    assert kept_folder.folder.problems() == []
    (mended,) = kept_folder.store.records([make_record(2).id])
    assert (mended.content, mended.importance) == ("Content of record two", 0.9)
    assert_files_match(kept_folder)


def test_a_failed_write_is_a_problem_until_it_is_made_good(
    kept_folder: KeptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_CREAT and "/memory/.reverie/" in os.fspath(path):
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    kept_folder.commit_and_mirror(make_additions(make_record(70)))
    assert kept_folder.folder.failed == 1
    (problem,) = kept_folder.folder.problems()
    assert "memory/000000000046.json" in problem.what
    assert "Permission denied" in problem.what
    monkeypatch.setattr(os, "open", real)
    kept_folder.commit_and_mirror(make_additions(make_record(71)))
    assert (kept_folder.folder.failed, kept_folder.folder.problems()) == (0, [])
    kept_folder.folder.sync()
    assert_files_match(kept_folder)


def test_what_both_sides_changed_is_a_conflict_and_both_are_kept(kept_folder: KeptFolder) -> None:
    kept_folder.edit("memory/000000000002.json", "Content of record 2", "By hand")
    kept_folder.commit_and_mirror(
        make_change(make_record(2), replace(make_record(2), content="By the program"))
    )
    kept_folder.folder.sync()
    (conflict,) = kept_folder.folder.conflicts()
    assert kept_folder.content(2) == "By hand"
    assert "By the program" in (kept_folder.root / conflict.path).read_text()
    (kept_folder.root / conflict.path).unlink()
    kept_folder.folder.sync()
    assert kept_folder.folder.conflicts() == []
    assert_files_match(kept_folder)


# -- the background ----------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Much to be written is more than ten changes; each batch waits to be let on."""
    monkeypatch.setattr(folder, "AT_ONCE", 10)
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
    kept_folder = KeptFolder(tmp_path / "memory")
    for number in range(1, 60):
        kept_folder.commit(make_additions(make_record(number)))
    kept_folder.folder.start()
    assert not kept_folder.folder.flush(0.01)
    kept_folder.commit_and_mirror(make_additions(make_record(100)))  # does not wait
    kept_folder.folder.refresh()
    slow()
    assert kept_folder.folder.flush()
    assert_files_match(kept_folder)
    kept_folder.close()


def test_closing_does_not_wait_for_all_of_it_and_the_next_goes_on(
    tmp_path: Path, slow: Callable[[], None]
) -> None:
    kept_folder = KeptFolder(tmp_path / "memory")
    for number in range(1, 200):
        kept_folder.commit(make_additions(make_record(number)))
    kept_folder.folder.start()
    time.sleep(0.05)
    closing = threading.Thread(target=kept_folder.folder.close)
    closing.start()
    time.sleep(0.05)
    slow()
    closing.join(30)
    assert not closing.is_alive()
    assert len(read_all_files(kept_folder.root)) < 100
    kept_folder.commit_and_mirror(make_additions(make_record(500)))  # after closing, nothing happens
    kept_folder.folder.refresh()
    kept_folder.folder.sync()
    kept_folder.open()
    kept_folder.folder.start()
    assert kept_folder.folder.flush()
    assert_files_match(kept_folder)
    kept_folder.close()


def test_there_is_no_thread_when_there_is_nothing_to_do(kept_folder: KeptFolder) -> None:
    kept_folder.folder.sync(wait=False)
    assert kept_folder.folder.flush()
    deadline = time.monotonic() + 10
    while any(thread.name == "reverie-files" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_store_that_is_closed_costs_no_exception(tmp_path: Path) -> None:
    kept_folder = KeptFolder(tmp_path / "memory")
    write_samples(kept_folder)
    kept_folder.store.close()
    kept_folder.folder.refresh()
    kept_folder.folder.sync()
    assert kept_folder.folder.problems()
    kept_folder.close()


# -- files follow behind -----------------------------------------------------------------------------------


@pytest.fixture
def late(kept_folder: KeptFolder, monkeypatch: pytest.MonkeyPatch) -> KeptFolder:
    """A folder whose files are not written before somebody asks for them."""
    monkeypatch.setattr(folder, "DELAY_S", 600.0)
    return kept_folder


def test_a_change_does_not_wait_for_its_file_which_follows_by_itself(kept_folder: KeptFolder) -> None:
    began = time.monotonic()
    with kept_folder.state.lock():  # nobody can write files now
        kept_folder.change_store(make_additions(make_record(60)))
        assert time.monotonic() - began < folder.DELAY_S * 50
        assert not (kept_folder.root / "memory/00000000003c.json").exists()
    deadline = time.monotonic() + 20
    while not (kept_folder.root / "memory/00000000003c.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert kept_folder.folder.flush()
    assert_files_match(kept_folder)


def test_changes_that_follow_each_other_are_written_in_one_step(
    late: KeptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    real = late.folder._mirror.write

    def count(**options: Any) -> writer.MirrorReport:
        outcome = real(**options)
        steps.append(outcome.written)
        return outcome

    monkeypatch.setattr(late.folder._mirror, "write", count)
    for number in range(60, 90):
        late.change_store(make_additions(make_record(number)))
    page = make_page()
    for number in range(20):
        late.change_store(make_change(page, page := make_page(f"Version {number}\n")))
    assert steps == []
    assert late.folder.flush()
    assert steps == [31]
    assert_files_match(late)


def test_a_file_that_is_not_written_yet_was_not_deleted(late: KeptFolder) -> None:
    late.change_store(make_additions(make_record(60), make_record(61, layer="episodic"), make_paragraph(7)))
    late.change_store(make_additions(make_session("late"), make_turn(0, "late")))
    assert late.folder.take_in().taken == []
    late.folder.refresh()
    assert [each.archived for each in late.store.records([f"{60:012x}", f"{61:012x}"])] == [False, False]
    assert late.folder.flush()
    assert_files_match(late)


def test_a_file_deleted_while_its_new_text_waits_is_written_with_it(late: KeptFolder) -> None:
    late.change_store(make_change(make_record(2), replace(make_record(2), importance=0.9)))
    (late.root / "memory/000000000002.json").unlink()
    late.folder.sync()
    (found,) = late.store.records([make_record(2).id])
    assert (found.archived, found.importance) == (False, 0.9)
    assert_files_match(late)


def test_an_edit_of_the_old_text_while_a_new_one_waits_is_merged(late: KeptFolder) -> None:
    late.change_store(make_change(make_record(2), replace(make_record(2), importance=0.9)))
    late.change_store(make_change(make_page(), make_page("# Memory\n- by the program\n")))
    late.edit("memory/000000000002.json", "Content of record 2", "By hand")
    late.edit("memory/MEMORY.md", "# Memory", "# My memory")
    late.folder.sync()
    (found,) = late.store.records([make_record(2).id])
    assert (found.content, found.importance) == ("By hand", 0.9)
    assert late.store.pages(["MEMORY.md"])[0].content == "# My memory\n- by the program\n"
    assert late.folder.conflicts() == []
    assert_files_match(late)


def test_an_edit_of_what_a_waiting_text_changes_too_is_a_conflict(late: KeptFolder) -> None:
    late.change_store(make_change(make_record(2), replace(make_record(2), content="By the program")))
    late.edit("memory/000000000002.json", "Content of record 2", "By hand")
    assert late.folder.flush()  # the thread comes first, and leaves the file alone
    assert "By hand" in late.read("memory/000000000002.json").decode()
    late.folder.sync()
    (conflict,) = late.folder.conflicts()
    assert late.content(2) == "By hand"
    assert "By the program" in (late.root / conflict.path).read_text()
    (late.root / conflict.path).unlink()
    late.folder.sync()
    assert_files_match(late)


def test_closing_writes_what_was_changed_here(late: KeptFolder) -> None:
    late.change_store(make_additions(*(make_record(number) for number in range(100, 3_000))))
    late.folder.close()
    late.open()
    assert_files_match(late)


def test_what_was_erased_leaves_the_files_at_once(late: KeptFolder) -> None:
    late.change_store(make_additions(make_record(60)))
    rows = late.store.erase(make_removals(make_record(2), make_record(60)), actor="owner", at=NOW)
    late.folder.notice(rows)
    assert_files_match(late)


def test_earlier_words_and_places_leave_the_files_at_once(late: KeptFolder) -> None:
    late.change_store(make_additions(make_record(60, content="Words to be forgotten")))
    assert late.folder.flush()
    late.change_store(make_additions(make_record(61, content="Words to be forgotten too")))
    for number in (60, 61):
        (record,) = late.store.records([f"{number:012x}"])
        later = replace(record, content=f"Other words {number}", category="elsewhere")
        late.folder.notice(late.store.erase(make_change(record, later), actor="owner", at=NOW))
        assert_files_match(late)
    assert b"forgotten" not in b"".join(read_all_files(late.root).values())


def test_closing_writes_changes_that_were_published_out_of_order(late: KeptFolder) -> None:
    first, second = (late.commit(make_additions(make_record(number))) for number in (60, 61))
    late.folder.notice(first)
    assert late.folder.flush()
    third = late.commit(make_additions(make_record(62)))
    late.folder.notice(third)
    late.folder.notice(second)
    late.folder.close()
    late.open()
    assert (late.root / "memory/00000000003e.json").exists()
    assert_files_match(late)


def test_nobody_waits_for_ever_for_another_who_writes_files(
    late: KeptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "DELAY_S", 0.01)
    real = FileState.lock
    monkeypatch.setattr(FileState, "lock", lambda state, patience_s=0.0: real(state, 0.05))
    other = FileState(late.root)
    with real(other):
        late.change_store(make_additions(make_record(60)))
        late.folder._write_all()
        assert not late.folder.flush(0.3)
        late.folder.refresh()
        assert not (late.root / "memory/00000000003c.json").exists()
    other.close()
    assert late.folder.flush()
    assert_files_match(late)


def test_flush_says_that_files_could_not_be_written(
    late: KeptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "_DUE_EVERY_S", 600.0)
    real = late.folder._mirror.disk.create

    def refuse(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(late.folder._mirror.disk, "create", refuse)
    late.change_store(make_additions(make_record(60)))
    assert not late.folder.flush()
    assert "No space left" in late.folder.problems()[0].what
    monkeypatch.setattr(late.folder._mirror.disk, "create", real)
    assert late.folder.flush()
    assert late.folder.problems() == []
    assert_files_match(late)


def test_a_fork_takes_no_work_along(late: KeptFolder) -> None:
    late.change_store(make_additions(make_record(60)))
    child = os.fork()
    if child == 0:
        threads = [each for each in threading.enumerate() if each.name == "reverie-files"]
        late.folder.close()
        os._exit(1 if threads or (late.root / "memory/00000000003c.json").exists() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len([each for each in threading.enumerate() if each.name == "reverie-files"]) == 1
    assert late.folder.flush()
    assert_files_match(late)


_UNCLOSED = """
import atexit, os, signal, sys
from reverie import Memory
atexit.register(lambda: memory.save("Ends with a nod"))
memory = Memory.open(sys.argv[1])
assert memory.flush()
memory.save("Begins with a bow")
if sys.argv[2:] == ["killed"]:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_unclosed(root: Path, *options: str) -> set[str]:
    """Run a program that closes nothing; return what its files say then."""
    command = [sys.executable, "-W", "error", "-c", _UNCLOSED, os.fspath(root), *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.stderr == ""
    files = (root / "memory").rglob("*.json") if (root / "memory").exists() else ()
    return {json.loads(file.read_text())["content"] for file in files}


def test_the_end_of_a_program_that_closed_nothing_writes_its_files(tmp_path: Path) -> None:
    assert run_unclosed(tmp_path) == {"Begins with a bow", "Ends with a nod"}


def test_what_a_killed_process_did_not_write_is_there_when_the_memory_is_opened(tmp_path: Path) -> None:
    assert run_unclosed(tmp_path, "killed") == set()
    with Memory.open(tmp_path):
        (file,) = (tmp_path / "memory").rglob("*.json")
        assert json.loads(file.read_text())["content"] == "Begins with a bow"


# -- several at once ---------------------------------------------------------------------------------------


def test_threads_that_change_read_and_edit_at_once_lose_nothing(kept_folder: KeptFolder) -> None:
    errors: list[BaseException] = []

    def change(name: int) -> None:
        try:
            for number in range(25):
                kept_folder.commit_and_mirror(
                    make_additions(make_record(1_000 * name + number, category=f"c{number % 3}"))
                )
                kept_folder.folder.refresh()
        except BaseException as error:
            errors.append(error)
            raise

    def write() -> None:
        for number in range(25):
            (kept_folder.root / f"memory/by-hand-{number}.json").write_text(
                json.dumps({"content": f"Hand {number}"})
            )
            time.sleep(0.005)

    threads = [threading.Thread(target=change, args=(name,)) for name in (1, 2, 3)]
    threads.append(threading.Thread(target=write))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    kept_folder.folder.sync()
    assert errors == []
    contents = {
        json.loads(data)["content"]
        for path, data in read_all_files(kept_folder.root).items()
        if path.endswith(".json")
    }
    assert {f"Hand {number}" for number in range(25)} <= contents
    assert_files_match(kept_folder)


def test_two_memories_in_one_process_share_a_folder(kept_folder: KeptFolder) -> None:
    other = KeptFolder(kept_folder.root)
    other.folder.start()
    other.commit_and_mirror(make_additions(make_record(80)))
    kept_folder.commit_and_mirror(make_additions(make_record(81)))
    other.edit("memory/MEMORY.md", "# Memory", "# Shared")
    kept_folder.folder.refresh()
    assert other.store.pages()[0].content == "# Shared\n"
    assert_files_match(kept_folder)
    assert_files_match(other)
    other.close()


@pytest.mark.slow
def test_a_fork_leaves_both_processes_with_a_folder_that_works(tmp_path: Path) -> None:
    script = f"""
        import os, sys
        from pathlib import Path
        sys.path.insert(0, {os.fspath(Path(__file__).parents[2])!r})
        from tests.files.test_folder import KeptFolder
        from reverie.stores.contract.factories import make_additions, make_record
        kept = KeptFolder(Path({os.fspath(tmp_path / "memory")!r}))
        kept.folder.start()
        kept.commit_and_mirror(make_additions(make_record(1)))
        kept.folder.sync(wait=False)
        for number in range(5):
            child = os.fork()
            if child == 0:
                kept.commit_and_mirror(make_additions(make_record(100 + number)))
                kept.folder.refresh()
                kept.folder.sync(wait=False)
                assert kept.folder.flush(20)
                kept.folder.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            kept.commit_and_mirror(make_additions(make_record(200 + number)))
        kept.folder.sync()
        kept.close()
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    kept_folder = KeptFolder(tmp_path / "memory")
    assert_files_match(kept_folder)
    assert len(read_all_files(kept_folder.root)) == 11
    kept_folder.close()


def test_turns_of_two_processes_stand_once_each(kept_folder: KeptFolder) -> None:
    kept_folder.commit_and_mirror(make_additions(make_session("s"), make_turn(0, "s")))
    other = KeptFolder(kept_folder.root)
    for number in range(1, 20):
        (kept_folder if number % 2 else other).commit_and_mirror(make_additions(make_turn(number, "s")))
    assert_files_match(kept_folder)
    kept_folder.commit_and_mirror(make_additions(make_paragraph(90)))
    other.commit_and_mirror(make_additions(make_paragraph(91)))
    assert_files_match(other)
    other.close()


def test_a_memory_may_keep_no_files_and_begin_with_them_later(tmp_path: Path) -> None:
    with Memory.open(tmp_path, settings=Settings(files=False)) as memory:
        memory.save("Prefers short answers", category="style")
        memory.session("telegram:1").add("user", "Hello")
        assert memory.folder is None
    assert not {"memory", "sessions", "files.db"} & set(os.listdir(tmp_path))
    with Memory.open(tmp_path) as memory:
        assert memory.folder is not None
        (path,) = (path for path in read_all_files(tmp_path) if path.startswith("memory/style/"))
        assert "sessions/telegram:1.jsonl" in read_all_files(tmp_path)
        memory.update(Path(path).stem, content="Prefers long answers")
        assert memory.flush()
        assert b"Prefers long answers" in read_all_files(tmp_path)[path]
    with Memory.open(tmp_path, settings=Settings(files=False)) as memory:
        memory.update(Path(path).stem, content="Prefers no answers")
    assert b"Prefers long answers" in read_all_files(tmp_path)[path]
    with Memory.open(tmp_path):
        assert b"Prefers no answers" in read_all_files(tmp_path)[path]
