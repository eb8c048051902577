"""Limits of the server: sizes, slow and broken clients, connections."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from reverie import Memory, Settings
from reverie.interfaces.http import server as server_module
from reverie.interfaces.http.application import build_application
from reverie.interfaces.http.serve import create_web_server, open_socket
from reverie.interfaces.http.server import LARGEST_BODY, HttpServer
from tests.interfaces.conftest import run_cli
from tests.interfaces.http.conftest import serve_here
from tests.interfaces.http.test_http_process import Served, serving
from tests.search.vectors.concepts import ConceptEmbedder

SERVER = """
import sys
from reverie.interfaces.http import serve
serve.MOST_CONNECTIONS = 20
serve.HEADERS_S = 0.5
from reverie.interfaces.cli.entry import main
sys.argv = ["reverie", "serve", "--port", "0", "--store", sys.argv[1]]
main()
"""
"""A server with limits that a test reaches soon."""


@contextmanager
def serving_few(folder: Path) -> Iterator[Served]:
    run_cli("init", "--store", folder)
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        assert said.startswith("Serving on http://127.0.0.1:"), said
        yield Served(process, int(said.split()[2].rstrip("/;").rpartition(":")[2]))
    finally:
        process.kill()
        process.communicate()


def connect(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=20)


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(65_536):
        data += part
    return data


# -- many at once ----------------------------------------------------------------------------------------


class StoppedEmbedder(ConceptEmbedder):
    """Embedder that answers no question before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        self.go_on.wait(30)
        return super().embed_queries(texts)


def test_requests_do_not_wait_for_searches_or_for_saves(tmp_path: Path) -> None:
    embedder = StoppedEmbedder()
    with (
        Memory.open(tmp_path / "memory", embedder=embedder, settings=Settings(files="none")) as memory,
        serve_here(HttpServer(memory)) as client,
        ThreadPoolExecutor(81) as others,
    ):
        memory.save("Prefers green tea")
        memory.admin.embed()
        asked = [others.submit(client.post, "/v1/search", json={"query": f"tea {n}"}) for n in range(40)]
        try:
            with closing(sqlite3.connect(tmp_path / "memory/reverie.db")) as file:
                file.execute("BEGIN IMMEDIATE")  # another process that writes
                note = {"content": "Prefers black coffee"}
                asked += [others.submit(client.post, "/v1/records", json=note) for _ in range(40)]
                answer = others.submit(client.get, "/v1/records").result(timeout=8)
                assert not any(each.done() for each in asked)
            assert len(answer.json()["items"]) == 1
        finally:
            embedder.go_on.set()
        assert {each.result(30).status_code for each in asked} == {200, 201}


# -- bodies ----------------------------------------------------------------------------------------------


def test_a_body_over_the_limit_is_refused_with_and_without_its_length(client: TestClient) -> None:
    body = b'{"content": "' + b"x" * LARGEST_BODY + b'"}'
    json = {"Content-Type": "application/json"}
    assert client.post("/v1/records", content=body, headers=json).status_code == 413
    assert client.post("/v1/records", content=iter([body[:9], body[9:]]), headers=json).status_code == 413
    assert client.get("/v1/records").json()["items"] == []


@pytest.mark.parametrize("text", [b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\\ud800", b"\xf0\x9f\x92"])
def test_text_that_is_no_utf_8_is_refused_and_nothing_stored(client: TestClient, text: bytes) -> None:
    body = b'{"content": "tea %s"}' % text
    answer = client.post("/v1/records", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/v1/records").json()["items"] == []


@pytest.mark.parametrize("path", ["/v1/records/%FF", "/v1/records?tags=%FF", "/v1/sessions/%ED%A0%80/turns"])
def test_an_address_that_is_no_utf_8_is_no_error_of_the_server(client: TestClient, path: str) -> None:
    assert client.get(path).status_code < 500


def test_a_number_of_thousands_of_digits_in_an_address_is_no_error_of_the_server(client: TestClient) -> None:
    for path in ("/v1/sessions/x/packs/", "/why/x/"):
        assert client.get(path + "9" * 5_000).status_code == 404


def test_a_body_that_does_not_arrive_is_refused(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BODY_S", 0.05)
    app = build_application(server, host="127.0.0.1")
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if len(sent) == 0 and not receive_calls:
            receive_calls.append(1)
            return {"type": "http.request", "body": b'{"content"', "more_body": True}
        await anyio.sleep(60)
        raise AssertionError

    receive_calls: list[int] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": "/v1/records", "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "raw_path": b"/v1/records", "root_path": "", "scheme": "http", "server": ("127.0.0.1", 80),
    }  # fmt: skip
    anyio.run(app, scope, receive, send)
    assert sent[0]["status"] == 408


# -- requests as bytes -----------------------------------------------------------------------------------


@pytest.fixture
def port(server: HttpServer) -> Iterator[int]:
    """Port of a server of the memory."""
    with open_socket("127.0.0.1", 0) as sock:
        web = create_web_server(build_application(server, host="127.0.0.1"))
        thread = threading.Thread(target=web.run, args=([sock],))
        thread.start()
        yield sock.getsockname()[1]
        web.should_exit = True
        thread.join()


def exchange(port: int, data: bytes, *, ends: bool = False) -> bytes:
    """Return what a server answers, until it closes or has nothing more to say."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(data)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        return read_all(connection)


LIVE = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LINE = b"POST /v1/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        LINE + b"Content-Length: -1\r\n\r\n",
        LINE + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        LINE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        LINE + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + LIVE,
        LINE + b"transfer-encoding: chunked\r\ncontent-length: 40\r\n\r\n0\r\n\r\n" + LIVE,
        b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"
        + LIVE,
    ],
)
def test_what_is_no_request_is_answered_with_a_problem(port: int, data: bytes) -> None:
    head, _, body = exchange(port, data).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert b"connection: close" in head.lower()
    assert json.loads(body)["status"] == 400


def test_a_client_that_ends_its_side_gets_its_answer(port: int, memory: Memory) -> None:
    body = b'{"content": "Prefers tea"}'
    whole = LINE + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    assert exchange(port, whole, ends=True).startswith(b"HTTP/1.1 201 ")
    assert exchange(port, whole[:-5], ends=True) == b""
    assert len(memory.list()) == 1


def test_a_websocket_is_an_ordinary_request(port: int) -> None:
    upgrade = b"Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n"
    sent = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, close\r\n" + upgrade
    answer = exchange(port, sent + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"application/problem+json" in answer


# -- connections -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_too_many_connections_are_refused_in_words_and_admitted_again(tmp_path: Path) -> None:
    with serving_few(tmp_path / "memory") as served:
        request = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        held = [connect(served) for _ in range(20)]
        try:
            with closing(connect(served)) as one_more:
                one_more.sendall(request)
                answer = read_all(one_more)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 5" in answer
            assert b"Too many connections are open" in answer
        finally:
            for each in held:
                each.close()
        assert _ask_until(served, 200)
        assert served.end() == (0, "")


def _ask_until(served: Served, status: int) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if served.ask("GET", "/livez")[0] == status:
            return True
    return False


@pytest.mark.slow
def test_a_connection_is_kept_between_requests(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "memory") as served,
        closing(HTTPConnection("127.0.0.1", served.port, timeout=20)) as client,
    ):
        for pause in (0, 6):
            time.sleep(pause)
            client.request("GET", "/livez")  # opened anew only after an answer that says so
            answer = client.getresponse()
            assert (answer.status, answer.will_close) == (200, False)
            answer.read()


@pytest.mark.slow
def test_a_client_that_sends_its_headers_too_slowly_is_disconnected(tmp_path: Path) -> None:
    with serving_few(tmp_path / "memory") as served:
        silent, slow, second = connect(served), connect(served), connect(served)
        with closing(silent), closing(slow), closing(second):
            slow.sendall(b"GET /livez HTTP/1.1\r\nHost: ")
            second.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert second.recv(12) == b"HTTP/1.1 200"
            second.sendall(b"GET /livez HTTP/1.1\r\n")
            assert read_all(silent) == read_all(slow) == b""
            assert b"HTTP/1.1 200" not in read_all(second)
        assert served.ask("GET", "/readyz")[0] == 200
        assert served.end() == (0, "")


@pytest.mark.slow
def test_thousands_of_idle_connections_leave_the_server_working(tmp_path: Path) -> None:
    with serving(tmp_path / "memory") as served:
        held = []
        try:
            for _ in range(10_000):
                try:
                    held.append(connect(served))
                except OSError:  # this process may open no more files
                    break
            assert len(held) > 900
        finally:
            for each in held:
                each.close()
        assert _ask_until(served, 200)
        assert served.ask("POST", "/v1/records", {"content": "Prefers tea"})[0] == 201
        assert served.end() == (0, "")
