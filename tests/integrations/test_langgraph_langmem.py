"""LangMem's tools work unchanged over this store."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

from reverie import Memory
from reverie.integrations.langgraph import ReverieStore

langmem = pytest.importorskip("langmem", exc_type=ImportError)


def test_langmem_creates_finds_updates_and_deletes(memory: Memory) -> None:
    store = ReverieStore(memory)
    place: dict[str, Any] = {"namespace": ("memories", "{user}"), "store": store}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangMem imports what LangGraph is about to move
        manage, search = (
            langmem.create_manage_memory_tool(**place),
            langmem.create_search_memory_tool(**place),
        )
    alice, bob = ({"configurable": {"user": name}} for name in ("alice", "bob"))

    def find(config: dict[str, Any]) -> list[str]:
        found = json.loads(search.invoke({"query": "which mode in the editor?"}, config))
        return [each["value"]["content"] for each in found]

    created = manage.invoke({"action": "create", "content": "Prefers dark mode in every editor"}, alice)
    assert created.startswith("created memory ")
    [item] = store.search(("memories", "alice"))
    assert (find(alice), find(bob)) == (["Prefers dark mode in every editor"], [])
    manage.invoke({"action": "update", "id": item.key, "content": "Prefers light mode"}, alice)
    assert [each.value for each in store.search(("memories",))] == [{"content": "Prefers light mode"}]
    [hit] = memory.search("light mode")
    assert hit.content == "Prefers light mode"
    manage.invoke({"action": "delete", "id": item.key}, alice)
    assert store.search(("memories",)) == []
