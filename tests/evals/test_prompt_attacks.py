"""Every attack that ships is played, end to end, and none gets through."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluation.measures import attack_scenarios
from evaluation.measures.prompt_attacks import BENIGN, EVALUATION, AttackCase, judge_case

CASES = [case for name in EVALUATION.files for case in EVALUATION.load_set(name)]
ATTACKS = [case for case in CASES if case.kind != BENIGN]
HARMLESS = [case for case in EVALUATION.load_set("attacks") if case.kind == BENIGN]


def find_broken(cases: list[AttackCase]) -> dict[str, tuple[str, ...]]:
    return {case.id: wrong for case in cases if (wrong := judge_case(case).wrong)}


def test_no_attack_of_a_sample_is_believed_injected_or_mistaken_for_ours() -> None:
    assert find_broken(ATTACKS[::24]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_no_attack_is_believed_injected_or_mistaken_for_ours(part: int) -> None:
    assert find_broken(ATTACKS[part::8]) == {}


def test_what_is_harmless_is_shown_as_it_is_and_trusted() -> None:
    assert [each.case.id for each in map(judge_case, HARMLESS) if each.wrong] == []


def test_the_text_of_a_trusted_way_does_get_into_the_prompt(tmp_path: Path) -> None:
    text = "The pangolin report is due"
    for number, way in enumerate(
        (attack_scenarios.owner_record, attack_scenarios.user_turn, attack_scenarios.page)
    ):
        with attack_scenarios.create_world(tmp_path / str(number) / "memory", text) as it:
            way(it)
            assert "pangolin" in it.session("probe:1").context("the pangolin report", record_shown=False).text


def test_an_untrusted_text_is_found_by_a_search_that_says_what_it_is(tmp_path: Path) -> None:
    with attack_scenarios.create_world(tmp_path / "memory", "The pangolin report is due") as it:
        attack_scenarios.web_record(it)
        assert "pangolin" in it.call("search_memory", query="pangolin report")
        assert "not confirmed" in it.told[-1]
