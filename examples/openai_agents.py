"""An agent of the OpenAI Agents SDK that remembers: across turns, conversations and programs.

Runs as it stands, with a scripted model on loopback. With OpenAI's models: set OPENAI_API_KEY, leave `model`
and the client out, and tracing on if you like.

    pip install 'reverie[openai-agents]'
    python examples/openai_agents.py
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, set_tracing_disabled
from openai import AsyncOpenAI
from scripted_server import Call, Reply, serving

from reverie import Memory
from reverie.integrations.openai_agents import ReverieSession, tools_for


def shown(request: dict[str, Any]) -> str:
    """Return the instructions that the model is given."""
    return str(request["messages"][0]["content"])


def knows_the_berth(request: dict[str, Any]) -> str:
    """Answer as a model would, from what it is shown."""
    return "At berth 7." if "berth 7" in shown(request) else "I do not know."


SCRIPT: list[Reply] = [
    Call("save_memory", {"content": "Ada's boat, the Nautilus, lies at berth 7", "category": "people/ada"}),
    "I will remember that.",
    knows_the_berth,
]


async def talk(memory: Memory, client: AsyncOpenAI) -> None:
    agent = Agent(
        name="Harbour master",
        instructions="You answer questions about boats in one sentence.",
        model=OpenAIChatCompletionsModel(model="scripted", openai_client=client),
        tools=[*tools_for(memory.tools(groups=["long_term"]))],
    )
    for chat, message in (
        ("cli:monday", "Ada's boat, the Nautilus, is at berth 7 from today on."),
        ("cli:tuesday", "Where is the Nautilus?"),
    ):
        session = ReverieSession(chat, memory)
        config = RunConfig(call_model_input_filter=session.remember)
        result = await Runner.run(agent, message, session=session, run_config=config)
        print(f"[{chat}] {message}\n  -> {result.final_output}")
        print(f"  {len(await session.get_items())} items are kept")


async def main() -> None:
    set_tracing_disabled(True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder) as memory,
        serving(SCRIPT) as base_url,
    ):
        async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
            await talk(memory, client)
        print("\nWhat the model was shown on Tuesday:")
        print(shown(base_url.asked[-1]))
        print("\nWhat was said is found again:")
        for hit in memory.search("Which boat is Ada's?", limit=1, sources="turns"):
            print(f"  {hit.content}")


if __name__ == "__main__":
    asyncio.run(main())
