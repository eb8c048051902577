"""The public API as a user's type checker sees it. Checked by `mypy --strict`, never run.

Every result is assigned to a name of the type it is documented to have, so a change of a type fails the
check; `assert_type` stands where a wider type would still fit. A call that must be refused carries
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

from reverie import (
    AsyncMemory,
    AsyncSession,
    Backup,
    Blame,
    Change,
    Conflict,
    Difference,
    Entry,
    Explanation,
    ExportReport,
    FieldChange,
    Filter,
    Hit,
    ImportReport,
    InvalidInput,
    Journal,
    JournalEntry,
    Memory,
    MissingExtra,
    NewRecord,
    NotFound,
    Pack,
    Page,
    PageOverview,
    Pages,
    PageWriteResult,
    Paragraph,
    Record,
    RecoveryReport,
    ReverieError,
    SaveResult,
    Session,
    SessionOverview,
    SessionState,
    Settings,
    Skipped,
    Snapshot,
    Stats,
    StoreCorrupt,
    StoreError,
    StoreIncompatible,
    StoreUnavailable,
    ToolCall,
    Turn,
    UndoResult,
    WorkingMemory,
    WorkingMemoryFull,
    __version__,
    recover,
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
    version: str = __version__
    from_text: Memory = Memory.open("~/agent")
    from_path: Memory = Memory.open(folder, settings=Settings(replay_turns=10), actor="agent", create=False)
    replayed: Memory = Memory.open(":memory:", clock=lambda: NOW, new_id=lambda: "0123456789ab")
    usual: Memory = Memory.open()
    with Memory.open(folder, profile=folder / "agent") as memory:
        assert_type(memory, Memory)
        path: Path | None = memory.path
        settings: Settings = memory.settings
        scratchpad: WorkingMemory = memory.scratchpad
    assert_type(usual.close(), None)
    Memory.open(folder, Settings())  # type: ignore[call-arg]
    Memory.open(folder, clock=NOW)  # type: ignore[arg-type]
    del version, from_text, from_path, replayed, path, settings, scratchpad


def a_store_of_ones_own(folder: Path) -> None:
    stores: list[Store] = [
        InMemoryStore(analyse=analyze),
        SQLiteStore(folder / "reverie.db", analyse=analyze),
    ]
    memories: list[Memory] = [Memory(store, path=None, actor="agent") for store in stores]
    Memory(folder)  # type: ignore[arg-type]
    del memories


def remembering(memory: Memory) -> None:
    saved: SaveResult = memory.scoped("user:alice").save(
        "Prefers short answers",
        category="user-preferences/style",
        kind="preference",
        layer="semantic",
        tags=["style"],
        confidence=0.9,
        importance=1,
        source="session:cli:1",
        references=("README.md",),
        origin="agent",
        pinned=True,
        valid_from=NOW,
        valid_to=None,
        ttl=timedelta(days=30),
        metadata={"old_id": "7"},
        created_at=NOW,
    )
    short: SaveResult = memory.save("Prefers short answers", ttl="30d")
    seconds: SaveResult = memory.save("Prefers short answers", ttl=90)
    notes: list[NewRecord] = [NewRecord(content="a fact"), NewRecord(content="a lesson", kind="lesson")]
    mapping: Mapping[str, Any] = {"content": "another", "tags": ["b"]}
    many: list[SaveResult] = memory.save_many(notes, progress=lambda done: None)
    mixed: list[SaveResult] = memory.save_many([notes[0], mapping])
    record: Record = saved.record
    reinforced: bool = saved.outcome == "reinforced"
    memory.save("x", kind="thought")  # type: ignore[arg-type]
    memory.save("x", origin="stranger")  # type: ignore[arg-type]
    memory.save("x", "general")  # type: ignore[call-arg]
    memory.save(1)  # type: ignore[arg-type]
    del short, seconds, many, mixed, record, reinforced


def a_record(record: Record) -> None:
    texts: tuple[str, str, str, str] = (record.id, record.content, record.source, record.scope)
    category: str | None = record.category
    kind: Kind = record.kind
    layer: Layer = record.layer
    origin: Origin = record.origin
    tags: tuple[str, ...] = record.tags
    shares: tuple[float, float] = (record.confidence, record.importance)
    moments: list[datetime] = [record.created_at, record.updated_at, record.last_seen_at]
    until: list[datetime | None] = [record.valid_from, record.valid_to, record.expires_at, record.archived_at]
    flags: tuple[bool, bool] = (record.pinned, record.archived)
    metadata: Mapping[str, str] = record.metadata
    seen: int = record.seen_count
    written: dict[str, Any] = record.to_dict()
    again: Record = Record.from_dict(written)
    fingerprint: str = again.fingerprint
    record.content = "changed"  # type: ignore[misc]
    del texts, category, kind, layer, origin, tags, shares, moments, until, flags, metadata, seen
    del fingerprint


def reading(memory: Memory) -> None:
    assert_type(memory.get("0123456789ab"), Record | None)
    assert_type(memory.get_turn("0123456789ab"), Turn | None)
    records: list[Record] = memory.list(limit=None, offset=10, archived=None, pinned=True, kind=["fact"])
    categories: dict[str, int] = memory.scoped("user:alice").categories()
    tags: dict[str, int] = memory.scoped("user:alice").tags()
    memory.list(roles=["user"])  # type: ignore[call-arg]
    del records, categories, tags


def searching(memory: Memory) -> None:
    hits: list[Hit] = memory.search("how should I answer?", limit=5, min_score=0.2)
    newest: list[Hit] = memory.search(None)
    restricted: list[Hit] = memory.scoped("user:alice").search(
        "answer",
        mode="literal",
        category="user-preferences",
        tags=["style"],
        kind=["preference"],
        layer=["semantic"],
        origin=["owner", "agent"],
        created_after=NOW,
        created_before=None,
        valid_at=NOW,
    )
    turns: list[Hit] = memory.search(
        "launch", unit="session", session=["a", "b"], role=["user"], sources="turns"
    )
    everything: list[Hit] = memory.search("launch", mode="regex", session="a", kind=["fact"], sources=SOURCES)
    memory.search("x", kind=["thought"])  # type: ignore[list-item]
    memory.search("x", scope="a")  # type: ignore[call-arg]
    memory.search("x", sources="notes")  # type: ignore[arg-type]
    memory.search("x", mode="fuzzy")  # type: ignore[arg-type]
    newest_of_both: list[Hit] = memory.search(None, sources=SOURCES)
    del hits, newest, restricted, turns, everything, newest_of_both


def a_hit(hit: Hit) -> None:
    score: float = hit.score
    assert_type(hit.record, Record | None)
    assert_type(hit.turn, Turn | None)
    assert_type(hit.session, SessionState | None)
    texts: tuple[str, str, str] = (hit.id, hit.content, hit.kind)
    layer: Layer = hit.layer
    at: datetime = hit.at
    trusted: bool = hit.is_trusted
    metadata: Mapping[str, str] = hit.metadata
    why: Explanation = hit.explanation
    matched: tuple[str, ...] = why.matched
    parts: Mapping[str, float] = why.parts
    evidence: Mapping[str, float] = why.evidence
    note: str = why.note
    written: dict[str, Any] = hit.to_dict()
    del score, texts, layer, at, trusted, metadata, matched, parts, evidence, note, written


def changing(memory: Memory, record: Record) -> None:
    updated: Record = memory.update(record.id, expected=record, content="new", category=None, tags=["a"])
    archived: Record = memory.archive(record.id, reason="outdated")
    restored: Record = memory.restore(record.id)
    pinned: Record = memory.update(record.id, pinned=True)
    unpinned: Record = memory.update(record.id, pinned=False)
    assert_type(memory.admin.purge(older_than="30d"), int)
    memory.update(record.id, scope="user:bob")  # type: ignore[call-arg]
    memory.update(record.id, kind="thought")  # type: ignore[arg-type]
    del updated, archived, restored, pinned, unpinned


def talking(memory: Memory) -> None:
    chat: Session = memory.scoped("user:alice").session("telegram:12345")
    turn: Turn = chat.add("user", "Did the deploy work?", speaker="Ines", at=NOW, metadata={"a": "b"})
    call: Turn = chat.add("assistant", "", tool_calls=[ToolCall(id="1", name="ping", arguments="{}")])
    plain: Turn = chat.add("assistant", "", tool_calls=[{"id": "2", "name": "ping", "arguments": "{}"}])
    result: Turn = chat.add("tool", "2 ms", tool_call_id="1")
    added: list[Turn] = chat.add_many([{"role": "user", "content": "Well?"}])
    state: SessionState = chat.state
    window: list[Turn] = chat.turns()
    replay: list[Turn] = chat.recent_turns(5)
    found: list[Hit] = chat.search("deploy", limit=3, roles=["user"], created_after=NOW, min_score=0.1)
    assert_type(chat.reset(), None)
    states: list[SessionState] = [
        chat.pause(),
        chat.resume(),
        chat.terminate(),
        chat.set_metadata("title", None),
    ]
    assert_type(chat.flush(), bool)
    assert_type(chat.id, str)
    used: datetime = chat._last_used
    overviews: list[SessionOverview] = memory.scoped("user:alice").sessions(limit=5)
    counts: list[tuple[str, int, datetime]] = [(o.state.id, o.turns, o.last_at) for o in overviews]
    turns: list[Turn] = memory.turns("telegram:12345", start=-5, stop=None)
    assert_type(memory.delete_session("telegram:12345"), int)
    position: int = turn.position
    calls: tuple[ToolCall, ...] = turn.tool_calls
    chat.add("robot", "hello")  # type: ignore[arg-type]
    del call, plain, result, added, state, window, replay, found, states, used, counts, turns, position, calls


def prompting(chat: Session) -> None:
    pack: Pack = chat.context()
    preview: Pack = chat.context("a message", soft_tokens=300, hard_tokens=400, record_shown=False)
    text: str = pack.text
    parts: tuple[str, str] = (pack.stable_text, pack.changing_text)
    messages: list[dict[str, Any]] = pack.messages
    hits: list[Hit] = pack.hits
    numbers: tuple[int, int, int, int] = (
        pack.tokens,
        pack.soft_tokens,
        pack.hard_tokens,
        pack.replayed_tokens,
    )
    explained: str = pack.explain()
    candidates: int = pack.diagnostics.candidates
    written: dict[str, Any] = pack.to_dict()
    verdicts: list[tuple[str, Hit, int]] = [(c.verdict, c.hit, c.tokens) for c in pack.choices]
    names: list[str] = [section.name for section in pack.sections]
    del preview, text, parts, messages, hits, numbers, explained, candidates, written, verdicts, names


def working(memory: Memory, chat: Session) -> None:
    working: WorkingMemory = chat.working
    entry: Entry = working.set("log", "text", ttl="10m", category="logs", tags=["deploy"])
    kept: Entry = working.set("log", "text", ttl=None)
    timed: Entry = working.set("log", "text", ttl=timedelta(minutes=5))
    assert_type(working.get("log"), str | None)
    assert_type(working.entry("log"), Entry | None)
    entries: list[Entry] = working.list("log/")
    hits: list[EntryHit] = working.search("text", category="logs", tags=["deploy"], limit=3)
    found: list[tuple[float, Entry, tuple[str, ...]]] = [(h.score, h.entry, h.matched) for h in hits]
    assert_type(working.delete("log"), bool)
    assert_type(working.clear(), int)
    inventory: str = memory.scratchpad.inventory()
    left: timedelta | None = entry.get_remaining_time(NOW)
    working.set("log", b"bytes")  # type: ignore[arg-type]
    del kept, timed, entries, found, inventory, left


def journal(memory: Memory) -> None:
    journal: Journal = memory.history
    rows: list[JournalEntry] = journal.log("MEMORY.md", since=NOW, until=7, actor="dream", newest_first=True)
    edit: Change | None = rows[0].edit
    blame: Blame = journal.blame("0123456789ab")
    lines: list[tuple[str, int]] = [(each.text, each.change.sequence) for each in blame.lines if each.change]
    found: list[Difference] = [journal.diff("0123456789ab", 3, NOW), *journal.changes(since=NOW)]
    fields: tuple[FieldChange, ...] = found[0].fields
    undone: UndoResult = memory.history.undo(3, dry_run=True)
    undone = memory.history.undo([3, rows[0]])
    undone = memory.history.undo(batch=3)
    undone = memory.history.undo(since=NOW)
    memory.history.undo(undone.rows)
    memory.history.undo(since="2h")  # type: ignore[arg-type]
    assert_type(memory.as_of(3), Snapshot)
    with memory.as_of(NOW) as past:
        records: list[Record] = past.list(category="general")
        pack: Pack = past.session("cli:1").context("question", record_shown=False)
        past.save("text")  # type: ignore[attr-defined]
    del edit, lines, fields, records, pack


def pages(memory: Memory) -> None:
    pages: Pages = memory.pages
    written: PageWriteResult = pages.write("MEMORY.md", "text", expected="old", reason="digest")
    replaced: Page = pages.replace("old", "new", name="MEMORY.md").page
    added: Paragraph | Page = pages.append("HISTORY.md", "text", at=NOW, source="cli:1")
    assert_type(pages.read(), str)
    assert_type(pages.delete("plans.md"), bool)
    paragraphs: list[Paragraph] = [*pages.paragraphs(), *pages.notes(NOW)]
    names: list[str] = [*pages.names(), *(each.name for each in pages.overview())]
    sizes: list[PageOverview] = pages.overview()
    context: str = pages.context(NOW)
    hits: list[Hit] = memory.search(
        "text", limit=3, mode="literal", created_after=NOW, created_before=None, sources="pages"
    )
    told: list[Paragraph] = [hit.paragraph for hit in hits if hit.paragraph is not None]
    assert_type(memory.get_paragraph("0123456789ab"), Paragraph | None)
    pages.write("MEMORY.md", b"bytes")  # type: ignore[arg-type]
    del written, replaced, added, paragraphs, names, sizes, context, told


def looking_inside(memory: Memory) -> None:
    rows: list[JournalEntry] = memory.history.log("0123456789ab", after=5, limit=10)
    edits: list[Change] = [row.edit for row in rows if row.edit is not None and not row.forgotten]
    undone: list[Change] = [edit.invert() for edit in edits]
    befores: list[Record | Turn | SessionState | Page | Paragraph | None] = [edit.before for edit in edits]
    stats: Stats = memory.admin.stats()
    counts: tuple[int, int, int] = (stats.records, stats.turns, stats.bytes_on_disk)
    by_kind: Mapping[str, int] = stats.by_kind
    index: str = stats.index.state
    problems: list[StoreProblem] = memory.admin.check()
    words: list[tuple[str, str]] = [(problem.what, problem.fix) for problem in problems]
    only: Filter = Filter(kinds=("fact",), scopes=None)
    del undone, befores, counts, by_kind, index, words, only


def settings(folder: Path) -> None:
    built: Settings = Settings(soft_tokens=1000, default_ttl_minutes=None)
    loaded: Settings = Settings.load(folder / "reverie.toml", {"REVERIE_REPLAY_TURNS": "8"}, max_entries=20)
    limit: float | None = built.min_relevance
    turns: int = loaded.replay_turns
    idle: timedelta = loaded.idle
    ttl: timedelta | None = loaded.default_ttl
    layers: Mapping[str, int] = loaded.layer_limits
    built.soft_tokens = 5  # type: ignore[misc]
    del limit, turns, idle, ttl, layers


def elsewhere(memory: Memory, folder: Path) -> None:
    kept: Backup = memory.admin.backup(folder / "kept.zip", overwrite=True)
    back: RecoveryReport = recover(kept.path, folder / "new", replace=True)
    told: ExportReport = memory.admin.export("out", scope=["", "user:alice"])
    taken: ImportReport = memory.admin.import_from(
        folder / "out", origin="owner", scope="user:alice", dry_run=True
    )
    left_out: tuple[Skipped, ...] = taken.skipped
    numbers: Mapping[Any, int] = taken.skipped_by_reason
    memory.admin.import_from("out", origin="me")  # type: ignore[arg-type]
    del back, told, left_out, numbers


def errors() -> None:
    leaves: list[type[ReverieError]] = [
        InvalidInput,
        NotFound,
        Conflict,
        WorkingMemoryFull,
        StoreError,
        StoreUnavailable,
        StoreCorrupt,
        StoreIncompatible,
        MissingExtra,
    ]
    of_stores: list[type[StoreError]] = [StoreUnavailable, StoreCorrupt, StoreIncompatible]
    wrong: type[ValueError] = InvalidInput
    missing: type[LookupError] = NotFound
    extra: type[ImportError] = MissingExtra
    del leaves, of_stores, wrong, missing, extra


def tools(memory: Memory) -> None:
    some: Toolset = memory.tools(session="cli:1", groups=["long_term", "working"])
    assert_type(some.only("save_memory").prefixed("my_"), Toolset)
    assert_type(some.approved(lambda tool, given: "ask first"), Toolset)
    assert_type(some.call("save_memory", {"content": "x"}), ToolResult)
    assert_type(with_chunking(some, memory.scratchpad), Toolset)
    assert_type(with_chunking(some[0], memory.scratchpad), Tool)
    shown: list[dict[str, Any]] = some.openai() + some.anthropic(cached=True) + some.mcp()
    memory.tools("cli:1")  # type: ignore[call-arg]
    del shown


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
        saved: SaveResult = await memory.save("Prefers short answers", tags=["style"])
        hits: list[Hit] = await memory.scoped("user:alice").search("answers", limit=3)
        assert_type(await memory.get(saved.record.id), Record | None)
        chat: AsyncSession = await memory.scoped("user:alice").session("cli:1")
        turn: Turn = await chat.add("user", "hello", at=NOW)
        pack: Pack = await chat.context(hard_tokens=400)
        state: SessionState = await chat.state()
        entry: Entry = await chat.working.set("a", "b", ttl="10m")
        assert_type(await memory.scratchpad.get("a"), str | None)
        sync: Memory = memory.sync
        path: Path | None = memory.path
        await memory.save("x", kind="thought")  # type: ignore[arg-type]
        await chat.add("robot", "hello")  # type: ignore[arg-type]
    assert_type(await memory.close(), None)
    del hits, turn, pack, state, entry, sync, path
