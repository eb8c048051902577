"""Claude's memory tool: the same answers as Anthropic's own tool on a disk, and a journal behind them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import Memory
from reverie.files.rebuild import rebuild
from reverie.integrations import anthropic_memory
from reverie.integrations.anthropic_memory import AsyncReverieMemoryTool, ReverieMemoryTool
from reverie.scoped import ScopedMemory
from reverie.search.analyzer import analyze

View = Callable[[Memory], Memory | ScopedMemory]


def whole(memory: Memory) -> Memory:
    return memory


def of_alice(memory: Memory) -> ScopedMemory:
    return memory.scoped("user:alice")


@pytest.fixture(params=[whole, of_alice], ids=["pages", "a scope"])
def tool(request: pytest.FixtureRequest, memory: Memory) -> ReverieMemoryTool:
    return ReverieMemoryTool(request.param(memory))


def told(tool: Any, command: str, **given: Any) -> tuple[bool, str]:
    """What the model is told, and whether it is an error."""
    try:
        return True, tool.call({"command": command, **given})
    except ToolError as error:
        return False, str(error)


def done(tool: Any, command: str, **given: Any) -> str:
    is_done, text = told(tool, command, **given)
    assert is_done, text
    return text


def refused(tool: Any, command: str, **given: Any) -> str:
    is_done, text = told(tool, command, **given)
    assert not is_done, text
    return text


# -- what Claude reads -----------------------------------------------------------------------------------


def test_it_is_the_tool_that_the_api_knows(tool: ReverieMemoryTool) -> None:
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}


def test_a_folder_is_listed_two_levels_deep_without_hidden_files(tool: ReverieMemoryTool) -> None:
    for path, text in {
        "notes.md": "x" * 1536,
        "customers/acme.md": "Pays by invoice.\n",
        "customers/north/hill.md": "third level",
        ".hidden.txt": "nobody sees it",
        "empty.txt": "",
    }.items():
        assert (
            done(tool, "create", path=f"/memories/{path}", file_text=text)
            == f"File created successfully at: /memories/{path}"
        )
    assert done(tool, "view", path="/memories") == (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
        "1.5K\t/memories\n"
        "28B\t/memories/customers/\n"
        "17B\t/memories/customers/acme.md\n"
        "11B\t/memories/customers/north/\n"
        "0B\t/memories/empty.txt\n"
        "1.5K\t/memories/notes.md"
    )
    assert "hill.md" in done(tool, "view", path="/memories/customers")
    assert "nobody" in done(tool, "view", path="/memories/.hidden.txt")


def test_a_wrong_argument_is_a_sentence(tool: ReverieMemoryTool) -> None:
    for path in ("/etc/passwd", "/memories/../reverie.db", "/memories/a/../../b", "/memories/a\u200b.md"):
        assert "/memories" in refused(tool, "create", path=path, file_text="x")
    assert "`file_text` is missing" in refused(tool, "create", path="/memories/a.md")
    assert "`insert_line` is missing" in refused(
        tool, "insert", path="/memories/a.md", insert_text="x", insert_line="two"
    )
    assert "200,000" in refused(tool, "create", path="/memories/a.md", file_text="x" * 200_001)
    assert "NUL" in refused(tool, "create", path="/memories/a.md", file_text="a\0b")
    done(tool, "create", path="/memories/a.md", file_text="one\ntwo\n")
    for lines in (["a", "b"], [1.5, 2], [None, None], 5):
        assert "`view_range` is not" in refused(tool, "view", path="/memories/a.md", view_range=lines)


# -- beside Anthropic's own tool -------------------------------------------------------------------------

# Intended differences, kept out of what is drawn here: folders are there while something is in them, and
# their sizes are those of what is in them; line ends are `\n`; `..` and invisible characters are refused even
# where they lead nowhere; two names that differ only in case, `records`, `HISTORY.md` and daily notes are
# special.

NAMES = ["a.md", "b.txt", "c", "d.d", "two words.md", "ü.md", ".hidden", "a_x20_b..md", "x.tmp", "..md"]
TEXTS = st.lists(st.sampled_from(["", "a", "b", "aa", "long line"]), max_size=6).map("\n".join)
PATHS = st.lists(st.sampled_from(NAMES), min_size=0, max_size=3).map(
    lambda parts: "/".join(["/memories", *parts])
)
COMMANDS = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": PATHS},
        optional={"view_range": st.tuples(st.integers(-1, 5), st.integers(-1, 7)).map(list)},
    ),
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": PATHS,
            "old_str": st.sampled_from(["a", "b", "aa", "", "a\nb", "\n"]),
            "new_str": TEXTS,
        }
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 7), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
    # Not of the root itself: releases of anthropic answer differently there.
    st.fixed_dictionaries(
        {
            "command": st.just("rename"),
            "old_path": PATHS.filter(lambda path: path != "/memories"),
            "new_path": PATHS,
        }
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("view", [whole, of_alice], ids=["pages", "a scope"])
def test_random_commands_give_what_anthropics_own_tool_gives(
    tmp_path_factory: pytest.TempPathFactory, view: View
) -> None:
    agreed = {"done": 0, "refused": 0}

    @settings(max_examples=150)
    @given(commands=st.lists(COMMANDS, min_size=4, max_size=25))
    def check(commands: list[dict[str, Any]]) -> None:
        folder = tmp_path_factory.mktemp("theirs")
        theirs = BetaLocalFilesystemMemoryTool(str(folder))
        with Memory.open(":memory:") as memory:
            ours = ReverieMemoryTool(view(memory))
            for command in commands:
                try:
                    expected = told(theirs, **command)
                except OSError:
                    # A raw error of the disk, such as a file where a folder is needed: here it is a sentence.
                    refused(ours, **command)
                    _without_empty_folders(folder / "memories")
                    continue
                _without_empty_folders(folder / "memories")
                got = told(ours, **command)
                assert _without_sizes_of_folders(got) == _without_sizes_of_folders(expected), command
                agreed["done" if got[0] else "refused"] += 1
            for file in (folder / "memories").rglob("*"):
                if file.is_file():
                    path = f"/memories/{file.relative_to(folder / 'memories')}"
                    assert told(ours, "view", path=path) == told(theirs, "view", path=path)
            assert memory.admin.check() == []

    check()
    assert min(agreed.values()) > 50


def _without_empty_folders(root: Path) -> None:
    for folder, _, _ in os.walk(root, topdown=False):
        if folder != str(root) and not os.listdir(folder):
            os.rmdir(folder)


def _without_sizes_of_folders(answer: tuple[bool, str]) -> tuple[bool, str]:
    is_done, text = answer
    if not text.startswith("Here're"):
        return answer
    head, root, *rest = text.split("\n")
    root = root.partition("\t")[2]
    return is_done, "\n".join(
        [head, root, *(line.partition("\t")[2] if line.endswith("/") else line for line in rest)]
    )


# -- what stands behind it -------------------------------------------------------------------------------


def test_pages_that_people_write_are_files_and_files_are_pages(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory") as memory:
        tool = ReverieMemoryTool(memory)
        memory.pages.write("MEMORY.md", "Tabs, not spaces.\n")
        assert "Tabs, not spaces." in done(tool, "view", path="/memories/MEMORY.md")
        done(tool, "str_replace", path="/memories/MEMORY.md", old_str="Tabs, not spaces", new_str="Spaces")
        assert memory.pages.read() == "Spaces.\n"
        done(tool, "create", path="/memories/list.txt", file_text="tea, rice")
        assert [record.content for record in memory.list()] == ["tea, rice"]
        done(tool, "create", path="/memories/progress.md", file_text="half\r\ndone")
        assert memory.pages.read("progress.md") == "half\ndone"
        assert memory.folder is not None
        memory.folder.sync()
        file = tmp_path / "memory/memory/progress.md"
        assert file.read_bytes() == b"half\ndone"
        file.write_text("all done")
        os.utime(file, ns=(0, time.time_ns() - 5_000_000_000))  # long enough ago to be a whole save
        time.sleep(0.5)  # turns look at all files in a fiftieth of the time, if that takes more than .3 ms
        assert "all done" in done(tool, "view", path="/memories/progress.md")


def test_every_change_is_the_agents_and_can_be_undone(memory: Memory) -> None:
    tool = ReverieMemoryTool(memory)
    done(tool, "create", path="/memories/d/a.md", file_text="first")
    done(tool, "create", path="/memories/d/b.txt", file_text="second")
    done(tool, "str_replace", path="/memories/d/a.md", old_str="first", new_str="1st")
    done(tool, "rename", old_path="/memories/d", new_path="/memories/e")
    done(tool, "delete", path="/memories/e")
    changes = memory.history.log()
    assert {row.actor for row in changes} == {"agent"}
    assert memory.pages.names() == []
    deleted = max(row.batch for row in changes)
    memory.history.undo(batch=deleted)
    assert memory.pages.names() == ["e/a.md"]
    assert "second" in done(tool, "view", path="/memories/e/b.txt")
    renamed = sorted({row.batch for row in changes})[-2]
    memory.history.undo(batch=renamed)
    assert done(tool, "view", path="/memories/d/a.md").endswith("     1\t1st")


def test_history_and_daily_notes_are_read_only(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(15):
        memory.pages.append("HISTORY.md", f"{n} " + "x" * 16_000)
    tool = ReverieMemoryTool(memory)
    path, text = "/memories/HISTORY.md", memory.pages.read("HISTORY.md")
    for command in (
        {"command": "str_replace", "path": path, "old_str": "14 x", "new_str": "stayed"},
        {"command": "insert", "path": path, "insert_line": 29, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/b.md"},
        {"command": "create", "path": "/memories/2025-06-02.md", "file_text": "Talked to Ada."},
    ):
        assert "read-only" in refused(tool, **command)
    assert refused(tool, "create", path=path, file_text="x") == f"File {path} already exists"
    assert memory.pages.names() == ["HISTORY.md"]
    assert memory.pages.read("HISTORY.md") == text
    monkeypatch.setattr(anthropic_memory, "LONGEST_SHOWN", 100_000)
    assert "view_range, such as [" in refused(tool, "view", path=path)
    assert "14 x" in done(tool, "view", path=path, view_range=[29, -1])


# -- several at once -------------------------------------------------------------------------------------


def test_a_scope_sees_its_own_files_and_everybodys_pages_to_read(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "Office hours: nine to five.\n")
    alice = ReverieMemoryTool(memory.scoped("user:alice"))
    bob = ReverieMemoryTool(memory.scoped("user:bob"))
    done(alice, "create", path="/memories/diary.md", file_text="Alice is allergic to nuts.")
    memory.scoped("user:alice").save("Alice lives in Oslo", category="home")
    assert "diary" not in done(bob, "view", path="/memories")
    assert "home" not in done(bob, "view", path="/memories")
    assert "does not exist" in refused(bob, "view", path="/memories/diary.md")
    assert "diary" not in done(ReverieMemoryTool(memory), "view", path="/memories")
    assert "nine to five" in done(bob, "view", path="/memories/shared/MEMORY.md")
    assert "read-only" in refused(
        bob, "str_replace", path="/memories/shared/MEMORY.md", old_str="nine", new_str="ten"
    )
    assert "read-only" in refused(bob, "delete", path="/memories/shared/MEMORY.md")
    assert memory.pages.read() == "Office hours: nine to five.\n"
    assert memory.scoped("user:alice").search("allergic")[0].content == "Alice is allergic to nuts."
    assert memory.scoped("user:bob").search("allergic") == []


def test_a_secret_is_not_kept_and_not_shown_again(tool: ReverieMemoryTool) -> None:
    key = "sk-proj-" + "kR7vQ2mX9pLw4TzBn6Jd8sYf3HcGa5Ue" + "T3BlbkFJ" + "kR7vQ2mX9pLw4TzBn6Jd8sYf3HcGa5Ue"
    done(tool, "create", path="/memories/a.md", file_text="the key is secret")
    edited = done(tool, "str_replace", path="/memories/a.md", old_str="secret", new_str=key)
    assert key not in edited
    assert "the key is" in edited
    assert key not in done(tool, "view", path="/memories/a.md")


def test_the_asynchronous_tool_does_the_same(memory: Memory) -> None:
    tool, path = AsyncReverieMemoryTool(memory), "/memories/a.md"
    for command, fields, answer in (
        ("create", {"path": path, "file_text": "x"}, "created successfully"),
        ("str_replace", {"path": path, "old_str": "x", "new_str": "y"}, "     1\ty"),
        ("insert", {"path": path, "insert_line": 1, "insert_text": "z"}, "has been edited"),
        ("view", {"path": path}, "     1\ty\n     2\tz\n     3\t"),
        ("rename", {"old_path": path, "new_path": "/memories/b"}, "to /memories/b"),
        ("delete", {"path": "/memories/b"}, "Successfully deleted /memories/b"),
    ):
        assert answer in str(asyncio.run(tool.call({"command": command, **fields})))


# -- files -----------------------------------------------------------------------------------------------


def test_an_edit_is_made_from_what_is_there_at_that_moment(tool: ReverieMemoryTool) -> None:
    done(tool, "create", path="/memories/a.md", file_text="1")
    calls = []

    def plan(present: Any) -> dict[tuple[str, ...], str]:
        calls.append(present[("a.md",)])
        if len(calls) == 1:
            done(tool, "str_replace", path="/memories/a.md", old_str="1", new_str="12")
        return {("a.md",): f"{present[('a.md',)]}3"}

    tool._change(plan, "write")
    assert calls == ["1", "12"]
    assert "123" in done(tool, "view", path="/memories/a.md")


@pytest.mark.parametrize("view", [whole, of_alice])
def test_odd_names_are_files_that_the_readable_folder_keeps(tmp_path: Path, view: View) -> None:
    names = ["to do/list of things.txt", ".hidden/.x", "x.tmp/a.md", "x.bak/y.swp", "ü/ß.md"]
    names += ["a..md", "x.json", "e.jsonl", "con", "a/b/c/d/e/f.md"]
    with Memory.open(tmp_path) as memory:
        tool = ReverieMemoryTool(view(memory))
        for name in names:
            done(tool, "create", path=f"/memories/{name}", file_text=f"text of {name}")
        assert memory.flush()
        assert memory.admin.doctor().findings == ()
    (tmp_path / "reverie.db").rename(tmp_path / "gone.db")
    for each in ("reverie.db-wal", "reverie.db-shm"):
        (tmp_path / each).unlink(missing_ok=True)
    rebuild(tmp_path, analyse=analyze)
    with Memory.open(tmp_path) as memory:
        tool = ReverieMemoryTool(view(memory))
        for name in names:
            assert f"text of {name}" in done(tool, "view", path=f"/memories/{name}")
