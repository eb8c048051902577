"""A LlamaIndex chat engine that remembers: across conversations and programs.

Runs as it stands, with a scripted model. With a model of yours: pass it as `llm`.

    pip install 'reverie[llama-index]'
    python examples/llama_index_agent.py
"""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.memory import Memory as ChatMemory

from reverie import Memory
from reverie.integrations.llama_index import ReverieBlock


class ScriptedModel(CustomLLM):
    """A model that answers from what it is shown; calls no network."""

    @property
    def metadata(self) -> LLMMetadata:
        """Size of its window."""
        return LLMMetadata(context_window=4_000, num_output=100)

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:
        """Return one answer."""
        if "Where" not in prompt:
            return CompletionResponse(text="Noted.")
        print(f"The model is shown:\n{prompt}")
        return CompletionResponse(text="At berth 7." if "berth 7" in prompt else "I do not know.")

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponseGen:
        """Yield one answer."""
        yield self.complete(prompt)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        for name, message in (
            ("monday", "The Nautilus is at berth 7 from today on."),
            ("tuesday", "Where is the Nautilus?"),
        ):
            block = ReverieBlock(memory=memory)
            chat = ChatMemory.from_defaults(session_id=name, token_limit=2_000, memory_blocks=[block])
            engine = SimpleChatEngine.from_defaults(llm=ScriptedModel(), memory=chat)
            print(f"[{name}] {message}\n  -> {await engine.achat(message)}")
            # LlamaIndex hands messages on when its own window is full; the last ones are handed on at the end.
            await block.aput(await chat.aget_all(), session_id=name)
        print("Turns of Tuesday:", [turn.content for turn in memory.turns("llama-index:tuesday")])


if __name__ == "__main__":
    asyncio.run(main())
