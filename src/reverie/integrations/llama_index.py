"""Memory block for LlamaIndex: `Memory.from_defaults(memory_blocks=[ReverieBlock(memory=memory)])`.

The block gives what is remembered for the last message to the model. The messages that LlamaIndex moves out of its
short-term memory become turns; until then they are in the chat history itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reverie.domain.conversation import Role
from reverie.domain.errors import MissingExtra
from reverie.integrations import core

try:
    from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory.memory import BaseMemoryBlock
except ImportError:
    raise MissingExtra(
        "a memory block needs llama-index-core 0.14.8 or newer: pip install 'reverie[llama-index]'"
    ) from None

_ROLES: dict[str, Role] = {
    "user": "user", "assistant": "assistant", "chatbot": "assistant", "model": "assistant", "tool": "tool",
    "function": "tool",
}  # fmt: skip


class ReverieBlock(BaseMemoryBlock[str]):
    """Memory of a LlamaIndex agent.

    A memory that fails or is slow costs a warning in the log, and the agent goes on without it.

    Attributes:
        name: Name of the block in the prompt.
        memory: The memory, or a scope of one.
        session: The id of the session; empty takes `llama-index:` and LlamaIndex's.
        timeout_s: Seconds for which an answer waits for the memory.
        soft_tokens: The soft budget of the context; None takes the setting.
        hard_tokens: The hard budget; None takes the setting.
    """

    name: str = "reverie"
    memory: Any = Field(exclude=True)
    session: str = ""
    timeout_s: float = core.DEFAULT_TIMEOUT_S
    soft_tokens: int | None = None
    hard_tokens: int | None = None

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """Return what is remembered for the last message of the user."""
        said = convert_messages(messages or ())
        return await self._open(block_kwargs.get("session_id")).recall_async(core.find_question(said))

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Record messages that leave the short-term memory."""
        names = (str(name) for each in messages if (name := each.additional_kwargs.get("session_id")))
        await self._open(next(names, None)).record_async(convert_messages(messages))

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """Return the content without its last lines, about four characters for a token; None if nothing is left."""
        end = len(content) - 4 * tokens_to_truncate
        return content[: content.rfind("\n", 0, end)] if end > 0 and "\n" in content[:end] else None

    def _open(self, session_id: Any) -> core.Conversation:
        return core.Conversation(
            self.memory, self.session or f"llama-index:{session_id or 'default'}", timeout_s=self.timeout_s,
            soft_tokens=self.soft_tokens, hard_tokens=self.hard_tokens,
        )  # fmt: skip


def convert_messages(messages: Iterable[ChatMessage]) -> list[core.ItemText]:
    """Return the texts of messages: of users, of the model with its calls, and of tools."""
    found: list[core.ItemText] = []
    for message in messages:
        if (role := _ROLES.get(message.role.value)) is None:
            continue
        calls = [
            core.build_call(block.tool_call_id, block.tool_name, block.tool_kwargs)
            for block in message.blocks
            if isinstance(block, ToolCallBlock)
        ]
        texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
        answers = str(message.additional_kwargs.get("tool_call_id") or "call") if role == "tool" else ""
        found += core.build_texts(role, texts, calls=calls, answers=answers)
    return found
