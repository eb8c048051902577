"""Contract tests of conversations, of what search needs, and of pages. A part of `StoreContract`."""

from __future__ import annotations

import pytest

from reverie.domain.errors import Conflict
from reverie.domain.page import HISTORY
from reverie.domain.passage import CollectionStats, Passage
from reverie.stores.protocol import Store
from tests.support.contract.factories import (
    NOW,
    add,
    commit,
    make_additions,
    make_change,
    make_page,
    make_paragraph,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)
from tests.support.contract.opening import ContractBase

NOTE = "2026-03-01.md"
"""A daily note, which is a log that is not searched."""


class ContentsContract(ContractBase):
    """Tests for conversations, passages, pages and logs."""

    # -- conversations -----------------------------------------------------------------------------

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

    # -- searching ---------------------------------------------------------------------------------

    def test_a_passage_has_what_ranking_needs(self, store: Store) -> None:
        known = make_record(
            1,
            content="Is it?",
            kind="fix",
            importance=0.25,
            confidence=1,
            pinned=True,
            expires_at=make_time(1.5),
        )
        add(store, known, make_session(), make_turn(0, speaker="Bo", content="Hello there"))
        seconds = NOW.timestamp()
        assert store.passages("record", [1]) == [
            Passage(key=1, terms=" is it? ", length=2, at=seconds, cues="asks", importance=0.25,
                    confidence=1.0, kind="fix", pinned=True, expires_at=seconds + 1.5)
        ]  # fmt: skip
        assert store.passages("turn", [3]) == [
            Passage(key=3, terms=" hello there ", length=2, thread=2, speaker="bo", at=seconds,
                    dates=" @2026 ", kind="turn")
        ]  # fmt: skip

    def test_many_passages_come_at_once(self, store: Store) -> None:
        add(store, *(make_record(number) for number in range(1, 2101)))
        assert {one.key for one in store.passages("record", range(1, 2101))} == set(range(1, 2101))

    def test_a_category_is_measured_with_those_below_it(self, store: Store) -> None:
        records = [
            make_record(1, content="a b c", category="x"),
            make_record(2, content="d e", category="x/y", scope="s"),
            make_record(3, content="f", category="x-z"),
            make_record(4, content="g h i j"),
            make_record(5, content="k", category="x/y", archived_at=NOW),
        ]
        add(store, *records, make_session(), make_turn(0))
        lengths = {passage.key: passage.length for passage in store.passages("record", [1, 2])}
        assert store.measure("record", None, category="x") == CollectionStats(
            passages=2, tokens=lengths[1] + lengths[2]
        )
        assert store.measure("record", ["s", ""], category="x/y") == CollectionStats(
            passages=1, tokens=lengths[2]
        )
        assert store.measure("record", [""], category="x/y") == CollectionStats(passages=0, tokens=0)
        assert store.measure("turn", None, category="x") == CollectionStats(passages=0, tokens=0)

    # -- pages -------------------------------------------------------------------------------------

    def test_every_field_of_a_page_and_a_paragraph_comes_back(self, store: Store) -> None:
        memory = make_page(
            content="# Grüße 東京 🎉\n\n\ttabs, “quotes” \\\\ \n", updated_at=make_time(0.000001)
        )
        empty = make_page("projects/atlas.md", content="")
        paragraph = make_paragraph(
            1, position=-2.5, content="[2026-03-01 12:00] Ä line,\nand another", source="f" * 12
        )
        add(store, memory, empty, paragraph)
        assert store.pages() == [memory, empty]
        assert store.paragraphs(page=HISTORY) == [paragraph]
        assert [row.edit for row in store.journal()] == make_additions(memory, empty, paragraph)
        (stored,) = store.paragraphs([paragraph.id])
        assert [type(value) for value in stored.to_dict().values()] == [
            type(value) for value in paragraph.to_dict().values()
        ]

    def test_paragraphs_of_the_history_are_searched_and_no_others(self, store: Store) -> None:
        asked = make_paragraph(1, content="Was it the deploy?", at=make_time(1.5))
        add(store, make_page(), asked, make_paragraph(2, page=NOTE), make_paragraph(3))
        passage = Passage(
            key=2, terms=" was it the deploy? ", length=4, at=NOW.timestamp() + 1.5, cues="asks",
            dates=" @2026 ", kind="paragraph",
        )  # fmt: skip
        assert store.passages("paragraph", [1, 2, 3, 99]) == [passage]
        assert store.passages("paragraph", [2, 4], around=5) == store.passages("paragraph", [2, 4])
        assert store.live("paragraph", limit=1) == [(passage, asked)]
        assert [value for _, value in store.live("paragraph", after=2)] == [make_paragraph(3)]
        assert store.passages("record", [2]) == store.passages("turn", [2], around=1) == []
        assert store.measure("paragraph", None) == CollectionStats(passages=2, tokens=9)
        assert store.measure("paragraph", ["", "user:a"]) == CollectionStats(passages=2, tokens=9)
        assert store.measure("paragraph", ["user:a"]) == CollectionStats(passages=0, tokens=0)

    def test_one_id_may_name_things_of_different_kinds(self, store: Store) -> None:
        name = make_paragraph(1).id
        things = (
            make_record(1, id=name),
            make_session(name),
            make_turn(0, name, id=name),
            make_paragraph(1, id=name),
        )
        add(store, *things)
        assert store.records([name]) == [things[0]]
        assert store.paragraphs([name]) == [things[3]]
        assert len(store.journal(id=name)) == 4
