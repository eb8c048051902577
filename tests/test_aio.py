"""The asynchronous API is the synchronous one, name for name."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import pytest

from reverie import (
    Administration,
    AsyncMemory,
    AsyncScopedMemory,
    AsyncSession,
    History,
    Journal,
    Memory,
    MemoryReader,
    NotFound,
    ScopedMemory,
    Session,
    Snapshot,
    StoreUnavailable,
    Worker,
)
from reverie.aio import (
    AsyncAdministration,
    AsyncHistory,
    AsyncJournal,
    AsyncKeyValueStore,
    AsyncMemoryReader,
    AsyncPages,
    AsyncSnapshot,
    AsyncWorker,
    AsyncWorkingMemory,
)
from reverie.repositories.key_value import KeyValueStore
from reverie.repositories.pages import Pages
from reverie.repositories.working_memory import WorkingMemory

PAIRS = [
    (Memory, AsyncMemory),
    (Session, AsyncSession),
    (WorkingMemory, AsyncWorkingMemory),
    (Pages, AsyncPages),
    (Journal, AsyncJournal),
    (Snapshot, AsyncSnapshot),
    (ScopedMemory, AsyncScopedMemory),
    (MemoryReader, AsyncMemoryReader),
    (History, AsyncHistory),
    (Worker, AsyncWorker),
    (Administration, AsyncAdministration),
    (KeyValueStore, AsyncKeyValueStore),
]
ATTRIBUTES = {
    "path",
    "settings",
    "id",
    "scope",
    "at",
    "sequence",
    "pages",
    "scratchpad",
    "working",
    "history",
}
ATTRIBUTES |= {"sync"}
"""Plain attributes on the synchronous side."""

INTERNAL = {"namespace", "acting", "cursors"}
"""What the synchronous parts need of each other."""


def public(cls: type) -> set[str]:
    return {name for owner in cls.__mro__[:-1] for name in vars(owner) if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS, ids=lambda cls: cls.__name__)
def test_both_have_the_same_names(sync: type, asynchronous: type) -> None:
    assert public(sync) - public(asynchronous) <= INTERNAL
    assert public(asynchronous) - public(sync) <= ATTRIBUTES


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS, ids=lambda cls: cls.__name__)
def test_both_have_the_same_signatures_and_docstrings(sync: type, asynchronous: type) -> None:
    compared = 0
    for name in sorted(public(sync) & public(asynchronous)):
        mine, theirs = inspect.getattr_static(sync, name), inspect.getattr_static(asynchronous, name)
        if isinstance(mine, property | cached_property):
            continue
        if isinstance(mine, classmethod):
            mine, theirs = mine.__func__, theirs.__func__
        assert hasattr(theirs, "__wrapped__") or theirs.__annotations__["return"] == "Opening[AsyncMemory]"
        parameters = [str(p) for p in inspect.signature(mine).parameters.values()]
        assert [str(p) for p in inspect.signature(theirs).parameters.values()] == parameters
        assert mine.__doc__ == theirs.__doc__
        compared += 1
    assert compared > 3


def test_the_file_is_what_the_script_writes() -> None:
    root = Path(__file__).parents[1]
    command = [sys.executable, str(root / "scripts" / "generate_async.py"), "--check"]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_an_agent_remembers_across_two_loops(tmp_path: Path) -> None:
    async def first() -> None:
        async with AsyncMemory.open(tmp_path) as memory:
            await memory.save("The staging database listens on port 5433")
            session = await memory.session("cli:1")
            await session.add("user", "Which port does staging use?")
            await session.working.set("draft", "port 5433")
            assert await session.working.get("draft") == "port 5433"

    async def second() -> list[str]:
        async with AsyncMemory.open(tmp_path) as memory:
            session = await memory.session("cli:1")
            pack = await session.context()
            assert "5433" in pack.text
            return [hit.content for hit in await memory.search("staging database port")]

    asyncio.run(first())
    assert asyncio.run(second()) == ["The staging database listens on port 5433"]


def test_what_is_opened_is_awaited_or_entered(tmp_path: Path) -> None:
    async def run() -> None:
        memory = await AsyncMemory.open(tmp_path)
        await memory.save("The ferry leaves at nine")
        past = await memory.as_of(1)
        assert len(await past.list()) == 1
        await past.close()
        async with memory.as_of(1) as entered:
            assert len(await entered.list()) == 1
        await memory.close()
        async with AsyncMemory.open(tmp_path) as again:
            pass
        with pytest.raises(StoreUnavailable):
            await again.list()
        with pytest.raises(NotFound, match="create"):
            async with AsyncMemory.open(tmp_path / "nowhere", create=False):
                pass

    asyncio.run(run())


def test_many_tasks_save_the_same_fact_once(tmp_path: Path) -> None:
    async def run() -> int:
        async with AsyncMemory.open(tmp_path) as memory:
            await asyncio.gather(*(memory.save("Deploys happen on Tuesdays") for _ in range(20)))
            (record,) = await memory.list()
            return record.seen_count

    assert asyncio.run(run()) == 20
