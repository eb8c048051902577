"""Lists as CSV and JSON: the same filter as the page, whole, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.domain.change import Change
from reverie.interfaces.http.page import exports
from reverie.interfaces.http.server import HttpServer
from tests.factories import make_record, propose_record
from tests.interfaces.http.test_page import see, sign_in

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("http://example.org")']


def read_csv(client: TestClient, path: str) -> list[dict[str, str]]:
    """Return the rows of a list."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer.headers["content-disposition"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_records_are_listed_with_the_filter_of_the_page(client: TestClient, memory: Memory) -> None:
    memory.save("Deploys happen on Tuesdays", kind="decision", tags=["work", "ops"])
    memory.save('Ünal bevorzugt Tee, "grün"\nund heiß', kind="preference")
    rows = read_csv(client, "/records.csv?kind=preference")
    assert [row["content"] for row in rows] == ['Ünal bevorzugt Tee, "grün"\nund heiß']
    assert [row["tags"] for row in read_csv(client, "/records.csv?kind=decision")] == ["work, ops"]
    items = client.get("/records.json?kind=decision").json()["items"]
    assert [item["content"] for item in items] == ["Deploys happen on Tuesdays"]
    assert client.get("/records.csv?kind=nonsense").status_code == 422
    assert client.get("/records.xml").status_code == 404


def test_a_search_is_listed_with_its_scores(client: TestClient, memory: Memory) -> None:
    memory.save("Alice drinks black tea")
    (row,) = read_csv(client, "/records.csv?q=what+does+Alice+drink")
    assert row["content"] == "Alice drinks black tea"
    assert 0 < float(row["score"]) <= 1
    (item,) = client.get("/records.json?q=what+does+Alice+drink").json()["items"]
    assert item["record"]["content"] == "Alice drinks black tea"


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_is_no_formula(client: TestClient, memory: Memory, text: str) -> None:
    record = make_record(1, content=text, source=text, tags=(text.strip(),))
    memory._parts.writer.commit([Change(before=None, after=record)], note=text)
    for path in ("/records.csv", "/timeline.csv"):
        for row in read_csv(client, path):
            assert not [cell for cell in row.values() if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert read_csv(client, "/records.csv")[0]["content"] == f"'{text}"
    assert client.get("/records.json").json()["items"][0]["content"] == text


def test_the_journal_is_listed_with_the_filter_of_the_timeline(client: TestClient, memory: Memory) -> None:
    record = memory.save("Alice drinks black tea").record
    memory.session("telegram:1").add("user", "hello")
    memory.archive(record.id, reason="moved away")
    rows = read_csv(client, "/timeline.csv?subject=record")
    assert [(row["operation"], row["note"]) for row in rows] == [("archive", "moved away"), ("save", "")]
    assert rows[0]["content"] == "Alice drinks black tea"
    items = client.get(f"/timeline.json?id={record.id}").json()["items"]
    assert [item["sequence"] for item in items] == [4, 1]
    assert read_csv(client, "/timeline.csv?since=2100-01-01") == []


def test_proposals_are_listed(client: TestClient, memory: Memory) -> None:
    proposed = make_record(1, content="Likes tea")
    propose_record(memory, proposed)
    assert [row["content"] for row in read_csv(client, "/proposals.csv")] == ["Likes tea"]
    assert [item["id"] for item in client.get("/proposals.json").json()["items"]] == [proposed.id]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(exports, "MOST_ROWS", 5)
    return None


@pytest.mark.usefixtures("few")
def test_a_list_that_is_not_whole_says_where_it_goes_on(client: TestClient, memory: Memory) -> None:
    memory.save_many([f"Alice owns bicycle number {number}" for number in range(8)])
    first = client.get("/records.json").json()
    assert len(first["items"]) == 5
    rest = client.get("/records.json", params={"cursor": first["next"]}).json()
    assert len(rest["items"]) == 3
    assert rest["next"] is None
    answer = client.get("/records.csv")
    link = answer.headers["link"].partition(">")[0].removeprefix("<")
    assert len(list(csv.reader(io.StringIO(answer.text)))) == 6
    assert len(read_csv(client, link)) == 3
    assert "link" not in client.get(link).headers
    assert len(read_csv(client, client.get("/timeline.csv").headers["link"].partition(">")[0][1:])) == 3


def test_a_list_is_whole(client: TestClient, memory: Memory) -> None:
    memory.save_many([f"Alice owns bicycle number {number}" for number in range(430)])
    assert len({row["id"] for row in read_csv(client, "/records.csv")}) == 430
    assert len({row["sequence"] for row in read_csv(client, "/timeline.csv")}) == 430


def test_the_views_link_to_their_lists(client: TestClient, memory: Memory) -> None:
    memory.save("Alice drinks black tea", kind="preference")
    links = {each.get("href") for each in see(client, "/records?kind=preference").find("a")}
    assert {"/records.csv?kind=preference", "/records.json?kind=preference"} <= links
    links = {each.get("href") for each in see(client, "/timeline?subject=record").find("a")}
    assert "/timeline.csv?subject=record" in links


def test_only_the_own_scope_is_listed(client: TestClient, server: HttpServer, memory: Memory) -> None:
    memory.scoped("user:bob").save("Bob drinks green tea")
    memory.scoped("user:alice").save("Alice drinks black tea")
    _, text = server.tokens.create("alice", scope="user:alice", rights=("read",))
    assert client.get("/records.csv", follow_redirects=False).status_code == 303
    sign_in(client, text)
    assert [row["content"] for row in read_csv(client, "/records.csv")] == ["Alice drinks black tea"]
    assert [row["content"] for row in read_csv(client, "/timeline.csv")] == ["Alice drinks black tea"]
    assert client.get("/proposals.csv").status_code == 403
