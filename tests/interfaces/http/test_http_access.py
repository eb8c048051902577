"""Tokens: every route refuses without one, with too little, and across scopes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http.application import OPERATIONS
from reverie.interfaces.http.operations import Operation
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.http.tokens import RIGHTS

GUARDED = [each for each in OPERATIONS if each.right is not None]
SECRET = "Alice lives at 5 Harbour Street"

Ask = Callable[..., Any]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Operation) else str(value)


def call(client: TestClient, operation: Operation, token: str | None, **options: Any) -> Any:
    path = re.sub(r"\{\w+(:\w+)?\}", "000000000000", operation.path)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if operation.body is not None:
        options.setdefault("json", {})
    if operation.name == "stream_changes":
        path += "?after=x"  # refused once the token is accepted, so that no stream begins
    return client.request(operation.method, path, headers=headers, **options)


@pytest.fixture
def memory() -> Iterator[Memory]:
    """A memory without files: a server for each route is opened here."""
    with Memory.open(":memory:") as memory:
        yield memory


@pytest.mark.parametrize("operation", GUARDED, ids=name_of)
def test_a_route_refuses_without_a_token_and_without_its_right(
    client: TestClient, server: HttpServer, operation: Operation
) -> None:
    others = [right for right in RIGHTS if right not in (operation.right, "admin")]
    _, weak = server.tokens.create("weak", scope="user:alice", rights=others)
    _, strong = server.tokens.create("strong", rights=RIGHTS, origin="owner")
    assert call(client, operation, None).status_code == 401
    assert call(client, operation, weak[:-2] + "xx").status_code == 401
    refused = call(client, operation, weak)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:reverie:problem:right-missing")
    assert call(client, operation, strong).status_code not in (401, 403)


@pytest.mark.parametrize("operation", [each for each in GUARDED if each.is_whole], ids=name_of)
def test_what_is_about_all_scopes_refuses_a_token_of_one(
    client: TestClient, server: HttpServer, operation: Operation
) -> None:
    rights = [right for right in RIGHTS if right != "admin"]
    _, bound = server.tokens.create("bound", scope="user:alice", rights=rights)
    refused = call(client, operation, bound)
    expected = "right-missing" if operation.right == "admin" else "scope-bound"
    assert (refused.status_code, refused.json()["type"]) == (403, f"urn:reverie:problem:{expected}")


@pytest.fixture
def ask(client: TestClient, server: HttpServer) -> Ask:
    """Ask as somebody: `ask("bob", "GET", "/v1/records")`."""
    rights = [right for right in RIGHTS if right != "admin"]
    tokens = {
        name: server.tokens.create(name, scope=f"user:{name}", rights=rights, origin="owner")[1]
        for name in ("alice", "bob")
    }

    def send(who: str, method: str, path: str, **options: Any) -> Any:
        token = {"Authorization": f"Bearer {tokens[who]}", "Cookie": f"reverie_token_0={tokens[who]}"}
        headers = token | options.pop("headers", {})
        return client.request(method, path, headers=headers, **options)

    return send


def test_nothing_of_another_scope_is_read_or_changed(ask: Ask, memory: Memory) -> None:
    made = ask(
        "alice", "POST", "/v1/records", json={"content": SECRET, "tags": ["home"], "category": "x/home"}
    )
    name = made.json()["record"]["id"]
    assert made.json()["record"]["scope"] == "user:alice"
    turn = {"turns": [{"role": "user", "content": SECRET}]}
    added = ask("alice", "POST", "/v1/sessions/chat/turns", json=turn).json()["items"][0]
    ask("alice", "PUT", "/v1/scratchpad/plan", json={"data": SECRET})
    before = memory.history.log()

    missing = f"/v1/records/{name}"
    match = {"headers": {"If-Match": "*"}}
    for method, path, options in (
        ("GET", missing, {}),
        ("GET", f"{missing}?as_of=1", {}),
        ("GET", f"{missing}/history", {}),
        ("GET", f"{missing}/blame", {}),
        ("GET", f"{missing}/diff", {}),
        ("PATCH", missing, {"json": {"content": "x"}, **match}),
        ("DELETE", missing, match),
        ("POST", f"{missing}/restore", {}),
        ("POST", f"{missing}/promote", {"json": {"to": "user:bob"}}),
        ("GET", "/v1/sessions/chat", {}),
        ("GET", "/v1/sessions/user:alice//chat", {}),
        ("DELETE", "/v1/sessions/chat", {}),
        ("DELETE", "/v1/sessions/user:alice//chat", {}),
        ("PUT", "/v1/sessions/user:alice//chat", {"json": {"status": "terminated"}}),
        ("POST", "/v1/sessions/user:alice//chat/compact", {"json": {"kind": "trim"}}),
        ("POST", "/v1/sessions/user:alice//chat/feedback", {"json": {"turn": added["id"], "thumb": "up"}}),
        ("GET", "/v1/scratchpad/plan", {}),
        ("POST", "/v1/undo", {"json": {"changes": [1]}}),
        ("POST", "/v1/undo", {"json": {"batch": 1}}),
    ):
        answer = ask("bob", method, path, **options)
        assert answer.status_code in (403, 404), (method, path, answer.text)
        assert SECRET not in answer.text
    for path in (
        "/v1/records",
        "/v1/records?as_of=0",
        "/v1/records?archived=true",
        "/v1/sessions",
        "/v1/sessions/user:alice//chat/turns",
        "/v1/journal",
        f"/v1/journal?id={name}",
        "/v1/scratchpad",
        "/v1/scopes",
        "/v1/stats",
        "/v1/categories",
        "/v1/tags",
    ):
        answer = ask("bob", "GET", path)
        assert answer.status_code == 200, (path, answer.text)
        assert not any(text in answer.text for text in (SECRET, name, "alice", "home")), path
    search = {"query": "Harbour Street", "sources": ["records", "turns", "pages"]}
    assert ask("bob", "POST", "/v1/search", json=search).json() == {"hits": []}
    context = ask("bob", "POST", "/v1/sessions/user:alice//chat/context", json={"message": "Harbour Street"})
    assert SECRET not in context.text
    assert ask("bob", "GET", "/v1/records?scope=*").status_code == 403
    assert memory.history.log() == before
    assert ask("alice", "GET", missing).json()["content"] == SECRET


def test_a_scope_in_a_request_narrows_that_of_the_token(ask: Ask, memory: Memory) -> None:
    made = ask("alice", "POST", "/v1/records?scope=task:deploy", json={"content": "Deploys on Friday"})
    assert made.json()["record"]["scope"] == "user:alice/task:deploy"
    assert ask("alice", "GET", "/v1/records").json()["items"] == []
    assert len(ask("alice", "GET", "/v1/records?scope=task:deploy").json()["items"]) == 1
    assert ask("bob", "GET", "/v1/records?scope=user:alice").json()["items"] == []
    assert list(ask("alice", "GET", "/v1/scopes").json()["scopes"]) == ["user:alice/task:deploy"]
    up = {"to": ""}
    name = made.json()["record"]["id"]
    assert ask("alice", "POST", f"/v1/records/{name}/promote?scope=task:deploy", json=up).status_code == 403
    up = {"to": "user:alice"}
    assert ask("alice", "POST", f"/v1/records/{name}/promote?scope=task:deploy", json=up).status_code == 201


def test_what_is_everybodys_is_read_and_not_changed(ask: Ask, memory: Memory) -> None:
    record = memory.save("The office is in Bergen").record
    memory.pages.write("MEMORY.md", "The office is in Bergen\n")
    assert ask("bob", "GET", f"/v1/records/{record.id}").status_code == 200
    assert "Bergen" in ask("bob", "GET", "/v1/pages/MEMORY.md").text
    match = {"headers": {"If-Match": "*"}}
    for method, path, options in (
        ("PATCH", f"/v1/records/{record.id}", {"json": {"content": "x"}, **match}),
        ("DELETE", f"/v1/records/{record.id}", match),
        ("PUT", "/v1/pages/MEMORY.md", {"json": {"content": "x"}, **match}),
        ("DELETE", "/v1/pages/MEMORY.md", match),
        ("POST", "/v1/pages/MEMORY.md/append", {"json": {"text": "x"}}),
        ("POST", "/v1/undo", {"json": {"changes": [1]}}),
        ("POST", "/v1/undo", {"json": {"since": 1}}),
    ):
        assert ask("bob", method, path, **options).status_code in (403, 404), (method, path)
    assert memory.get(record.id) == record
    assert memory.pages.read("MEMORY.md") == "The office is in Bergen\n"


def test_a_conversation_of_everybody_that_is_listed_can_be_opened_and_not_changed(
    ask: Ask, memory: Memory
) -> None:
    memory.session("office").add("user", "The office is in Bergen")
    ask("alice", "POST", "/v1/sessions/own/turns", json={"turns": [{"role": "user", "content": SECRET}]})
    listed = [each["session"]["id"] for each in ask("bob", "GET", "/v1/sessions").json()["items"]]
    assert listed == ["office"]
    for path in ("/v1/sessions/office", "/v1/sessions/office/turns"):
        assert ask("bob", "GET", path).status_code == 200, path
    for method, path, options in (
        ("PUT", "/v1/sessions/office", {"json": {"status": "paused"}}),
        ("DELETE", "/v1/sessions/office", {}),
        ("POST", "/v1/sessions/office/feedback", {"json": {"turn": "x", "thumb": "up"}}),
        ("GET", "/v1/sessions/user:alice//own", {}),
    ):
        assert ask("bob", method, path, **options).status_code in (404, 422), (method, path)
    assert memory.scoped("*").turns("office")
    added = ask(
        "bob", "POST", "/v1/sessions/office/turns", json={"turns": [{"role": "user", "content": "x"}]}
    )
    assert added.json()["items"][0]["session"] == "user:bob//office"
    assert len(memory.session("office").turns()) == 1


def test_own_changes_are_undone_by_their_own(ask: Ask, memory: Memory) -> None:
    name = ask("alice", "POST", "/v1/records", json={"content": SECRET}).json()["record"]["id"]
    assert ask("alice", "POST", "/v1/undo", json={"batch": 1}).status_code == 200
    assert ask("alice", "GET", f"/v1/records/{name}").status_code == 404
    assert [row.actor for row in memory.history.log()] == ["alice", "alice"]


def test_two_callers_with_one_key_do_not_meet(ask: Ask) -> None:
    key = {"headers": {"Idempotency-Key": "k"}}
    ask("alice", "POST", "/v1/records", json={"content": SECRET}, **key)
    answer = ask("bob", "POST", "/v1/records", json={"content": SECRET}, **key)
    assert answer.json()["record"]["scope"] == "user:bob"


# -- trust -----------------------------------------------------------------------------------------------


def test_numbers_of_changes_do_not_depend_on_other_scopes(
    ask: Ask, memory: Memory, server: HttpServer
) -> None:
    """A token bound to a scope gets the same answers whether others are busy or not."""

    def work(name: str, others: Callable[[], object]) -> list[str]:
        seen: list[str] = []

        def note(method: str, path: str, **options: Any) -> Any:
            others()
            answer = ask(name, method, path, **options)
            text = json.dumps(answer.json()) if answer.content[:1] in (b"{", b"[") else answer.text
            if "text/html" in answer.headers["content-type"]:
                assert answer.status_code == (404 if "undo" in path else 200)
                text = " ".join(re.findall(r"(?:batch|change|as_of|before)=\d+|<span>\d+</span>", text))
            text = re.sub(r"\b[0-9a-f]{12}\b", "ID", text.replace(name, "NAME"))
            text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{32}", "TIME", text)
            seen.append(f"{answer.status_code} {answer.headers.get('reverie-sequence')} {text}")
            return answer

        ride = {"content": f"{name} rides a horse", "kind": "fact"}
        record = note("POST", "/v1/records", json=ride).json()["record"]["id"]
        note("PATCH", f"/v1/records/{record}", json={"tags": ["horse"]}, headers={"If-Match": "*"})
        note("POST", f"/v1/sessions/{name}/turns", json={"turns": [{"role": "user", "content": "Hello"}]})
        note("POST", "/v1/records/batch", json={"records": [{"content": "One"}, {"content": "Two"}]})
        journal = note("GET", "/v1/journal").json()["items"]
        assert [each["sequence"] for each in journal] == list(range(1, len(journal) + 1))
        for newest_first in (False, True):
            place, pages = None, []
            while place is not None or not pages:
                given = {
                    "limit": 2,
                    "newest_first": newest_first,
                    "before" if newest_first else "after": place,
                }
                page = note(
                    "GET", "/v1/journal", params={k: v for k, v in given.items() if v is not None}
                ).json()
                pages += page["items"]
                place = page["next"]
            assert sorted(each["sequence"] for each in pages) == list(range(1, len(journal) + 1))
        for number in (0, 1, 2, len(journal), len(journal) + 1, 999):
            note("GET", f"/v1/records/{record}", params={"as_of": number})
            note("GET", f"/v1/records/{record}/diff", params={"a": 1, "b": number})
            note("POST", "/v1/undo", json={"changes": [number], "dry_run": True})
            note("POST", "/v1/undo", json={"batch": number, "dry_run": True})
        note("POST", "/v1/undo", json={"changes": [2]}, headers={"Idempotency-Key": name})
        note("POST", "/v1/undo", json={"changes": [2]}, headers={"Idempotency-Key": name})
        for path in ("history", "blame"):
            note("GET", f"/v1/records/{record}/{path}")
        for path in ("/history", f"/memories/{record}", "/", f"/undo?batch={len(journal) + 9}"):
            note("GET", path)
        note("POST", "/v1/undo", json={"changes": [1]})
        return seen

    def write() -> None:
        scope = memory.scoped("user:carol")
        scope.save(f"Carol counts to {memory.history.sequence()}")
        scope.session("carol").add("user", "Hello")

    assert work("alice", lambda: None) == work("bob", write)


def test_a_token_never_speaks_for_somebody_more_trusted(client: TestClient, server: HttpServer) -> None:
    memory = server.memory
    _, text = server.tokens.create("agent", scope="user:alice", rights=["read", "write"])
    _, web = server.tokens.create("web", scope="user:alice", rights=["read", "write"], origin="web")
    client.headers["Authorization"] = f"Bearer {text}"
    saved = client.post("/v1/records", json={"content": "Likes tea", "origin": "owner"}).json()["record"]
    assert saved["origin"] == "agent"
    own = memory.scoped("user:alice").save("Lives in Bergen").record
    changed = client.patch(
        f"/v1/records/{own.id}", json={"content": "Lives in Oslo"}, headers={"If-Match": "*"}
    ).json()
    assert changed["origin"] == "agent"
    raised = client.patch(f"/v1/records/{own.id}", json={"origin": "owner"}, headers={"If-Match": "*"})
    assert raised.json()["origin"] == "agent"
    user = {"turns": [{"role": "user", "content": "I like milk"}]}
    assert client.post("/v1/sessions/chat/turns", json=user).status_code == 403
    said = {"turns": [{"role": "assistant", "content": "You like milk"}]}
    assert client.post("/v1/sessions/chat/turns", json=said).status_code == 201
    client.headers["Authorization"] = f"Bearer {web}"
    marked = client.post("/v1/sessions/web/turns", json=said).json()["items"][0]
    assert marked["metadata"]["origin"] == "web"
    pin = client.patch(f"/v1/records/{own.id}", json={"pinned": True}, headers={"If-Match": "*"})
    assert pin.status_code == 403
    assert client.post("/v1/records", json={"content": "Likes cake"}).json()["record"]["origin"] == "web"


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
def test_a_page_of_another_port_changes_nothing(client: TestClient, memory: Memory, site: str) -> None:
    record = memory.save("Prefers green tea").record
    sent = {
        "Origin": "http://127.0.0.1:3000",
        "Sec-Fetch-Site": site,
    }  # no Content-Type: asks no permission first
    for path in ("/v1/records", f"/v1/records/{record.id}/end", "/forget", "/mcp", "/sign-in"):
        answer = client.post(path, content=b'{"content": "Planted"}', headers=sent | {"If-Match": "*"})
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"
    assert memory.list() == [record]
    assert client.get("/v1/records", headers=sent).status_code == 200  # which that page cannot read


def test_a_regular_expression_needs_no_more_rights_than_words(client: TestClient, server: HttpServer) -> None:
    server.memory.scoped("user:alice").save(
        "Likes tea, and aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    )
    _, text = server.tokens.create("reader", scope="user:alice", rights=["read"])
    client.headers["Authorization"] = f"Bearer {text}"
    found = client.post("/v1/search", json={"query": r"\btea\b", "mode": "regex"}).json()["hits"]
    assert len(found) == 1
    refused = client.post("/v1/search", json={"query": "((a{1000}){1000}){1000}", "mode": "regex"})
    assert refused.status_code == 422
    assert "repeats too much" in refused.json()["detail"]
