"""One turn of an agent: what is remembered goes in, what is said is kept, and no reply is ever held up."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory, ModelUnavailable, StoreUnavailable
from reverie.agent import MOST_ROUNDS, STOPPED, Agent
from reverie.context.pack import NOTHING_KNOWN
from reverie.domain.conversation import ToolCall
from reverie.llm.protocol import ModelReply, ModelRequest, OnText, TokenUsage, ToolSpec
from reverie.tools import Tool, ToolResult, Toolset, memory_tools

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Scripted:
    """A model that answers by a script and notes what it was asked."""

    replies: list[ModelReply | Exception | Callable[[ModelRequest], ModelReply]]
    asked: list[ModelRequest] = field(default_factory=list)
    name: str = "scripted:1"

    def answer(self, ask: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
        self.asked.append(ask)
        step = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(step, Exception):
            raise step
        reply = step(ask) if callable(step) else step
        if on_text is not None:
            for word in reply.text.split(" "):
                on_text(word + " ")
        return reply


def says(text: str, *calls: tuple[str, dict[str, Any]]) -> ModelReply:
    made = tuple(
        ToolCall(id=f"c{n}", name=name, arguments=json.dumps(given)) for n, (name, given) in enumerate(calls)
    )
    return ModelReply(
        text=text, tool_calls=made, usage=TokenUsage(requests=1, input_tokens=10, output_tokens=2)
    )


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", clock=lambda: NOW) as opened:
        yield opened


def agent(
    memory: Memory, *replies: ModelReply | Exception | Callable[[ModelRequest], ModelReply], **more: Any
) -> tuple[Agent, Scripted]:
    model = Scripted(list(replies))
    tools = memory_tools(memory, clock=lambda: NOW, source="session:chat:1")
    return Agent(memory.session("chat:1"), model=model, tools=tools, **more), model


def test_what_is_remembered_is_put_before_the_model_and_both_sides_are_kept(memory: Memory) -> None:
    memory.save("The staging database listens on port 5433")
    one, model = agent(memory, says("It is 5433."), instructions="Be brief.")
    answer = one.turn("Which port has the staging database?")
    (ask,) = model.asked
    assert ask.messages[0].role == "system"
    assert ask.messages[0].content.startswith("Be brief.")
    assert "port 5433" in ask.messages[0].content
    assert [message.content for message in ask.messages[1:]] == ["Which port has the staging database?"]
    assert (answer.text, answer.rounds, answer.problem, answer.unsaved) == ("It is 5433.", 1, "", False)
    assert [turn.content for turn in memory.turns("chat:1")] == [
        "Which port has the staging database?",
        "It is 5433.",
    ]


def test_a_turn_does_not_see_itself_and_the_next_one_sees_it_replayed(memory: Memory) -> None:
    one, model = agent(memory, says("Noted."))
    one.turn("My cat is called Miso")
    one.turn("And my dog is Udon")
    roles = [(message.role, message.content) for message in model.asked[1].messages]
    assert roles == [
        ("system", NOTHING_KNOWN),
        ("user", "My cat is called Miso"),
        ("assistant", "Noted."),
        ("user", "And my dog is Udon"),
    ]
    assert [message.content for message in model.asked[0].messages] == ["My cat is called Miso"]


def test_tools_are_called_until_there_is_an_answer_and_kept_with_their_results(memory: Memory) -> None:
    one, model = agent(
        memory,
        says("", ("save_memory", {"content": "Ada prefers tea", "category": "user-preferences/drinks"})),
        says("", ("search_memory", {"query": "tea"})),
        says("Tea it is."),
    )
    answer = one.turn("I, Ada, prefer tea, as you know")
    assert (answer.text, answer.rounds) == ("Tea it is.", 3)
    assert [call.name for call in answer.calls] == ["save_memory", "search_memory"]
    assert answer.usage == TokenUsage(requests=3, input_tokens=30, output_tokens=6)
    (record,) = memory.list()
    assert (record.content, record.category, record.origin, record.source) == (
        "Ada prefers tea", "user-preferences/drinks", "agent", "session:chat:1",
    )  # fmt: skip
    assert [turn.role for turn in memory.turns("chat:1")] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    told = model.asked[2].messages[-1]
    assert told.role == "tool"
    assert (
        told.content == f"Found 1 memory:\n- [{record.id}] (user-preferences/drinks): Ada prefers tea (today)"
    )


def test_the_tool_loop_is_bounded(memory: Memory) -> None:
    one, model = agent(
        memory,
        lambda ask: says("" if ask.tools else "Enough.", *([("search_memory", {})] if ask.tools else [])),
    )
    answer = one.turn("Search for ever")
    assert (answer.text, answer.rounds) == ("Enough.", MOST_ROUNDS)
    assert [bool(ask.tools) for ask in model.asked] == [True] * (MOST_ROUNDS - 1) + [False]


def test_a_model_that_fails_is_said_and_the_question_is_kept(memory: Memory) -> None:
    one, _ = agent(memory, ModelUnavailable("too slow"), says("Here."))
    answer = one.turn("Hello?")
    assert (answer.text, answer.problem) == ("", "too slow")
    assert [turn.content for turn in memory.turns("chat:1")] == ["Hello?"]
    assert one.turn("Hello??").text == "Here."


def test_an_empty_answer_is_a_problem_and_not_a_turn(memory: Memory) -> None:
    one, _ = agent(memory, says(""))
    assert one.turn("Hello?").problem == "the model gave an empty answer"
    assert len(memory.turns("chat:1")) == 1


@pytest.mark.slow
def test_a_message_that_alone_would_fill_a_prompt_is_shown_by_its_ends(memory: Memory) -> None:
    long = f"begin {'x' * 5_000_000} end"
    one, _ = agent(memory, says(long), says("Fine."))
    assert one.turn("Hello?").text == long
    sent = one.prompt("And now?")
    assert sum(len(each.content) for each in sent) < 50_000
    assert any("characters are left out here" in each.content for each in sent)
    mine = "y" * 100_000
    assert [each.content for each in one.prompt(mine)].count(mine) == 1, "what is said now stays whole"


def test_without_a_model_it_says_what_would_have_been_sent(memory: Memory) -> None:
    memory.save("Ada prefers tea")
    one = Agent(memory.session("chat:1"), model=None)
    answer = one.turn("What does Ada prefer?")
    assert answer.problem == "no model is set"
    assert answer.pack is not None
    assert "Ada prefers tea" in answer.pack.text
    prompt = one.prompt("And what else does Ada prefer?")
    assert prompt[-1].content == "And what else does Ada prefer?"
    assert len(memory.turns("chat:1")) == 1, "a preview stores nothing"


@pytest.mark.parametrize("broken", ["add_many", "context"])
def test_nothing_that_happens_to_memory_breaks_a_reply(
    memory: Memory, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, model = agent(memory, says("", ("search_memory", {"query": "tea"})), says("Still here."))

    def fails(*args: Any, **given: Any) -> Any:
        raise StoreUnavailable("disk full")

    monkeypatch.setattr(one.session, broken, fails)
    answer = one.turn("Hello?")
    assert answer.text == "Still here."
    assert answer.unsaved is (broken != "context")
    assert "disk full" in caplog.text
    assert model.asked[0].messages[-1].content == "Hello?"


def test_stop_ends_the_turn(memory: Memory) -> None:
    one, model = agent(memory, says(""))

    def slow_tool(given: Any) -> ToolResult:
        one.stop()
        return ToolResult("done")

    spec = ToolSpec(name="slow", description="", parameters={"type": "object", "properties": {}})
    one.tools = Toolset([Tool(spec=spec, run=slow_tool)])
    model.replies = [says("", ("slow", {}), ("slow", {})), says("", ("slow", {}))]
    answer = one.turn("Work")
    assert (answer.text, answer.rounds) == (STOPPED, 2)
    assert [turn.content for turn in memory.turns("chat:1") if turn.role == "tool"] == ["done", STOPPED]
    model.replies = [says("Fresh.")]
    assert one.turn("Again").text == "Fresh."


def test_an_answer_has_the_id_of_its_turn(memory: Memory) -> None:
    one, _ = agent(memory, says("", ("search_memory", {"query": "tea"})), says("Tea."), says(""))
    answer = one.turn("Tea or coffee?")
    assert answer.turn_id == memory.turns("chat:1")[-1].id
    one.session.feedback(answer.turn_id, "down", note="coffee")
    assert memory.turns("chat:1")[-1].metadata["signal"] == "thumbs_down"
    assert one.turn("And now?").turn_id == ""


def test_a_stopped_answer_passes_nothing_more_on_and_keeps_what_was_shown(memory: Memory) -> None:
    one, _ = agent(memory, says("one two three"), says("Fresh."))
    heard: list[str] = []

    def stop_at_two(piece: str) -> None:
        heard.append(piece)
        if piece == "two ":
            one.stop()

    answer = one.turn("Count", on_text=stop_at_two)
    assert heard == ["one ", "two "]
    assert (answer.text, answer.problem) == (f"one two {STOPPED}", "")
    assert memory.turns("chat:1")[-1].content == f"one two {STOPPED}"
    assert one.turn("Again", on_text=heard.append).text == "Fresh."


@pytest.mark.parametrize("ended", [KeyboardInterrupt, ModelUnavailable])
def test_a_connection_that_was_given_up_says_nothing_later(
    memory: Memory, ended: type[BaseException]
) -> None:
    released, threads, heard = threading.Event(), list[threading.Thread](), list[str]()

    class Abandoned(Scripted):
        def answer(self, ask: ModelRequest, *, on_text: OnText | None = None) -> ModelReply:
            assert on_text is not None
            on_text("begun ")

            def go_on() -> None:
                released.wait()
                with contextlib.suppress(Exception):
                    on_text("late")

            threads.append(threading.Thread(target=go_on))
            threads[0].start()
            raise ended("given up")

    one = Agent(memory.session("chat:1"), model=Abandoned([]))
    with contextlib.suppress(KeyboardInterrupt):
        one.turn("Count", on_text=heard.append)
    released.set()
    threads[0].join()
    assert heard == ["begun "]
    stored = [turn.content for turn in memory.turns("chat:1")]
    assert stored == ["Count", f"begun {STOPPED}"] if ended is KeyboardInterrupt else stored == ["Count"]


def test_long_answers_of_tools_are_set_aside_and_read_from_there(memory: Memory) -> None:
    page = "\n\n".join(f"# Part {n}\n\n{'word ' * 3000}" for n in range(3))
    spec = ToolSpec(name="fetch", description="", parameters={"type": "object", "properties": {}})
    session = memory.session("chat:1")

    def read_first(ask: ModelRequest) -> ModelReply:
        shown = ask.messages[-1].content
        assert shown.startswith("The answer of fetch has 45,0")
        assert "get_from_working_memory" in [spec.name for spec in ask.tools]
        return says("", ("get_from_working_memory", {"key": session.working.list()[0].key}))

    model = Scripted([says("", ("fetch", {})), read_first, says("Read.")])
    tools = Toolset([Tool(spec=spec, run=lambda given: ToolResult(page))])
    assert Agent(session, model=model, tools=tools).turn("Fetch it").text == "Read."
    assert "# Part 0" in model.asked[2].messages[-1].content
    assert len(session.working.list()) == 3
