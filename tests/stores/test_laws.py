"""Undoing any changes gives back what was, and the journal alone makes the same again."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from reverie.domain.change import Change
from reverie.domain.errors import Conflict
from reverie.domain.filter import Filter
from reverie.stores.in_memory import InMemoryStore
from reverie.stores.sqlite import SQLiteStore
from tests.profiles import examples
from tests.support.contract.factories import NOW, analyse, make_record, undo_of
from tests.support.contract.state_machine import record_fields

edits_of_records = st.lists(
    st.tuples(st.integers(1, 6), record_fields, st.booleans()), min_size=1, max_size=12
)


def play(store: SQLiteStore | InMemoryStore, plan: list[tuple[int, dict[str, object], bool]]) -> None:
    """Save, change and purge as the plan says, skipping what conflicts."""
    for number, fields, purge in plan:
        there = store.records([make_record(number).id])
        before = there[0] if there else None
        after = None if purge and there else replace(before or make_record(number), **fields)
        with contextlib.suppress(Conflict):
            store.commit([Change(before=before, after=after)], actor="test", at=NOW)


def state(store: SQLiteStore | InMemoryStore) -> dict[str, dict[str, object]]:
    return {one.id: one.to_dict() for one in store.find(Filter(archived=None))}


@given(first=edits_of_records, then=edits_of_records)
@settings(max_examples=examples(15), deadline=None)
def test_undoing_changes_gives_back_what_was(tmp_path_factory, first, then) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("law") / "reverie.db"
    with contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
        play(store, first)
        before, sequence = state(store), store.sequence()
        measure = store.measure("record", None)
        play(store, then)
        store.commit(undo_of(store.journal(after=sequence)), actor="undo", at=NOW)
        assert state(store) == before
        assert store.measure("record", None) == measure


@given(plan=edits_of_records)
@settings(max_examples=examples(15), deadline=None)
def test_replaying_the_journal_gives_the_same(tmp_path_factory, plan) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("law")
    with (
        contextlib.closing(SQLiteStore(folder / "one.db", analyse=analyse)) as store,
        contextlib.closing(SQLiteStore(folder / "two.db", analyse=analyse)) as again,
    ):
        play(store, plan)
        for row in store.journal():
            again.commit(
                [row.edit],
                actor=row.actor,
                operation=row.operation,
                note=row.note,
                reference=row.reference,
                at=row.at,
            )
        assert state(again) == state(store)
        assert [replace(row, batch=0) for row in again.journal()] == [
            replace(row, batch=0) for row in store.journal()
        ]
        assert again.live("record") == store.live("record")
