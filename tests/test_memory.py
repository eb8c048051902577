"""What a memory keeps, changes and refuses."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import Conflict, InvalidInput, Memory, NewRecord, NotFound, Settings
from tests.factories import MovableClock


def test_what_was_saved_is_there_after_opening_again(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        saved = memory.save(
            "Prefers short answers",
            category="user-preferences/style",
            tags=["tone", "tone"],
            importance=0.9,
            source="session:cli:1",
            references=["notes.md"],
            metadata={"asked": "twice"},
            valid_from=datetime(2025, 1, 1, tzinfo=UTC),
        )
    with Memory.open(tmp_path) as memory:
        assert memory.get(saved.record.id) == saved.record
    assert saved.outcome == "created"
    assert (saved.record.kind, saved.record.layer, saved.record.tags) == ("preference", "semantic", ("tone",))


def test_the_kind_comes_from_the_category_where_none_is_given(memory: Memory) -> None:
    assert memory.save("Tea at four", category="user-preferences").record.kind == "preference"
    never = memory.save("Don't push on Fridays", category="anti-patterns/git").record
    assert (never.kind, never.layer, never.tags) == ("anti_pattern", "procedural", ("anti-pattern",))
    assert memory.save("The sky is blue").record.kind == "fact"
    assert memory.save("Retry twice", kind="lesson").record.layer == "procedural"
    assert memory.save("Don't mock time", kind="anti_pattern").record.category == "anti-patterns/general"


def test_the_same_text_is_saved_once_and_different_facts_are_not(memory: Memory) -> None:
    memory.save("The staging database listens on port 5433")
    assert memory.save("the staging database listens on  port 5433.").outcome == "reinforced"
    for other in (
        "The staging database listens on port 5434",
        "The staging database does not listen on port 5433",
        "The production database listens on port 5433",
    ):
        assert memory.save(other).outcome == "created", other
    assert len(memory.list()) == 4


def test_many_are_saved_together_and_folded_among_themselves(memory: Memory) -> None:
    seen: list[int] = []
    notes: list[str | NewRecord | dict[str, object]] = [f"Fact number {n} about trains" for n in range(700)]
    notes += [NewRecord(content="Fact number 3 about trains"), {"content": "fact number 699 about trains!"}]
    saved = memory.save_many(notes, progress=seen.append)
    assert len(memory.list(limit=None)) == 700
    assert [s.outcome for s in saved[-2:]] == ["reinforced", "reinforced"]
    assert sum(seen) == 702
    assert saved[-1].record.seen_count == 2
    assert seen == [702]


def test_one_bad_note_among_many_changes_nothing(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="records"):
        memory.save_many("not a list of texts")
    with pytest.raises(InvalidInput, match="content"):
        memory.save_many([{"content": "fine"}, {"content": " "}])
    with pytest.raises(InvalidInput, match="unknown field"):
        memory.save_many([{"content": "fine", "colour": "red"}])
    assert memory.list() == []


def test_bad_input_is_refused_by_name_and_changes_nothing(memory: Memory) -> None:
    for content, says in [
        ("", "content is empty"),
        ("  \n", "content is empty"),
        (5, "content is int"),
        ("a\x00b", "NUL"),
        ("a\x07b", "U\\+0007"),
        ("a\ud800b", "surrogate"),
        ("x" * 100_001, "100,001 characters"),
    ]:
        with pytest.raises(InvalidInput, match=says):
            memory.save(content)  # type: ignore[arg-type]
    wrong: dict[str, list[tuple[object, str]]] = {
        "category": [(each, "category is") for each in ("", "/abs", "a/../b", "a//b", "a\n")],
        "kind": [("opinion", "kind is 'opinion'")],
        "layer": [("deep", "layer is 'deep'")],
        "origin": [("aliens", "origin is 'aliens'")],
        "confidence": [(1.5, "confidence is 1.5")],
        "importance": [(float("nan"), "importance is nan"), (True, "importance is True")],
        "tags": [("tag", "pass a list"), ([""], "tag is empty")],
        "ttl": [("5", "text such as '90s'"), ([5], "pass a timedelta"), (-5, "ttl is -5")],
        "valid_from": [(datetime(2025, 1, 1), "without a time zone")],  # noqa: DTZ001
        "metadata": [({"k": "a\x00"}, "metadata 'k'"), ([1], "metadata is list")],
    }
    for name, cases in wrong.items():
        for value, says in cases:
            with pytest.raises(InvalidInput, match=says):
                memory.save("x", **{name: value})  # type: ignore[arg-type]
    assert memory.history.log() == []


def test_archived_records_leave_search_and_come_back(memory: Memory, clock: MovableClock) -> None:
    record = memory.save("The office moved to Lisbon", category="general", tags=["office"]).record
    gone = memory.archive(record.id, reason="outdated")
    assert (gone.archived_at, gone.archive_reason) == (clock.now, "outdated")
    assert memory.search("Lisbon office") == []
    assert memory.list() == []
    assert memory.categories() == {} == memory.tags()
    assert memory.get(record.id) == gone
    assert memory.list(archived=True) == [gone]
    assert memory.archive(record.id) == gone
    assert memory.restore(record.id) == record
    assert [hit.id for hit in memory.search("Lisbon office")] == [record.id]
    assert [row.summary for row in memory.history.log(record.id)] == ["save", "archive: outdated", "restore"]


def test_an_archived_fact_said_again_is_new_and_the_old_one_cannot_stand_beside_it(memory: Memory) -> None:
    old = memory.save("The office is in Lisbon").record
    memory.archive(old.id)
    new = memory.save("The office is in Lisbon")
    assert new.outcome == "created"
    with pytest.raises(InvalidInput, match="would say the same"):
        memory.restore(old.id)


def test_update_changes_what_is_named_and_keeps_the_rest(memory: Memory, clock: MovableClock) -> None:
    record = memory.save("Deploys on Mondays", tags=["deploy"], category="project-context").record
    clock.move(hours=1)
    after = memory.update(record.id, content="Deploys on Tuesdays", tags=["deploy", "weekday"])
    assert (after.content, after.tags, after.category) == (
        "Deploys on Tuesdays", ("deploy", "weekday"), "project-context",
    )  # fmt: skip
    assert (after.created_at, after.updated_at) == (record.created_at, clock.now)
    assert memory.search("Mondays", mode="literal") == []
    assert [hit.id for hit in memory.search("Tuesdays")] == [record.id]
    assert memory.update(record.id, category=None).category is None
    with pytest.raises(Conflict, match="read it again"):
        memory.update(record.id, content="Deploys daily", expected=record)
    with pytest.raises(InvalidInput, match="category"):
        memory.update(record.id, category="../x")
    with pytest.raises(TypeError, match="colour"):
        memory.update(record.id, colour="red")  # type: ignore[call-arg]
    assert memory.get(record.id) == memory.update(record.id, expected=memory.get(record.id))


def test_an_update_cannot_make_a_duplicate(memory: Memory) -> None:
    first = memory.save("Deploys on Mondays").record
    second = memory.save("Releases on Tuesdays").record
    with pytest.raises(InvalidInput, match=first.id):
        memory.update(second.id, content="deploys on mondays")
    assert memory.get(second.id) == second


def test_what_has_expired_is_not_found_and_is_archived_by_purge(memory: Memory, clock: MovableClock) -> None:
    record = memory.save("The demo is at noon", ttl="2h").record
    kept = memory.save("The demo room is blue").record
    clock.move(hours=1)
    assert {hit.id for hit in memory.search("demo")} == {record.id, kept.id}
    memory.save_many({"content": f"Demo {n} is a demo of the demo", "ttl": "1h"} for n in range(60))
    assert kept.id not in {hit.id for hit in memory.search("demo", limit=5)}
    clock.move(hours=1)
    assert [hit.id for hit in memory.search("demo", limit=5)] == [kept.id], (
        "none of the expired takes its place"
    )
    assert [r.id for r in memory.list()] == [kept.id]
    assert memory.admin.purge() == 0
    found = memory.get(record.id)
    assert found is not None
    assert found.archive_reason == "expired"


def test_purge_removes_for_good_only_what_was_archived_long_ago(memory: Memory, clock: MovableClock) -> None:
    old, pinned, young = (memory.save(f"Fact {word}").record for word in ("one", "two", "three"))
    memory.update(pinned.id, pinned=True)
    memory.archive(old.id)
    memory.archive(pinned.id)
    clock.move(days=89)
    memory.archive(young.id)
    assert memory.admin.purge() == 0
    clock.move(days=1)
    assert memory.admin.purge() == 1
    assert memory.get(old.id) is None
    assert memory.get(young.id) is not None
    assert memory.get(pinned.id) is not None
    assert memory.admin.purge(older_than="1h") == 1


def test_lists_are_restricted_by_whole_segments(memory: Memory) -> None:
    memory.save("One", category="project-context/reverie", tags=["a", "b"])
    memory.save("Two", category="project", tags=["a"])
    assert [r.content for r in memory.list(category="project-context")] == ["One"]
    assert [r.content for r in memory.list(category="project")] == ["Two"]
    assert [r.content for r in memory.list(tags=["a", "b"])] == ["One"]
    assert memory.categories() == {"project-context/reverie": 1, "project": 1}
    assert memory.tags() == {"a": 2, "b": 1}
    assert [r.content for r in memory.list(tags="a")] == ["Two", "One"]
    assert [r.content for r in memory.list(category=["project", "no-such"])] == ["Two"]
    assert [r.content for r in memory.list(category=["project", "project-context"])] == ["Two", "One"]
    assert [hit.content for hit in memory.search("one", category=["project-context", "x"])] == ["One"]
    with pytest.raises(InvalidInput, match="a list of strings"):
        memory.list(tags=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="categry"):
        memory.list(categry="x")  # type: ignore[call-arg]


@pytest.mark.slow
def test_processes_that_save_one_fact_leave_one_record_and_lose_no_turn(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys
        from reverie import Memory
        with Memory.open(sys.argv[1]) as memory:
            for n in range(15):
                memory.save("Backups run at three in the morning")
                memory.save(f"Process {sys.argv[2]} counted to {n}")
                memory.session("cli:1").add("user", f"Turn {n} of {sys.argv[2]}")
        """
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(n)], stderr=subprocess.PIPE)
        for n in range(4)
    ]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    with Memory.open(tmp_path) as memory:
        records, turns = memory.list(limit=None), memory.turns("cli:1")
        assert memory.admin.check() == []
    assert {turn.content for turn in turns} == {f"Turn {n} of {who}" for n in range(15) for who in range(4)}
    assert [turn.position for turn in turns] == list(range(60))
    (shared,) = [r for r in records if r.content.startswith("Backups")]
    assert shared.seen_count == 60
    assert len(records) == 61


def test_another_that_uses_the_folder_finds_a_write_at_its_next_search(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory, Memory.open(tmp_path) as other:
        for number in range(5):
            word = f"zebra{number}stripes"
            assert other.search(word, sources=("records", "turns")) == []
            memory.save(f"The {word} are here")
            memory.session(f"cli:{number}").add("user", f"Look at the {word}")
            assert {hit.type for hit in other.search(word, sources=("records", "turns"))} == {
                "record",
                "turn",
            }


def test_deleting_a_session_removes_its_turns(memory: Memory) -> None:
    chat = memory.session("cli:1")
    chat.add_many([{"role": "user", "content": f"Hello {n} zebra"} for n in range(5)])
    assert len(memory.search("zebra", sources="turns")) == 5
    chat.working.set("draft", "half a letter", ttl=None)
    assert memory.delete_session("cli:1") == 5
    assert memory.session("cli:1").working.get("draft") is None
    assert memory.search("zebra", sources="turns") == []
    assert memory.sessions() == []
    assert memory.turns("cli:1") == []
    assert memory.delete_session("cli:1") == 0
    memory.session("cli:1").add("user", "Back again")
    assert [turn.position for turn in memory.turns("cli:1")] == [0]


def test_idle_sessions_leave_memory_but_not_the_disk(memory: Memory, clock: MovableClock) -> None:
    first = memory.session("cli:1")
    first.add("user", "Hello")
    assert memory.session("cli:1") is first
    clock.move(minutes=61)
    memory.session("cli:2")
    assert memory.session("cli:1") is not first
    assert [turn.content for turn in memory.session("cli:1").turns()] == ["Hello"]


def test_the_profile_stands_first_in_every_prompt_and_edits_to_it_are_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "agent"
    with Memory.open(folder) as memory:
        memory.save("The staging port is 5433")
        (folder / "soul.md").write_text("You are Rook, a calm agent.")
        (folder / "style.md").write_text("Short sentences.")
        chat = memory.session("cli:1")
        chat.add("user", "Which port is staging on?")
        pack = chat.context()
        assert pack.text.startswith("You are Rook, a calm agent.")
        assert pack.text.index("Rook") < pack.text.index("Short sentences.") < pack.text.index("5433")
        (folder / "soul.md").write_text("You are Rook, a lively agent.")
        assert "lively" in chat.context().text
        (folder / "soul.md").write_bytes(b"\xff\xfe broken")
        assert "lively" in chat.context().text
        assert "soul.md" in caplog.text
        (folder / "soul.md").unlink()
        assert "Rook" not in chat.context().text


def test_filters_that_fit_no_source_are_refused_by_name(memory: Memory) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"sources": "turns", "unit": "page"}, "unit is 'page'"),
        ({"sources": "diary"}, "source is 'diary'"),
        ({"sources": ()}, "sources is \\(\\)"),
        ({"sources": "records", "session": "a"}, "add 'turns'"),
        ({"sources": "records", "unit": "session"}, "add 'turns'"),
        ({"sources": "turns", "kind": "fact"}, "add 'records'"),
        ({"kind": [5]}, "kind is \\[5\\]"),
    ]
    for filters, says in wrong:
        with pytest.raises(InvalidInput, match=says):
            memory.search("tea", **filters)


def test_the_folder_and_all_in_it_are_private_whatever_the_umask(tmp_path: Path) -> None:
    import os

    before = os.umask(0)
    try:
        with Memory.open(tmp_path / "memory") as memory:
            memory.save_many({"content": f"Fact {n} on tea"} for n in range(300))
            memory.search("tea")
    finally:
        os.umask(before)
    everything = [tmp_path / "memory", *(tmp_path / "memory").rglob("*")]
    assert any(path.name == "meta.json" for path in everything)
    for path in everything:
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_floor_of_relevance_is_a_setting() -> None:
    with Memory.open(":memory:", settings=Settings(min_relevance=0.99)) as strict:
        strict.save("Tea is kept on the upper shelf of the kitchen, beside the coffee and the sugar")
        assert strict.search("where did the sugar go when we moved the furniture last summer") == []


def test_without_a_path_the_settings_name_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("platformdirs.user_data_dir", lambda name: str(tmp_path / name))
    with Memory.open() as memory:
        assert memory.path == tmp_path / "reverie"
    (tmp_path / "reverie" / "rook").mkdir()
    (tmp_path / "reverie" / "rook" / "soul.md").write_text("You are Rook.", encoding="utf-8")
    with Memory.open(settings=Settings(profile_path="rook")) as memory:
        assert memory.path == tmp_path / "reverie" / "rook" / "memory"
        memory.session("cli:1").add("user", "Who are you?")
        assert "You are Rook." in memory.session("cli:1").context().text
    with Memory.open(settings=Settings(base_path=str(tmp_path / "elsewhere"))) as memory:
        assert memory.path == tmp_path / "elsewhere"


def test_tags_match_in_any_case_and_keep_their_first_spelling(memory: Memory, clock: MovableClock) -> None:
    one = memory.save("Ada writes Python", tags=["Python", "python", "Straße"]).record
    assert one.tags == ("Python", "Straße")
    assert memory.save("Ada writes Python", tags=["PYTHON", "Work"]).record.tags == (
        "Python",
        "Straße",
        "Work",
    )
    two = memory.save("Bo writes Go", tags=["python"]).record
    assert memory.update(two.id, tags=["go", "Go", "PYTHON"]).tags == ("go", "PYTHON")
    memory.save("Cy writes Perl", tags=["Python"])
    for wanted in ("python", "PYTHON"):
        assert len(memory.list(tags=wanted)) == 3
        assert len(memory.search("writes", tags=wanted)) == 3
    assert [record.id for record in memory.list(tags=["STRASSE", "work"])] == [one.id]
    assert memory.tags() == {"Python": 3, "Straße": 1, "Work": 1, "go": 1}


def test_content_is_stored_without_its_padding(memory: Memory) -> None:
    saved = memory.save("\n  Ada lives in Bern.\n    She has a cat. \n\n").record
    assert saved.content == "Ada lives in Bern.\n    She has a cat."
    assert memory.update(saved.id, content=" Ada lives in Basel. ").content == "Ada lives in Basel."


def test_an_update_that_changes_nothing_writes_nothing(memory: Memory, clock: MovableClock) -> None:
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2
    saved = memory.save(f"The key is {key}", tags=["ops"]).record
    clock.move(days=3)
    before = memory.history.log()
    assert memory.update(saved.id, content=f" The key is {key} ", tags=["ops"]) == saved
    assert memory.update(saved.id, content=saved.content, expected=saved) == saved
    assert memory.history.log() == before
    clock.move(days=3)
    assert memory.update(saved.id, importance=0.9).updated_at == clock()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_what_a_memory_returns_can_be_pickled_and_copied(
    memory: Memory, copied: Callable[[object], object]
) -> None:
    result = memory.save("Likes tea", tags=["drinks"], metadata={"from": "a friend"})
    turn = memory.session("chat:1").add("user", "Do I like tea?", metadata={"client": "cli"})
    hits = memory.search("tea", sources=("records", "turns"))
    assert {hit.type for hit in hits} == {"record", "turn"}
    pack = memory.session("chat:1").context("tea?")
    journal = memory.history.log()
    for value in (result.record, turn, *hits, pack, *journal, memory.session("chat:1").state):
        again = copied(value)
        assert again == value
        assert repr(again) == repr(value)
    with pytest.raises(TypeError):
        copied(result.record).metadata["from"] = "another"  # type: ignore[attr-defined]


OFF = [Settings(recording_enabled=False), Settings(memory_enabled=False)]


@pytest.mark.parametrize("settings", OFF, ids=["recording", "memory"])
def test_with_recording_switched_off_a_conversation_leaves_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    with Memory.open(tmp_path) as memory:
        memory.session("cli:1").add("user", "The launch is in May")
        memory.save("Ada lives in Bern")
        kept = memory.history.log()
    with Memory.open(tmp_path, settings=settings) as memory:
        chat = memory.session("cli:1")
        chat.add("user", "We decided to use Zanzibar for the ledger.")
        chat.add("assistant", "I will always use Zanzibar then, as we decided.")
        chat.working.set("draft", "Zanzibar")
        assert chat.turns()[0].content == "The launch is in May"
        assert "Zanzibar" in chat.context("What now?").messages[-2]["content"]
        assert memory.consolidate_session("cli:1") == []
        names = {tool.name for tool in memory.tools(session="cli:1")}
        assert "search_memory" in names
        assert not names & {"save_memory", "edit_memory", "save_to_working_memory"}
        memory.dreams.run_due()
        chat.reset()
    with Memory.open(tmp_path) as memory:
        assert memory.history.log() == kept
        assert [turn.content for turn in memory.session("cli:1").turns()] == ["The launch is in May"]
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or b"Zanzibar" not in file.read_bytes(), file


def test_each_switch_does_its_own(tmp_path: Path) -> None:
    with Memory.open(tmp_path, settings=Settings(injection_enabled=False)) as memory:
        memory.save("The harbour is in Oslo")
        chat = memory.session("cli:1")
        chat.add("user", "We decided to leave the harbour.")
        chat.add("assistant", "Noted.")
        assert memory.session("cli:2").context("Where is the harbour?").text == ""
        assert "decision" in {record.kind for record in memory.list()}
    with Memory.open(tmp_path, settings=Settings(recording_enabled=False)) as memory:
        assert "Oslo" in memory.session("cli:3").context("Where is the harbour?").text
    with Memory.open(tmp_path, settings=Settings(memory_enabled=False)) as memory:
        assert memory.session("cli:3").context("Where is the harbour?").text == ""


_UNCLOSED = """
    import asyncio, gc, os, resource, sys, threading, time
    from reverie import AsyncMemory, Memory

    gc.disable()  # a program with many objects collects seldom
    resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
    place, kind = sys.argv[1:]

    async def use_async():
        memory = await AsyncMemory.open(place)
        await memory.save("The ferry leaves at nine")
        assert await memory.search("ferry")

    for number in range(20):
        if kind == "async":
            asyncio.run(use_async())
            continue
        memory = Memory.open(place)
        if kind == "scoped":
            memory = memory.scoped("user:ana")
        memory.save(f"Ferry {number} leaves at nine")
        assert memory.search("ferry")
        if kind == "session":
            memory = memory.session("cli:1")
            memory.add("user", "When does the ferry leave?")
            memory.context()
        if kind == "worker":
            memory.dreams.start()
    memory = None
    until = time.monotonic() + 10
    while threading.active_count() > 1 and time.monotonic() < until:
        time.sleep(0.05)
    print(threading.active_count(), len(os.listdir("/proc/self/fd")) < 32)
    with Memory.open(place) as memory:
        print(memory.admin.check(), len(memory.scoped("*").list(limit=100)))
"""


@pytest.mark.parametrize("kind", ["memory", "scoped", "session", "worker", "async"])
def test_memories_that_nobody_uses_are_released_without_being_closed(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(_UNCLOSED), str(tmp_path), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"1 True\n[] {1 if kind == 'async' else 20}\n"), done.stderr


def test_a_memory_is_used_through_what_is_left_of_it(tmp_path: Path) -> None:
    scope = Memory.open(tmp_path).scoped("user:ana")
    session = Memory.open(tmp_path).session("cli:1")
    reader = Memory.open(tmp_path).scoped("*")
    history = Memory.open(tmp_path).history
    scope.save("Ana likes Tagliatelle")
    session.add("user", "What does Ana like?")
    assert [hit.content for hit in scope.search("Tagliatelle")] == ["Ana likes Tagliatelle"]
    assert len(reader.list()) == 1
    assert [row.subject for row in history.log()] == ["record", "session", "turn"]


# -- several records at once --------------------------------------------------------------------------


def test_vouching_labelling_and_archiving_are_one_change_each() -> None:
    with Memory.open(":memory:") as memory:
        alice = memory.scoped("user:alice")
        ids = [alice.save(text, origin="web").record.id for text in ("Lives in Lisbon", "Plays the harp")]
        assert {each.origin for each in alice.vouch(ids)} == {"owner"}
        assert {each.tags for each in alice.label(ids, ["city"])} == {("city",)}
        assert all(each.archived for each in alice.archive_many(ids, reason="moved"))
        memory.history.undo(batch=memory.history.sequence())
        assert len(alice.list()) == 2
        with pytest.raises(NotFound):
            alice.vouch([ids[0], "0" * 12])
        with pytest.raises(InvalidInput, match="tags"):
            alice.label(ids, [])
        with pytest.raises(NotFound):
            memory.scoped("user:bob").vouch(ids)


def test_two_records_are_settled_unless_one_has_changed() -> None:
    with Memory.open(":memory:") as memory:
        old, new = (memory.save(text).record for text in ("The gym opens at six", "The pool opens at nine"))
        memory.update(old.id, tags=["sport"])
        with pytest.raises(Conflict):
            memory.settle(new.id, old.id, "wrong", expected=(new, old))
        kept, ended = memory.settle(new.id, old.id, "ended")
        assert ended.valid_to is not None
        assert (kept.id, ended.id) == (new.id, old.id)
        with pytest.raises(InvalidInput, match="same record"):
            memory.settle(new.id, new.id, "both")
