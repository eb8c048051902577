"""The evaluation of headlines tells good ones from harmful ones, and whether the truth is shown."""

from __future__ import annotations

from evaluation.measures.written_headlines import EVALUATION, HeadlineCase, judge_case

PARTS = ("Ann manages Bo.", "Bo is in Kiel.", "Ann is in Oslo.")


def case(headline: str, *, good: bool) -> HeadlineCase:
    return HeadlineCase(
        id="a", language="en", parts=PARTS, headline=headline, good=good, harm="", question="Whom does Ann manage?",
        truth="Ann manages Bo",
    )  # fmt: skip


def test_a_good_headline_is_accepted() -> None:
    verdict = judge_case(case("Ann, in Oslo, manages Bo, who is in Kiel.", good=True))
    assert verdict.accepted
    assert verdict.found
    assert verdict.shown


def test_a_harmful_one_is_accepted_only_if_nobody_objects_and_hides_nothing() -> None:
    verdict = judge_case(case("Bo, in Kiel, manages Ann, who is in Oslo.", good=False))
    assert not verdict.accepted
    assert "unsupported" in verdict.reason
    assert not verdict.accepted_by_code, "a model that says yes to everything is not believed"
    assert verdict.shown


def test_of_the_open_set_most_good_ones_are_accepted_and_no_truth_is_hidden() -> None:
    verdicts = [judge_case(each) for each in EVALUATION.load_set("clusters")[::4]]
    good = [each.accepted for each in verdicts if each.case.good]
    assert sum(good) >= 0.8 * len(good)
    assert not any(each.accepted for each in verdicts if not each.case.good)
    assert all(each.shown for each in verdicts if each.found)
