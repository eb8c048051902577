"""Hindsight's own client against a server: every method works, or is refused by name. Run with the server's URL."""

from __future__ import annotations

import asyncio
import inspect
import sys
import tempfile
from typing import Any

from hindsight_client import Hindsight

SERVED = {
    "aclose", "acreate_bank", "alist_memories", "aget_version", "arecall", "aretain", "aretain_batch",
    "aset_mission", "aset_reflect_mission", "adelete_bank", "close", "create_bank", "delete_bank",
    "get_version", "list_memories", "recall", "retain", "retain_batch", "set_mission",
    "set_reflect_mission", "suspend_retains",
}  # fmt: skip


def check_served(client: Hindsight) -> None:
    bank = client.create_bank("alice", name="Alice", mission="Remember tea", disposition_empathy=5)
    assert (bank.name, bank.mission, bank.disposition.empathy) == ("Alice", "Remember tea", 5)
    assert client.set_mission("alice", "Tea only").mission == "Tea only"
    assert client.get_version().features.mcp
    done = client.retain(
        "alice", "Alice prefers oolong tea", timestamp="2026-05-01T10:00:00", context="chat",
        document_id="d1", metadata={"a": "b"}, tags=["tea"],
    )  # fmt: skip
    assert (done.success, done.bank_id, done.items_count) == (True, "alice", 1)
    client.retain_batch(
        "alice",
        [
            {"content": "Alice works in Ghent", "timestamp": "unset"},
            {"content": [{"type": "text", "text": "Alice has two cats"}], "tags": ["pets"]},
        ],
        document_tags=["all"],
    )
    found = client.recall("alice", "which tea does Alice prefer?", tags=["tea"]).results[0]
    assert (found.text, found.type, found.context) == ("Alice prefers oolong tea", "world", "chat")
    assert (found.document_id, found.metadata, found.tags) == ("d1", {"a": "b"}, ["tea"])
    assert found.mentioned_at.startswith("2026-05-01T10:00:00")
    assert client.recall("alice", "which tea?", max_tokens=1).results == []
    assert client.recall("alice", "which tea?", tags=["pets"], tags_match="all_strict").results == []
    assert client.recall("bob", "which tea does Alice prefer?").results == []
    client.retain("alice", "Alice prefers green tea", document_id="d1")
    listed = client.list_memories("alice", search_query="tea")
    assert ([each.text for each in listed.items], listed.total) == (["Alice prefers green tea"], 1)
    with client.suspend_retains():
        client.retain("alice", "This is not retained")
    assert client.list_memories("alice", limit=2, offset=1).total == 3
    client.delete_bank("alice")
    assert client.list_memories("alice").total == 0


async def check_asynchronous(url: str) -> None:
    client = Hindsight(base_url=url)
    await client.acreate_bank("carol", name="Carol")
    await client.aset_mission("carol", "Calm")
    await client.aretain("carol", "Carol plays the viola")
    await client.aretain_batch("carol", [{"content": "Carol lives in Mons"}], retain_async=True)
    assert (await client.arecall("carol", "what does Carol play?")).results[0].text == "Carol plays the viola"
    assert (await client.alist_memories("carol")).total == 2
    assert (await client.aget_version()).api_version
    await client.adelete_bank("carol")
    await client.aclose()


def check_refused(client: Hindsight) -> int:
    """Call every other method with values of its parameters' forms."""
    count = 0
    for name, method in inspect.getmembers(Hindsight, inspect.isfunction):
        if name.startswith("_") or name in SERVED or inspect.iscoroutinefunction(method):
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        given = {each.name: make(each) for each in parameters if each.default is each.empty}
        if name == "update_bank_config":
            given["retain_mission"] = "x"
        try:
            getattr(client, name)(**given)
        except Exception as error:  # noqa: BLE001 - of several packages
            told = f"{getattr(error, 'status', '')} {getattr(error, 'body', '')} {error}"
            assert "501" in told, (name, told)
            count += 1
        else:
            raise AssertionError(f"{name} was not refused")
    return count


def make(parameter: inspect.Parameter) -> Any:
    if parameter.name == "files":
        file = tempfile.NamedTemporaryFile(suffix=".txt", delete=False)  # noqa: SIM115
        file.write(b"x")
        file.close()
        return [file.name]
    annotation = str(parameter.annotation)
    if "bytes" in annotation:
        return b"x"
    if "dict" in annotation and "list" not in annotation:
        return {}
    return ["x"] if annotation.startswith("list") else "x"


if __name__ == "__main__":
    url = sys.argv[1]
    with Hindsight(base_url=url) as client:
        check_served(client)
        print(f"{check_refused(client)} methods refused")
    asyncio.run(check_asynchronous(url))
    print("all methods done")
