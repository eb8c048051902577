"""Limits of the server: requests a minute, sizes, slow and broken clients, connections."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from reverie import Memory
from reverie.interfaces.http import server as server_module
from reverie.interfaces.http.limits import RateLimit
from reverie.interfaces.http.problems import Problem
from reverie.interfaces.http.serve import build_application
from reverie.interfaces.http.server import HttpServer
from reverie.interfaces.web import LARGEST_BODY
from tests.interfaces.conftest import run_cli
from tests.interfaces.http.conftest import serve_here
from tests.interfaces.http.test_http_process import Served, serving

SERVER = """
import sys
from reverie.interfaces import web
web.MOST_CONNECTIONS = 20
web.HEADERS_S = 0.5
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


# -- rate ------------------------------------------------------------------------------------------------


def test_a_token_that_asks_too_often_is_told_when_to_ask_again(memory: Memory) -> None:
    server = HttpServer(memory, limit=RateLimit(3))
    tokens = [server.tokens.create(name, rights=["read", "write"], scope="user:a")[1] for name in "ab"]
    with serve_here(server) as client:

        def ask(token: str) -> Any:
            return client.get("/v1/tags", headers={"Authorization": f"Bearer {token}"})

        answers = [ask(tokens[0]) for _ in range(4)]
        assert [each.status_code for each in answers] == [200, 200, 200, 429]
        assert answers[0].headers["ratelimit"] == '"token";r=2;t=0'
        refused = answers[-1]
        assert refused.json()["type"] == "urn:reverie:problem:too-many-requests"
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert refused.headers["ratelimit-policy"] == '"token";q=3;w=60'
        assert ask(tokens[1]).status_code == 200  # each token has its own
        assert client.get("/livez").status_code == 200
        mcp = client.post("/mcp", json={}, headers={"Authorization": f"Bearer {tokens[0]}"})
        assert mcp.status_code == 429


def test_requests_come_back_evenly() -> None:
    limit = RateLimit(60)
    for _ in range(60):
        limit.take("a", now=0.0)
    with pytest.raises(Problem) as refused:
        limit.take("a", now=0.0)
    assert refused.value.headers["Retry-After"] == "1"
    limit.take("a", now=1.0)
    with pytest.raises(Problem):
        limit.take("a", now=1.5)
    for _ in range(60):
        limit.take("a", now=1_000.0)
    with pytest.raises(Problem):
        limit.take("a", now=1_000.0)


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
