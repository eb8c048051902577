"""A folder whose files have another layout, or are of an earlier version, is converted when it is opened."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from reverie.domain.errors import InvalidInput
from reverie.domain.filter import Filter
from reverie.files import mirror
from reverie.memory import Memory
from reverie.settings import Settings
from tests.files.folder_fixture import DAY, EditedFolder, build_note_path, make_note, open_edited_folder
from tests.files.test_rebuild import everything, fill
from tests.interfaces.conftest import run_cli


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def write_earlier_files(folder: Path) -> dict[str, object]:
    """Write a folder as earlier versions left it; return what is in its store."""
    with open_edited_folder(folder, "records") as opened:
        fill(opened)
        before = everything(opened.store)
        day = opened.store.records([f"{4:012x}"])
        lines = "".join(f"{json.dumps(record.to_dict())}\n" for record in day)
        opened.path("memory/episodic/2026-03-01.jsonl").write_text(lines)
        opened.path(DAY).unlink()
    for file in folder.glob("files.db*"):
        file.write_bytes(b"of another version") if file.name == "files.db" else file.unlink()
    return before


def list_packed(folder: Path) -> dict[str, set[str]]:
    """Return the names in each file of packed files."""
    found = {}
    for file in sorted(folder.glob("files.*.zip")):
        assert file.stat().st_mode & 0o777 == 0o600
        with zipfile.ZipFile(file) as packed:
            found[file.name] = set(packed.namelist())
    return found


def assert_converted(opened: EditedFolder, before: dict[str, object]) -> None:
    assert everything(opened.store) == before
    assert not [path for path in opened.files() if path.endswith((".json", "-01.jsonl"))]
    assert [path for path in opened.files() if path.startswith(("memory/records", "memory/.archive"))] == [
        "memory/.archive/(unfiled).md",
        "memory/.archive/notes.md",
        "memory/records/a/b-c.md",
        "memory/records/notes.md",
    ]
    opened.assert_settled()


def test_files_of_an_earlier_version_become_pages_and_are_kept_packed(folder: Path) -> None:
    before = write_earlier_files(folder)
    with open_edited_folder(folder, "records") as opened:
        former = {path for path in opened.files() if path.endswith(".json")}
        record = json.loads(opened.read(build_note_path(1)))
        # By hand, not imported yet.
        opened.write(build_note_path(1), json.dumps(record | {"importance": 0.75}))
        opened.write("memory/ideas/mine.json", '{"content": "By hand"}')
    (folder / "files.db").unlink()
    with open_edited_folder(folder, "pages") as opened:
        taken = opened.sync().taken
        assert sorted(edit.what for edit in taken) == ["added", "changed"]
        assert opened.record(1).importance == 0.75
        added = next(edit.id for edit in taken if edit.what == "added")
        assert opened.store.records([added])[0].category == "ideas"
        assert "- By hand <!--" in opened.read("memory/records/ideas.md")
        opened.assert_settled()
        assert not [path for path in opened.files() if path.endswith(".json")]
    assert list_packed(folder) == {
        "files.records.backup-1.zip": {*former, "memory/ideas/mine.json", "memory/episodic/2026-03-01.jsonl"}
    }
    assert before["pages"]


def test_a_folder_can_change_its_layout_back_and_forth(folder: Path) -> None:
    with open_edited_folder(folder, "pages") as opened:
        fill(opened)
        before = everything(opened.store)
        pages = {path: opened.read(path) for path in opened.files()}
    for number in (1, 2):
        with open_edited_folder(folder, "records") as opened:
            opened.sync()
            assert everything(opened.store) == before
            assert build_note_path(1) in opened.files()
            assert not [path for path in opened.files() if path.startswith("memory/records")]
            opened.assert_settled()
        with open_edited_folder(folder, "pages") as opened:
            opened.sync()
            assert_converted(opened, before)
            assert {path: opened.read(path) for path in opened.files()} == pages
        assert len(list_packed(folder)) == 2 * number
    with open_edited_folder(folder, "pages") as opened:
        opened.sync()
        assert len(list_packed(folder)) == 4, "nothing is packed when nothing changes"


@pytest.mark.parametrize("step", range(5))
def test_whoever_is_killed_while_converting_loses_nothing(
    folder: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_earlier_files(folder)

    class Killed(BaseException):
        pass

    def kill(*args: object, **options: object) -> None:
        raise Killed

    with open_edited_folder(folder, "pages") as opened, monkeypatch.context() as patch:
        places = [
            (mirror, "_convert"),
            (opened.mirror.disk, "create"),
            (opened.mirror.disk, "remove"),
            (opened.mirror, "_write_due"),
            (opened.mirror, "_append"),
        ]
        patch.setattr(*places[step], kill)
        with pytest.raises(Killed):
            opened.sync()
    with open_edited_folder(folder, "pages") as opened:
        opened.sync()
        assert_converted(opened, before)
        assert opened.list_hand_edits() == []
    packed = list_packed(folder)
    assert build_note_path(1) in packed["files.records.backup-1.zip"]
    assert "memory/episodic/2026-03-01.jsonl" in packed["files.records.backup-1.zip"]


def test_the_choice_of_files_is_stored_with_the_memory(folder: Path, tmp_path: Path) -> None:
    with Memory.open(folder, files="records", embedder="none") as memory:
        memory.save("Bob likes tea", category="food")
    for file in folder.glob("files.db*"):
        file.unlink()
    with Memory.open(folder, embedder="none") as memory:
        memory.flush()
        assert len(list((folder / "memory/food").glob("*.json"))) == 1
    with Memory.open(folder, files="none", embedder="none") as memory:
        assert memory.folder is None
    with Memory.open(folder, files="pages", embedder="none") as memory:
        assert memory.folder is not None
        memory.folder.sync()
    assert list_packed(folder).keys() == {"files.records.backup-1.zip"}
    with Memory.open(folder, embedder="none") as memory:
        assert memory.folder is not None
        memory.folder.sync()
        assert (folder / "memory/records/food.md").exists()
    with pytest.raises(InvalidInput, match="files in Settings is 'odd': it must be one of auto, pages"):
        Memory.open(folder, files="odd")  # type: ignore[arg-type]
    new = tmp_path / "new"
    assert run_cli("init", "--files", "records", "--store", new).returncode == 0
    assert run_cli("remember", "Bo likes tea", "--category", "food", "--store", new).returncode == 0
    assert len(list((new / "memory/food").glob("*.json"))) == 1


def test_erasure_removes_packed_files(folder: Path) -> None:
    with Memory.open(folder, settings=Settings(files="records"), embedder="none") as memory:
        secret = memory.save("The code of the safe is four seven one one").record
        memory.save("Bob likes tea")
    with Memory.open(folder, files="pages", embedder="none") as memory:
        assert len(list_packed(folder)) == 1
        done = memory.admin.forget(secret.id)
        assert done.pending == ()
        assert list_packed(folder) == {}
        assert [record.content for record in memory.list()] == ["Bob likes tea"]
    for file in folder.rglob("*"):
        assert file.is_dir() or b"four seven" not in file.read_bytes(), file


def test_a_new_json_file_is_imported_into_a_page(folder: Path) -> None:
    with open_edited_folder(folder, "pages") as opened:
        opened.add(make_note(1))
        opened.write("memory/notes/x.json", '{"content": "From another program", "importance": 0.9}')
        opened.write("memory/notes/y.json", json.dumps(make_note(1).to_dict()))
        opened.sync()
        assert opened.files() == ["memory/records/notes.md"]
        found = {record.content: record.importance for record in opened.store.find(Filter())}
        assert found["From another program"] == 0.9
        assert len(found) == 2
        opened.assert_settled()
