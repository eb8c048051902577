"""Use every method of mem0's own client against a server: `python mem0_scene.py URL [TOKEN]`.

Needs the package mem0ai, which `test_http_mem0.py` therefore runs only where it is installed.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["MEM0_TELEMETRY"] = "False"

from mem0 import AsyncMemoryClient, MemoryClient
from mem0.exceptions import MemoryNotFoundError


async def play(client: Any) -> None:
    async def do(method: str, *args: Any, **options: Any) -> Any:
        result = getattr(client, method)(*args, **options)
        return await result if inspect.isawaitable(result) else result

    async def fails(error: type[Exception], method: str, *args: Any, **options: Any) -> str:
        try:
            await do(method, *args, **options)
        except error as problem:
            return str(problem)
        raise AssertionError(f"{method}{args} did not raise {error.__name__}")

    added = await do(
        "add", "I live in Bergen and play the harp", user_id="alice", metadata={"topic": {"n": 1}}
    )
    assert added["status"] == "SUCCEEDED", added
    (result,) = added["results"]
    assert (result["event"], result["memory"]) == ("ADD", "I live in Bergen and play the harp"), added
    one = result["id"]
    raw = [
        {"role": "user", "content": "The staging database listens on port 5433"},
        {"role": "assistant", "content": "Noted: backups run at three in the night"},
    ]
    second = await do("add", raw, user_id="alice", run_id="r1", infer=False, expiration_date="2099-01-31")
    assert [each["event"] for each in second["results"]] == ["ADD", "ADD"], second
    await do("add", "Bob plays the trumpet", agent_id="a/b %")

    found = await do("search", "who plays the harp?", filters={"user_id": "alice"}, top_k=3)
    assert found["results"][0]["id"] == one, found
    assert 0 < found["results"][0]["score"] <= 1
    assert found["results"][0]["user_id"] == "alice"
    nothing = await do("search", "favourite colour", filters={"AND": [{"user_id": "alice"}]})
    assert nothing == {"results": []}, nothing
    other = await do("search", "harp", filters={"user_id": "bob"})
    assert other == {"results": []}, other
    both = await do("search", "plays", filters={"OR": [{"user_id": "alice"}, {"agent_id": "a/b %"}]})
    assert len(both["results"]) == 2, both

    page = await do("get_all", filters={"user_id": "alice"}, page=1, page_size=2)
    assert (page["count"], len(page["results"]), page["previous"]) == (3, 2, None), page
    assert page["next"]
    run = await do("get_all", filters={"AND": [{"user_id": "alice"}, {"run_id": "r1"}]})
    assert run["count"] == 2, run
    assert run["results"][0]["expiration_date"] == "2099-01-31"
    topic = await do("get_all", filters={"user_id": "alice", "metadata": {"topic": {"eq": {"n": 1}}}})
    assert [each["id"] for each in topic["results"]] == [one], topic
    harp = await do("get_all", filters={"user_id": "alice", "NOT": [{"keywords": {"icontains": "HARP"}}]})
    assert harp["count"] == 2, harp

    memory = await do("get", one)
    assert (memory["memory"], memory["metadata"]) == (
        "I live in Bergen and play the harp",
        {"topic": {"n": 1}},
    )
    updated = await do("update", one, text="I live in Oslo and play the harp", metadata={"topic": "towns"})
    assert (updated["memory"], updated["metadata"]) == (
        "I live in Oslo and play the harp",
        {"topic": "towns"},
    )
    history = await do("history", one)
    assert [each["event"] for each in history] == ["ADD", "UPDATE"], history
    assert history[1]["old_memory"] == "I live in Bergen and play the harp"

    names = [each["id"] for each in second["results"]]
    await do("batch_update", [{"memory_id": names[0], "text": "The staging database listens on port 5434"}])
    assert "5434" in (await do("get", names[0]))["memory"]
    await do("batch_delete", [{"memory_id": name} for name in names])
    await fails(MemoryNotFoundError, "get", names[0])

    users = await do("users")
    assert {(each["type"], each["name"]) for each in users["results"]} == {
        ("user", "alice"),
        ("agent", "a/b %"),
    }
    await do("delete", one)
    await fails(MemoryNotFoundError, "get", one)
    await fails(MemoryNotFoundError, "delete", one)
    await do("add", "Alice is back", user_id="alice")
    assert "1 memories" in (await do("delete_all", user_id="alice"))["message"]
    await do("delete_users", agent_id="a/b %")
    await do("add", "Alice is back again", user_id="alice")
    await do("reset")
    assert (await do("users"))["results"] == []
    assert "Nobody is named" in await fails(Exception, "search", "harp", filters={"keywords": "x"})


def main(url: str, token: str = "any") -> None:
    make: Callable[..., Any]
    for make in (MemoryClient, AsyncMemoryClient):
        asyncio.run(play(make(api_key=token, host=url)))
        print(make.__name__, "done")


if __name__ == "__main__":
    main(*sys.argv[1:])
