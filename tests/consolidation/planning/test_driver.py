"""A pass asks and is answered, by a person, a test, a model or nobody."""

from __future__ import annotations

from collections.abc import Iterator

from reverie.consolidation.planning.driver import Flow, answer_without_model, run_pass
from reverie.llm.messages import ChatMessage, ModelReply, ModelRequest, TokenUsage


def question(text: str) -> ModelRequest:
    return ModelRequest(messages=(ChatMessage(role="user", content=text),), purpose="test")


def two_questions() -> Flow[list[str]]:
    heard = []
    for text in ("first?", "second?"):
        reply = yield question(text)
        heard.append(reply.text if isinstance(reply, ModelReply) else f"({reply.why})")
    return heard


def answers(*texts: str) -> Iterator[ModelReply]:
    return (ModelReply(text=text, usage=TokenUsage(requests=1, input_tokens=10)) for text in texts)


def test_a_pass_is_resumed_with_the_answers() -> None:
    given = answers("one", "two")
    assert run_pass(two_questions(), lambda ask: next(given)) == ["one", "two"]


def test_a_pass_runs_without_a_model() -> None:
    assert run_pass(two_questions(), answer_without_model) == ["(no model)", "(no model)"]


def test_an_empty_answer_is_asked_for_once_more_and_both_are_counted() -> None:
    costs: list[TokenUsage] = []

    def flow() -> Flow[None]:
        reply = yield question("hm?")
        costs.append(reply.usage)

    given = answers("  \n", "two")
    run_pass(flow(), lambda ask: next(given))
    assert costs == [TokenUsage(requests=2, input_tokens=20)]

    given = answers("", "", "never")
    assert run_pass(two_questions(), lambda ask: next(given, ModelReply(text="after"))) == ["", "never"]
