"""An agent of Pydantic AI remembers: tools, what is injected, what is recorded, and messages of before."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults

from reverie import Memory
from reverie.integrations.pydantic_ai import MemoryCapability, MemoryToolset, add_messages, load_history
from reverie.tools import Toolset

Step = Callable[[list[ModelMessage], AgentInfo], ModelResponse] | ModelResponse

ANSWERS = ("tool-return", "retry-prompt")
"""What a part may be that tells a model what became of its call; of a wrong one the release decides."""


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """The loop that `run_sync` takes, closed afterwards."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    asyncio.set_event_loop(None)


class Script:
    """A model that gives its answers in order, and keeps what it was told."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.told: list[tuple[list[ModelMessage], AgentInfo]] = []

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.told.append((list(messages), info))
        step = self.steps.pop(0)
        return step(messages, info) if callable(step) else step

    @property
    def instructions(self) -> str:
        """The instructions of the last request."""
        return self.told[-1][1].instructions or ""

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self.answer)


def says(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def calls(name: str, **arguments: Any) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(name, arguments)])


def last_part(messages: list[ModelMessage]) -> Any:
    return messages[-1].parts[-1]


def roles(memory: Memory, session: str) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in memory.turns(session)]


# -- the run ---------------------------------------------------------------------------------------------


def test_a_run_is_told_what_is_remembered_and_is_recorded(memory: Memory) -> None:
    memory.save("Alice is allergic to walnuts")
    script = Script(calls("save_memory", content="Alice likes plums"), says("No walnuts, but plums."))
    agent = Agent(
        script.model, instructions="Be brief.", capabilities=[MemoryCapability(memory, session="cli:1")]
    )
    result = agent.run_sync("What is Alice allergic to?")
    assert result.output == "No walnuts, but plums."
    for _, info in script.told:
        assert info.instructions is not None
        assert info.instructions.startswith("Be brief.")
        assert "Alice is allergic to walnuts" in info.instructions
    assert memory.search("plums")[0].content == "Alice likes plums"
    recorded = roles(memory, "cli:1")
    assert [role for role, _ in recorded] == ["user", "assistant", "tool", "assistant"]
    assert recorded[0][1] == "What is Alice allergic to?"
    assert recorded[2][1].startswith("Saved as")
    assert recorded[3][1] == "No walnuts, but plums."
    [call] = memory.turns("cli:1")[1].tool_calls
    assert (call.name, call.arguments) == ("save_memory", '{"content": "Alice likes plums"}')


def test_what_was_injected_is_neither_stored_nor_an_echo(memory: Memory) -> None:
    memory.save("Alice is allergic to walnuts")
    script = Script(says("To some nuts."), says("Yes."))
    agent = Agent(script.model, capabilities=[MemoryCapability(memory, session="cli:1")])
    first = agent.run_sync("What is Alice allergic to?")
    assert "walnuts" in script.instructions
    assert b"walnuts" not in first.all_messages_json()
    agent.run_sync("Is that sure?", message_history=first.all_messages())
    assert not [turn for turn in memory.turns("cli:1") if "walnuts" in str(turn.to_dict())]
    assert [hit.content for hit in memory.search("walnuts", sources="records")] == [
        "Alice is allergic to walnuts"
    ]


def test_the_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    with Memory.open(tmp_path) as memory:
        agent = Agent(
            Script(says("Hello Alice.")).model, capabilities=[MemoryCapability(memory, session="cli:1")]
        )
        first = agent.run_sync("I am Alice")
    with Memory.open(tmp_path) as memory:
        script = Script(says("Alice."))
        agent = Agent(script.model, capabilities=[MemoryCapability(memory, session="cli:1")])
        before = load_history(memory.session("cli:1"))
        assert [message.parts for message in before] == [message.parts for message in first.all_messages()]
        agent.run_sync("Who am I?", message_history=before)
        contents = [part.content for message in script.told[0][0] for part in message.parts]  # type: ignore[union-attr]
        assert contents == ["I am Alice", "Hello Alice.", "Who am I?"]
        assert len(memory.turns("cli:1")) == 4


def test_each_run_has_its_own_memory_and_session(memory: Memory) -> None:
    @dataclass
    class Deps:
        user: str

    agent = Agent(
        Script(says("ok"), says("ok")).model,
        deps_type=Deps,
        capabilities=[
            MemoryCapability(
                lambda ctx: memory.scoped(f"user:{ctx.deps.user}"),
                session=lambda ctx: f"chat:{ctx.deps.user}",
            )
        ],
    )
    for user in ("alice", "bob"):
        agent.run_sync(f"I am {user}", deps=Deps(user))
    for user in ("alice", "bob"):
        seen = memory.scoped(f"user:{user}").turns(f"chat:{user}")
        assert [turn.content for turn in seen] == [f"I am {user}", "ok"]
        assert {turn.scope for turn in seen} == {f"user:{user}"}


def test_streamed_runs_are_recorded(memory: Memory) -> None:
    memory.save("Alice is allergic to walnuts")
    told: list[str | None] = []

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        told.append(info.instructions)
        if len(told) == 1:
            yield {0: DeltaToolCall("search_memory", '{"query": "walnuts"}', tool_call_id="c1")}
        else:
            for word in ("To ", "walnuts."):
                yield word

    agent = Agent(FunctionModel(stream_function=stream), capabilities=[MemoryCapability(memory, session="s")])

    async def run() -> str:
        async with agent.run_stream("What is Alice allergic to?") as result:
            return "".join([piece async for piece in result.stream_text(delta=True)])

    assert asyncio.run(run()) == "To walnuts."
    assert all("walnuts" in (instructions or "") for instructions in told)
    assert [role for role, _ in roles(memory, "s")] == ["user", "assistant", "tool", "assistant"]
    assert roles(memory, "s")[-1] == ("assistant", "To walnuts.")


def test_a_structured_output_is_recorded_as_the_reply(memory: Memory) -> None:
    class Answer(BaseModel):
        colour: str

    agent = Agent(
        Script(calls("final_result", colour="red")).model,
        output_type=Answer,
        capabilities=[MemoryCapability(memory, session="s")],
    )
    first = agent.run_sync("Which colour?")
    assert first.output == Answer(colour="red")
    assert roles(memory, "s") == [("user", "Which colour?"), ("assistant", '{"colour": "red"}')]
    found = load_history(memory.session("s"))
    assert [message.parts for message in found][:2] == [m.parts for m in first.all_messages()][:2]


def test_a_run_that_fails_is_not_recorded(memory: Memory) -> None:
    def fails(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise RuntimeError("no model")

    agent = Agent(Script(fails).model, capabilities=[MemoryCapability(memory, session="s")])
    with pytest.raises(RuntimeError, match="no model"):
        agent.run_sync("hello")
    assert memory.turns("s") == []


def test_nothing_is_injected_or_recorded_where_it_is_not_wanted(memory: Memory) -> None:
    memory.save("Alice is allergic to walnuts")
    script = Script(says("ok"))
    remembering = MemoryCapability(memory, session="s", tools=Toolset(), inject=False, record=False)
    Agent(script.model, capabilities=[remembering]).run_sync("What is Alice allergic to?")
    assert script.told[0][1].function_tools == []
    assert not script.instructions
    assert memory.turns("s") == []


def test_pictures_and_files_are_named_in_the_turn_and_kept_whole(memory: Memory) -> None:
    prompt = [
        "What is on these?",
        ImageUrl("https://example.com/a.png"),
        BinaryContent(b"\x00\xff" * 10, media_type="image/png"),
    ]
    agent = Agent(Script(says("Nothing.")).model, capabilities=[MemoryCapability(memory, session="s")])
    result = agent.run_sync(prompt)
    assert roles(memory, "s")[0] == ("user", "What is on these?\n[image-url]\n[binary]")
    kept = ModelMessagesTypeAdapter.dump_python(load_history(memory.session("s")), mode="json")
    assert kept == ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json")


# -- memory fails ----------------------------------------------------------------------------------------


def test_a_memory_that_fails_breaks_no_reply(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    with Memory.open(":memory:") as gone:
        remembering = MemoryCapability(gone, session="s")
        tools = MemoryToolset(gone.tools())
    script = Script(calls("search_memory", query="x"), says("I do not know."))
    agent = Agent(script.model, capabilities=[remembering], toolsets=[tools])
    with caplog.at_level(logging.WARNING, logger="reverie"):
        assert agent.run_sync("What is Alice allergic to?").output == "I do not know."
    assert "cannot be reached now" in last_part(script.told[1][0]).content
    assert "reply goes on without" in caplog.text


def test_a_slow_memory_delays_no_reply(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = memory.session("s")
    whole = session.add_many
    replied = threading.Event()

    def slow(turns: Any) -> Any:
        assert replied.wait(30)
        return whole(turns)

    monkeypatch.setattr(session, "add_many", slow)
    remembering = MemoryCapability(memory, session="s", timeout_s=0.1)
    agent = Agent(Script(says("hello")).model, capabilities=[remembering])

    async def run() -> None:
        await agent.run("hi")
        replied.set()

    with caplog.at_level(logging.WARNING, logger="reverie"):
        asyncio.run(run())  # whose end waits for its threads
    assert "not written within 0.1 s" in caplog.text
    assert roles(memory, "s") == [("user", "hi"), ("assistant", "hello")]


# -- tools -----------------------------------------------------------------------------------------------


def test_a_model_corrects_a_wrong_call(memory: Memory) -> None:
    saved = memory.save("Alice lives in Kiel").record

    def corrects(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        part = last_part(messages)
        assert part.part_kind in ANSWERS
        assert "ffffffffffff" in str(part.content)
        return calls("delete_memory", id=saved.id)

    script = Script(calls("delete_memory", id="ffffffffffff"), corrects, says("Deleted."))
    agent = Agent(script.model, capabilities=[MemoryCapability(memory, session="s")])
    assert agent.run_sync("Forget where Alice lives").output == "Deleted."
    assert memory.search("Alice Kiel", sources="records") == []
    assert [role for role, _ in roles(memory, "s")] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip


def test_a_person_approves_what_is_destructive(memory: Memory) -> None:
    saved = memory.save("Alice lives in Kiel").record
    script = Script(calls("search_memory", query="Kiel"), calls("delete_memory", id=saved.id), says("Done."))

    def destroys(ctx: Any, tool: Any, arguments: Any) -> bool:
        return tool.metadata["destructive"] and arguments["id"] == saved.id

    agent: Agent[None, Any] = Agent(
        script.model,
        output_type=[str, DeferredToolRequests],
        capabilities=[MemoryCapability(memory, session="s", tools=Toolset())],
        toolsets=[MemoryToolset(memory.tools(session="s")).approval_required(destroys)],
    )
    asked = agent.run_sync("Forget where Alice lives")
    assert isinstance(asked.output, DeferredToolRequests)
    [call] = asked.output.approvals
    assert memory.get(saved.id) == saved
    answers = DeferredToolResults(approvals={call.tool_call_id: True})
    done = agent.run_sync(message_history=asked.all_messages(), deferred_tool_results=answers)
    assert done.output == "Done."
    assert memory.search("Alice Kiel", sources="records") == []
    assert [role for role, _ in roles(memory, "s")] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip


# -- messages --------------------------------------------------------------------------------------------

WHEN = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
MESSAGES: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart("Which ports?", timestamp=WHEN)], run_id="r1"),
    ModelResponse(
        parts=[
            ThinkingPart("I should look.", signature="sig", provider_name="x"),
            TextPart("Let me look."),
            ToolCallPart("look", {"at": "a"}, tool_call_id="1"),
            ToolCallPart("look", '{"at": "b"}', tool_call_id="2"),
        ],
        model_name="m",
        timestamp=WHEN,
        provider_details={"finish": "tool"},
    ),
    ModelRequest(
        parts=[
            ToolReturnPart("look", {"port": 1}, tool_call_id="1", metadata={"n": 1}, timestamp=WHEN),
            ToolReturnPart("look", "no such b", tool_call_id="2", timestamp=WHEN),
            UserPromptPart(["and", "quickly"], timestamp=WHEN),
        ]
    ),
    ModelResponse(parts=[TextPart("Port 1.")], model_name="m", timestamp=WHEN),
]


def test_messages_come_back_as_they_were(memory: Memory) -> None:
    session = memory.session("s")
    turns = add_messages(session, MESSAGES)
    assert [turn.role for turn in turns] == [
        "user", "assistant", "assistant", "assistant", "tool", "tool", "user", "assistant",
    ]  # fmt: skip
    assert load_history(session, everything=True) == MESSAGES
    assert load_history(session) == MESSAGES
    assert memory.search("which ports", sources="turns")[0].turn is not None


def test_instructions_are_not_kept(memory: Memory) -> None:
    session = memory.session("s")
    add_messages(session, [ModelRequest(parts=[UserPromptPart("hi")], instructions="secret rules")])
    assert load_history(session)[0].instructions is None  # type: ignore[union-attr]
    assert "secret rules" not in str([turn.to_dict() for turn in session.turns()])


def test_a_limited_history_begins_with_a_user_and_tears_no_call(memory: Memory) -> None:
    session = memory.session("s")
    for _ in range(5):
        add_messages(session, MESSAGES)
    for limit in range(1, 20):
        found = load_history(session, limit=limit)
        assert any(isinstance(part, UserPromptPart) for part in found[0].parts)
        called = [p.tool_call_id for m in found for p in m.parts if isinstance(p, ToolCallPart)]
        answered = [p.tool_call_id for m in found for p in m.parts if p.part_kind in ANSWERS]
        assert called == answered
    assert load_history(session, everything=True) == MESSAGES * 5


def test_turns_that_came_another_way_are_messages_too(memory: Memory) -> None:
    session = memory.session("s")
    session.add("user", "Is it open?")
    session.add("assistant", "", tool_calls=[{"id": "1", "name": "look", "arguments": '{"at": "door"}'}])
    session.add("tool", "open", tool_call_id="1")
    session.add("assistant", "It is.")
    add_messages(session, [ModelRequest(parts=[UserPromptPart("Thanks")])])
    kinds = [[part.part_kind for part in message.parts] for message in load_history(session)]
    assert kinds == [["user-prompt"], ["tool-call"], ["tool-return"], ["text"], ["user-prompt"]]
    script = Script(says("You are welcome."))
    agent = Agent(script.model)
    assert agent.run_sync("!", message_history=load_history(session)).output == "You are welcome."


def test_after_new_there_is_no_history(memory: Memory) -> None:
    session = memory.session("s")
    add_messages(session, MESSAGES)
    session.reset()
    assert load_history(session) == load_history(session, everything=True) == []
    assert len(memory.turns("s")) == 8
