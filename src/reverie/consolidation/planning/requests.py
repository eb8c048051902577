"""Requests of passes to a model, each with one job and an answer in JSON.

A pass is a generator over values, so it can be run, tested and replayed without any input or output. A request leaves
a model that reasons room to do so beside its answer. An answer that is cut off all the same is asked for again in two
parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from reverie.llm.messages import ChatMessage, ModelFailure, ModelReply, ModelRequest, TokenUsage

T = TypeVar("T")

Schema: TypeAlias = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
NUMBER: Schema = {"type": "integer"}


def build_object(**fields: Schema) -> Schema:
    """Return the schema of an object with these fields."""
    return {"type": "object", "properties": fields, "required": [*fields]}


def build_list(**fields: Schema) -> Schema:
    """Return the schema of a list of objects with these fields."""
    return {"type": "array", "items": build_object(**fields)}


def build_choice(*words: str) -> Schema:
    """Return the schema of one of these words."""
    return {"type": "string", "enum": [*words]}


# -- questions -----------------------------------------------------------------------------------------

REASONING_TOKENS = 4_000
"""Tokens of an answer that are left for reasoning, which providers count as written."""

MOST_SPLITS = 2
"""Maximum number of times a question is cut into halves."""

VERIFY = "verify"
"""Purpose of the requests that verify what a model has written."""


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


def ask_in_parts(
    items: Sequence[T], build: Callable[[Sequence[T]], ModelRequest], *, splits: int = MOST_SPLITS
) -> Flow[list[tuple[Sequence[T], ModelReply | ModelFailure]]]:
    """Ask about items, and again about each half of them where the answer was cut off.

    Args:
        items: What the question is about, in order.
        build: Returns the request about some of them.
        splits: How often the question may be cut into halves.

    Returns:
        Each part with its reply, in order. The cost of an answer that was cut off is added to that
        of the first part.
    """
    reply = yield build(items)
    if splits < 1 or len(items) < 2 or not isinstance(reply, ModelReply) or reply.finish != "length":
        return [(items, reply)]
    middle = len(items) // 2
    parts = yield from ask_in_parts(items[:middle], build, splits=splits - 1)
    part, first = parts[0]
    parts[0] = part, replace(first, usage=reply.usage + first.usage)
    rest = yield from ask_in_parts(items[middle:], build, splits=splits - 1)
    return [*parts, *rest]


# -- running passes ------------------------------------------------------------------------------------

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


# -- the limit of a dream ------------------------------------------------------------------------------

MOST_REQUESTS = 3
"""Requests about one scope in a dream, the last of which verifies; requests that enrich drafts do not count."""

LATER = ModelFailure(why="it is left for the next dream")
"""The reply to a request that exceeds the limit."""


def limit_requests(ask: Ask) -> Ask:
    """Return a function that asks the model in one dream, and returns `LATER` beyond the limit of a scope."""
    asked: Counter[str] = Counter()

    def ask_within_limit(request: ModelRequest) -> ModelReply | ModelFailure:
        if asked[request.scope] >= (MOST_REQUESTS if request.purpose == VERIFY else MOST_REQUESTS - 1):
            return LATER
        reply = ask(request)
        asked[request.scope] += reply is not NO_MODEL
        return reply

    return ask_within_limit
