"""The harness of the labelled evaluations: where the sets are found, and how a measurement is run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from evaluation.measures import harness, sentence_rules
from evaluation.measures.command import build_command


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
