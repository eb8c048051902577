"""Exports and databases of other memories become records and turns, with what they say of themselves."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory
from reverie.admin.transfer.importer import ImportReport, detect_format
from tests.admin.transfer import samples

CASES = {case["name"]: case for case in samples.read_data("memories")}
"""Files of each memory, its format, and the records that they become."""


def make(name: str, folder: Path) -> Path:
    """The source of a case, written into a folder."""
    for path, content in CASES[name]["files"].items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        ((kind, value),) = content.items()
        if kind == "tables":
            for table, rows in value.items():
                write_table(file, table, rows)
        elif kind == "zip":
            samples.archive(file, {each: json.dumps(document) for each, document in value.items()})
        else:
            {"json": samples.document, "lines": samples.lines, "text": samples.text}[kind](file, value)
    return folder / CASES[name]["source"]


def write_table(path: Path, name: str, rows: Sequence[dict[str, Any]]) -> Path:
    """A table of a database, with columns as the first row has them."""
    with closing(sqlite3.connect(path)) as database, database:
        columns = ", ".join(f'"{column}"' for column in rows[0])
        database.execute(f'CREATE TABLE "{name}" ({columns})')
        marks = ", ".join("?" for _ in rows[0])
        database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', [tuple(row.values()) for row in rows])
    return path


def take(memory: Memory, source: Path, **options: Any) -> ImportReport:
    done = memory.admin.import_from(source, **options)
    assert memory.admin.import_from(source, **options).taken == 0
    assert memory.admin.check() == []
    return done


@pytest.mark.parametrize("name", CASES)
def test_a_memory_is_detected_and_taken_in_once_and_trusted_only_if_the_import_says_so(
    name: str, tmp_path: Path
) -> None:
    contents = set(CASES[name]["contents"])
    source = make(name, tmp_path)
    assert detect_format(source) == CASES[name]["form"]
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
        for name in ("mem0", "mem0_history", "hindsight", "zep", "claude_mem", "langgraph_items"):
            take(memory, make(name, tmp_path / name), scope=name)

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
        for name in ("letta", "zep", "claude_mem"):
            take(memory, make(name, tmp_path / name), origin="owner")
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
        take(memory, make("instructions", tmp_path), origin="owner")
        kinds = {record.content: record.kind for record in memory.list()}
        assert kinds == {"Never deploy on Fridays.": "constraint", "The build runs on Jenkins.": "fact"}
        assert memory.pages.names() == []
        assert "Never deploy on Fridays." in memory.session("new").context("Hello").text


def test_broken_entries_are_named_and_the_others_are_taken(tmp_path: Path) -> None:
    with Memory.open(":memory:") as memory:
        done = take(memory, make("langgraph", tmp_path / "a"))
        assert samples.told(done, "broken") == [("record", "store, row 2")]
        done = take(memory, make("mem0", tmp_path / "b"))
        assert samples.whys(done)["empty"] == 1
        done = take(memory, make("agentkit", tmp_path / "c"))
        assert [each.place for each in done.skipped if each.why == "unsupported"] == [
            "observations.bleve/index_meta.json"
        ]


def test_a_database_that_is_unknown_or_damaged_is_refused(tmp_path: Path) -> None:
    unknown = write_table(tmp_path / "x.db", "boats", [{"name": "Nautilus"}])
    with pytest.raises(InvalidInput, match="is a database"):
        detect_format(unknown)
    whole = make("mem0_history", tmp_path / "y").read_bytes()
    (tmp_path / "y.db").write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(InvalidInput, match=r"y\.db is a database that cannot be read"):
        detect_format(tmp_path / "y.db")
