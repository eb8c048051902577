"""An ADK agent that remembers its users: across sessions and programs.

Runs as it stands, with a scripted model. With Gemini: pass `model="gemini-3.5-flash"` to the agent.

    pip install 'reverie[google-adk]'
    python examples/google_adk_agent.py
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.preload_memory_tool import PreloadMemoryTool
from google.genai import types

from reverie import Memory
from reverie.integrations.google_adk import ReverieMemoryService


class ScriptedModel(BaseLlm):
    """A model that answers from what it is shown; calls no network."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one answer."""
        asked = [part.text or "" for content in llm_request.contents for part in content.parts or []]
        shown = "\n".join([*asked, str(llm_request.config.system_instruction)])
        text = "Noted."
        if any("Where" in each for each in asked):
            text = "At berth 7." if "berth 7" in shown else "I do not know."
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        service = ReverieMemoryService(memory)
        sessions = InMemorySessionService()
        agent = LlmAgent(name="harbour", model=ScriptedModel(model="scripted"), tools=[PreloadMemoryTool()])
        runner = Runner(app_name="harbour", agent=agent, session_service=sessions, memory_service=service)
        for name, message in (
            ("monday", "The Nautilus is at berth 7 from today on."),
            ("tuesday", "Where is the Nautilus?"),
        ):
            place: dict[str, Any] = {"app_name": "harbour", "user_id": "ada", "session_id": name}
            await sessions.create_session(**place)
            content = types.Content(role="user", parts=[types.Part(text=message)])
            async for event in runner.run_async(user_id="ada", session_id=name, new_message=content):
                if event.content and event.content.parts:
                    print(f"[{name}] {message}\n  -> {event.content.parts[0].text}")
            session = await sessions.get_session(**place)
            assert session is not None
            await service.add_session_to_memory(session)
        found = await service.search_memory(app_name="harbour", user_id="ada", query="Nautilus")
        print("Memories:", [entry.content.parts[0].text for entry in found.memories if entry.content.parts])


if __name__ == "__main__":
    asyncio.run(main())
