"""Context provider for Microsoft's Agent Framework: `Agent(client, context_providers=[ReverieProvider(memory)])`.

Before a run, what is remembered for the user's message is added to the instructions, and the tools of the memory to
the tools. After it, the messages of the run become turns of the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from reverie.domain.errors import MissingExtra
from reverie.domain.text.json_values import to_json_value
from reverie.integrations import core
from reverie.tools import Tool

try:
    from agent_framework import (
        AgentSession,
        ContextProvider,
        FunctionInvocationContext,
        FunctionMiddleware,
        FunctionTool,
        Message,
        SessionContext,
        SupportsAgentRun,
    )
except ImportError:
    raise MissingExtra(
        "a context provider needs agent-framework-core 1.5 or newer: pip install 'reverie[agent-framework]'"
    ) from None


class ReverieProvider(ContextProvider):
    """Memory of an agent. One provider serves any number of sessions at once.

    A memory that fails or is slow costs a warning in the log, and the run goes on without it.
    """

    def __init__(
        self,
        memory: core.AnyMemory,
        *,
        session: str | Callable[[AgentSession], str] | None = None,
        inject: bool = True,
        record: bool = True,
        source_id: str = "reverie",
        **options: Unpack[core.ConversationOptions],
    ) -> None:
        """Create the provider.

        Args:
            memory: The memory, or a scope of one.
            session: The id of the session, or a function that returns it for the framework's; None takes
                `agent-framework:` and the id of the framework's session.
            inject: Whether what is remembered is added to the instructions.
            record: Whether the messages are recorded.
            source_id: Name of the provider among others.
            **options: Further options; see `ConversationOptions`.
        """
        super().__init__(source_id)
        self._session = session
        tools = options.get("tools")
        self._tools = list(core.to_sync(memory).tools() if tools is None else tools)
        self._inject = inject
        self._record = record
        self._memory = memory
        self._options = options

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Add the memories that are recalled to the instructions, and the tools of the memory."""
        conversation = self._open(session)
        said = [text for message in context.input_messages for text in convert_message(message)]
        if self._inject and (remembered := await conversation.recall_async(core.find_question(said))):
            context.extend_instructions(self.source_id, remembered)
        if self._tools:
            context.extend_tools(
                self.source_id, [_build_tool(each, conversation, said) for each in self._tools]
            )
            context.extend_middleware(self.source_id, _ResultWatcher(said))

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Record the messages of the run."""
        if self._record:
            answered = context.response.messages if context.response is not None else []
            messages = [*context.input_messages, *(answered or [])]
            texts = [text for message in messages for text in convert_message(message)]
            await self._open(session).record_async(texts)

    def _open(self, session: AgentSession) -> core.Conversation:
        name = self._session(session) if callable(self._session) else self._session
        name = name or f"agent-framework:{session.session_id}"
        return core.Conversation(self._memory, name, **self._options)


class _ResultWatcher(FunctionMiddleware):
    """Note the results of tools in a run, for the origin of what the model saves after it."""

    def __init__(self, seen: list[core.ItemText]) -> None:
        self._seen = seen

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """Call the tool, and note its result."""
        await call_next()
        call_id = f"{context.function.name}:{len(self._seen)}"
        call = core.build_call(call_id, context.function.name, "{}")
        self._seen.append(core.ItemText(role="assistant", content="", call=call))
        self._seen.append(core.ItemText(role="tool", content=_to_text(context.result), answers=call_id))


def _build_tool(tool: Tool, conversation: core.Conversation, seen: list[core.ItemText]) -> FunctionTool:
    """Return a tool for one run. A wrong call is answered to the model with a sentence.

    Args:
        seen: What the model has seen in the run, which grows meanwhile.
    """

    async def run(**arguments: Any) -> str:
        result = await asyncio.to_thread(
            core.call_tool, lambda: conversation.tools, tool.name, arguments, seen=[*seen]
        )
        return result.text

    parameters = to_json_value(tool.spec.parameters)
    return FunctionTool(name=tool.name, description=tool.spec.description, func=run, input_model=parameters)


def convert_message(message: Message) -> list[core.ItemText]:
    """Return the texts of a message: what is said, calls of tools, and their results."""
    role = str(message.role)
    name = message.message_id or ""
    if role == "user":
        return core.build_texts("user", message.text, source_id=name)
    calls = [
        core.build_call(each.call_id, each.name, each.arguments)
        for each in message.contents
        if each.type == "function_call"
    ]
    said = (
        core.build_texts("assistant", message.text, calls=calls, source_id=name)
        if role == "assistant"
        else []
    )
    for number, each in enumerate(message.contents):
        if each.type == "function_result":
            source_id = f"{name}:r{number}" if name else ""
            said += core.build_texts(
                "tool", _to_text(each.result), answers=each.call_id or "call", source_id=source_id
            )
    return said


def _to_text(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(getattr(each, "text", None) or _to_text(each) for each in value)
    return core.to_text(value)
