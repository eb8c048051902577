"""An agent of Pydantic AI that remembers: across turns, conversations and programs.

Runs as it stands, with a scripted model on loopback. With OpenAI's models: set OPENAI_API_KEY, leave out
`serving`, and give the agent "openai:gpt-5-mini" as its model.

    pip install 'reverie[pydantic-ai]' 'pydantic-ai-slim[openai]'
    python examples/pydantic_ai_agent.py
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from scripted_server import Call, Reply, serving

from reverie import Memory
from reverie.integrations.pydantic_ai import MemoryCapability, load_history


def shown(request: dict[str, Any]) -> str:
    """Return the instructions that the model is given."""
    return "\n".join(
        str(message["content"])
        for message in request["messages"]
        if message["role"] in {"system", "developer"}
    )


def knows_the_berth(request: dict[str, Any]) -> str:
    """Answer as a model would, from what it is shown."""
    return "At berth 7." if "berth 7" in shown(request) else "I do not know."


SCRIPT: list[Reply] = [
    Call("save_memory", {"content": "Ada's boat, the Nautilus, lies at berth 7", "category": "people/ada"}),
    "I will remember that.",
    "You are welcome.",
    knows_the_berth,
]


async def talk(memory: Memory, client: AsyncOpenAI) -> None:
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
    for chat, message in (
        ("cli:monday", "Ada's boat, the Nautilus, is at berth 7 from today on."),
        ("cli:monday", "Thank you!"),
        ("cli:tuesday", "Where is the Nautilus?"),
    ):
        agent = Agent(
            model,
            instructions="You answer questions about boats in one sentence.",
            capabilities=[MemoryCapability(memory, session=chat)],
        )
        before = load_history(memory.session(chat))
        result = await agent.run(message, message_history=before)
        print(f"[{chat}, {len(before)} messages before] {message}\n  -> {result.output}")


async def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder) as memory,
        serving(SCRIPT) as base_url,
    ):
        async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
            await talk(memory, client)
        print("\nWhat the model was shown on Tuesday:")
        print(shown(base_url.asked[-1]))
        print("\nWhat is kept of Monday:")
        for turn in memory.turns("cli:monday"):
            calls = ", ".join(call.name for call in turn.tool_calls)
            print(f"  {turn.role}: {turn.content or f'calls {calls}'}")


if __name__ == "__main__":
    asyncio.run(main())
