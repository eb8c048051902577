"""A memory as text files: what is where, what may change, and that nothing is overwritten."""

from __future__ import annotations

import copy
import threading
from pathlib import Path

import pytest

from reverie import InvalidInput, Memory
from reverie.files.rebuild import rebuild
from reverie.repositories.documents import Documents, Texts, parse_path
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


def create(files: Documents, *paths: tuple[str, ...]) -> None:
    files.change(lambda present: {path: path[-1] for path in paths}, "write")


def test_an_edit_is_made_from_what_is_there_at_that_moment(files: Documents) -> None:
    create(files, ("a.md",))
    calls = []

    def plan(present: Texts) -> Texts:
        calls.append(present[("a.md",)])
        if len(calls) == 1:
            other.change(lambda present: {("a.md",): "2"}, "write")
        return {("a.md",): f"{present[('a.md',)]}3"}

    other = copy.copy(files)
    other._lock = threading.Lock()  # somebody else, who does not wait for the first
    files.change(plan, "write")
    assert files.read(("a.md",)) == "23"
    assert calls == ["a.md", "2"]


def test_no_file_lies_in_a_file_and_pages_of_others_are_read_only(files: Documents) -> None:
    create(files, ("d", "a.md"), ("d", "e", "b.txt"))
    for wrong in (("d",), ("d", "a.md", "c")):
        with pytest.raises(InvalidInput, match="is a file"):
            create(files, wrong)
    if files.scope:
        with pytest.raises(InvalidInput, match="read-only"):
            create(files, ("shared",))
    assert sorted(files.find(("d",))) == [("d", "a.md"), ("d", "e", "b.txt")]
    files.change(lambda present: dict.fromkeys(present), "delete")
    assert files.find() == {}


@pytest.mark.parametrize("scope", ["", "user:alice"])
def test_odd_names_are_files_that_the_readable_folder_keeps(tmp_path: Path, scope: str) -> None:
    with Memory.open(tmp_path) as memory:
        files = memory.scoped(scope).documents()
        for name in NAMES:
            files.change(lambda present, name=name: {parse_path(name): f"text of {name}"}, "write")  # type: ignore[misc]
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
    create(files, *((name,) for name in ("a\nb", "a\x1bb", "a\u202eb", ".hidden.md", "c.md")))
    assert [each.path for each in files.listed()] == [("c.md",)]
