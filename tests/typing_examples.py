"""The public API as a user's type checker sees it. Checked by `mypy --strict`, never run.

`assert_type` fails if a result has another type than is documented. A call that must be refused carries
`type: ignore`, which mypy reports as unused should it ever be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, assert_type

from agents import FunctionTool
from agents.memory import Session as AgentsSession
from anthropic.lib.tools import BetaAbstractMemoryTool

import reverie
from reverie import (
    AsyncMemory,
    AsyncSession,
    Change,
    Entry,
    Filter,
    Hit,
    JournalEntry,
    Memory,
    MemoryReader,
    NewRecord,
    Pack,
    Page,
    Pages,
    PageWriteResult,
    Paragraph,
    Record,
    RecoveryReport,
    ReverieError,
    SaveResult,
    ScopedMemory,
    Session,
    SessionOverview,
    SessionState,
    Settings,
    Snapshot,
    Stats,
    StoreError,
    ToolCall,
    Turn,
    UndoResult,
    WorkingMemory,
)
from reverie.domain.record import Kind, Layer, Origin
from reverie.integrations.anthropic_memory import ReverieMemoryTool
from reverie.integrations.openai_agents import ReverieSession, tools_for
from reverie.repositories.working_memory import EntryHit
from reverie.search.analyzer import analyze
from reverie.search.hits import SOURCES
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store, StoreProblem
from reverie.stores.sqlite import SQLiteStore
from reverie.tools import Tool, ToolResult, Toolset, with_chunking

NOW = datetime(2025, 6, 2, tzinfo=UTC)


def opening(folder: Path) -> None:
    for memory in (
        Memory.open(),
        Memory.open("~/agent"),
        Memory.open(folder, settings=Settings(replay_turns=10), actor="agent", create=False),
        Memory.open(":memory:", clock=lambda: NOW, new_id=lambda: "0123456789ab"),
    ):
        assert_type(memory, Memory)
        assert_type(memory.close(), None)
    with Memory.open(folder, profile=folder / "agent") as memory:
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
        category="user-preferences/style",
        kind="preference",
        layer="semantic",
        tags=["style"],
        confidence=0.9,
        references=("README.md",),
        origin="agent",
        pinned=True,
        valid_from=NOW,
        valid_to=None,
        ttl=timedelta(days=30),
        metadata={"old_id": "7"},
        created_at=NOW,
    )
    assert_type(saved, SaveResult)
    memory.save("Prefers short answers", ttl="30d")
    memory.save("Prefers short answers", ttl=90)
    mapping: Mapping[str, Any] = {"content": "another", "tags": ["b"]}
    notes: list[NewRecord | Mapping[str, Any]] = [NewRecord(content="a lesson", kind="lesson"), mapping]
    assert_type(memory.save_many(notes, progress=lambda done: None), list[SaveResult])
    memory.save("x", kind="thought")  # type: ignore[arg-type]
    memory.save("x", origin="stranger")  # type: ignore[arg-type]
    memory.save("x", "general")  # type: ignore[call-arg]
    memory.save(1)  # type: ignore[arg-type]


def a_record(record: Record) -> None:
    assert_type((record.id, record.content, record.category), tuple[str, str, str | None])
    assert_type((record.kind, record.layer, record.origin), tuple[Kind, Layer, Origin])
    assert_type((record.tags, record.metadata), tuple[tuple[str, ...], Mapping[str, str]])
    assert_type((record.created_at, record.valid_to), tuple[datetime, datetime | None])
    assert_type((record.pinned, record.archived, record.seen_count), tuple[bool, bool, int])
    assert_type(Record.from_dict(record.to_dict()), Record)
    record.content = "changed"  # type: ignore[misc]


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


def a_hit(hit: Hit) -> None:
    assert_type((hit.id, hit.content, hit.score, hit.is_trusted), tuple[str, str, float, bool])
    assert_type((hit.record, hit.turn), tuple[Record | None, Turn | None])
    assert_type((hit.explanation.matched, hit.explanation.note), tuple[tuple[str, ...], str])
    assert_type(hit.explanation.parts, Mapping[str, float])
    assert_type(hit.to_dict(), dict[str, Any])


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
    assert_type(chat.search("deploy", limit=3, roles=["user"], created_after=NOW), list[Hit])
    assert_type((chat.flush(), chat.id), tuple[bool, str])
    assert_type(memory.scoped("user:alice").sessions(limit=5), list[SessionOverview])
    assert_type(memory.turns("telegram:12345", start=-5, stop=None), list[Turn])
    assert_type(memory.delete_session("telegram:12345"), int)
    chat.add("robot", "hello")  # type: ignore[arg-type]


def prompting(chat: Session) -> None:
    pack = chat.context("a message", soft_tokens=300, hard_tokens=400, record_shown=False)
    assert_type(pack, Pack)
    assert_type((pack.text, pack.stable_text, pack.explain()), tuple[str, str, str])
    assert_type((pack.messages, pack.hits), tuple[list[dict[str, Any]], list[Hit]])
    assert_type((pack.tokens, pack.soft_tokens, pack.diagnostics.candidates), tuple[int, int, int])
    verdicts: list[tuple[str, Hit, int]] = [(c.verdict, c.hit, c.tokens) for c in pack.choices]
    del verdicts


def working(working: WorkingMemory) -> None:
    assert_type(working.set("log", "text", ttl="10m", category="logs", tags=["deploy"]), Entry)
    working.set("log", "text", ttl=None)
    working.set("log", "text", ttl=timedelta(minutes=5))
    assert_type((working.get("log"), working.entry("log")), tuple[str | None, Entry | None])
    assert_type((working.list("log/"), working.inventory()), tuple[list[Entry], str])
    assert_type(working.search("text", category="logs", tags=["deploy"], limit=3), list[EntryHit])
    assert_type((working.delete("log"), working.clear()), tuple[bool, int])
    working.set("log", b"bytes")  # type: ignore[arg-type]


def journal(memory: Memory) -> None:
    rows = memory.history.log("MEMORY.md", since=NOW, until=7, actor="dream", newest_first=True)
    assert_type((rows, rows[0].edit), tuple[list[JournalEntry], Change | None])
    assert_type(memory.history.blame("0123456789ab"), reverie.Blame)
    assert_type(memory.history.diff("0123456789ab", 3, NOW), reverie.Difference)
    assert_type(memory.history.undo([3, rows[0]], dry_run=True), UndoResult)
    memory.history.undo(batch=3)
    memory.history.undo(since=NOW)
    memory.history.undo(since="2h")  # type: ignore[arg-type]
    with memory.as_of(NOW) as past:
        assert_type(past, Snapshot)
        assert_type(past.list(category="general"), list[Record])
        assert_type(past.session("cli:1").context("question", record_shown=False), Pack)
        past.save("text")  # type: ignore[attr-defined]


def pages(pages: Pages) -> None:
    assert_type(pages.write("MEMORY.md", "text", expected="old", reason="digest"), PageWriteResult)
    assert_type(pages.replace("old", "new", name="MEMORY.md").page, Page)
    assert_type(pages.append("HISTORY.md", "text", at=NOW, source="cli:1"), Paragraph | Page)
    assert_type((pages.read(), pages.delete("plans.md"), pages.context(NOW)), tuple[str, bool, str])
    assert_type((pages.paragraphs(), pages.names()), tuple[list[Paragraph], list[str]])
    pages.write("MEMORY.md", b"bytes")  # type: ignore[arg-type]


def administration(memory: Memory, folder: Path) -> None:
    assert_type(memory.admin.stats(), Stats)
    assert_type(memory.admin.check(), list[StoreProblem])
    kept = memory.admin.backup(folder / "kept.zip", overwrite=True)
    assert_type(reverie.recover(kept.path, folder / "new", replace=True), RecoveryReport)
    assert_type(memory.admin.export("out", scope=["", "user:alice"]), reverie.ExportReport)
    taken = memory.admin.import_from(folder / "out", origin="owner", scope="user:alice", dry_run=True)
    assert_type((taken, taken.skipped), tuple[reverie.ImportReport, tuple[reverie.Skipped, ...]])
    memory.admin.import_from("out", origin="me")  # type: ignore[arg-type]


def settings_and_errors(folder: Path) -> None:
    loaded = Settings.load(folder / "reverie.toml", {"REVERIE_REPLAY_TURNS": "8"}, max_entries=20)
    assert_type((loaded.replay_turns, loaded.min_relevance), tuple[int, float | None])
    assert_type((loaded.idle, loaded.default_ttl), tuple[timedelta, timedelta | None])
    loaded.soft_tokens = 5  # type: ignore[misc]
    assert_type(Filter(kinds=("fact",), scopes=None), Filter)
    leaves: list[type[ReverieError]] = [reverie.Conflict, reverie.WorkingMemoryFull, StoreError]
    of_stores: list[type[StoreError]] = [reverie.StoreUnavailable, reverie.StoreCorrupt]
    builtin: tuple[type[ValueError], type[LookupError], type[ImportError]] = (
        reverie.InvalidInput,
        reverie.NotFound,
        reverie.MissingExtra,
    )
    del leaves, of_stores, builtin


def tools(memory: Memory) -> None:
    some: Toolset = memory.tools(session="cli:1", groups=["long_term", "working"])
    assert_type(some.only("save_memory").prefixed("my_"), Toolset)
    assert_type(some.approved(lambda tool, given: "ask first"), Toolset)
    assert_type(some.call("save_memory", {"content": "x"}), ToolResult)
    assert_type(with_chunking(some, memory.scratchpad), Toolset)
    assert_type(with_chunking(some[0], memory.scratchpad), Tool)
    assert_type(some.openai() + some.anthropic(cached=True) + some.mcp(), list[dict[str, Any]])
    memory.tools("cli:1")  # type: ignore[call-arg]


def frameworks(memory: Memory) -> None:
    conversation: AgentsSession = ReverieSession("cli:1", memory.scoped("user:alice"))
    tool: BetaAbstractMemoryTool = ReverieMemoryTool(memory, cache_control={"type": "ephemeral"})
    functions: list[FunctionTool] = tools_for(memory.tools())
    assert_type(memory.scoped("").documents().read(("a.md",)), str | None)
    ReverieSession("cli:1", "a folder")  # type: ignore[arg-type]
    del conversation, tool, functions


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
