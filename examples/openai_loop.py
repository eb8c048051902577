"""A plain loop over an OpenAI-compatible model that remembers: 30 lines and no framework.

Runs as it stands, with a scripted model on loopback. With a model of yours: leave out `serving`, and set `base_url` and
`api_key` where the client is made.

    pip install 'reverie[openai]'
    python examples/openai_loop.py
"""

from __future__ import annotations

import tempfile
from typing import Any

from openai import OpenAI
from scripted_server import Call, Reply, serving

from reverie import Memory

SCRIPT: list[Reply] = [
    Call("save_memory", {"content": "The Nautilus lies at berth 7", "category": "boats"}),
    "I will remember that.",
    lambda request: "At berth 7." if "berth 7" in request["messages"][0]["content"] else "I do not know.",
]


def answer(client: OpenAI, memory: Memory, chat: str, message: str) -> str:
    session, tools = memory.session(chat), memory.tools(session=chat)
    pack = session.context(message)
    session.add("user", message)
    messages: list[Any] = [{"role": "system", "content": pack.text}, *pack.messages]
    messages.append({"role": "user", "content": message})
    while True:
        reply = client.chat.completions.create(model="any", messages=messages, tools=tools.openai())  # type: ignore[arg-type]
        said = reply.choices[0].message
        calls = [
            {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
            for call in said.tool_calls or []
            if call.type == "function"
        ]
        session.add("assistant", said.content or "", tool_calls=calls)
        if not calls:
            return said.content or ""
        messages.append(said.model_dump(exclude_none=True))
        for call in calls:
            result = tools.call(call["name"], call["arguments"])
            session.add("tool", result.text, tool_call_id=call["id"])
            messages.append({"role": "tool", "content": result.text, "tool_call_id": call["id"]})


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder) as memory,
        serving(SCRIPT) as base_url,
        OpenAI(base_url=base_url, api_key="none") as client,
    ):
        print(answer(client, memory, "cli:monday", "The Nautilus is at berth 7 from today on."))
        print(answer(client, memory, "cli:tuesday", "Where is the Nautilus?"))
        print(base_url.asked[-1]["messages"][0]["content"])


if __name__ == "__main__":
    main()
