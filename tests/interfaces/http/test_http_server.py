"""The HTTP server: who is let in, health, metrics, refusals, tokens."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from reverie import InvalidInput, Memory
from reverie.interfaces.http.serve import validate_host
from reverie.interfaces.http.server import LARGEST_BODY, HttpServer

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
MCP = {"Accept": "application/json, text/event-stream"}


def test_a_running_server_is_live_and_ready(client: TestClient, memory: Memory) -> None:
    assert client.get("/livez").json()["status"] == "ok"
    memory.save("Prefers tea")
    assert client.get("/readyz").json() == {"status": "ok"}


def test_a_server_whose_store_fails_is_not_ready(client: TestClient, memory: Memory) -> None:
    memory.close()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["type"] == "urn:reverie:problem:store-unavailable"


def test_metrics_count_requests_by_operation_and_status(client: TestClient, memory: Memory) -> None:
    memory.save("Prefers tea")
    client.get("/livez")
    client.get("/livez")
    text = client.get("/metrics").text
    assert 'reverie_requests_total{operation="get_liveness",status="200"} 2' in text
    assert 'reverie_request_seconds_count{operation="get_liveness"} 2' in text
    assert 'reverie_request_seconds_bucket{le="+Inf",operation="get_liveness"} 2' in text
    assert "\nreverie_records 1.0\n" in text


def test_metrics_follow_the_changes_and_measure_the_folder_once_a_minute(
    client: TestClient, memory: Memory
) -> None:
    def read_gauges() -> dict[str, str]:
        lines = client.get("/metrics").text.splitlines()
        return dict(line.split(" ") for line in lines if line.startswith("reverie_") and "{" not in line)

    record = memory.save("Prefers tea").record
    first = read_gauges()
    assert memory.path is not None
    (memory.path / "large").write_bytes(b"x" * 10_000_000)
    memory.scoped("user:bob").save("Lives in Lisbon")
    memory.session("s").add("user", "Hello")
    then = read_gauges()
    assert then["reverie_store_bytes"] == first["reverie_store_bytes"]
    memory.admin.forget(record.id)
    last = read_gauges()
    assert [each["reverie_records"] for each in (first, then, last)] == ["1.0", "2.0", "1.0"]
    assert (then["reverie_turns"], float(then["reverie_journal_sequence"])) == ("1.0", 4)
    assert float(last["reverie_journal_sequence"]) == memory.admin.stats().journal


def test_every_refusal_is_a_problem_that_says_what_to_do(client: TestClient) -> None:
    for answer, status, advice in (
        (client.get("/nowhere"), 404, "/openapi.json"),
        (client.delete("/livez"), 405, "/openapi.json"),
        (client.get("/livez?x=1"), 422, "Correct it"),
        (client.get("/livez", headers={"Host": "evil.example"}), 421, "--allow-host"),
        (client.get("/livez", headers={"Origin": "http://evil.example"}), 403, "--allow-host"),
    ):
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["type"].startswith("urn:reverie:problem:")
        assert advice in problem["detail"]


def test_a_request_keeps_its_name(client: TestClient) -> None:
    trace = "0123456789abcdef0123456789abcdef"
    assert client.get("/livez", headers={"X-Request-ID": "a-1"}).headers["x-request-id"] == "a-1"
    traced = client.get("/livez", headers={"traceparent": f"00-{trace}-0123456789abcdef-01"})
    assert traced.headers["x-request-id"] == trace
    assert client.get("/livez", headers={"X-Request-ID": "a b"}).headers["x-request-id"] != "a b"


def test_other_machines_are_served_only_with_a_token(server: HttpServer) -> None:
    validate_host("127.0.0.1", server)
    with pytest.raises(InvalidInput, match="reverie token create"):
        validate_host("0.0.0.0", server)
    server.tokens.create("alice", scope="user:alice")
    validate_host("0.0.0.0", server)


# -- tokens ----------------------------------------------------------------------------------------------


def test_the_store_keeps_only_the_hash_of_a_token(memory: Memory, server: HttpServer) -> None:
    made, text = server.tokens.create("alice", scope="user:alice")
    secret = text.removeprefix(f"rvr_{made.id}_")
    memory.close()
    stored = b"".join(file.read_bytes() for file in memory.path.rglob("*") if file.is_file())
    assert b"user:alice" in stored
    assert secret.encode() not in stored


def test_a_token_is_a_secret_that_is_not_remembered(memory: Memory, server: HttpServer) -> None:
    for _ in range(20):  # with `-` and `_` at any place
        _, text = server.tokens.create("alice", scope="user:alice")
        assert (
            memory.save(f"Ask with {text}, please").record.content
            == "Ask with [redacted: reverie token], please"
        )


def test_a_token_is_read_back_as_it_was_made(memory: Memory, server: HttpServer) -> None:
    made, text = server.tokens.create(
        "alice", scope="user:alice", rights=["write", "read"], origin="tool", expires="30d"
    )
    again = HttpServer(memory).tokens
    assert again.list() == [made]
    caller = again.authenticate(text)
    assert (caller.label, caller.scope, caller.rights, caller.origin) == (
        "alice",
        "user:alice",
        ("read", "write"),
        "tool",
    )
    assert again.list()[0].last_used_at is not None


def test_a_wrong_revoked_or_expired_token_is_refused(
    client: TestClient, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, text = server.tokens.create("root", rights=["admin", "read"])
    _, short = server.tokens.create("short", rights=["admin", "read"], expires="1s")

    def ask(token: str | None, header: str = "Bearer {}") -> int:
        headers = {} if token is None else {"Authorization": header.format(token)}
        return client.get("/metrics", headers=headers).status_code

    assert ask(text) == ask(text, "Token {}") == ask(short) == 200
    assert client.get("/metrics", headers={"X-API-Key": text}).status_code == 200
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    for each in (None, "", "x", wrong, text.replace("rvr_", "rvx_"), f"rvr_00000000_{'a' * 43}"):
        assert ask(each) == 401, each
    now = server.memory.now()
    monkeypatch.setattr(server.tokens, "_now", lambda: now.replace(year=now.year + 1))
    assert (ask(text), ask(short)) == (200, 401)
    server.tokens.revoke(made.id)
    assert ask(text) == 401


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"rights": ["read"]}, "needs a scope"),
        ({"rights": ["admin"], "scope": "user:alice"}, "leave out"),
        ({"rights": ["all"], "scope": "user:alice"}, "use read, write"),
        ({"rights": [], "scope": "user:alice"}, "at least one"),
        ({"scope": "*"}, "means all of them"),
        ({"scope": "user:alice", "origin": "me"}, "use one of owner"),
        ({"scope": "user:alice", "expires": "soon"}, "expires"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_created(
    server: HttpServer, options: dict[str, object], advice: str
) -> None:
    with pytest.raises(InvalidInput, match=advice):
        server.tokens.create("x", **options)
    assert not server.tokens.is_required()


# -- MCP -------------------------------------------------------------------------------------------------


def test_mcp_is_served_within_the_scope_of_the_token(client: TestClient, server: HttpServer) -> None:
    server.memory.scoped("user:alice").save("Alice likes tea")
    assert client.post("/mcp", json=INITIALIZE, headers=MCP).status_code == 200
    tokens = {name: server.tokens.create(name, scope=f"user:{name}")[1] for name in ("alice", "bob")}
    assert client.post("/mcp", json=INITIALIZE, headers=MCP).status_code == 401

    def search(name: str) -> str:
        headers = {**MCP, "Authorization": f"Bearer {tokens[name]}"}
        begun = client.post("/mcp", json=INITIALIZE, headers=headers)
        headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        call = {"name": "search_memory", "arguments": {"query": "tea"}}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        found = client.post("/mcp", json=asked, headers=headers).text
        other = {**headers, "Authorization": f"Bearer {tokens['bob' if name == 'alice' else 'alice']}"}
        assert client.post("/mcp", json=asked, headers=other).status_code == 404
        saving = {"name": "save_memory", "arguments": {"content": "x"}}
        refused = client.post("/mcp", json={**asked, "params": saving}, headers=headers).text
        assert "Unknown tool" in refused
        return found

    assert "Alice likes tea" in search("alice")
    assert "Alice likes tea" not in search("bob")


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client: TestClient) -> None:
    answer = client.post("/mcp", content=b" " * (LARGEST_BODY + 1), headers=MCP)
    assert answer.status_code == 413


# -- what operators use ----------------------------------------------------------------------------------


def test_a_probe_may_name_any_host_once_tokens_are_required(client: TestClient, server: HttpServer) -> None:
    probe = {"Host": "10.1.2.3:8766"}
    assert client.get("/readyz", headers=probe).status_code == 421
    server.tokens.create("alice", scope="user:alice")
    assert client.get("/readyz", headers=probe).status_code == 200
    assert client.get("/v1/records", headers=probe).status_code == 401


def test_the_access_log_names_the_request_and_nothing_that_was_said(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="reverie.http.access"):
        client.get("/v1/records/harbour?scope=secret", headers={"X-API-Key": "token", "X-Request-ID": "r-1"})
    (line,) = caplog.messages
    assert line.startswith("GET /v1/records/{id} 404 ")
    assert line.endswith(" r-1")
    assert not any(word in line for word in ("harbour", "secret", "token"))


def test_the_description_is_shown_by_files_of_this_server(client: TestClient) -> None:
    pytest.importorskip("swagger_ui_bundle")
    page = client.get("/docs")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("<!doctype html>", "").replace("<html", "")
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "start.js"):
        assert f"/docs/{name}" in page.text
        assert client.get(f"/docs/{name}").status_code == 200
    assert client.get("/docs/index.html").status_code == 404
