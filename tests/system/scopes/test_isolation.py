"""Nothing that one scope can be asked tells whether another one exists."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reverie import Memory, NotFound
from tests.factories import MovableClock
from tests.profiles import examples
from tests.system.scopes.world import WORDS, Deed, World, do, opened, seen

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
sessions = st.sampled_from(["chat:1", "chat:2", "user:bob//chat:1"])
numbers = st.integers(0, 5)
who = st.sampled_from(["alice", "bob", "bob", "owner"])
categories = st.sampled_from([None, "project", "project/deep"])
origins = st.sampled_from(["owner", "agent", "web"])
deeds = st.one_of(
    st.tuples(who, st.just("save"), st.tuples(texts, categories, st.sampled_from("xy"), origins)),
    st.tuples(who, st.just("narrow"), st.tuples(texts)),
    st.tuples(who, st.just("talk"), st.tuples(sessions, texts)),
    st.tuples(who, st.just("change"), st.tuples(numbers, texts)),
    st.tuples(who, st.just("archive"), st.tuples(numbers)),
    st.tuples(who, st.just("keep"), st.tuples(texts)),
    st.tuples(st.sampled_from(["bob", "owner"]), st.just("write"), st.tuples(texts)),
    st.tuples(st.sampled_from(["bob"]), st.just("fold"), st.just(())),
    st.tuples(st.sampled_from(["alice", "bob"]), st.just("delete"), st.tuples(sessions)),
)


def lived(world: World, history: list[Deed], *, without: str = "") -> World:
    for at, deed in enumerate(history):
        if deed[0] != without:
            do(world, at, deed)
    return world


@settings(max_examples=examples(25))
@given(history=st.lists(deeds, max_size=14), query=texts)
def test_what_others_see_is_the_same_with_and_without_bob(history: list[Deed], query: str) -> None:
    queries = [query, "deploy"]
    both, alone = lived(opened(":memory:"), history), lived(opened(":memory:"), history, without="bob")
    with both.memory, alone.memory:
        for scope in ("user:alice", "user:alice/task:x", ""):
            with_bob = seen(both, both.memory.scoped(scope), queries)
            without = seen(alone, alone.memory.scoped(scope), queries)
            assert with_bob.keys() == without.keys()
            for name, text in with_bob.items():
                assert text == without[name], name


def test_ids_of_another_are_ids_of_nobody(tmp_path: Path) -> None:
    world = opened(tmp_path)
    with world.memory as memory:
        alice, bob = memory.scoped("user:alice"), memory.scoped("user:bob")
        record = bob.save("Bob likes tea").record.id
        archived = bob.save("Bob liked milk").record.id
        bob.archive(archived)
        turn = bob.session("chat:1").add("user", "I like tea").id
        unknown = "f" * 12
        for foreign in (record, archived, turn):
            assert alice.get(foreign) is alice.get_turn(foreign) is alice.get_paragraph(foreign) is None
            for change in (
                lambda name: alice.update(name, content="Mine"),
                lambda name: alice.update(name, category="not/../valid"),
                alice.archive,
                alice.restore,
                lambda name: alice.update(name, pinned=True),
                alice.promote,
                lambda name: alice.session("chat:1").feedback(name, "up"),
            ):
                said = []
                for name in (foreign, unknown):
                    with pytest.raises(NotFound) as raised:
                        change(name)
                    said.append(str(raised.value).replace(name, "…"))
                assert said[0] == said[1]
            tools = alice.tools(session="chat:1", groups=("long_term", "memory", "working"))
            for tool in tools:
                if "id" not in tool.spec.parameters.get("properties", {}):
                    continue
                wanted = tool.spec.parameters["properties"]
                for extra in wanted.get("operation", {}).get("enum", [""]):
                    said = [
                        tools.call(tool.name, {"id": name, **({"operation": extra} if extra else {})})
                        for name in (foreign, unknown)
                    ]
                    assert said[0].text.replace(foreign, "…") == said[1].text.replace(unknown, "…")  # type: ignore[attr-defined]
        assert bob.get(record) is not None
        assert memory.scoped("*").get(record) == bob.get(record)


@pytest.mark.parametrize("id", ["user:bob//chat", "plain"])
def test_everybody_s_view_opens_no_session_of_a_scope(tmp_path: Path, id: str) -> None:
    with Memory.open(tmp_path / "memory") as memory:
        everybody = memory.scoped("")
        chat = memory.scoped("user:bob").session(id)
        begun_before = everybody.session(id)
        chat.add("user", "Bob keeps wasps in Basel")
        chat.working.set("pin", "4711")
        for theirs in (begun_before, everybody.session(id)):
            assert theirs.turns() == []
            assert theirs.working.get("pin") is None
            assert theirs.context("wasps in Basel").text == ""
        assert everybody.turns(id) == everybody.consolidate_session(id) == []
        assert everybody.search("wasps", session=id, sources="turns") == []
        assert everybody.delete_session(id) == 0
        assert [turn.content for turn in chat.turns()] == ["Bob keeps wasps in Basel"]


def test_everybody_s_view_takes_no_name_of_a_scope_s_session(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory") as memory:
        memory.scoped("").session("user:bob//chat").add("user", "The office closes at six")
        bob = memory.scoped("user:bob").session("chat")
        assert bob.turns() == []
        bob.add("user", "Bob keeps wasps in Basel")
        (kept,) = memory.scoped("").sessions()
        assert [turn.content for turn in memory.scoped("").session(kept.state.id).turns()] == [
            "The office closes at six"
        ]


def test_what_is_shown_before_the_first_turn_does_not_depend_on_who_else_talks(tmp_path: Path) -> None:
    def show_twice(folder: Path, *, with_bob: bool) -> list[list[str]]:
        clock = MovableClock()
        with Memory.open(folder, clock=clock) as memory:
            alice = memory.scoped("user:alice")
            alice.save("Alice deploys on Fridays")
            shown = [[hit.content for hit in alice.session("chat:1").context("When to deploy?").hits]]
            clock.move(hours=2)
            if with_bob:
                memory.scoped("user:bob").session("chat:1").add("user", "Hello")
            chat = alice.session("chat:1")
            chat.add("user", "Hello")
            chat.add("assistant", "Hello, Alice.")
            return [*shown, [hit.content for hit in chat.context("When to deploy?").hits]]

    alone = show_twice(tmp_path / "alone", with_bob=False)
    assert alone[0] == ["Alice deploys on Fridays"]
    assert show_twice(tmp_path / "both", with_bob=True) == alone
