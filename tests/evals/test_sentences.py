"""`python -m evaluation sentences`: the sets that ship, what is measured on them, and files of one's own."""

from __future__ import annotations

import pytest
from evaluation.measures import sentence_rules
from evaluation.measures.sentence_rules import RULES


def results(name: str) -> list[sentence_rules.SentenceVerdict]:
    return [sentence_rules.judge_sentence(each) for each in sentence_rules.EVALUATION.load_set(name)]


def test_the_sets_are_as_large_as_the_docs_say_and_share_no_sentence() -> None:
    written, held = (
        sentence_rules.EVALUATION.load_set("sentences"),
        sentence_rules.EVALUATION.load_set("held out"),
    )
    assert len(written) >= 560
    assert len(held) >= 150
    assert not {each.text for each in written} & {each.text for each in held}
    for rule in RULES:
        assert sum(rule in each.states for each in written) >= 40
    assert sum(not each.states for each in written) >= 200
    assert {"No problem.", "The error handling works nicely."} <= {each.text for each in written}


def test_every_rule_is_precise_on_the_sentences_that_ship_and_on_the_held_out_ones() -> None:
    for name, precise, complete in (("sentences", 0.95, 0.8), ("held out", 0.9, 0.0)):
        verdicts = results(name)
        for rule in RULES:
            how = sentence_rules.compute_figures(verdicts, rule)
            assert (how.precision or 0.0) >= precise, rule
            assert (how.recall or 0.0) >= complete, rule


def test_figures_count_what_is_right_wrong_and_missed() -> None:
    made = [
        sentence_rules.SentenceVerdict(
            sentence=sentence_rules.LabelledSentence(id=str(n), states=frozenset(states), text="x"),
            found=frozenset(found),
        )
        for n, (states, found) in enumerate(
            [(["fix"], ["fix"]), (["fix"], []), ([], ["fix"]), ([], []), (["failure"], ["fix", "failure"])]
        )
    ]
    how = sentence_rules.compute_figures(made, "fix")
    assert (how.items, how.wanted, how.found, how.right) == (5, 2, 3, 1)
    assert how.precision == pytest.approx(1 / 3)
    assert how.recall == pytest.approx(1 / 2)
