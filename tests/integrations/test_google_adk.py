"""ADK's memory service over a memory: users apart, events once, memories added, found and deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from reverie import Memory
from reverie.integrations.google_adk import ReverieMemoryService
from tests.integrations.test_examples import EXAMPLES, run

ADA: dict[str, Any] = {"app_name": "harbour", "user_id": "ada"}


def event(author: str, *parts: types.Part, **fields: Any) -> Event:
    return Event(author=author, content=types.Content(role="user", parts=[*parts]), **fields)


def text(said: str) -> types.Part:
    return types.Part(text=said)


def entry(said: str) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[text(said)]), author="ada", custom_metadata={"ttl": 3})


def found(service: ReverieMemoryService, query: str, **place: Any) -> list[tuple[str, str]]:
    answer = asyncio.run(service.search_memory(**ADA | place, query=query))
    return [(each.id or "", str((each.content.parts or [])[0].text)) for each in answer.memories]


def test_a_session_that_is_added_again_is_recorded_once(memory: Memory) -> None:
    service = ReverieMemoryService(memory)
    call = types.Part(function_call=types.FunctionCall(id="c1", name="look", args={"berth": 7}))
    result = types.Part(
        function_response=types.FunctionResponse(id="c1", name="look", response={"boat": "Nautilus"})
    )
    events = [
        event("user", text("Which boat lies at berth 7?")),
        event("harbour", text("The Nau"), partial=True),
        event("harbour", types.Part(text="I wonder", thought=True), call),
        event("harbour", result),
        event("harbour", text("The Nautilus.")),
    ]
    for known in (events[:1], events, events):
        asyncio.run(service.add_session_to_memory(Session(id="s1", events=known, **ADA)))
    turns = memory.scoped("app:harbour/user:ada").turns("adk:s1")
    assert [(turn.role, turn.origin, turn.content or turn.tool_calls[0].name) for turn in turns] == [
        ("user", "owner", "Which boat lies at berth 7?"),
        ("assistant", "agent", "look"),
        ("tool", "tool", '{"boat": "Nautilus"}'),
        ("assistant", "tool", "The Nautilus."),
    ]
    assert "(not confirmed) The Nautilus." in [said for _, said in found(service, "Nautilus")]


def test_memories_are_added_found_and_deleted_for_one_user(memory: Memory) -> None:
    service = ReverieMemoryService(memory)
    memories = [entry("Ada prefers berth 7"), MemoryEntry(content=types.Content(parts=[]))]
    asyncio.run(service.add_memory(**ADA, memories=memories, custom_metadata={"app": "x"}))
    ((name, said),) = found(service, "Which berth?")
    assert said == "Ada prefers berth 7"
    assert found(service, "Which berth?", user_id="bob") == []
    record = memory.scoped("app:harbour/user:ada").get(name)
    assert record is not None
    assert (record.origin, dict(record.metadata)) == ("agent", {"app": "x", "ttl": "3"})
    for wrong in (None, "unknown", "0123456789ab"):
        asyncio.run(service.delete_memory(**ADA, memory_id=wrong))
    asyncio.run(service.delete_memory(app_name="harbour", user_id="bob", memory_id=name))
    assert len(found(service, "Which berth?")) == 1
    for _ in range(2):
        asyncio.run(service.delete_memory(**ADA, memory_id=name))
    assert found(service, "Which berth?") == []


def test_names_of_any_form_make_a_scope(memory: Memory) -> None:
    service = ReverieMemoryService(memory)
    for user in ("a/b", "ada@example.org", "Ünïcode", "x" * 500, "a b"):
        asyncio.run(
            service.add_memory(app_name="h/1", user_id=user, memories=[entry("The Nautilus lies at berth 7")])
        )
        assert len(found(service, "Nautilus", app_name="h/1", user_id=user)) == 1


def test_the_example_runs(tmp_path: Path) -> None:
    done = run(EXAMPLES / "google_adk_agent.py", tmp_path)
    assert "-> At berth 7." in done.stdout, done.stderr
