"""A memory as text files: what is where, what may change, and that nothing is overwritten."""

from __future__ import annotations

import copy
import threading
from pathlib import Path

import pytest

from reverie import InvalidInput, Memory
from reverie.files.rebuild import rebuild
from reverie.repositories.documents import Documents, parse_path
from reverie.search.analyzer import analyze

NAMES = [
    "to do/list of things.txt",
    ".hidden/.x",
    "x.tmp/a.md",
    "x.bak/y.swp",
    "ü/ß.md",
    "a..md",
    "x.json",
    "e.jsonl",
    "con",
    "a/b/c/d/e/f.md",
]


@pytest.fixture(params=["", "user:alice"], ids=["pages", "a scope"])
def files(request: pytest.FixtureRequest, memory: Memory) -> Documents:
    return memory.scoped(request.param).documents()


def test_an_edit_is_made_from_what_is_there_at_that_moment(files: Documents) -> None:
    files.create(("a.md",), "1")
    calls = []

    def change(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            assert other.edit(("a.md",), lambda text: text + "2") == "12"
        return text + "3"

    other = _beside(files)
    assert files.edit(("a.md",), change) == "123"
    assert calls == ["1", "12"]


def _beside(files: Documents) -> Documents:
    """The same files for somebody else, who does not wait for the first."""
    other = copy.copy(files)
    other._lock = threading.Lock()
    return other


def test_a_folder_moves_and_goes_as_a_whole(files: Documents) -> None:
    for path in (("d", "a.md"), ("d", "e", "b.txt"), ("x.md",)):
        files.create(path, path[-1])
    assert files.move(("d",), ("x.md",)) == "taken"
    assert files.move(("nothing",), ("y",)) == "missing"
    with pytest.raises(InvalidInput, match="into itself"):
        files.move(("d",), ("d", "f"))
    with pytest.raises(InvalidInput, match="is a file"):
        files.move(("d",), ("x.md", "d"))
    assert files.move(("d",), ("f", "g")) == "moved"
    assert files.read(("f", "g", "e", "b.txt")) == "b.txt"
    assert files.kind(("d",)) is None
    assert files.remove(("f",)) == 2
    assert files.remove(("f",)) == 0
    assert [each.path for each in files.listed()] == [("x.md",)]


def test_the_roots_stay(files: Documents) -> None:
    for path in ((), ("shared",)) if files.scope else ((),):
        with pytest.raises(InvalidInput, match="cannot be removed or renamed"):
            files.remove(path)
        with pytest.raises(InvalidInput, match="cannot be removed or renamed"):
            files.move(path, ("a",))
    assert files.read(()) is None
    assert files.create((), "x") is False
    if files.scope:
        with pytest.raises(InvalidInput, match="read-only"):
            files.create(("shared",), "x")


@pytest.mark.parametrize("scope", ["", "user:alice"])
def test_odd_names_are_files_that_the_readable_folder_keeps(tmp_path: Path, scope: str) -> None:
    with Memory.open(tmp_path) as memory:
        files = memory.scoped(scope).documents()
        for name in NAMES:
            assert files.create(parse_path(name), f"text of {name}")
        assert memory.folder is not None
        memory.folder.sync()
        assert memory.admin.doctor().findings == ()
    (tmp_path / "reverie.db").rename(tmp_path / "gone.db")
    for each in ("reverie.db-wal", "reverie.db-shm"):
        (tmp_path / each).unlink(missing_ok=True)
    rebuild(tmp_path, analyse=analyze)
    with Memory.open(tmp_path) as memory:
        files = memory.scoped(scope).documents()
        for name in NAMES:
            assert files.read(parse_path(name)) == f"text of {name}"


def test_no_name_that_cannot_be_seen_is_listed(memory: Memory) -> None:
    files = memory.documents()
    for name in ("a\nb", "a\x1bb", "a\u202eb", ".hidden.md", "c.md"):
        assert files.create((name,), "1")
    assert [each.path for each in files.listed()] == [("c.md",)]
