"""Replay window: the last turns as messages, with every tool result beside its call.

Chat APIs refuse a conversation in which a call has no result or a result no call, so the cut and the messages keep
them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from reverie.domain.conversation import Turn
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text import escaping, validation

NO_RESULT = "[no result was recorded]"
"""Result sent to a chat API for a call without a stored result."""

_NOT_IN_NAME = defer_regex(r"[^A-Za-z0-9_-]+")
_LONGEST_API_NAME = 64
_MESSAGE_OVERHEAD = 4  # tokens that role and separators of a message cost, as OpenAI's cookbook counts them


class ReplayWindow(NamedTuple):
    """Turns as a chat API takes them.

    Attributes:
        messages: One for each turn, the results of tools straight after the call they answer.
        tokens: What they cost, estimated (a quarter of the characters, and 4 for each message).
        orphans: Ids of results left out because their call is not among the turns.
        unanswered: How many calls had no result, and were given `NO_RESULT`.
    """

    messages: list[dict[str, Any]]
    tokens: int
    orphans: tuple[str, ...]
    unanswered: int


def trim_window(turns: Sequence[Turn], limit: int) -> list[Turn]:
    """Return about `limit` of the last turns, without a tool call that lacks its results or the reverse at the start.

    The cut moves forward past a call that would be torn. Where that would leave less than half of the
    limit it moves back to the call instead, so there can be more turns than `limit`, but only as many as
    one call and its results bring. Something is always left when there are turns, unless they are all
    orphans.

    Args:
        turns: Consecutive turns, the earliest first.
        limit: How many are wanted, 0 or more; 0 gives none.
    """
    if limit <= 0 or not turns:
        return []
    call_of = _match_calls(turns)
    orphan = {n for n, turn in enumerate(turns) if turn.role == "tool" and n not in call_of}
    torn = _find_safe_starts(len(turns), call_of)
    start = max(0, len(turns) - limit)
    forward = start
    while forward < len(turns) and (torn[forward] != forward or forward in orphan):
        forward += 1
    if len(turns) - forward >= min(limit, len(turns)) / 2:
        return list(turns[forward:])
    if torn[start] != start:
        return list(turns[torn[start] :])
    if forward == len(turns):
        forward = next((torn[n] for n in range(start, -1, -1) if n not in orphan), forward)
    return list(turns[forward:])


def to_chat_messages(turns: Sequence[Turn]) -> ReplayWindow:
    """Return the turns as messages with `role`, `content` and, where they apply, `name` and fields of tools.

    Every call is followed at once by exactly one result, in the order of the calls, even where other turns
    came between. A call without a stored result gets `NO_RESULT`; a result without its call is left out.
    """
    call_of = _match_calls(turns)
    results = {place: number for number, place in call_of.items()}
    messages: list[dict[str, Any]] = []
    unanswered = 0
    for n, turn in enumerate(turns):
        if turn.role == "tool":
            continue
        messages.append(_to_message(turn))
        for c, call in enumerate(turn.tool_calls):
            answer = results.get((n, c))
            unanswered += answer is None
            content = NO_RESULT if answer is None else escaping.escape_message(turns[answer].content)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    orphans = tuple(t.id for n, t in enumerate(turns) if t.role == "tool" and n not in call_of)
    return ReplayWindow(
        messages=messages, tokens=_estimate_cost(messages), orphans=orphans, unanswered=unanswered
    )


def _match_calls(turns: Sequence[Turn]) -> dict[int, tuple[int, int]]:
    """Return, for each result by its place, the place of the calling turn and the number of the call there.

    Providers reuse call ids, so a result belongs to the latest call of that id that is still open.
    """
    open_calls: dict[str, list[tuple[int, int]]] = {}
    callers: dict[int, tuple[int, int]] = {}
    for n, turn in enumerate(turns):
        if turn.role == "tool":
            waiting = open_calls.get(turn.tool_call_id)
            if waiting:
                callers[n] = waiting.pop(0)
        calls: dict[str, list[tuple[int, int]]] = {}
        for c, call in enumerate(turn.tool_calls):
            calls.setdefault(call.id, []).append((n, c))
        open_calls |= calls
    return callers


def _find_safe_starts(count: int, call_of: dict[int, tuple[int, int]]) -> list[int]:
    """Return, for each place, where a cut there has to begin so that no call is torn: there or earlier."""
    last_result: dict[int, int] = {}
    for result, (caller, _) in call_of.items():
        last_result[caller] = max(result, last_result.get(caller, result))
    starts = list(range(count))
    reach, begin = -1, 0
    for n in range(count):
        if n > reach:
            begin = n
        starts[n] = begin
        reach = max(reach, last_result.get(n, -1))
    return starts


def _to_message(turn: Turn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": turn.role, "content": escaping.escape_message(turn.content)}
    name = _NOT_IN_NAME.sub("_", turn.speaker).strip("_")[:_LONGEST_API_NAME]
    if name:
        message["name"] = name
    if turn.tool_calls:
        message["tool_calls"] = [call.to_message_item() for call in turn.tool_calls]
    return message


def _estimate_cost(messages: Sequence[dict[str, Any]]) -> int:
    total = 0
    for message in messages:
        total += _MESSAGE_OVERHEAD + validation.estimate_tokens(message["content"])
        for call in message.get("tool_calls", ()):
            total += validation.estimate_tokens(call["function"]["name"]) + validation.estimate_tokens(
                call["function"]["arguments"]
            )
    return total


def find_question(message: str | None, window: Sequence[Turn]) -> Turn | None:
    """Return the user's turn being answered; None if there is none, or the message has not been added yet."""
    last = next((turn for turn in reversed(window) if turn.role == "user"), None)
    return last if last is not None and message in {None, last.content} else None


def prepend_question(replayed: list[Turn], asking: Turn | None) -> list[Turn]:
    """Return the replayed turns, and before them the question being answered if calls of tools pushed it out."""
    if asking is None or not replayed or replayed[0].position <= asking.position:
        return replayed
    return [asking, *replayed]
