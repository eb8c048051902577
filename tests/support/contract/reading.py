"""Contract tests of `Store.reading`. A part of `StoreContract`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY
from reverie.stores.protocol import Store
from tests.support.contract.factories import (
    NOW,
    add,
    commit,
    make_additions,
    make_change,
    make_entry,
    make_page,
    make_paragraph,
    make_record,
    make_session,
    make_turn,
)
from tests.support.contract.opening import ContractBase


def _run_in_thread(action: Callable[[], object]) -> None:
    """Run an action in another thread, and raise what it raises."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(action).result(timeout=30)


class ReadingContract(ContractBase):
    """Tests for reading one state from a thread."""

    def test_a_block_sees_one_state_whatever_others_write(self, store: Store) -> None:
        old = make_record(1)
        add(store, old, make_page(), make_session(), make_turn(0), cursors={"a": "1"})

        def change() -> None:
            new = make_record(1, content="Changed")
            added = make_additions(make_record(2), make_turn(1), make_paragraph(1), make_page("b.md"))
            commit(store, [*make_change(old, new), *added], cursors={"a": "2"})
            store.put_entry(make_entry(), capacity=None, now=NOW)

        def read() -> tuple[object, ...]:
            return (
                store.sequence(),
                [row.sequence for row in store.journal()],
                store.records([old.id, make_record(2).id]),
                list(store.find(Filter())),
                store.tally("kind", Filter()),
                store.turns(session="chat:1"),
                [overview.turns for overview in store.sessions()],
                store.pages(),
                store.logs(),
                store.passages("record", [1, 2, 3, 4, 5, 6, 7, 8]),
                [store.measure(subject, None) for subject in ("record", "turn", "paragraph")],
                store.measure("record", ["", "user:alice"]),
                store.entries(None, now=NOW),
                store.cursor("a"),
            )

        before = read()
        with store.reading():
            first = store.sequence()
            _run_in_thread(change)
            with store.reading():  # a block in a block is the outer one
                assert read() == before
            assert read() == before
            assert store.sequence() == first
        assert store.sequence() == first + 5
        assert store.records([old.id])[0].content == "Changed"
        assert [page.name for page in store.pages()] == ["MEMORY.md", "b.md"]
        assert store.cursor("a") == "2"
        assert store.measure("record", None).passages == 2

    def test_other_threads_see_changes_during_a_block(self, store: Store) -> None:
        seen: list[int] = []
        with store.reading():
            assert store.sequence() == 0
            _run_in_thread(lambda: add(store, make_record()))
            _run_in_thread(lambda: seen.append(store.sequence()))
            assert store.sequence() == 0
        assert seen == [1]
        assert store.sequence() == 1

    def test_a_block_refuses_changes_of_its_thread(self, store: Store) -> None:
        with store.reading():
            with pytest.raises(RuntimeError, match="reading"):
                add(store, make_record())
            with pytest.raises(RuntimeError, match="reading"):
                store.put_entry(make_entry(), capacity=None, now=NOW)
        assert store.sequence() == 0
        add(store, make_record())
        assert store.sequence() == 1

    def test_a_block_that_raises_is_over(self, store: Store) -> None:
        with pytest.raises(ValueError, match="inside"), store.reading():
            raise ValueError("inside")
        add(store, make_record())
        assert store.sequence() == 1

    def test_the_latest_paragraphs_of_several_logs_come_by_log_and_the_last_first(self, store: Store) -> None:
        logs = ["2026-03-02.md", "2026-03-01.md", HISTORY]
        added = [
            make_paragraph(10 * place + number, page=page, position=float(number))
            for place, page in enumerate(logs)
            for number in (1, 2, 3)
        ]
        add(store, *added)

        def latest(*names: str, limit: int) -> list[tuple[str, float]]:
            return [(one.page, one.position) for one in store.latest_paragraphs(names, limit=limit)]

        assert latest(logs[1], "2025-01-01.md", logs[0], limit=4) == [
            (logs[0], 3.0),
            (logs[0], 2.0),
            (logs[0], 1.0),
            (logs[1], 3.0),
        ]
        assert latest(*logs, limit=100)[:3] == [(HISTORY, 3.0), (HISTORY, 2.0), (HISTORY, 1.0)]
        assert latest(limit=5) == []
        assert latest(*logs, limit=0) == []
