"""mem0's interface: its own client where it is installed, and the requests it sends everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import InvalidInput, Memory
from reverie.interfaces.http import mem0
from reverie.interfaces.http.application import build_application
from reverie.interfaces.http.mem0 import build_scope_name, find_scopes, is_match, parse_scope_name
from reverie.interfaces.http.server import HttpServer
from tests.interfaces.http.conftest import BASE
from tests.interfaces.http.test_http_process import serving

NPM_CLIENT = Path(sys.prefix, "share/mem0/node_modules/mem0ai")


@pytest.fixture
def memory() -> Iterator[Memory]:
    """A memory without files: a server for each route is opened here."""
    with Memory.open(":memory:") as memory:
        yield memory


@pytest.fixture
def client(server: HttpServer) -> Iterator[TestClient]:
    app = build_application(server, host="127.0.0.1", compatible=["mem0"])
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
        yield client


def add(client: TestClient, text: str, **fields: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], **({"user_id": "alice"} | fields)}
    answer = client.post("/v3/memories/add/", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]


def test_a_history_is_taken_as_far_as_it_is_text(client: TestClient, memory: Memory) -> None:
    odd: list[tuple[Any, list[str], list[str]]] = [
        (
            [{"role": "user", "content": {"type": "image_url", "image_url": {"url": "x"}}}],
            [],
            ["'image_url'"],
        ),
        ([{"role": "assistant", "content": ""}], [], ["no text"]),
        ([{"role": "human", "content": {"type": "text", "text": "I keep cats"}}], ["I keep cats"], []),
        ([{"role": ["x"], "content": "y" * 100_001}], [], ["over 100,000"]),
        ([{"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}], [], ["no text"]),
        ([{"role": "tool", "tool_call_id": "c", "content": "4"}], ["4"], []),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "audio"}, "b"]}],
            ["a\nb"],
            ["audio"],
        ),
        ([None, 7, {"content": ["", None]}], [], ["no text", "'int'", "no text"]),
        ([{"role": "user", "content": "x\ud800\0y"}], ["x  y"], []),
    ]
    for number, (messages, texts, ignored) in enumerate(odd):
        history = {
            "user_id": f"u{number}",
            "messages": [{"role": "user", "content": "I keep bees"}, *messages],
        }
        answer = client.post("/v3/memories/add/", content=json.dumps(history | {"metadata": {"m": "\ud800"}}))
        assert answer.status_code == 200, answer.text
        turns = memory.scoped(f"user:u{number}").session("mem0").turns()
        assert [turn.content for turn in turns][1:] == texts
        told = answer.json().get("ignored", [])
        assert len(told) == len(ignored)
        assert all(part in line for part, line in zip(ignored, told, strict=True)), told


def test_a_preference_is_listed_once_and_a_programs_text_is_not_the_owners(
    client: TestClient, memory: Memory
) -> None:
    reply = {"role": "assistant", "content": "Noted."}
    for text in ("I prefer tea over coffee.", "I never eat fish. I always fly at night, please remember."):
        messages = [{"role": "user", "content": text}, reply]
        assert (
            client.post("/v3/memories/add/", json={"messages": messages, "user_id": "al"}).status_code == 200
        )
    add(client, "Stop hook feedback:\n- Always use tabs", user_id="al")
    listed = client.post("/v3/memories/", json={"filters": {"user_id": "al"}}).json()["results"]
    assert [(each["memory"][:7], each["trusted"]) for each in listed] == [
        ("Stop ho", False), ("I alway", True), ("I never", True), ("I prefe", True)
    ]  # fmt: skip
    assert memory.scoped("user:al").list(kind="preference")


def test_a_page_is_found_by_the_database_and_agrees_with_the_whole_list(
    client: TestClient, memory: Memory
) -> None:
    for number in range(7):
        add(client, f"Bee hive {number} is full", user_id="ann", metadata={"n": number})
        add(client, f"Duck {number} is white", user_id="bob")
    memory.save("The shared scope has its own records")
    for filters in (
        {"user_id": "ann"},
        {"AND": [{"user_id": "ann"}]},
        {"user_id": {"in": ["ann", "bob"]}},
        {"OR": [{"user_id": "ann"}, {"user_id": "bob"}]},
        {"AND": [{"user_id": "ann"}, {"metadata": {"n": {"gte": 3}}}]},
        {"AND": [{"user_id": "ann"}, {"agent_id": "x"}]},
    ):
        whole = client.post("/v2/memories/", json={"filters": filters}).json()
        pages = []
        for page in (1, 2, 3, 4):
            got = client.post("/v3/memories/", json={"filters": filters, "page": page, "page_size": 4}).json()
            assert got["count"] == len(whole)
            assert (got["next"] is None) == (page * 4 >= len(whole))
            pages += got["results"]
        assert pages == whole[:16], filters


@pytest.mark.slow
def test_every_method_of_the_real_client_works_or_names_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("mem0")
    scene = Path(__file__).with_name("mem0_scene.py")
    with serving(tmp_path / "memory", "--compat", "mem0") as served:
        url = f"http://127.0.0.1:{served.port}"
        done = subprocess.run([sys.executable, scene, url], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "AsyncMemoryClient done" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not NPM_CLIENT.exists(), reason="scripts/install_typescript.sh was not run")
def test_every_method_of_the_client_from_npm_works_or_names_what_is_missing(tmp_path: Path) -> None:
    scene = Path(__file__).with_name("mem0_scene.mjs")
    with serving(tmp_path / "memory", "--compat", "mem0") as served:
        command = ["node", scene, NPM_CLIENT, f"http://127.0.0.1:{served.port}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert "client from npm done" in done.stdout


def test_a_user_is_deleted_by_its_name_and_by_its_id(client: TestClient) -> None:
    for address in ("/v2/entities/user/alice/", "/v1/entities/user/user:alice/"):
        add(client, "I live in Bergen")
        assert "restored" in client.delete(address).json()["message"]
        assert client.delete(address).status_code == 404


def test_it_is_served_only_when_asked_for(server: HttpServer) -> None:
    with TestClient(build_application(server, host="127.0.0.1"), base_url=BASE) as client:
        assert client.get("/v1/ping/").status_code == 404


def test_a_memory_is_added_found_changed_and_deleted(client: TestClient, memory: Memory) -> None:
    ping = client.get("/v1/ping/", headers={"Authorization": "Token any"}).json()
    assert {"org_id", "project_id", "user_email"} <= set(ping)
    made = add(client, "I live in Bergen and play the harp", metadata={"n": 1, "kept": "x", "dates": "y"})
    assert made["event"] == "ADD"
    assert add(client, "I live in Bergen and play the harp")["event"] == "UPDATE"
    record = memory.scoped("user:alice").get(made["id"])
    assert (record.scope, record.origin, record.is_item) == ("user:alice", "owner", False)
    asked = {"query": "who plays the harp?", "filters": {"AND": [{"user_id": "alice"}]}, "top_k": 3}
    found = client.post("/v3/memories/search/", json=asked).json()["results"]
    assert (found[0]["id"], found[0]["metadata"]) == (made["id"], {"n": 1, "kept": "x", "dates": "y"})
    assert client.post("/v2/memories/search/", json=asked).json() == found
    url = f"/v1/memories/{made['id']}/"
    assert client.put(url, json={"text": "I live in Oslo"}).json()["memory"] == "I live in Oslo"
    assert [each["event"] for each in client.get(f"{url}history/").json()] == ["ADD", "UPDATE"]
    assert "restored" in client.delete(url).json()["message"]
    missing = client.get(url)
    assert (missing.status_code, "detail" in missing.json()) == (404, True)
    assert memory.scoped("user:alice").get(made["id"]).archived


def test_what_is_said_is_kept_whole_beside_the_records(client: TestClient, memory: Memory) -> None:
    messages = [
        {"role": "user", "content": "Where is the harp?"},
        {"role": "assistant", "content": "In Bergen."},
    ]
    body = {"messages": messages, "user_id": "alice", "run_id": "r1"}
    results = client.post("/v3/memories/add/", json=body).json()["results"]
    assert [each["memory"] for each in results] == ["Where is the harp?"]
    turns = memory.scoped("user:alice").turns("mem0:r1")
    assert [(turn.role, turn.content) for turn in turns] == [
        (each["role"], each["content"]) for each in messages
    ]


def test_the_self_hosted_routes_answer_too(client: TestClient) -> None:
    made = client.post("/memories", json={"messages": "I play the harp", "user_id": "alice"}).json()
    found = client.post("/search", json={"query": "harp", "user_id": "alice"}).json()["results"]
    assert found[0]["id"] == made["results"][0]["id"]
    assert len(client.get("/memories?user_id=alice").json()["results"]) == 1
    assert client.get(f"/memories/{found[0]['id']}").json()["memory"] == "I play the harp"
    assert len(client.get(f"/memories/{found[0]['id']}/history").json()) == 1
    assert client.delete("/memories?user_id=alice").status_code == 200
    assert client.get("/memories?user_id=alice").json() == {"results": []}


def test_what_reverie_does_not_have_is_named(client: TestClient) -> None:
    for method, path in (
        ("POST", "/v1/exports/"),
        ("POST", "/v1/exports/get/"),
        ("POST", "/v1/summary/"),
        ("POST", "/v1/feedback/"),
        ("GET", "/v2/entities/user/alice/profile/"),
        ("POST", "/v2/profiles/jobs/"),
        ("GET", "/v2/profiles/settings/"),
        ("GET", "/api/v1/webhooks/projects/1/"),
        ("PATCH", "/api/v1/orgs/organizations/o/projects/p/"),
    ):
        answer = client.request(method, path, json={} if method != "GET" else None)
        assert (answer.status_code, "not in Reverie" in answer.json()["detail"]) == (501, True), path


@pytest.mark.parametrize(
    "body",
    [
        {"messages": "x"},
        {"messages": [], "user_id": "a"},
        {"messages": [{"role": "user"}], "user_id": "a"},
        {"messages": 5, "user_id": "a"},
        {"messages": "x", "user_id": "a", "metadata": 5},
        {"messages": "x", "user_id": " "},
        {"messages": "x", "user_id": "a", "expiration_date": "soon"},
        {"messages": "x", "user_id": "a", "expiration_date": "2001-01-01"},
        {"messages": "x", "user_id": "a", "timestamp": "never"},
        {"messages": "x", "user_id": "a" * 300},
        {"messages": "x", "user_id": "a", "timestamp": 2**39},
        {"messages": "x", "user_id": "a", "timestamp": 1e300},
        {"messages": "x", "user_id": "a", "expiration_date": -(2**39)},
        {"messages": "x" * 100_001, "user_id": "a"},
    ],
)
def test_a_wrong_request_is_refused(client: TestClient, memory: Memory, body: object) -> None:
    assert client.post("/v3/memories/add/", json=body).status_code in (400, 422)
    assert memory.history.log() == []


@pytest.mark.parametrize("number", ["x", "-1", "9" * 30, "9" * 5_000])
def test_a_wrong_number_is_refused(client: TestClient, number: str) -> None:
    answer = client.post(f"/v3/memories/?page={number}", json={"filters": {"user_id": "alice"}})
    assert (answer.status_code, "page is" in answer.json()["detail"]) == (422, True)


def test_nothing_of_another_scope_is_seen_or_changed(client: TestClient, server: HttpServer) -> None:
    tokens = {
        name: server.tokens.create(name, scope=f"tenant:{name}", rights=["read", "write"], origin="owner")[1]
        for name in ("acme", "other")
    }

    def ask(who: str, method: str, path: str, **options: Any) -> Any:
        return client.request(method, path, headers={"Authorization": f"Token {tokens[who]}"}, **options)

    body = {"messages": "Alice plays the harp", "user_id": "alice"}
    made = ask("acme", "POST", "/v3/memories/add/", json=body).json()["results"][0]
    assert [record.scope for record in server.memory.scoped("*").list()] == ["tenant:acme/user:alice"]
    url = f"/v1/memories/{made['id']}/"
    for method, path, options in (
        ("GET", url, {}),
        ("GET", f"{url}history/", {}),
        ("PUT", url, {"json": {"text": "x"}}),
        ("DELETE", url, {}),
        ("PUT", "/v1/batch/", {"json": {"memories": [{"memory_id": made["id"], "text": "x"}]}}),
        ("DELETE", "/v1/batch/", {"json": {"memories": [{"memory_id": made["id"]}]}}),
        ("DELETE", "/v2/entities/user/alice/", {}),
    ):
        assert ask("other", method, path, **options).status_code == 404, (method, path)
    wanted = {"query": "harp", "filters": {"user_id": "alice"}}
    assert ask("other", "POST", "/v3/memories/search/", json=wanted).json() == {"results": []}
    assert ask("other", "POST", "/v3/memories/", json=wanted).json()["count"] == 0
    assert ask("other", "GET", "/v1/entities/").json()["results"] == []
    assert ask("acme", "GET", "/v1/entities/").json()["results"][0]["name"] == "alice"
    assert ask("acme", "GET", url).json()["user_id"] == "alice"


def test_an_agents_token_does_not_speak_as_the_user(client: TestClient, server: HttpServer) -> None:
    _, text = server.tokens.create("agent", scope="tenant:acme", rights=["read", "write"])
    client.headers["Authorization"] = f"Token {text}"
    made = add(client, "I play the harp")
    view = server.memory.scoped("tenant:acme/user:alice")
    assert view.get(made["id"]).origin == "agent"
    assert [(turn.role, turn.speaker) for turn in view.turns("mem0")] == [("assistant", "user")]


@pytest.mark.parametrize("operation", mem0.OPERATIONS, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_needs_a_token_with_its_right(
    client: TestClient, server: HttpServer, operation: Any
) -> None:
    other = "write" if operation.right == "read" else "read"
    _, weak = server.tokens.create("weak", scope="user:alice", rights=[other])
    path = operation.path.replace("{rest:path}", "x").replace("{name:path}", "x")
    path = path.replace("{id}", "000000000000").replace("{kind}", "user").replace("{name}", "x")
    assert client.request(operation.method, path, json={}).status_code == 401
    assert client.request(operation.method, path, json={}, headers={"X-API-Key": weak}).status_code == 403


# -- filters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "scopes"),
    [
        ({"user_id": "a"}, {"user:a"}),
        ({"user_id": "a", "run_id": "r"}, {"user:a"}),
        ({"AND": [{"run_id": "r"}, {"user_id": "a"}]}, {"user:a"}),
        ({"OR": [{"user_id": "a"}, {"agent_id": "b"}]}, {"user:a", "agent:b"}),
        ({"OR": [{"user_id": "a"}, {"keywords": "x"}]}, set()),
        ({"user_id": {"in": ["a", "b"]}}, {"user:a", "user:b"}),
        ({"user_id": "*"}, set()),
        ({"NOT": [{"user_id": "a"}]}, set()),
        ({}, set()),
    ],
)
def test_a_filter_names_the_scopes_it_is_about(filters: dict[str, Any], scopes: set[str]) -> None:
    assert find_scopes(filters) == scopes


def test_filters_compare_as_mem0_does() -> None:
    memory = {
        "memory": "I play the Harp",
        "user_id": "a",
        "run_id": None,
        "categories": ["music"],
        "created_at": "2025-06-01T00:00:00Z",
        "metadata": {"n": 5, "town": "Bergen"},
    }
    for filters in (
        {"user_id": "a", "run_id": None},
        {"categories": {"contains": "music"}},
        {"categories": {"in": ["music", "x"]}},
        {"created_at": {"gte": "2025-01-01", "lt": "2026-01-01"}},
        {"metadata": {"n": {"gt": 4, "lte": 5}}},
        {"metadata": {"town": "Bergen"}},
        {"keywords": {"icontains": "harp"}},
        {"NOT": [{"user_id": "b"}]},
        {"user_id": "*"},
        {"user_id": {"ne": "b"}},
    ):
        assert is_match(filters, memory), filters
    for filters in (
        {"run_id": "*"},
        {"keywords": {"contains": "harp"}},
        {"metadata": {"n": {"gt": "4"}}},
        {"run_id": {"gt": None}},
        {"OR": [{"user_id": "b"}, {"categories": "sport"}]},
        {"NOT": {"user_id": "a"}},
    ):
        assert not is_match(filters, memory), filters
    for filters in ({"colour": "red"}, {"user_id": {"like": "a"}}, {"AND": 5}):
        with pytest.raises(InvalidInput, match="filters has"):
            is_match(filters, memory)


@pytest.mark.parametrize(
    "name", ["alice", "a/b", "100%", "a%2Fb", "日本", "a:b", "x\ny", "alice@example.com"]
)
def test_the_scope_of_a_name_leads_back_to_it(name: str) -> None:
    scope = build_scope_name("user", name)
    assert "/" not in scope
    assert parse_scope_name(scope) == ("user", name)
