"""One turn of an agent: context, model, tools, storing.

The order matters. The user's turn is stored before the model is asked, so that it is not lost with the process. A
failure of the memory is a warning, and the reply is returned all the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reverie.context.pack import Pack
from reverie.domain.conversation import ToolCall, Turn
from reverie.domain.errors import InvalidInput, ModelError, ReverieError, StoreError, quote_value
from reverie.domain.text import escaping, validation
from reverie.domain.text.json_values import to_json_object
from reverie.llm.protocol import (
    Answering,
    ChatMessage,
    Model,
    ModelReply,
    ModelRequest,
    OnText,
    TokenUsage,
    resolve_model,
)
from reverie.repositories.wishes import WishResult
from reverie.session import Session
from reverie.stores.telemetry import ask_model
from reverie.tools import Tool, Toolset
from reverie.tools.large_results import LargeResultStore, add_working_tools

if TYPE_CHECKING:
    from reverie.scoped import ScopedMemory

_log = logging.getLogger("reverie")

MOST_ROUNDS = 8
"""Maximum rounds of tool calls in one turn before the model has to answer."""

LONGEST_REPLAYED = 40_000
"""Characters that a past message takes in a prompt; a longer one is shown by its two ends."""

STOPPED = "[stopped]"

_MOST_TOKENS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """Result of one turn.

    Attributes:
        text: The reply; empty where there was none.
        pack: The part of the memory that the model saw; None if the memory could not be read.
        rounds: The number of requests to the model.
        calls: The tools that were called, in order.
        usage: The tokens that it cost.
        problem: Why there is no reply; empty when there is one.
        turn_id: The id of the stored reply, such as for `Session.feedback`; empty if none was stored.
        unsaved: Whether something of this turn could not be stored.
        wishes: What became of what the message asks of the memory: to remember, to forget, not to record.
    """

    text: str
    pack: Pack | None = None
    rounds: int = 0
    calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    problem: str = ""
    turn_id: str = ""
    unsaved: bool = False
    wishes: tuple[WishResult, ...] = ()


class Agent:
    """One conversation with a model that remembers. One turn at a time; `stop` may come from any thread."""

    def __init__(
        self,
        session: Session,
        *,
        model: Model | Answering | str | None,
        tools: Sequence[Tool] | None = None,
        memory: ScopedMemory | None = None,
        instructions: str = "",
        done: Callable[[], None] = lambda: None,
        related: Callable[[str], str] | None = None,
        most_tokens: int = _MOST_TOKENS,
        timeout_s: float = 120.0,
    ) -> None:
        """Converse in a session.

        Args:
            session: The conversation.
            model: The model that answers: `provider:model`, a `reverie.llm.Model`, or a function from a
                `ModelRequest` to text. With None no turn has an answer.
            tools: The tools that the model may call; None takes those that `memory` has for this session. A result of
                over 5,000 estimated tokens is put into the session's working memory, and the tools that read it there
                are added if they are missing.
            memory: The memory, or a scope of one, that the session belongs to, for its tools. The background thinking
                of a whole memory starts with the first turn.
            instructions: Text before everything else in the prompt.
            done: Called after a turn, such as to wake background work.
            related: Returns what another memory has about a redacted message, such as
                `reverie.integrations.lightrag.LightRAG.recall`; it is quoted last in the prompt. It must be quick and
                not raise.
            most_tokens: Largest number of tokens of an answer.
            timeout_s: Longest time for an answer, in seconds.
        """
        self.session = session
        self.model = resolve_model(model)
        if tools is None:
            tools = memory.tools(session=session.id) if memory is not None else ()
        self.tools, prefix = add_working_tools(Toolset(tools), session.working)
        self._results = LargeResultStore(session.working, prefix=prefix)
        self._instructions = instructions
        self._done = done
        self._related = related
        self._most_tokens = most_tokens
        self._timeout_s = timeout_s
        self._stopping = threading.Event()
        self._unsaved = False
        self._dreams = getattr(memory, "dreams", None)  # a scope of a memory has none

    def stop(self) -> None:
        """End the present turn.

        No more text is passed on, no tool called and no request made. The text passed on so far is stored as the reply.
        """
        self._stopping.set()

    def turn(self, message: str, *, on_text: OnText | None = None) -> TurnResult:
        """Answer a message.

        Args:
            message: The user's message.
            on_text: Receives each piece of the reply as it arrives.

        Raises:
            InvalidInput: the message is empty; nothing was stored.
        """
        if not isinstance(message, str) or not validation.clean_text(message).strip():
            raise InvalidInput("message is empty: pass some text")
        message = validation.to_storable(message)
        self._stopping.clear()
        self._unsaved = False
        stored = self._store({"role": "user", "content": message}, ignored=StoreError)
        wishes = self.session.wishes if stored else ()
        pack = self._pack(message)
        messages = self._build_messages(pack, message, wishes)
        answer = TurnResult(text="", problem="no model is set")
        if self.model is not None:
            answer = self._run_tool_loop(self.model, messages, on_text)
            if self._dreams is not None:
                self._dreams.start()  # a second call does nothing
            self._done()
        return replace(answer, pack=pack, unsaved=self._unsaved, wishes=wishes)

    def prompt(self, message: str) -> list[ChatMessage]:
        """Return what the model would be asked for a new message. Nothing is stored.

        Args:
            message: The message.
        """
        if not isinstance(message, str):
            raise InvalidInput(f"message is {quote_value(message)}: pass text")
        return self._build_messages(self._pack(message, record_shown=False), message)

    # -- one turn ----------------------------------------------------------------------------------------

    def _pack(self, message: str, *, record_shown: bool = True) -> Pack | None:
        try:
            related = "" if self._related is None else self._related(self.session.redact_text(message))
            return self.session.context(message, record_shown=record_shown, extra_context=related)
        except ReverieError as error:
            _log.warning("the memory could not be read for this turn, the reply goes on without: %s", error)
            return None

    def _build_messages(
        self, pack: Pack | None, message: str, wishes: Sequence[WishResult] = ()
    ) -> list[ChatMessage]:
        # The model says it to the user, and saves nothing twice.
        done = [f"The memory has done this for the user's message: {each.describe()}" for each in wishes]
        parts = (self._instructions, pack.text if pack is not None else "", *map(escaping.escape_line, done))
        system = "\n\n".join(filter(None, parts))
        messages = [ChatMessage(role="system", content=system)] if system else []
        replayed = [_parse_message(each) for each in pack.messages] if pack is not None else []
        last = replayed[-1] if replayed else None
        stored = escaping.escape_message(self.session.redact_text(message))
        if last is not None and (last.role, last.content) == ("user", stored):
            replayed.pop()
        replayed = [_truncate_message(each) for each in replayed]
        # Not redacted: the user may tell the model secrets, which are not stored.
        replayed.append(ChatMessage(role="user", content=escaping.escape_message(message)))
        return [*messages, *replayed]

    def _run_tool_loop(self, model: Model, messages: list[ChatMessage], on_text: OnText | None) -> TurnResult:
        """Ask, call tools, ask again, until there is an answer."""
        calls: list[ToolCall] = []
        usage = TokenUsage()
        for number in range(1, MOST_ROUNDS + 1):
            tools = self.tools.specs if number < MOST_ROUNDS else ()
            ask = ModelRequest(
                messages=tuple(messages),
                purpose="turn",
                tools=tools,
                max_tokens=self._most_tokens,
                temperature=None,
                timeout_s=self._timeout_s,
            )
            relay = _TextRelay(on_text, self._stopping)
            try:
                reply = ask_model(
                    self.session._settings, model, ask, on_text=None if on_text is None else relay
                )
            except ModelError as error:
                return TurnResult(text="", rounds=number, calls=tuple(calls), usage=usage, problem=str(error))
            except (_StoppedError, KeyboardInterrupt) as error:
                text = " ".join(filter(None, [relay.text.rstrip(), STOPPED]))
                name = self._store_reply(text)
                if isinstance(error, KeyboardInterrupt):
                    raise
                return TurnResult(text=text, rounds=number, calls=tuple(calls), usage=usage, turn_id=name)
            finally:
                relay.close()
            usage += reply.usage
            if not reply.tool_calls or not tools or self._stopping.is_set():
                said = reply.text if reply.text.strip() else ""
                text = said or (STOPPED if self._stopping.is_set() else "")
                problem = "" if text else "the model gave an empty answer"
                return TurnResult(
                    text=text,
                    rounds=number,
                    calls=tuple(calls),
                    usage=usage,
                    problem=problem,
                    turn_id=self._store_reply(text) if text else "",
                )
            calls += reply.tool_calls
            messages += self._call(reply)
        raise AssertionError("unreachable: the last round has no tools")

    def _call(self, reply: ModelReply) -> list[ChatMessage]:
        """Call the tools that a reply asks for; the call and its results are stored together."""
        results = []
        for call in reply.tool_calls:
            said = STOPPED if self._stopping.is_set() else self._run(call)
            shown = escaping.escape_message(self.session.redact_text(said))
            results.append(ChatMessage(role="tool", content=shown, tool_call_id=call.id))
        answered = (to_json_object(each, "role", "content", "tool_call_id") for each in results)
        self._store({"role": "assistant", "content": reply.text, "tool_calls": reply.tool_calls}, *answered)
        return [ChatMessage(role="assistant", content=reply.text, tool_calls=reply.tool_calls), *results]

    def _store_reply(self, text: str) -> str:
        """Store a reply and return its id; empty if it cannot be stored."""
        stored = self._store({"role": "assistant", "content": text})
        return stored[0].id if stored else ""

    def _store(self, *turns: Mapping[str, Any], ignored: type[ReverieError] = ReverieError) -> list[Turn]:
        """Store turns, all of them or none. An error of a type to be ignored is a warning and does not end the turn."""
        try:
            return self.session.add_many(turns)
        except ignored as error:
            _log.warning("a turn could not be stored, the reply goes on: %s", error)
            self._unsaved = True
            return []

    def _run(self, call: ToolCall) -> str:
        """Run a tool and return its answer; of an answer that is too long, an index of its stored pieces."""
        try:
            answer = self.tools.call(call.name, call.arguments)
        except StoreError as error:
            _log.warning("the tool %s could not be run, the reply goes on: %s", call.name, error)
            return f"{call.name} could not be run: what it needs cannot be read or written now."
        return self._results.shorten_result(answer, name=call.name).text


class _StoppedError(Exception):
    """The turn was stopped while the answer was arriving."""


class _TextRelay:
    """Relay of the pieces of one answer, until the answer ends or the turn is stopped.

    An abandoned connection may deliver pieces for a while; refusing them ends it.
    """

    def __init__(self, on_text: OnText | None, stopping: threading.Event) -> None:
        self._on_text = on_text
        self._stopping = stopping
        self._is_closed = False
        self.text = ""

    def __call__(self, piece: str) -> None:
        if self._is_closed or self._stopping.is_set():
            raise _StoppedError
        self.text += piece
        if self._on_text is not None:
            self._on_text(piece)

    def close(self) -> None:
        """Refuse all further pieces."""
        self._is_closed = True


def _truncate_message(message: ChatMessage) -> ChatMessage:
    """Return the message; of a very long one, which would fill every prompt, its middle is left out."""
    left_out = len(message.content) - LONGEST_REPLAYED
    if left_out <= 0:
        return message
    half = LONGEST_REPLAYED // 2
    note = f"[… {left_out:,} characters are left out here; search_conversation_history finds them]"
    return replace(message, content=f"{message.content[:half]}\n{note}\n{message.content[-half:]}")


def _parse_message(given: dict[str, Any]) -> ChatMessage:
    """Return a replayed message of the pack, which has the form of chat APIs, as a `ChatMessage`."""
    made = tuple(
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in given.get("tool_calls") or ()
    )
    return ChatMessage(
        role=given["role"],
        content=str(given.get("content") or ""),
        tool_calls=made,
        tool_call_id=str(given.get("tool_call_id") or ""),
    )
