"""The client against a server that runs as a process."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from reverie import Conflict, InvalidInput, NewRecord, NotFound, StoreUnavailable
from reverie.integrations.remote import RemoteMemory, RemotePages
from tests.interfaces.conftest import run_cli
from tests.interfaces.http.test_http_process import Served, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served") / "memory") as served:
        yield served


@pytest.fixture
def memory(served: Served, request: pytest.FixtureRequest) -> Iterator[RemoteMemory]:
    """A scope of its own for each test."""
    with connect(served) as memory:
        yield memory.scoped(f"test:{request.node.name.replace('_', '-')[:80]}")


def connect(served: Served, **options: object) -> RemoteMemory:
    return RemoteMemory(f"http://127.0.0.1:{served.port}", **options)


def test_the_living_page_is_read_and_edited(memory: RemoteMemory) -> None:
    record = memory.save("I live in Bergen").record
    page = memory.page()
    edit = memory.edit_page(page.replace("Bergen", "Oslo"), expected=page)
    assert (edit.outcome, edit.text) == ("changed", memory.page())
    changed = memory.get(record.id)
    assert changed is not None
    assert changed.content == "I live in Oslo"
    with pytest.raises(Conflict):
        memory.edit_page("", expected=page)


def test_what_is_saved_is_found_changed_and_taken_back(memory: RemoteMemory) -> None:
    held = datetime(2026, 5, 1, tzinfo=UTC)
    saved = memory.save(
        "Prefers oolong tea", tags=["tea"], valid_from=held, ttl=timedelta(days=3), metadata={"a": "1"}
    )
    record = saved.record
    assert (saved.outcome, record.valid_from, record.scope) == ("created", held, memory.scope)
    assert memory.save("Prefers oolong tea").outcome == "reinforced"
    hit = memory.search("which tea?", tags="tea", kind=["fact", "preference"])[0]
    assert (hit.record.id, hit.content) == (record.id, "Prefers oolong tea")
    assert "tea" in hit.explanation.matched
    assert memory.search("volcanoes") == []
    assert memory.get(record.id) == hit.record
    assert memory.update(record.id, metadata={"b": "2"}).metadata == {"b": "2"}
    assert memory.archive(record.id, reason="done").archive_reason == "done"
    assert (memory.list(), memory.list(archived=True)[0].id) == ([], record.id)
    assert [each.id for each in memory.list(archived=None)] == [record.id]
    assert not memory.restore(record.id).archived
    change = memory.history.log(record.id)[0]
    assert change["change"] == "added"
    assert memory.history.blame(record.id)["created"]["sequence"] == change["sequence"]
    assert memory.history.diff(record.id)["id"] == record.id
    newest = memory.history.log(record.id, newest_first=True)[0]["sequence"]
    assert memory.history.undo([newest])["changes"] == [newest]
    assert memory.get(record.id).archived
    assert memory.as_of(change["sequence"]).get(record.id).metadata == {"a": "1"}
    assert memory.get("000000000000") is None
    assert (memory.tags(), memory.categories(), memory.stats().archived) == ({}, {}, 1)


def test_lists_longer_than_a_page_are_read_whole(memory: RemoteMemory) -> None:
    given = [*(NewRecord(content=f"Number {n} is {n * 7919}") for n in range(249)), "Number 249 is a text"]
    results = memory.save_many(given)
    assert len(results) == 250
    listed = [each.id for each in memory.list(limit=None)]
    assert sorted(listed) == sorted(each.record.id for each in results)
    assert [each.id for each in memory.list(limit=210)] == listed[:210]
    session = memory.session("long")
    for start in (0, 150):
        session.add_many({"role": "user", "content": f"Turn {start + n}"} for n in range(150))
    assert [turn.content for turn in memory.turns("long", start=198, stop=202)] == [
        f"Turn {n}" for n in range(198, 202)
    ]
    assert [turn.content for turn in memory.turns("long", start=-1)] == ["Turn 299"]


def test_a_conversation_is_kept_and_makes_a_prompt(memory: RemoteMemory) -> None:
    memory.save("Alice is allergic to nuts")
    session = memory.session("telegram:1/a")
    with pytest.raises(NotFound):
        _ = session.state
    said = session.add("user", "What am I allergic to?", metadata={"a": "b"})
    assert (said.position, said.metadata) == (0, {"a": "b"})
    pack = session.context()
    assert "allergic to nuts" in pack.text
    assert pack.messages == [{"role": "user", "content": "What am I allergic to?"}]
    answer = session.add("assistant", "Nuts.")
    assert session.feedback(answer.id, "up").id == answer.id
    assert session.pause().status == "paused"
    assert session.resume().status == session.state.status == "active"
    assert session.set_metadata("mood", "calm").metadata == {"mood": "calm"}
    assert [(each.turns, each.state.status) for each in memory.sessions()] == [(2, "active")]
    found = memory.search("allergic", sources=["turns"], session=said.session)
    assert {each.turn.id for each in found} == {said.id, answer.id}
    whole = memory.search("allergic", sources="turns", unit="session")[0]
    assert (whole.id, whole.session.status) == (said.session, "active")
    entry = session.working.set("k/1", "v", ttl=None, tags=["x"])
    assert (session.working.get("k/1"), session.working.list()) == ("v", [entry])
    assert (session.working.delete("k/1"), session.working.delete("k/1")) == (True, False)
    assert memory.scratchpad.get("none") is None
    assert memory.consolidate_session("telegram:1/a") == []
    assert session.terminate().status == "terminated"
    with pytest.raises(InvalidInput, match="terminated"):
        session.add("user", "More")
    assert (memory.delete_session("telegram:1/a"), memory.delete_session("telegram:1/a")) == (2, 0)


def test_pages_are_written_only_over_what_was_read(served: Served) -> None:
    with connect(served) as memory:
        check_pages(memory.pages)


def check_pages(pages: RemotePages) -> None:
    assert pages.write("projects/atlas.md", "One") == "One"
    assert pages.write("projects/atlas.md", "Two", expected="One") == "Two"
    with pytest.raises(Conflict):
        pages.write("projects/atlas.md", "Three", expected="One")
    assert pages.read("projects/atlas.md") == "Two"
    assert pages.append("projects/atlas.md", "- more") == "Two\n- more\n"
    assert "projects/atlas.md" in pages.names()
    assert (pages.delete("projects/atlas.md"), pages.delete("projects/atlas.md")) == (True, False)
    assert pages.read("projects/atlas.md") == ""


def test_errors_are_those_of_memory(memory: RemoteMemory, served: Served) -> None:
    with pytest.raises(InvalidInput, match="confidence"):
        memory.save("x", confidence=7)
    with pytest.raises(NotFound):
        memory.archive("000000000000")
    with pytest.raises(InvalidInput, match="url"):
        RemoteMemory("ftp://127.0.0.1")
    record = memory.save("Works in Ghent").record
    memory.update(record.id, content="Works in Bruges")
    with pytest.raises(Conflict):
        memory.update(record.id, content="Works in Mons", expected=record)
    with pytest.raises(Conflict):
        memory.archive(record.id, expected=record)
    assert memory.get(record.id).content == "Works in Bruges"
    assert memory.archive(record.id, expected=memory.get(record.id)).archived
    with pytest.raises(StoreUnavailable, match="did not answer"):
        RemoteMemory("http://127.0.0.1:9", patience=0.1).stats()


@pytest.mark.slow
def test_a_token_is_sent(tmp_path: Path) -> None:
    with serving(tmp_path / "memory") as served:
        made = run_cli("token", "create", "alice", "--scope", "user:alice", "--store", tmp_path / "memory")
        with connect(served, token=made.stdout.decode().strip()) as memory:
            assert memory.list() == []
            with pytest.raises(InvalidInput, match="right 'write'"):
                memory.save("Likes tea")
        with connect(served) as memory, pytest.raises(InvalidInput, match="token is required"):
            memory.list()


def test_two_writers_of_one_record_lose_no_change(memory: RemoteMemory) -> None:
    record = memory.save("Counts").record

    def count(name: str) -> None:
        for n in range(10):
            memory.update(record.id, metadata={**memory.get(record.id).metadata, name: str(n)})

    def change(field: str) -> None:
        for n in range(10):
            memory.update(record.id, **{field: n / 10})

    threads = [threading.Thread(target=change, args=[name]) for name in ("confidence", "importance")]
    threads.append(threading.Thread(target=count, args=["a"]))
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    found = memory.get(record.id)
    assert (found.confidence, found.importance, found.metadata) == (0.9, 0.9, {"a": "9"})


def test_what_is_repeated_has_the_same_key_so_that_it_is_done_once() -> None:
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.append(self.headers["Idempotency-Key"])
            if len(keys) % 3:  # the server dies, then it is too busy
                self.send_response(503) if len(keys) % 3 == 2 else self.connection.close()
                self.close_connection = True
            else:
                self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with RemoteMemory(f"http://127.0.0.1:{server.server_port}") as memory:
            for _ in range(2):
                memory.request("POST", "/v1/records", {"content": "x"})
        server.shutdown()
    assert len(keys) == 6
    assert len(set(keys[:3])) == len(set(keys[3:])) == 1
    assert keys[0] != keys[3]


def test_the_example_of_the_documentation_works(served: Served) -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "server.md"
    example = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["ask"](f"http://127.0.0.1:{served.port}") == "Alice prefers oolong tea"


def test_a_new_field_of_a_newer_server_is_no_error() -> None:
    from reverie.domain.record import Record
    from reverie.integrations.remote import parse_value
    from tests.factories import make_record

    record = make_record()
    assert parse_value(Record, {**record.to_dict(), "mood": "calm"}) == record


def test_the_client_needs_no_package_of_the_server() -> None:
    check = (
        "import sys, reverie.integrations.remote; "
        "heavy = {'starlette', 'uvicorn', 'httpx', 'pydantic'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_address_that_is_none_is_refused() -> None:
    for url in ["http://x:99999", "http://x:y", "http://[::1", "http://a b", "::::", ""]:
        with pytest.raises(InvalidInput, match="pass an address such as"):
            RemoteMemory(url)
