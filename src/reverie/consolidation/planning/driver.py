"""Run a pass, handing its requests to a model.

A pass is a generator over values, so it can be run, tested and replayed without any input or output.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TypeVar

from reverie.llm.messages import ModelFailure, ModelReply, ModelRequest

T = TypeVar("T")

Flow = Generator[ModelRequest, ModelReply | ModelFailure, T]
"""A pass that is running: what it asks, what it is resumed with, and what it ends in."""

NO_MODEL = ModelFailure(why="no model")


def answer_without_model(request: ModelRequest) -> ModelFailure:
    """Return the failure that stands for a missing model."""
    del request
    return NO_MODEL


def run_pass(flow: Flow[T], answer: Callable[[ModelRequest], ModelReply | ModelFailure]) -> T:
    """Run a pass to its end, and repeat a request once where the reply is empty.

    Args:
        answer: Answers a request. Returns a `ModelFailure` where there is no answer, and never raises for
            it.
    """
    try:
        request = next(flow)
        while True:
            reply = answer(request)
            if _is_empty(reply):
                reply = _combine_replies(reply, answer(request))
            request = flow.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


def _is_empty(reply: ModelReply | ModelFailure) -> bool:
    return isinstance(reply, ModelReply) and not reply.text.strip() and not reply.tool_calls


def _combine_replies(
    first: ModelReply | ModelFailure, second: ModelReply | ModelFailure
) -> ModelReply | ModelFailure:
    """Return the second reply with the cost of both."""
    return replace(second, usage=first.usage + second.usage)
