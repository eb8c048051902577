"""A Strands agent that remembers: across conversations and programs.

Runs as it stands, with a scripted model on loopback. With a model of yours: pass it to `Agent`.

    pip install 'reverie[strands]' openai
    python examples/strands_agent.py
"""

from __future__ import annotations

import tempfile

from scripted_server import Call, Reply, serving
from strands import Agent
from strands.models.openai import OpenAIModel

from reverie import Memory
from reverie.integrations.strands import ReverieHooks

SCRIPT: list[Reply] = [
    Call("save_memory", {"content": "The Nautilus lies at berth 7"}),
    "I will remember that.",
    lambda request: "At berth 7." if "lies at berth 7" in str(request["messages"][0]) else "I do not know.",
]


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder) as memory,
        serving(SCRIPT) as base_url,
    ):
        model = OpenAIModel(client_args={"base_url": base_url, "api_key": "none"}, model_id="scripted")
        for chat, message in (
            ("cli:monday", "The Nautilus is at berth 7 from today on."),
            ("cli:tuesday", "Where is the Nautilus?"),
        ):
            hooks = ReverieHooks(memory, session=chat)
            agent = Agent(
                model, system_prompt="Be brief.", hooks=[hooks], tools=[*hooks.tools], callback_handler=None
            )
            print(f"[{chat}] {message}\n  -> {str(agent(message)).strip()}")
            assert agent.system_prompt == "Be brief."
        print("The model was shown:", base_url.asked[-1]["messages"][0]["content"])
        print("Turns of Tuesday:", [turn.content for turn in memory.turns("cli:tuesday")])


if __name__ == "__main__":
    main()
