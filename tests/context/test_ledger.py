from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.context.window import MOST_SHOWN, ShownLedger
from reverie.domain.errors import InvalidInput
from tests.context.values import hit, hits, record

positions = st.integers(0, 200)
ledgers = st.lists(st.tuples(hits(), positions), max_size=6).map(
    lambda steps: ledger_of(sorted(steps, key=lambda step: step[1]))
)


def ledger_of(steps):
    ledger = ShownLedger()
    for found, at in steps:
        ledger = ledger.add_shown(found, at=at)
    return ledger


def test_an_item_is_shown_again_only_if_its_turn_is_not_replayed_or_it_has_changed():
    before = record(1, "It is 3 pm")
    ledger = ShownLedger().add_shown([hit(before)], at=4)
    for now, replayed_from, now_at, seen in (
        (before, 4, 6, 4),
        (before, 5, 24, None),
        (before, 0, 4, None),
        (record(1, "It is 4 pm"), 0, 6, None),
        (replace(before, valid_to=before.created_at), 0, 6, None),
        (replace(before, seen_count=9), 0, 6, 4),
    ):
        assert ledger.find_seen_position(hit(now), replayed_from=replayed_from, now_at=now_at) == seen


@given(ledgers)
def test_a_ledger_read_back_is_the_same(ledger):
    assert ShownLedger.from_text(ledger.to_text()) == ledger


def test_a_ledger_stays_small_by_forgetting_the_oldest():
    ledger = ShownLedger()
    for at in range(MOST_SHOWN + 20):
        ledger = ledger.add_shown([hit(record(at))], at=at)
    assert len(ledger.marks) == MOST_SHOWN
    assert min(position for position, _ in ledger.marks.values()) == 20
    assert len(ledger.to_text()) < 20_000


def test_text_that_is_no_ledger_is_refused():
    for text in ["", "{", "{}x", "3", '[["a"]]', '[["a", "b", "c"]]', "[1]", "null"]:
        with pytest.raises(InvalidInput, match="ledger"):
            ShownLedger.from_text(text)
