"""What other programs remembered is read as they wrote it: fields, times, trees, calls, and what is lost."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory
from reverie.admin.transfer.batch import SOURCE_ID
from reverie.admin.transfer.formats.foreign import ForeignFields, parse_moment
from reverie.admin.transfer.importer import detect_format
from tests.admin.transfer import samples
from tests.admin.transfer.samples import (
    CHATGPT,
    CLAUDE,
    GOLEMCORE_FACT,
    GOLEMCORE_TURN,
    ROCKBOT_OLD,
    ROCKBOT_TIMEZONE,
)

NOW = datetime(2026, 4, 1, tzinfo=UTC)


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:", clock=lambda: NOW) as opened:
        yield opened
        assert opened.admin.check() == []


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_every_format_is_detected_and_nothing_foreign_is_put_into_a_prompt_unasked(tmp_path: Path) -> None:
    for form, make in samples.SOURCES.items():
        source = make(tmp_path / form)
        assert detect_format(source) == form
        with Memory.open(tmp_path / form / "memory-of-it") as memory:
            memory.admin.import_from(source)
            assert {record.origin for record in memory.list(limit=None, archived=None)} <= {"import"}
            assert memory.pages.names() == []
            pack = memory.session("new").context("health checks, deployment, Chicago, French?")
            assert pack.hits == () or all(hit.turn is not None for hit in pack.hits)


def test_a_format_is_detected_whatever_is_first_in_the_file(tmp_path: Path) -> None:
    said = {"role": "user", "content": "hello"}
    shells: list[Any] = [None, {"id": "shell", "title": "Empty"}, {}, [], "", 7, False]
    for first in ([shell] for shell in (*shells, *[shells] * 2)):
        for form, value, name in (
            ("chatgpt", CHATGPT[0], "conversations.json"), ("claude", CLAUDE[0], "conversations.json"),
            ("messages", said, "x.json"), ("golemcore", GOLEMCORE_FACT, "x.jsonl"),
        ):  # fmt: skip
            for write in (samples.document, samples.lines):
                file = write(tmp_path / name, [*first, value])
                assert detect_format(file) == form, file.read_text()[:80]
    head = {"format": "chatlog", "version": 1}
    for text in (
        "# exported by a program\n",
        "\n\n",
        json.dumps(head) + "\n",
        "\ufeff" + json.dumps(head) + "\n",
    ):
        assert detect_format(samples.text(tmp_path / "x.jsonl", text + json.dumps(said))) == "messages"
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number, content in enumerate(("", "[]", "[null]", json.dumps(CHATGPT))):
            archive.writestr(f"a/conversations-{number:03}.json", content)
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(tmp_path / "x.zip")
        assert (done.form, done.turns, done.is_complete) == ("chatgpt", 4, True)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number, content in enumerate(('[{"id": "a", "map', json.dumps(CHATGPT))):
            archive.writestr(f"conversations-{number}.json", content)
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(tmp_path / "x.zip")
        assert (done.turns, samples.told(done, "broken")) == (4, [("file", "x.zip/conversations-0.json")])


# -- MCP ---------------------------------------------------------------------------------------------------


def test_a_graph_gives_a_record_for_each_observation_and_relation(memory: Memory, tmp_path: Path) -> None:
    done = memory.admin.import_from(samples.mcp(tmp_path))
    assert (done.form, done.records, samples.whys(done)) == ("mcp", 4, {"empty": 1})
    assert samples.contents(memory) == {
        "Ada_Byron: Speaks fluent French",
        "Ada Byron prefers morning meetings",
        "Lowwater: project",
        "Ada_Byron works on Lowwater",
    }
    (french,) = memory.search("who speaks French?", limit=1)
    assert french.record is not None
    assert french.record.tags == ("person",)
    assert dict(french.record.metadata) | {SOURCE_ID: ""} == {
        "entity": "Ada_Byron",
        "entity_type": "person",
        "observation": "Speaks fluent French",
        SOURCE_ID: "",
    }


# -- golemcore ---------------------------------------------------------------------------------------------


def test_items_keep_what_they_say(memory: Memory, tmp_path: Path) -> None:
    done = memory.admin.import_from(samples.golemcore(tmp_path))
    assert (done.form, done.sessions, done.turns) == ("golemcore", 1, 3)
    assert samples.told(done, "known") == [("record", "memory/items/episodic/2026-02-07.jsonl, line 2")]
    by_source = {record.metadata[SOURCE_ID]: record for record in memory.list(limit=None)}
    turn = by_source[str(GOLEMCORE_TURN["id"])]
    assert (turn.kind, turn.layer, turn.tags) == ("task_state", "episodic", ("docker", "java"))
    assert (turn.confidence, turn.importance, turn.source) == (0.65, 0.7, "turn")
    assert turn.created_at == utc(2026, 2, 7, 14, 15, 0) + timedelta(milliseconds=500)
    assert turn.updated_at == turn.created_at  # never before it
    assert turn.expires_at == turn.created_at + timedelta(days=90)
    assert (turn.references, turn.metadata["title"]) == (("docker-compose.yml",), "health checks")
    fact = by_source[str(GOLEMCORE_FACT["id"])]
    assert (fact.kind, fact.layer, fact.importance) == ("constraint", "semantic", 0.9)
    assert (fact.created_at, fact.updated_at) == (utc(2026, 2, 1, 10), utc(2026, 2, 3, 10))
    assert fact.metadata["last_accessed_at"] == "2026-02-05T10:00:00Z"


def test_a_session_of_golemcore_goes_on_under_its_name(memory: Memory, tmp_path: Path) -> None:
    memory.admin.import_from(samples.golemcore(tmp_path))
    (overview,) = memory.sessions()
    assert (overview.state.id, overview.state.status) == ("telegram:12345", "paused")
    assert overview.state.metadata["lang"] == "en"
    assert overview.state.metadata["depth"] == "3"
    said, called, answered = memory.turns("telegram:12345")
    assert (said.content, said.at) == ("Set up CI", utc(2026, 2, 7, 14, 0, 1))
    assert (called.tool_calls[0].name, json.loads(called.tool_calls[0].arguments)) == (
        "shell",
        {"command": "ls"},
    )
    assert (answered.role, answered.content, answered.tool_call_id) == ("tool", "pom.xml", "call-1")
    assert answered.at == called.at == utc(2026, 2, 7, 14, 0, 2)
    memory.session("telegram:12345").add("user", "Go on")
    assert [turn.position for turn in memory.turns("telegram:12345")] == [0, 1, 2, 3]


# -- RockBot -----------------------------------------------------------------------------------------------


def test_entries_keep_what_they_say(memory: Memory, tmp_path: Path) -> None:
    done = memory.admin.import_from(samples.rockbot(tmp_path))
    assert (done.form, done.records) == ("rockbot", 3)
    assert samples.told(done, "unsupported") == [("file", "soul.md")]
    zone = memory.get("a1b2c3d4e5f6")  # an id of ours stays
    assert zone is not None
    assert (zone.content, zone.category) == (ROCKBOT_TIMEZONE["content"], "user-preferences/timezone")
    assert (zone.kind, zone.tags, zone.importance, zone.seen_count) == (
        "preference", ("timezone", "location"), 0.75, 4,
    )  # fmt: skip
    assert zone.created_at == datetime(2026, 1, 10, 14, 30, 0, 123456, tzinfo=UTC)
    assert zone.last_seen_at == utc(2026, 1, 20, 14, 30)
    assert zone.metadata["requires_user_permission"] == "true"
    (grep,) = memory.list(category="anti-patterns")
    assert (grep.kind, grep.metadata[SOURCE_ID]) == ("anti_pattern", "9f8e7d6c")
    assert grep.content == ROCKBOT_OLD["Content"]
    (merged,) = memory.list(archived=True)
    assert merged.archive_reason == "superseded by a1b2c3d4e5f6"


def test_entries_that_are_odd_or_broken(memory: Memory, tmp_path: Path) -> None:
    place = tmp_path / "memory"
    entry = {"id": "a1b2c3d4e5f7", "content": "x", "createdAt": "2026-01-01T00:00:00Z"}
    samples.document(place / "general" / "one.json", entry | {"content": "Folder says it", "category": ""})
    samples.document(
        place / "bad name" / "two.json", entry | {"id": "two", "content": "Bad", "category": "a|b"}
    )
    samples.document(place / "three.json", entry | {"id": "three", "content": None})
    samples.text(place / "four.json", '{"id": "four", "content": "cut')
    samples.text(place / "five.json", "[]")
    samples.document(place / "settings.json", {"theme": "dark"})
    samples.text(place / ".hidden" / "six.json", "{}")
    (place / "link.json").symlink_to("/etc/passwd")
    done = memory.admin.import_from(place, "rockbot")
    found = {record.content: record for record in memory.list(limit=None)}
    assert found["Folder says it"].category == "general"
    assert (found["Bad"].category, found["Bad"].metadata["category"]) == ("bad name", "a|b")
    assert samples.whys(done) == {"empty": 1, "broken": 1, "unsupported": 3}
    assert ("file", "link.json") in samples.told(done, "unsupported")
    assert not any("cut" in each.detail for each in done.skipped)


# -- notes -------------------------------------------------------------------------------------------------


def test_notes_become_records_that_are_found(memory: Memory, tmp_path: Path) -> None:
    done = memory.admin.import_from(samples.autobot(tmp_path))
    assert (done.form, done.pages, done.paragraphs, done.sessions, done.turns) == ("notes", 0, 0, 1, 4)
    by_source: dict[str, set[str]] = {}
    for record in memory.list(limit=None):
        by_source.setdefault(record.source, set()).add(record.content)
    assert by_source["import:MEMORY.md"] == {
        "User prefers concise responses.",
        "Spring Boot 4.0.2",
        "Database: PostgreSQL\n  - port 5432",
        "```sql\nSELECT 1;\n\nSELECT 2;\n```",
    }
    events = {record.content: record for record in memory.list(kind=["event"])}
    assert len(events) == 3
    docker = events["2025-01-16 09:00: Talked about Docker.\nHealth checks were added."]
    assert (docker.created_at, docker.layer) == (utc(2025, 1, 16, 9), "episodic")
    (spring,) = memory.search("Spring Boot", limit=1)
    assert spring.record is not None
    assert spring.record.tags == ("Project",)


def test_notes_of_the_owner_become_pages_and_logs(memory: Memory, tmp_path: Path) -> None:
    memory.admin.import_from(samples.autobot(tmp_path / "a"), origin="owner")
    done = memory.admin.import_from(samples.golemcore(tmp_path / "g"), origin="owner")
    assert (done.pages, done.paragraphs) == (0, 2)
    assert memory.pages.read("MEMORY.md") == samples.MEMORY_MD
    history = memory.pages.paragraphs("HISTORY.md")
    assert [paragraph.at for paragraph in history[:2]] == [utc(2025, 1, 15, 10, 30), utc(2025, 1, 16, 9)]
    assert [paragraph.at for paragraph in memory.pages.paragraphs("2026-02-07.md")] == [
        utc(2026, 2, 7, 14, 15), utc(2026, 2, 7, 14, 30),
    ]  # fmt: skip
    assert memory.list(kind=["event"]) == []


def test_a_page_that_is_here_gets_the_lines_it_lacks_and_only_once(memory: Memory, tmp_path: Path) -> None:
    memory.pages.write("MEMORY.md", "# Mine\n- Spring Boot 4.0.2\n")
    file = samples.text(tmp_path / "MEMORY.md", "- Spring Boot 4.0.2\n- Heron is the relay\n")
    assert memory.admin.import_from(file, origin="owner").pages == 1
    assert memory.pages.read("MEMORY.md") == "# Mine\n- Spring Boot 4.0.2\n\n- Heron is the relay\n"
    memory.pages.write("MEMORY.md", "# Mine\n- The relay is called Heron\n")
    assert memory.admin.import_from(file, origin="owner").pages == 0
    file.write_text(file.read_text() + "- Lark is the backup\n")
    assert memory.admin.import_from(file, origin="owner").pages == 1
    assert memory.pages.read("MEMORY.md") == "# Mine\n- The relay is called Heron\n\n- Lark is the backup\n"


def test_a_log_that_is_here_gets_the_paragraphs_it_lacks(memory: Memory, tmp_path: Path) -> None:
    twice = "[2025-01-17 08:00] Restarted the relay."
    memory.pages.append("HISTORY.md", twice)
    file = samples.text(tmp_path / "HISTORY.md", f"{samples.HISTORY_MD}\n{twice}\n\n{twice}\n")
    done = memory.admin.import_from(file, origin="owner")
    assert (done.paragraphs, samples.whys(done)) == (3, {"known": 2})
    contents = [paragraph.content for paragraph in memory.pages.paragraphs("HISTORY.md")]
    assert contents.count(twice) == 1
    assert memory.admin.import_from(file, origin="owner").paragraphs == 0


def test_notes_that_cannot_be_read_are_named(memory: Memory, tmp_path: Path) -> None:
    place = tmp_path / "memory"
    samples.text(place / "MEMORY.md", "- fine\n")
    (place / "2026-02-08.md").write_bytes(b"[10:00] \xff\xfe\n")
    samples.text(place / "2026-02-09.md", "")
    samples.text(place / "HISTORY.md", "x" * 20_001)
    samples.text(place / "picture.png", "…")
    done = memory.admin.import_from(place, origin="owner")
    assert memory.pages.names() == ["MEMORY.md"]
    assert sorted((each.place.partition(",")[0], each.why) for each in done.skipped) == [
        ("2026-02-08.md", "broken"), ("2026-02-09.md", "empty"), ("HISTORY.md", "too large"),
        ("picture.png", "unsupported"),
    ]  # fmt: skip


def vault(folder: Path) -> Path:
    """A vault of Obsidian: front matter, drawings, embedded data, names of every script."""
    place = samples.make("vault", folder)
    (place / "wide.md").write_text("The mill is old\n", encoding="utf-16")
    (place / "latin.md").write_bytes(b"M\xfcller\n")
    return place


def test_a_vault_gives_facts_with_title_tags_and_dates_and_no_embedded_data(
    memory: Memory, tmp_path: Path
) -> None:
    done = memory.admin.import_from(vault(tmp_path))
    found = {record.content: record for record in memory.list(limit=None)}
    assert set(found) == {
        "order 12 planks", "![map]()", "Odile waters.", "The ferry leaves at 7:12.", "名前はまだ無い",
        "The mill is old", "Lock gate", "met Isko",
    }  # fmt: skip
    met = found["met Isko"]
    assert (met.created_at, met.metadata["title"]) == (utc(2026, 2, 8), "A day by the river")
    planks = found["order 12 planks"]
    assert (planks.tags, planks.metadata["title"]) == (("weir", "river"), "Weir: plan (core)")
    assert planks.created_at == utc(2026, 3, 7, 21, 22)
    assert sorted(each.place for each in done.skipped) == [".trash", "draw.md", "latin.md", "only.md"]
    assert not done.is_complete
    assert memory.admin.import_from(vault(tmp_path)).taken == 0


# -- ChatGPT -----------------------------------------------------------------------------------------------

CHATGPT_ID = "chatgpt:8f3a2b1c-0000-4000-8000-000000000001"


def test_the_current_path_of_a_conversation_is_read(memory: Memory, tmp_path: Path) -> None:
    done = memory.admin.import_from(samples.chatgpt(tmp_path))
    assert (done.form, done.sessions, done.turns) == ("chatgpt", 1, 4)
    assert samples.whys(done) == {"unsupported": 5}
    asked, call, result, answer = memory.turns(CHATGPT_ID)
    assert (asked.role, asked.content) == ("user", "[image]\nPostgres or MongoDB for metrics?")
    assert (call.role, call.content, call.tool_calls[0].name) == ("assistant", "", "python")
    assert json.loads(call.tool_calls[0].arguments) == {"input": "print(1 + 1)"}
    assert (result.role, result.content, result.tool_call_id) == ("tool", "2", call.tool_calls[0].id)
    assert answer.content == "Postgres, with a time-series extension."
    assert answer.at == parse_moment(1736209406.0)
    assert answer.metadata[SOURCE_ID] == "a1"
    state = memory.session(CHATGPT_ID).state
    assert (state.metadata["title"], state.created_at) == ("Postgres or MongoDB", parse_moment(1736209400.25))
    assert not memory.search("Postgress", mode="literal", sources="turns")


def test_a_file_that_was_cut_is_read_as_far_as_it_goes(memory: Memory, tmp_path: Path) -> None:
    other = CHATGPT[0] | {"conversation_id": "second"}
    whole = json.dumps([*CHATGPT, other])
    file = samples.text(tmp_path / "conversations.json", whole[: len(whole) - 40])
    done = memory.admin.import_from(file)
    assert (done.sessions, done.turns) == (1, 4)
    assert "ends in the middle" in done.skipped[-1].detail
    samples.text(file, whole)
    assert memory.admin.import_from(file).turns == 4
    assert len(memory.turns("chatgpt:second")) == 4


# -- Claude ------------------------------------------------------------------------------------------------

CLAUDE_ID = "claude:11111111-2222-4333-8444-555555555555"


def test_messages_with_calls_and_attachments_are_read(memory: Memory, tmp_path: Path) -> None:
    done = memory.admin.import_from(samples.claude(tmp_path))
    assert (done.form, done.sessions, done.turns) == ("claude", 1, 4)
    assert samples.whys(done) == {"unsupported": 2, "empty": 1}
    asked, called, result, answer = memory.turns(CLAUDE_ID)
    assert asked.content == (
        "What shall we call the relay?\n[names.txt]\nLark\nHeron\n[scan.pdf]\n[photo.png]"
    )
    assert (asked.role, asked.at) == ("user", utc(2025, 5, 1, 9, 0, 1))
    assert (called.content, called.tool_calls[0].name) == ("Let me look.", "web_search")
    assert (result.role, result.content, result.tool_call_id) == ("tool", "A wading bird.", "t-1")
    assert (answer.content, answer.metadata[SOURCE_ID]) == ("Heron it is.", "m-2:3")
    assert memory.session(CLAUDE_ID).state.metadata["title"] == "Naming the relay"
    assert "Two candidates" not in str([turn.to_dict() for turn in memory.turns(CLAUDE_ID)])


def test_the_current_branch_of_claude_is_read_where_it_is_named(memory: Memory, tmp_path: Path) -> None:
    def message(name: str, parent: str | None, text: str) -> dict[str, Any]:
        return {"uuid": name, "parent_message_uuid": parent, "sender": "human", "text": text}

    messages = [message("a", None, "first"), message("b", "a", "dropped"), message("c", "a", "kept"), 5]
    chat = {"uuid": "x", "current_leaf_message_uuid": "c", "chat_messages": messages}
    done = memory.admin.import_from(samples.document(tmp_path / "conversations.json", [chat]))
    assert [turn.content for turn in memory.turns("claude:x")] == ["first", "kept"]
    assert samples.whys(done) == {"broken": 1}
    assert memory.turns("claude:x")[0].at == NOW


# -- sessions of Autobot -----------------------------------------------------------------------------------


def test_a_session_of_autobot_goes_on_under_its_name(memory: Memory, tmp_path: Path) -> None:
    place = samples.autobot(tmp_path)
    memory.admin.import_from(place)
    assert [turn.content for turn in memory.turns("telegram:77")] == [
        "how do I deploy this?", "With GitHub Actions.", "ok", "ok",
    ]  # fmt: skip
    assert memory.session("telegram:77").state.created_at == utc(2025, 1, 15, 10)
    file = place / "sessions" / "telegram_77.jsonl"
    kept = file.read_text().splitlines()
    more = json.dumps({"role": "user", "content": "ok", "timestamp": "2025-01-15T10:40:00Z"})
    samples.text(
        file, "\n".join([kept[0], *kept[2:], more, '{"role": "user"', '{"role": "elf", "content": ""}'])
    )
    done = memory.admin.import_from(place)
    assert (done.turns, len(samples.told(done, "broken"))) == (1, 2)
    assert len(memory.turns("telegram:77")) == 5


# -- what cannot be told -----------------------------------------------------------------------------------


def test_what_cannot_be_detected_is_refused_with_what_to_do(memory: Memory, tmp_path: Path) -> None:
    for name, content, says in (
        ("x.json", b"", "is empty"),
        ("x.json", b"[]", "Cannot detect"),
        ("x.csv", b"hello", "Cannot detect"),
        ("x.json", b'{"a": 1}', "Cannot detect"),
        ("x.db", b"SQLite format 3\x00" + b"\x00" * 100, "is a database"),
        ("x.zip", b"PK\x03\x04 and no more", "cannot be opened as a zip archive"),
        ("x.json", b'[{"title": {}', "ends in the middle"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match=says):
            memory.admin.import_from(tmp_path / name)
    assert memory.history.log() == []


def test_a_folder_with_nothing_known_is_refused(memory: Memory, tmp_path: Path) -> None:
    samples.text(tmp_path / "src" / "main.py", "print()")
    with pytest.raises(InvalidInput, match=r"Import its text files one by one\. Name its format"):
        memory.admin.import_from(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        memory.admin.import_from(tmp_path / "missing")
    with pytest.raises(InvalidInput, match="form is 'csv'"):
        memory.admin.import_from(tmp_path, "csv")
    with pytest.raises(InvalidInput, match="nothing in it is of the format"):
        memory.admin.import_from(tmp_path, "mcp")


def test_moments_in_every_form_are_understood() -> None:
    assert parse_moment("2026-02-07T14:15:00.1234567Z") == datetime(2026, 2, 7, 14, 15, 0, 123456, tzinfo=UTC)
    assert parse_moment("2026-02-07 14:15") == utc(2026, 2, 7, 14, 15)
    assert (
        parse_moment(1770473700) == parse_moment(1770473700000) == parse_moment("2026-02-07T15:15:00+01:00")
    )
    for nothing in ("soon", "", None, True, 0, -5, 1e300, [2026, 13, 1], [2026], {}, "0001-01-01T00:00:00Z"):
        assert parse_moment(nothing) is None


def test_names_of_fields_are_compared_without_their_form() -> None:
    for name in ("createdAt", "CreatedAt", "created_at", "CREATED-AT", "created at"):
        assert ForeignFields({name: "x"}).text("createdAt") == "x"
