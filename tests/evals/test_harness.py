"""The harness of the labelled evaluations: how a measurement is run."""

from __future__ import annotations

import subprocess
import sys

from evaluation.measures import harness


def test_python_m_evaluation_runs_a_measurement() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", "sentences"],
        cwd=harness.CHECKOUT_DATA.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("\t")
