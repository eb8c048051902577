"""Contract tests of pages and logs. A part of `StoreContract`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reverie.domain.errors import Conflict, InvalidInput
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.passage import CollectionStats, Passage
from reverie.stores.protocol import Store
from tests.support.contract.factories import (
    NOW,
    add,
    change,
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
    remove,
    undo_of,
)
from tests.support.contract.opening import ContractBase

NOTE = "2026-03-01.md"
"""A daily note, which is a log that is not searched."""


class PagesContract(ContractBase):
    """Tests for pages, and for logs and their paragraphs."""

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

    def test_pages_come_by_name_or_in_the_order_asked_for(self, store: Store) -> None:
        last, first, middle = make_page("b.md"), make_page("MEMORY.md"), make_page("a/b.md")
        add(store, last, first, middle)
        assert store.pages() == [first, middle, last]
        assert store.pages(["b.md", "none.md", "MEMORY.md"]) == [last, first]
        assert store.pages([]) == []

    def test_paragraphs_of_a_log_stand_by_position_and_then_as_they_came(self, store: Store) -> None:
        third, first, second, fourth = (
            make_paragraph(1, position=3),
            make_paragraph(4, position=-1.5),
            make_paragraph(3, position=3),
            make_paragraph(2, position=4),
        )
        add(store, second, third, fourth, first, make_paragraph(9, page=NOTE))
        assert store.paragraphs(page=HISTORY) == [first, second, third, fourth]
        assert store.paragraphs(page=HISTORY, start=1) == [second, third, fourth]
        assert store.paragraphs(page=HISTORY, start=-2) == [third, fourth]
        assert store.paragraphs(page=HISTORY, start=-99) == [first, second, third, fourth]
        assert store.paragraphs(page=HISTORY, start=4) == []
        assert store.paragraphs(page="2026-03-02.md") == []
        moved = replace(first, position=3.5)
        change(store, first, moved)
        assert store.paragraphs(page=HISTORY) == [second, third, moved, fourth]

    def test_paragraphs_come_by_id_or_key_in_the_order_asked_for(self, store: Store) -> None:
        one, two = make_paragraph(1), make_paragraph(2, page=NOTE)
        add(store, make_page(), one, two)
        assert store.paragraphs([two.id, 2, 1, "f" * 12, 99, one.id]) == [two, one, one]
        assert store.paragraphs([]) == []
        with pytest.raises(InvalidInput):
            store.paragraphs()

    def test_logs_are_counted_by_name(self, store: Store) -> None:
        notes = [make_paragraph(number, page=NOTE) for number in (2, 3)]
        add(store, *notes, make_paragraph(1), make_page())
        assert list(store.logs().items()) == [(NOTE, 2), (HISTORY, 1)]
        remove(store, make_paragraph(1))
        assert store.logs() == {NOTE: 2}

    def test_whoever_read_an_older_version_is_refused(self, store: Store) -> None:
        things: tuple[Page | Paragraph, ...] = (make_page(), make_paragraph(1))
        add(store, *things)
        for old in things:
            new = replace(old, content="New words")
            for edits in (
                make_change(replace(old, content="Never was"), new),
                make_removals(new),
                make_additions(new),
            ):
                with pytest.raises(Conflict, match=old.id):
                    commit(store, [*make_additions(make_record(1)), *edits])
        assert [row.edit for row in store.journal()] == make_additions(*things)
        assert store.records([make_record(1).id]) == []

    def test_what_is_not_there_cannot_be_changed(self, store: Store) -> None:
        for edits in (
            make_change(make_page(), make_page(content="x")),
            make_removals(make_page()),
            make_removals(make_paragraph(1)),
        ):
            with pytest.raises(Conflict, match="not there any more"):
                commit(store, edits)

    def test_the_journal_tells_of_pages_paragraphs_and_sessions_by_id(self, store: Store) -> None:
        one, two = make_page(), make_page(content="Shorter")
        add(store, one, make_paragraph(1), make_session())
        change(store, one, two, actor="dream", note="tidy", at=make_time(1))
        remove(store, two, make_paragraph(1), make_session())
        assert [row.edit for row in store.journal(id="MEMORY.md")] == [
            *make_additions(one),
            *make_change(one, two),
            *make_removals(two),
        ]
        assert [row.subject for row in store.journal(id=make_paragraph(1).id)] == ["paragraph"] * 2
        assert [row.sequence for row in store.journal(id=make_session().id)] == [3, 7]
        commit(store, undo_of(store.journal(after=4)), actor="undo")
        assert store.pages() == [two]
        assert store.paragraphs(page=HISTORY) == [make_paragraph(1)]
        assert [row.key for row in store.journal(id="MEMORY.md", after=7)] == [10]

    def test_paragraphs_of_the_history_are_searched_and_no_others(self, store: Store) -> None:
        asked = make_paragraph(1, content="Was it the deploy?", at=make_time(1.5))
        add(store, make_page(), asked, make_paragraph(2, page=NOTE), make_paragraph(3))
        passage = Passage(
            key=2, terms=" was  it  the  deploy? ", length=4, at=NOW.timestamp() + 1.5, cues="asks",
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

    def test_measures_of_paragraphs_are_exact_through_every_change(self, store: Store) -> None:
        one, two = make_paragraph(1, content="a b c"), make_paragraph(2, content="d e")
        add(store, one, two, make_paragraph(3, page=NOTE))
        longer, elsewhere = replace(one, content="a b c d e"), replace(two, page=NOTE)
        change(store, one, longer)
        assert store.measure("paragraph", None) == CollectionStats(passages=2, tokens=7)
        commit(store, [*make_removals(longer), *make_change(two, elsewhere)])
        assert store.measure("paragraph", None) == CollectionStats(passages=0, tokens=0)
        assert store.live("paragraph") == []
        change(store, elsewhere, two)
        assert [value for _, value in store.live("paragraph")] == [two]
        assert store.measure("paragraph", [""]) == CollectionStats(passages=1, tokens=2)

    def test_many_paragraphs_come_at_once(self, store: Store) -> None:
        many = [make_paragraph(number, page=NOTE if number % 3 else HISTORY) for number in range(1, 1501)]
        add(store, *many)
        assert store.paragraphs([one.id for one in reversed(many)]) == many[::-1]
        assert store.paragraphs(page=NOTE, start=-2) == [many[1498 - 1], many[1499 - 1]]
        found = store.live("paragraph", limit=300)
        found += store.live("paragraph", after=found[-1][0].key, limit=300)
        assert [value for _, value in found] == [one for one in many if one.page == HISTORY]

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
