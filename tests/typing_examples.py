"""The public API as a user's type checker sees it. Checked by `mypy --strict`, never run.

`assert_type` fails if a result has another type than is documented. A call that must be refused carries
`type: ignore`, which mypy reports as unused should it ever be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

import reverie
from reverie import (
    AsyncMemory,
    AsyncSession,
    Entry,
    Hit,
    Memory,
    MemoryReader,
    NewRecord,
    Pack,
    Paragraph,
    Record,
    ReverieError,
    SaveResult,
    ScopedMemory,
    Session,
    SessionOverview,
    SessionState,
    Settings,
    StoreError,
    ToolCall,
    Turn,
    WorkingMemory,
)
from reverie.search.analyzer import analyze
from reverie.search.hits import SOURCES
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore

NOW = datetime(2025, 6, 2, tzinfo=UTC)


def opening(folder: Path) -> None:
    assert_type(Memory.open(folder, settings=Settings(replay_turns=10), actor="agent", create=False), Memory)
    with Memory.open(":memory:", clock=lambda: NOW, new_id=lambda: "0123456789ab") as memory:
        assert_type(memory.path, Path | None)
        assert_type(memory.settings, Settings)
        assert_type(memory.scratchpad, WorkingMemory)
        assert_type(memory.scoped("user:alice"), ScopedMemory)
        assert_type(memory.scoped("*"), MemoryReader)
    stores: list[Store] = [InMemoryStore(analyse=analyze), SQLiteStore(folder / "a.db", analyse=analyze)]
    assert_type(Memory(stores[0], path=None, actor="agent"), Memory)
    Memory(folder)  # type: ignore[arg-type]
    Memory.open(folder, Settings())  # type: ignore[call-arg]
    Memory.open(folder, clock=NOW)  # type: ignore[arg-type]


def remembering(memory: Memory) -> None:
    saved = memory.scoped("user:alice").save(
        "Prefers short answers",
        kind="preference",
        tags=["style"],
        confidence=0.9,
        origin="agent",
        valid_to=None,
    )
    assert_type(saved, SaveResult)
    memory.save("Prefers short answers", ttl=timedelta(days=30), metadata={"old_id": "7"}, created_at=NOW)
    mapping: Mapping[str, Any] = {"content": "another", "tags": ["b"]}
    notes: list[NewRecord | Mapping[str, Any]] = [NewRecord(content="a lesson", kind="lesson"), mapping]
    assert_type(memory.save_many(notes, progress=lambda done: None), list[SaveResult])
    memory.save("x", kind="thought")  # type: ignore[arg-type]
    memory.save("x", origin="stranger")  # type: ignore[arg-type]
    memory.save("x", "general")  # type: ignore[call-arg]
    memory.save(1)  # type: ignore[arg-type]


def finding(memory: Memory) -> None:
    assert_type(memory.get("0123456789ab"), Record | None)
    assert_type(memory.get_turn("0123456789ab"), Turn | None)
    assert_type(memory.get_paragraph("0123456789ab"), Paragraph | None)
    assert_type(memory.list(limit=None, offset=10, archived=None, pinned=True, kind=["fact"]), list[Record])
    assert_type(memory.scoped("user:alice").categories(), dict[str, int])
    assert_type(memory.search("how should I answer?", limit=5, min_score=0.2), list[Hit])
    memory.search(None, sources=SOURCES)
    memory.search("answer", mode="literal", category="a", tags=["b"], kind=["fact"], origin=["owner"])
    memory.search("launch", unit="session", session=["a", "b"], role=["user"], sources="turns")
    memory.search("launch", created_after=NOW, created_before=None, valid_at=NOW)
    memory.list(roles=["user"])  # type: ignore[call-arg]
    memory.search("x", kind=["thought"])  # type: ignore[list-item]
    memory.search("x", scope="a")  # type: ignore[call-arg]
    memory.search("x", sources="notes")  # type: ignore[arg-type]
    memory.search("x", mode="fuzzy")  # type: ignore[arg-type]


def changing(memory: Memory, record: Record) -> None:
    assert_type(memory.update(record.id, expected=record, content="new", category=None, tags=["a"]), Record)
    assert_type(memory.archive(record.id, reason="outdated"), Record)
    assert_type(memory.restore(record.id), Record)
    assert_type(memory.admin.purge(older_than="30d"), int)
    memory.update(record.id, scope="user:bob")  # type: ignore[call-arg]
    memory.update(record.id, kind="thought")  # type: ignore[arg-type]


def talking(memory: Memory) -> None:
    chat: Session = memory.scoped("user:alice").session("telegram:12345")
    turn = chat.add("user", "Did the deploy work?", speaker="Ines", at=NOW, metadata={"a": "b"})
    assert_type((turn, turn.position, turn.tool_calls), tuple[Turn, int, tuple[ToolCall, ...]])
    chat.add("assistant", "", tool_calls=[ToolCall(id="1", name="ping", arguments="{}")])
    chat.add("assistant", "", tool_calls=[{"id": "2", "name": "ping", "arguments": "{}"}])
    assert_type(chat.add_many([{"role": "user", "content": "Well?"}]), list[Turn])
    assert_type((chat.state, chat.pause(), chat.turns()), tuple[SessionState, SessionState, list[Turn]])
    assert_type((chat.flush(), chat.id), tuple[bool, str])
    assert_type(memory.scoped("user:alice").sessions(limit=5), list[SessionOverview])
    assert_type(memory.turns("telegram:12345", start=-5, stop=None), list[Turn])
    assert_type(memory.delete_session("telegram:12345"), int)
    chat.add("robot", "hello")  # type: ignore[arg-type]


def settings_and_errors(folder: Path) -> None:
    loaded = Settings.load(folder / "reverie.toml", {"REVERIE_REPLAY_TURNS": "8"}, max_entries=20)
    assert_type((loaded.replay_turns, loaded.min_relevance), tuple[int, float | None])
    assert_type((loaded.idle, loaded.default_ttl), tuple[timedelta, timedelta | None])
    loaded.soft_tokens = 5  # type: ignore[misc]
    errors: list[type[ReverieError]] = [reverie.Conflict, reverie.WorkingMemoryFull, StoreError]
    builtin: tuple[type[ValueError], type[LookupError]] = (reverie.InvalidInput, reverie.NotFound)
    del errors, builtin


async def asynchronous(folder: Path) -> None:
    async with AsyncMemory.open(folder, settings=Settings(), actor="agent") as memory:
        assert_type(memory, AsyncMemory)
        assert_type(await memory.save("Prefers short answers", tags=["style"]), SaveResult)
        assert_type(await memory.scoped("user:alice").search("answers", limit=3), list[Hit])
        chat = await memory.scoped("user:alice").session("cli:1")
        assert_type(chat, AsyncSession)
        assert_type(await chat.add("user", "hello", at=NOW), Turn)
        assert_type(await chat.context(hard_tokens=400), Pack)
        assert_type(await chat.state(), SessionState)
        assert_type(await chat.working.set("a", "b", ttl="10m"), Entry)
        assert_type((memory.sync, memory.path), tuple[Memory, Path | None])
        await memory.save("x", kind="thought")  # type: ignore[arg-type]
        await chat.add("robot", "hello")  # type: ignore[arg-type]
    assert_type(await memory.close(), None)
