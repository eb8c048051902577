"""The store in PostgreSQL does what the protocol says, and nothing that the in-memory one would not do.

Every day the contract runs on the newest installed version. In the slow suite it also runs on the other versions and
behind pgbouncer (`test_pgbouncer.py`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar

import pytest

from reverie.stores.postgres import PostgresStore
from reverie.stores.protocol import Store
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.suite import StoreContract, StoreStateMachine, analyse, build_case


class OnServer:
    """Memories of a server, one for each folder that a test opens a store at."""

    server: ClassVar[PostgresServer]

    def open_store(self, place: Path) -> Store:
        memory = hashlib.sha256(str(place).encode()).hexdigest()
        return PostgresStore(self.server.url(memory), analyse=analyse)


class OnEveryServer(OnServer):
    @pytest.fixture(autouse=True)
    def _use_server(self, postgres: PostgresServer) -> None:
        OnServer.server = postgres


class OnNewestServer(OnServer):
    """For a `TestCase`, which takes no fixture with parameters."""

    @pytest.fixture(autouse=True)
    def _use_server(self, newest_postgres: PostgresServer) -> None:
        OnServer.server = newest_postgres


class TestPostgresStore(OnEveryServer, StoreContract):
    pass


class PostgresMachine(OnServer, StoreStateMachine):
    pass


class TestPostgresMachine(OnNewestServer, build_case(PostgresMachine, examples=12, steps=30)):  # type: ignore[misc]
    pass
