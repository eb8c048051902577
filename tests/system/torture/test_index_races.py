"""Two processes that work on the index at once, at the worst moment: its statistics stay exact."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory, Record
from reverie.domain.change import Change
from reverie.domain.passage import SEARCHABLE
from reverie.search.index import tantivy_index
from reverie.search.index.tantivy_index import TantivyIndex
from tests.factories import get_search_index

NOW = datetime(2040, 1, 1, tzinfo=UTC)
FRUIT = ("apple", "pear", "quince", "plum", "fig")


def memory(folder: Path) -> Memory:
    return Memory.open(folder, clock=lambda: NOW)


def texts(first: int, end: int) -> list[dict[str, str]]:
    return [{"content": f"Crate {n} holds {FRUIT[n % 5]} number {n * 7}"} for n in range(first, end)]


def scores(asked: Memory) -> list[list[float]]:
    return [[hit.score for hit in asked.search(question)] for question in (*FRUIT, "crate 650", "number")]


def just_before_the_writer(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Let `act` happen once, when somebody is about to take the writer's lock."""
    original = TantivyIndex._open_writer
    waiting = [act]

    def writer(self: TantivyIndex) -> Any:
        if waiting:
            waiting.pop()()
        return original(self)

    monkeypatch.setattr(tantivy_index.TantivyIndex, "_open_writer", writer)


def test_two_that_fold_at_once_count_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = memory(tmp_path / "m"), memory(tmp_path / "m")
    one.save_many(texts(0, 600))
    get_search_index(one).fold()
    one.save_many(texts(600, 700))
    assert scores(one) == scores(other)

    def meanwhile() -> None:
        other.save_many(texts(700, 760))
        assert get_search_index(other).fold()

    just_before_the_writer(monkeypatch, meanwhile)
    get_search_index(one).fold()
    one.search("crate")
    assert one._index.frequencies("record", ["crate"], None) == {"crate": 760}
    one.close()
    other.close()


def test_two_that_build_at_once_count_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with memory(tmp_path / "m") as first:
        first.save_many(texts(0, 2_100))
        expected = scores(first)
    shutil.rmtree(tmp_path / "m" / "index", ignore_errors=True)
    one, other = memory(tmp_path / "m"), memory(tmp_path / "m")
    just_before_the_writer(monkeypatch, lambda: other.search("crate"))
    assert scores(one) == expected
    assert scores(other) == expected
    assert one.admin.stats().index.committed == 2_100
    one.close()
    other.close()


def test_what_changes_during_a_build_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with memory(tmp_path / "m") as first:
        first.save_many(texts(0, 2_100))
        gone = first.save("A lone crate with a lute").record
    shutil.rmtree(tmp_path / "m" / "index", ignore_errors=True)
    late = replace(gone, id="aaaaaaaaaaaa", content="A late crate with a zither and a harp")

    def archived(record: Record) -> Change:
        return Change(before=record, after=replace(record, archived_at=NOW, archive_reason="sold"))

    with memory(tmp_path / "m") as one, memory(tmp_path / "m") as other:
        store = get_search_index(one)._store
        live, asked = store.live, list[str]()

        def meanwhile(subject: Any, **options: Any) -> Any:
            if not asked:
                other._store.commit([Change(before=None, after=late), archived(gone)], actor="other", at=NOW)
            asked.append(subject)
            found = live(subject, **options)
            if subject == SEARCHABLE[-1] and not found:
                other._store.commit([archived(late)], actor="other", at=NOW)
            return found

        monkeypatch.setattr(store, "live", meanwhile)
        one.search("zither")
        assert one._index.frequencies("record", ["lute", "zither"], None) == {"lute": 0, "zither": 0}


def test_an_index_lost_before_anything_was_saved_does_not_hold_up_closing(tmp_path: Path) -> None:
    opened = memory(tmp_path / "m")
    opened.search("crate")
    shutil.rmtree(tmp_path / "m" / "index", ignore_errors=True)
    opened.search("crate")
    closing = threading.Thread(target=opened.close, daemon=True)
    closing.start()
    closing.join(timeout=20)
    assert not closing.is_alive()
