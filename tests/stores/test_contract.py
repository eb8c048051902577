"""Every store does what the protocol says, and nothing that the model would not do."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings

from reverie.stores.in_memory import InMemoryStore
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore
from tests.profiles import examples as scale_examples
from tests.support.contract.suite import StoreContract, StoreStateMachine, analyse


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


def _with(machine: type[StoreStateMachine], *, examples: int, steps: int) -> type:
    case = machine.TestCase
    case.settings = settings(
        max_examples=scale_examples(examples),
        stateful_step_count=steps,
        deadline=None,
    )
    return case


TestInMemoryMachine = _with(InMemoryMachine, examples=30, steps=30)
TestSQLiteMachine = _with(SQLiteMachine, examples=120, steps=40)
