"""Hindsight's interface: its own client where it is installed, and the requests it sends everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http.serve import build_application
from reverie.interfaces.http.server import HttpServer
from tests.interfaces.http.conftest import BASE
from tests.interfaces.http.test_http_process import serving

RECORDED = Path(__file__).with_name("golden") / "hindsight.jsonl"
"""What hindsight-client 1.1.0 sent in `hindsight_scene.py`, and the status of each answer."""

ALICE = "/v1/default/banks/alice"


@pytest.fixture
def client(server: HttpServer) -> Iterator[TestClient]:
    app = build_application(server, host="127.0.0.1", compatible=["hindsight"])
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
        yield client


def retain(client: TestClient, content: Any, **fields: Any) -> None:
    answer = client.post(f"{ALICE}/memories", json={"items": [{"content": content, **fields}]})
    assert answer.status_code == 200, answer.text


def recall(client: TestClient, query: str, **fields: Any) -> list[str]:
    answer = client.post(f"{ALICE}/memories/recall", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return [each["text"] for each in answer.json()["results"]]


@pytest.mark.slow
def test_every_method_of_the_real_client_works_or_names_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("hindsight_client", reason="hindsight-client is not installed")
    scene = Path(__file__).with_name("hindsight_scene.py")
    with serving(tmp_path / "memory", "--compat", "hindsight") as served:
        url = f"http://127.0.0.1:{served.port}"
        done = subprocess.run([sys.executable, scene, url], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "all methods done" in done.stdout


def test_the_recorded_requests_of_the_client_are_answered_as_they_were(client: TestClient) -> None:
    statuses = set()
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        asked = json.loads(line)
        url = f"{asked['path']}?{asked['query']}"
        answer = client.request(asked["method"], url, json=asked["body"])
        assert answer.status_code == asked["status"], (asked, answer.text)
        if answer.status_code == 501:
            assert asked["path"].rpartition("/")[2].split("-")[0] in answer.text
        statuses.add(answer.status_code)
    assert statuses == {200, 501}


def test_it_is_served_only_when_asked_for(server: HttpServer) -> None:
    with TestClient(build_application(server, host="127.0.0.1"), base_url=BASE) as client:
        assert client.get("/version").status_code == 404


def test_a_bank_is_a_scope_below_that_of_the_token(
    client: TestClient, server: HttpServer, memory: Memory
) -> None:
    _, text = server.tokens.create("acme", scope="tenant:acme", rights=["read", "write"], origin="agent")
    client.headers["Authorization"] = f"Bearer {text}"
    retain(client, "Alice prefers oolong tea")
    record = memory.scoped("tenant:acme/bank:alice").list()[0]
    assert (record.content, record.origin) == ("Alice prefers oolong tea", "agent")
    _, other = server.tokens.create("other", scope="tenant:other", rights=["read"])
    client.headers["Authorization"] = f"Bearer {other}"
    assert recall(client, "which tea?") == []
    assert client.post(f"{ALICE}/memories", json={"items": [{"content": "x"}]}).status_code == 403
    client.headers["Authorization"] = "Bearer wrong"
    assert client.get(f"{ALICE}/profile").status_code == 401
    assert client.get(f"{ALICE}/reflect").status_code == 401


def test_a_document_is_replaced_as_a_whole_or_appended_to(client: TestClient) -> None:
    retain(client, "Atlas starts in May", document_id="atlas")
    retain(client, "Atlas costs 40 euros", document_id="atlas", update_mode="append")
    assert len(client.get(f"{ALICE}/memories/list").json()["items"]) == 2
    retain(client, "Atlas starts in June", document_id="atlas")
    assert recall(client, "when does Atlas start?") == ["Atlas starts in June"]
    old = client.get(f"{ALICE}/memories/list", params={"state": "invalidated"}).json()["items"]
    assert {each["text"] for each in old} == {"Atlas starts in May", "Atlas costs 40 euros"}


def test_the_profile_of_a_bank_is_stored_and_no_memory(client: TestClient) -> None:
    client.put(ALICE, json={"name": "Alice", "mission": "Remember tea"})
    client.patch(ALICE, json={"disposition_empathy": 5})
    profile = client.get(f"{ALICE}/profile").json()
    assert (profile["name"], profile["mission"], profile["disposition"]["empathy"]) == (
        "Alice",
        "Remember tea",
        5,
    )
    assert client.get(f"{ALICE}/memories/list").json()["total"] == 0
    assert recall(client, "Remember tea") == []


@pytest.mark.parametrize(
    "body",
    [{"name": {"a": 1}}, {"mission": "x" * 20_001}, {"disposition_empathy": "high"}, {"background": 5}],
)
def test_a_wrong_profile_of_a_bank_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    before = client.get(f"{ALICE}/profile").json()
    assert client.put(ALICE, json=body).status_code == 422
    assert client.get(f"{ALICE}/profile").json() == before


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("memories", {"items": []}, 422),
        ("memories", {"items": [{"content": ""}]}, 422),
        ("memories", {"items": ["x"]}, 422),
        ("memories", {"items": [{"content": "x", "timestamp": "soon"}]}, 422),
        ("memories", {"items": [{"content": [{"type": "image"}]}]}, 501),
        ("memories", {"items": [{"content": "x", "document_id": {}}]}, 422),
        ("memories", {"items": [{"content": "x", "tags": 5}]}, 422),
        ("memories", {"items": [{"content": "x"}], "document_tags": [5]}, 422),
        ("memories/recall", {"query": " "}, 422),
        ("memories/recall", {"query": "x", "min_scores": 1}, 422),
        ("memories/recall", {"query": "x", "types": 5}, 422),
        ("memories/recall", {"query": "x", "tags": [{}]}, 422),
        ("memories/recall", {"query": "x", "max_tokens": -1}, 422),
        ("memories/recall", {"query": "x", "tag_groups": [{}]}, 501),
        ("memories/recall", {"query": "x", "min_scores": {"semantic": 0.5}}, 501),
        ("reflect", {"query": "x"}, 501),
    ],
)
def test_what_is_wrong_or_missing_is_refused_by_name(
    client: TestClient, path: str, body: dict[str, Any], status: int
) -> None:
    answer = client.post(f"{ALICE}/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"]
    assert client.get(f"{ALICE}/memories/list").json()["total"] == 0
