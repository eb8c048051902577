"""The prompt log, plans that wait, proposals and counters by day, over HTTP and within scopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http.server import HttpServer
from tests.factories import make_record, propose_record
from tests.interfaces.http.conftest import open_client

FACT = "The spare key of the boat house hangs behind the blue shutter"
QUESTION = "Where is the spare key of the boat house?"


def ask(memory: Any) -> str:
    session = memory.session("chat")
    session.add("user", QUESTION)
    session.context()
    session.add("assistant", "Behind the shutter.")
    return str(session.id)


def test_the_entry_of_a_prompt_says_why_a_line_was_in_it(client: TestClient, memory: Memory) -> None:
    fact = memory.save(FACT).record
    ask(memory)
    (listed,) = client.get("/v1/packs").json()["items"]
    assert client.get("/v1/sessions/chat/packs").json()["items"] == [listed]
    entry = client.get(f"/v1/sessions/chat/packs/{listed['position']}").json()
    (line,) = [each for each in entry["lines"] if each["id"] == fact.id]
    assert (line["verdict"], line["content"], line["state"]) == ("selected", FACT, "unchanged")
    assert entry["question"] == QUESTION
    assert client.get("/v1/sessions/chat/packs/7").status_code == 404


def test_a_plan_is_decided_group_by_group_and_waits_for_another_server(
    client: TestClient, memory: Memory
) -> None:
    for text in ("We decided on Postgres", "We decided on Rust"):
        memory.save(text, kind="decision", layer="episodic")
    plan = client.post("/v1/plans", json={"name": "promote"}).json()
    url = f"/v1/plans/{plan['id']}"
    with open_client(memory) as other:
        assert other.get(url).json() == plan
        decided = other.post(
            f"{url}/decisions", json={"verdict": "reject", "groups": [0], "reason": "no"}
        ).json()
    assert [group["state"] for group in decided["groups"]] == ["rejected", "waiting"]
    applied = client.post(f"{url}/decisions", json={"verdict": "accept"}).json()
    assert [record.layer for record in memory.list()].count("semantic") == 1
    assert client.get(url).status_code == 404, "a decided plan is no longer kept"
    assert client.post(f"{url}/decisions", json={"verdict": "accept"}).status_code == 404
    assert client.post("/v1/undo", json={"batch": applied["applied"]}).status_code == 200
    assert client.post(f"{url}/decisions", json={"verdict": "maybe"}).status_code == 422


@pytest.fixture
def tokens(server: HttpServer) -> Callable[[str], dict[str, str]]:
    rights = ["read", "write", "review"]
    made = {
        name: server.tokens.create(name, scope=f"user:{name}", rights=rights)[1] for name in ("alice", "bob")
    }
    return lambda name: {"Authorization": f"Bearer {made[name]}"}


def test_proposals_and_the_prompt_log_stay_within_the_scope_of_a_token(
    client: TestClient, memory: Memory, tokens: Callable[[str], dict[str, str]]
) -> None:
    alice = memory.scoped("user:alice")
    alice.save(FACT)
    session = ask(alice)
    proposed = make_record(5, content="Always pay by card", scope="user:alice")
    propose_record(memory, proposed)
    for name, number in (("alice", 1), ("bob", 0)):
        assert len(client.get("/v1/proposals", headers=tokens(name)).json()["items"]) == number
        assert len(client.get("/v1/packs", headers=tokens(name)).json()["items"]) == number
    url, body = f"/v1/proposals/{proposed.id}/decision", {"verdict": "accept"}
    assert client.post(url, json=body, headers=tokens("bob")).status_code == 404
    for path in (f"/v1/sessions/{session}/packs/0", "/v1/sessions/chat/packs/0"):
        assert client.get(path, headers=tokens("bob")).status_code == 404
        assert client.get(path, headers=tokens("alice")).status_code == 200
    accepted = client.post(url, json=body, headers=tokens("alice"))
    assert accepted.json()["archived_at"] is None
    assert memory.history.log()[-1].actor == "alice"
    assert client.get("/v1/plans", headers=tokens("alice")).status_code == 403
