"""One look at the folder finds what is not as it was, and opens nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reverie.files.disk.state import FileRecord, compute_checksum
from reverie.files.scan import FolderScan, is_ignored, scan


class Tree:
    """A folder, and what is known of its files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, FileRecord] = {}

    def put(self, path: str, text: str = "{}", *, known: bool = True) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        if known:
            seen = place.stat()
            self.known[path] = FileRecord(
                path, seen.st_size, seen.st_mtime_ns, compute_checksum(text.encode())
            )

    def sweep(self, *paths: str) -> FolderScan:
        return scan(self.root, self.known, paths or None)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    made = Tree(tmp_path)
    for path in ("memory/MEMORY.md", "memory/a/b/1.json", "memory/.archive/a/2.json", "sessions/chat.jsonl"):
        made.put(path)
    return made


def test_nothing_is_found_where_nothing_has_changed(tree: Tree) -> None:
    found = tree.sweep()
    assert not found


def test_changed_added_and_missing_files_are_told_apart(tree: Tree) -> None:
    tree.put("memory/MEMORY.md", "longer", known=False)
    tree.put("memory/new.json", known=False)
    tree.put("memory/.archive/new.json", known=False)
    (tree.root / "memory/a/b/1.json").unlink()
    found = tree.sweep()
    assert found.changed == ["memory/MEMORY.md"]
    assert found.added == ["memory/.archive/new.json", "memory/new.json"]
    assert found.missing == ["memory/a/b/1.json"]


def test_a_change_of_the_time_alone_is_seen(tree: Tree) -> None:
    os.utime(tree.root / "sessions/chat.jsonl", ns=(1, 1))
    assert tree.sweep().changed == ["sessions/chat.jsonl"]


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.json",
        "x.json~",
        ".x.json.swp",
        "x.swp",
        "#x.json#",
        "x.json.tmp",
        "x.json.bak",
        "x.orig",
    ],
)
def test_what_editors_and_other_tools_leave_is_not_looked_at(tree: Tree, name: str) -> None:
    assert is_ignored(name)
    tree.put(f"memory/{name}", known=False)
    tree.put(f"memory/.git/objects/{name}", known=False)
    assert not tree.sweep()


def test_what_is_not_ours_is_passed_over(tree: Tree) -> None:
    for path in (
        "memory/notes.txt",
        "memory/image.png",
        "memory/a/x.jsonl",
        "sessions/a/x.jsonl",
        "other/x.json",
    ):
        tree.put(path, known=False)
    assert not tree.sweep()


def test_conflict_files_and_recovered_edits_are_listed_by_themselves(tree: Tree) -> None:
    tree.put("memory/a/1.conflict.json", known=False)
    assert not tree.sweep()
    assert tree.sweep().conflicts == ["memory/a/1.conflict.json"]
    tree.put("memory/a/b/1.json.recovered-1", known=False)
    assert tree.sweep().recovered == ["memory/a/b/1.json.recovered-1"]


def test_links_and_devices_are_reported_and_never_followed(tree: Tree, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.json").write_text("{}")
    (tree.root / "memory/linked").symlink_to(outside)
    (tree.root / "memory/link.json").symlink_to(outside / "x.json")
    (tree.root / "memory/dangling.md").symlink_to(outside / "nothing")
    (tree.root / "memory/readme").symlink_to(outside / "x.json")  # would not be ours anyway
    os.mkfifo(tree.root / "memory/pipe.json")
    (tree.root / "memory/folder.json").mkdir()
    found = tree.sweep()
    assert sorted(broken.path for broken in found.odd) == [
        "memory/dangling.md", "memory/link.json", "memory/linked", "memory/pipe.json",
    ]  # fmt: skip
    assert found.added == []
    assert [b.path for b in tree.sweep("memory/linked/x.json").odd] == ["memory/linked"]


def test_what_cannot_be_seen_is_not_missing(tree: Tree, tmp_path: Path) -> None:
    shutil.move(tree.root / "memory/a", tmp_path / "elsewhere")
    (tree.root / "memory/a").symlink_to(tmp_path / "elsewhere")
    found = tree.sweep()
    assert found.missing == []
    assert [broken.path for broken in found.odd] == ["memory/a"]


def test_a_folder_that_is_gone_is_told_apart_from_missing_files(tree: Tree) -> None:
    shutil.rmtree(tree.root / "sessions")
    found = tree.sweep()
    assert (found.gone, found.missing) == (["sessions"], [])
    assert tree.sweep("sessions/chat.jsonl").gone == ["sessions"]
    del tree.known["sessions/chat.jsonl"]
    assert not tree.sweep()  # nothing was there


def test_some_files_and_folders_can_be_looked_at(tree: Tree) -> None:
    tree.put("memory/MEMORY.md", "longer", known=False)
    tree.put("memory/a/new.json", known=False)
    (tree.root / "memory/a/b/1.json").unlink()
    assert tree.sweep("memory/MEMORY.md").changed == ["memory/MEMORY.md"]
    assert tree.sweep("memory/MEMORY.md").missing == []
    assert tree.sweep("memory/a/b/1.json").missing == ["memory/a/b/1.json"]
    found = tree.sweep("memory/a", "memory/a/new.json", "memory/nothing", "elsewhere/x.json")
    assert (found.added, found.missing, found.changed) == (["memory/a/new.json"], ["memory/a/b/1.json"], [])
    assert not tree.sweep("memory/.archive", "sessions/chat.jsonl")


def test_a_file_in_place_of_a_folder_makes_what_was_in_it_missing(tree: Tree) -> None:
    shutil.rmtree(tree.root / "memory/a/b")
    (tree.root / "memory/a/b").write_text("a file")
    assert tree.sweep().missing == ["memory/a/b/1.json"]


def test_names_that_are_no_utf8_are_reported(tree: Tree) -> None:
    name = os.fsencode(tree.root / "memory") + b"/\xff.json"
    with open(name, "w") as file:
        file.write("{}")
    found = tree.sweep()
    assert [broken.path for broken in found.odd] == ["memory/\\udcff.json"]
    assert "not UTF-8" in found.odd[0].why


def test_folders_may_lie_in_each_other_as_deep_as_the_system_allows(tree: Tree) -> None:
    deep, depth = tree.root / "memory", 1_100
    for _ in range(depth):
        deep /= "d"
        deep.mkdir()
    (deep / "x.json").write_text("{}")
    try:
        assert tree.sweep().added == [f"memory/{'d/' * depth}x.json"]
    finally:  # pytest removes folders by recursion
        (deep / "x.json").unlink()
        for _ in range(depth):
            deep.rmdir()
            deep = deep.parent
