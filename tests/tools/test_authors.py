"""Authors of what a model changes."""

from __future__ import annotations

from reverie import Memory


def test_what_a_model_changes_is_the_agents_work(memory: Memory) -> None:
    for scope in ["", "user:alice"]:
        chat = memory.scoped(scope).session("cli:1")
        chat.add("user", "Staging is back, it seems")
        tools = memory.scoped(scope).tools(session="cli:1") if scope else memory.tools(session="cli:1")
        saved = tools.call("save_memory", {"content": "Staging listens on port 5433"})
        assert saved.data is not None
        [row] = memory.history.log(str(saved.data["id"]))
        assert row.actor == "agent"
        tools.call("delete_memory", {"id": saved.data["id"]})
        assert {row.actor for row in memory.history.log(str(saved.data["id"]))} == {"agent"}
        memory.scoped(scope).save("Ines likes tea")
        chat.add("assistant", "Noted.")
        assert {row.actor for row in memory.history.log() if row.subject == "turn"} == {"owner"}
        assert memory.history.log()[-1].actor == "owner"


def test_a_page_that_a_model_edits_is_the_agents_work(memory: Memory) -> None:
    memory.pages.write("MEMORY.md", "Ines likes tea.\n")
    told = memory.tools().call("edit_memory", {"old": "tea", "new": "jasmine tea"})
    assert not told.failed, told.text
    assert [row.actor for row in memory.history.log("MEMORY.md")] == ["owner", "agent"]
