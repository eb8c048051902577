"""Fixtures of one PostgreSQL server for each version, started when a test first asks for it.

Every day the newest installed version is tested, and in the slow suite the other ones too.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.profiles import THOROUGH
from tests.stores.postgres.server import OWNER, CannotStart, PostgresServer, find_binaries

_SUPPORTED = (18, 15)


def _find_newest() -> int:
    for version in _SUPPORTED:
        try:
            find_binaries(version)
        except CannotStart:
            continue
        return version
    return _SUPPORTED[0]


NEWEST = _find_newest()
_OTHERS = [version for version in _SUPPORTED if version != NEWEST] if THOROUGH else []

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


@pytest.fixture(params=[NEWEST, *(pytest.param(version, marks=pytest.mark.slow) for version in _OTHERS)])
def postgres(request: pytest.FixtureRequest) -> PostgresServer:
    """The server of a supported version."""
    return start_or_skip(request, request.param)


@pytest.fixture
def newest_postgres(request: pytest.FixtureRequest) -> PostgresServer:
    """The server of the newest installed version."""
    return start_or_skip(request, NEWEST)


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """The URL of a memory that nobody has made."""
    return postgres.url(uuid.uuid4().hex)


@pytest.fixture
def empty_database(postgres: PostgresServer) -> Iterator[str]:
    """The name of an empty database."""
    name = f"d{uuid.uuid4().hex}"
    postgres.execute("postgres", f"CREATE DATABASE {name} OWNER {OWNER}")
    yield name
    postgres.execute("postgres", f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(autouse=True)
def _partition_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tables of four partitions every day: 32 take a third of a second to create, and longer to plan for."""
    if THOROUGH:
        return
    from reverie.stores.postgres import schema

    tables = schema.read_tables().replace("0..31", "0..3").replace("MODULUS 32", "MODULUS 4")
    monkeypatch.setattr(schema, "read_tables", lambda: tables)


@pytest.fixture(scope="session", autouse=True)
def _remove_servers() -> Iterator[None]:
    yield
    for server in _started.values():
        if isinstance(server, PostgresServer):
            server.remove()
    _started.clear()
