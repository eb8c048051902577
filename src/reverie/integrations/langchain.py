"""Middleware for LangChain agents: `create_agent(model, middleware=[MemoryMiddleware(memory)])`.

Before a run, what is remembered for the user's message is added to the system message of each call of the model. After
it, the messages of the run become turns. Neither changes the agent's own messages. The tools of the memory are among
the agent's tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Unpack

from reverie.domain.errors import MissingExtra
from reverie.domain.text.json_values import to_json_value
from reverie.integrations import core
from reverie.tools import Tool, Toolset

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.tools import BaseTool, StructuredTool
    from langgraph.config import get_config
    from langgraph.prebuilt.tool_node import ToolCallRequest
    from langgraph.runtime import Runtime
    from langgraph.types import Command
except ImportError:
    raise MissingExtra(
        "a LangChain agent's memory needs langchain 1.2.15 or newer: pip install 'reverie[langchain]'"
    ) from None


class MemoryState(AgentState[Any]):
    """State of an agent, with the context of the present run.

    Attributes:
        reverie_context: What is remembered for the user's message.
    """

    reverie_context: NotRequired[Annotated[str, PrivateStateAttr]]


class MemoryMiddleware(AgentMiddleware[MemoryState, Any, Any]):
    """Memory of a LangChain agent. One instance serves any number of threads at once.

    A memory that fails or is slow costs a warning in the log, and the run goes on without it.

    Attributes:
        state_schema: The state that it adds.
        tools: The tools that it adds.
    """

    state_schema = MemoryState

    def __init__(
        self,
        memory: core.AnyMemory,
        *,
        session: str | Callable[[], str] | None = None,
        inject: bool = True,
        record: bool = True,
        **options: Unpack[core.ConversationOptions],
    ) -> None:
        """Create the middleware.

        Args:
            memory: The memory, or a scope of one.
            session: The id of the session, or a function that returns it in a run; None takes
                `langchain:` and the `thread_id` of the run's configuration.
            inject: Whether what is remembered is added to the system message.
            record: Whether the messages are recorded.
            **options: Further options; see `ConversationOptions`.
        """
        super().__init__()
        self._memory = core.to_sync(memory)
        self._session = session
        self._inject = inject
        self._record = record
        self._options = options
        tools = options.get("tools")
        self.tools: Sequence[BaseTool] = [
            _build_tool(each) for each in (self._memory.tools() if tools is None else tools)
        ]
        self._tool_names = {each.name for each in self.tools}

    def before_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Put what is remembered for the user's message into the state."""
        if not self._inject:
            return None
        return {
            "reverie_context": self._open().recall(core.find_question(convert_messages(state["messages"])))
        }

    async def abefore_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do what `before_agent` does, on a worker thread."""
        if not self._inject:
            return None
        question = core.find_question(convert_messages(state["messages"]))
        return {"reverie_context": await self._open().recall_async(question)}

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model with what is remembered in its system message."""
        return handler(_add_context(request))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Do what `wrap_model_call` does."""
        return await handler(_add_context(request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Run a tool of the memory, which sees what the model has seen; leave others to `handler`."""
        if request.tool_call["name"] not in self._tool_names:
            return handler(request)
        return self._call_tool(request, self._open())

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """Do what `wrap_tool_call` does, on a worker thread."""
        if request.tool_call["name"] not in self._tool_names:
            return await handler(request)
        return await asyncio.to_thread(self._call_tool, request, self._open())

    def _call_tool(self, request: ToolCallRequest, conversation: core.Conversation) -> ToolMessage:
        call, seen = request.tool_call, convert_messages(request.state["messages"])
        result = core.call_tool(lambda: conversation.tools, call["name"], call["args"], seen=seen)
        status: Literal["success", "error"] = "error" if result.failed else "success"
        return ToolMessage(result.text, tool_call_id=call["id"], name=call["name"], status=status)

    def after_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Record the messages that are not recorded yet."""
        if self._record:
            self._open().record(convert_messages(state["messages"]))
        return None

    async def aafter_agent(self, state: MemoryState, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Do what `after_agent` does, on a worker thread."""
        if self._record:
            await self._open().record_async(convert_messages(state["messages"]))
        return None

    def _open(self) -> core.Conversation:
        """Return the conversation of the present run."""
        session = self._session() if callable(self._session) else self._session
        if session is None:
            thread = get_config().get("configurable", {}).get("thread_id", "default")
            session = f"langchain:{thread}"
        return core.Conversation(self._memory, session, **self._options)


def _build_tool(tool: Tool) -> BaseTool:
    """Return the tool as LangChain describes it to the model; `wrap_tool_call` runs it."""

    def run(**arguments: Any) -> str:
        return core.call_tool(Toolset([tool]), tool.name, arguments).text

    return StructuredTool.from_function(
        run,
        name=tool.name,
        description=tool.spec.description,
        args_schema=to_json_value(tool.spec.parameters),
    )


def convert_messages(messages: Iterable[AnyMessage]) -> list[core.ItemText]:
    """Return the texts of messages: of users, of the model with its calls, and of tools."""
    found: list[core.ItemText] = []
    for message in messages:
        name = message.id or ""
        if isinstance(message, HumanMessage):
            found += core.build_texts("user", message.content, source_id=name)
        elif isinstance(message, AIMessage):
            calls = [
                core.build_call(call.get("id"), call["name"], call["args"]) for call in message.tool_calls
            ]
            found += core.build_texts("assistant", message.content, calls=calls, source_id=name)
        elif isinstance(message, ToolMessage):
            answers = message.tool_call_id
            found += core.build_texts("tool", message.content, answers=answers, source_id=name)
    return found


def _add_context(request: ModelRequest[Any]) -> ModelRequest[Any]:
    """Return a request with the context of the run behind its system message."""
    state: Mapping[str, Any] = request.state
    if not (context := state.get("reverie_context")):
        return request
    system = request.system_message
    before = (
        [] if system is None else system.content if isinstance(system.content, list) else [system.content]
    )
    blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in before]
    return request.override(system_message=SystemMessage([*blocks, {"type": "text", "text": context}]))
