"""Memories that contradict each other: which are listed, and the three ways to settle them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http.server import HttpServer
from tests.interfaces.http.test_page import OWN, Page, read_form, see, sign_in

LIST, SETTLE = "/v1/conflicts", "/v1/conflicts/settle"
DAYS = ("Deploys happen on Tuesdays after the stand-up", "Deploys happen on Thursdays after the stand-up")


def save_both(memory: Memory, texts: tuple[str, str] = DAYS) -> tuple[str, str]:
    """Save two records; return their ids."""
    return memory.save(texts[0]).record.id, memory.save(texts[1]).record.id


def list_conflicts(client: TestClient) -> list[dict[str, Any]]:
    """Return the conflicts that the API lists."""
    answer = client.get(LIST)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


@pytest.mark.parametrize(
    "texts",
    [
        DAYS,
        ("Alice drinks coffee in the morning", "Alice does not drink coffee in the morning"),
        ("The dentist appointment is at 15:00", "The dentist appointment is at 16:30"),
        ("The cat is called Minka", "The cat is called Milo"),
    ],
)
def test_memories_that_differ_in_one_value_are_listed(
    client: TestClient, memory: Memory, texts: tuple[str, str]
) -> None:
    older, newer = save_both(memory, texts)
    (found,) = list_conflicts(client)
    assert [each["id"] for each in found["records"]] == [newer, older]


@pytest.mark.parametrize(
    "texts",
    [
        ("Host tern runs Debian", "Host rook runs Debian"),
        ("Host 12 in rack 4 has the address 10.1.2.3", "Host 13 in rack 7 has the address 10.1.2.4"),
        ("The rent is 1,200 €", "The rent is 1,350 €"),  # the rule ended the first
        ("Ines likes rye bread", "The dentist appointment is at 15:00"),
    ],
)
def test_memories_of_different_things_are_not_listed(
    client: TestClient, memory: Memory, texts: tuple[str, str]
) -> None:
    save_both(memory, texts)
    assert list_conflicts(client) == []


def test_the_one_that_holds_ends_the_other(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    answer = client.post(SETTLE, json={"holds": newer, "other": older, "verdict": "ended"})
    assert answer.status_code == 200, answer.text
    kept, ended = memory.get(newer), memory.get(older)
    assert kept is not None
    assert ended is not None
    assert kept.metadata["supersedes"] == older
    assert ended.metadata["superseded_by"] == newer
    assert ended.valid_to is not None
    assert not ended.archived
    assert list_conflicts(client) == []
    memory.history.undo(memory._store.sequence())
    assert len(list_conflicts(client)) == 1


def test_one_that_was_never_true_is_archived(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    body = {
        "holds": older,
        "other": newer,
        "verdict": "wrong",
        "content": "Deploys happen on Tuesdays at ten",
    }
    assert client.post(SETTLE, json=body).status_code == 200
    assert [record.content for record in memory.list()] == ["Deploys happen on Tuesdays at ten"]
    archived = memory.get(newer)
    assert archived is not None
    assert older in archived.archive_reason


def test_two_that_both_hold_are_not_listed_again(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    assert client.post(SETTLE, json={"holds": newer, "other": older, "verdict": "both"}).status_code == 200
    assert len(memory.list()) == 2
    assert list_conflicts(client) == []


def test_a_version_that_has_changed_since_is_not_settled(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    read = [client.get(f"/v1/records/{name}").headers["ETag"] for name in (newer, older)]
    memory.update(older, tags=["work"])
    body = {"holds": newer, "other": older, "verdict": "wrong", "versions": read}
    answer = client.post(SETTLE, json=body)
    assert answer.status_code == 412
    assert len(memory.list()) == 2


@pytest.mark.parametrize(
    ("change", "status"),
    [({"other": "0" * 12}, 404), ({"other": None}, 422), ({"verdict": "both", "content": "x"}, 422)],
)
def test_what_cannot_be_settled_is_refused(
    client: TestClient, memory: Memory, change: dict[str, str | None], status: int
) -> None:
    older, newer = save_both(memory)
    body = {"holds": newer, "other": older, "verdict": "ended", **change}
    assert client.post(SETTLE, json=body).status_code == status
    assert client.post(SETTLE, json={**body, "other": newer, "verdict": "ended"}).status_code == 422
    assert memory._store.sequence() == 2


def test_a_conflict_of_another_scope_is_neither_seen_nor_settled(
    client: TestClient, server: HttpServer, memory: Memory
) -> None:
    older, newer = (memory.scoped("user:bob").save(text).record.id for text in DAYS)
    _, text = server.tokens.create("alice", scope="user:alice", rights=("read", "write"), origin="owner")
    headers = {"Authorization": f"Bearer {text}"}
    assert client.get(LIST, headers=headers).json()["items"] == []
    body = {"holds": newer, "other": older, "verdict": "wrong"}
    assert client.post(SETTLE, json=body, headers=headers).status_code == 404


# -- the page --------------------------------------------------------------------------------------------


def send(client: TestClient, view: str, **fields: str) -> tuple[int, Page]:
    """Send the form of a conflict as its view draws it, and return the answer."""
    form = read_form(client.get(view).text, "/conflicts/pair")
    answer = client.post("/conflicts/pair", data={**form, **fields}, headers=OWN)
    return answer.status_code, Page(answer.text)


def find_view(client: TestClient) -> str:
    """Return the address of the only conflict that the page lists."""
    (link,) = {
        each["href"] for each in see(client, "/conflicts").find("a") if "/pair" in each.get("href", "")
    }
    return link


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"holds": "0", "verdict": "ended"}, 2),
        ({"holds": "1", "verdict": "wrong"}, 1),
        ({"holds": "both"}, 2),
        ({"holds": "text", "verdict": "wrong", "content": "Deploys happen on Tuesdays and Thursdays"}, 1),
    ],
)
def test_a_conflict_is_settled_on_the_page_and_taken_back(
    client: TestClient, memory: Memory, fields: dict[str, str], left: int
) -> None:
    save_both(memory)
    status, shown = send(client, find_view(client), **fields)
    assert status == 200
    assert len(memory.list()) == left
    assert [each for each in shown.find("a") if "/pair" in each.get("href", "")] == []
    (undo,) = {each["href"] for each in shown.find("a") if each.get("href", "").startswith("/undo")}
    client.post(undo, data={"x": ""}, headers=OWN)
    assert find_view(client)


def test_a_conflict_that_changed_meanwhile_is_shown_again(client: TestClient, memory: Memory) -> None:
    older, _ = save_both(memory)
    view = find_view(client)
    form = read_form(client.get(view).text, "/conflicts/pair")
    memory.update(older, content="Deploys happen on Mondays after the stand-up")
    answer = client.post("/conflicts/pair", data={**form, "holds": "0", "verdict": "wrong"}, headers=OWN)
    assert answer.status_code == 412
    assert "Mondays" in answer.text
    assert len(memory.list()) == 2


def test_any_two_memories_are_compared_from_the_list(client: TestClient, memory: Memory) -> None:
    ids = [memory.save(text).record.id for text in ("Ines likes rye bread", "Ines bakes on Sundays")]
    assert see(client, "/conflicts").text.count("Ines") == 0
    answer = client.post("/selection", data={"ids": ids, "action": "compare"}, headers=OWN)
    assert answer.url.path == "/conflicts/pair"
    assert "Ines bakes on Sundays" in Page(answer.text).text
    alone = client.post("/selection", data={"ids": ids[:1], "action": "compare"}, headers=OWN)
    assert alone.status_code == 422
    assert "two" in alone.text


def test_who_only_reads_settles_nothing(client: TestClient, server: HttpServer, memory: Memory) -> None:
    older, newer = (memory.scoped("user:alice").save(text).record.id for text in DAYS)
    _, text = server.tokens.create("reader", scope="user:alice", rights=("read",), origin="owner")
    sign_in(client, text)
    page = see(client, find_view(client))
    assert page.find("button", name="holds") == []
    data = {"first": newer, "second": older, "holds": "0", "verdict": "wrong"}
    assert client.post("/conflicts/pair", data=data, headers=OWN).status_code == 403
