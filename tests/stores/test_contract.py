"""Every store does what the protocol says, and nothing that the model would not do."""

from __future__ import annotations

from pathlib import Path

from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore
from tests.support.contract.suite import StoreContract, StoreStateMachine, analyse, build_case


class TestInMemoryStore(StoreContract):
    durable = False

    def open_store(self, place: Path) -> Store:
        return InMemoryStore(analyse=analyse)


class TestSQLiteStore(StoreContract):
    def open_store(self, place: Path) -> Store:
        return SQLiteStore(place / "reverie.db", analyse=analyse)


class InMemoryMachine(StoreStateMachine):
    durable = False

    def open_store(self, place: Path) -> Store:
        return InMemoryStore(analyse=analyse)


class SQLiteMachine(StoreStateMachine):
    def open_store(self, place: Path) -> Store:
        return SQLiteStore(place / "reverie.db", analyse=analyse)


TestInMemoryMachine = build_case(InMemoryMachine, examples=30, steps=30)
TestSQLiteMachine = build_case(SQLiteMachine, examples=120, steps=40)
