"""The core of the adapters: a memory behind any of its forms, the turns and context of a loop, and items of sessions.

`Conversation` is what every framework's loop needs: what is remembered for a prompt, and the turns of an exchange.
`MessageItems` stores messages in a framework's own form without loss beside the turns of a session. An item is any JSON
value. Its text becomes a turn, which is searched and learned from. The item itself is stored in the turn's metadata,
and is returned unchanged. Items without text, such as a model's reasoning, are stored with the next item that has text,
or with the last one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar, Unpack

from reverie.aio import AsyncMemory, AsyncScopedMemory
from reverie.domain.conversation import (
    ITEMS_FROM,
    LONGEST_NAME,
    LONGEST_TURN,
    Role,
    SessionState,
    ToolCall,
    Turn,
    validate_session_id,
)
from reverie.domain.errors import InvalidInput, ReverieError, StoreError
from reverie.domain.lazy_regex import defer_regex
from reverie.domain.provenance import seeing
from reverie.domain.text import validation
from reverie.domain.text.timestamps import utc_now
from reverie.scoped import ScopedMemory
from reverie.session import Session
from reverie.tools import ToolResult, Toolset

AnyMemory = ScopedMemory | AsyncMemory | AsyncScopedMemory
"""A memory, or a scope of one, or their asynchronous forms."""

ITEMS = "items"
"""Metadata of a turn with its items as JSON: `items`, then `items-2` and so on where they are long."""

_LONGEST_PART = 1_000_000
_OURS = defer_regex(r"items(-\d+)?")
_SURROGATE = defer_regex(r"[\ud800-\udfff]")

SOURCE_ID = "source_id"
"""Metadata of a turn with the framework's id of its message."""

DEFAULT_TIMEOUT_S = 2.0
"""Seconds for which an answer waits for the memory."""

_RECENT_TURNS = 100  # turns besides the new ones among which a message is looked for

_log = logging.getLogger("reverie")

_T = TypeVar("_T")


def to_sync(memory: AnyMemory) -> ScopedMemory:
    """Return the synchronous form of a memory."""
    return memory.sync if isinstance(memory, AsyncMemory | AsyncScopedMemory) else memory


def call_tool(
    tools: Toolset | Callable[[], Toolset],
    name: str,
    arguments: Mapping[str, Any] | str,
    *,
    seen: Iterable[ItemText] = (),
) -> ToolResult:
    """Run a tool for a model. If the store cannot be reached, log a warning and tell the model.

    Args:
        tools: The tools, or a function that opens them.
        seen: What the model has seen in this run and the session has not stored yet, for the origin of what is saved.
    """
    now = utc_now()
    turns = [
        Turn(id="0" * 12, session="run", position=position, at=now, **_draft_plain_turn(each))
        for position, each in enumerate(seen)
    ]
    try:
        with seeing(turns):
            return (tools if isinstance(tools, Toolset) else tools()).call(name, arguments)
    except StoreError as error:
        _log.warning("the tool %r could not reach the memory: %s", name, error)
        return ToolResult(f"Nothing was done: the memory cannot be reached now. Answer without {name}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemText:
    """Text of an item.

    Attributes:
        role: Role of the turn.
        content: What is said; may be empty for an assistant's call and a tool's result.
        call: The call, where it is one.
        answers: Id of the call that it answers, where it does.
        source_id: The framework's id of the message, by which it is recorded once; empty if it has none.
    """

    role: Role
    content: str
    call: ToolCall | None = None
    answers: str = ""
    source_id: str = ""


def build_texts(
    role: Role, content: Any, *, calls: Iterable[ToolCall] = (), answers: str = "", source_id: str = ""
) -> list[ItemText]:
    r"""Return the texts of one message: what it says, and each tool that it calls.

    Args:
        role: The role of its speaker.
        content: Text, or a list of texts and parts with a `text`.
        calls: The tools that it calls.
        answers: The id of the call that it answers.
        source_id: The framework's id of the message.

    >>> [(each.content, each.source_id) for each in build_texts("user", ["Hello", {"text": "you"}], source_id="m1")]
    [('Hello\nyou', 'm1')]
    """
    text = extract_text(content)
    said = ItemText(role=role, content=text, answers=answers, source_id=source_id)
    named = [
        (f"{source_id}:{number}" if source_id else "", call) for number, call in enumerate(calls, start=1)
    ]
    called = [ItemText(role="assistant", content="", call=call, source_id=name) for name, call in named]
    return [said, *called] if text or answers else called


def build_call(id: str | None, name: str | None, arguments: Any) -> ToolCall:
    """Return a call of a tool; a missing id or name gets a plain one, and arguments that are no text become JSON."""
    return ToolCall(id=id or name or "call", name=name or "tool", arguments=to_text(arguments or {}))


def to_text(value: Any) -> str:
    """Return the arguments or the result of a tool as text: JSON, if they are none."""
    if isinstance(value, str):
        return value
    return json.dumps({} if value is None else value, ensure_ascii=False, default=str)


def find_question(texts: Sequence[ItemText]) -> str | None:
    """Return the user's last message that is not blank; None where there is none."""
    said = (each.content for each in reversed(texts) if each.role == "user")
    return next((content for content in said if validation.clean_text(content).strip()), None)


def extract_text(content: Any) -> str:
    """Return the text of a content: text, or a list of texts and parts with a `text`."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


class ConversationOptions(TypedDict, total=False):
    """Options of a conversation.

    Attributes:
        tools: The tools; None takes `memory.tools(session=session)`, `Toolset()` gives none.
        timeout_s: Seconds for which the asynchronous methods wait, each time.
        soft_tokens: The soft budget of the context; None takes the setting.
        hard_tokens: The hard budget; None takes the setting.
    """

    tools: Toolset | None
    timeout_s: float
    soft_tokens: int | None
    hard_tokens: int | None


class Conversation:
    """A session as the loop of a framework uses it. Safe to use from several threads.

    An answer never fails because of its memory: where the memory cannot be reached, or takes longer than
    `timeout_s`, that is a warning in the log, and the loop goes on without it.
    """

    def __init__(self, memory: AnyMemory, session: str, **options: Unpack[ConversationOptions]) -> None:
        """Open a session, or begin it. Nothing is written before its first turn.

        Args:
            memory: The memory, or a scope of one.
            session: The id of the session, such as `telegram:1`.
            **options: Further options; see `ConversationOptions`.

        Raises:
            InvalidInput: the id is not of its form.
        """
        self._memory = to_sync(memory)
        self._name = validate_session_id(session)
        self._tools = options.get("tools")
        self._timeout_s = options.get("timeout_s", DEFAULT_TIMEOUT_S)
        self._budget = options.get("soft_tokens"), options.get("hard_tokens")

    @cached_property
    def session(self) -> Session:
        """The session."""
        return self._memory.session(self._name)

    @cached_property
    def tools(self) -> Toolset:
        """The memory's tools for the model. What it saves after it has seen a tool's result has the tool's origin."""
        return self._memory.tools(session=self._name) if self._tools is None else self._tools

    def recall(self, question: str | None) -> str:
        """Return what is remembered for a prompt, as text for the instructions; empty for nothing.

        Args:
            question: The user's message; None if there is none.
        """
        return call_safely(lambda: self._build_context(question), "read") or ""

    async def recall_async(self, question: str | None) -> str:
        """Return what `recall` does, from a worker thread."""
        return await run_safely(lambda: self._build_context(question), self._timeout_s, "read") or ""

    def record(self, messages: Sequence[ItemText]) -> list[Turn]:
        """Add messages as turns, all of them or none, and return them. A message with a known id is not added again."""
        return call_safely(lambda: self._add(messages), "written") or []

    async def record_async(self, messages: Sequence[ItemText]) -> list[Turn]:
        """Do what `record` does, on a worker thread."""
        return await run_safely(lambda: self._add(messages), self._timeout_s, "written") or []

    async def change_async(self, work: Callable[[Session], object]) -> None:
        """Change the session on a worker thread."""
        await run_safely(lambda: work(self.session), self._timeout_s, "written")

    def _build_context(self, question: str | None) -> str:
        soft, hard = self._budget
        return self.session.context(question, soft_tokens=soft, hard_tokens=hard).text.strip()

    def _add(self, messages: Sequence[ItemText]) -> list[Turn]:
        said = [each for each in messages if _has_content(each)]
        known = set[str]()
        if any(each.source_id for each in said):
            turns = self.session.stored_turns(-(len(said) + _RECENT_TURNS))
            known = {turn.metadata.get(SOURCE_ID, "") for turn in turns} - {""}
        return self.session.add_many(
            [_draft_plain_turn(each) for each in said if _to_source_id(each) not in known]
        )


def call_safely(work: Callable[[], _T], what: str) -> _T | None:
    """Return the result of `work`; None, with a warning, if the memory fails.

    Args:
        what: What could not be done to the memory, such as `read`.
    """
    try:
        return work()
    except ReverieError as error:
        _log.warning("the memory could not be %s, the reply goes on without: %s", what, error)
        return None


async def run_safely(work: Callable[[], _T], timeout_s: float, what: str) -> _T | None:
    """Return the result of `work` from a worker thread; None, with a warning, if it fails or takes too long.

    Args:
        timeout_s: Seconds to wait. Work that takes longer is completed nevertheless.
        what: What could not be done to the memory, such as `read`.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.wait_for(asyncio.shield(task), timeout_s)
    except TimeoutError:
        _log.warning("the memory was not %s within %g s, the reply goes on without", what, timeout_s)
        task.add_done_callback(_log_late_failure)
    except ReverieError as error:
        _log.warning("the memory could not be %s, the reply goes on without: %s", what, error)
    return None


def _log_late_failure(task: asyncio.Future[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.warning("the memory failed after the reply: %s", task.exception())


class MessageItems:
    """Items of one session. Safe to use from several threads and processes.

    Turns that came without items, from another program, are returned as items too.
    """

    def __init__(
        self,
        session: Session,
        *,
        extract: Callable[[Any], ItemText | None],
        items_of: Callable[[Turn], Sequence[Any]],
    ) -> None:
        """Open the items of a session.

        Args:
            extract: Returns the text of an item; None if it has none.
            items_of: Returns the items, at least one, of a turn that came without any.
        """
        self._session = session
        self._extract = extract
        self._items_of = items_of

    def get(self, limit: int | None = None) -> list[Any]:
        """Return the items since the conversation was last reset, in order.

        Args:
            limit: Only so many of the last; None for all.
        """
        if limit is not None and limit <= 0:
            return []
        start = _get_start(self._session.state)
        turns = self._session.stored_turns(start if limit is None else -limit)
        found = [item for turn in turns if turn.position >= start for item in self._expand_turn(turn)]
        return found if limit is None else found[-limit:]

    def of(self, turns: Iterable[Turn]) -> list[Any]:
        """Return the items of turns of the session."""
        return [item for turn in turns for item in self._expand_turn(turn)]

    def add(self, items: Sequence[Any]) -> list[Turn]:
        """Add items at the end, all of them or none. They are on disk when this returns.

        Args:
            items: JSON values.

        Returns:
            The turns that they are.

        Raises:
            TypeError: one of them is no JSON value; nothing was added.
            InvalidInput: the session is terminated.
        """
        redacted = self._session.redact_json([*items])  # before an item is cut into parts, or a secret in two
        if not (drafts := self._draft_turns(redacted)):
            return []
        self._mark_start()
        return self._session.add_many(drafts)

    def pop(self) -> Any | None:
        """Remove the last item, and return it; None where there is none.

        Its turn goes, and with it the line that it left in a daily note; the journal keeps both. Records that
        were learned from it stay.
        """
        popped: list[Any] = []

        def drop_last(turn: Turn, state: SessionState) -> Turn | None:
            popped.clear()
            if turn.position < _get_start(state):
                return turn
            *left, last = self._expand_turn(turn)
            popped.append(last)
            return self._replace_items(turn, left) if left else None

        self._session.rewrite_last_turn(drop_last)
        return popped[0] if popped else None

    def clear(self) -> None:
        """Reset the conversation: there are no items any more. Their turns stay stored and searchable."""
        if self._session.stored_turns(-1):
            self._mark_start()
        self._session.reset()

    # -- inside ------------------------------------------------------------------------------------------

    def _mark_start(self) -> None:
        state = self._session.state
        if ITEMS_FROM not in state.metadata:
            self._session.set_metadata(ITEMS_FROM, str(state.window_start))

    def _expand_turn(self, turn: Turn) -> list[Any]:
        """Return the items of a turn. Where they are missing or unreadable, build them from its text."""
        parts: list[str] = []
        while (name := _name_part(len(parts))) in turn.metadata:
            parts.append(turn.metadata[name])
        try:
            items = json.loads("".join(parts))
        except ValueError:
            items = None
        return items if isinstance(items, list) and items else list(self._items_of(turn))

    def _draft_turns(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the turns that items become, as `Session.add_many` takes them."""
        texts: list[ItemText] = []
        groups: list[list[Any]] = [[]]  # the items of each text, and those after the last
        for item in items:
            groups[-1].append(item)
            text = self._extract(item)
            if text is not None and _has_content(text):
                texts.append(text)
                groups.append([])
        if texts:
            groups[-2] += groups[-1]
        elif silent := groups[0]:
            sorts = (
                str(item.get("type") or "item") if isinstance(item, Mapping) else "item" for item in silent
            )
            content = validation.clean_text(", ".join(dict.fromkeys(sorts)))[:LONGEST_NAME]
            texts.append(ItemText(role="system", content=f"[{content}]"))
        return [_draft_turn(text, own) for text, own in zip(texts, groups, strict=False)]

    def _replace_items(self, turn: Turn, items: Sequence[Any]) -> Turn:
        """Return a turn with the first of its items, and their text; a turn that came without items has calls."""
        if ITEMS not in turn.metadata:
            return replace(turn, tool_calls=turn.tool_calls[:-1])
        (draft,) = self._draft_turns(items)
        theirs = {name: text for name, text in turn.metadata.items() if not _OURS.fullmatch(name)}
        return replace(
            turn,
            role=draft["role"],
            content=draft["content"],
            tool_calls=draft.get("tool_calls", ()),
            tool_call_id=draft.get("tool_call_id", ""),
            metadata=MappingProxyType({**theirs, **draft["metadata"]}),
        )


def _get_start(state: SessionState) -> int:
    """Return the position of the first turn that has items."""
    first = state.metadata.get(ITEMS_FROM, "")
    return int(first) if first.isdecimal() else state.window_start


def _has_content(item_text: ItemText) -> bool:
    if item_text.call is not None or item_text.role == "tool":
        return True
    try:
        validation.validate_raw_text(
            validation.clean_text(item_text.content), name="content", longest=len(item_text.content)
        )
    except InvalidInput:  # empty, or invisible characters only
        return False
    return True


def _draft_turn(item_text: ItemText, items: Sequence[Any]) -> dict[str, Any]:
    text = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(items, ensure_ascii=False))
    parts = (text[at : at + _LONGEST_PART] for at in range(0, len(text), _LONGEST_PART))
    metadata = {_name_part(number): part for number, part in enumerate(parts)}
    return _draft_plain_turn(item_text) | {"metadata": metadata}


def _name_part(number: int) -> str:
    return f"{ITEMS}-{number + 1}" if number else ITEMS


def _draft_plain_turn(item_text: ItemText) -> dict[str, Any]:
    """Return the turn of a text, as `Session.add_many` takes it."""
    draft: dict[str, Any] = {"role": item_text.role, "content": _to_storable(item_text.content)}
    if source_id := _to_source_id(item_text):
        draft["metadata"] = {SOURCE_ID: source_id}
    if item_text.call is not None:
        draft["tool_calls"] = (
            ToolCall(
                id=_to_name(item_text.call.id),
                name=_to_name(item_text.call.name),
                arguments=_to_storable(item_text.call.arguments),
            ),
        )
    if item_text.role == "tool":
        draft["tool_call_id"] = _to_name(item_text.answers)
    return draft


def _to_storable(text: str) -> str:
    """Return the text without NUL and lone surrogates, and not too long."""
    return _SURROGATE.sub(" ", text.replace("\0", " "))[:LONGEST_TURN]


def _to_source_id(item_text: ItemText) -> str:
    return validation.clean_text(item_text.source_id)[:LONGEST_NAME].strip()


def _to_name(text: str) -> str:
    return validation.clean_text(text)[:LONGEST_NAME].strip() or "unnamed"
