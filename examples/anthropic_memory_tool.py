"""Claude keeps its memory in Reverie: what it writes in one conversation, it finds in the next.

Runs as it stands, with a scripted model on loopback. With Claude itself: set ANTHROPIC_API_KEY, name a model,
and make the client with `anthropic.Anthropic()`.

    pip install 'reverie[anthropic]'
    python examples/anthropic_memory_tool.py
"""

from __future__ import annotations

import tempfile

import anthropic
from scripted_server import Call, Reply, serving

from reverie import Memory
from reverie.integrations.anthropic_memory import ReverieMemoryTool


def memory_call(command: str, **given: object) -> Call:
    return Call("memory", {"command": command, **given})


SCRIPT: list[Reply] = [
    # the first conversation
    memory_call("view", path="/memories"),
    memory_call(
        "create", path="/memories/customers/acme.md", file_text="Acme pays by invoice.\nContact: Ada.\n"
    ),
    "I have noted that.",
    # the second one
    memory_call("view", path="/memories"),
    memory_call("view", path="/memories/customers/acme.md"),
    memory_call("str_replace", path="/memories/customers/acme.md", old_str="Ada", new_str="Grace"),
    "Acme pays by invoice; I have noted that Grace is the contact now.",
]


def ask(client: anthropic.Anthropic, memory: Memory, question: str) -> str:
    """One conversation: the runner calls the tool until Claude has answered."""
    runner = client.beta.messages.tool_runner(
        model="scripted",
        max_tokens=1024,
        messages=[{"role": "user", "content": question}],
        tools=[ReverieMemoryTool(memory)],
    )
    return "".join(block.text for block in runner.until_done().content if block.type == "text")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder) as memory,
        serving(SCRIPT) as base_url,
        anthropic.Anthropic(base_url=base_url, api_key="none") as client,
    ):
        print(
            "Claude:", ask(client, memory, "Acme pays by invoice, and Ada is their contact. Remember that.")
        )
        print("Claude:", ask(client, memory, "How does Acme pay? And Grace is the contact from now on."))
        print("\nThe page that people read and edit:")
        print(memory.pages.read("customers/acme.md"))
        print("What was done:")
        for change in memory.history.log():
            print(f"  {change.actor}: {change.summary}")
        memory.history.undo(memory.history.log()[-1])
        print("\nAfter undo:", memory.pages.read("customers/acme.md").splitlines()[-1])


if __name__ == "__main__":
    main()
