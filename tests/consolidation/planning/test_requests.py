"""A pass asks and is answered, by a person, a test, a model or nobody."""

from __future__ import annotations

from collections.abc import Iterator

from reverie.consolidation.planning.flows import Flow, run_pass, run_together, verify_claims
from reverie.consolidation.planning.verification import Claim, ClaimCheck
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


def checks(*scopes: str) -> Flow[list[tuple[int, int]]]:
    verdicts = []
    for scope in scopes:
        claims = tuple(
            Claim(
                kind="fact",
                text=f"{name} of {scope or 'all'} has 7 boats",
                evidence=(f"- {name} has 7 boats",),
            )
            for name in ("Ann", "Bo")
        )
        found = yield from verify_claims(ClaimCheck(claims=claims, prompt="Claims:\n{{claims}}", scope=scope))
        verdicts.append((len(found.reasons), found.usage.requests))
    return verdicts


def test_the_claims_of_passes_that_run_together_are_one_request_for_each_scope() -> None:
    asked: list[ModelRequest] = []

    def answer(ask: ModelRequest) -> ModelReply:
        asked.append(ask)
        return ModelReply(text='{"claims": []}', usage=TokenUsage(requests=1))

    found = run_together([checks("alice", "bob"), checks("", "bob")], answer)
    assert found == [[(2, 1), (2, 1)], [(2, 1), (2, 0)]], "the cost counts once"
    texts = [ask.messages[0].content for ask in asked]
    assert [
        text.count(f"of {scope}") for text, scope in zip(texts, ("all", "alice", "bob"), strict=True)
    ] >= [2, 2, 4]
    assert "alice" not in texts[2]
    assert [ask.scope for ask in asked] == ["", "alice", "bob"]
