"""Contract tests of erasure and of replay from the journal. A part of `StoreContract`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reverie.domain.change import Change, JournalEntry, Value
from reverie.domain.conversation import SessionState
from reverie.domain.errors import Conflict
from reverie.domain.page import HISTORY, Page
from reverie.stores.protocol import Store
from tests.support.contract.factories import (
    add,
    change,
    commit,
    erase,
    make_additions,
    make_change,
    make_page,
    make_paragraph,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
    remove,
    undo_of,
)
from tests.support.contract.opening import ContractBase
from tests.support.contract.replay import is_journal_consistent, read_contents, replay

THINGS: tuple[Value, ...] = (make_record(1), make_session(), make_turn(0), make_page(), make_paragraph(5))


class ErasingContract(ContractBase):
    """Tests for permanent erasure and for replaying the journal."""

    def test_an_erased_thing_is_gone_from_the_journal_too(self, store: Store) -> None:
        one = make_record(1)
        two = replace(one, pinned=True)
        add(store, one, make_record(2), actor="owner", note="said so")
        change(store, one, two, actor="agent", note="because", at=make_time(1))
        before = store.journal()
        rows = erase(store, make_removals(two), actor="owner", at=make_time(2))
        assert rows == [
            JournalEntry(
                sequence=4,
                batch=4,
                at=make_time(2),
                actor="owner",
                operation="forget",
                key=1,
                subject="record",
                edit=None,
            )
        ]
        assert store.records([one.id, 1]) == []
        assert store.measure("record", None).passages == 1
        assert store.journal() == [
            replace(before[0], note="", edit=None),
            before[1],
            replace(before[2], note="", edit=None),
            rows[0],
        ]
        assert [row.sequence for row in store.journal(id=one.id)] == [1, 3, 4], "its numbers are kept"
        assert [row.sequence for row in store.journal(id=one.id, newest_first=True, limit=2)] == [4, 3]

    def test_a_thing_can_lose_its_past_and_stay(self, tmp_path: Path) -> None:
        for store, thing in self.iterate_with_stores(tmp_path, THINGS):
            other = "summary" if hasattr(thing, "summary") else "content"
            later = replace(thing, **{other: "Words that may be known"})  # type: ignore[arg-type]
            there = [one for one in THINGS if one != thing]
            add(store, *THINGS, note="first")
            (row,) = erase(store, make_change(thing, later))
            assert row.edit == Change(before=None, after=later)
            assert row.forgotten
            assert [one.edit for one in store.journal(id=thing.id)] == [None, row.edit]
            (again,) = erase(store, make_change(later, later))
            assert again.edit == row.edit
            assert [one.edit for one in store.journal(id=thing.id)] == [None, None, again.edit]
            assert is_journal_consistent(store)
            back = replace(later, **{other: "Changed once more"})  # type: ignore[arg-type]
            rows = change(store, later, back)
            commit(store, undo_of(rows))
            assert store.journal(newest_first=True)[0].edit == Change(before=back, after=later)
            assert [one.edit for one in store.journal(until=5) if one.edit is not None] == make_additions(
                *there
            )

    def test_a_thing_that_was_removed_long_ago_can_be_erased(self, tmp_path: Path) -> None:
        for store, thing in self.iterate_with_stores(tmp_path, THINGS):
            session_first = (
                make_additions(make_session()) if not isinstance(thing, type(make_session())) else []
            )
            commit(store, [*session_first, *make_additions(thing)], actor="owner", note="first")
            remove(store, thing, actor="owner", note="second")
            add(store, thing, actor="owner", note="third")
            remove(store, thing, actor="owner", note="fourth")
            rows = erase(store, [*make_additions(thing), *make_removals(thing)], actor="owner")
            assert [row.edit for row in rows] == [None, None]
            found = [row for row in store.journal() if row.subject == rows[0].subject]
            assert [(row.actor, row.note, row.edit) for row in found] == [("owner", "", None)] * 6
            assert store.journal(id=thing.id) == ([] if isinstance(thing, SessionState | Page) else found)

    def test_an_erasure_that_does_not_fit_changes_nothing_at_all(self, store: Store) -> None:
        one, two = make_record(1), make_record(2)
        add(store, one, two, make_session(), make_turn(0), make_turn(1), note="first")
        before = store.journal()
        for edits in (
            make_removals(replace(two, pinned=True)),
            make_change(two, replace(two, content=one.content.upper())),
            make_removals(make_turn(0)),
            make_removals(make_session()),
            make_removals(make_record(3)),
        ):
            with pytest.raises(Conflict):
                erase(store, [*make_change(one, one), *edits], tombstones=["mark"])
        assert store.journal() == before
        assert store.tombstones(["mark"]) == set()
        assert store.records([one.id, two.id]) == [one, two]

    def test_many_tombstones_are_kept(self, store: Store) -> None:
        marks = [f"mark {number}" for number in range(1500)]
        erase(store, [], tombstones=marks)
        assert store.tombstones([*marks, "d"]) == set(marks)
        assert store.sequence() == 0, "tombstones are not journalled"

    def test_scrubbing_changes_nothing_that_can_be_read(self, store: Store) -> None:
        add(store, *THINGS, cursors={"a": "1"}, counts={"n": 2})
        erase(store, make_change(make_record(1), make_record(1)), tombstones=["mark"])
        before, journal = read_contents(store), store.journal()
        assert store.scrub()
        assert (read_contents(store), store.journal()) == (before, journal)
        assert (store.cursor("a"), store.count("n"), store.tombstones(["mark"])) == ("1", 2, {"mark"})
        (row,) = add(store, make_record(2))
        assert row.sequence == 7
        assert store.scrub()

    # -- replaying -----------------------------------------------------------------------------------

    def test_a_journal_that_has_forgotten_gives_the_same_values_under_other_numbers(
        self, store: Store, another: Store
    ) -> None:
        one, kept = make_record(1), make_record(2)
        add(store, one, kept, make_page(), make_paragraph(1), actor="owner", note="first")
        change(store, make_page(), make_page(content="New"), actor="owner", at=make_time(1))
        erase(
            store,
            [*make_removals(one), *make_change(make_page(content="New"), make_page(content="New"))],
            actor="owner",
            at=make_time(2),
        )
        replay(store.journal(), another)
        assert another.records([kept.id]) == [kept]
        assert another.records([one.id]) == []
        assert another.pages() == [make_page(content="New")]
        assert another.paragraphs(page=HISTORY) == [make_paragraph(1)]
        assert [row.key for row in another.journal()] == [1, 2, 3]
        assert is_journal_consistent(store)
        assert is_journal_consistent(another)

    def test_a_change_that_rests_on_a_forgotten_one_cannot_be_replayed(
        self, store: Store, another: Store
    ) -> None:
        for value in (make_session(), make_turn(0), make_turn(1)):
            add(store, value)
        erase(store, make_change(make_turn(0), make_turn(0, content="…")))
        with pytest.raises(Conflict, match="none at position 0"):
            replay(store.journal(), another)
        assert is_journal_consistent(store)
