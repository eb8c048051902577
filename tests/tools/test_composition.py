"""Tools are put together: some of them, under other names, with approval; the rest stays as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reverie import InvalidInput, Memory, NotFound, StoreUnavailable, WorkingMemoryFull
from reverie.llm.protocol import ToolSpec
from reverie.tools import DEFAULT_GROUPS, GROUPS, Tool, ToolResult, Toolset, memory_tools
from tests.factories import build_parameters


def tool(name: str, run: Any = None, *, reads_only: bool = False) -> Tool:
    spec = ToolSpec(name=name, description=name, parameters=build_parameters(text={"type": "string"}))
    return Tool(
        spec=spec, run=run or (lambda given: ToolResult(f"{name} {dict(given)}")), reads_only=reads_only
    )


THREE = Toolset([tool("read", reads_only=True), tool("write"), tool("drop")])


def test_wrong_names_are_refused_by_what_they_are() -> None:
    for name in (5, ["read"], None, "x" * 1000):
        with pytest.raises(NotFound, match="no tool") as raised:
            THREE.only(name)  # type: ignore[arg-type]
        answer = THREE.call(name)  # type: ignore[arg-type]
        assert answer.failed
        assert "There are: read, write, drop." in answer.text
        assert max(len(str(raised.value)), len(answer.text)) < 300
    with pytest.raises(InvalidInput, match="names is 5: pass a mapping"):
        THREE.renamed(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="'é_read' is not a name"):
        THREE.prefixed("é_")


def test_only_some_in_another_order() -> None:
    assert THREE.only("drop", "read").names == ("drop", "read")
    assert THREE.without("write").names == ("read", "drop")
    assert THREE.reading().names == ("read",)
    assert THREE[:2].names == ("read", "write")
    assert THREE[0].name == "read"
    assert (THREE.only("read") + THREE.only("drop")).names == ("read", "drop")
    assert repr(THREE) == "Toolset(read, write, drop)"
    assert THREE.names == ("read", "write", "drop"), "the set itself never changes"


def test_other_names_call_the_same_tools() -> None:
    renamed = THREE.renamed({"write": "put"}).prefixed("reverie_")
    assert renamed.names == ("reverie_read", "reverie_put", "reverie_drop")
    assert renamed.call("reverie_put", {"text": "x"}).text == "write {'text': 'x'}"
    assert "No tool 'write'. There are: reverie_read" in renamed.call("write").text


def test_two_of_one_name_and_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two tools of the name 'read'"):
        THREE + THREE
    with pytest.raises(InvalidInput, match="two tools of the name 'read'"):
        THREE.renamed({"write": "read"})
    for wrong in (THREE.only, THREE.without, THREE.tool, lambda name: THREE.renamed({name: "x"})):
        with pytest.raises(NotFound, match=r"no tool 'nope'\. There are: read, write, drop"):
            wrong("nope")


def test_what_changes_something_is_run_only_when_somebody_agrees() -> None:
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def approve(tool: Tool, given: Mapping[str, Any]) -> bool:
        asked.append((tool.name, given))
        return tool.name == "write"

    guarded = THREE.approved(approve)
    assert guarded.call("read").text == "read {}"
    assert guarded.call("write", {"text": "x"}).text == "write {'text': 'x'}"
    refused = guarded.call("drop")
    assert (refused.text, refused.failed) == ("drop was not approved, and nothing was done.", True)
    assert "has no argument nope" in guarded.call("drop", {"nope": 1}).text, (
        "nobody is asked about a wrong call"
    )
    assert asked == [("write", {"text": "x"}), ("drop", {})]
    for said in ("ask Ada first.", "", None, 0):
        told = THREE.approved(lambda tool, given, said=said: said, "drop")  # type: ignore[misc]
        reason = ": ask Ada first" if said else ""
        assert told.call("drop").text == f"drop was not approved, and nothing was done{reason}."
        assert not told.call("write").failed


def test_a_call_comes_as_json_or_as_an_object() -> None:
    assert THREE.call("write", '{"text": "x"}').text == "write {'text': 'x'}"
    assert THREE.call("write", "").text == "write {}"
    assert THREE.call("write").text == "write {}"
    for wrong in ("{", "[1]", "3", "null"):
        assert "Call it again with a JSON object." in THREE.call("write", wrong).text


def test_what_a_tool_refuses_is_answered_and_a_broken_store_is_raised() -> None:
    def full(given: Any) -> ToolResult:
        raise WorkingMemoryFull("no room.")

    def broken(given: Any) -> ToolResult:
        raise StoreUnavailable("disk full")

    tools = Toolset([tool("full", full), tool("broken", broken)])
    assert tools.call("full") == ToolResult("Nothing was done: no room.", failed=True)
    with pytest.raises(StoreUnavailable):
        tools.call("broken")


def test_groups_are_given_in_the_order_asked_for(memory: Memory) -> None:
    assert memory.tools(groups=["fil", "memory"]).names == ("remember", "recall", "memory")
    assert memory.tools(groups=["fil", "fil"]).names == ("remember", "recall")
    assert memory.tools(groups=[]).names == ()
    for group in GROUPS:
        assert memory.tools(session="s", groups=[group]).names, group


def test_without_a_session_there_are_no_tools_of_working_memory(memory: Memory) -> None:
    assert not [name for name in memory.tools().names if "working" in name]
    with pytest.raises(InvalidInput, match="the group working needs a session"):
        memory.tools(groups=["working"])


def test_an_unknown_group_names_those_there_are(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="no group of tools 'nope': there are long_term, working, "):
        memory.tools(groups=["long_term", "nope"])
    with pytest.raises(InvalidInput, match="pass a list"):
        memory.tools(groups="long_term")


def test_a_scope_has_the_same_tools_which_see_its_own_and_everybodys(memory: Memory) -> None:
    memory.save("Everybody keeps time")
    secret = memory.scoped("user:bob").save("Bob keeps wasps").record
    alice = memory.scoped("user:alice").tools(session="s", groups=GROUPS)
    assert alice.names == memory.tools(session="s", groups=GROUPS).names
    assert not alice.call("save_memory", {"content": "Alice keeps bees"}).failed
    found = alice.call("search_memory").text
    assert "bees" in found
    assert "time" in found
    assert "wasps" not in found
    for name, given in {
        "get_memory": {"id": secret.id},
        "delete_memory": {"id": secret.id},
        "edit_memory": {"id": secret.id, "old": "wasps", "new": "bees"},
        "memory": {"operation": "forget", "id": secret.id},
    }.items():
        told = alice.call(name, given)
        assert told.failed
        assert "wasps" not in told.text
    assert {each.scope for each in memory.scoped("*").list() if "bees" in each.content} == {"user:alice"}


def test_the_tools_of_a_scoped_session_are_those_of_its_scope(memory: Memory) -> None:
    bob = memory.scoped("user:bob")
    session = bob.session("chat:9")
    tools = bob.tools(session="chat:9")
    tools.call("save_memory", {"content": "Bob keeps wasps"})
    tools.call("save_to_working_memory", {"key": "k", "data": "d"})
    (record,) = memory.scoped("user:bob").list()
    assert (record.content, record.source) == ("Bob keeps wasps", "session:user:bob//chat:9")
    assert session.working.get("k") == "d"


def test_memory_tools_take_what_memory_tools_gives_and_a_source(memory: Memory) -> None:
    tools = memory_tools(memory, source="GOAL:deploy")
    assert tools.names == memory.tools(groups=DEFAULT_GROUPS).names
    tools.call("save_memory", {"content": "Deploys are on Mondays"})
    assert memory.list()[0].source == "GOAL:deploy"


def test_a_model_is_told_that_a_secret_is_not_stored(memory: Memory) -> None:
    tools = memory.tools()
    saved = tools.call("save_memory", {"content": "The wifi password at the cabin is hunter22"})
    assert saved.text.endswith("Redacted 1 secret (password). Only its owner can save it with the secret.")
    assert "secret" not in tools.call("save_memory", {"content": "The cabin has a wifi"}).text


def test_conversations_are_listed_and_their_last_turns_read(memory: Memory) -> None:
    alice = memory.scoped("user:alice")
    session = alice.session("chat:1")
    for n in range(3):
        session.add("user", f"Question {n}")
    session.add("tool", "Use spaces.", tool_call_id="c")
    memory.scoped("user:bob").session("chat:of-bob").add("user", "Hello")
    tools = alice.tools(session="chat:1", groups=["sessions"])
    assert tools.names == ("list_conversations", "read_conversation")
    listed = tools.call("list_conversations", {}).text
    assert "chat:1 (4 turns, last " in listed
    assert "of-bob" not in listed
    lines = tools.call("read_conversation", {"session": "this", "limit": 2}).text.splitlines()
    assert lines[0].endswith("user: Question 2")
    assert lines[1].endswith("tool: Use spaces. (not confirmed)")
    assert "There is no conversation" in tools.call("read_conversation", {"session": "chat:2"}).text
