"""The native API: records, conversations, pages, history, plans, erasure."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http import operations, records
from reverie.interfaces.http.operations import check_match
from reverie.interfaces.http.server import HttpServer
from reverie.stores.writer import StoreWriter
from tests.interfaces.http.conftest import open_client

TURNS = "/v1/sessions/telegram:1/turns"


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
    assert again.json()["record"] == record.to_dict()
    assert first.headers["location"] == f"/v1/records/{record.id}"
    assert first.headers["reverie-sequence"] == "1"
    assert client.get(first.headers["location"]).json() == record.to_dict()


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


def test_a_batch_is_all_or_nothing(client: TestClient, memory: Memory) -> None:
    bad = {"records": [{"content": "Likes tea"}, {"content": " "}]}
    problem(client.post("/v1/records/batch", json=bad), 422, "invalid-input")
    assert memory.list() == []
    good = {"records": [{"content": "Likes tea"}, {"content": "Likes tea"}, {"content": "Lives in Bergen"}]}
    results = client.post("/v1/records/batch", json=good).json()["results"]
    assert [each["outcome"] for each in results] == ["created", "reinforced", "created"]


def test_a_change_needs_the_version_that_was_read(client: TestClient) -> None:
    record = save(client, "Prefers tea", category="user-preferences/drinks", metadata={"a": "1", "b": "2"})
    url = f"/v1/records/{record['id']}"
    etag = client.get(url).headers["etag"]
    assert client.get(url, headers={"If-None-Match": etag}).status_code == 304
    assert "If-Match" in problem(client.patch(url, json={"importance": 1}), 428, "if-match-required")
    patch = {"importance": 1, "category": None, "metadata": {"a": None, "c": "3"}}
    done = client.patch(url, json=patch, headers={"If-Match": etag})
    assert done.status_code == 200, done.text
    assert (done.json()["importance"], done.json()["category"]) == (1.0, None)
    assert done.json()["metadata"] == {"b": "2", "c": "3"}
    late = client.patch(url, json={"importance": 0}, headers={"If-Match": etag})
    assert "Read it again" in problem(late, 412, "changed-meanwhile")
    assert late.json()["current"] == done.json()
    same = client.patch(url, json={"importance": 1}, headers={"If-Match": done.headers["etag"]})
    assert same.json() == done.json()
    assert [each.headers["Reverie-Outcome"] for each in (done, same)] == ["changed", "unchanged"]


def test_a_record_is_archived_restored_and_pinned(client: TestClient, memory: Memory) -> None:
    record = save(client, "Prefers tea")
    url = f"/v1/records/{record['id']}"
    problem(client.delete(url), 428, "if-match-required")
    gone = client.delete(f"{url}?reason=outdated", headers={"If-Match": "*"}).json()
    assert gone["archive_reason"] == "outdated"
    assert client.get("/v1/records").json()["items"] == []
    assert client.get("/v1/records?archived=true").json()["items"] == [gone]
    assert client.post(f"{url}/restore").json()["archived_at"] is None
    for pinned in (True, False):
        changed = client.patch(url, json={"pinned": pinned}, headers={"If-Match": "*"})
        assert changed.json()["pinned"] is pinned
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


def test_a_list_begins_with_what_changed_last(client: TestClient, memory: Memory) -> None:
    ids = [memory.save(f"Fact number {n} of {n * 7}").record.id for n in range(5)]
    memory.update(ids[1], importance=0.9)
    first = client.get("/v1/records", params={"order": "changed", "limit": 3}).json()
    rest = client.get("/v1/records", params={"order": "changed", "limit": 3, "cursor": first["next"]}).json()
    listed = [each["id"] for each in first["items"] + rest["items"]]
    assert listed == [ids[1], ids[4], ids[3], ids[2], ids[0]]
    assert rest["next"] is None
    other = client.get("/v1/records", params={"order": "created", "limit": 3, "cursor": first["next"]})
    assert "same parameters" in problem(other, 422, "invalid-input")


def test_lists_are_filtered(client: TestClient) -> None:
    one = save(client, "Prefers tea", category="user-preferences/drinks", tags=["a", "b"])
    save(client, "The server listens on port 80", tags=["a"])
    for query in (
        "category=user-preferences",
        "tags=a&tags=b",
        "kind=preference",
        "kind=preference&kind=event",
    ):
        assert [each["id"] for each in client.get(f"/v1/records?{query}").json()["items"]] == [one["id"]], (
            query
        )
    assert client.get("/v1/categories").json()["user-preferences/drinks"] == 1
    assert client.get("/v1/tags").json() == {"a": 2, "b": 1}


def test_a_search_finds_says_why_and_returns_nothing_where_nothing_is_relevant(client: TestClient) -> None:
    save(client, "The staging database listens on port 5433")
    hits = client.post("/v1/search", json={"query": "which port does staging use?"}).json()["hits"]
    assert "5433" in hits[0]["content"]
    assert "port" in hits[0]["explanation"]["matched"]
    assert client.post("/v1/search", json={"query": "favourite colour"}).json() == {"hits": []}
    client.post(TURNS, json={"turns": [{"role": "user", "content": "I play the harp"}]})
    found = client.post("/v1/search", json={"query": "harp", "sources": ["records", "turns"]}).json()["hits"]
    assert [hit["type"] for hit in found if hit["type"] == "turn"] == ["turn"]


def test_reading_as_of_an_earlier_time(client: TestClient) -> None:
    record = save(client, "Deploys on Friday")
    url = f"/v1/records/{record['id']}"
    client.patch(url, json={"content": "Deploys on Monday"}, headers={"If-Match": "*"})
    assert client.get(f"{url}?as_of=1").json()["content"] == "Deploys on Friday"
    then = client.post("/v1/search?as_of=1", json={"query": "deploys"}).json()["hits"]
    assert [hit["content"] for hit in then] == ["Deploys on Friday"]
    problem(client.get(f"{url}?as_of=99"), 404, "not-found")


def test_history_blame_and_difference_of_a_record(client: TestClient) -> None:
    record = save(client, "Deploys on Friday")
    url = f"/v1/records/{record['id']}"
    client.patch(url, json={"content": "Deploys on Monday"}, headers={"If-Match": "*"})
    assert [each["operation"] for each in client.get(f"{url}/history").json()["items"]] == ["save", "update"]
    assert client.get(f"{url}/blame").json()["created"]["actor"] == "http"
    fields = client.get(f"{url}/diff").json()["fields"]
    assert {"name": "content", "before": "Deploys on Friday", "after": "Deploys on Monday"} in fields


# -- conversations ---------------------------------------------------------------------------------------


def test_a_conversation_is_stored_listed_and_put_into_a_prompt(client: TestClient) -> None:
    save(client, "The staging database listens on port 5433")
    turns = [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "name": "look", "arguments": '{"at": 1}'}],
        },
        {"role": "tool", "content": "seen", "tool_call_id": "c1"},
    ]
    added = client.post(TURNS, json={"turns": turns})
    assert (added.status_code, [each["position"] for each in added.json()["items"]]) == (201, [0, 1, 2])
    page = client.get(f"{TURNS}?limit=2").json()
    rest = client.get(TURNS, params={"limit": 2, "cursor": page["next"]}).json()
    assert [*page["items"], *rest["items"]] == added.json()["items"]
    assert rest["next"] is None
    pack = client.post(
        "/v1/sessions/telegram:1/context",
        json={"message": "which port does staging use?", "record_shown": False},
    ).json()
    assert "5433" in pack["text"]
    assert [each["verdict"] for each in pack["candidates"]] == ["selected"]
    assert client.get("/v1/sessions").json()["items"][0]["turns"] == 3
    assert client.get("/v1/sessions/telegram:1").json()["status"] == "active"
    changed = client.put(
        "/v1/sessions/telegram:1", json={"status": "terminated", "metadata": {"topic": "ports"}}
    )
    assert (changed.json()["status"], changed.json()["metadata"]["topic"]) == ("terminated", "ports")
    assert "terminated" in problem(client.post(TURNS, json={"turns": turns[:1]}), 422, "invalid-input")
    assert client.delete("/v1/sessions/telegram:1").json() == {"removed": 3}
    problem(client.get("/v1/sessions/telegram:1"), 404, "not-found")


def test_sessions_are_paged(client: TestClient) -> None:
    names = [f"chat:{n}" for n in range(5)]
    for name in names:
        client.post(f"/v1/sessions/{name}/turns", json={"turns": [{"role": "user", "content": "Hi"}]})
    seen: list[str] = []
    cursor = ""
    while True:
        answer = client.get(
            "/v1/sessions", params={"limit": 2} | ({"cursor": cursor} if cursor else {})
        ).json()
        seen += [each["session"]["id"] for each in answer["items"]]
        if (cursor := answer["next"]) is None:
            break
    assert seen == names[::-1]


def test_feedback_window_and_conclusions_of_a_session(client: TestClient) -> None:
    turns = [
        {"role": "user", "content": "Where do we deploy?"},
        {"role": "assistant", "content": "To Bergen. Note that the staging database will use port 5433."},
    ]
    added = client.post(TURNS, json={"turns": turns}).json()["items"]
    rated = client.post(
        "/v1/sessions/telegram:1/feedback", json={"turn": added[1]["id"], "thumb": "up", "note": "right"}
    )
    assert rated.json()["metadata"]["signal"] == "thumbs_up"
    results = client.post("/v1/sessions/telegram:1/consolidate").json()["results"]
    assert ["5433" in each["record"]["content"] for each in results] == [True]
    trimmed = client.post("/v1/sessions/telegram:1/compact", json={"kind": "trim", "keep": 0}).json()
    assert trimmed["state"] == "applied"
    assert client.get("/v1/sessions/telegram:1").json()["window_start"] == 2


def test_working_memory_of_a_session_and_the_scratchpad(client: TestClient) -> None:
    client.post(TURNS, json={"turns": [{"role": "user", "content": "Hi"}]})
    for base in ("/v1/sessions/telegram:1/working", "/v1/scratchpad"):
        url = f"{base}/plan/today"
        assert client.put(url, json={"data": "Deploy", "ttl": "10m"}).json()["data"] == "Deploy"
        assert client.put(url, json={"data": "Rest", "ttl": None}).json()["expires_at"] is None
        assert [each["key"] for each in client.get(base).json()["items"]] == ["plan/today"]
        etag = client.get(url).headers["etag"]
        assert client.get(url, headers={"If-None-Match": etag}).status_code == 304
        assert client.delete(url).json() == {"removed": 1}
        problem(client.get(url), 404, "not-found")


# -- pages -----------------------------------------------------------------------------------------------


def test_a_page_is_written_only_over_the_version_that_was_read(client: TestClient) -> None:
    url = "/v1/pages/projects/atlas.md"
    problem(client.get(url), 404, "not-found")
    made = client.put(url, json={"content": "# Atlas\n"})
    assert made.status_code == 201
    problem(client.put(url, json={"content": "x"}), 428, "if-match-required")
    etag = client.get(url).headers["etag"]
    assert client.put(url, json={"content": "# Atlas 2\n"}, headers={"If-Match": etag}).status_code == 200
    problem(client.put(url, json={"content": "x"}, headers={"If-Match": etag}), 412, "changed-meanwhile")
    assert "a line" in client.post(f"{url}/append", json={"text": "a line"}).json()["content"]
    client.post("/v1/pages/HISTORY.md/append", json={"text": "Moved to Bergen"})
    names = [each["name"] for each in client.get("/v1/pages").json()["items"]]
    assert {"projects/atlas.md", "HISTORY.md"} <= set(names)
    problem(client.delete(url, headers={"If-Match": etag}), 412, "changed-meanwhile")
    assert client.delete(url, headers={"If-Match": "*"}).json() == {"removed": 1}


# -- the journal -----------------------------------------------------------------------------------------


def test_changes_are_listed_and_undone(client: TestClient, memory: Memory) -> None:
    save(client, "Likes tea")
    save(client, "Lives in Bergen")
    first = client.get("/v1/journal?limit=1").json()
    assert (first["items"][0]["after"]["content"], first["next"]) == ("Likes tea", 1)
    assert client.get("/v1/journal?after=1").json()["items"][0]["sequence"] == 2
    assert client.get("/v1/journal?newest_first=true&limit=1").json()["items"][0]["sequence"] == 2
    planned = client.post("/v1/undo", json={"changes": [2], "dry_run": True}).json()
    assert (planned["made"], planned["differences"][0]["what"]) == ([], "removed")
    done = client.post("/v1/undo", json={"batch": 2}).json()
    assert (done["changes"], done["made"], done["differences"]) == ([2], [3], [])
    assert [record.content for record in memory.list()] == ["Likes tea"]
    problem(client.post("/v1/undo", json={"changes": [99]}), 404, "not-found")
    problem(client.post("/v1/undo", json={}), 422, "invalid-input")


def test_an_undo_that_later_changes_rest_on_is_a_conflict(client: TestClient) -> None:
    record = save(client, "Deploys on Friday")
    client.patch(f"/v1/records/{record['id']}", json={"content": "Deploys daily"}, headers={"If-Match": "*"})
    assert "undo that first" in problem(client.post("/v1/undo", json={"changes": [1]}), 409, "conflict")


# -- plans, erasure, the whole ---------------------------------------------------------------------------


def test_a_plan_is_made_read_and_applied_once(client: TestClient, memory: Memory) -> None:
    made = client.post("/v1/plans", json={"name": "extract", "output": "short", "step": "GOAL:x"})
    assert made.status_code == 201, made.text
    url = f"/v1/plans/{made.json()['id']}"
    assert client.get(url).json() == made.json() == client.get("/v1/plans").json()["items"][0]
    problem(client.get("/v1/plans/000000000000"), 404, "not-found")
    problem(client.post("/v1/plans", json={"name": "sleep"}), 422, "invalid-input")


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
    save_in = client.post("/v1/records?scope=user:bob", json={"content": "Likes milk"})
    assert save_in.json()["record"]["scope"] == "user:bob"


# -- the stream ------------------------------------------------------------------------------------------


def test_the_stream_has_every_change_in_order_and_resumes(
    client: TestClient, server: HttpServer, memory: Memory
) -> None:
    for n in range(3):
        memory.save(f"Fact number {n} of {n * 7}")

    def read(headers: dict[str, str], wanted: int) -> list[dict[str, Any]]:
        server.stopping = False
        events: list[dict[str, Any]] = []
        with client.stream("GET", "/v1/events?after=0", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
                server.stopping = len(events) == wanted  # which ends the stream
        return events

    server.stopping = True
    assert [each["sequence"] for each in read({}, 3)] == [1, 2, 3]
    assert [each["sequence"] for each in read({"Last-Event-ID": "2"}, 1)] == [3]
    assert server.streams == 0


# -- once and only once ----------------------------------------------------------------------------------


def test_a_repeated_request_with_a_key_is_not_done_twice_not_even_after_a_restart(
    client: TestClient, memory: Memory
) -> None:
    key = {"Idempotency-Key": "k-1"}
    body = {"turns": [{"role": "user", "content": "Hello"}]}
    first = client.post(TURNS, json=body, headers=key)
    again = client.post(TURNS, json=body, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    with open_client(memory) as other:
        assert other.post(TURNS, json=body, headers=key).json() == first.json()
    assert len(memory.turns("telegram:1")) == 1
    problem(client.post(TURNS, json={"turns": [*body["turns"]] * 2}, headers=key), 422, "key-reused")
    problem(client.post(TURNS, json=body, headers={"Idempotency-Key": "x" * 256}), 422, "invalid-input")


def test_a_key_is_marked_by_the_transaction_itself(client: TestClient, memory: Memory, monkeypatch) -> None:
    key = {"Idempotency-Key": "k-2"}
    body = {"turns": [{"role": "user", "content": "Hello"}]}
    commit = StoreWriter.commit

    def killed(self: StoreWriter, changes: list, **options: Any) -> list:
        if not changes and any(name.startswith("http.key.") for name in options["cursors"] or ()):
            raise KeyError("killed here")
        return commit(self, changes, **options)

    with monkeypatch.context() as patched:
        patched.setattr(StoreWriter, "commit", killed)
        assert client.post(TURNS, json=body, headers=key).status_code == 500
    again = client.post(TURNS, json=body, headers=key)
    assert "do not send it again" in problem(again, 409, "already-done")
    assert len(memory.turns("telegram:1")) == 1


def test_a_refused_request_leaves_its_key_free(client: TestClient) -> None:
    key = {"Idempotency-Key": "k-3"}
    problem(client.post("/v1/records", json={"content": " "}, headers=key), 422, "invalid-input")
    assert client.post("/v1/records", json={"content": "Likes tea"}, headers=key).status_code == 201


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/records", {"content": "Likes tea"}),
        ("/v1/records/batch", {"records": [{"content": "Likes tea"}, {"content": "Lives in Bergen"}]}),
        ("/v1/undo", {"changes": [1]}),
    ],
)
def test_the_answer_to_a_repeated_request_is_the_same(client: TestClient, path: str, body: object) -> None:
    save(client, "Something to undo")
    key = {"Idempotency-Key": "k"}
    first = client.post(path, json=body, headers=key)
    again = client.post(path, json=body, headers=key)
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["reverie-sequence"] == first.headers["reverie-sequence"]


def test_what_is_kept_of_a_request_is_no_content_and_goes_after_a_day(
    client: TestClient, memory: Memory, server: HttpServer, monkeypatch
) -> None:
    client.post("/v1/records", json={"content": "Likes tea"}, headers={"Idempotency-Key": "old"})
    receipts = {name: text for name, text in memory._store.cursors().items() if name.startswith("http.key.")}
    assert len(receipts) == 1
    assert "tea" not in str(receipts)
    now = memory.now()
    later = now.replace(year=now.year + 1)
    monkeypatch.setattr("reverie.interfaces.http.idempotency._PRUNED_EVERY", 1)
    monkeypatch.setattr(server._repeated, "_now", lambda: later)
    fresh = client.post("/v1/records", json={"content": "Likes tea"}, headers={"Idempotency-Key": "old"})
    assert "idempotent-replayed" not in fresh.headers


def test_cursors_of_one_list_are_refused_by_another() -> None:
    cursor = operations.encode_cursor([1, "a"], of="x")
    assert operations.decode_cursor(cursor, of="x", types=(int, str)) == [1, "a"]
    for wrong in (cursor[:-3], "", "!", "WzFd", cursor + "A"):
        with pytest.raises(ValueError, match="cursor"):
            operations.decode_cursor(wrong, of="x", types=(int, str))
    with pytest.raises(ValueError, match="cursor"):
        operations.decode_cursor(cursor, of="y", types=(int, str))


@pytest.mark.parametrize("thing", ["record", "page"])
def test_what_changes_between_the_check_and_the_removal_is_not_removed(
    client: TestClient, memory: Memory, monkeypatch: pytest.MonkeyPatch, thing: str
) -> None:
    if thing == "record":
        name = memory.save("Works in Ghent").record.id
        path, module = f"/v1/records/{name}", records
        change = partial(memory.update, name, content="Works in Bruges")
    else:
        memory.pages.write("plans.md", "Ghent")
        path, module = "/v1/pages/plans.md", records
        change = partial(memory.pages.write, "plans.md", "Bruges")
    etag = client.get(path).headers["etag"]

    def check_and_change(*given: Any) -> bool:
        result = check_match(*given)
        change()  # as another process does
        return result

    monkeypatch.setattr(module, "check_match", check_and_change)
    answer = client.delete(path, headers={"If-Match": etag})
    assert (answer.status_code, answer.json()["title"]) == (412, "Changed meanwhile")
    assert "Bruges" in client.get(path).json()["content"]
    assert not client.get(path).json().get("archived_at")
    assert client.delete(path, headers={"If-Match": "*"}).status_code == 200


def test_a_line_that_is_sent_twice_with_one_key_is_added_once(client: TestClient) -> None:
    key = {"Idempotency-Key": "a"}
    for replayed in (None, "true"):
        answer = client.post("/v1/pages/plans.md/append", json={"text": "- Ghent"}, headers=key)
        assert (answer.status_code, answer.json()["content"]) == (200, "- Ghent\n")
        assert answer.headers.get("idempotent-replayed") == replayed


def test_turns_are_removed_and_replaced_over_http(client: TestClient, memory: Memory) -> None:
    turns = [
        {"role": "user", "content": "Where is the tea?"},
        {"role": "assistant", "content": "In the cellar."},
    ]
    first, last = client.post("/v1/sessions/chat:1/turns", json={"turns": turns}).json()["items"]
    new = client.put(f"/v1/sessions/chat:1/turns/{last['id']}", json={"content": "In the kitchen."})
    assert new.json()["content"] == "In the kitchen."
    problem(client.put("/v1/sessions/chat:1/turns/none", json={"content": "x"}), 404, "not-found")
    gone = client.post("/v1/sessions/chat:1/turns/remove", json={"turns": [last["id"]]})
    assert [each["id"] for each in gone.json()["items"]] == [last["id"]]
    assert [turn.id for turn in memory.session("chat:1").turns()] == [first["id"]]
    client.post("/v1/undo", json={"batch": memory.history.log()[-1].batch})
    assert [turn.content for turn in memory.session("chat:1").turns()] == [
        "Where is the tea?",
        "In the kitchen.",
    ]
