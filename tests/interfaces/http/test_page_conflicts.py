"""Two memories of which one holds, and hand edits that met other changes: how they are settled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http.server import HttpServer
from tests.interfaces.http.conftest import open_client
from tests.interfaces.http.test_page import OWN, read_form, see

SETTLE = "/v1/conflicts/settle"
DAYS = ("Deploys happen on Tuesdays after the stand-up", "Deploys happen on Thursdays after the stand-up")


def save_both(memory: Memory, texts: tuple[str, str] = DAYS) -> tuple[str, str]:
    """Save two records; return their ids."""
    return memory.save(texts[0]).record.id, memory.save(texts[1]).record.id


def test_the_one_that_holds_ends_the_other(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    answer = client.post(SETTLE, json={"holds": newer, "other": older, "verdict": "ended"})
    assert answer.status_code == 200, answer.text
    kept, ended = memory.get(newer), memory.get(older)
    assert kept is not None
    assert ended is not None
    assert kept.replaces == (older,)
    assert ended.replaced_by == newer
    assert ended.valid_to is not None
    assert not ended.archived


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


def test_two_that_both_hold_name_each_other(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    assert client.post(SETTLE, json={"holds": newer, "other": older, "verdict": "both"}).status_code == 200
    assert {each.id: each.metadata for each in memory.list()}[newer] == {"compatible_with": older}


def test_a_version_that_has_changed_since_is_not_settled(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    read = [client.get(f"/v1/records/{name}").headers["ETag"] for name in (newer, older)]
    memory.update(older, tags=["work"])
    body = {"holds": newer, "other": older, "verdict": "wrong", "versions": read}
    answer = client.post(SETTLE, json=body)
    assert answer.status_code == 412
    assert len(memory.list()) == 2


def test_what_cannot_be_settled_is_refused(client: TestClient, memory: Memory) -> None:
    older, newer = save_both(memory)
    body: dict[str, Any] = {"holds": newer, "other": older, "verdict": "ended"}
    changes: list[tuple[dict[str, Any], int]] = [
        ({"other": "0" * 12}, 404),
        ({"other": None}, 422),
        ({"verdict": "both", "content": "x"}, 422),
        ({"reason": "x" * 2_001}, 422),
    ]
    for change, status in changes:
        assert client.post(SETTLE, json=body | change).status_code == status
    assert client.post(SETTLE, json={**body, "other": newer, "verdict": "ended"}).status_code == 422
    assert memory._store.sequence() == 2


def test_a_conflict_of_another_scope_is_neither_seen_nor_settled(
    client: TestClient, server: HttpServer, memory: Memory
) -> None:
    older, newer = (memory.scoped("user:bob").save(text).record.id for text in DAYS)
    _, text = server.tokens.create("alice", scope="user:alice", rights=("read", "write"), origin="owner")
    headers = {"Authorization": f"Bearer {text}"}
    body = {"holds": newer, "other": older, "verdict": "wrong"}
    assert client.post(SETTLE, json=body, headers=headers).status_code == 404


# -- hand edits ------------------------------------------------------------------------------------------


@pytest.fixture
def edited(tmp_path: Path) -> Iterator[tuple[TestClient, Memory, str]]:
    """A memory whose only record was changed by hand and by the program at the same time; its conflict file."""
    with Memory.open(tmp_path / "memory") as memory, open_client(memory) as client:
        record = memory.save("The port is 5433", importance=0.5).record
        memory.flush()
        (file,) = memory.path.rglob(f"{record.id}.json")
        file.write_text(json.dumps(record.to_dict() | {"importance": 0.9}))
        memory.update(record.id, importance=0.2)
        memory.folder.sync()
        (conflict,) = memory.folder.conflicts()
        yield client, memory, conflict.path


@pytest.mark.parametrize(("keep", "importance"), [("live", 0.9), ("other", 0.2)])
def test_a_conflict_of_a_hand_edit_is_settled_on_the_page(
    edited: tuple[TestClient, Memory, str], keep: str, importance: float
) -> None:
    client, memory, path = edited
    assert "Hand edits that met other changes: 1" in see(client, "/health").text
    form = read_form(client.get("/conflicts").text, "/conflicts/edit")
    assert form["path"] == path
    answer = client.post("/conflicts/edit", data={**form, "keep": keep}, headers=OWN)
    assert answer.status_code == 200
    assert ("Undo" in answer.text) == (keep == "other")
    assert [each.importance for each in memory.list()] == [importance]
    assert memory.folder.conflicts() == []
    assert not (memory.path / path).exists()
    assert memory.admin.check() == []
    again = client.post("/conflicts/edit", data={**form, "keep": keep}, headers=OWN)
    assert again.status_code == 404


def test_no_other_file_is_read_or_removed_as_a_conflict(edited: tuple[TestClient, Memory, str]) -> None:
    client, memory, path = edited
    form = read_form(client.get("/conflicts").text, "/conflicts/edit")
    for other in ("reverie.db", "../memory/reverie.db", f"./{path}", str(memory.path / path), ""):
        answer = client.post("/conflicts/edit", data={**form, "path": other, "keep": "live"}, headers=OWN)
        assert answer.status_code == 404
    memory.update(memory.list()[0].id, confidence=0.3)
    answer = client.post("/conflicts/edit", data={**form, "keep": "other"}, headers=OWN)
    assert answer.status_code == 412
    (memory.path / path).write_text("{")
    assert "by hand" in see(client, "/conflicts").text
    for keep, status in (("other", 422), ("neither", 422), ("live", 200)):
        answer = client.post("/conflicts/edit", data={**form, "keep": keep}, headers=OWN)
        assert answer.status_code == status
    assert memory.folder.conflicts() == []
