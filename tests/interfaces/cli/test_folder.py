"""`reverie watch` and `reverie rebuild`, as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from reverie.files.hand_edits.importer import HandEditImporter
from reverie.files.state import StateUnavailable
from tests.interfaces.conftest import PROGRAM, environment, run_cli


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


# -- watch ---------------------------------------------------------------------------------------------------


def test_once_takes_in_what_was_edited_and_names_what_is_broken(folder: Path) -> None:
    file, name = file_in(folder), read_id(folder)
    replace_in(file, "5433", "5434")
    (file.parent / "broken.json").write_text("{")
    done = run(folder, "watch", "--once")
    assert done.returncode == 1
    path = file.relative_to(folder).as_posix()
    assert done.stdout.decode() == f"changed\trecord\t{name}\t{path}\n"
    assert done.stderr.decode().count("not imported: memory/records/broken.json") == 1
    again = run(folder, "watch", "--once")
    assert again.stdout == b""
    assert again.stderr.decode().count("not imported: memory/records/broken.json") == 1
    assert b"5434" in run(folder, "list").stdout
    (file.parent / "broken.json").unlink()
    assert run(folder, "watch", "--once").returncode == 0


def test_once_fails_where_the_files_cannot_be_examined(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StateUnavailable("files.db is locked")

    monkeypatch.setattr(HandEditImporter, "take_in", fail)
    done = run(folder, "watch", "--once")
    assert done.returncode == 4
    assert "the files could not be examined: files.db is locked" in done.stderr.decode()


@pytest.fixture
def watching(folder: Path) -> Iterator[subprocess.Popen[str]]:
    running = subprocess.Popen(
        [*PROGRAM, "watch", "--store", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    yield running
    running.kill()
    running.wait()
    for stream in (running.stdout, running.stderr):
        assert stream is not None
        stream.close()


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


@pytest.mark.slow
def test_watching_reports_a_broken_file_once_and_again_when_it_is_saved_again(
    folder: Path, watching: subprocess.Popen[str]
) -> None:
    assert line_of(watching.stderr).startswith(f"Watching {folder}")
    notes = folder / "memory" / "records"
    (notes / "broken.json").write_text('{"content": 5}')
    assert "'content' is a number" in line_of(watching.stderr)
    for number in range(2):
        (notes / f"good{number}.md").write_text(f"- Likes tea {number}\n")
        assert line_of(watching.stdout).startswith("added\trecord\t")
    (notes / "broken.json").write_text('{"content": "Likes", "colour": 1}')
    assert "unknown field 'colour'" in line_of(watching.stderr)


@pytest.mark.slow
def test_watching_takes_in_an_edit_while_it_runs_and_ends_when_interrupted(
    folder: Path, watching: subprocess.Popen[str]
) -> None:
    assert line_of(watching.stderr).startswith(f"Watching {folder}")
    file, name = file_in(folder), read_id(folder)
    replace_in(file, "5433", "5434")
    assert line_of(watching.stdout).split("\t")[:3] == ["changed", "record", name]
    (folder / "memory" / "records" / "new.md").write_text("- Likes tea\n")
    assert line_of(watching.stdout).startswith("added\trecord\t")
    assert b"Likes tea" in run(folder, "list").stdout
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 0
    assert line_of(watching.stderr) == "Stopped.\n"


def test_a_memory_without_files_cannot_be_watched(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("files = false\n")
    done = run(folder, "watch", "--settings", str(tmp_path / "settings.toml"))
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
    assert done.stdout.startswith(b"Rebuilt the database: 1 record (0 archived), 0 sessions")
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


def test_a_folder_without_files_has_nothing_to_rebuild(tmp_path: Path) -> None:
    done = run(tmp_path, "rebuild", "--yes")
    assert done.returncode == 3
    assert b"no readable files" in done.stderr


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
