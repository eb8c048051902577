"""A LangChain agent that remembers: across turns, threads and programs.

Runs as it stands, with a scripted model. With a model of yours: pass its name to `create_agent`.

    pip install 'reverie[langchain]'
    python examples/langchain_agent.py
"""

from __future__ import annotations

import tempfile
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult

from reverie import Memory
from reverie.integrations.langchain import MemoryMiddleware

SAVE = {"name": "save_memory", "args": {"content": "The Nautilus lies at berth 7"}, "id": "call_1"}


class ScriptedModel(GenericFakeChatModel):
    """A model that answers from what it is shown; calls no network."""

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        """Accept any tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *given: Any, **more: Any) -> ChatResult:
        shown = messages[0].text
        if "Where" in messages[-1].text:
            print(f"The model is shown:\n{shown}")
            self.messages = iter([AIMessage("At berth 7." if "berth 7" in shown else "I do not know.")])
        return super()._generate(messages, *given, **more)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        model = ScriptedModel(messages=iter([AIMessage("", tool_calls=[SAVE]), AIMessage("Noted.")]))
        agent = create_agent(model, system_prompt="Be brief.", middleware=[MemoryMiddleware(memory)])
        for thread, message in (
            ("monday", "The Nautilus is at berth 7 from today on."),
            ("tuesday", "Where is the Nautilus?"),
        ):
            config: Any = {"configurable": {"thread_id": thread}}
            state = agent.invoke({"messages": [("user", message)]}, config)
            print(f"[{thread}] {message}\n  -> {state['messages'][-1].text}")
        print("Turns of Tuesday:", [turn.content for turn in memory.turns("langchain:tuesday")])


if __name__ == "__main__":
    main()
