"""LangMem's tools work unchanged over this store, in a small graph with a scripted chat model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from reverie import Memory
from reverie.integrations.langgraph import ReverieStore

langmem = pytest.importorskip("langmem", exc_type=ImportError)

ALICE: RunnableConfig = {"configurable": {"user": "alice"}}
BOB: RunnableConfig = {"configurable": {"user": "bob"}}


class Scripted(BaseChatModel):
    """A chat model that says what stands in a script."""

    script: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Scripted:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        step = self.script.pop(0)
        said = step(messages) if callable(step) else step
        return ChatResult(generations=[ChatGeneration(message=said)])


def calls(name: str, **arguments: Any) -> AIMessage:
    return AIMessage(content="", tool_calls=[{"name": name, "args": arguments, "id": "call-1"}])


def graph(store: ReverieStore, *script: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangMem imports what LangGraph is about to move
        tools = [
            langmem.create_manage_memory_tool(namespace=("memories", "{user}")),
            langmem.create_search_memory_tool(namespace=("memories", "{user}")),
        ]
    model = Scripted(script=list(script)).bind_tools(tools)
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END]
    )
    builder.add_edge("tools", "model")
    return builder.compile(store=store)


def told(messages: list[BaseMessage]) -> list[str]:
    return [str(message.content) for message in messages if isinstance(message, ToolMessage)]


def ask(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def test_langmem_creates_finds_updates_and_deletes(memory: Memory) -> None:
    store = ReverieStore(memory)
    created = graph(
        store,
        calls("manage_memory", action="create", content="Prefers dark mode in every editor"),
        AIMessage("Noted."),
    ).invoke(ask("I like dark mode"), ALICE)
    assert told(created["messages"])[0].startswith("created memory ")
    [item] = store.search(("memories", "alice"))
    assert item.value == {"content": "Prefers dark mode in every editor"}

    searching = (calls("search_memory", query="which mode in the editor?"), AIMessage("Done."))
    found = graph(store, *searching).invoke(ask("Which mode?"), ALICE)
    [answer] = told(found["messages"])
    assert [each["value"]["content"] for each in json.loads(answer)] == ["Prefers dark mode in every editor"]
    assert told(graph(store, *searching).invoke(ask("Which mode?"), BOB)["messages"]) == ["[]"]

    updating = calls("manage_memory", action="update", id=item.key, content="Prefers light mode")
    graph(store, updating, AIMessage("Changed.")).invoke(ask("light now"), ALICE)
    assert [each.value for each in store.search(("memories",))] == [{"content": "Prefers light mode"}]
    [hit] = memory.search("light mode")
    assert hit.content == "Prefers light mode"

    deleting = calls("manage_memory", action="delete", id=item.key)
    graph(store, deleting, AIMessage("Gone.")).invoke(ask("forget it"), ALICE)
    assert store.search(("memories",)) == []
