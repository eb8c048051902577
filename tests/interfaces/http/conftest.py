"""A server of a memory in this process, and its client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from reverie import Memory, Settings
from reverie.interfaces.http.application import build_application
from reverie.interfaces.http.server import HttpServer

BASE = "http://127.0.0.1"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory", settings=Settings(files="none")) as memory:
        yield memory


@pytest.fixture
def server(memory: Memory) -> HttpServer:
    return HttpServer(memory)


@pytest.fixture
def client(server: HttpServer) -> Iterator[TestClient]:
    with serve_here(server) as client:
        yield client


def serve_here(server: HttpServer) -> TestClient:
    """Return a client of a server in this process; use it in a `with` statement."""
    app = build_application(server, host="127.0.0.1")
    return TestClient(app, base_url=BASE, raise_server_exceptions=False)


def open_client(memory: Memory) -> TestClient:
    """Return a client of another server of the same memory."""
    return serve_here(HttpServer(memory))
