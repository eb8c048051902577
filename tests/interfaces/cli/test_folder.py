"""`reverie files push` and `reverie rebuild`, as they are typed."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.conftest import run_cli


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[bytes]:
    return run_cli(*args, "--store", folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "agent"
    assert run(place, "remember", "The port is 5433", "--category", "notes").returncode == 0
    return place


def file_in(folder: Path) -> Path:
    return folder / "memory" / "records" / "notes.md"


def read_id(folder: Path) -> str:
    """Return the id of the record of the first line."""
    return file_in(folder).read_text().split("5433 <!-- ")[1][:12]


def replace_in(file: Path, old: str, new: str) -> None:
    """Save a file as many editors do: another file takes its place."""
    draft = file.with_name(f"{file.name}.tmp")
    draft.write_text(file.read_text().replace(old, new))
    os.replace(draft, file)


# -- files ---------------------------------------------------------------------------------------------------


def test_a_push_takes_in_what_was_edited_and_names_what_is_broken(folder: Path) -> None:
    file, name = file_in(folder), read_id(folder)
    replace_in(file, "5433", "5434")
    (file.parent / "broken.json").write_text("{")
    done = run(folder, "files", "push")
    assert done.returncode == 1
    path = file.relative_to(folder).as_posix()
    assert done.stdout.decode() == f"changed\trecord\t{name}\t{path}\n"
    assert done.stderr.decode().count("not imported: memory/records/broken.json") == 1
    again = run(folder, "files", "push")
    assert again.stdout == b""
    assert again.stderr.decode().count("not imported: memory/records/broken.json") == 1
    assert b"5434" in run(folder, "list").stdout
    (file.parent / "broken.json").unlink()
    assert run(folder, "files", "push").returncode == 0


def test_a_memory_without_files_has_none_to_take_in(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("files = false\n")
    done = run(folder, "files", "push", "--settings", str(tmp_path / "settings.toml"))
    assert done.returncode == 2
    assert b"writes no files" in done.stderr


# -- rebuild -------------------------------------------------------------------------------------------------


def lose(folder: Path) -> None:
    for path in folder.glob("reverie.db*"):
        path.unlink()


def answer(folder: Path, *args: str) -> Any:
    done = run(folder, *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_lost_database_is_made_again(folder: Path) -> None:
    before = answer(folder, "list")
    lose(folder)
    done = run(folder, "rebuild", "--yes")
    assert done.returncode == 0
    assert done.stdout.startswith(b"Rebuilt the database: 1 record.")
    assert answer(folder, "list") == before
    assert [row["actor"] for row in answer(folder, "history")["history"]] == ["rebuild"]
    assert answer(folder, "doctor")["findings"] == []


def test_a_broken_database_is_moved_aside_and_broken_files_are_named(folder: Path) -> None:
    (folder / "memory" / "records" / "broken.json").write_text("{")
    (folder / "reverie.db").write_bytes(b"garbage" * 1000)
    done = run(folder, "rebuild", "--yes", "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["records"], found["kept"]) == (1, str(folder / "reverie.db.broken-1"))
    assert [broken["path"] for broken in found["broken"]] == ["memory/records/broken.json"]
    assert (folder / "reverie.db.broken-1").read_bytes() == b"garbage" * 1000


def test_a_database_that_can_be_read_is_not_touched_unless_asked(folder: Path) -> None:
    done = run(folder, "rebuild", "--yes")
    assert done.returncode == 2
    assert b"can be read" in done.stderr
    assert run(folder, "rebuild").returncode == 2  # nobody is there to ask
    assert not list(folder.glob("reverie.db.broken*"))
    assert answer(folder, "rebuild", "--yes", "--force")["records"] == 1


def test_what_uses_the_folder_meanwhile_goes_on_with_the_new_database(folder: Path) -> None:
    """A memory that is open somewhere is refused its next write rather than write where nobody looks."""
    from reverie import Memory, StoreUnavailable

    with Memory.open(folder) as memory:
        assert answer(folder, "rebuild", "--yes", "--force")["records"] == 1
        time.sleep(0.01)
        with pytest.raises(StoreUnavailable, match="open it again"):
            memory.save("Written too late")
    with Memory.open(folder) as memory:
        assert memory.save("Written in time").outcome == "created"
        assert memory.admin.check() == []
