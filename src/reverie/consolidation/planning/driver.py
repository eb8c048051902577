"""Run a pass, handing its requests to a model.

A pass is a generator over values, so it can be run, tested and replayed without any input or output.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from reverie.llm.messages import ChatMessage, ModelFailure, ModelReply, ModelRequest, TokenUsage

T = TypeVar("T")

Flow = Generator[ModelRequest, ModelReply | ModelFailure, T]
"""A pass that is running: what it asks, what it is resumed with, and what it ends in."""

Ask = Callable[[ModelRequest], ModelReply | ModelFailure]
"""What asks a model. It returns a `ModelFailure` where there is no answer, and never raises for it."""

NO_MODEL = ModelFailure(why="no model")

_TOGETHER = (
    "This message has several tasks. Do each by itself, and answer with one JSON object that has the keys of all "
    "their answers."
)


def run_pass(flow: Flow[T], answer: Ask) -> T:
    """Run a pass to its end, and repeat a request once where the reply is empty."""
    return run_together([flow], answer)[0]


def run_together(flows: Sequence[Flow[T]], answer: Ask) -> list[T]:
    """Run passes to their ends, and ask the requests of one group as one.

    Args:
        flows: The passes. None of them may need what another one does. Each has its groups in ascending order.
    """
    results: dict[int, T] = {}
    waiting: dict[int, ModelRequest] = {}

    def resume(at: int, reply: ModelReply | ModelFailure | None) -> None:
        """Run a pass until it waits at a request of a group, or ends."""
        waiting.pop(at, None)
        try:
            request = next(flows[at]) if reply is None else flows[at].send(reply)
            while not request.group:
                request = flows[at].send(_ask(request, answer))
            waiting[at] = request
        except StopIteration as end:
            results[at] = end.value

    for at in range(len(flows)):
        resume(at, None)
    while waiting:
        group = min(request.group for request in waiting.values())
        asked = {at: waiting[at] for at in sorted(waiting) if waiting[at].group == group}
        reply = _ask(_combine_requests(list(asked.values())), answer)
        for at in asked:
            resume(at, reply)
            reply = replace(reply, usage=TokenUsage())  # its cost counts once
    return [results[at] for at in range(len(flows))]


def _ask(request: ModelRequest, answer: Ask) -> ModelReply | ModelFailure:
    """Ask, and once more where the reply is empty; return the last reply with the cost of both."""
    reply = answer(request)
    if isinstance(reply, ModelReply) and not reply.text.strip() and not reply.tool_calls:
        again = answer(request)
        return replace(again, usage=reply.usage + again.usage)
    return reply


def _combine_requests(requests: Sequence[ModelRequest]) -> ModelRequest:
    """Return one request for the answers of several, whose schemas share no key."""
    if len(requests) == 1:
        return requests[0]
    properties: dict[str, Any] = {}
    for request in requests:
        schema: Mapping[str, Any] = request.schema or {}
        properties |= schema["properties"]
    text = "\n\n---\n\n".join((_TOGETHER, *(request.messages[0].content for request in requests)))
    return replace(
        requests[0],
        messages=(ChatMessage(role="user", content=text),),
        schema={"type": "object", "properties": properties, "required": list(properties)},
        max_tokens=sum(request.max_tokens for request in requests),
        timeout_s=max(request.timeout_s for request in requests),
    )
