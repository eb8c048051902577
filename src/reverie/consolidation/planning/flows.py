"""Run passes: their requests, the order, and how often in one dream.

A pass is a generator over values, so it can be run, tested and replayed without any input or output. It yields requests
to a model, and claims that it wants verified. The claims of passes that run together are one request for each scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from reverie.consolidation.planning.requests import (
    LATER,
    NO_MODEL,
    VERIFY,
    Answer,
    Schema,
    read_answer,
)
from reverie.consolidation.planning.verification import ClaimCheck, ClaimVerdicts, VerificationRequest
from reverie.llm.protocol import ModelFailure, ModelReply, ModelRequest

T = TypeVar("T")

Flow: TypeAlias = Generator[ModelRequest | ClaimCheck, Any, T]
"""A pass that is running. It is resumed with a reply for a request, and with `ClaimVerdicts` for claims."""

Ask = Callable[[ModelRequest], ModelReply | ModelFailure]
"""What asks a model. It returns a `ModelFailure` where there is no answer, and never raises for it."""

MOST_SPLITS = 2
"""Maximum number of times a question is cut into halves."""

# -- asking within a pass ----------------------------------------------------------------------------------


def ask_for_json(request: ModelRequest, *, forms: Schema | None = None) -> Flow[Answer]:
    """Ask once, and return the answer.

    Args:
        request: The request.
        forms: Schema of all forms of answers that are accepted; None for that of the request.
    """
    reply = yield request
    return read_answer(reply, forms or request.schema or {})


def ask_in_parts(
    items: Sequence[T],
    build: Callable[[Sequence[T]], ModelRequest],
    *,
    forms: Schema | None = None,
    splits: int = MOST_SPLITS,
) -> Flow[list[tuple[Sequence[T], Answer]]]:
    """Ask about items, and again about each half of them where the answer was cut off.

    Args:
        items: What the question is about, in order.
        build: Returns the request about some of them.
        forms: Schema of all forms of answers that are accepted; None for that of the request.
        splits: How often the question may be cut into halves.

    Returns:
        Each part with its answer, in order. The cost of an answer that was cut off is added to that
        of the first part.
    """
    request = build(items)
    reply = yield request
    if splits < 1 or len(items) < 2 or not isinstance(reply, ModelReply) or reply.finish != "length":
        return [(items, read_answer(reply, forms or request.schema or {}))]
    middle = len(items) // 2
    parts = yield from ask_in_parts(items[:middle], build, forms=forms, splits=splits - 1)
    part, first = parts[0]
    parts[0] = part, replace(first, usage=reply.usage + first.usage)
    rest = yield from ask_in_parts(items[middle:], build, forms=forms, splits=splits - 1)
    return [*parts, *rest]


def verify_claims(check: ClaimCheck) -> Flow[ClaimVerdicts]:
    """Return the verdicts about claims. Nothing is asked about none."""
    if not check.claims:
        return ClaimVerdicts()
    verdicts: ClaimVerdicts = yield check
    return verdicts


# -- running passes ----------------------------------------------------------------------------------------


def run_pass(flow: Flow[T], ask: Ask) -> T:
    """Run a pass to its end, and repeat a request once where the reply is empty."""
    return run_together([flow], ask)[0]


@dataclass(slots=True)
class _Running:
    """Passes that run together.

    Attributes:
        results: Results of the passes that have ended.
        waiting: Claims of the passes that wait for verdicts.
    """

    results: dict[int, Any] = field(default_factory=dict)
    waiting: dict[int, ClaimCheck] = field(default_factory=dict)


def run_together(flows: Sequence[Flow[T]], ask: Ask, *, believed: list[bool] | None = None) -> list[T]:
    """Run passes to their ends, and verify the claims of each scope in one request.

    Args:
        flows: The passes. None of them may need what another one does. Each has its scopes in ascending order.
        ask: Asks the model.
        believed: Receives for each verification whether the model denied its controls.
    """
    running = _Running()

    def resume(at: int, value: Any) -> None:
        """Run a pass until it waits for verdicts, or ends."""
        running.waiting.pop(at, None)
        try:
            wanted = next(flows[at]) if value is None else flows[at].send(value)
            while isinstance(wanted, ModelRequest):
                wanted = flows[at].send(_ask(wanted, ask))
            running.waiting[at] = wanted
        except StopIteration as end:
            running.results[at] = end.value

    for at in range(len(flows)):
        resume(at, None)
    while running.waiting:
        scope, is_apart = min((check.scope, check.is_apart) for check in running.waiting.values())
        asked = [
            at
            for at in sorted(running.waiting)
            if (running.waiting[at].scope, running.waiting[at].is_apart) == (scope, is_apart)
        ]
        verification = VerificationRequest([running.waiting[at] for at in asked])
        verdicts = verification.read(_ask(verification.build(), ask))
        if believed is not None and verdicts[0].is_believed is not None:
            believed.append(verdicts[0].is_believed)
        for at, each in zip(asked, verdicts, strict=True):
            resume(at, each)
    return [running.results[at] for at in range(len(flows))]


def _ask(request: ModelRequest, ask: Ask) -> ModelReply | ModelFailure:
    """Ask, and once more where the reply is empty; return the last reply with the cost of both."""
    reply = ask(request)
    if isinstance(reply, ModelReply) and not reply.text.strip() and not reply.tool_calls:
        again = ask(request)
        return replace(again, usage=reply.usage + again.usage)
    return reply


# -- the limit of a dream ----------------------------------------------------------------------------------

MOST_REQUESTS = 3
"""Requests about one scope in a dream, the last of which verifies; requests that enrich drafts do not count."""

UNCOUNTED = "enrich"
"""Purpose of the requests that do not count."""


def limit_requests(ask: Ask) -> Ask:
    """Return a function that asks the model in one dream, and returns `LATER` beyond the limit of a scope."""
    asked: Counter[str] = Counter()

    def ask_within_limit(request: ModelRequest) -> ModelReply | ModelFailure:
        if request.purpose == UNCOUNTED:
            return ask(request)
        if asked[request.scope] >= (MOST_REQUESTS if request.purpose == VERIFY else MOST_REQUESTS - 1):
            return LATER
        reply = ask(request)
        asked[request.scope] += reply is not NO_MODEL
        return reply

    return ask_within_limit
