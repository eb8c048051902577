"""The harness of the labelled evaluations: where the sets are found, and what is said where they are not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from evaluation.measures import (
    harness,
    prompt_attacks,
    secret_detection,
    sentence_rules,
)
from evaluation.measures.command import build_command

EVALUATIONS = {
    "attacks": prompt_attacks.EVALUATION,
    "secrets": secret_detection.EVALUATION,
    "sentences": sentence_rules.EVALUATION,
}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_a_checkout_has_every_set(name: str) -> None:
    files = EVALUATIONS[name].files.values()  # type: ignore[attr-defined]
    assert [file for file in files if not (harness.CHECKOUT_DATA / file).is_file()] == []


@pytest.mark.parametrize("name", EVALUATIONS)
def test_without_the_sets_the_command_says_where_they_are(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "CHECKOUT_DATA", tmp_path / "evaluation")
    result = CliRunner().invoke(build_command(name), [])
    assert result.exit_code == 1
    assert str(tmp_path / "evaluation") in result.output
    assert "clone it and pass --data CHECKOUT/evaluation" in result.output


def test_the_sets_are_read_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in sentence_rules.EVALUATION.files.values():
        shutil.copy(harness.CHECKOUT_DATA / file, tmp_path)
    monkeypatch.setattr(harness, "CHECKOUT_DATA", tmp_path / "none")
    result = CliRunner().invoke(build_command("sentences"), ["--data", str(tmp_path)])
    assert result.exit_code == 0
    assert "held out" in result.output


# -- where the measurements are ------------------------------------------------------------------------


def test_python_m_evaluation_runs_a_measurement() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", "sentences"],
        cwd=harness.CHECKOUT_DATA.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("\t")
