"""Contract tests of sessions and their turns. A part of `StoreContract`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.filter import Filter
from reverie.domain.passage import CollectionStats
from reverie.stores.protocol import Store
from tests.support.contract.factories import (
    add,
    change,
    commit,
    make_additions,
    make_change,
    make_removals,
    make_session,
    make_time,
    make_turn,
    remove,
    undo_of,
)
from tests.support.contract.opening import ContractBase


class ConversationsContract(ContractBase):
    """Tests for conversations."""

    def test_turns_of_a_session_can_be_cut(self, store: Store) -> None:
        turns = [make_turn(position) for position in range(6)]
        add(store, make_session(), *turns, make_session("chat:2"), make_turn(0, "chat:2"))
        assert store.turns(session="chat:1") == turns
        assert store.turns(session="chat:1", start=2, stop=4) == turns[2:4]
        assert store.turns(session="chat:1", start=-2) == turns[-2:]
        assert store.turns(session="chat:1", start=-99, stop=99) == turns
        assert store.turns(session="chat:1", start=6) == []
        assert store.turns([turns[3].id, 2, "f" * 12, 99, 1]) == [turns[3], turns[0]]
        assert store.turns([]) == []
        assert store.turns(session="chat:3") == []
        with pytest.raises(InvalidInput):
            store.turns()

    def test_positions_leave_no_gap(self, store: Store) -> None:
        add(store, make_session(), make_turn(0), make_turn(1))
        duplicate = make_turn(1, id="e" * 12)
        for edits in (
            make_additions(make_turn(3)),
            make_additions(make_turn(2), make_turn(4)),
            make_additions(duplicate),
            make_removals(make_turn(0)),
            make_additions(make_turn(0, "chat:9")),
            make_additions(make_session("chat:2"), make_turn(1, "chat:2")),
            make_change(make_turn(1), make_turn(2, id=make_turn(1).id)),
        ):
            with pytest.raises(Conflict, match="chat:"):
                commit(store, edits)
        assert store.turns(session="chat:1") == [make_turn(0), make_turn(1)]
        commit(
            store,
            [
                *make_removals(make_turn(0), make_turn(1)),
                *make_additions(make_turn(1), make_turn(2), make_turn(0)),
            ],
        )
        assert store.turns(session="chat:1") == [make_turn(0), make_turn(1), make_turn(2)]

    def test_a_turn_can_be_changed_in_its_place(self, store: Store) -> None:
        later = replace(make_turn(0), content="Other words entirely", speaker="Bo")
        add(store, make_session(), make_turn(0), make_turn(1))
        change(store, make_turn(0), later)
        assert store.turns(session="chat:1") == [later, make_turn(1)]
        assert store.measure("turn", None) == CollectionStats(
            passages=2, tokens=7, speakers=frozenset({"bo", "user"})
        )

    def test_a_session_goes_only_after_its_turns(self, store: Store) -> None:
        add(store, make_session(), make_turn(0), make_turn(1))
        with pytest.raises(Conflict, match="still has turns"):
            remove(store, make_session())
        with pytest.raises(Conflict, match="create it first"):
            commit(
                store,
                [*make_removals(make_turn(0), make_turn(1), make_session()), *make_additions(make_turn(0))],
            )
        rows = remove(store, make_turn(0), make_turn(1), make_session())
        assert store.sessions() == []
        assert list(store.scan_turns(Filter())) == []
        assert store.measure("turn", None) == CollectionStats(passages=0, tokens=0)
        commit(store, undo_of(rows))
        assert store.turns(session="chat:1") == [make_turn(0), make_turn(1)]

    def test_sessions_come_latest_active_first(self, store: Store) -> None:
        quiet, older, newer = (
            make_session("quiet", scope="b", created_at=make_time(5)),
            make_session("older"),
            make_session("newer"),
        )
        add(
            store,
            newer,
            older,
            quiet,
            make_turn(0, "older", at=make_time(3)),
            make_turn(0, "newer", at=make_time(8)),
            make_turn(1, "newer", at=make_time(4)),
        )
        found = [(one.state, one.turns, one.last_at) for one in store.sessions()]
        assert found == [(quiet, 0, make_time(5)), (newer, 2, make_time(4)), (older, 1, make_time(3))]
        assert [one.state for one in store.sessions(limit=1)] == [quiet]
        assert [one.state for one in store.sessions(scopes=[""])] == [newer, older]
        assert store.sessions(scopes=[]) == []

    def test_scan_turns_gives_what_the_filter_lets_through_newest_first(self, store: Store) -> None:
        turns = [
            make_turn(0),
            make_turn(1, role="assistant"),
            make_turn(2),
            make_turn(0, "other", scope="a", at=make_time(1)),
        ]
        add(store, make_session(), make_session("other", scope="a"), *turns)
        cases: list[tuple[Filter, list[int]]] = [
            (Filter(), [2, 3, 1, 0]),
            (Filter(scopes=("a",)), [3]),
            (Filter(sessions=("chat:1",)), [2, 1, 0]),
            (Filter(sessions=("chat:1", "other", "none")), [2, 3, 1, 0]),
            (Filter(roles=("assistant",)), [1]),
            (Filter(created_after=make_time(1), created_before=make_time(2)), [3, 1]),
            (Filter(categories=("a",)), []),
            (Filter(kinds=("fact",)), []),
            (Filter(pinned=False), []),
        ]
        for wanted, picked in cases:
            assert list(store.scan_turns(wanted)) == [turns[number] for number in picked], wanted
