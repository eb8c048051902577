"""Capability, toolset and message history for Pydantic AI.

`MemoryCapability` gives an agent the tools of a memory, adds what is remembered to the instructions of a run,
and records the exchange. `load_history` returns the messages of a session. Everything runs on worker threads.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from reverie.aio import AsyncSession
from reverie.domain.conversation import Turn
from reverie.domain.errors import MissingExtra
from reverie.domain.text import validation
from reverie.domain.text.json_values import to_json_value
from reverie.integrations import core
from reverie.session import Session
from reverie.tools import Tool, Toolset

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.tools import ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
    from pydantic_core import PydanticSerializationError, SchemaValidator, ValidationError, core_schema
except ImportError:
    raise MissingExtra(
        "a Pydantic AI agent's memory needs pydantic-ai-slim 2 or newer: pip install 'reverie[pydantic-ai]'"
    ) from None

if TYPE_CHECKING:
    from pydantic_ai.run import AgentRunResult

_log = logging.getLogger("reverie")

_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
_OUTPUT = "final_result"
_RETRIES = 2


# -- tools -----------------------------------------------------------------------------------------------


class MemoryToolset(AbstractToolset[Any]):
    """Toolset for Pydantic AI: `Agent(toolsets=[MemoryToolset(memory.tools())])`.

    Each tool keeps its own schema. A wrong call is answered with a retry prompt, so that the model can correct
    itself, and the last time with the tool's answer, so that the run does not fail. The metadata of a tool's
    definition say whether it `reads_only`, is `destructive` or `idempotent`.
    """

    def __init__(
        self, tools: Toolset | Iterable[Tool], *, id: str | None = "reverie", max_retries: int = _RETRIES
    ) -> None:
        """Create a toolset.

        Args:
            tools: The tools, such as `memory.tools(session="telegram:1")`.
            id: The toolset's name, for agents that have several.
            max_retries: How often a model may correct a call, 0 or more.
        """
        self.tools = tools if isinstance(tools, Toolset) else Toolset(tools)
        self._id = id
        self._max_retries = max_retries

    @property
    def id(self) -> str | None:
        """Name of the toolset."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools by name."""
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=_build_tool_definition(tool),
                max_retries=self._max_retries,
                args_validator=_OBJECT,
            )
            for tool in self.tools
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run a tool on a worker thread, and return its sentence."""
        ours = self.tools.tool(name)
        seen = [] if ours.reads_only else _extract_texts(ctx.messages)
        result = await asyncio.to_thread(core.call_tool, self.tools, name, tool_args, seen=seen)
        if result.failed and ctx.retry < tool.max_retries:
            raise ModelRetry(result.text)
        return result.text


def _build_tool_definition(tool: Tool) -> ToolDefinition:
    marks = ("reads_only", "destructive", "idempotent")
    return ToolDefinition(
        name=tool.name,
        description=tool.spec.description,
        parameters_json_schema=to_json_value(tool.spec.parameters),
        sequential=not tool.reads_only,
        metadata={name: getattr(tool, name) for name in marks},
    )


# -- the capability --------------------------------------------------------------------------------------


class MemoryCapability(AbstractCapability[Any]):
    """Memory of an agent: `Agent(capabilities=[MemoryCapability(memory, session="telegram:1")])`.

    In each run the model has the tools of the memory, and the pack for the user's prompt in its instructions. When
    the run ends, the pack is removed from the messages, so that it is neither stored nor taken for a message. The
    exchange (the prompt, calls with their results, the reply) is recorded in the session. If the memory fails or is
    slow, a warning is logged, and the run continues without it.
    """

    def __init__(
        self,
        memory: core.AnyMemory | Callable[[RunContext[Any]], core.AnyMemory],
        *,
        session: str | Callable[[RunContext[Any]], str],
        inject: bool = True,
        record: bool = True,
        **options: Unpack[core.ConversationOptions],
    ) -> None:
        """Create the capability.

        Args:
            memory: The memory, or what `scoped` gives; or a function that gives it for a run, such as
                `lambda ctx: memory.scoped(f"user:{ctx.deps.user}")`.
            session: The conversation's id, such as `telegram:1`; or a function that gives it for a run.
            inject: Whether what is remembered goes into the instructions.
            record: Whether the exchange is recorded.
            **options: Further options; see `ConversationOptions`.
        """
        self._memory = memory
        self._session = session
        self._inject = inject
        self._record = record
        self._options = options
        self._conversation: core.Conversation | None = None
        self._tools: Toolset | None = None
        self._injected: str | None = None

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it holds a memory, and cannot be made from a specification."""
        return None

    async def for_run(self, ctx: RunContext[Any]) -> MemoryCapability:
        """Return the capability of one run, with its session opened."""
        memory = self._memory(ctx) if callable(self._memory) else self._memory
        session = self._session(ctx) if callable(self._session) else self._session
        own = copy.copy(self)
        own._injected = None
        conversation = own._conversation = core.Conversation(memory, session, **self._options)
        own._tools = core.call_safely(lambda: conversation.tools, "opened")
        return own

    def get_toolset(self) -> AbstractToolset[Any] | None:
        """Return the tools of the run; None before it."""
        return MemoryToolset(self._tools) if self._tools else None

    def get_instructions(self) -> Any:
        """Return the builder of the instructions of the run; None before it."""
        return self._build_instructions if self._conversation is not None and self._inject else None

    async def _build_instructions(self, ctx: RunContext[Any]) -> str:
        """Return what is remembered for the prompt of the run, the same at each of its steps."""
        if self._injected is None and self._conversation is not None:
            said = core.find_question(_extract_texts(ctx.messages))
            asked = said if ctx.prompt is None else _extract_text(ctx.prompt)
            self._injected = await self._conversation.recall_async(asked)
        return self._injected or ""

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Remove what was injected, and record the exchange."""
        self._take_out(result.all_messages())
        if (conversation := self._conversation) is not None and self._record:
            items = _build_run_items(result.new_messages(), _make_output_check(ctx))
            await conversation.change_async(lambda session: _open_items(session).add(items))
        return result

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> AgentRunResult[Any]:
        """Remove what was injected. A failed run is not recorded."""
        self._take_out(ctx.messages)
        raise error

    def _take_out(self, messages: Iterable[ModelMessage]) -> None:
        for message in messages:
            if isinstance(message, ModelRequest) and self._injected and message.instructions:
                message.instructions = message.instructions.replace(self._injected, "").strip() or None


def _make_output_check(ctx: RunContext[Any]) -> Callable[[str], bool]:
    """Return a predicate for names of tools by which the model gives the result of the run."""
    known = {} if ctx.tool_manager is None or ctx.tool_manager.tools is None else ctx.tool_manager.tools
    names = {name for name, tool in known.items() if tool.tool_def.kind == "output"}
    return lambda name: name in names or (name not in known and name.startswith(_OUTPUT))


# -- messages --------------------------------------------------------------------------------------------


def load_history(
    session: Session | AsyncSession, *, limit: int | None = None, everything: bool = False
) -> list[ModelMessage]:
    """Return the messages of a session without loss, for `message_history`.

    Turns of another origin (another framework, the command line) are among them, as plain messages. They begin with
    a message of the user, and every call has its results.

    Args:
        session: The session.
        limit: Most turns of the window, but at least the last exchange; None takes the setting, 20.
        everything: Whether to return all messages since the conversation was reset instead, without a limit.
    """
    plain = session.sync if isinstance(session, AsyncSession) else session
    items = _open_items(plain)
    if everything:
        return _build_messages(items.get())
    recent = _build_messages(items.of(plain.recent_turns(limit)))
    if starts := _find_questions(recent):
        return recent[starts[0] :]
    window = _build_messages(items.of(plain.turns())) if recent else []  # a long exchange is not torn
    starts = _find_questions(window)
    return window[starts[-1] :] if starts else []


def add_messages(session: Session | AsyncSession, messages: Sequence[ModelMessage]) -> list[Turn]:
    """Record messages, such as `result.new_messages()`, in a session, as `MemoryCapability` does after each run.

    Instructions are not recorded, because an agent sends them again in each run.

    Args:
        session: The session.
        messages: The messages, in their order.

    Returns:
        The turns that they are.
    """
    plain = session.sync if isinstance(session, AsyncSession) else session
    return _open_items(plain).add(_build_run_items(messages, lambda name: name.startswith(_OUTPUT)))


def _open_items(session: Session) -> core.MessageItems:
    return core.MessageItems(session, extract=_extract_content, items_of=_build_turn_items)


def _build_run_items(
    messages: Sequence[ModelMessage], is_output: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """Return the messages as items, one for each part."""
    items: list[dict[str, Any]] = []
    for message in messages:
        try:
            [document] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
        except (PydanticSerializationError, ValueError) as error:
            _log.warning("a message of Pydantic AI cannot be recorded: %s", error)
            continue
        parts = document.pop("parts")
        document.pop("instructions", None)
        mark = secrets.token_hex(4)
        for part, written in zip(message.parts, parts, strict=True):
            item = {"message": mark, "of": document, "part": written}
            if isinstance(part, ToolCallPart | ToolReturnPart) and is_output(part.tool_name):
                item["output"] = True
            items.append(item)
    return items


def _extract_texts(messages: Sequence[ModelMessage]) -> list[core.ItemText]:
    """Return the texts of the messages of a run."""
    items = _build_run_items(messages, lambda called: False)
    return [text for item in items if (text := _extract_content(item)) is not None]


def _extract_content(item: Any) -> core.ItemText | None:
    """Return the text of an item; None for an item without text, such as a model's thinking."""
    part, is_output = item["part"], item.get("output", False)
    match part.get("part_kind"):
        case "user-prompt":
            return core.ItemText(role="user", content=_extract_text(part["content"]))
        case "text":
            return core.ItemText(role="assistant", content=part["content"])
        case "tool-call":
            call = core.build_call(part["tool_call_id"], part["tool_name"], part.get("args"))
            if is_output:
                return core.ItemText(role="assistant", content=call.arguments)
            return core.ItemText(role="assistant", content="", call=call)
        case "tool-return" | "retry-prompt" if part.get("tool_name") and not is_output:
            content = core.to_text(part["content"])
            return core.ItemText(role="tool", content=content, answers=part["tool_call_id"])
        case _:
            return None


def _build_messages(items: Iterable[Any]) -> list[ModelMessage]:
    """Return the messages of items, joining those of one mark."""
    documents: dict[str, dict[str, Any]] = {}
    for item in items:
        if isinstance(item, dict) and "part" in item:
            document = documents.setdefault(item["message"], {**item["of"], "parts": []})
            document["parts"].append(item["part"])
    found: list[ModelMessage] = []
    for document in documents.values():
        try:
            found += ModelMessagesTypeAdapter.validate_python([document])
        except ValidationError as error:
            _log.warning("a message of Pydantic AI cannot be read any more: %s", error)
    return found


def _build_turn_items(turn: Turn) -> list[dict[str, Any]]:
    """Return the items of a turn that did not come from Pydantic AI."""
    parts: list[Any]
    if turn.role == "assistant":
        text_parts = [TextPart(content=turn.content)] if turn.content else []
        calls = [
            ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id)
            for call in turn.tool_calls
        ]
        parts = [*text_parts, *calls]
        message: ModelMessage = ModelResponse(parts=parts, timestamp=turn.at)
    elif turn.role == "tool":
        answer = ToolReturnPart(
            tool_name="tool", content=turn.content, tool_call_id=turn.tool_call_id, timestamp=turn.at
        )
        message = ModelRequest(parts=[answer])
    else:
        content = turn.content if turn.role == "user" else f"[{turn.role}] {turn.content}"
        message = ModelRequest(parts=[UserPromptPart(content=content, timestamp=turn.at)])
    return _build_run_items([message], lambda name: False)


def _find_questions(messages: Sequence[ModelMessage]) -> list[int]:
    """Return the positions of the user's messages; one that answers calls too is none."""
    kinds = [{part.part_kind for part in message.parts} for message in messages]
    own = {"user-prompt", "system-prompt"}
    return [index for index, each in enumerate(kinds) if "user-prompt" in each and each <= own]


def _extract_text(content: object) -> str:
    """Return the text of a prompt: a string, or parts as objects or as JSON."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    return validation.clean_text("\n".join(map(_extract_part_text, content)))


def _extract_part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    fields = part if isinstance(part, Mapping) else vars(part)
    kind, text = fields.get("kind", "part"), fields.get("content")
    return text if isinstance(text, str) else f"[{kind}]"


__all__ = ["MemoryCapability", "MemoryToolset", "add_messages", "load_history"]
