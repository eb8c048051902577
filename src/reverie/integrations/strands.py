"""Hooks for Strands agents: `Agent(hooks=[memory_hooks := ReverieHooks(memory)], tools=memory_hooks.tools)`.

Before a request, what is remembered for the user's message is added to the system prompt, and removed after it. Each
message becomes a turn when the agent adds it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Unpack
from weakref import WeakKeyDictionary

from reverie.domain.conversation import Role
from reverie.domain.errors import MissingExtra
from reverie.domain.text.json_values import to_json_value
from reverie.integrations import core
from reverie.tools import Tool, Toolset

try:
    from strands import Agent
    from strands.hooks import (
        AfterInvocationEvent,
        BeforeInvocationEvent,
        HookProvider,
        HookRegistry,
        MessageAddedEvent,
    )
    from strands.tools.tools import PythonAgentTool
    from strands.types.content import Message
    from strands.types.tools import ToolResult, ToolUse
except ImportError:
    raise MissingExtra(
        "a Strands agent's memory needs strands-agents 1.20 or newer: pip install 'reverie[strands]'"
    ) from None


class ReverieHooks(HookProvider):
    """Memory of the agents of one session.

    A memory that fails costs a warning in the log, and the agent goes on without it.

    Attributes:
        tools: The tools of the memory, for `Agent(tools=…)`.
    """

    def __init__(
        self,
        memory: core.AnyMemory,
        *,
        session: str,
        inject: bool = True,
        record: bool = True,
        **options: Unpack[core.ConversationOptions],
    ) -> None:
        """Create the hooks.

        Args:
            memory: The memory, or a scope of one.
            session: The id of the session, such as `telegram:1`.
            inject: Whether what is remembered is added to the system prompt.
            record: Whether the messages are recorded.
            **options: Further options; see `ConversationOptions`.
        """
        self._conversation = core.Conversation(memory, session, **options)
        self._inject = inject
        self._record = record
        self._prompts = WeakKeyDictionary[Agent, tuple[Any]]()
        self._lock = threading.Lock()
        self.tools = tools_for(self._conversation.tools)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Register the callbacks, as Strands asks for it."""
        registry.add_callback(BeforeInvocationEvent, self._restore_prompt)
        registry.add_callback(MessageAddedEvent, self._on_message)
        registry.add_callback(AfterInvocationEvent, self._restore_prompt)

    def _on_message(self, event: MessageAddedEvent) -> None:
        """Record a message; before a message of the user, add what is remembered for it."""
        texts = convert_message(event.message)
        question = core.find_question(texts)
        if self._inject and question is not None:
            self._add_context(event.agent, self._conversation.recall(question))
        if self._record:
            self._conversation.record(texts)

    def _add_context(self, agent: Any, context: str) -> None:
        self._restore(agent)
        if not context:
            return
        before = agent.system_prompt
        with self._lock:
            self._prompts[agent] = (before,)
        agent.system_prompt = "\n\n".join(part for part in (before, context) if part)

    def _restore_prompt(self, event: BeforeInvocationEvent | AfterInvocationEvent) -> None:
        self._restore(event.agent)

    def _restore(self, agent: Any) -> None:
        with self._lock:
            before = self._prompts.pop(agent, None)
        if before is not None:
            agent.system_prompt = before[0]


def tools_for(tools: Toolset | Iterable[Tool]) -> list[PythonAgentTool]:
    """Convert tools for Strands. A wrong call is answered to the model with a sentence.

    Args:
        tools: The tools, such as `memory.tools(session="telegram:1")`.
    """
    toolset = tools if isinstance(tools, Toolset) else Toolset(tools)

    def make(tool: Tool) -> PythonAgentTool:
        def run(use: ToolUse, **_: Any) -> ToolResult:
            result = core.call_tool(toolset, tool.name, use["input"])
            status: Any = "error" if result.failed else "success"
            return {"toolUseId": use["toolUseId"], "status": status, "content": [{"text": result.text}]}

        schema = {"json": to_json_value(tool.spec.parameters)}
        spec: Any = {"name": tool.name, "description": tool.spec.description, "inputSchema": schema}
        return PythonAgentTool(tool.name, spec, run)

    return [make(tool) for tool in toolset]


def convert_message(message: Message) -> list[core.ItemText]:
    """Return the texts of a message: what is said, calls of tools, and their results."""
    blocks: list[Any] = list(message["content"])
    texts: list[core.ItemText] = []
    for block in blocks:
        if (result := block.get("toolResult")) is not None:
            texts += core.build_texts("tool", _extract_result(result["content"]), answers=result["toolUseId"])
    calls = [
        core.build_call(use["toolUseId"], use["name"], use["input"])
        for block in blocks
        if (use := block.get("toolUse")) is not None
    ]
    said = [block for block in blocks if "text" in block]
    role: Role = "assistant" if message["role"] == "assistant" else "user"
    return texts + core.build_texts(role, said, calls=calls)


def _extract_result(content: list[Any]) -> str:
    texts = (each["text"] if "text" in each else core.to_text(each.get("json")) for each in content)
    return "\n".join(texts)
