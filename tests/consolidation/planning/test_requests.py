"""A pass asks and is answered, by a person, a test, a model or nobody."""

from __future__ import annotations

from collections.abc import Iterator

from reverie.consolidation.planning.requests import Flow, run_pass, run_together
from reverie.llm.protocol import ChatMessage, ModelReply, ModelRequest, TokenUsage
from tests.consolidation.without_model import answer_without_model


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


def checks(key: str, *groups: str) -> Flow[list[str]]:
    replies = []
    for group in groups:
        schema = {"type": "object", "properties": {key: {"type": "array"}}, "required": [key]}
        ask = ModelRequest(
            messages=(ChatMessage(role="user", content=f"{key} of {group}"),),
            purpose="verify",
            group=group,
            schema=schema,
            max_tokens=10,
        )
        reply = yield ask
        replies.append(f"{reply.text} {reply.usage.requests}" if isinstance(reply, ModelReply) else "")
    return replies


def test_passes_that_run_together_ask_the_requests_of_one_group_as_one() -> None:
    asked: list[ModelRequest] = []

    def answer(ask: ModelRequest) -> ModelReply:
        asked.append(ask)
        return ModelReply(text=f"r{len(asked)}", usage=TokenUsage(requests=1))

    found = run_together([checks("headlines", "alice", "bob"), checks("claims", "", "bob")], answer)
    assert found == [["r2 1", "r3 1"], ["r1 1", "r3 0"]]
    assert [ask.messages[0].content.count(" of ") for ask in asked[:2]] == [1, 1]
    both = asked[2]
    assert "headlines of bob" in both.messages[0].content
    assert "claims of bob" in both.messages[0].content
    assert "alice" not in both.messages[0].content
    assert list(both.schema["properties"]) == ["headlines", "claims"]
    assert both.max_tokens == 20
