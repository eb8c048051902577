"""The labelled pairs: well formed, enough of each sort, folded without a loss. And the command on them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from evaluation.measures.command import build_command
from evaluation.measures.deduplication import (
    EVALUATION,
    LABELS,
    MergePair,
    PairVerdict,
    compute_figures,
    group_figures,
    judge_pair,
)

from reverie.domain.errors import InvalidInput
from reverie.domain.similarity.comparison import is_repetition, normalize
from reverie.evals.command import eval_command
from reverie.evals.recall import metrics
from reverie.interfaces.cli.main import cli

PAIRS = {name: EVALUATION.load_set(name) for name in EVALUATION.files}
EVERY = [pair for pairs in PAIRS.values() for pair in pairs]
NAMED = [pair for name in ("pairs", "held out") for pair in PAIRS[name]]
DEVELOPMENT = Path(__file__).parents[1] / "domain/similarity/pairs.jsonl"
HELP = Path(__file__).with_name("fold-help.txt")
REQUIRED_PRECISION = 0.995


# -- the pairs -------------------------------------------------------------------------------------------


def test_there_are_enough_pairs_in_every_group() -> None:
    groups = Counter(pair.group for pair in PAIRS["pairs"])
    assert sum(groups.values()) >= 640
    assert len(groups) == 24
    assert min(groups.values()) >= 30
    held_out = Counter(pair.group for pair in PAIRS["held out"])
    assert sum(held_out.values()) >= 120
    assert held_out.keys() == groups.keys()


def test_every_label_is_tried_often() -> None:
    labels = Counter(pair.label for pair in PAIRS["pairs"])
    assert set(labels) == set(LABELS)
    assert labels["repeats"] >= 150
    assert labels["extends"] >= 60
    assert labels["differs"] >= 400


def test_ids_name_the_group_and_none_is_given_twice() -> None:
    assert len({pair.id for pair in EVERY}) == len(EVERY)
    for name, start in (("pairs", ""), ("held out", "heldout-")):
        for pair in PAIRS[name]:
            assert pair.id.rpartition("-")[0] == start + pair.group.replace(" ", "-")


def test_no_pair_stands_there_twice_nor_among_those_the_rules_were_made_with() -> None:
    used = Counter((pair.old, pair.new) for pair in NAMED)
    assert [texts for texts, count in used.items() if count > 1] == []
    lines = DEVELOPMENT.read_text(encoding="utf-8").splitlines()
    known = {(each["old"], each["new"]) for each in map(json.loads, lines)}
    assert known.isdisjoint(used)
    assert known.isdisjoint((new, old) for old, new in used)


def test_the_texts_of_a_pair_are_not_the_same_characters() -> None:
    assert [pair.id for pair in EVERY if pair.old == pair.new] == []


def test_what_extends_is_longer_than_what_was_there() -> None:
    assert [pair.id for pair in EVERY if pair.label == "extends" and len(pair.new) <= len(pair.old)] == []


def test_at_most_a_third_is_made_by_changing_one_word() -> None:
    pairs = PAIRS["pairs"]
    frames = Counter(frame(pair) for pair in pairs)
    assert sum(count - 1 for count in frames.values()) <= len(pairs) / 3


def frame(pair: MergePair) -> tuple[str, ...]:
    """The first three words and the last of the old text: what a template would leave standing."""
    words = pair.old.lower().split()
    return (*words[:3], words[-1])


# -- what saving does with them --------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVALUATION.files)
def test_automatic_folding_is_as_precise_as_it_has_to_be(name: str) -> None:
    found = compute_figures(map(judge_pair, PAIRS[name]))
    assert found.found >= 38
    assert found.precision is not None
    assert found.precision >= REQUIRED_PRECISION


def test_what_says_more_is_never_folded() -> None:
    assert [pair.id for pair in EVERY if pair.label == "extends" and judge_pair(pair).folded] == []


def test_no_pair_that_differs_folds_the_other_way_round_either() -> None:
    turned = [
        MergePair(id=pair.id, group=pair.group, label="differs", old=pair.new, new=pair.old)
        for pair in EVERY
        if pair.label == "differs"
    ]
    assert [each.id for each in turned if judge_pair(each).folded] == []


def test_what_is_folded_by_saving_is_what_the_rules_call_a_repetition() -> None:
    assert [
        pair.id
        for pair in EVERY
        if judge_pair(pair).folded != is_repetition(normalize(pair.new), normalize(pair.old))
    ] == []


# -- the figures -----------------------------------------------------------------------------------------


def pair(
    label: str = "repeats", *, old: str = "Likes tea", new: str = "likes tea", group: str = "g"
) -> MergePair:
    return MergePair(id=f"{group}-{old}-{new}", group=group, label=label, old=old, new=new)  # type: ignore[arg-type]


def verdict(label: str, *, folded: bool) -> PairVerdict:
    return PairVerdict(pair=pair(label), folded=folded)


def test_a_fold_is_right_only_when_the_new_text_repeats_the_old() -> None:
    assert verdict("repeats", folded=True).right
    assert not verdict("extends", folded=True).right
    assert not verdict("differs", folded=True).right
    assert not verdict("repeats", folded=False).right


def test_precision_and_recall_are_shares_of_what_was_folded_and_of_what_may_be() -> None:
    found = compute_figures(
        [
            verdict("repeats", folded=True),
            verdict("repeats", folded=False),
            verdict("repeats", folded=False),
            verdict("extends", folded=True),
            verdict("differs", folded=True),
            verdict("differs", folded=False),
        ]
    )
    assert (found.items, found.wanted, found.found, found.right, found.wrong) == (6, 3, 3, 1, 2)
    assert found.precision == pytest.approx(1 / 3)
    assert found.recall == pytest.approx(1 / 3)


def test_of_nothing_there_is_no_share() -> None:
    found = compute_figures([])
    assert (found.precision, found.recall) == (None, None)
    assert found.to_dict("pairs", "may_fold", "folded")["precision_interval"] is None


def test_groups_keep_their_order() -> None:
    verdicts = [judge_pair(pair(group=group)) for group in ("b", "a", "b")]
    assert [(name, found.items) for name, found in group_figures(verdicts).items()] == [("b", 2), ("a", 1)]


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"), [(10, 10, 0.7225, 1.0), (0, 10, 0.0, 0.2775), (81, 263, 0.2553, 0.3662)]
)
def test_wilsons_interval_is_the_published_one(part: int, whole: int, low: float, high: float) -> None:
    # The last is Newcombe's example (1998, Statistics in Medicine 17, 857-872, table I, method 3).
    assert metrics.compute_wilson_interval(part, whole) == pytest.approx((low, high), abs=5e-5)


def test_wilsons_interval_holds_the_share_and_narrows() -> None:
    widths = []
    for whole in (1, 10, 100, 1_000):
        ends = metrics.compute_wilson_interval(whole, whole)
        assert ends is not None
        assert ends[1] == pytest.approx(1)
        widths.append(ends[1] - ends[0])
        assert not math.isnan(widths[-1])
    assert widths == sorted(widths, reverse=True)
    assert metrics.compute_wilson_interval(0, 0) is None


# -- pairs of one's own ----------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: object) -> Path:
        file = tmp_path / "pairs.jsonl"
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        file.write_text("\n".join(texts) + "\n", encoding="utf-8")
        return file

    return write


GOOD = {"id": "a-1", "group": "a", "label": "repeats", "old": "Likes tea", "new": "likes tea."}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((), "has no pairs"),
        (("{",), "line 1 is not JSON"),
        ((GOOD, ["a"]), "line 2 is not a pair"),
        (({**GOOD, "more": "x"},), "line 1 is not a pair"),
        (({**GOOD, "old": " "},), "every field must be a text"),
        (({**GOOD, "label": "same"},), "has the label 'same'"),
        ((GOOD, GOOD), "2 pairs 'a-1'"),
    ],
)
def test_a_file_that_is_not_of_the_form_is_refused_with_its_line(
    lines: tuple[object, ...], says: str, written: Callable[..., Path]
) -> None:
    with pytest.raises(InvalidInput, match=says):
        EVALUATION.read_file(written(*lines))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nothing\.jsonl' cannot be read"):
        EVALUATION.read_file(tmp_path / "nothing.jsonl")


# -- the command -----------------------------------------------------------------------------------------


def test_its_help_is_as_written_down() -> None:
    result = CliRunner().invoke(cli, ["eval", "fold", "--help"], prog_name="reverie", env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert result.output == HELP.read_text(encoding="utf-8"), f"if it should read so, write it to {HELP}"


def test_it_prints_a_line_for_each_set_and_group(tmp_path: Path) -> None:
    out = tmp_path / "merge.json"
    result = CliRunner().invoke(eval_command, ["fold", "--json", str(out)])
    assert result.exit_code == 0, result.output
    rows = {line.split("\t")[0].strip(): line.split("\t")[1:] for line in result.output.splitlines()}
    said = json.loads(out.read_text(encoding="utf-8"))
    assert said.keys() == {"versions", "sets", "pairs"}
    for name, pairs in PAIRS.items():
        found = said["sets"][name]["all"]
        shown = [found["pairs"], found["may_fold"], found["folded"], found["wrong"]]
        assert rows[name][:4] == [str(count) for count in shown]
        assert rows[name][4] == f"{found['precision']:.3f}"
        assert rows[name][6] == f"{found['recall']:.3f}"
        low, high = found["recall_interval"]
        assert rows[name][7] == f"{low:.2f}–{high:.2f}"
        assert found["pairs"] == len(pairs)
    assert {pair.group for pair in NAMED} <= rows.keys()
    assert [each["id"] for each in said["pairs"]] == [pair.id for pair in EVERY]
    assert set(said["pairs"][0]) == {"id", "set", "group", "label", "folded", "right"}


def test_it_shows_what_went_wrong_when_asked(written: Callable[..., Path]) -> None:
    file = written(
        GOOD,
        {**GOOD, "id": "a-2", "new": "Enjoys a cup of tea"},
        {**GOOD, "id": "b-1", "group": "b", "label": "differs"},
    )
    plain = CliRunner().invoke(build_command("fold"), [str(file)])
    assert "a-2" not in plain.output
    shown = CliRunner().invoke(build_command("fold"), [str(file), "--show-errors"])
    assert "folded wrongly: b-1 (differs)\n  old: Likes tea\n  new: likes tea.\n" in shown.output
    assert "not folded: a-2 (repeats)\n  old: Likes tea\n  new: Enjoys a cup of tea\n" in shown.output
    assert "a-1" not in shown.output


def test_it_can_be_asked_about_one_group() -> None:
    result = CliRunner().invoke(build_command("fold"), ["--group", "lists"])
    lines = result.output.splitlines()
    assert [line.split("\t")[0] for line in lines[:3]] == ["", "pairs", "held out"]
    assert lines[1].split("\t")[1] == str(sum(pair.group == "lists" for pair in PAIRS["pairs"]))
    unknown = CliRunner().invoke(build_command("fold"), ["--group", "nothing"])
    assert unknown.exit_code == 1
    assert "there is no group 'nothing': use one of exact, wording" in unknown.output


def test_a_collection_is_measured_as_before_when_it_is_not_called_fold(tmp_path: Path) -> None:
    result = CliRunner().invoke(eval_command, [str(tmp_path / "fold")])
    assert result.exit_code == 1
    assert "fold" in result.output
    assert "precision" not in result.output


def test_figures_that_cannot_be_written_are_told_before_anything_is_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(build_command("fold"), ["--json", str(tmp_path / "no" / "out.json")])
    assert result.exit_code == 1
    assert "no such folder" in result.output
