"""The Agents SDK over a memory: a session like its own, what is remembered before its model, and tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    RunResult,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.memory.session_settings import SessionSettings
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI

from reverie import Memory
from reverie.aio import AsyncMemory
from reverie.integrations.openai_agents import ReverieSession, tools_for
from tests.llm.server import Script, says, serving
from tests.profiles import examples

T = TypeVar("T")

set_tracing_disabled(True)

ITEMS: list[Any] = json.loads(Path(__file__).with_name("openai_items.json").read_text())
"""Items of all kinds, some of which no model writes."""


def run(awaitable: Awaitable[T]) -> T:
    async def wait() -> T:
        return await awaitable

    return asyncio.run(wait())


# -- items -----------------------------------------------------------------------------------------------


def test_an_item_that_is_no_json_adds_nothing(memory: Memory) -> None:
    session = ReverieSession("cli:1", memory)
    with pytest.raises(TypeError):
        run(session.add_items([{"role": "user", "content": "fine"}, {"role": "user", "content": object()}]))
    assert run(session.get_items()) == []


def test_what_is_said_is_a_turn_that_is_found_and_learned_from(memory: Memory) -> None:
    session = ReverieSession("cli:1", memory)
    run(session.add_items([{"role": "user", "content": "I prefer reports as PDF files."}]))
    run(session.add_items([ITEMS[5], ITEMS[6], ITEMS[7], ITEMS[5], ITEMS[4]]))
    assert memory.search("reports", sources="turns")[0].content == "I prefer reports as PDF files."
    turns = memory.turns("cli:1")
    assert [turn.role for turn in turns] == ["user", "assistant", "tool", "assistant"]
    assert turns[1].tool_calls[0].name == "weather"
    assert turns[2].tool_call_id == "call_1"
    assert [turn.content for turn in turns[2:]] == ["It snows.", "Noted: black."]
    assert [each.kind for each in memory.list() if "PDF" in each.content and each.kind != "event"] == [
        "preference"
    ]


def test_a_conversation_begun_elsewhere_goes_on(memory: Memory) -> None:
    talk = memory.session("cli:1")
    talk.add("user", "Read the file.")
    talk.add(
        "assistant",
        "I look.",
        tool_calls=[{"id": "c1", "name": "read", "arguments": "{}"}, {"id": "c2", "name": "read"}],
    )
    talk.add("tool", "Empty.", tool_call_id="c1")
    session = ReverieSession("cli:1", memory)
    call = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    assert run(session.get_items()) == [
        {"role": "user", "content": "Read the file."},
        {"role": "assistant", "content": "I look."},
        call,
        {**call, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "Empty."},
    ]
    for _ in range(2):
        run(session.pop_item())
    assert run(session.get_items(2)) == [{"role": "assistant", "content": "I look."}, call]
    run(session.add_items([{"role": "user", "content": "And now?"}]))
    assert [turn.content for turn in talk.turns()] == ["Read the file.", "I look.", "And now?"]


def test_clear_begins_anew_and_loses_nothing(memory: Memory) -> None:
    session = ReverieSession("cli:1", memory)
    run(session.add_items([{"role": "user", "content": "The blue notebook is in the attic."}]))
    run(session.clear_session())
    assert run(session.get_items()) == []
    assert run(session.pop_item()) is None
    assert memory.search("notebook", sources="turns")[0].content == "The blue notebook is in the attic."
    run(session.add_items([{"role": "user", "content": "Hello again."}]))
    memory.session("cli:1").reset()
    assert run(session.get_items()) == []
    assert len(memory.turns("cli:1")) == 2


def test_a_window_that_is_shortened_keeps_its_items(memory: Memory) -> None:
    session = ReverieSession("cli:1", memory)
    items = [{"role": "user" if n % 2 else "assistant", "content": f"This is number {n}."} for n in range(60)]
    run(session.add_items(items))
    memory.dreams.run_window("cli:1", "compact", keep=10)
    assert len(memory.session("cli:1").turns()) < 20
    assert run(session.get_items()) == items


def test_what_was_popped_is_gone_and_can_be_brought_back(memory: Memory) -> None:
    session = ReverieSession("cli:1", memory)
    run(session.add_items([{"role": "user", "content": "The blue notebook is in the attic."}]))
    run(session.add_items([{"role": "assistant", "content": "I see."}]))
    assert run(session.pop_item()) == {"role": "assistant", "content": "I see."}
    run(session.pop_item())
    assert memory.search("notebook", sources="turns") == []
    assert memory.turns("cli:1") == []
    removed = [row for row in memory.history.log() if row.operation == "delete" and row.subject == "turn"]
    memory.history.undo(batch=removed[-1].batch)
    assert run(session.get_items()) == [{"role": "user", "content": "The blue notebook is in the attic."}]
    assert memory.pages.names() == []


@pytest.mark.slow
def test_a_secret_within_json_within_an_item_is_in_none(tmp_path: Path) -> None:
    secrets = ("Tr0ub4dor&3x9", 'kT9x"2vQ7zLpQ', "zz 91 Qq!7x")
    arguments = {"password": secrets[1], "env": [{"name": "DB_PASSWORD", "value": secrets[2]}]}
    filler = {"type": "input_text", "text": "x" * 999_900}
    with Memory.open(tmp_path / "memory") as memory:
        session = ReverieSession("cli:1", memory)
        call = {"type": "function_call", "call_id": "a", "name": "login", "arguments": json.dumps(arguments)}
        output = json.dumps({"password": secrets[1]})
        answer = {"type": "function_call_output", "call_id": "a", "output": output}
        told = {"type": "input_text", "text": f"Password:\n{secrets[0]}\n"}
        run(session.add_items([{"role": "user", "content": [filler, told]}, call, answer]))
        kinds = ["user", "function_call", "function_call_output"]
        assert [item.get("type", item.get("role")) for item in run(session.get_items())] == kinds
    for file in tmp_path.rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        assert not any(part in data for part in (b"Tr0ub4", b"dor&3x9", b"2vQ7zLpQ", b"91 Qq!7x")), file


def test_what_is_forgotten_is_in_no_item(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory") as memory:
        session = ReverieSession("cli:1", memory)
        text = 'So "Fräulein Lüdenscheidt" lives in Oberammergau'
        run(session.add_items([{"role": "user", "content": "Fräulein Lüdenscheidt lives in Oberammergau"}]))
        parts = [{"type": "output_text", "text": text}]
        run(session.add_items([{"type": "message", "role": "assistant", "content": parts}]))
        memory.admin.forget(match="Lüdenscheidt", turns=True)
        assert "denscheidt" not in json.dumps(run(session.get_items()))
        assert len(run(session.get_items())) == 2
    assert all(b"denscheidt" not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


# -- beside the SDK's own session ------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("add_items"), st.lists(st.sampled_from(ITEMS), max_size=6)),
    st.tuples(st.just("get_items"), st.one_of(st.none(), st.integers(-2, 12))),
    st.tuples(st.just("pop_item")),
    st.tuples(st.just("clear_session")),
)


@settings(max_examples=examples(40))
@given(steps=st.lists(STEPS, max_size=20), limit=st.one_of(st.none(), st.integers(0, 6)))
def test_random_operations_give_what_the_sdks_own_session_gives(
    steps: list[tuple[Any, ...]], limit: int | None
) -> None:
    async def compare() -> None:
        with Memory.open(":memory:") as memory:
            ours = ReverieSession("cli:1", memory, session_settings=SessionSettings(limit=limit))
            theirs = SQLiteSession("cli:1", session_settings=SessionSettings(limit=limit))
            for name, *given in (*steps, ("get_items", None), ("get_items", -1)):
                got = await getattr(ours, name)(*given)
                expected = await getattr(theirs, name)(*given)
                assert json.dumps(got) == json.dumps(expected), (name, given)
            theirs.close()
            assert memory.admin.check() == []

    asyncio.run(compare())


# -- a whole run -----------------------------------------------------------------------------------------


def model(script: Script) -> OpenAIChatCompletionsModel:
    client = AsyncOpenAI(base_url=f"{script.url}/v1", api_key="none", max_retries=0)
    return OpenAIChatCompletionsModel(model="scripted", openai_client=client)


def answered(agent: Agent[Any], message: str, **given: Any) -> RunResult:
    """The run of an agent, with its client closed afterwards."""

    async def go() -> RunResult:
        try:
            return await Runner.run(agent, message, **given)
        finally:
            assert isinstance(agent.model, OpenAIChatCompletionsModel)
            await agent.model._client.close()

    return asyncio.run(go())


def told(request: dict[str, Any]) -> str:
    """What the model is told before the conversation."""
    return "\n".join(
        str(message["content"]) for message in request["messages"] if message["role"] == "system"
    )


def test_a_run_remembers_what_an_earlier_conversation_said(memory: Memory) -> None:
    memory.save("Ada's boat is called Nautilus", category="people/ada")

    @function_tool
    def berth(boat: str) -> str:
        """Where a boat lies."""
        return f"{boat} lies at berth 7"

    call = ("call_1", "berth", '{"boat": "Nautilus"}')
    with serving(says("", calls=(call,)), says("At berth 7."), says("You are welcome.")) as script:

        def agent() -> Agent[Any]:
            return Agent(name="harbour", instructions="Be brief.", model=model(script), tools=[berth])

        session = ReverieSession("cli:1", memory, hard_tokens=900)
        config = RunConfig(call_model_input_filter=session.remember)
        first = answered(agent(), "Where does Ada's boat lie?", session=session, run_config=config)
        assert first.final_output == "At berth 7."
        second = answered(agent(), "Thanks!", session=session, run_config=config)
        assert second.final_output == "You are welcome."
    for request in script.asked[:2]:
        assert told(request).startswith("Be brief.\n\n")
        assert "Nautilus" in told(request)
        assert len(told(request)) < 4 * 900
    assert [message["role"] for message in script.asked[2]["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    stored = json.dumps(run(session.get_items()))
    assert "people/ada" not in stored
    assert len(run(session.get_items())) == 6
    assert [turn.role for turn in memory.turns("cli:1")] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert [each.content for each in memory.list(kind=["fact"])] == ["Ada's boat is called Nautilus"]


def test_a_streamed_run_is_stored_the_same(memory: Memory) -> None:
    async def stream(script: Script) -> None:
        agent = Agent(name="harbour", model=model(script))
        session = ReverieSession("cli:1", memory)
        config = RunConfig(call_model_input_filter=session.remember)
        result = Runner.run_streamed(agent, "Hello", session=session, run_config=config)
        async for _ in result.stream_events():
            pass
        await agent.model._client.close()  # type: ignore

    with serving(says("Good morning")) as script:
        asyncio.run(stream(script))
    assert [turn.content.strip() for turn in memory.turns("cli:1")] == ["Hello", "Good morning"]


def test_tools_of_a_memory_are_tools_of_the_sdk(memory: Memory) -> None:
    call = ("call_1", "save_memory", '{"content": "Ada sails on Sundays", "category": "people/ada"}')
    wrong = ("call_2", "save_memory", '{"contents": "x"}')
    with serving(says("", calls=(wrong,)), says("", calls=(call,)), says("Done.")) as script:
        tools = tools_for(memory.tools(groups=["long_term"]))
        agent = Agent(name="harbour", model=model(script), tools=[*tools])
        assert answered(agent, "Remember that Ada sails on Sundays").final_output == "Done."
    assert memory.search("sails")[0].content == "Ada sails on Sundays"
    shown = {tool["function"]["name"]: tool["function"] for tool in script.asked[0]["tools"]}
    assert set(shown) == set(memory.tools(groups=["long_term"]).names)
    assert shown["save_memory"]["parameters"]["required"] == ["content"]
    answers = [message["content"] for message in script.asked[2]["messages"] if message["role"] == "tool"]
    assert "contents" in answers[0]
    assert "Nothing was done" in answers[0] or "no argument" in answers[0]


def test_scopes_and_asynchronous_memories_have_sessions(tmp_path: Path) -> None:
    async def talk() -> tuple[list[Any], list[Any]]:
        async with AsyncMemory.open(tmp_path / "memory") as memory:
            alice = ReverieSession("cli:1", memory.scoped("user:alice"))
            bob = ReverieSession("cli:1", memory.scoped("user:bob"))
            await alice.add_items([{"role": "user", "content": "I am Alice."}])
            return await alice.get_items(), await bob.get_items()

    assert asyncio.run(talk()) == ([{"role": "user", "content": "I am Alice."}], [])
