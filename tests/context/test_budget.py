from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reverie.context.candidates import CandidateDecision
from reverie.context.pack import choose
from reverie.context.render import (
    RECORDS_HEADER,
    TokenBudget,
    cut_section,
    estimate_section_cost,
)
from reverie.domain.errors import InvalidInput
from reverie.domain.text import validation
from tests.context.values import hit, record

scores = st.floats(0, 1)


def item(score=0.5, chars=100, layer="semantic"):
    line = "x" * chars
    return CandidateDecision(
        hit(record(layer=layer), score), "selected", line, validation.estimate_item_cost(line)
    )


items = st.lists(
    st.builds(item, scores, st.integers(1, 2_000), st.sampled_from(["episodic", "semantic", "procedural"])),
    max_size=20,
).map(lambda found: sorted(found, key=lambda each: -each.hit.score))


def test_one_item_costs_at_least_twenty_tokens_and_a_quarter_of_its_characters_with_eight_more():
    assert [validation.estimate_item_cost("x" * chars) for chars in (1, 48, 52, 400)] == [20, 20, 21, 108]


def test_the_soft_budget_stops_items_below_a_score_of_eighty_five_and_shorter_ones_may_still_fit():
    over, selected = "over the budget", "selected"
    for found, soft, expected in (
        ([item(0.8)] * 4, 100, [selected, selected, over, over]),
        ([item(0.9), item(0.85), item(0.85), item(0.849)], 50, [selected, selected, selected, over]),
        ([item(chars=2_000), item(chars=40)], 60, [over, selected]),
    ):
        budget = TokenBudget(soft_tokens=soft, hard_tokens=1_000)
        chosen, _ = choose(found, budget, limit=99, room=1_000)
        assert [each.verdict for each in chosen] == expected


def test_a_layer_has_its_share():
    for layer, limit in [("episodic", 8), ("semantic", 10), ("procedural", 4)]:
        chosen, _ = choose([item(chars=10, layer=layer)] * 10, TokenBudget(), limit=99, room=3_500)
        assert [each.verdict for each in chosen] == ["selected"] * limit + ["over the layer's limit"] * (
            10 - limit
        )


@given(items, st.integers(0, 3_000), st.integers(0, 3_000), st.integers(0, 3_000))
def test_what_is_chosen_keeps_to_every_budget(found, soft, more, room):
    budget = TokenBudget(soft_tokens=soft, hard_tokens=soft + more)
    decided, used = choose(found, budget, limit=99, room=room)
    chosen = [each for each in decided if each.verdict == "selected"]
    lines = "\n".join([RECORDS_HEADER, *(each.line for each in chosen)]) if chosen else ""
    assert estimate_section_cost(lines) <= used <= room or not chosen
    if all(each.hit.score < 0.85 for each in chosen):
        assert used <= soft
    for layer, limit in budget.layer_limits.items():
        assert sum(each.hit.layer == layer for each in chosen) <= limit


@given(st.text(max_size=2_000), st.integers(0, 400))
def test_a_section_that_is_cut_fits_and_begins_as_it_did(text, room):
    cut = cut_section(text, room)
    assert estimate_section_cost(cut) <= room
    if cut != text and cut:
        kept, remark = cut.rsplit("\n… [cut:", 1)
        assert text.startswith(kept)
        assert f"{len(text):,} characters" in remark


def test_a_budget_is_a_whole_number_and_the_soft_one_at_most_the_hard_one():
    for wrong in [-1, True, 1.5, "100", None]:
        with pytest.raises(InvalidInput, match="hard_tokens"):
            TokenBudget(soft_tokens=0, hard_tokens=wrong)
    with pytest.raises(InvalidInput, match="soft_tokens is 10 and hard_tokens 9"):
        TokenBudget(soft_tokens=10, hard_tokens=9)
