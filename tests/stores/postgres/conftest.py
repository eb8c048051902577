"""Fixtures of one PostgreSQL server for each version, started when a test first asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.stores.postgres.server import CannotStart, PostgresServer

_started: dict[int, PostgresServer | CannotStart] = {}


def start_or_skip(request: pytest.FixtureRequest, version: int) -> PostgresServer:
    """Return the server of a version; skip where none can be started, but fail in the slow suite of CI."""
    pytest.importorskip("psycopg_pool", reason="psycopg is not installed: run `make setup`")
    if version not in _started:
        try:
            _started[version] = PostgresServer(version)
        except CannotStart as error:
            _started[version] = error
    server = _started[version]
    if isinstance(server, CannotStart):
        if os.environ.get("CI") and request.node.get_closest_marker("slow"):
            pytest.fail(str(server))
        pytest.skip(str(server))
    return server


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> PostgresServer:
    """PostgreSQL 18."""
    return start_or_skip(request, 18)


@pytest.fixture
def postgres_15(request: pytest.FixtureRequest) -> PostgresServer:
    """PostgreSQL 15, the oldest that is supported."""
    return start_or_skip(request, 15)


@pytest.fixture(scope="session", autouse=True)
def _remove_servers() -> Iterator[None]:
    yield
    for server in _started.values():
        if isinstance(server, PostgresServer):
            server.remove()
    _started.clear()
