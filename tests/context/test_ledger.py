from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.context.window import MOST_SHOWN, ShownLedger
from reverie.domain.errors import InvalidInput
from tests.context.values import hit, hits, record, turn

positions = st.integers(0, 200)
ledgers = st.lists(st.tuples(hits(), positions), max_size=6).map(
    lambda steps: ledger_of(sorted(steps, key=lambda step: step[1]))
)


def ledger_of(steps):
    ledger = ShownLedger()
    for found, at in steps:
        ledger = ledger.add_shown(found, at=at)
    return ledger


def test_what_was_shown_for_a_turn_still_replayed_is_not_shown_again():
    ledger = ShownLedger().add_shown([hit(record(1))], at=4)
    assert ledger.find_seen_position(hit(record(1)), replayed_from=4, now_at=6) == 4


def test_it_is_shown_again_once_that_turn_has_scrolled_out():
    ledger = ShownLedger().add_shown([hit(record(1))], at=4)
    assert ledger.find_seen_position(hit(record(1)), replayed_from=5, now_at=24) is None


def test_asking_again_for_the_same_turn_shows_the_same_again():
    ledger = ShownLedger().add_shown([hit(record(1))], at=4)
    assert ledger.find_seen_position(hit(record(1)), replayed_from=0, now_at=4) is None


def test_a_record_that_was_changed_since_is_shown_again():
    ledger = ShownLedger().add_shown([hit(record(1, "It is 3 pm"))], at=4)
    assert ledger.find_seen_position(hit(record(1, "It is 4 pm")), replayed_from=0, now_at=6) is None


def test_a_record_that_stopped_holding_since_is_shown_again():
    before = record(1)
    ledger = ShownLedger().add_shown([hit(before)], at=4)
    assert (
        ledger.find_seen_position(hit(replace(before, valid_to=before.created_at)), replayed_from=0, now_at=6)
        is None
    )


def test_a_record_seen_more_often_but_not_changed_stays_left_out():
    before = record(1)
    ledger = ShownLedger().add_shown([hit(before)], at=4)
    assert ledger.find_seen_position(hit(replace(before, seen_count=9), 0.9), replayed_from=0, now_at=6) == 4


@given(ledgers, hits(), positions, positions, positions)
def test_left_out_means_shown_before_at_a_position_that_is_replayed(ledger, found, at, first, now_at):
    after = ledger.add_shown(found, at=at)
    for each in found:
        seen = after.find_seen_position(each, replayed_from=first, now_at=now_at)
        assert (seen is not None) == (first <= at < now_at)
    assert after.find_seen_position(hit(turn(999)), replayed_from=0, now_at=10**6) is None


@given(ledgers)
def test_a_ledger_read_back_is_the_same(ledger):
    assert ShownLedger.from_text(ledger.to_text()) == ledger


@given(ledgers, ledgers)
def test_merging_keeps_the_later_position_of_each(one, other):
    merged = one.merged(other)
    assert set(merged.marks) == set(one.marks) | set(other.marks)
    for shown, (position, _) in merged.marks.items():
        assert position == max(ledger.marks[shown][0] for ledger in (one, other) if shown in ledger.marks)


@given(ledgers, positions)
def test_forgetting_what_scrolled_out_changes_no_answer(ledger, first):
    kept = ledger.since(first)
    assert all(position >= first for position, _ in kept.marks.values())
    for shown, (position, _) in ledger.marks.items():
        assert (shown in kept.marks) == (position >= first)


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
