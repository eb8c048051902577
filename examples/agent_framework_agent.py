"""An agent of Microsoft's Agent Framework that remembers: across sessions and programs.

Runs as it stands, with a scripted model. With a model of yours: pass its client to `Agent`.

    pip install 'reverie[agent-framework]'
    python examples/agent_framework_agent.py
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)

from reverie import Memory
from reverie.integrations.agent_framework import ReverieProvider


class ScriptedClient(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A model that answers from what it is shown; calls no network."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **_: Any
    ) -> Awaitable[ChatResponse[Any]]:
        async def respond() -> ChatResponse[Any]:
            shown = "\n".join([str(options.get("instructions")), *(message.text for message in messages)])
            content = Content.from_text("Noted.")
            if "Where" in messages[-1].text:
                print(f"The model is shown:\n{shown}")
                content = Content.from_text("At berth 7." if "lies at berth 7" in shown else "I do not know.")
            elif messages[-1].role == "user":
                arguments = {"content": "The Nautilus lies at berth 7"}
                content = Content.from_function_call("call_1", "save_memory", arguments=arguments)
            return ChatResponse(messages=[Message("assistant", [content])], response_id="r")

        return respond()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        agent = Agent(ScriptedClient(), "Be brief.", context_providers=[ReverieProvider(memory)])
        for name, message in (
            ("monday", "The Nautilus is at berth 7 from today on."),
            ("tuesday", "Where is the Nautilus?"),
        ):
            result = await agent.run(message, session=agent.create_session(session_id=name))
            print(f"[{name}] {message}\n  -> {result.text}")
        turns = memory.turns("agent-framework:tuesday")
        print("Turns of Tuesday:", [turn.content for turn in turns])


if __name__ == "__main__":
    asyncio.run(main())
