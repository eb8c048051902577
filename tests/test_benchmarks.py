"""The benchmark runs from beginning to end on few texts, without the engines that must be installed first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.folder import ROWS

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_small_run_measures_everything_and_writes_it_down(tmp_path: Path) -> None:
    options = f"--sizes 300 --questions 10 --engines reverie,fts5,bare --out {tmp_path}"
    command = [sys.executable, "-m", "benchmarks", *options.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "results.json").read_text())["sizes"]["300"]
    assert set(figures) == {"reverie", "fts5", "bare"}
    times = {"load_s", "search_p50_ms", "scope_p50_ms", "area_p50_ms", "save_p50_ms", "found_ms", "open_ms"}
    assert times <= set(figures["reverie"])
    assert times <= set(figures["fts5"])
    assert "search_p50_ms" not in figures["bare"]
    assert all(value > 0 for name, value in figures["reverie"].items() if name != "load_s")
    for document in ((tmp_path / "RESULTS.md").read_text(), done.stdout):
        assert "## 300 texts" in document
        assert "| import and open, processor time, 300 texts |" in document
        assert "| hook `user-prompt` beside a serving process, processor time |" in document
        assert "300 records a session sees, with 300 turns" in document
        assert "| search beside two processes p50 |" in document


@pytest.mark.slow
def test_a_small_run_over_readable_files_measures_everything(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.folder", "--sizes", "60", "--saves", "20", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())["60"]
    assert all(figures[name] > 0 for _, name, _ in ROWS)
    assert all(title in done.stdout for title, _, _ in ROWS)
