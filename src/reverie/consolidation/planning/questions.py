"""Requests of passes to a model, each with one job and an answer in JSON.

A request leaves a model that reasons room to do so beside its answer. An answer that is cut off all the same is
asked for again in two parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from reverie.consolidation.planning.driver import Flow
from reverie.llm.messages import ChatMessage, ModelFailure, ModelReply, ModelRequest

REASONING_TOKENS = 4_000
"""Tokens of an answer that are left for reasoning, which providers count as written."""

MOST_SPLITS = 2
"""Maximum number of times a question is cut into halves."""

_MOST_REASONS = 20
_LONGEST_ANSWER = 8_000  # characters that are shown again

VERIFY = "verify"
"""Purpose of the requests that verify what a model has written."""

T = TypeVar("T")


def build_question(
    text: str,
    *,
    purpose: str,
    schema: Mapping[str, Any],
    answer_tokens: int,
    scope: str = "",
    timeout_s: float = 120.0,
) -> ModelRequest:
    """Return the request for an answer in JSON.

    Args:
        text: The question.
        purpose: The pass that asks.
        schema: The JSON schema of the answer, with every field named.
        answer_tokens: Tokens that the answer may have without reasoning.
        scope: Whose memory it is about.
        timeout_s: Seconds that the answer may take.
    """
    return ModelRequest(
        messages=(ChatMessage(role="user", content=text),),
        purpose=purpose,
        scope=scope,
        schema=schema,
        max_tokens=answer_tokens + REASONING_TOKENS,
        temperature=0.2,
        timeout_s=timeout_s,
    )


def build_verification(
    text: str, scope: str, *, schema: Mapping[str, Any], answer_tokens: int
) -> ModelRequest:
    """Return a request that verifies what a model has written; it is sent together with others of the same scope.

    Args:
        text: The question.
        scope: The scope. No request shows two of them.
        schema: The JSON schema of the answer.
        answer_tokens: Tokens that the answer may have without reasoning.
    """
    question = build_question(
        text, purpose=VERIFY, scope=scope, schema=schema, answer_tokens=answer_tokens, timeout_s=180.0
    )
    return replace(question, group=f"{VERIFY} {scope}", temperature=0.0)


def build_repair_question(request: ModelRequest, reply: ModelReply, reasons: Sequence[str]) -> ModelRequest:
    """Return the request that asks once more for what was refused.

    Args:
        request: The first request.
        reply: The answer to it.
        reasons: Why each part was refused, in words that quote what is to be mended.
    """
    listed = "\n".join(f"- {reason}" for reason in reasons[:_MOST_REASONS])
    text = (
        "These parts of your answer were refused:\n\n"
        f"{listed}\n\n"
        "Everything else of it was taken. Answer once more in the same form, with the refused parts only, each "
        "corrected so that the texts it cites say all of it. Leave out what cannot be corrected."
    )
    answer = ChatMessage(role="assistant", content=reply.answer[:_LONGEST_ANSWER])
    return replace(request, messages=(*request.messages, answer, ChatMessage(role="user", content=text)))


def ask_in_parts(
    items: Sequence[T], build: Callable[[Sequence[T]], ModelRequest], *, splits: int = MOST_SPLITS
) -> Flow[list[tuple[Sequence[T], ModelRequest, ModelReply | ModelFailure]]]:
    """Ask about items, and again about each half of them where the answer was cut off.

    Args:
        items: What the question is about, in order.
        build: Returns the request about some of them.
        splits: How often the question may be cut into halves.

    Returns:
        Each part with its request and its reply, in order. The cost of an answer that was cut off is added to that
        of the first part.
    """
    request = build(items)
    reply = yield request
    if splits < 1 or len(items) < 2 or not isinstance(reply, ModelReply) or reply.finish != "length":
        return [(items, request, reply)]
    middle = len(items) // 2
    parts = yield from ask_in_parts(items[:middle], build, splits=splits - 1)
    part, asked, first = parts[0]
    parts[0] = part, asked, replace(first, usage=reply.usage + first.usage)
    rest = yield from ask_in_parts(items[middle:], build, splits=splits - 1)
    return [*parts, *rest]
