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
from reverie.interfaces.http.application import build_application
from reverie.interfaces.http.mem0 import build_scope_name, find_scopes, is_match, parse_scope_name
from reverie.interfaces.http.server import HttpServer
from tests.interfaces.http.conftest import BASE
from tests.interfaces.http.test_http_process import serving

NPM_CLIENT = Path(sys.prefix, "share/mem0/node_modules/mem0ai")
FILTERS = json.loads(Path(__file__).with_name("mem0_filters.json").read_text(encoding="utf-8"))
ADD, LIST, SEARCH = "/v3/memories/add/", "/v3/memories/", "/v3/memories/search/"


@pytest.fixture
def client(server: HttpServer) -> Iterator[TestClient]:
    app = build_application(server, host="127.0.0.1", compatible=["mem0"])
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
        yield client


def add(client: TestClient, text: str, **fields: Any) -> dict[str, Any]:
    body = {"messages": [{"role": "user", "content": text}], **({"user_id": "alice"} | fields)}
    answer = client.post(ADD, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]


@pytest.mark.slow
def test_every_method_of_the_real_clients_works_or_names_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("mem0")
    with serving(tmp_path / "memory", "--compat", "mem0") as served:
        url, folder = f"http://127.0.0.1:{served.port}", Path(__file__).parent
        commands = [[sys.executable, folder / "mem0_scene.py", url]]
        if NPM_CLIENT.exists():  # by scripts/install_typescript.sh
            commands.append(["node", folder / "mem0_scene.mjs", NPM_CLIENT, url])
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, done.stderr
            assert "done" in done.stdout


def test_a_memory_is_added_found_changed_and_deleted(client: TestClient, memory: Memory) -> None:
    ping = client.get("/v1/ping/", headers={"Authorization": "Token any"}).json()
    assert {"org_id", "project_id", "user_email"} <= set(ping)
    made = add(client, "I live in Bergen and play the harp", metadata={"n": 1, "kept": "x", "dates": "y"})
    again = add(client, "I live in Bergen and play the harp")
    assert (made["event"], again["event"]) == ("ADD", "UPDATE")
    view = memory.scoped("user:alice")
    record = view.get(made["id"])
    assert (record.scope, record.origin, record.is_item) == ("user:alice", "owner", False)
    asked = {"query": "who plays the harp?", "filters": {"AND": [{"user_id": "alice"}]}, "top_k": 3}
    found = client.post(SEARCH, json=asked).json()["results"]
    assert (found[0]["id"], found[0]["metadata"]) == (made["id"], {"n": 1, "kept": "x", "dates": "y"})
    url = f"/v1/memories/{made['id']}/"
    assert client.put(url, json={"text": "I live in Oslo"}).json()["memory"] == "I live in Oslo"
    assert [each["event"] for each in client.get(f"{url}history/").json()] == ["ADD", "UPDATE"]
    other = add(client, "I keep bees")["id"]
    client.put("/v1/batch/", json={"memories": [{"memory_id": other, "text": "I keep cats"}]})
    assert client.get(f"/v1/memories/{other}/").json()["memory"] == "I keep cats"
    assert (
        client.request("DELETE", "/v1/batch/", json={"memories": [{"memory_id": other}]}).status_code == 200
    )
    assert "restored" in client.delete(url).json()["message"]
    missing = client.get(url)
    assert (missing.status_code, "detail" in missing.json()) == (404, True)
    assert view.get(made["id"]).archived
    add(client, "I live in Bergen")
    assert client.get("/v1/entities/").json()["results"][0]["name"] == "alice"
    assert "restored" in client.delete("/v2/entities/user/alice/").json()["message"]
    assert client.delete("/v2/entities/user/alice/").status_code == 404
    assert view.list() == []


def test_a_history_is_taken_as_far_as_it_is_text(client: TestClient, memory: Memory) -> None:
    odd: list[tuple[Any, list[str]]] = [
        ([{"role": "user", "content": {"type": "image_url", "image_url": {"url": "x"}}}], []),
        ([{"role": "assistant", "content": ""}, {"role": "assistant", "content": None}], []),
        ([{"role": "human", "content": [{"type": "text", "text": "I keep cats"}]}], ["I keep cats"]),
        ([{"role": ["x"], "content": "y" * 100_001}, None, 7, {"content": ["", None]}], []),
        ([{"role": "tool", "tool_call_id": "c", "content": "4"}], ["4"]),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "audio"}, "b"]}], ["a\nb"]),
        ([{"role": "user", "content": "x\ud800\0y"}], ["x  y"]),
    ]
    for number, (messages, texts) in enumerate(odd):
        history = {
            "user_id": f"u{number}",
            "messages": [{"role": "user", "content": "I keep bees"}, *messages],
        }
        answer = client.post(ADD, content=json.dumps(history | {"metadata": {"m": "\ud800"}}))
        assert answer.status_code == 200, answer.text
        turns = memory.scoped(f"user:u{number}").session("mem0").turns()
        assert [turn.content for turn in turns][1:] == texts


def test_a_preference_is_listed_once_and_a_programs_text_is_not_the_owners(
    client: TestClient, memory: Memory
) -> None:
    reply = {"role": "assistant", "content": "Noted."}
    for text in ("I prefer tea over coffee.", "I never eat fish. I always fly at night, please remember."):
        messages = [{"role": "user", "content": text}, reply]
        answer = client.post(ADD, json={"messages": messages, "user_id": "al", "run_id": "r1"})
        assert answer.status_code == 200
    add(client, "Stop hook feedback:\n- Always use tabs", user_id="al")
    listed = client.post(LIST, json={"filters": {"user_id": "al"}}).json()["results"]
    assert [(each["memory"][:7], each["trusted"]) for each in listed] == [
        ("Stop ho", False), ("I alway", True), ("I never", True), ("I prefe", True)
    ]  # fmt: skip
    assert memory.scoped("user:al").list(kind="preference")
    assert [turn.role for turn in memory.scoped("user:al").turns("mem0:r1")] == ["user", "assistant"] * 2


def test_a_page_is_found_by_the_database_and_agrees_with_the_whole_list(
    client: TestClient, memory: Memory
) -> None:
    for number in range(7):
        add(client, f"Bee hive {number} is full", user_id="ann", metadata={"n": number})
        add(client, f"Duck {number} is white", user_id="bob")
    memory.save("The shared scope has its own records")
    for filters, count in (
        ({"user_id": "ann"}, 7),
        ({"AND": [{"user_id": "ann"}]}, 7),
        ({"user_id": {"in": ["ann", "bob"]}}, 14),
        ({"OR": [{"user_id": "ann"}, {"user_id": "bob"}]}, 14),
        ({"AND": [{"user_id": "ann"}, {"metadata": {"n": {"gte": 3}}}]}, 4),
        ({"AND": [{"user_id": "ann"}, {"agent_id": "x"}]}, 0),
    ):
        whole = client.post(LIST, json={"filters": filters}).json()["results"]
        pages = []
        for page in (1, 2, 3, 4):
            got = client.post(LIST, json={"filters": filters, "page": page, "page_size": 4}).json()
            assert got["count"] == len(whole) == count
            assert (got["next"] is None) == (page * 4 >= count)
            pages += got["results"]
        assert pages == whole, filters


def test_a_wrong_request_is_refused(client: TestClient, memory: Memory, server: HttpServer) -> None:
    wrong: list[dict[str, Any]] = [
        {"user_id": None},
        {"messages": []},
        {"messages": [{"role": "user"}]},
        {"messages": 5},
        {"messages": "x" * 100_001},
        {"metadata": 5},
        {"user_id": " "},
        {"user_id": "a" * 300},
        *({"expiration_date": each} for each in ("soon", "2001-01-01", -(2**39))),
        *({"timestamp": each} for each in ("never", 2**39, 1e300)),
    ]
    for fields in wrong:
        answer = client.post(ADD, json={"messages": "x", "user_id": "a"} | fields)
        assert answer.status_code in (400, 422), fields
    for number in ("x", "-1", "9" * 30, "9" * 5_000):
        answer = client.post(f"{LIST}?page={number}", json={"filters": {"user_id": "alice"}})
        assert (answer.status_code, "page is" in answer.json()["detail"]) == (422, True)
    assert client.post(SEARCH, json={"query": "x", "filters": {"keywords": "x"}}).status_code == 400
    assert memory.history.log() == []
    with TestClient(build_application(server, host="127.0.0.1"), base_url=BASE) as plain:
        assert plain.get("/v1/ping/").status_code == 404  # it is served only when asked for


def test_nothing_of_another_scope_is_seen_or_changed(client: TestClient, server: HttpServer) -> None:
    headers = {}
    for name, origin in (("acme", "owner"), ("other", "owner"), ("agent", "agent")):
        scope, rights = f"tenant:{name}", ["read", "write"]
        _, token = server.tokens.create(name, scope=scope, rights=rights, origin=origin)
        headers[name] = {"Authorization": f"Token {token}"}

    def ask(who: str, method: str, path: str, **options: Any) -> Any:
        return client.request(method, path, headers=headers[who], **options)

    body = {"messages": "Alice plays the harp", "user_id": "alice"}
    made = ask("acme", "POST", ADD, json=body).json()["results"][0]
    assert [record.scope for record in server.memory.scoped("*").list()] == ["tenant:acme/user:alice"]
    url, batch = f"/v1/memories/{made['id']}/", {"memories": [{"memory_id": made["id"], "text": "x"}]}
    for method, path, options in (
        ("GET", url, {}),
        ("GET", f"{url}history/", {}),
        ("PUT", url, {"json": {"text": "x"}}),
        ("DELETE", url, {}),
        ("PUT", "/v1/batch/", {"json": batch}),
        ("DELETE", "/v1/batch/", {"json": batch}),
        ("DELETE", "/v2/entities/user/alice/", {}),
    ):
        assert ask("other", method, path, **options).status_code == 404, (method, path)
    wanted = {"query": "harp", "filters": {"user_id": "alice"}}
    assert ask("other", "POST", SEARCH, json=wanted).json() == {"results": []}
    assert ask("other", "POST", LIST, json=wanted).json()["count"] == 0
    assert ask("other", "GET", "/v1/entities/").json()["results"] == []
    assert ask("acme", "GET", url).json()["user_id"] == "alice"
    ask("agent", "POST", ADD, json=body)  # an agent's token does not speak as the user
    view = server.memory.scoped("tenant:agent/user:alice")
    assert [record.origin for record in view.list()] == ["agent"]
    assert [(turn.role, turn.speaker) for turn in view.turns("mem0")] == [("assistant", "user")]


# -- filters ---------------------------------------------------------------------------------------------


def test_a_filter_names_the_scopes_it_is_about() -> None:
    for given, scopes in FILTERS["scopes"]:
        assert find_scopes(given) == set(scopes), given
    for name in ("alice", "a/b", "100%", "a%2Fb", "日本", "a:b", "x\ny", "alice@example.com"):
        scope = build_scope_name("user", name)
        assert "/" not in scope
        assert parse_scope_name(scope) == ("user", name)


def test_filters_compare_as_mem0_does() -> None:
    memory = FILTERS["memory"]
    for filters, expected in FILTERS["matches"]:
        assert is_match(filters, memory) is expected, filters
    for filters in ({"colour": "red"}, {"user_id": {"like": "a"}}, {"AND": 5}):
        with pytest.raises(InvalidInput, match="filters has"):
            is_match(filters, memory)
