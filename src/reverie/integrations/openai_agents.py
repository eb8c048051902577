"""Session, memory and tools for the OpenAI Agents SDK.

`ReverieSession` stores the SDK's items without loss, and their texts as turns. Its `remember` puts the pack into
the instructions of each call; the pack is no item, so it is neither stored nor learned from. `tools_for` converts a
`Toolset`. Everything runs on worker threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reverie.domain.conversation import Role, Turn
from reverie.domain.errors import MissingExtra
from reverie.domain.text.json_values import to_json_value
from reverie.integrations.core import (
    AnyMemory,
    Conversation,
    ItemText,
    MessageItems,
    build_call,
    call_tool,
    find_question,
)
from reverie.session import Session
from reverie.tools import Tool, Toolset

try:
    from agents import FunctionTool
    from agents.memory.session_settings import SessionSettings
    from agents.run_config import CallModelData, ModelInputData
except ImportError:
    raise MissingExtra(
        "an OpenAI agent's memory needs openai-agents 0.20 or newer: pip install 'reverie[openai-agents]'"
    ) from None

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.tool_context import ToolContext

_ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_LONGEST_PICTURE = 200


class ReverieSession:
    """Conversation of the Agents SDK, stored in a memory: `Runner.run(agent, message, session=…)`.

    Attributes:
        session_id: The id that it was given.
        session_settings: How many items `get_items` gives by default.
        session: The same conversation as the rest of Reverie has it.
    """

    def __init__(
        self,
        session_id: str,
        memory: AnyMemory,
        *,
        session_settings: SessionSettings | None = None,
        soft_tokens: int | None = None,
        hard_tokens: int | None = None,
    ) -> None:
        """Open a conversation, or begin it. Nothing is written before its first item.

        Args:
            session_id: `{channel}:{chat}`, or any text of 1 to 200 characters.
            memory: Where it is kept; of a scope, the conversation is that scope's.
            session_settings: The SDK's own, such as `SessionSettings(limit=50)`.
            soft_tokens: The soft budget of what `remember` puts before the model; None takes the setting.
            hard_tokens: The hard budget; None takes the setting.

        Raises:
            InvalidInput: the id is not of its form.
        """
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._conversation = Conversation(
            memory, session_id, soft_tokens=soft_tokens, hard_tokens=hard_tokens
        )
        self.session: Session = self._conversation.session
        self._items = MessageItems(self.session, extract=extract_content, items_of=build_items)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the last items since the conversation was reset, in order.

        Args:
            limit: How many; None takes the limit of `session_settings`, and all where that has none. As with
                the SDK's own sessions, a negative number gives all.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        wanted = None if limit is not None and limit < 0 else limit
        return await asyncio.to_thread(self._items.get, wanted)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all of them or none. They are on disk when this returns.

        Raises:
            TypeError: one of them is no JSON; nothing was added.
        """
        await asyncio.to_thread(self._items.add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item, and return it; None where there is none. Undo restores it."""
        found: TResponseInputItem | None = await asyncio.to_thread(self._items.pop)
        return found

    async def clear_session(self) -> None:
        """Reset the conversation: there are no items any more. What was said stays stored and searchable."""
        await asyncio.to_thread(self._items.clear)

    async def remember(self, data: CallModelData[Any]) -> ModelInputData:
        """Add what is remembered for the user's last message to the instructions of one call.

        For `RunConfig(call_model_input_filter=session.remember)`. Where memory cannot be read, that is a
        warning, and the call goes on without.

        Args:
            data: What the model would be sent.

        Returns:
            The same items, and the instructions with the pack behind them, within its budget.
        """
        given = data.model_data
        texts = [text for item in given.input if (text := extract_content(item)) is not None]
        context = await self._conversation.recall_async(find_question(texts))
        if not context:
            return given
        instructions = "\n\n".join(part for part in (given.instructions, context) if part)
        return ModelInputData(input=given.input, instructions=instructions or None)


def tools_for(tools: Toolset | Iterable[Tool]) -> list[FunctionTool]:
    """Convert tools for the Agents SDK: `Agent(tools=tools_for(memory.tools()))`.

    A wrong call is answered to the model with a sentence. So is a call while the store cannot be reached, with a
    warning in the log.

    Args:
        tools: The tools, such as `memory.tools(session="telegram:1")`.
    """
    toolset = tools if isinstance(tools, Toolset) else Toolset(tools)
    return [
        FunctionTool(
            name=tool.name,
            description=tool.spec.description,
            params_json_schema=to_json_value(tool.spec.parameters),
            on_invoke_tool=_make_invoker(toolset, tool.name),
            strict_json_schema=False,  # strict ones know no optional arguments
        )
        for tool in toolset
    ]


def _make_invoker(tools: Toolset, name: str) -> Callable[[ToolContext[Any], str], Coroutine[Any, Any, str]]:
    async def invoke(context: ToolContext[Any], arguments: str) -> str:
        return (await asyncio.to_thread(call_tool, tools, name, arguments)).text

    return invoke


# -- items -----------------------------------------------------------------------------------------------


def extract_content(item: Any) -> ItemText | None:
    """Return the text of an item of the Responses API; None for an item without text, such as reasoning.

    An item of an unknown type is a call if its type ends in `_call`, and a result if it ends in `_output`.
    """
    if not isinstance(item, Mapping):
        return None
    kind = item.get("type", "message")
    role = _ROLES.get(str(item.get("role")))
    if kind == "message" and role is not None:
        return ItemText(role=role, content=_extract_text(item.get("content")))
    if not isinstance(kind, str):
        return None
    if kind.endswith("_call"):
        name = item.get("name") or kind.removesuffix("_call")
        given = item.get("arguments", item.get("input", item.get("action")))
        call = build_call(_call_id(item), str(name), given)
        return ItemText(role="assistant", content="", call=call)
    if kind.endswith("_output"):
        return ItemText(role="tool", content=_extract_text(item.get("output")), answers=_call_id(item))
    return None


def build_items(turn: Turn) -> list[dict[str, Any]]:
    """Return the items of a turn that did not come from the SDK."""
    if turn.role == "tool":
        return [
            {"type": "function_call_output", "call_id": turn.tool_call_id or turn.id, "output": turn.content}
        ]
    message_items = (
        [{"role": turn.role, "content": turn.content}] if turn.content or not turn.tool_calls else []
    )
    calls = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in turn.tool_calls
    ]
    return [*message_items, *calls]


def _call_id(item: Mapping[str, Any]) -> str:
    return str(item.get("call_id") or item.get("id") or "")


def _extract_text(content: Any) -> str:
    """Return the text of a content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, Sequence):
        return ""
    return "\n".join(filter(None, (_extract_part_text(part) for part in content)))


def _extract_part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    for name in ("text", "refusal", "transcript"):
        if isinstance(text := part.get(name), str):
            return text
    named = next((part[name] for name in ("filename", "file_url", "image_url") if part.get(name)), "")
    is_short = isinstance(named, str) and not named.startswith("data:") and len(named) <= _LONGEST_PICTURE
    return f"[{part.get('type', 'part')}{f': {named}' if named and is_short else ''}]"
