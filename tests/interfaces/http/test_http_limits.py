"""Limits of the server: sizes, slow and broken clients, connections; whatever is sent, no internal error."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
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

JSON = {"Content-Type": "application/json"}
CHECKS = "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance"
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
    with suppress(ConnectionResetError):
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


# -- bodies and addresses --------------------------------------------------------------------------------


def test_a_body_that_is_too_large_or_no_text_is_refused_and_nothing_stored(client: TestClient) -> None:
    body = b'{"content": "' + b"x" * LARGEST_BODY + b'"}'
    assert client.post("/v1/records", content=body, headers=JSON).status_code == 413
    assert client.post("/v1/records", content=iter([body[:9], body[9:]]), headers=JSON).status_code == 413
    for text in (b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\\ud800", b"\xf0\x9f\x92"):
        answer = client.post("/v1/records", content=b'{"content": "tea %s"}' % text, headers=JSON)
        assert answer.status_code in (400, 422)
        assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/v1/records").json()["items"] == []
    for path in ("/v1/records/%FF", "/v1/records?tags=%FF", "/v1/sessions/%ED%A0%80/turns"):
        assert client.get(path).status_code < 500
    for path in ("/v1/sessions/x/packs/", "/why/x/"):
        assert client.get(path + "9" * 5_000).status_code == 404


def test_a_body_that_does_not_arrive_is_refused(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BODY_S", 0.05)
    pieces = [{"type": "http.request", "body": b'{"content"', "more_body": True}]
    sent: list[Any] = []

    async def receive() -> Any:
        if not pieces:
            await anyio.sleep(60)
        return pieces.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": "/v1/records", "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
        "raw_path": b"/v1/records", "root_path": "", "scheme": "http", "server": ("127.0.0.1", 80),
    }  # fmt: skip
    anyio.run(build_application(server, host="127.0.0.1"), scope, receive, send)
    assert sent[0]["status"] == 408


@pytest.mark.slow
def test_schema_driven_requests_get_answers_of_their_schema(tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    with serving(tmp_path / "memory") as served:
        url = f"http://127.0.0.1:{served.port}/openapi.json"
        command = [sys.executable, "-m", "schemathesis.cli", "run", url, "--checks", CHECKS]
        bounds = ["--exclude-path", "/v1/events", "--phases", "coverage,fuzzing", "--max-examples", "10"]
        done = subprocess.run(
            [*command, *bounds, "--seed", "1"], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout


# -- requests as bytes -----------------------------------------------------------------------------------


def test_what_is_no_request_is_refused_and_the_connection_closed(server: HttpServer) -> None:
    live = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    line = b"POST /v1/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with open_socket("127.0.0.1", 0) as sock:
        web = create_web_server(build_application(server, host="127.0.0.1"))
        thread = threading.Thread(target=web.run, args=([sock],))
        thread.start()
        try:
            for data in (
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS
                b"GET /livez HTTP/1.1\r\n\r\n",
                b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
                b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\x00b\r\n\r\n",
                b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                line + b"Content-Length: -1\r\n\r\n",
                line + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
                line + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
                line + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + live,
                line + b"transfer-encoding: chunked\r\ncontent-length: 40\r\n\r\n0\r\n\r\n" + live,
            ):
                with socket.create_connection(sock.getsockname(), timeout=10) as connection:
                    connection.sendall(data)
                    head, _, _ = read_all(connection).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 400 "), data
                assert b"connection: close" in head.lower()
        finally:
            web.should_exit = True
            thread.join()


# -- connections -----------------------------------------------------------------------------------------


def _ask_until(served: Served, status: int) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if served.ask("GET", "/readyz")[0] == status:
            return True
    return False


@pytest.mark.slow
def test_too_many_connections_and_slow_headers_are_refused(tmp_path: Path) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with serving_few(tmp_path / "memory") as served, ExitStack() as held:
        silent, slow, *_ = (held.enter_context(closing(connect(served))) for _ in range(20))
        with closing(connect(served)) as one_more:
            one_more.sendall(request)
            assert read_all(one_more).startswith(b"HTTP/1.1 503 ")
        slow.sendall(request[:20])
        assert read_all(silent) == read_all(slow) == b""
        assert _ask_until(served, 200)
        with closing(connect(served)) as second:
            second.sendall(request.replace(b"Connection: close\r\n", b""))
            assert second.recv(12) == b"HTTP/1.1 200"
            second.sendall(request[:20])
            assert b"HTTP/1.1 200" not in read_all(second)
        assert served.end()[0] == 0
