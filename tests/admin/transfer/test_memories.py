"""Exports and databases of other memories become records and turns, with what they say of themselves."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory
from reverie.admin.transfer.importer import ImportReport, detect_format
from tests.admin.transfer import samples

DAY = "2026-02-03T10:00:00Z"
LATER = "2026-03-04T10:00:00Z"


def table(path: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    """A table of a database, with columns as the first row has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    with database:
        columns = ", ".join(f'"{column}"' for column in rows[0])
        database.execute(f'CREATE TABLE "{name}" ({columns})')
        marks = ", ".join("?" for _ in rows[0])
        database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', [tuple(row.values()) for row in rows])
    database.close()
    return path


def mem0(folder: Path) -> Path:
    entry = {
        "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8e", "memory": "Prefers berth 7", "hash": "1a", "score": None,
        "user_id": "ada", "metadata": {"app": "harbour"}, "categories": ["boats"], "created_at": DAY,
        "updated_at": LATER,
    }  # fmt: skip
    return samples.document(folder / "mem0.json", {"results": [entry, {**entry, "id": "2", "memory": ""}]})


def mem0_history(folder: Path) -> Path:
    def row(number: int, name: str, event: str, old: Any, new: Any) -> dict[str, Any]:
        return {
            "id": str(number), "memory_id": name, "old_memory": old, "new_memory": new, "event": event,
            "created_at": DAY, "updated_at": LATER if number > 1 else None, "is_deleted": int(event == "DELETE"),
            "actor_id": None, "role": "user",
        }  # fmt: skip

    rows = [
        row(1, "a", "ADD", None, "Prefers berth 5"), row(2, "a", "UPDATE", "Prefers berth 5", "Prefers berth 7"),
        row(3, "b", "ADD", None, "Owns a dinghy"), row(4, "b", "DELETE", "Owns a dinghy", None),
    ]  # fmt: skip
    return table(folder / "history.db", "history", rows)


def hindsight(folder: Path) -> Path:
    fact = {
        "text": "Ada prefers berth 7", "source_id": "f1", "fact_type": "world", "context": "chat", "tags": ["x"],
        "entities": ["Ada"], "mentioned_at": DAY, "occurred_start": None, "metadata": {"k": "v"},
    }  # fmt: skip
    event = {**fact, "text": "Ada sold the dinghy", "source_id": None, "fact_type": "experience"}
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "bank.zip", "w") as archive:
        archive.writestr("manifest.json", json.dumps({"schema_version": 1, "source_bank_id": "b"}))
        document = {"id": "d1", "original_text": "…", "chunks": [], "facts": [fact, event]}
        archive.writestr("documents/000000.json", json.dumps(document))
    return folder / "bank.zip"


def langgraph(folder: Path) -> Path:
    value = {"kind": "Memory", "content": {"content": "Prefers berth 7"}}
    row = {
        "prefix": "memories.ada",
        "key": "k1",
        "value": json.dumps(value),
        "created_at": DAY,
        "updated_at": LATER,
    }
    return table(folder / "store.db", "store", [row, {**row, "key": "k2", "value": "{broken"}])


def langgraph_items(folder: Path) -> Path:
    item = {
        "namespace": ["memories", "ada"],
        "key": "k1",
        "value": {"topic": "boats", "text": "Prefers berth 7"},
    }
    return samples.lines(folder / "items.jsonl", [{**item, "created_at": DAY, "updated_at": LATER}])


def letta(folder: Path) -> Path:
    packed = json.dumps({"type": "user_message", "message": "Where is my boat?", "time": DAY})
    login = json.dumps({"type": "heartbeat", "reason": "timer"})
    call = {"id": "c1", "type": "function", "function": {"name": "send", "arguments": "{}"}}
    messages = [
        {"role": "system", "id": "m0", "content": [{"type": "text", "text": "You are Letta."}]},
        {"role": "user", "id": "m1", "content": [{"type": "text", "text": packed}], "created_at": DAY},
        {"role": "user", "id": "m2", "content": [{"type": "text", "text": login}], "created_at": DAY},
        {
            "role": "assistant",
            "id": "m3",
            "content": [{"type": "text", "text": "At berth 7."}],
            "tool_calls": [call],
        },
    ]
    blocks = [{"id": "b1", "label": "human", "value": "Name: Ada\n\n- Prefers berth 7\n", "limit": 5000}]
    agent = {"id": "agent-0", "name": "harbour", "block_ids": ["b1"], "messages": messages}
    return samples.document(
        folder / "harbour.af", {"agents": [agent], "blocks": blocks, "tools": [], "files": []}
    )


def zep(folder: Path) -> Path:
    edge = {
        "uuid": "e1", "name": "PREFERS", "fact": "Ada prefers berth 7", "created_at": LATER, "valid_at": DAY,
        "invalid_at": None, "expired_at": None, "source_node_uuid": "n1", "target_node_uuid": "n2",
    }  # fmt: skip
    past = {**edge, "uuid": "e2", "fact": "Ada prefers berth 5", "invalid_at": LATER}
    node = {"uuid": "n1", "name": "Ada", "summary": "A sailor", "labels": ["Person"], "created_at": DAY}
    episode = {
        "uuid": "p1", "name": "chat", "content": "Ada: My boat is at berth 7.", "source": "message",
        "source_description": "chat", "group_id": "ada", "valid_at": DAY, "created_at": DAY,
    }  # fmt: skip
    return samples.document(
        folder / "g.json", {"edges": [edge, past], "nodes": [node], "episodes": [episode]}
    )


def claude_mem(folder: Path) -> Path:
    row = {
        "id": 1, "memory_session_id": "s", "project": "harbour", "type": "decision", "title": "Berths are records",
        "subtitle": "", "narrative": None, "facts": '["Each berth has a number"]', "concepts": '["schema"]',
        "files_read": "[]", "files_modified": "[]", "created_at": DAY, "created_at_epoch": 1770112800000,
    }  # fmt: skip
    path = table(folder / "claude-mem.db", "observations", [row])
    summary = {
        "id": 1,
        "project": "harbour",
        "request": "Model berths",
        "learned": "Numbers are unique",
        "created_at_epoch": 1770112800000,
    }
    table(path, "session_summaries", [summary])
    prompt = {
        "id": 1,
        "content_session_id": "c1",
        "prompt_number": 1,
        "prompt_text": "Model the berths",
        "created_at": DAY,
    }
    return table(path, "user_prompts", [prompt])


def agentkit(folder: Path) -> Path:
    samples.document(
        folder / "memory" / "kv.json", {"current_task": "implement-api", "api.endpoint": "https://x"}
    )
    (folder / "memory" / "observations.bleve").mkdir()
    samples.text(folder / "memory" / "observations.bleve" / "index_meta.json", '{"storage": "boltdb"}')
    return folder / "memory"


def basic_memory(folder: Path) -> Path:
    note = (
        "---\ntitle: Weir plan\ntype: note\npermalink: weir-plan\ntags: [weir]\n---\n\n# Weir plan\n\n"
        "## Observations\n- [tool] The gauge is a Vega #metering (since May)\n\n## Relations\n- part_of [[Harbour]]\n"
    )
    samples.text(folder / "vault" / "Weir plan.md", note)
    return folder / "vault"


def memsearch(folder: Path) -> Path:
    note = (
        "## Session 14:30\n\n### 14:31\n<!-- session:s1 turn:t1 transcript:/x.jsonl -->\n"
        "- Ada asked for berth 7\n- The agent moved the Nautilus\n"
    )
    samples.text(folder / "memory" / "2026-02-03.md", note)
    return folder / "memory"


def instructions(folder: Path) -> Path:
    return samples.text(
        folder / "CLAUDE.md", "# Rules\n\n- Never deploy on Fridays.\n- The build runs on Jenkins.\n"
    )


Make = Callable[[Path], Path]
EXPECTED: dict[str, tuple[Make, str, set[str]]] = {
    "mem0": (mem0, "mem0", {"Prefers berth 7"}),
    "mem0 history": (mem0_history, "mem0", {"Prefers berth 7", "Owns a dinghy"}),
    "hindsight": (hindsight, "hindsight", {"Ada prefers berth 7", "Ada sold the dinghy"}),
    "langgraph": (langgraph, "langgraph", {"Prefers berth 7"}),
    "langgraph items": (langgraph_items, "langgraph", {"topic: boats\nPrefers berth 7"}),
    "letta": (letta, "letta", {"Name: Ada", "Prefers berth 7"}),
    "zep": (zep, "zep", {"Ada prefers berth 7", "Ada prefers berth 5", "Ada: A sailor"}),
    "claude-mem": (claude_mem, "claude-mem", {
        "Berths are records: Each berth has a number", "Request: Model berths\nLearned: Numbers are unique",
    }),
    "agentkit": (agentkit, "agentkit", {"implement-api", "https://x"}),
    "basic-memory": (basic_memory, "notes", {"The gauge is a Vega (since May)", "Weir plan part of Harbour"}),
    "memsearch": (memsearch, "notes", {"Ada asked for berth 7", "The agent moved the Nautilus"}),
    "instructions": (instructions, "notes", {"Never deploy on Fridays.", "The build runs on Jenkins."}),
}  # fmt: skip


def take(memory: Memory, source: Path, **options: Any) -> ImportReport:
    done = memory.admin.import_from(source, **options)
    assert memory.admin.import_from(source, **options).taken == 0
    assert memory.admin.check() == []
    return done


@pytest.mark.parametrize("name", EXPECTED)
def test_a_memory_is_detected_and_taken_in_once_and_trusted_only_if_the_import_says_so(
    name: str, tmp_path: Path
) -> None:
    make, form, contents = EXPECTED[name]
    source = make(tmp_path / "source")
    assert detect_format(source) == form
    with Memory.open(":memory:") as memory:
        take(memory, source)
        records = memory.list(limit=None, archived=None)
        assert {record.content for record in records} == contents
        assert {record.origin for record in records} == {"import"}
        assert memory.session("new").context("berth 7, Ada, Friday, gauge, api, task").hits == []
    if name == "memsearch":
        return  # the owner's daily notes become daily notes
    with Memory.open(":memory:") as memory:
        take(memory, source, origin="owner", scope="user:ada")
        records = memory.scoped("user:ada").list(limit=None, archived=None)
        assert {(record.content, record.origin) for record in records} == {
            (each, "owner") for each in contents
        }


def test_entries_keep_times_tags_kinds_and_what_has_ended(tmp_path: Path) -> None:
    with Memory.open(":memory:") as memory:
        for make in (mem0, mem0_history, hindsight, zep, claude_mem, langgraph_items):
            take(memory, make(tmp_path / make.__name__), scope=make.__name__)

        def only(scope: str, content: str) -> Any:
            found = memory.scoped(scope).list(limit=None, archived=None)
            return next(record for record in found if record.content == content)

        day, later = datetime(2026, 2, 3, 10, tzinfo=UTC), datetime(2026, 3, 4, 10, tzinfo=UTC)
        boat = only("mem0", "Prefers berth 7")
        assert (boat.created_at, boat.updated_at, boat.tags) == (day, later, ("boats",))
        assert {"app": "harbour", "user_id": "ada"}.items() <= dict(boat.metadata).items()
        assert only("mem0_history", "Owns a dinghy").archived_at == later
        assert only("mem0_history", "Prefers berth 7").created_at == day
        assert only("hindsight", "Ada sold the dinghy").kind == "event"
        assert set(only("hindsight", "Ada prefers berth 7").tags) == {"x", "Ada"}
        assert only("zep", "Ada prefers berth 5").archive_reason == "no longer valid"
        assert only("zep", "Ada prefers berth 7").created_at == day
        assert only("claude_mem", "Berths are records: Each berth has a number").kind == "insight"
        assert only("langgraph_items", "topic: boats\nPrefers berth 7").category == "memories/ada"


def test_messages_of_letta_zep_and_claude_mem_become_turns(tmp_path: Path) -> None:
    with Memory.open(":memory:") as memory:
        for make in (letta, zep, claude_mem):
            take(memory, make(tmp_path / make.__name__), origin="owner")
        said = {
            each.state.id: [
                (turn.role, turn.origin, turn.speaker, turn.content) for turn in memory.turns(each.state.id)
            ]
            for each in memory.sessions()
        }
    assert said["letta:harbour"] == [
        ("user", "owner", "", "Where is my boat?"),
        ("user", "tool", "", '{"type": "heartbeat", "reason": "timer"}'),
        ("assistant", "agent", "", "At berth 7."),
    ]
    assert said["zep:ada"] == [("user", "owner", "Ada", "My boat is at berth 7.")]
    assert said["claude-mem:c1"] == [("user", "owner", "", "Model the berths")]


def test_instructions_of_the_owner_are_rules_and_no_page(tmp_path: Path) -> None:
    with Memory.open(":memory:") as memory:
        take(memory, instructions(tmp_path), origin="owner")
        kinds = {record.content: record.kind for record in memory.list()}
        assert kinds == {"Never deploy on Fridays.": "constraint", "The build runs on Jenkins.": "fact"}
        assert memory.pages.names() == []
        assert "Never deploy on Fridays." in memory.session("new").context("Hello").text


def test_broken_entries_are_named_and_the_others_are_taken(tmp_path: Path) -> None:
    with Memory.open(":memory:") as memory:
        done = take(memory, langgraph(tmp_path / "a"))
        assert samples.told(done, "broken") == [("record", "store, row 2")]
        done = take(memory, mem0(tmp_path / "b"))
        assert samples.whys(done)["empty"] == 1
        done = take(memory, agentkit(tmp_path / "c"))
        assert [each.place for each in done.skipped if each.why == "unsupported"] == [
            "observations.bleve/index_meta.json"
        ]


def test_a_database_that_is_unknown_or_damaged_is_refused(tmp_path: Path) -> None:
    unknown = table(tmp_path / "x.db", "boats", [{"name": "Nautilus"}])
    with pytest.raises(InvalidInput, match="is a database"):
        detect_format(unknown)
    whole = mem0_history(tmp_path / "y").read_bytes()
    (tmp_path / "y.db").write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(InvalidInput, match=r"y\.db is a database that cannot be read"):
        detect_format(tmp_path / "y.db")
