"""Contract tests for stores: inherit from `StoreContract` and `StoreStateMachine`, and run pytest.

    class TestMyStore(StoreContract):
        def open_store(self, place: Path) -> Store:
            return MyStore(place / "my.store", analyse=analyse)

    class MyMachine(StoreStateMachine):
        def open_store(self, place: Path) -> Store:
            return MyStore(place / "my.store", analyse=analyse)

    TestMyMachine = MyMachine.TestCase

Needs pytest and hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from reverie.domain.conversation import ToolCall
from reverie.domain.errors import Conflict, InvalidInput, StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.record import Record
from reverie.stores.protocol import Store
from tests.support.contract.contents import ContentsContract
from tests.support.contract.erasing import ErasingContract
from tests.support.contract.factories import (
    NOW,
    add,
    analyse,
    change,
    commit,
    make_additions,
    make_change,
    make_entry,
    make_paragraph,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)
from tests.support.contract.reading import ReadingContract
from tests.support.contract.state_machine import StoreStateMachine, build_case

__all__ = ["StoreContract", "StoreStateMachine", "analyse", "build_case"]

FULL_RECORD = make_record(
    1,
    content="Grüße, 東京 🎉 — “quotes”,\ttabs\nand lines \\ / \x7e",
    category="project-context/rockbot",
    kind="lesson",
    layer="procedural",
    tags=("b", 'a"b', "a,b", "ü"),
    confidence=0.1,
    importance=1 / 3,
    source="GOAL:deploy",
    references=("src/a.py", "https://example.org/?a=1"),
    origin="web",
    scope="user:alice",
    pinned=True,
    created_at=make_time(0.000001),
    updated_at=make_time(5),
    last_seen_at=make_time(7),
    seen_count=3,
    valid_from=make_time(-10),
    valid_to=make_time(10),
    expires_at=make_time(99.5),
    metadata=MappingProxyType({"z": "1", "a": ""}),
    parts=("00000000aaaa", "00000000bbbb"),
)
"""A record with no field left as it is by default."""


class StoreContract(ContentsContract, ErasingContract, ReadingContract):
    """Tests that every store has to pass, one for each behaviour.

    Attributes:
        durable: Whether what was committed is still there when the place is opened again.
    """

    # -- commits and the journal ---------------------------------------------------------------------

    def test_a_record_that_becomes_a_headline_says_the_same_as_no_other_one(self, store: Store) -> None:
        one, two = make_record(1, content="Ann sails"), make_record(2, content="Ann rows")
        headline = make_record(3, content="Ann sails", scope="user:a", parts=(one.id, two.id))
        add(store, one, two, headline)
        plain = replace(headline, parts=())
        assert store.record_like("user:a", plain.fingerprint) is None
        change(store, headline, plain)
        assert store.record_like("user:a", plain.fingerprint) == plain
        change(store, plain, headline)
        assert store.record_like("user:a", plain.fingerprint) is None
        assert list(store.find(Filter(headlines=True))) == [headline]
        assert list(store.find(Filter(headlines=False), order="created")) == [two, one]
        assert store.check() == []

    def test_a_record_that_stands_for_a_value_no_more_says_what_others_may_say(self, store: Store) -> None:
        kept = make_record(1, content="Ann sails", item_key='["graph", [], "a"]')
        add(store, kept)
        plain = replace(kept, item_key="")
        assert store.record_like("", plain.fingerprint) is None
        change(store, kept, plain)
        assert store.record_like("", plain.fingerprint) == plain
        assert store.check() == []

    def test_records_are_found_by_several_fingerprints(self, store: Store) -> None:
        one, two, other = make_record(1), make_record(2, scope="user:a"), make_record(3)
        add(store, one, two, other, make_record(4, archived_at=NOW))
        marks = [(each.scope, each.fingerprint) for each in (one, two)]
        assert sorted(each.id for each in store.records_like(marks)) == sorted((one.id, two.id))
        assert store.records_like([("", two.fingerprint), ("user:a", one.fingerprint)]) == []
        assert store.records_like([]) == []

    def test_every_field_comes_back_as_it_was_put_in(self, store: Store) -> None:
        calls = (ToolCall(id="c1", name="read", arguments='{"path": "a"}'),)
        conversation = make_session(
            "telegram:1", scope="user:alice", status="paused", summary="So far\x1b[0m"
        )
        turn = make_turn(0, "telegram:1", role="assistant", content="", tool_calls=calls, scope="user:alice")
        answered = make_turn(
            1,
            "telegram:1",
            role="tool",
            tool_call_id="c1",
            speaker="Reader",
            content="\x07bell 東京",
            metadata=MappingProxyType({"k": "v"}),
        )
        add(store, FULL_RECORD, conversation, turn, answered)
        assert store.records([FULL_RECORD.id]) == [FULL_RECORD]
        assert store.session("telegram:1") == conversation
        assert store.turns(session="telegram:1") == [turn, answered]
        (stored,) = store.records([FULL_RECORD.id])
        assert [type(value) for value in stored.to_dict().values()] == [
            type(value) for value in FULL_RECORD.to_dict().values()
        ]

    def test_the_journal_is_read_by_time_also_where_a_clock_was_set_back(self, store: Store) -> None:
        for number, day in enumerate((0, 3, 1, 2)):
            add(store, make_record(number), at=make_time(day))
        for earliest, latest, expected in (
            (None, make_time(1), [1, 3]),
            (make_time(1), None, [2, 3, 4]),
            (make_time(1), make_time(2), [3, 4]),
            (make_time(4), None, []),
        ):
            rows = store.journal(earliest=earliest, latest=latest)
            assert [row.sequence for row in rows] == expected
            backwards = store.journal(earliest=earliest, latest=latest, newest_first=True, limit=2)
            assert [row.sequence for row in backwards] == expected[::-1][:2]
        assert store.journal(after=2, earliest=make_time(2), id=make_record(3).id)[0].sequence == 4
        assert store.journal(after=99) == []

    def test_edits_of_one_commit_see_those_before_them(self, store: Store) -> None:
        one = make_record(1)
        two = replace(one, content="Other words")
        commit(store, [*make_additions(one), *make_change(one, two), *make_removals(two)])
        assert store.records([one.id]) == []
        assert [row.key for row in store.journal()] == [1, 1, 1]

    # -- conflicts -----------------------------------------------------------------------------------

    def test_an_edit_that_does_not_fit_changes_nothing_at_all(self, store: Store) -> None:
        cases: list[Callable[[Record], list[Any]]] = [
            lambda one: make_change(replace(one, seen_count=9), replace(one, pinned=True)),
            lambda one: make_change(replace(one, metadata={"a": "b"}), replace(one, pinned=True)),
            lambda one: make_removals(replace(one, archive_reason="?")),
            lambda one: make_additions(replace(one, content="A taken id")),
            lambda one: make_additions(
                replace(one, id="f" * 12, content=one.content.upper().replace(" ", "  "))
            ),
            lambda one: make_change(make_record(77), make_record(77, pinned=True)),
            lambda one: make_removals(make_record(77)),
            lambda one: make_change(make_paragraph(9, content="Never was"), make_paragraph(9)),
        ]
        one = make_record(1)
        add(store, one)
        for stale in cases:
            edits = [*make_additions(make_record(2), make_session(), make_turn(0)), *stale(one)]
            with pytest.raises(Conflict, match=edits[-1].id):
                commit(store, edits, cursors={"seen": "1"})
            assert list(store.find(Filter())) == [one]
            assert store.sequence() == 1
            assert store.cursor("seen") is None
            assert store.session("chat:1") is None
            assert store.measure("record", None).passages == 1

    def test_the_same_words_may_stand_in_another_scope_or_archive(self, store: Store) -> None:
        one = make_record(1)
        archived = replace(one, id="2" * 12, archived_at=NOW)
        add(store, one, archived, replace(one, id="3" * 12, scope="b"))
        with pytest.raises(Conflict, match=one.id):
            add(store, replace(one, id="4" * 12, kind="event"))
        assert store.record_like("", one.fingerprint) == one
        with pytest.raises(Conflict, match=one.id):
            change(store, archived, replace(archived, archived_at=None))
        commit(
            store,
            [
                *make_change(one, replace(one, archived_at=NOW)),
                *make_change(archived, replace(archived, archived_at=None)),
            ],
        )
        assert store.record_like("", one.fingerprint) == replace(archived, archived_at=None)
        assert store.record_like("c", one.fingerprint) is None

    def test_metadata_in_another_order_is_the_same_metadata(self, store: Store) -> None:
        one = make_record(1, metadata={"a": "1", "b": "2"})
        add(store, one)
        as_read = replace(one, metadata={"b": "2", "a": "1"})
        change(store, as_read, replace(one, pinned=True))
        assert store.records([one.id])[0].pinned

    # -- records -------------------------------------------------------------------------------------

    def test_records_come_in_the_order_asked_for(self, store: Store) -> None:
        one, two = make_record(1), make_record(2, archived_at=NOW)
        add(store, make_session(), make_turn(0), one, two)
        assert store.records([two.id, 3, "f" * 12, 99, one.id, 1, 2]) == [two, one, one]
        assert store.records([]) == []
        assert store.records([make_turn(0).id]) == []
        for read in (store.turns, store.paragraphs):
            with pytest.raises(InvalidInput):
                read()
        many = [make_record(number) for number in range(100, 1400)]
        add(store, *many)
        assert store.records([one.id for one in reversed(many)]) == many[::-1]

    def test_find_gives_what_the_filter_lets_through_newest_first(self, store: Store) -> None:
        known = [
            make_record(1, moment=make_time(1), pinned=True),
            make_record(2, moment=make_time(2), archived_at=make_time(9)),
            make_record(3, moment=make_time(3), scope="a", category="project/x/y", tags=("red",),
                   valid_from=make_time(10), valid_to=make_time(50)),
            make_record(4, moment=make_time(4), category="project-context", origin="web",
                        tags=("a,b", "Red", "Straße", "Ärger")),
            make_record(5, moment=make_time(5), kind="event", layer="episodic", category="project0",
                        expires_at=make_time(60)),
        ]  # fmt: skip
        add(store, *known)
        by_number = {number: known[number - 1] for number in range(1, 6)}
        cases: list[tuple[Filter, list[int]]] = [
            (Filter(scopes=()), []),
            (Filter(categories=("project",)), [3]),
            (Filter(categories=("project/x",)), [3]),
            (Filter(categories=("project-context",)), [4]),
            (Filter(tags=("RED",)), [4, 3]),
            (Filter(tags=("A,b", "Red", "STRASSE")), [4]),
            (Filter(tags=("ärger",)), [4]),
            (Filter(tags=("re",)), []),
            (Filter(tags=(",",)), []),
            (Filter(tags=("%",)), []),
            (Filter(valid_at=make_time(50)), [5, 4, 1]),
            (Filter(valid_at=make_time(20)), [5, 4, 3, 1]),
            (Filter(valid_at=make_time(10)), [5, 4, 3, 1]),
            (Filter(valid_at=make_time(9)), [5, 4, 1]),
            (Filter(alive_at=make_time(60)), [4, 3, 1]),
            (Filter(alive_at=make_time(59)), [5, 4, 3, 1]),
            (Filter(sessions=("chat:1",)), []),
            (Filter(roles=("user",)), []),
        ]
        for wanted, numbers in cases:
            assert list(store.find(wanted)) == [by_number[number] for number in numbers], wanted
            assert sum(store.tally("kind", wanted).values()) == len(numbers), wanted

    def test_find_sees_one_moment_even_while_records_change(self, store: Store) -> None:
        many = [make_record(number, moment=make_time(number)) for number in range(600)]
        add(store, *many)
        found = []
        for number, one in enumerate(store.find(Filter())):
            if number % 40 == 0:
                change(store, one, replace(one, seen_count=2, updated_at=make_time(9999)))
            found.append(one)
        assert found == many[::-1]

    def test_containing_is_literal_and_blind_to_ascii_case(self, store: Store) -> None:
        contents = ["Rocky road", "he likes rock", "100% sure", "ÜBER alles"]
        known = [make_record(n, content=content) for n, content in enumerate(contents, 1)]
        turns = [make_turn(n, content=content) for n, content in enumerate(contents)]
        add(store, *known, make_session(), *turns)
        cases: list[tuple[str, list[int]]] = [
            ("ROCK", [2, 1]),
            ("100%", [3]),
            ("0_", []),
            ("ÜBER", [4]),
            ("über", []),
            ("", [4, 3, 2, 1]),
            ("\\", []),
        ]
        for text, numbers in cases:
            assert list(store.find(Filter(), containing=text)) == [known[n - 1] for n in numbers], text
            assert list(store.scan_turns(Filter(), containing=text)) == [turns[n - 1] for n in numbers], text

    # -- working memory and cursors --------------------------------------------------------------------

    def test_entries_live_until_they_expire(self, store: Store) -> None:
        short, lasting = (
            make_entry("b", expires_at=make_time(10), tags=("x", "y")),
            make_entry("a", category="c/d", data=""),
        )
        assert store.put_entry(short, capacity=None, now=NOW)
        assert store.put_entry(lasting, capacity=None, now=NOW)
        assert store.put_entry(make_entry("z", namespace="agent/2"), capacity=None, now=NOW)
        assert store.entries("agent", now=make_time(9)) == [lasting, short]
        assert store.entries("agent", now=make_time(10)) == [lasting]
        assert store.entries("none", now=NOW) == []
        assert store.put_entry(replace(lasting, namespace="aaa"), capacity=None, now=NOW)
        everywhere = [(one.namespace, one.key) for one in store.entries(None, now=make_time(10))]
        assert everywhere == [("aaa", "a"), ("agent", "a"), ("agent/2", "z")]
        assert store.drop_entries("aaa") == 1
        assert store.sequence() == 0

    def test_cursors_are_set_and_removed_with_a_commit(self, store: Store) -> None:
        add(store, make_record(1), cursors={"a": "1", "b": ""})
        assert (store.cursor("a"), store.cursor("b")) == ("1", "")
        commit(store, [], cursors={"a": None, "b": "2", "c": None})
        assert (store.cursor("a"), store.cursor("b"), store.cursor("c")) == (None, "2", None)
        assert store.cursors() == {"b": "2"}
        commit(store, [], cursors={"list:b:2": "3", "list:a": "4", "lis": "5", "listé": "6"})
        assert list(store.cursors("list:").items()) == [("list:a", "4"), ("list:b:2", "3")]
        assert (set(store.cursors("list")), store.cursors("none")) == ({"list:a", "list:b:2", "listé"}, {})

    def test_a_commit_is_refused_if_a_cursor_has_another_value_than_expected(self, store: Store) -> None:
        commit(store, [], cursors={"a": "1"}, expected={"a": None})
        for expected in ({"a": None}, {"a": "2"}, {"a": "1", "b": ""}):
            with pytest.raises(Conflict, match="read it again"):
                add(store, make_record(1), cursors={"a": "3"}, expected=expected)
        assert (store.cursor("a"), store.sequence()) == ("1", 0)
        made = add(store, make_record(1), cursors={"a": None}, expected={"a": "1", "b": None})
        assert (store.cursor("a"), len(made)) == (None, 1)

    # -- opening and closing ---------------------------------------------------------------------------

    def test_a_closed_store_refuses_everything(self, tmp_path: Path) -> None:
        store = self.open_store(tmp_path)
        add(store, make_record(1))
        store.close()
        store.close()
        uses: list[Callable[[], object]] = [
            lambda: add(store, make_record(2)),
            lambda: store.erase(make_removals(make_record(1)), actor="test", at=NOW),
            store.scrub,
            store.sequence,
            store.journal,
            lambda: store.records([1]),
            lambda: list(store.find(Filter())),
            store.sessions,
            lambda: store.passages("record", [1]),
            lambda: store.measure("record", None),
            lambda: store.put_entry(make_entry(), capacity=None, now=NOW),
            lambda: store.drop_entries("agent"),
            lambda: store.cursor("a"),
            store.check,
        ]
        for use in uses:
            with pytest.raises(StoreUnavailable, match="closed"):
                use()
