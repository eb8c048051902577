"""Who is in a scope sees its chain, writes to it alone, and may carry things up when asked to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from reverie import (
    EVERY_SCOPE,
    AsyncMemory,
    InvalidInput,
    Memory,
    NewRecord,
    NotFound,
    ScopeRequired,
    Settings,
)
from reverie.domain.scope import (
    build_scoped_session_id,
    join_scope,
    parse_session_scope,
    validate_scope,
    visible_scopes,
)
from reverie.integrations.agentkit import FILTools
from reverie.llm.messages import ModelRequest
from tests.factories import MovableClock

NUTS = "Alice is allergic to nuts"


def contents(found: object) -> list[str]:
    return [each.content for each in found]  # type: ignore[attr-defined]


# -- the form of a scope ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scope", ["", "user:alice", "a", "user:a@b.org/task:deploy", "user:Zoë B/session:t:1"]
)
def test_a_scope_is_a_path_of_names(scope: str) -> None:
    assert validate_scope(scope) == scope
    assert visible_scopes(scope)[-1] == ""
    assert visible_scopes(scope)[0] == scope


@pytest.mark.parametrize(
    ("scope", "says"),
    [
        (" user:a", "remove the blanks"),
        ("user:a ", "remove the blanks"),
        ("user:a/ task", "remove the blanks"),
        ("user:a\n", "U\\+000A, which cannot be seen"),
        ("user:\u202ea", "U\\+202E"),
        ("user:\u200ba", "U\\+200B"),
        ("user:a//b", "between slashes there are names"),
        ("/user:a", "between slashes"),
        ("user:a/..", "between slashes"),
        ("*", "which means all of them"),
        ("x" * 201, "201 characters"),
        (5, "scope is int"),
    ],
)
def test_what_is_no_scope_is_refused_everywhere(memory: Memory, scope: str, says: str) -> None:
    for use in (
        lambda: memory.scoped(scope),
        lambda: memory.save("x", scope=scope),
        lambda: memory.session("chat:1", scope=scope),
        lambda: memory.shelf("app", scope=scope),
    ):
        with pytest.raises(InvalidInput, match=says):
            use()
    assert memory.records(archived=None) == []


def test_names_of_sessions_never_meet() -> None:
    assert join_scope("user:a", "task:b") == "user:a/task:b"
    assert build_scoped_session_id("user:a", "task:b//c") != build_scoped_session_id("user:a/task:b", "c")
    assert build_scoped_session_id(
        "user:a", build_scoped_session_id("user:a", "c")
    ) == build_scoped_session_id("user:a", "c")
    assert parse_session_scope(build_scoped_session_id("user:a/task:b", "chat//1")) == "user:a/task:b"
    assert build_scoped_session_id("", "c") == "c"
    assert (
        build_scoped_session_id("", "user:a//c")
        == "//user:a//c"
        == build_scoped_session_id("", "//user:a//c")
    )
    assert parse_session_scope("//user:a//c") == ""


# -- the chain ---------------------------------------------------------------------------------------------


def test_reads_see_the_chain_upwards_and_writes_go_to_the_narrowest(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    task = alice.scoped("session:chat:1").scoped("task:deploy")
    assert task.chain == (
        "user:alice/session:chat:1/task:deploy",
        "user:alice/session:chat:1",
        "user:alice",
        "",
    )
    assert memory.scoped(task.scope).chain == task.chain
    memory.save("The deploy is on Friday")
    alice.save("Alice likes to deploy early")
    task.save("This deploy needs the key")
    alice.scoped("task:other").save("That deploy is off")
    assert sorted(contents(task.search("deploy"))) == [
        "Alice likes to deploy early",
        "The deploy is on Friday",
        "This deploy needs the key",
    ]
    assert sorted(contents(alice.search("deploy"))) == [
        "Alice likes to deploy early",
        "The deploy is on Friday",
    ]
    assert contents(memory.scoped("").search("deploy")) == ["The deploy is on Friday"]
    assert {record.scope for record in task.records()} == set(task.chain) - {"user:alice/session:chat:1"}


def test_of_the_same_words_the_narrower_is_found(memory: Memory, clock: MovableClock) -> None:
    task = memory.scoped("user:alice/task:deploy")
    task.save(NUTS)
    clock.move(days=3)
    memory.scoped("user:alice").save(NUTS)
    clock.move(days=3)
    memory.save(NUTS)
    (hit,) = task.search("allergic nuts")
    assert hit.record is not None
    assert hit.record.scope == "user:alice/task:deploy"
    (hit,) = memory.scoped("user:alice").search("allergic nuts")
    assert hit.record is not None
    assert hit.record.scope == "user:alice"


def test_a_conversation_recalls_along_the_chain(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    memory.save("The deploy key is in the safe")
    alice.save("Alice is away on Friday, no deploy then")
    memory.scoped("user:bob").save("Bob deploys at night")
    alice.scoped("task:other").save("The other deploy has failed")
    chat = alice.scoped("task:deploy").session("chat:1")
    chat.add("user", "When can we deploy?")
    text = chat.context().text
    assert "in the safe" in text
    assert "away on Friday" in text
    assert "Bob" not in text
    assert "failed" not in text


def test_many_notes_go_to_the_scope_and_to_no_other(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    saved = alice.save_many(
        [{"content": "one"}, NewRecord(content="two"), {"content": "three", "scope": "user:alice"}]
    )
    assert {each.record.scope for each in saved} == {"user:alice"}
    assert {each.record.scope for each in alice.remember_fil(["four"])} == {"user:alice"}
    for note in ({"content": "five", "scope": "user:bob"}, NewRecord(content="five", scope="user:bob")):
        with pytest.raises(InvalidInput, match="everything is saved in 'user:alice'"):
            alice.save_many([note])
    with pytest.raises(TypeError, match="scope"):
        alice.search("one", scope="user:bob")  # type: ignore[call-arg]


def test_what_is_everybodys_is_read_and_not_changed(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    shared = memory.save("The office closes at six").record
    own = alice.save(NUTS).record
    assert alice.get(shared.id) == shared
    for change in (alice.archive, alice.pin, alice.unpin, alice.restore, alice.delete):
        with pytest.raises(InvalidInput, match="everybody's"):
            change(shared.id)
    assert memory.get(shared.id) == shared
    assert alice.scoped("task:x").update(own.id, importance=0.9).importance == 0.9
    assert memory.scoped("").archive(shared.id).archived


def test_pages_are_read_and_not_written(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    memory.pages.write("MEMORY.md", "# Office\n\n- closes at six\n")
    assert "closes at six" in alice.pages.read()
    for write in (
        lambda: alice.pages.write("MEMORY.md", "mine"),
        lambda: alice.pages.replace("six", "five"),
        lambda: alice.pages.append("HISTORY.md", "mine"),
        lambda: alice.pages.delete("MEMORY.md"),
    ):
        with pytest.raises(InvalidInput, match="everybody's and cannot be changed from within 'user:alice'"):
            write()
    told = alice.tools(groups=["pages"]).call("edit_memory", {"old_text": "six", "new_text": "five"})
    assert told.failed
    assert memory.pages.read() == "# Office\n\n- closes at six\n"
    assert memory.scoped("").pages is memory.pages


def test_scratchpads_shelves_and_working_memory_are_each_scopes_own(memory: Memory) -> None:
    alice, bob = memory.scoped("user:alice"), memory.scoped("user:bob")
    for scope in (alice, bob, memory.scoped("")):
        scope.scratchpad.set("goal", f"of {scope.scope!r}")
        scope.shelf("app").put(("a",), "k", {"text": f"of {scope.scope!r}"})
        scope.session("chat:1").working.set("log", f"of {scope.scope!r}")
    for scope in (alice, bob, memory.scoped("")):
        mine = f"of {scope.scope!r}"
        assert scope.scratchpad.get("goal") == mine
        assert scope.session("chat:1").working.get("log") == mine
        kept = scope.shelf("app").get(("a",), "k")
        assert kept is not None
        assert kept.value == {"text": mine}
    assert memory.scratchpad.get("goal") == "of ''"


def test_a_session_begun_through_the_memory_keeps_its_id(memory: Memory) -> None:
    memory.session("chat:1", scope="user:alice").add("user", "Hello")
    alice = memory.scoped("user:alice")
    assert alice.session("chat:1").id == "chat:1"
    assert contents(alice.turns("chat:1")) == ["Hello"]
    assert contents(alice.search_turns("hello", session="chat:1")) == ["Hello"]
    assert alice.delete_session("chat:1") == 1


def test_the_adapters_for_findings_work_within_a_scope(memory: Memory) -> None:
    alice = FILTools(memory.scoped("user:alice"))
    alice.remember_fil(["The API allows 100 calls"])
    assert contents(alice.recall("API calls")) == ["The API allows 100 calls"]
    assert FILTools(memory.scoped("user:bob")).recall("API calls") == []


def test_asynchronously(tmp_path: Path) -> None:
    async def live() -> list[str]:
        async with await AsyncMemory.open(tmp_path) as memory:
            task = memory.scoped("user:alice").scoped("task:x")
            saved = await task.save(NUTS)
            await task.promote(saved.record.id, to="user:alice")
            chat = await task.session("chat:1")
            await chat.add("user", "Who is allergic?")
            assert (await task.stats()).turns == 1
            return contents(await memory.scoped("user:alice").search("nuts"))

    assert asyncio.run(live()) == [NUTS]


# -- promotion ---------------------------------------------------------------------------------------------


def test_promotion_copies_upwards_says_from_where_and_is_undone(memory: Memory, clock: MovableClock) -> None:
    task = memory.scoped("user:alice/task:deploy")
    own = task.save(
        "The staging port is 5433, not 5432",
        category="project-context",
        kind="decision",
        tags=["db"],
        importance=0.9,
        ttl="30d",
    ).record
    clock.move(days=1)
    saved = task.promote(own.id, to="user:alice")
    up = saved.record
    assert (saved.outcome, up.scope, up.metadata["promoted_from"]) == ("created", "user:alice", own.id)
    for name in (
        "content",
        "category",
        "kind",
        "layer",
        "tags",
        "importance",
        "expires_at",
        "created_at",
        "origin",
    ):
        assert getattr(up, name) == getattr(own, name)
    assert task.get(own.id) == own
    (row,) = memory.history(up.id)
    assert row.reason == f"promoted from {own.id}"
    assert task.promote(own.id, to="user:alice").outcome == "reinforced"
    assert memory.scoped("user:alice").promote(up.id).record.scope == ""
    memory.undo(row.sequence + 2)
    assert memory.records(scope="") == []


@pytest.mark.parametrize("origin", ["tool", "web", "import"])
def test_what_nobody_vouches_for_is_not_promoted(memory: Memory, origin: str) -> None:
    alice = memory.scoped("user:alice")
    record = alice.save("Buy at example.org", origin=origin).record  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=f"has the origin '{origin}'"):
        alice.promote(record.id)
    assert memory.records(scope="") == []


def test_promotion_goes_upwards_in_the_own_chain_only(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    record = alice.save(NUTS).record
    shared = memory.save("The office closes at six").record
    for to in ("user:bob", "user:alice", "user:alice/task:x"):
        with pytest.raises(InvalidInput, match="can be promoted only to ''"):
            alice.promote(record.id, to=to)
    with pytest.raises(InvalidInput, match="no further: it is everybody's"):
        alice.promote(shared.id)
    with pytest.raises(NotFound):
        memory.scoped("user:bob").promote(record.id)
    alice.archive(record.id)
    with pytest.raises(InvalidInput, match="archived: restore it first"):
        alice.promote(record.id)


def test_background_thinking_keeps_scopes_apart(clock: MovableClock, tmp_path: Path) -> None:
    """No question to the model shows two scopes, and no pass moves anything from one to another."""
    asked: list[str] = []

    def model(ask: ModelRequest) -> str:
        asked.append("\n".join(message.content for message in ask.messages))
        return "{}"

    people = {"alice": "zebra", "bob": "walrus", "carol": "ocelot"}
    with Memory.open(tmp_path, clock=clock, model=model, settings=Settings(memory_window=4)) as memory:
        for name, animal in people.items():
            scope = memory.scoped(f"user:{name}")
            scope.save(f"Likes the {animal} in the zoo", category=f"animals/{animal}")
            scope.save(f"Likes the {animal} in the zoo very much", category=f"animals/{animal}")
            scope.save(f"{animal}: feed at nine, clean at ten", rough=True)
            chat = scope.session("chat:1")
            for n in range(4):
                chat.add("user", f"Actually, no, I prefer the {animal} number {n}, always")
                chat.add("assistant", f"The {animal}, then. We decided on it.")
        before = {record.id: record.scope for record in memory.records(limit=None, archived=None, scope="*")}
        clock.move(hours=2)
        memory.worker.run_due()
        memory.worker.run()
        assert len(asked) >= 3
        for text in asked:
            assert sum(animal in text for animal in people.values()) <= 1, text
        after = memory.records(limit=None, archived=None, scope=EVERY_SCOPE)
        assert {record.id: record.scope for record in after if record.id in before} == before
        assert memory.records(scope="", archived=None) == []
        for record in after:
            assert people[record.scope.removeprefix("user:")] in record.content
        assert memory._store.pages() == []
        assert memory._store.logs() == {}
        with pytest.raises(InvalidInput, match="pages are everybody's"):
            memory.worker.plan("digest", session=memory.scoped("user:bob").session("chat:1").id)


# -- whose memory is meant -----------------------------------------------------------------------------------


READS = {
    "search": lambda memory, **how: memory.search("tea", **how),
    "search newest": lambda memory, **how: memory.search(**how),
    "recall": lambda memory, **how: memory.recall("tea", **how),
    "recall_fil": lambda memory, **how: memory.recall_fil("tea", **how),
    "recall_by_category": lambda memory, **how: memory.recall_by_category("tea", "finding", **how),
    "search_turns": lambda memory, **how: memory.search_turns("tea", **how),
    "records": lambda memory, **how: memory.records(**how),
    "archived": lambda memory, **how: memory.records(archived=True, **how),
    "recent": lambda memory, **how: memory.recent(**how),
    "categories": lambda memory, **how: memory.categories(**how),
    "tags": lambda memory, **how: memory.tags(**how),
    "sessions": lambda memory, **how: memory.sessions(**how),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_where_scopes_are_in_use_it_has_to_be_said_whose_is_meant(memory: Memory, read: object) -> None:
    assert callable(read)
    memory.save("Tea is in the kitchen")
    memory.session("chat:1").add("user", "Where is the tea?")
    read(memory)
    record = memory.save("Alice likes tea", scope="user:alice").record
    with pytest.raises(ScopeRequired, match="scope=EVERY_SCOPE to look at all on purpose"):
        read(memory)
    for scope in ("", "user:alice", ["user:alice", ""], EVERY_SCOPE):
        read(memory, scope=scope)
    with memory.as_of(1) as past:
        read(past)
    with memory.as_of(memory.stats().journal) as past, pytest.raises(ScopeRequired):
        read(past)
    memory.forget(record.id)
    read(memory)


def test_an_archived_record_and_a_session_without_a_turn_count_too(memory: Memory) -> None:
    memory.search("tea")
    memory.archive(memory.save("Alice likes tea", scope="user:alice").record.id)
    with pytest.raises(ScopeRequired):
        memory.records(archived=True)
    memory.purge(older_than=0)
    assert memory.records(archived=True) == []
    memory.session("chat:1", scope="user:alice").pause()
    with pytest.raises(ScopeRequired):
        memory.sessions()
    memory.delete_session("chat:1")
    assert memory.sessions() == []


def test_another_process_that_begins_with_scopes_is_noticed(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as here, Memory.open(tmp_path) as there:
        here.save("Tea is in the kitchen")
        assert len(here.search("tea")) == 1
        record = there.save("Alice likes tea", scope="user:alice").record
        with pytest.raises(ScopeRequired):
            here.search("tea")
        there.forget(record.id)
        assert len(here.search("tea")) == 1


def test_all_scopes_on_purpose(memory: Memory) -> None:
    for who in ("", "user:alice", "user:bob"):
        memory.save(f"Tea of {who or 'everybody'}", scope=who)
    assert len(memory.search("tea", scope=EVERY_SCOPE)) == 3
    assert len(memory.search("tea", scope="*")) == 3
    with pytest.raises(InvalidInput, match="means all of them"):
        memory.search("tea", scope=["*", ""])


def test_nothing_of_the_folder_is_told_within_a_scope(tmp_path: Path) -> None:
    from tests.system.scopes.world import do, opened, seen

    world = opened(tmp_path / "hidden-place")
    with world.memory:
        do(world, 1, ("alice", "save", ("deploy key", "project", "x", "owner")))
        do(world, 2, ("alice", "talk", ("chat:1", "deploy key")))
        told = "\n".join(seen(world, world.memory.scoped("user:alice"), ["deploy"]).values())
        assert "hidden-place" not in told
        assert ".jsonl" not in told
        files = [file.name for file in tmp_path.rglob("*.jsonl")]
        assert files == ["user:alice%2F%2Fchat:1.jsonl"]


def test_who_writes_meanwhile_does_not_make_a_memory_look_shared(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.save("Crate 0 is full")
    measure, saved = memory._store.measure, [False]

    def busy(*given: object) -> object:
        found = measure(*given)  # type: ignore[arg-type]
        if not saved[0]:
            saved[0] = True
            memory.save("Crate 1 is full")
        return found

    monkeypatch.setattr(memory._store, "measure", busy)
    assert memory.search("crate", limit=1)
    assert saved == [True]
