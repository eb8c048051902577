"""Who asks for it is forgotten: all that a scope has goes, and nothing that is somebody else's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from reverie import EVERY_SCOPE, InvalidInput, Memory, NotFound, Record, Turn
from tests.factories import MovableClock, get_search_index

SECRET = "Zorblatt is the name of my first horse"


def filled(memory: Memory) -> None:
    zoe = memory.scoped("user:zoe-quux")
    zoe.save(SECRET, tags=["zebraic"])
    zoe.save("Archived zorblatt words of hers")
    zoe.archive(zoe.search("archived words")[0].id)
    zoe.scoped("task:grumble").save("A zorblatt task")
    chat = zoe.session("telegram:98765")
    chat.add("user", "Did zorblatt win the race on Friday?", speaker="Zoequux")
    chat.add("assistant", "Yes, we decided that zorblatt won.")
    chat.working.set("zorblatt-log", "raced")
    zoe.session("unbegun:1").working.set("k", "zorblatt")
    zoe.scratchpad.set("horse", "zorblatt")
    zoe.promote(zoe.search("first horse")[0].id)
    memory.scoped("user:zoe-quux").session("begun:plainly").add("user", "zorblatt again")
    bob = memory.scoped("user:bob")
    bob.save(SECRET.replace("my", "her").replace("Zorblatt", "Nobody"))
    bob.save("Her horse is the name of my first horse")
    bob.session("telegram:98765").add("user", "is the name of my first horse known?")
    memory.save("The office closes at six")
    memory.session("cli:1").add("user", "What time does it close?")


def everything_of(memory: Memory, scope: str) -> list[Record | Turn]:
    """Return the records and turns of one scope itself."""
    view = memory.scoped(scope)
    values: list[Record | Turn] = [*view.list(limit=None, archived=None)]
    values += [turn for one in view.sessions() for turn in view.turns(one.state.id)]
    return [each for each in values if each.scope == scope]


def test_all_that_is_somebodys_goes_from_every_byte(tmp_path: Path, clock: MovableClock) -> None:
    with Memory.open(tmp_path / "memory", clock=clock) as memory:
        filled(memory)
        before = everything_of(memory, "user:bob"), memory.scoped("").list(), memory.turns("cli:1")
        plan = memory.admin.forget(scope="user:zoe-quux", dry_run=True)
        assert not plan.done
        assert plan.counts["record"] >= 4
        assert plan.counts["session"] == 2
        assert plan.counts["entry"] == 3
        kept = {trace.because for trace in plan.left}
        assert "it belongs to 'user:bob'" in kept
        done = memory.admin.forget(scope="user:zoe-quux")
        assert (done.done, done.pending) == (True, ())
        assert everything_of(memory, "user:bob") == before[0]
        assert [r for r in before[1] if "horse" not in r.content] == memory.scoped("").list()
        assert memory.turns("cli:1") == before[2]
        zoe = memory.scoped("user:zoe-quux")
        assert zoe.stats().records == zoe.scoped("task:grumble").stats().records == 1, "everybody's"
        assert zoe.sessions() == memory.scoped("").sessions()
        assert zoe.scratchpad.list() == zoe.session("telegram:98765").working.list() == []
        with pytest.raises(NotFound, match="nothing belongs to the scope 'user:zoe-quux'"):
            memory.admin.forget(scope="user:zoe-quux")
        assert memory.admin.check() == []
        get_search_index(memory).fold()
    for file in (tmp_path / "memory").rglob("*"):
        name = file.name.lower()
        assert "zoe" not in name
        assert "98765" not in name or "bob" in name
        if file.is_file():
            held = file.read_bytes().lower()
            for word in (b"zorblatt", b"zoe-quux", b"zoequux", b"zebraic", b"grumble", b"begun:plainly"):
                assert word not in held, (file, word)


def test_a_scope_that_begins_alike_is_another(memory: Memory) -> None:
    memory.scoped("user:al").save("Al's horse")
    memory.scoped("user:alice").save("Alice's horse")
    memory.admin.forget(scope="user:al")
    assert [record.content for record in memory.scoped(EVERY_SCOPE).list()] == ["Alice's horse"]


def test_everybodys_is_not_forgotten_by_scope(memory: Memory) -> None:
    memory.save("The office closes at six")
    with pytest.raises(InvalidInput, match="scope is empty"):
        memory.admin.forget(scope="")
    with pytest.raises(InvalidInput, match="go alone"):
        memory.admin.forget("0" * 12, scope="user:a")


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("session", "session 'telegram:555123' \\(its name has the text: forget it by session"),
        ("scope", "scope 'user:555123' \\(its name has the text: forget it by scope"),
        ("page", "page 'people/555123.md' \\(its name has the text"),
    ],
)
def test_a_text_that_stands_only_in_names_is_found_and_named(memory: Memory, where: str, says: str) -> None:
    if where == "session":
        memory.session("telegram:555123").add("user", "Hello")
    elif where == "scope":
        memory.scoped("user:555123").save("Hello")
    else:
        memory.pages.write("people/555123.md", "Hello\n")
    for ask in (partial(memory.admin.forget, dry_run=True), memory.admin.forget):
        with pytest.raises(NotFound, match=says):
            ask(match="555123")
