"""Frameworks that conflict with others, or are large, are tested in environments of their own.

`make versions` tests both ends of each range; here the highest release runs, with the slow tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("name", ["google-adk", "claude-agent", "strands", "llama-index"])
def test_the_framework_in_its_own_environment(name: str) -> None:
    assert shutil.which("sh")
    done = subprocess.run(
        ["sh", "scripts/check_versions.sh", name],
        cwd=ROOT, env={**os.environ, "ENDS": "highest"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4_000:] + done.stdout
    assert "passed" in done.stdout
