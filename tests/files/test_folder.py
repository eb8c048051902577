"""The folder as a whole: at every turn it says what the store says and gives what people wrote."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from reverie import Memory, Settings
from tests.files.folder_fixture import (
    KeptFolder,
    assert_files_match,
    failing_below,
    read_all_files,
    write_samples,
)
from tests.support.contract.factories import make_additions, make_record


def test_starting_writes_what_is_missing_and_takes_in_what_people_changed(tmp_path: Path) -> None:
    kept_folder = KeptFolder(tmp_path / "memory")
    write_samples(kept_folder)
    kept_folder.folder.close()
    kept_folder.save("memory/000000000002.json", "Content of record 2", "Edited while nobody looked")
    kept_folder.store.commit(make_additions(make_record(30)), actor="owner", at=kept_folder.clock())
    kept_folder.reopen()
    kept_folder.folder.start()
    assert kept_folder.record(2).content == "Edited while nobody looked"
    assert_files_match(kept_folder)
    kept_folder.close()


def test_what_a_person_saves_is_there_at_the_next_turn(kept_folder: KeptFolder) -> None:
    kept_folder.save("memory/MEMORY.md", "# Memory", "# My memory")
    kept_folder.save("memory/000000000002.json", "Content of record 2", "By hand")
    kept_folder.turn()
    assert kept_folder.store.pages(["MEMORY.md"])[0].content == "# My memory\n"
    assert kept_folder.record(2).content == "By hand"
    assert {row.actor for row in kept_folder.published} == {"owner, by hand"}
    assert_files_match(kept_folder)


def test_a_file_added_renamed_or_deleted_is_seen_at_the_next_turn(kept_folder: KeptFolder) -> None:
    kept_folder.add(make_record(40, category="c"), make_record(41, category="c"))
    kept_folder.turn()
    fresh = kept_folder.root / "memory/new/by-hand.json"
    fresh.parent.mkdir()
    fresh.write_text(json.dumps({"content": "Written by hand"}))
    (kept_folder.root / "memory/000000000002.json").unlink()
    (kept_folder.root / "memory/c/000000000028.json").rename(kept_folder.root / "memory/a/000000000028.json")
    kept_folder.turn()
    (moved,) = kept_folder.store.records([f"{40:012x}"])
    (gone,) = kept_folder.store.records([f"{2:012x}"])
    assert moved.category == "a"
    assert gone.archived
    kept_folder.turn()  # a folder that has just come into being is looked into by now
    names = [path.stem for path in fresh.parent.iterdir()]
    assert [record.content for record in kept_folder.store.records(names)] == ["Written by hand"]
    assert_files_match(kept_folder)


def test_what_another_process_committed_and_did_not_write_is_written_at_the_next_turn(
    kept_folder: KeptFolder,
) -> None:
    kept_folder.store.commit(make_additions(make_record(60)), actor="owner", at=kept_folder.clock())
    kept_folder.folder.refresh()
    assert kept_folder.folder.flush()
    assert_files_match(kept_folder)


def test_a_failed_write_is_a_problem_until_it_is_made_good(
    kept_folder: KeptFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing_below(kept_folder.root / "memory/.reverie", errno.EACCES))
        kept_folder.add(make_record(70))
    (problem,) = kept_folder.folder.problems()
    assert "memory/000000000046.json" in problem.what
    assert "Permission denied" in problem.what
    kept_folder.add(make_record(71))
    assert kept_folder.folder.problems() == []
    kept_folder.folder.sync()
    assert_files_match(kept_folder)


# -- the background ----------------------------------------------------------------------------------------


def test_there_is_no_thread_when_there_is_nothing_to_do(kept_folder: KeptFolder) -> None:
    kept_folder.folder.sync()
    assert kept_folder.folder.flush()
    deadline = time.monotonic() + 10
    while any(thread.name == "reverie-files" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- several at once ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_fork_leaves_both_processes_with_a_folder_that_works(tmp_path: Path) -> None:
    script = f"""
        import os, sys
        from pathlib import Path
        sys.path.insert(0, {os.fspath(Path(__file__).parents[2])!r})
        from tests.files.test_folder import KeptFolder
        from tests.support.contract.factories import make_additions, make_record
        kept = KeptFolder(Path({os.fspath(tmp_path / "memory")!r}))
        kept.folder.start()
        kept.add(make_record(1))
        kept.folder.sync()
        for number in range(5):
            child = os.fork()
            if child == 0:
                kept.add(make_record(100 + number))
                kept.folder.refresh()
                kept.folder.sync()
                assert kept.folder.flush(20)
                kept.folder.close()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            kept.add(make_record(200 + number))
        kept.folder.sync()
        kept.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    kept_folder = KeptFolder(tmp_path / "memory")
    assert_files_match(kept_folder)
    assert len(read_all_files(kept_folder.root)) == 11
    kept_folder.close()


def test_a_memory_may_keep_no_files_and_begin_with_them_later(tmp_path: Path) -> None:
    with Memory.open(tmp_path, settings=Settings(files="none")) as memory:
        name = memory.save("Prefers short answers", category="style").record.id
        memory.session("telegram:1").add("user", "Hello")
        assert memory.folder is None
    assert not {"memory", "sessions", "files.db"} & set(os.listdir(tmp_path))
    with Memory.open(tmp_path) as memory:
        assert memory.folder is not None
        path = "memory/records/style.md"
        assert "sessions/telegram:1.jsonl" in read_all_files(tmp_path)
        memory.update(name, content="Prefers long answers")
        assert memory.flush()
        assert b"Prefers long answers" in read_all_files(tmp_path)[path]
    with Memory.open(tmp_path, settings=Settings(files="none")) as memory:
        memory.update(name, content="Prefers no answers")
    assert b"Prefers long answers" in read_all_files(tmp_path)[path]
    with Memory.open(tmp_path):
        assert b"Prefers no answers" in read_all_files(tmp_path)[path]
