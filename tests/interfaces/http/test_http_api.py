"""The native API: records, conversations, pages, history, plans, erasure."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http import records
from reverie.interfaces.http.operations import check_match
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.http.tokens import RIGHTS
from reverie.stores.writer import StoreWriter
from tests.factories import make_record, propose_record
from tests.interfaces.http.conftest import open_client

ANY = {"If-Match": "*"}
SESSION = "/v1/sessions/telegram:1"
TURNS = f"{SESSION}/turns"
HELLO = {"turns": [{"role": "user", "content": "Hello"}]}


def save(client: TestClient, content: str, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/records", json={"content": content, **fields})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["record"]


def problem(answer: Any, status: int, kind: str) -> str:
    """Assert that an answer is that problem; return what it says."""
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:reverie:problem:{kind}"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()["detail"]


# -- records ---------------------------------------------------------------------------------------------


def test_a_record_is_created_once_and_then_reinforced(client: TestClient, memory: Memory) -> None:
    first = client.post("/v1/records", json={"content": "Prefers tea", "tags": ["drinks"]})
    again = client.post("/v1/records", json={"content": "Prefers tea"})
    assert (first.status_code, first.json()["outcome"]) == (201, "created")
    assert (again.status_code, again.json()["outcome"]) == (200, "reinforced")
    record = memory.list()[0]
    assert again.json()["record"] == record.to_dict() == client.get(first.headers["location"]).json()
    assert first.headers["reverie-sequence"] == "1"
    bad = {"records": [{"content": "Lives in Bergen"}, {"content": " "}]}
    problem(client.post("/v1/records/batch", json=bad), 422, "invalid-input")
    assert len(memory.list()) == 1
    good = {"records": [{"content": "Likes tea"}, {"content": "Likes tea"}, {"content": "Lives in Bergen"}]}
    results = client.post("/v1/records/batch", json=good).json()["results"]
    assert [each["outcome"] for each in results] == ["created", "reinforced", "created"]


def test_a_wrong_body_is_refused_and_the_field_named(client: TestClient, memory: Memory) -> None:
    for body, pointer in (
        ({"content": 5}, "/content"),
        ({}, "/content"),
        ({"content": "x", "colour": "red"}, "/colour"),
        ({"content": "x", "tags": [1]}, "/tags/0"),
        ({"content": "x", "valid_from": "2025-01-01T00:00:00"}, "/valid_from"),
        ([], ""),
    ):
        answer = client.post("/v1/records", json=body)
        problem(answer, 422, "invalid-input")
        assert answer.json()["errors"][0]["pointer"] == pointer
    problem(client.post("/v1/records", json={"content": " "}), 422, "invalid-input")
    for text in (b"", b"{", b'"\\ud800', b"\xff\xfe", b"[" * 5_000):
        answer = client.post("/v1/records", content=text, headers={"Content-Type": "application/json"})
        problem(answer, 400, "malformed-json")
    plain = client.post("/v1/records", content=b"x", headers={"Content-Type": "text/plain"})
    problem(plain, 415, "unsupported-media-type")
    assert memory.list() == []


def test_a_change_needs_the_version_that_was_read(client: TestClient, memory: Memory) -> None:
    record = save(client, "Prefers tea", category="user-preferences/drinks", metadata={"a": "1", "b": "2"})
    url = f"/v1/records/{record['id']}"
    etag = client.get(url).headers["etag"]
    for send in (partial(client.patch, json={"importance": 1}), client.delete):
        assert "If-Match" in problem(send(url), 428, "precondition-required")
    patch = {"importance": 1, "category": None, "metadata": {"a": None, "c": "3"}}
    done = client.patch(url, json=patch, headers={"If-Match": etag})
    assert done.status_code == 200, done.text
    assert (done.json()["importance"], done.json()["category"]) == (1.0, None)
    assert done.json()["metadata"] == {"b": "2", "c": "3"}
    late = client.patch(url, json={"importance": 0}, headers={"If-Match": etag})
    assert "Read it again" in problem(late, 412, "precondition-failed")
    assert late.json()["current"] == done.json()
    same = client.patch(url, json={"importance": 1}, headers={"If-Match": done.headers["etag"]})
    assert [each.headers["Reverie-Outcome"] for each in (done, same)] == ["changed", "unchanged"]
    for pinned in (True, False):
        assert client.patch(url, json={"pinned": pinned}, headers=ANY).json()["pinned"] is pinned
    gone = client.delete(f"{url}?reason=outdated", headers=ANY).json()
    assert gone["archive_reason"] == "outdated"
    assert client.get("/v1/records").json()["items"] == []
    assert client.get("/v1/records?archived=true").json()["items"] == [gone]
    assert client.post(f"{url}/restore").json()["archived_at"] is None
    assert client.post(f"{url}/end").json()["valid_to"] is not None
    assert {row.actor for row in memory.history.log()} == {"http"}


def test_a_list_is_complete_and_has_nothing_twice_although_records_come_and_go(
    client: TestClient, memory: Memory
) -> None:
    moment = memory._clock()
    for n in range(12):  # of one moment, as an import makes them
        memory.save(f"Imported fact number {n} of {n * 7}", created_at=moment)
    for n in range(5):
        memory.save(f"Later fact {n} about {n * 3}")
    expected = {record.id for record in memory.list(limit=None)}
    seen: list[str] = []
    cursor, pages = None, 0
    while cursor or not pages:
        answer = client.get("/v1/records", params={"limit": 4} | ({"cursor": cursor} if cursor else {}))
        items, cursor = answer.json()["items"], answer.json()["next"]
        seen += [each["id"] for each in items]
        memory.save(f"New fact {pages} of {pages * 11}")
        if pages == 1:
            memory.archive(items[-1]["id"])  # where the next page begins
        pages += 1
    assert len(seen) == len(set(seen))
    assert set(seen) == expected
    other = client.get("/v1/records", params={"limit": 4, "kind": "fact", "cursor": "WzFd"})
    assert "same parameters" in problem(other, 422, "invalid-input")


def test_what_changes_between_the_check_and_the_removal_is_not_removed(
    client: TestClient, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = memory.save("Works in Ghent").record.id
    memory.pages.write("plans.md", "Ghent")
    for path, change in (
        (f"/v1/records/{name}", partial(memory.update, name, content="Works in Bruges")),
        ("/v1/pages/plans.md", partial(memory.pages.write, "plans.md", "Bruges")),
    ):
        etag = client.get(path).headers["etag"]

        def check_and_change(*given: Any, change: Any = change) -> bool:
            result = check_match(*given)
            change()  # as another process does
            return result

        with monkeypatch.context() as patched:
            patched.setattr(records, "check_match", check_and_change)
            problem(client.delete(path, headers={"If-Match": etag}), 412, "precondition-failed")
        assert "Bruges" in client.get(path).json()["content"]
        assert not client.get(path).json().get("archived_at")
        assert client.delete(path, headers=ANY).status_code == 200


# -- conversations ---------------------------------------------------------------------------------------


def test_turns_are_rated_concluded_replaced_and_removed(client: TestClient, memory: Memory) -> None:
    turns = [
        {"role": "user", "content": "Where do we deploy?"},
        {"role": "assistant", "content": "To Bergen. Note that the staging database will use port 5433."},
    ]
    first, last = client.post(TURNS, json={"turns": turns}).json()["items"]
    rated = client.post(f"{SESSION}/feedback", json={"turn": last["id"], "thumb": "up", "note": "right"})
    assert rated.json()["metadata"]["signal"] == "thumbs_up"
    results = client.post(f"{SESSION}/consolidate").json()["results"]
    assert ["5433" in each["record"]["content"] for each in results] == [True]
    new = client.put(f"{TURNS}/{last['id']}", json={"content": "To Oslo."})
    assert new.json()["content"] == "To Oslo."
    problem(client.put(f"{TURNS}/none", json={"content": "x"}), 404, "not-found")
    gone = client.post(f"{TURNS}/remove", json={"turns": [last["id"]]})
    assert [each["id"] for each in gone.json()["items"]] == [last["id"]]
    assert [turn.id for turn in memory.session("telegram:1").turns()] == [first["id"]]
    client.post("/v1/undo", json={"batch": memory.history.log()[-1].batch})
    assert [turn.content for turn in memory.session("telegram:1").turns()][1:] == ["To Oslo."]


# -- history ---------------------------------------------------------------------------------------------


def test_the_stream_has_every_change_in_order_and_resumes(
    client: TestClient, server: HttpServer, memory: Memory
) -> None:
    for n in range(3):
        memory.save(f"Fact number {n} of {n * 7}")

    def read(headers: dict[str, str], wanted: int) -> list[int]:
        server.stopping = False
        events: list[int] = []
        with client.stream("GET", "/v1/events?after=0", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: "))["sequence"])
                server.stopping = len(events) == wanted  # which ends the stream
        return events

    server.stopping = True
    assert read({}, 3) == [1, 2, 3]
    assert read({"Last-Event-ID": "2"}, 1) == [3]


# -- plans, erasure, the whole ---------------------------------------------------------------------------


def test_a_plan_is_decided_group_by_group_on_another_server_too(client: TestClient, memory: Memory) -> None:
    for text in ("We decided on Postgres", "We decided on Rust"):
        memory.save(text, kind="decision", layer="episodic")
    memory.dreams.keep_plan(memory.dreams.plan("promote"))
    (plan,) = client.get("/v1/plans").json()["items"]
    assert [len(group["steps"]) for group in plan["groups"]] == [1, 1]
    url = f"/v1/plans/{plan['id']}/decisions"
    with open_client(memory) as other:
        decided = other.post(url, json={"verdict": "reject", "groups": [0], "reason": "no"}).json()
    assert [group["state"] for group in decided["groups"]] == ["rejected", "waiting"]
    applied = client.post(url, json={"verdict": "accept"}).json()
    assert applied["decided"]
    assert [record.layer for record in memory.list()].count("semantic") == 1
    assert client.post(url, json={"verdict": "accept"}).status_code == 404  # a decided plan is not kept
    assert client.post("/v1/undo", json={"batch": applied["groups"][1]["batch"]}).status_code == 200
    problem(client.post(url, json={"verdict": "maybe"}), 422, "invalid-input")


def test_a_proposal_is_decided_within_the_scope_of_a_token(
    client: TestClient, memory: Memory, server: HttpServer
) -> None:
    proposed = make_record(5, content="Always pay by card", scope="user:alice")
    propose_record(memory, proposed)
    headers = {}
    for name in ("alice", "bob"):
        _, token = server.tokens.create(name, scope=f"user:{name}", rights=["read", "review"])
        headers[name] = {"Authorization": f"Bearer {token}"}
    for name, number in (("alice", 1), ("bob", 0)):
        assert len(client.get("/v1/proposals", headers=headers[name]).json()["items"]) == number
        assert client.get("/v1/plans", headers=headers[name]).status_code == 403
    url, body = f"/v1/proposals/{proposed.id}/decision", {"verdict": "accept"}
    assert client.post(url, json=body, headers=headers["bob"]).status_code == 404
    assert client.post(url, json=body, headers=headers["alice"]).json()["archived_at"] is None
    assert memory.history.log()[-1].actor == "alice"


def test_an_erasure_does_what_its_preview_said(client: TestClient, memory: Memory) -> None:
    record = save(client, "Alice lives at 5 Harbour Street in Bergen")
    wanted = {"ids": [record["id"]]}
    preview = client.post("/v1/forget/preview", json=wanted).json()
    assert (preview["done"], preview["counts"]) == (False, {"record": 1})
    problem(client.post("/v1/forget", json={**wanted, "digest": "0"}), 409, "preview-outdated")
    assert memory.get(record["id"]) is not None
    done = client.post("/v1/forget", json={**wanted, "digest": preview["digest"]}).json()
    assert (done["done"], memory.get(record["id"])) == (True, None)
    problem(client.post("/v1/forget/preview", json={}), 422, "invalid-input")


def test_statistics_scopes_and_diagnosis(client: TestClient, memory: Memory) -> None:
    save(client, "Likes tea")
    memory.scoped("user:alice").save("Likes coffee")
    assert client.get("/v1/stats").json()["records"] == 1
    assert client.get("/v1/scopes").json() == {"scopes": {"": 1, "user:alice": 1}}
    assert client.get("/v1/doctor").json()["sound"] is True
    every = client.get("/v1/records?scope=*").json()["items"]
    assert {each["scope"] for each in every} == {"", "user:alice"}
    problem(client.post("/v1/records?scope=*", json={"content": "x"}), 422, "invalid-input")
    saved = client.post("/v1/records?scope=user:bob", json={"content": "Likes milk"})
    assert saved.json()["record"]["scope"] == "user:bob"


def pick(answer: Any, *places: str) -> list[Any]:
    """Return what stands at some places of an answer, such as `items/0/tags`."""

    def follow(place: str) -> Any:
        value = answer
        for name in place.split("/"):
            value = value[int(name) if isinstance(value, list) else name]
        return value

    return [follow(place) for place in places]


def test_records_plans_windows_and_tokens_are_changed_and_counted(
    client: TestClient, memory: Memory, server: HttpServer
) -> None:
    texts = ("Ada lives in Bergen", "Ada moved to Oslo", "We decided on Rust")
    one, two, last = (save(client, text)["id"] for text in texts)
    memory.update(last, kind="decision", layer="episodic")
    client.post(TURNS, json=HELLO)
    make = server.tokens.create
    weak = {right: make("weak", scope="user:a", rights=[right]) for right in RIGHTS if right != "admin"}
    client.headers["Authorization"] = f"Bearer {make('strong', rights=RIGHTS)[1]}"
    plan = client.post("/v1/plans", json={"name": "promote"}).json()["id"]
    etags = [client.get(f"/v1/records/{name}").headers["etag"] for name in (one, two)]
    record, none, settled = (
        f"/v1/records/{one}",
        "000000000000",
        {"holds": two, "other": one, "verdict": "ended"},
    )
    label, search = (
        {"ids": [two], "action": "label", "tags": ["tech"]},
        {"query": "Where is Ada?", "limit": 1},
    )
    cases: list[tuple[str, dict[str, Any] | None, dict[str, Any], str, dict[str, Any] | None]] = [
        # operation, body, what its answer has, and an operation and a body that are wrong
        (
            f"GET {record}/history",
            None,
            {"items/0/operation": "save"},
            f"GET /v1/records/{none}/history",
            None,
        ),
        ("POST /v1/records/changes", label, {"items/0/tags": ["tech"]}, "", {**label, "action": "burn"}),
        ("POST /v1/conflicts/settle", settled, {"holds/id": two}, "", {**settled, "versions": etags}),
        ("POST /v1/search", {**search, "left_out": 5}, {"left_out/0/why": "rank"}, "", {"left_out": 51}),
        (
            "GET /v1/subjects",
            None,
            {"items/0/name": "Ada", "items/0/records": 2},
            "GET /v1/subjects?a=1",
            None,
        ),
        ("GET /v1/filters", None, {"live": 3, "pinned": 0, "ended": 1}, "GET /v1/filters?a=1", None),
        ("GET /v1/stats/all", None, {"records": 3}, "GET /v1/stats/all?scope=user:a", None),
        ("GET /v1/activity?days=1", None, {"items/0/counts/save": 3}, "GET /v1/activity?days=0", None),
        (
            f"POST {SESSION}/compact",
            {"kind": "compact", "keep": 0},
            {"state": "applied"},
            "",
            {"kind": "burn"},
        ),
        ("POST /v1/plans", {"name": "tidy"}, {"name": "tidy", "groups": []}, "", {"name": "burn"}),
        (f"GET /v1/plans/{plan}", None, {"groups/0/steps": [0]}, f"GET /v1/plans/{none}", None),
        ("POST /v1/tokens", {"label": "Ada", "scope": "user:b"}, {"rights": ["read"]}, "", {"label": "Ada"}),
        ("GET /v1/tokens", None, {"items/0/label": "Ada"}, "GET /v1/tokens?a=1", None),
        (
            f"DELETE /v1/tokens/{weak['read'][0].id}",
            None,
            {"label": "weak"},
            f"DELETE /v1/tokens/{none}",
            None,
        ),
    ]
    for operation, body, expected, wrong, wrong_body in cases:
        method, path = operation.split()
        refused = client.request(
            method, path, json=body, headers={"Authorization": f"Bearer {weak['forget'][1]}"}
        )
        problem(refused, 403, "right-missing")
        bad = client.request(*(wrong or operation).split(), json=wrong_body)
        assert bad.status_code in (404, 412, 422), (operation, bad.text)
        answer = client.request(method, path, json=body)
        assert answer.status_code in (200, 201), (operation, answer.text)
        assert pick(answer.json(), *expected) == [*expected.values()], (operation, answer.text)
    assert server.tokens.authenticate(weak["read"][1]) is None


def test_a_version_that_is_known_is_not_sent(client: TestClient) -> None:
    url = f"/v1/records/{save(client, 'Lives in Bergen')['id']}"
    etag = client.get(url).headers["etag"]
    for known, status in ((etag, 304), (f'"x", {etag}', 304), ('"x"', 200)):
        answer = client.get(url, headers={"If-None-Match": known})
        assert (answer.status_code, answer.headers["etag"], not answer.content) == (
            status,
            etag,
            status == 304,
        )


# -- once and only once ----------------------------------------------------------------------------------


def test_a_repeated_request_with_a_key_is_not_done_twice_not_even_after_a_restart(
    client: TestClient, memory: Memory
) -> None:
    save(client, "Something to undo")
    for number, (path, body) in enumerate(
        (
            (TURNS, HELLO),
            ("/v1/records", {"content": "Likes tea"}),
            ("/v1/records/batch", {"records": [{"content": "Likes milk"}, {"content": "Lives in Bergen"}]}),
            ("/v1/pages/plans.md/append", {"text": "- Ghent"}),
            ("/v1/undo", {"changes": [1]}),
        )
    ):
        key = {"Idempotency-Key": f"k-{number}"}
        first, again = (client.post(path, json=body, headers=key) for _ in range(2))
        assert (again.status_code, again.json()) == (first.status_code, first.json()), path
        assert again.headers["reverie-sequence"] == first.headers["reverie-sequence"]
        assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (
            None,
            "true",
        )
        with open_client(memory) as other:
            assert other.post(path, json=body, headers=key).json() == first.json()
    assert len(memory.turns("telegram:1")) == 1
    twice, long = {"turns": HELLO["turns"] * 2}, {"Idempotency-Key": "x" * 256}
    problem(client.post(TURNS, json=twice, headers={"Idempotency-Key": "k-0"}), 422, "key-reused")
    assert client.post(TURNS, json=HELLO, headers=long).status_code == 422
    free = {"Idempotency-Key": "free"}
    problem(client.post("/v1/records", json={"content": " "}, headers=free), 422, "invalid-input")
    assert client.post("/v1/records", json={"content": "Plays chess"}, headers=free).status_code == 201


def test_a_key_is_marked_by_the_transaction_itself(
    client: TestClient, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, commit = {"Idempotency-Key": "k-2"}, StoreWriter.commit

    def killed(self: StoreWriter, changes: list[Any], **options: Any) -> Any:
        if not changes and any(name.startswith("http.key.") for name in options["cursors"] or ()):
            raise KeyError("killed here")
        return commit(self, changes, **options)

    with monkeypatch.context() as patched:
        patched.setattr(StoreWriter, "commit", killed)
        assert client.post(TURNS, json=HELLO, headers=key).status_code == 500
    again = client.post(TURNS, json=HELLO, headers=key)
    assert "Do not send it again" in problem(again, 409, "already-done")
    assert len(memory.turns("telegram:1")) == 1


def test_what_is_kept_of_a_request_is_no_content_and_goes_after_a_day(
    client: TestClient, memory: Memory, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"Idempotency-Key": "old"}
    client.post("/v1/records", json={"content": "Likes tea"}, headers=key)
    receipts = {name: text for name, text in memory._store.cursors().items() if name.startswith("http.key.")}
    assert len(receipts) == 1
    assert "tea" not in str(receipts)
    later = memory.now().replace(year=memory.now().year + 1)
    monkeypatch.setattr(server._repeated, "_now", lambda: later)
    fresh = client.post("/v1/records", json={"content": "Likes tea"}, headers=key)
    assert "idempotent-replayed" not in fresh.headers
