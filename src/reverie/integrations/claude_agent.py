"""Memory for the Claude Agent SDK: `ClaudeAgentOptions(**ClaudeMemory(memory).options())`.

Hooks add what is remembered to each prompt, and record prompts, calls of tools and answers as turns. An in-process MCP
server has the tools of the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Unpack

from reverie.domain.errors import MissingExtra
from reverie.domain.text.json_values import to_json_value
from reverie.integrations import core
from reverie.tools import Tool

try:
    from claude_agent_sdk import HookMatcher, SdkMcpTool, create_sdk_mcp_server
except ImportError:
    raise MissingExtra(
        "a memory of the Claude Agent SDK needs claude-agent-sdk 0.2.100 or newer: "
        "pip install 'reverie[claude-agent]'"
    ) from None

SERVER = "reverie"
"""Name of the MCP server; Claude sees its tools as `mcp__reverie__search_memory` and so on."""

MAX_RESULT_CHARS = 4_000
"""Characters of a tool's result that are recorded."""


class ClaudeMemory:
    """Memory of a Claude agent. One instance serves any number of sessions.

    A memory that fails or is slow costs a warning in the log, and the agent goes on without it.
    """

    def __init__(
        self,
        memory: core.AnyMemory,
        *,
        session: str | Callable[[str], str] | None = None,
        **options: Unpack[core.ConversationOptions],
    ) -> None:
        """Create the memory.

        Args:
            memory: The memory, or a scope of one.
            session: The id of the session, or a function that returns it for Claude's; None takes `claude-agent:`
                and Claude's.
            **options: Further options; see `ConversationOptions`.
        """
        self._memory = core.to_sync(memory)
        self._session = session
        self._session_id = ""  # Claude's session of the last hook, to which a call of a tool belongs
        self._options = options

    def options(self) -> dict[str, Any]:
        """Return `hooks`, `mcp_servers` and `allowed_tools` for `ClaudeAgentOptions`."""
        given = self._options.get("tools")
        tools = list(self._memory.tools() if given is None else given)
        options: dict[str, Any] = {"hooks": self.hooks()}
        if tools:
            server = create_sdk_mcp_server(SERVER, tools=self._build_tools(tools))
            options["mcp_servers"] = {SERVER: {**server, "alwaysLoad": True}}  # else offered by a search only
            options["allowed_tools"] = [f"mcp__{SERVER}__{tool.name}" for tool in tools]
        return options

    def hooks(self) -> dict[Any, list[HookMatcher]]:
        """Return the hooks alone, to be joined with hooks of your own."""
        return {
            "UserPromptSubmit": [HookMatcher(hooks=[self._on_prompt])],
            "PostToolUse": [HookMatcher(hooks=[self._on_tool])],
            "Stop": [HookMatcher(hooks=[self._on_stop])],
        }

    async def _on_prompt(self, event: Any, tool_use_id: str | None, context: Any) -> Any:
        """Record a prompt, and return what is remembered for it."""
        conversation, prompt = self._open(event), str(event.get("prompt") or "")
        remembered = await conversation.recall_async(prompt)
        source_id = str(event.get("prompt_id") or "")
        await conversation.record_async([core.ItemText(role="user", content=prompt, source_id=source_id)])
        if not remembered:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": remembered}}

    async def _on_tool(self, event: Any, tool_use_id: str | None, context: Any) -> Any:
        """Record a call of a tool with its result."""
        call_id = str(event.get("tool_use_id") or tool_use_id or "call")
        own = str(event.get("tool_name") or "").removeprefix(f"mcp__{SERVER}__")
        call = core.build_call(call_id, own or "tool", _to_text(event.get("tool_input")))
        result = _to_text(event.get("tool_response"))[:MAX_RESULT_CHARS]
        await self._open(event).record_async([
            core.ItemText(role="assistant", content="", call=call, source_id=f"{call_id}:call"),
            core.ItemText(role="tool", content=result, answers=call_id, source_id=f"{call_id}:result"),
        ])  # fmt: skip
        return {}

    async def _on_stop(self, event: Any, tool_use_id: str | None, context: Any) -> Any:
        """Record the answer."""
        answer = str(event.get("last_assistant_message") or "")
        await self._open(event).record_async([core.ItemText(role="assistant", content=answer)])
        return {}

    def _open(self, event: Any) -> core.Conversation:
        """Return the conversation of a hook's event, or of the last hook's for an event without a session."""
        self._session_id = str(event.get("session_id") or self._session_id)
        name = self._session(self._session_id) if callable(self._session) else self._session
        return core.Conversation(
            self._memory, name or f"claude-agent:{self._session_id or 'session'}", **self._options
        )

    def _build_tools(self, tools: Iterable[Tool]) -> list[SdkMcpTool[Any]]:
        def make(tool: Tool) -> SdkMcpTool[Any]:
            async def run(arguments: Any) -> dict[str, Any]:
                conversation = self._open({})
                result = await asyncio.to_thread(
                    core.call_tool, lambda: conversation.tools, tool.name, arguments
                )
                return {"content": [{"type": "text", "text": result.text}], "is_error": result.failed}

            schema = to_json_value(tool.spec.parameters)
            return SdkMcpTool(
                name=tool.name, description=tool.spec.description, input_schema=schema, handler=run
            )

        return [make(tool) for tool in tools]


def _to_text(value: Any) -> str:
    """Return a tool's arguments or result as text."""
    content = value.get("content") if isinstance(value, dict) else value
    return core.extract_text(content) or core.to_text(value)
