"""Who is in a scope sees its chain, writes to it alone, and may carry things up when asked to."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import partial
from pathlib import Path

import pytest

from reverie import (
    EVERY_SCOPE,
    InvalidInput,
    Memory,
    MemoryReader,
    NewRecord,
    NotFound,
    ScopedMemory,
)
from reverie.domain.scope import (
    build_scoped_session_id,
    join_scope,
    parse_session_scope,
    validate_scope,
    visible_scopes,
)
from reverie.integrations.agentkit import Store
from reverie.search.hits import SOURCES
from tests.factories import MovableClock

NUTS = "Alice is allergic to nuts"


def contents(found: object) -> list[str]:
    return [each.content for each in found]  # type: ignore[attr-defined]


# -- the form of a scope ---------------------------------------------------------------------------------


def test_a_scope_is_a_path_of_names() -> None:
    for scope in ("", "user:alice", "a", "user:a@b.org/task:deploy", "user:Zoë B/session:t:1"):
        assert validate_scope(scope) == scope
        assert visible_scopes(scope)[-1] == ""
        assert visible_scopes(scope)[0] == scope


def test_what_is_no_scope_is_refused(memory: Memory) -> None:
    for scope, says in (
        (" user:a", "remove the blanks"),
        ("user:a ", "remove the blanks"),
        ("user:a/ task", "remove the blanks"),
        ("user:a\n", "U\\+000A, which cannot be seen"),
        ("user:\u202ea", "U\\+202E"),
        ("user:\u200ba", "U\\+200B"),
        ("user:a//b", "between slashes there are names"),
        ("/user:a", "between slashes"),
        ("user:a/..", "between slashes"),
        ("x" * 201, "201 characters"),
        (5, "scope is int"),
    ):
        with pytest.raises(InvalidInput, match=says):
            memory.scoped(scope)  # type: ignore[arg-type]


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
    assert visible_scopes(task.scope) == (
        "user:alice/session:chat:1/task:deploy",
        "user:alice/session:chat:1",
        "user:alice",
        "",
    )
    assert memory.scoped(task.scope).scope == task.scope
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
    assert {record.scope for record in task.list()} == set(visible_scopes(task.scope)) - {
        "user:alice/session:chat:1"
    }


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


def test_of_answers_that_are_equally_good_the_narrower_scopes_comes_first(
    memory: Memory, clock: MovableClock
) -> None:
    alice = memory.scoped("user:alice")
    alice.save("The deploy port is 5433")
    clock.move(days=40)
    for day in range(8):
        memory.save(f"The deploy port is 54{day}0", kind="decision")
        clock.move(days=1)
    hits = alice.search("Which port is the deploy port?")
    assert contents(hits)[0] == "The deploy port is 5433"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert contents(alice.search("Which port is the deploy port?", limit=1)) == ["The deploy port is 5433"]


def test_what_is_everybodys_and_answers_better_stays_first(memory: Memory, clock: MovableClock) -> None:
    alice = memory.scoped("user:alice")
    memory.save("The deploy port is 5433")
    clock.move(days=1)
    alice.save("Alice read a long text about ships that wait in a port for weeks, and a deploy")
    alice.save("The deploy port is 5434", confidence=0.2)
    assert contents(alice.search("Which port is the deploy port?"))[0] == "The deploy port is 5433"


def test_many_notes_go_to_the_scope_and_to_no_other(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    saved = alice.save_many(
        [{"content": "one"}, NewRecord(content="two"), {"content": "three", "scope": "user:alice"}]
    )
    assert {each.record.scope for each in saved} == {"user:alice"}
    assert {alice.get(each).scope for each in Store(alice).remember_fil(["four"])} == {"user:alice"}
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
    for change in (alice.archive, alice.restore, partial(alice.update, pinned=True)):
        with pytest.raises(InvalidInput, match="the shared scope"):
            change(shared.id)
    assert memory.get(shared.id) == shared
    assert alice.scoped("task:x").update(own.id, importance=0.9).importance == 0.9
    assert memory.scoped("").archive(shared.id).archived


def test_a_session_stored_under_its_plain_name_keeps_it(memory: Memory) -> None:
    memory._parts.sessions.open("chat:1", "user:alice").add("user", "Hello")
    alice = memory.scoped("user:alice")
    assert alice.session("chat:1").id == "chat:1"
    assert contents(alice.turns("chat:1")) == ["Hello"]
    assert contents(alice.search("hello", session="chat:1", sources="turns")) == ["Hello"]
    assert alice.delete_session("chat:1") == 1


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
    assert (saved.outcome, up.scope, up.promoted_from) == ("created", "user:alice", own.id)
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
    (row,) = memory.history.log(up.id)
    assert (row.operation, row.reference) == ("promote", own.id)
    assert task.promote(own.id, to="user:alice").outcome == "reinforced"
    assert memory.scoped("user:alice").promote(up.id).record.scope == ""
    memory.history.undo(row.sequence + 2)
    assert memory.scoped("").list() == []


def test_what_nobody_vouches_for_is_not_promoted(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    for origin in ("tool", "web", "import"):
        record = alice.save(f"Buy at {origin}.example.org", origin=origin).record  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=f"has the origin '{origin}'"):
            alice.promote(record.id)
    assert memory.scoped("").list() == []


def test_promotion_goes_upwards_in_the_own_chain_only(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    record = alice.save(NUTS).record
    shared = memory.save("The office closes at six").record
    for to in ("user:bob", "user:alice", "user:alice/task:x"):
        with pytest.raises(InvalidInput, match="can be promoted only to ''"):
            alice.promote(record.id, to=to)
    with pytest.raises(InvalidInput, match="no further: it is in the shared scope"):
        alice.promote(shared.id)
    with pytest.raises(NotFound):
        memory.scoped("user:bob").promote(record.id)
    alice.archive(record.id)
    with pytest.raises(InvalidInput, match="archived: restore it first"):
        alice.promote(record.id)


# -- whose memory is meant -----------------------------------------------------------------------------------


READS: dict[str, Callable[[MemoryReader], Sized]] = {
    "search": lambda memory: memory.search("tea"),
    "search newest": lambda memory: memory.search(),
    "search everything": lambda memory: memory.search("tea", sources=SOURCES),
    "search turns": lambda memory: memory.search("tea", sources="turns"),
    "list": lambda memory: memory.list(),
    "archived": lambda memory: memory.list(archived=True),
    "categories": lambda memory: memory.categories(),
    "tags": lambda memory: memory.tags(),
    "sessions": lambda memory: memory.sessions(),
}


def test_a_memory_without_a_scope_sees_what_is_everybodys(memory: Memory) -> None:
    memory.save("Tea is in the kitchen", tags=["tea"])
    memory.archive(memory.save("Coffee is in the hall").record.id)
    memory.session("chat:1").add("user", "Where is the tea?")
    before = {name: read(memory) for name, read in READS.items()}
    alice = memory.scoped("user:alice")
    record = alice.save("Alice likes tea", category="drinks", tags=["likes"]).record
    alice.archive(alice.save("Alice likes coffee").record.id)
    chat = alice.session("chat:1")
    chat.add("user", "Is tea good for Alice?")
    with memory.as_of(memory.admin.stats().journal) as past:
        for name, read in READS.items():
            assert read(memory) == read(past) == before[name], name
            assert len(read(memory.scoped(EVERY_SCOPE))) > len(before[name]), name
            assert read(past.scoped(EVERY_SCOPE)) == read(memory.scoped(EVERY_SCOPE)), name
            assert read(past.scoped("user:alice")) == read(alice), name
    assert memory.get(record.id) is None
    assert memory.get_turn(chat.turns()[0].id) is None
    assert memory.turns(chat.id) == []
    with pytest.raises(NotFound):
        memory.archive(record.id)


def test_all_scopes_on_purpose(memory: Memory) -> None:
    for who in ("", "user:alice", "user:bob"):
        memory.scoped(who).save(f"Tea of {who or 'everybody'}")
    assert len(memory.scoped(EVERY_SCOPE).search("tea")) == 3
    assert len(memory.scoped("*").search("tea")) == 3
    with pytest.raises(InvalidInput, match="means all of them"):
        memory.scoped("user:alice").scoped("*")
    assert not isinstance(memory.scoped("*"), ScopedMemory), "it reads, and changes nothing"


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
