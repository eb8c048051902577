"""Fixture that opens the store under test, shared by all parts of the contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from reverie.stores.protocol import Store

T = TypeVar("T")


class ContractBase:
    """A part of what every store has to do, one behaviour a test.

    Attributes:
        durable: Whether what was committed is still there when the place is opened again.
    """

    durable = True

    def open_store(self, place: Path) -> Store:
        """Open the store under test at a folder, making it when there is none; use `analyse` for it."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """Open an empty store, and check it at the end of the test."""
        store = self.open_store(tmp_path)
        yield store
        assert store.check() == []
        store.close()

    @pytest.fixture
    def another(self, tmp_path: Path) -> Iterator[Store]:
        """Open a second empty store at another place."""
        place = tmp_path / "another"
        place.mkdir()
        store = self.open_store(place)
        yield store
        assert store.check() == []
        store.close()

    def iterate_with_stores(self, folder: Path, cases: Iterable[T]) -> Iterator[tuple[Store, T]]:
        """Yield each case with an empty store, which is checked and closed before the next."""
        for number, case in enumerate(cases):
            place = folder / f"case-{number}"
            place.mkdir()
            store = self.open_store(place)
            yield store, case
            assert store.check() == [], case
            store.close()
