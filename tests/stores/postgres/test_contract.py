"""The store in PostgreSQL does what the protocol says, and nothing that the in-memory one would not do."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings

from reverie.stores.postgres import PostgresStore
from reverie.stores.protocol import Store
from tests.profiles import examples as scale_examples
from tests.stores.postgres.server import PostgresServer
from tests.support.contract.suite import StoreContract, StoreStateMachine, analyse


class OnServer:
    """Memories of a server, one for each folder that a test opens a store at."""

    server: ClassVar[PostgresServer]
    options: ClassVar[str] = ""

    def open_store(self, place: Path) -> Store:
        memory = hashlib.sha256(str(place).encode()).hexdigest()
        return PostgresStore(self.server.url(memory) + self.options, analyse=analyse)


class On18(OnServer):
    @pytest.fixture(autouse=True)
    def _use_server(self, postgres: PostgresServer) -> None:
        OnServer.server = postgres


class On15(OnServer):
    @pytest.fixture(autouse=True)
    def _use_server(self, postgres_15: PostgresServer) -> None:
        OnServer.server = postgres_15


class TestPostgresStore(On18, StoreContract):
    pass


@pytest.mark.slow
class TestPostgres15Store(On15, StoreContract):
    pass


@pytest.mark.slow
class TestPostgresStoreWithPostings(On18, StoreContract):
    options = "&index=tables"


class PostgresMachine(OnServer, StoreStateMachine):
    pass


def _bound(machine: type[StoreStateMachine], *, examples: int, steps: int) -> type:
    case = machine.TestCase
    case.settings = settings(
        max_examples=scale_examples(examples),
        stateful_step_count=steps,
        deadline=None,
    )
    return case


class PostingsMachine(PostgresMachine):
    options = "&index=tables"


@pytest.mark.slow
class TestPostgresMachine(On18, _bound(PostgresMachine, examples=40, steps=30)):  # type: ignore[misc]
    pass


@pytest.mark.slow
class TestPostingsMachine(On18, _bound(PostingsMachine, examples=20, steps=30)):  # type: ignore[misc]
    pass
