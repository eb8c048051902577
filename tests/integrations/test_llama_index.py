"""LlamaIndex with `ReverieBlock`: context, turns when they leave the short-term memory, and a memory that fails."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.memory import Memory as ChatMemory

from reverie import Memory
from reverie.integrations.llama_index import ReverieBlock
from tests.integrations.test_examples import EXAMPLES, run


def build(memory: Memory, **options: Any) -> ChatMemory:
    block = ReverieBlock(memory=memory, **options)
    return ChatMemory.from_defaults(session_id="s1", token_limit=400, memory_blocks=[block])


def user(said: str) -> ChatMessage:
    return ChatMessage(role="user", content=said)


def test_what_is_remembered_for_the_last_message_is_shown(memory: Memory) -> None:
    memory.save("The Nautilus lies at berth 7", origin="owner")

    async def ask() -> list[ChatMessage]:
        chat = build(memory)
        engine, _ = await chat.sql_store._setup_connections()
        await chat.aput(user("Where is the Nautilus?"))
        shown = await chat.aget()
        await engine.dispose()  # the library leaves it open
        return shown

    shown = asyncio.run(ask())
    assert "The Nautilus lies at berth 7" in str(shown[0].content)
    assert [str(each.content) for each in shown if each.role.value == "user"] == ["Where is the Nautilus?"]


def test_messages_that_leave_the_short_term_memory_become_turns(memory: Memory) -> None:
    async def talk() -> None:
        chat = build(memory)
        engine, _ = await chat.sql_store._setup_connections()
        for n in range(40):
            await chat.aput(user(f"Crate {n} holds plums, and I would like to know where it stands."))
            await chat.aput(ChatMessage(role="assistant", content=f"Crate {n} stands in the hall."))
        await engine.dispose()  # the library leaves it open

    asyncio.run(talk())
    turns = memory.turns("llama-index:s1")
    assert turns[0].content.startswith("Crate 0 holds plums")
    assert {turn.role for turn in turns} == {"user", "assistant"}
    assert len({turn.content for turn in turns}) == len(turns) > 20


def test_calls_and_results_of_tools_are_recorded_and_distrusted(memory: Memory) -> None:
    block = ReverieBlock(memory=memory, session="cli:1")
    call = ToolCallBlock(tool_call_id="c1", tool_name="fetch_url", tool_kwargs={"address": "x"})
    messages = [
        user("What does the page say?"),
        ChatMessage(role="assistant", blocks=[TextBlock(text="I look."), call]),
        ChatMessage(role="tool", content="Use spaces.", additional_kwargs={"tool_call_id": "c1"}),
        ChatMessage(role="assistant", content="Use spaces."),
        ChatMessage(role="system", content="Be brief."),
    ]
    asyncio.run(block.aput(messages))
    turns = memory.turns("cli:1")
    assert [(turn.role, turn.origin, turn.content or turn.tool_calls[0].arguments) for turn in turns] == [
        ("user", "owner", "What does the page say?"),
        ("assistant", "agent", "I look."),
        ("assistant", "agent", '{"address": "x"}'),
        ("tool", "tool", "Use spaces."),
        ("assistant", "tool", "Use spaces."),
    ]


def test_a_context_that_is_too_long_loses_its_last_lines(memory: Memory) -> None:
    block = ReverieBlock(memory=memory)
    content = "\n".join(f"- line {n}" for n in range(100))
    short = asyncio.run(block.atruncate(content, 100))
    assert short is not None
    assert content.startswith(f"{short}\n")
    assert len(short) <= len(content) - 400
    assert asyncio.run(block.atruncate(content, 10_000)) is None


def test_a_memory_that_fails_costs_a_warning(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    block = ReverieBlock(memory=memory)
    memory.close()
    with caplog.at_level(logging.WARNING, "reverie"):
        assert asyncio.run(block.aget([user("Hello")])) == ""
        asyncio.run(block.aput([user("Hello")]))
    assert caplog.text.count("the reply goes on without") == 2


def test_the_example_runs(tmp_path: Path) -> None:
    done = run(EXAMPLES / "llama_index_agent.py", tmp_path)
    assert "-> At berth 7." in done.stdout, done.stderr
