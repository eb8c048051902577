"""How does a pass talk to a model? It yields what it asks and is resumed with the answer.

A pass is a generator over values, so it can be run, tested and replayed without any input or output. The two
drivers here hand its questions to whoever answers; they ask once more where an answer is empty.
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


def answer_without_model(ask: ModelRequest) -> ModelFailure:
    """What a memory without a model answers."""
    del ask
    return NO_MODEL


def run_pass(flow: Flow[T], answer: Callable[[ModelRequest], ModelReply | ModelFailure]) -> T:
    """Run a pass to its end.

    Args:
        flow: The pass.
        answer: Answers a question; never raises for want of an answer, but returns `ModelFailure`.
    """
    try:
        ask = next(flow)
        while True:
            reply = answer(ask)
            if _is_empty(reply):
                reply = _combine_replies(reply, answer(ask))
            ask = flow.send(reply)
    except StopIteration as end:
        result: T = end.value
        return result


def _is_empty(reply: ModelReply | ModelFailure) -> bool:
    return isinstance(reply, ModelReply) and not reply.text.strip() and not reply.tool_calls


def _combine_replies(
    first: ModelReply | ModelFailure, second: ModelReply | ModelFailure
) -> ModelReply | ModelFailure:
    """The second answer, with what both cost."""
    return replace(second, usage=first.usage + second.usage)
