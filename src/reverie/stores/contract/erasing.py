"""Can a store forget, and does its journal make it anew? A part of `StoreContract`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reverie.domain.change import Change, JournalEntry, Value, undo_of
from reverie.domain.conversation import SessionState
from reverie.domain.errors import Conflict
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY
from reverie.stores.contract.factories import (
    NOW,
    added,
    at,
    changed,
    make_record,
    page,
    paragraph,
    removed,
    session,
    turn,
)
from reverie.stores.contract.opening import ContractBase
from reverie.stores.contract.replay import contents, replay, unbroken
from reverie.stores.protocol import Store

THINGS: tuple[Value, ...] = (make_record(1), session(), turn(0), page(), paragraph(5))


def told(rows: list[JournalEntry]) -> list[tuple[str, str, Change | None]]:
    """Actor, reason and edit of each row."""
    return [(row.actor, row.reason, row.edit) for row in rows]


class ErasingContract(ContractBase):
    """What every store has to do to forget something for good, and what its journal is good for."""

    def test_an_erased_thing_is_gone_from_the_journal_too(self, store: Store) -> None:
        one = make_record(1)
        two = replace(one, pinned=True)
        store.commit(added(one, make_record(2)), actor="owner", reason="said so", at=NOW)
        store.commit(changed(one, two), actor="agent", reason="because", at=at(1))
        before = store.journal()
        rows = store.erase(removed(two), actor="owner", at=at(2))
        assert rows == [
            JournalEntry(
                sequence=4, batch=4, at=at(2), actor="owner", reason="", key=1, subject="record", edit=None
            )
        ]
        assert store.records([one.id, 1]) == []
        assert store.measure("record", None).passages == 1
        assert store.journal() == [
            replace(before[0], reason="", edit=None),
            before[1],
            replace(before[2], reason="", edit=None),
            rows[0],
        ]
        assert [row.sequence for row in store.journal(id=one.id)] == [1, 3, 4], "its numbers are kept"
        assert [row.sequence for row in store.journal(id=one.id, newest_first=True, limit=2)] == [4, 3]

    @pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
    def test_a_thing_can_lose_its_past_and_stay(self, store: Store, thing: Value) -> None:
        other = "summary" if hasattr(thing, "summary") else "content"
        later = replace(thing, **{other: "Words that may be known"})  # type: ignore[arg-type]
        there = [one for one in THINGS if one != thing]
        store.commit(added(*THINGS), actor="owner", reason="first", at=NOW)
        (row,) = store.erase(changed(thing, later), actor="owner", at=NOW)
        assert row.edit == Change(before=None, after=later)
        assert row.forgotten
        assert [one.edit for one in store.journal(id=thing.id)] == [None, row.edit]
        (again,) = store.erase(changed(later, later), actor="owner", at=NOW)
        assert again.edit == row.edit
        assert [one.edit for one in store.journal(id=thing.id)] == [None, None, again.edit]
        assert unbroken(store)
        back = replace(later, **{other: "Changed once more"})  # type: ignore[arg-type]
        rows = store.commit(changed(later, back), actor="owner", at=NOW)
        store.commit(undo_of(rows), actor="owner", at=NOW)
        assert store.journal(newest_first=True)[0].edit == Change(before=back, after=later)
        assert [one.edit for one in store.journal(until=5) if one.edit is not None] == added(*there)

    @pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
    def test_a_thing_that_was_removed_long_ago_can_be_erased(self, store: Store, thing: Value) -> None:
        session_first = added(session()) if not isinstance(thing, type(session())) else []
        store.commit([*session_first, *added(thing)], actor="owner", reason="first", at=NOW)
        store.commit(removed(thing), actor="owner", reason="second", at=NOW)
        store.commit(added(thing), actor="owner", reason="third", at=NOW)
        store.commit(removed(thing), actor="owner", reason="fourth", at=NOW)
        rows = store.erase([*added(thing), *removed(thing)], actor="owner", at=NOW)
        assert [row.edit for row in rows] == [None, None]
        found = [row for row in store.journal() if row.subject == rows[0].subject]
        assert told(found) == [("owner", "", None)] * 6
        assert store.journal(id=thing.id) == ([] if isinstance(thing, SessionState) else found)

    def test_erasing_one_thing_leaves_others_of_the_same_id_alone(self, store: Store) -> None:
        name = make_record(1).id
        things = (make_record(1), session(name), turn(0, name, id=name), paragraph(1))
        store.commit(added(*things), actor="owner", reason="first", at=NOW)
        store.commit(removed(things[0], things[3]), actor="owner", reason="second", at=NOW)
        store.erase([*added(things[0]), *removed(things[0])], actor="owner", at=NOW)
        left = [row for row in store.journal(id=name) if row.edit is not None]
        assert [row.edit for row in left] == [*added(*things[1:]), *removed(things[3])]
        assert [row.reason for row in left] == ["first"] * 3 + ["second"]

    def test_an_erasure_that_does_not_fit_changes_nothing_at_all(self, store: Store) -> None:
        one, two = make_record(1), make_record(2)
        store.commit(added(one, two, session(), turn(0), turn(1)), actor="owner", reason="first", at=NOW)
        before = store.journal()
        for edits in (
            removed(replace(two, pinned=True)),
            changed(two, replace(two, content=one.content.upper())),
            removed(turn(0)),
            removed(session()),
            removed(make_record(3)),
        ):
            with pytest.raises(Conflict):
                store.erase([*changed(one, one), *edits], actor="owner", at=NOW, tombstones=["mark"])
        assert store.journal() == before
        assert store.tombstones(["mark"]) == set()
        assert store.records([one.id, two.id]) == [one, two]

    def test_a_conversation_can_be_erased_whole(self, store: Store) -> None:
        said = [turn(position) for position in range(40)]
        store.commit(added(session(), *said, session("chat:2"), turn(0, "chat:2")), actor="owner", at=NOW)
        rows = store.erase(removed(*said, session()), actor="owner", at=NOW)
        assert all(row.edit is None for row in rows)
        assert store.sessions()[0].state == session("chat:2")
        assert list(store.scan_turns(Filter())) == [turn(0, "chat:2")]
        assert store.measure("turn", None).passages == 1
        assert [row.key for row in store.journal() if row.edit is not None] == [42, 43]
        assert store.journal(id=session().id) == [], "its name is gone too"

    def test_several_edits_of_one_thing_leave_the_last(self, store: Store) -> None:
        one = page()
        two, three = replace(one, content="Two"), replace(one, content="Three")
        store.commit(added(one), actor="owner", reason="first", at=NOW)
        rows = store.erase([*changed(one, two), *changed(two, three)], actor="owner", at=NOW)
        assert [row.edit for row in rows] == [None, Change(before=None, after=three)]
        assert store.journal(after=1) == rows
        rows = store.erase([*removed(three), *added(one)], actor="owner", at=NOW)
        assert [(row.key, row.edit) for row in rows] == [(1, None), (5, Change(before=None, after=one))]
        assert [row.edit for row in store.journal()] == [None, None, None, None, *added(one)]
        assert store.pages() == [one]

    def test_tombstones_are_kept_and_only_once(self, store: Store) -> None:
        assert store.tombstones(["a"]) == set()
        store.erase([], actor="owner", at=NOW, tombstones=["a", "b"])
        store.commit(added(make_record(1)), actor="owner", at=NOW)
        store.erase(removed(make_record(1)), actor="owner", at=NOW, tombstones=["b", "c", "c"])
        assert store.tombstones(["a", "c", "d", "a"]) == {"a", "c"}
        assert store.tombstones([]) == set()
        marks = [f"mark {number}" for number in range(1500)]
        store.erase([], actor="owner", at=NOW, tombstones=marks)
        assert store.tombstones([*marks, "d"]) == set(marks)
        assert store.sequence() == 2, "tombstones are not journalled"

    def test_since_sees_what_was_erased(self, store: Store) -> None:
        store.commit(added(make_record(1)), actor="owner", at=NOW)
        store.erase(removed(make_record(1)), actor="owner", at=NOW)
        with pytest.raises(Conflict, match="search again"):
            store.commit(added(make_record(2)), actor="owner", at=NOW, since=1)

    def test_scrubbing_changes_nothing_that_can_be_read(self, store: Store) -> None:
        store.commit(added(*THINGS), actor="owner", at=NOW, cursors={"a": "1"}, counts={"n": 2})
        store.erase(changed(make_record(1), make_record(1)), actor="owner", at=NOW, tombstones=["mark"])
        before, journal = contents(store), store.journal()
        assert store.scrub()
        assert (contents(store), store.journal()) == (before, journal)
        assert (store.cursor("a"), store.count("n"), store.tombstones(["mark"])) == ("1", 2, {"mark"})
        (row,) = store.commit(added(make_record(2)), actor="owner", at=NOW)
        assert row.sequence == 7
        assert store.scrub()

    def test_what_was_erased_stays_so_when_opened_again(self, tmp_path: Path) -> None:
        if not self.durable:
            pytest.skip("this store keeps nothing")
        store = self.open_store(tmp_path)
        store.commit(added(*THINGS), actor="owner", at=NOW)
        store.erase(removed(make_record(1), paragraph(5)), actor="owner", at=NOW, tombstones=["mark"])
        before, journal = contents(store), store.journal()
        assert store.scrub()
        store.close()
        again = self.open_store(tmp_path)
        assert (contents(again), again.journal()) == (before, journal)
        assert again.tombstones(["mark"]) == {"mark"}
        assert [row.edit for row in again.journal(id=paragraph(5).id)] == [None] * 2
        assert again.check() == []
        again.close()

    # -- replaying -----------------------------------------------------------------------------------

    def test_replaying_the_journal_gives_the_same_numbers_keys_and_values(
        self, store: Store, another: Store
    ) -> None:
        one = make_record(1)
        store.commit(added(*THINGS), actor="owner", reason="first", at=NOW)
        store.commit(changed(one, replace(one, pinned=True)), actor="agent", at=at(1))
        store.commit(
            [*removed(replace(one, pinned=True)), *added(turn(1), paragraph(2, page="2026-03-01.md"))],
            actor="dream",
            reason="tidy",
            at=at(2),
        )
        store.commit(added(one), actor="owner", at=at(3))
        store.commit(
            [*removed(page()), *changed(paragraph(5), paragraph(5, position=7))], actor="owner", at=at(4)
        )
        replay(store.journal(), another)
        assert another.journal() == store.journal()
        assert contents(another) == contents(store)
        assert unbroken(store)

    def test_a_journal_that_has_forgotten_gives_the_same_values_under_other_numbers(
        self, store: Store, another: Store
    ) -> None:
        one, kept = make_record(1), make_record(2)
        store.commit(added(one, kept, page(), paragraph(1)), actor="owner", reason="first", at=NOW)
        store.commit(changed(page(), page(content="New")), actor="owner", at=at(1))
        store.erase(
            [*removed(one), *changed(page(content="New"), page(content="New"))], actor="owner", at=at(2)
        )
        replay(store.journal(), another)
        assert another.records([kept.id]) == [kept]
        assert another.records([one.id]) == []
        assert another.pages() == [page(content="New")]
        assert another.paragraphs(page=HISTORY) == [paragraph(1)]
        assert [row.key for row in another.journal()] == [1, 2, 3]
        assert unbroken(store)
        assert unbroken(another)

    def test_a_change_that_rests_on_a_forgotten_one_cannot_be_replayed(
        self, store: Store, another: Store
    ) -> None:
        for value in (session(), turn(0), turn(1)):
            store.commit(added(value), actor="owner", at=NOW)
        store.erase(changed(turn(0), turn(0, content="…")), actor="owner", at=NOW)
        with pytest.raises(Conflict, match="none at position 0"):
            replay(store.journal(), another)
        assert unbroken(store)
