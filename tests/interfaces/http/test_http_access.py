"""Who reads and changes what over HTTP: rights, scopes, trust, pages of other sites."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http import mem0
from reverie.interfaces.http.application import OPERATIONS, build_application
from reverie.interfaces.http.operations import Operation
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.http.tokens import RIGHTS
from tests.interfaces.http.conftest import BASE

GUARDED = [each for each in (*OPERATIONS, *mem0.OPERATIONS) if each.right is not None]
SECRET = "Alice lives at 5 Harbour Street"
ANY = {"headers": {"If-Match": "*"}}

Ask = Callable[..., Any]


def test_a_route_refuses_without_a_token_its_right_and_all_scopes(server: HttpServer) -> None:
    def use(operation: Operation, token: str | None) -> tuple[int, str]:
        path = re.sub(r"\{\w+(:\w+)?\}", "000000000000", operation.path)
        path += "?after=x" if operation.name == "stream_changes" else ""  # so that no stream begins
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        body = {} if operation.body is None else {"json": {}}
        answer = client.request(operation.method, path, headers=headers, **body)
        is_json = answer.headers.get("content-type") == "application/problem+json"
        return answer.status_code, answer.json()["type"].rpartition(":")[2] if is_json else ""

    def make(*rights: Any, scope: str = "user:alice") -> str:
        return server.tokens.create("x", scope=scope, rights=rights, origin="owner")[1]

    strong, bound = make(*RIGHTS, scope=""), make(*(right for right in RIGHTS if right != "admin"))
    weak = {right: make(*(each for each in RIGHTS if each not in (right, "admin"))) for right in RIGHTS}
    app = build_application(server, host="127.0.0.1", compatible=["mem0"])
    with TestClient(app, base_url=BASE, raise_server_exceptions=False) as client:
        for each in GUARDED:
            assert use(each, None)[0] == use(each, bound[:-2] + "xx")[0] == 401, each.path
            assert use(each, weak[each.right]) == (403, "right-missing"), each.path
            assert use(each, strong)[0] not in (401, 403), each.path
            if each.is_whole:
                expected = "right-missing" if each.right == "admin" else "scope-bound"
                assert use(each, bound) == (403, expected), each.path


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
        return client.request(method, path, headers=token | options.pop("headers", {}), **options)

    return send


def test_nothing_of_another_scope_is_read_or_changed(ask: Ask, memory: Memory) -> None:
    body = {"content": SECRET, "tags": ["home"], "category": "x/home"}
    made = ask("alice", "POST", "/v1/records", json=body).json()["record"]
    assert made["scope"] == "user:alice"
    turns = {"turns": [{"role": "user", "content": SECRET}]}
    turn = ask("alice", "POST", "/v1/sessions/chat/turns", json=turns).json()["items"][0]["id"]
    ask("alice", "PUT", "/v1/scratchpad/plan", json={"data": SECRET})
    before = memory.history.log()
    record, chat = f"/v1/records/{made['id']}", "/v1/sessions/user:alice//chat"
    for method, path, options in (
        *(("GET", f"{record}{more}", {}) for more in ("", "?as_of=1", "/blame", "/diff")),
        ("PATCH", record, {"json": {"content": "x"}, **ANY}),
        ("DELETE", record, ANY),
        ("POST", f"{record}/restore", {}),
        ("POST", f"{record}/end", {}),
        ("POST", f"{record}/promote", {"json": {"to": "user:bob"}}),
        *((method, "/v1/sessions/chat", {}) for method in ("GET", "DELETE")),
        *((method, chat, {}) for method in ("GET", "DELETE")),
        ("PUT", chat, {"json": {"status": "terminated"}}),
        ("POST", f"{chat}/feedback", {"json": {"turn": turn, "thumb": "up"}}),
        ("GET", "/v1/scratchpad/plan", {}),
        ("POST", "/v1/undo", {"json": {"changes": [1]}}),
        ("POST", "/v1/undo", {"json": {"batch": 1}}),
    ):
        answer = ask("bob", method, path, **options)
        assert answer.status_code in (403, 404), (method, path, answer.text)
        assert SECRET not in answer.text
    lists = "records records?as_of=0 records?archived=true sessions journal scratchpad scopes stats categories tags"
    for path in (*lists.split(), f"journal?id={made['id']}", "sessions/user:alice//chat/turns"):
        answer = ask("bob", "GET", f"/v1/{path}")
        assert answer.status_code == 200, (path, answer.text)
        assert not any(text in answer.text for text in (SECRET, made["id"], "alice", "home")), path
    search = {"query": "Harbour Street", "sources": ["records", "turns", "pages"]}
    assert ask("bob", "POST", "/v1/search", json=search).json() == {"hits": []}
    assert SECRET not in ask("bob", "POST", f"{chat}/context", json={"message": "Harbour Street"}).text
    assert ask("bob", "GET", "/v1/records?scope=*").status_code == 403
    assert memory.history.log() == before
    assert ask("alice", "GET", record).json()["content"] == SECRET


def test_a_scope_in_a_request_narrows_that_of_the_token(ask: Ask) -> None:
    made = ask("alice", "POST", "/v1/records?scope=task:deploy", json={"content": "Deploys on Friday"})
    record = made.json()["record"]
    assert record["scope"] == "user:alice/task:deploy"
    assert ask("alice", "GET", "/v1/records").json()["items"] == []
    assert len(ask("alice", "GET", "/v1/records?scope=task:deploy").json()["items"]) == 1
    assert ask("bob", "GET", "/v1/records?scope=user:alice").json()["items"] == []
    assert list(ask("alice", "GET", "/v1/scopes").json()["scopes"]) == ["user:alice/task:deploy"]
    for to, status in (("", 403), ("user:alice", 201)):
        promoted = ask(
            "alice", "POST", f"/v1/records/{record['id']}/promote?scope=task:deploy", json={"to": to}
        )
        assert promoted.status_code == status
    key = {"headers": {"Idempotency-Key": "k"}}
    for name in ("alice", "bob"):  # two callers with one key do not meet
        saved = ask(name, "POST", "/v1/records", json={"content": SECRET}, **key).json()["record"]
        assert saved["scope"] == f"user:{name}"
    last = ask("alice", "GET", "/v1/journal?newest_first=true").json()["items"][0]
    assert ask("alice", "POST", "/v1/undo", json={"batch": last["batch"]}).status_code == 200


def test_what_is_everybodys_is_read_and_not_changed(ask: Ask, memory: Memory) -> None:
    record = memory.save("The office is in Bergen").record
    memory.pages.write("MEMORY.md", "The office is in Bergen\n")
    memory.session("office").add("user", "The office is in Bergen")
    ask("alice", "POST", "/v1/sessions/own/turns", json={"turns": [{"role": "user", "content": SECRET}]})
    listed = [each["session"]["id"] for each in ask("bob", "GET", "/v1/sessions").json()["items"]]
    assert listed == ["office"]
    for path in (f"records/{record.id}", "pages/MEMORY.md", "sessions/office", "sessions/office/turns"):
        assert ask("bob", "GET", f"/v1/{path}").status_code == 200, path
    before = memory.history.log()
    for method, path, options in (
        ("PATCH", f"records/{record.id}", {"json": {"content": "x"}, **ANY}),
        ("DELETE", f"records/{record.id}", ANY),
        ("PUT", "pages/MEMORY.md", {"json": {"content": "x"}, **ANY}),
        ("DELETE", "pages/MEMORY.md", ANY),
        ("POST", "pages/MEMORY.md/append", {"json": {"text": "x"}}),
        ("POST", "undo", {"json": {"changes": [1]}}),
        ("POST", "undo", {"json": {"since": 1}}),
        ("PUT", "sessions/office", {"json": {"status": "paused"}}),
        ("DELETE", "sessions/office", {}),
        ("POST", "sessions/office/feedback", {"json": {"turn": "x", "thumb": "up"}}),
        ("GET", "sessions/user:alice//own", {}),
    ):
        assert ask("bob", method, f"/v1/{path}", **options).status_code in (403, 404, 422), (method, path)
    assert memory.history.log() == before
    body = {"turns": [{"role": "user", "content": "x"}]}
    added = ask("bob", "POST", "/v1/sessions/office/turns", json=body)
    assert added.json()["items"][0]["session"] == "user:bob//office"


def test_numbers_of_changes_do_not_depend_on_other_scopes(ask: Ask, memory: Memory) -> None:
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
        note("PATCH", f"/v1/records/{record}", json={"tags": ["horse"]}, **ANY)
        note("POST", f"/v1/sessions/{name}/turns", json={"turns": [{"role": "user", "content": "Hello"}]})
        note("POST", "/v1/records/batch", json={"records": [{"content": "One"}, {"content": "Two"}]})
        journal = note("GET", "/v1/journal").json()["items"]
        numbers = list(range(1, len(journal) + 1))
        assert [each["sequence"] for each in journal] == numbers
        for newest_first in (False, True):
            pages: list[Any] = []
            place, query = "", f"limit=2&newest_first={newest_first}"
            while place is not None:
                page = note("GET", f"/v1/journal?{query}{place}").json()
                pages += page["items"]
                name_of_place = "before" if newest_first else "after"
                place = None if page["next"] is None else f"&{name_of_place}={page['next']}"
            assert sorted(each["sequence"] for each in pages) == numbers
        for number in (0, 1, 2, len(journal), len(journal) + 1, 999):
            note("GET", f"/v1/records/{record}?as_of={number}")
            note("GET", f"/v1/records/{record}/diff?a=1&b={number}")
            note("POST", "/v1/undo", json={"changes": [number], "dry_run": True})
            note("POST", "/v1/undo", json={"batch": number, "dry_run": True})
        for _ in range(2):
            note("POST", "/v1/undo", json={"changes": [2]}, headers={"Idempotency-Key": name})
        for path in (f"/v1/journal?id={record}", f"/v1/records/{record}/blame"):
            note("GET", path)
        for path in ("/history", f"/memories/{record}", "/", f"/undo?batch={len(journal) + 9}"):
            note("GET", path)
        note("POST", "/v1/undo", json={"changes": [1]})
        return seen

    def write() -> None:
        scope = memory.scoped("user:carol")
        scope.save(f"Carol counts to {memory.history.sequence()}")
        scope.session("carol").add("user", "Hello")

    assert work("alice", lambda: None) == work("bob", write)


# -- trust -----------------------------------------------------------------------------------------------


def test_a_token_never_speaks_for_somebody_more_trusted(client: TestClient, server: HttpServer) -> None:
    own = server.memory.scoped("user:alice").save("Lives in Bergen").record
    said, user = ({"turns": [{"role": role, "content": "I like milk"}]} for role in ("assistant", "user"))
    for origin in ("agent", "web"):
        _, text = server.tokens.create(origin, scope="user:alice", rights=["read", "write"], origin=origin)
        client.headers["Authorization"] = f"Bearer {text}"
        saved = client.post("/v1/records", json={"content": f"Likes {origin}", "origin": "owner"}).json()
        assert saved["record"]["origin"] == origin
        for change in ({"content": f"Lives in {origin}"}, {"origin": "owner"}):
            changed = client.patch(f"/v1/records/{own.id}", json=change, **ANY)
            assert changed.json()["origin"] == origin
        assert client.post("/v1/sessions/chat/turns", json=user).status_code == 403
        added = client.post(f"/v1/sessions/{origin}/turns", json=said).json()["items"][0]
        assert added["metadata"].get("origin") == (origin if origin == "web" else None)
        pinned = client.patch(f"/v1/records/{own.id}", json={"pinned": True}, **ANY)
        assert pinned.status_code == (403 if origin == "web" else 200)
        vouch = {"ids": [own.id], "action": "vouch"}
        assert client.post("/v1/records/changes", json=vouch).status_code == 403


def test_a_page_of_another_port_changes_nothing(client: TestClient, memory: Memory) -> None:
    record = memory.save("Prefers green tea").record
    for site in ("same-site", "cross-site"):  # no Content-Type: such a request asks no permission first
        sent = {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": site}
        for path in ("/v1/records", f"/v1/records/{record.id}/end", "/forget", "/mcp", "/sign-in"):
            answer = client.post(path, content=b'{"content": "Planted"}', headers=sent | {"If-Match": "*"})
            assert answer.status_code == 403
            assert answer.headers["content-type"] == "application/problem+json"
        assert client.get("/v1/records", headers=sent).status_code == 200  # which that page cannot read
    assert memory.list() == [record]


def test_a_regular_expression_needs_no_more_rights_than_words(client: TestClient, server: HttpServer) -> None:
    server.memory.scoped("user:alice").save("Likes tea, and " + "a" * 40)
    _, text = server.tokens.create("reader", scope="user:alice", rights=["read"])
    client.headers["Authorization"] = f"Bearer {text}"
    found = client.post("/v1/search", json={"query": r"\btea\b", "mode": "regex"}).json()["hits"]
    assert len(found) == 1
    refused = client.post("/v1/search", json={"query": "((a{1000}){1000}){1000}", "mode": "regex"})
    assert refused.status_code == 422
    assert "repeats too much" in refused.json()["detail"]
