"""Replay window and ledger: the last turns as messages, and the items that their prompts have shown.

Chat APIs refuse a call without a result and a result without a call, so the window keeps them together. An item of a
turn that is still replayed is not shown again, unless it has changed. Values only; the session stores the ledger.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from reverie.domain.conversation import Turn
from reverie.domain.errors import InvalidInput
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.text import escaping, ids, validation
from reverie.search.hits import Hit

_log = logging.getLogger("reverie")

NO_RESULT = "[no result was recorded]"
"""Result sent to a chat API for a call without a stored result."""

_NOT_IN_NAME = defer_regex(r"[^A-Za-z0-9_-]+")
_LONGEST_API_NAME = 64
_MESSAGE_OVERHEAD = 4  # tokens for role and separators of a message, as in OpenAI's cookbook


class ReplayWindow(NamedTuple):
    """Turns as messages for a chat API.

    Attributes:
        messages: One message for each turn; results of tools follow their calls.
        tokens: Estimated tokens: a quarter of the characters, and 4 for each message.
        orphans: Ids of results that are left out because their call is missing.
        unanswered: Number of calls without a result, which get `NO_RESULT`.
    """

    messages: list[dict[str, Any]]
    tokens: int
    orphans: tuple[str, ...]
    unanswered: int


def trim_window(turns: Sequence[Turn], limit: int) -> list[Turn]:
    """Return about `limit` of the last turns, without separating a tool call from its results.

    The start moves forward past a separated call. If less than half of the limit would be left, it moves back to the
    call instead, so the result may be longer by one call and its results. It is empty only for no turns, or if all of
    them are results without a call.

    Args:
        turns: Consecutive turns, the earliest first.
        limit: Number of turns, 0 or more.
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
    """Return the turns as messages with `role`, `content` and, if needed, `name` and fields of tools.

    Each call is followed by exactly one result, in the order of the calls, even if there were other turns in between.
    A call without a stored result gets `NO_RESULT`; a result without its call is left out.
    """
    call_of = _match_calls(turns)
    results = {place: number for number, place in call_of.items()}
    messages: list[dict[str, Any]] = []
    unanswered = 0
    for n, turn in enumerate(turns):
        message = _to_message(turn)
        if turn.role == "tool" or not (message["content"].strip() or turn.tool_calls):
            continue  # providers refuse a message without content
        messages.append(message)
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
    """Return for the place of each result the place of the calling turn and the number of its call.

    Providers reuse call ids, so a result belongs to the latest turn with that id, and to its first open call.
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
    """Return for each place the nearest earlier start, or the place itself, that separates no call from its results."""
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
    calls = [call["function"] for message in messages for call in message.get("tool_calls", ())]
    texts = [message["content"] for message in messages]
    texts += [text for call in calls for text in (call["name"], call["arguments"])]
    return _MESSAGE_OVERHEAD * len(messages) + sum(map(validation.estimate_tokens, texts))


def find_question(message: str | None, window: Sequence[Turn]) -> Turn | None:
    """Return the user's turn being answered; None if there is none, or the message is not stored yet."""
    last = next((turn for turn in reversed(window) if turn.role == "user"), None)
    return last if last is not None and message in {None, last.content} else None


def prepend_question(replayed: list[Turn], asking: Turn | None) -> list[Turn]:
    """Return the replayed turns after the question being answered, if calls of tools pushed it out."""
    if asking is None or not replayed or replayed[0].position <= asking.position:
        return replayed
    return [asking, *replayed]


MOST_SHOWN = 500
"""Most entries of a ledger; the oldest are dropped first."""

_EMPTY: Mapping[str, tuple[int, str]] = MappingProxyType({})


def build_shown_cursor(session: str) -> str:
    """Return the name of the store's cursor with the ledger of a session."""
    return f"shown:{session}"


class ShownLedger(NamedTuple):
    """Items in a session's prompts by id, each with the position of the turn and a fingerprint.

    An immutable value. The position is that of the user's turn being answered, so all requests for one answer (a retry,
    a loop of tools) show the same records.
    """

    marks: Mapping[str, tuple[int, str]] = _EMPTY

    def find_seen_position(self, hit: Hit, *, replayed_from: int, now_at: int) -> int | None:
        """Return the position at which a hit was shown if it need not be shown again; None if it has to be.

        Args:
            hit: The hit.
            replayed_from: The position of the first replayed turn.
            now_at: The position of the turn being answered, whose own items are shown again.
        """
        mark = self.marks.get(hit.id)
        if mark is None:
            return None
        position, print_then = mark
        still = replayed_from <= position < now_at and print_then == _compute_fingerprint(hit)
        return position if still else None

    def add_shown(self, hits: Iterable[Hit], *, at: int) -> ShownLedger:
        """Return the ledger after the hits were shown at position `at`; at most 500 marks, the newest."""
        marks = dict(self.marks)
        for hit in hits:
            marks.pop(hit.id, None)
            marks[hit.id] = (at, _compute_fingerprint(hit))
        return _limit_marks(marks)

    def merged(self, other: ShownLedger) -> ShownLedger:
        """Return both ledgers as one, with the later position of each item."""
        later = {
            shown: mark
            for shown, mark in other.marks.items()
            if shown not in self.marks or self.marks[shown][0] <= mark[0]
        }
        return _limit_marks({**self.marks, **later})

    def since(self, position: int) -> ShownLedger:
        """Return the ledger without entries before a position, which are no longer replayed."""
        return _limit_marks({shown: mark for shown, mark in self.marks.items() if mark[0] >= position})

    def to_text(self) -> str:
        """Return the ledger as one line of JSON; `from_text` reads it back to an equal one."""
        return json.dumps([[shown, *mark] for shown, mark in self.marks.items()], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> ShownLedger:
        """Read what `to_text` wrote.

        Raises:
            InvalidInput: it is not a ledger.
        """
        try:
            rows = json.loads(text)
            marks = {str(shown): (int(position), str(then)) for shown, position, then in rows}
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"not a ledger of what was shown: {error}") from None
        return _limit_marks(marks)


class ShownBuffer:
    """What the prompts of one session contain, and how much of that is stored. Its session has a lock.

    Attributes:
        ledger: What was shown, in all processes as far as known.
        is_stored: Whether all of it is stored.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self.ledger = self._stored = ShownLedger()
        self.is_stored = True

    def add(self, hits: Sequence[Hit], *, since: int, at: int) -> None:
        """Add hits that were shown at position `at`, and drop what was shown before the position `since`."""
        if hits:
            self.ledger = self.ledger.since(since).add_shown(hits, at=at)
            self.is_stored = False

    def read(self, cursor: Callable[[str], str | None]) -> None:
        """Read what the session was shown in other processes.

        Args:
            cursor: Reads a cursor of the store.
        """
        text = cursor(build_shown_cursor(self._session))
        self._stored = ShownLedger()
        try:
            self._stored = ShownLedger.from_text(text or "[]")
        except InvalidInput as error:
            _log.warning(
                "what session %r was shown cannot be read and is taken as nothing: %s", self._session, error
            )
        self.ledger = self._stored if self.is_stored else self._stored.merged(self.ledger)

    def list_counters(self) -> list[str]:
        """Return the counters of the items that were shown since the last transaction."""
        stored = self._stored.marks
        return [
            build_recalled_counter(name)
            for name, (position, _) in self.ledger.marks.items()
            if name not in stored or stored[name][0] != position
        ]

    def build_cursors(self, *, is_restart: bool) -> dict[str, str | None]:
        """Return the cursors that store it, or that store nothing after a restart; none if it is stored."""
        text = self.ledger.to_text() if self.ledger.marks and not is_restart else None
        return {} if self.is_stored and not is_restart else {build_shown_cursor(self._session): text}

    def mark_stored(self, *, is_restart: bool) -> None:
        """Note that a transaction has stored it; after a restart it is empty."""
        self.ledger = self._stored = ShownLedger() if is_restart else self.ledger
        self.is_stored = True


def build_recalled_counter(id: str) -> str:
    """Return the name of the counter of an item in prompts, which also has the last time."""
    return f"recalled:{id}"


def _compute_fingerprint(hit: Hit) -> str:
    """Return eight characters that change with the shown content; empty for turns, which never change."""
    if hit.paragraph is not None:
        return ids.compute_fingerprint("paragraph", hit.paragraph.content)[:8]
    if hit.record is None:
        return ""
    record = hit.record
    state = f"{record.content}|{record.valid_from}|{record.valid_to}"
    if record.perhaps_replaced_by:
        state += f"|{record.perhaps_replaced_by}"
    return ids.compute_fingerprint(record.kind, state)[:8]


def _limit_marks(marks: dict[str, tuple[int, str]]) -> ShownLedger:
    if len(marks) > MOST_SHOWN:
        newest = sorted(marks, key=lambda shown: marks[shown][0])[-MOST_SHOWN:]
        marks = {shown: marks[shown] for shown in newest}
    return ShownLedger(marks=MappingProxyType(marks))


def build_history_cursor(session: str) -> str:
    """Return the name of the cursor with the position up to which a session is told in `HISTORY.md`."""
    return f"history:{session}"


def build_remembered_cursor(session: str) -> str:
    """Return the name of the store's cursor with the first turn of a session that was not read for facts."""
    return f"remember:{session}"


def parse_position(text: str | None) -> int:
    """Return the position with which the value of such a cursor begins; 0 for none.

    >>> parse_position("12"), parse_position("12 3 2026-03-05T03:00:00Z"), parse_position(None)
    (12, 12, 0)
    """
    position = (text or "").partition(" ")[0]
    return int(position) if position.isdecimal() else 0
