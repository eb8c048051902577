"""The HTTP server: who is let in, health, metrics, refusals, tokens, its description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from reverie import InvalidInput, Memory
from reverie.interfaces.http.application import OPERATIONS, build_api, describe_api
from reverie.interfaces.http.serve import validate_host
from reverie.interfaces.http.server import LARGEST_BODY, HttpServer

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
MCP = {"Accept": "application/json, text/event-stream"}
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"


def test_a_server_is_live_and_ready_until_its_store_fails(client: TestClient, memory: Memory) -> None:
    assert client.get("/livez").json()["status"] == "ok"
    memory.close()
    answer = client.get("/readyz")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["type"] == "urn:reverie:problem:store-unavailable"


def test_metrics_count_requests_and_follow_the_changes(client: TestClient, memory: Memory) -> None:
    def read_gauges() -> dict[str, str]:
        lines = client.get("/metrics").text.splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if line.startswith("reverie_"))

    record = memory.save("Prefers tea").record
    for _ in range(2):
        assert client.get("/readyz").json() == {"status": "ok"}
    first = read_gauges()
    assert first['reverie_requests_total{operation="get_readiness",status="200"}'] == "2.0"
    assert first['reverie_request_seconds_bucket{le="+Inf",operation="get_readiness"}'] == "2.0"
    assert memory.path is not None
    (memory.path / "large").write_bytes(b"x" * 10_000_000)
    memory.scoped("user:bob").save("Lives in Lisbon")
    memory.session("s").add("user", "Hello")
    then = read_gauges()
    assert then["reverie_store_bytes"] == first["reverie_store_bytes"]  # measured once a minute
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
        *(
            (client.post(path, headers={"Host": host}), 421, "--allow-host")
            for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil")
            for path in ("/mcp", "/v1/records")
        ),
        *(
            (client.post("/mcp", headers={"Origin": origin}), 403, "--allow-host")
            for origin in ("http://evil.example", "null", "http://127.0.0.1.evil.example", "file://")
        ),
    ):
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == status
        assert problem["type"].startswith("urn:reverie:problem:")
        assert advice in problem["detail"]


def test_a_request_keeps_its_name_and_the_log_nothing_that_was_said(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.get("/livez", headers={"X-Request-ID": "a b"}).headers["x-request-id"] != "a b"
    with caplog.at_level("INFO", logger="reverie.http.access"):
        client.get("/v1/records/harbour?scope=secret", headers={"X-API-Key": "token", "X-Request-ID": "r-1"})
    (line,) = caplog.messages
    assert line.startswith("GET /v1/records/{id} 404 ")
    assert line.endswith(" r-1")
    assert not any(word in line for word in ("harbour", "secret", "token"))


def test_other_machines_and_any_host_name_are_served_only_with_a_token(
    client: TestClient, server: HttpServer
) -> None:
    probe = {"Host": "10.1.2.3:8766"}
    validate_host("127.0.0.1", server)
    with pytest.raises(InvalidInput, match="reverie token create"):
        validate_host("0.0.0.0", server)
    assert client.get("/readyz", headers=probe).status_code == 421
    server.tokens.create("alice", scope="user:alice")
    validate_host("0.0.0.0", server)
    assert client.get("/readyz", headers=probe).status_code == 200
    assert client.get("/v1/records", headers=probe).status_code == 401


# -- tokens ----------------------------------------------------------------------------------------------


def test_a_token_is_read_back_as_it_was_made_and_never_stored(memory: Memory, server: HttpServer) -> None:
    options: Any = {"scope": "user:alice", "rights": ["write", "read"], "origin": "tool", "expires": "30d"}
    made, text = server.tokens.create("alice", **options)
    again = HttpServer(memory).tokens
    assert again.list() == [made]
    caller = again.authenticate(text)
    assert caller is not None
    known = (caller.label, caller.scope, caller.rights, caller.origin)
    assert known == ("alice", "user:alice", ("read", "write"), "tool")
    assert again.list()[0].last_used_at is not None
    for _ in range(20):  # with `-` and `_` at any place
        _, other = server.tokens.create("alice", scope="user:alice")
        kept = memory.save(f"Ask with {other}, please").record.content
        assert kept == "Ask with [redacted: reverie token], please"
    memory.close()
    stored = b"".join(file.read_bytes() for file in memory.path.rglob("*") if file.is_file())
    assert b"user:alice" in stored
    assert text.removeprefix(f"rvr_{made.id}_").encode() not in stored


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


def test_a_token_that_makes_no_sense_is_not_created(server: HttpServer) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"rights": ["read"]}, "needs a scope"),
        ({"rights": ["admin"], "scope": "user:alice"}, "leave out"),
        ({"rights": ["all"], "scope": "user:alice"}, "use one of read, write"),
        ({"rights": [], "scope": "user:alice"}, "at least one"),
        ({"scope": "*"}, "means all of them"),
        ({"scope": "user:alice", "origin": "me"}, "use one of owner"),
        ({"scope": "user:alice", "expires": "soon"}, "expires"),
    ]
    for options, advice in cases:
        with pytest.raises(InvalidInput, match=advice):
            server.tokens.create("x", **options)
    assert not server.tokens.is_required()


# -- MCP and the description -----------------------------------------------------------------------------


def test_mcp_is_served_within_the_scope_of_the_token(client: TestClient, server: HttpServer) -> None:
    server.memory.scoped("user:alice").save("Alice likes tea")
    assert client.post("/mcp", content=b" " * (LARGEST_BODY + 1), headers=MCP).status_code == 413
    assert client.post("/mcp", json=INITIALIZE, headers=MCP).status_code == 200
    tokens = {name: server.tokens.create(name, scope=f"user:{name}")[1] for name in ("alice", "bob")}
    assert client.post("/mcp", json=INITIALIZE, headers=MCP).status_code == 401
    for name, other in (("alice", "bob"), ("bob", "alice")):
        headers = {**MCP, "Authorization": f"Bearer {tokens[name]}"}
        begun = client.post("/mcp", json=INITIALIZE, headers=headers)
        headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        call = {"name": "search_memory", "arguments": {"query": "tea"}}
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        found = client.post("/mcp", json=asked, headers=headers).text
        assert ("Alice likes tea" in found) is (name == "alice")
        foreign = {**headers, "Authorization": f"Bearer {tokens[other]}"}
        assert client.post("/mcp", json=asked, headers=foreign).status_code == 404
        saving = {"name": "save_memory", "arguments": {"content": "x"}}
        refused = client.post("/mcp", json={**asked, "params": saving}, headers=headers).text
        assert "Unknown tool" in refused


def test_the_description_is_valid_complete_and_in_the_reference(server: HttpServer) -> None:
    description = describe_api(build_api(server))
    schemas, paths = description["components"]["schemas"], description["paths"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    for name in _list_references(description):
        assert name.removeprefix("#/components/schemas/") in schemas
    operations = [each for item in paths.values() for each in item.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) == len(OPERATIONS)
    assert all(each["summary"].endswith(".") for each in operations)
    for path, item in paths.items():
        for operation in item.values():
            declared = {each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"}
            assert declared == {part[1:-1] for part in path.split("/") if part.startswith("{")}
    lines = REFERENCE.read_text(encoding="utf-8").splitlines()
    named = {line.split("`")[1] for line in lines if line.startswith(("* `GET", "* `P", "* `DEL"))}
    assert named == {f"{method.upper()} {path}" for path, item in paths.items() for method in item}
    pytest.importorskip("openapi_spec_validator").validate(description)


def _list_references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for each in value for name in _list_references(each)]
    if not isinstance(value, dict):
        return []
    found = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return found + [name for each in value.values() for name in _list_references(each)]


def test_the_description_is_shown_by_files_of_this_server(client: TestClient) -> None:
    page = client.get("/docs")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("<!doctype html>", "").replace("<html", "")
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "start.js"):
        assert f"/docs/{name}" in page.text
        assert client.get(f"/docs/{name}").status_code == 200
    assert client.get("/docs/index.html").status_code == 404
