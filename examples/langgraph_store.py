"""A LangGraph graph whose long-term memory is a folder: found again without embeddings, and edited by people.

Runs as it stands, with a scripted model on loopback. With OpenAI's models: set OPENAI_API_KEY, leave out
`serving`, `base_url` and `api_key`, and name a model.

    pip install 'reverie[langgraph,openai]' langgraph
    python examples/langgraph_store.py
"""

from __future__ import annotations

import tempfile
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from openai import OpenAI
from scripted_server import Reply, serving

from reverie import Memory
from reverie.integrations.langgraph import ReverieStore


class State(TypedDict):
    user: str
    message: str
    reply: str


def knows_the_nuts(request: dict[str, Any]) -> str:
    """Answer as a model would, from what it is shown."""
    shown = str(request["messages"][0]["content"])
    return "No, you are allergic to them." if "walnuts" in shown else "Why not?"


SCRIPT: list[Reply] = ["I will keep that in mind.", knows_the_nuts, knows_the_nuts]


def graph(client: OpenAI, store: BaseStore) -> Any:
    """Recall, answer, remember: one node, for the example's sake."""

    def answer(state: State, *, store: BaseStore) -> dict[str, str]:
        mine = ("memories", state["user"])
        found = store.search(mine, query=state["message"], limit=3)
        remembered = "\n".join(f"- {item.value['text']}" for item in found)
        completion = client.chat.completions.create(
            model="scripted",
            messages=[
                {"role": "system", "content": f"What you know of the user:\n{remembered}"},
                {"role": "user", "content": state["message"]},
            ],
        )
        if state["message"].startswith("I "):
            store.put(mine, str(len(store.search(mine, limit=100))), {"text": state["message"]})
        return {"reply": completion.choices[0].message.content or ""}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(store=store)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder) as memory,
        serving(SCRIPT) as base_url,
        OpenAI(base_url=base_url, api_key="none") as client,
    ):
        store = ReverieStore(memory, ttl={"default_ttl": 60 * 24 * 365})
        agent = graph(client, store)
        for user, message in (
            ("alice", "I am allergic to walnuts"),
            ("alice", "May I eat walnuts?"),
            ("bob", "May I eat walnuts?"),
        ):
            done = agent.invoke({"user": user, "message": message, "reply": ""})
            print(f"[{user}] {message}\n  -> {done['reply']}")

        print("\nThe item is a record, which people see and change:")
        [record] = memory.list(category="langgraph")
        print(f"  ({record.category}) {record.content}")
        memory.update(record.id, content="I am allergic to walnuts and hazelnuts")
        item = store.get(("memories", "alice"), "0")
        print(f"  the graph reads: {item.value if item else None}")

        print("What the graph does can be taken back:")
        store.delete(("memories", "alice"), "0")
        print(f"  deleted: {store.get(('memories', 'alice'), '0')}")
        memory.history.undo(memory.history.log()[-1])
        item = store.get(("memories", "alice"), "0")
        print(f"  undone: {item.value if item else None}")


if __name__ == "__main__":
    main()
