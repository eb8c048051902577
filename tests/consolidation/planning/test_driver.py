"""A pass asks and is answered, by a person, a test, a model or nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from reverie.consolidation.planning.driver import Flow, no_model, run, run_async
from reverie.llm.messages import Ask, Message, NoReply, Reply, Usage


def question(text: str) -> Ask:
    return Ask(messages=(Message(role="user", content=text),), purpose="test")


def two_questions() -> Flow[list[str]]:
    heard = []
    for text in ("first?", "second?"):
        reply = yield question(text)
        heard.append(reply.text if isinstance(reply, Reply) else f"({reply.why})")
    return heard


def answers(*texts: str) -> Iterator[Reply]:
    return (Reply(text=text, usage=Usage(requests=1, input_tokens=10)) for text in texts)


def test_a_pass_is_resumed_with_the_answers() -> None:
    given = answers("one", "two")
    assert run(two_questions(), lambda ask: next(given)) == ["one", "two"]


def test_a_pass_runs_without_a_model() -> None:
    assert run(two_questions(), no_model) == ["(no model)", "(no model)"]


def test_an_empty_answer_is_asked_for_once_more_and_both_are_counted() -> None:
    costs: list[Usage] = []

    def flow() -> Flow[None]:
        reply = yield question("hm?")
        costs.append(reply.usage)

    given = answers("  \n", "two")
    run(flow(), lambda ask: next(given))
    assert costs == [Usage(requests=2, input_tokens=20)]

    given = answers("", "", "never")
    assert run(two_questions(), lambda ask: next(given, Reply(text="after"))) == ["", "never"]


def test_a_pass_runs_the_same_on_an_event_loop() -> None:
    given = answers("", "one", "two")

    async def answer(ask: Ask) -> Reply | NoReply:
        return next(given)

    assert asyncio.run(run_async(two_questions(), answer)) == ["one", "two"]
