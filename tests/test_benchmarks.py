"""The benchmark runs from beginning to end on few texts, without the engines that must be installed first."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.folder import ROWS
from scripts import check_figures

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_a_small_run_measures_everything_and_writes_it_down(tmp_path: Path) -> None:
    options = f"--sizes 300 --questions 10 --engines reverie,fts5,bare --out {tmp_path}"
    command = [sys.executable, "-m", "benchmarks", *options.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "options", "column", "first"),
    [
        ("scopes", "--sizes 120 --scopes 1,10,1000 --questions 3", 1, ["1", "10"]),
        ("scale", "--records 80 --memories 8 --samples 2", 0, ["10", "20", "40", "80"]),
        ("langgraph", "--operations 60", 0, ["20 put", "20 get", "20 search", "all 60"]),
    ],
)
def test_small_runs_of_the_other_measurements(
    module: str, options: str, column: int, first: list[str]
) -> None:
    command = [sys.executable, "-m", f"benchmarks.{module}", *options.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    if done.returncode == 3:  # no PostgreSQL
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    table = done.stdout.splitlines()[2 : 2 + len(first)]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    assert [row[column] for row in rows] == first
    figures = [re.sub(r"[^\d.]", "", cell) for row in rows for cell in row[column + 1 :]]
    assert all(float(figure) >= 0 for figure in figures)


def test_published_figures_are_outdated_after_a_milestone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "README.md"
    file.write_text("Fast.\n")
    assert "does not say" in check_figures.find_problem(file)
    file.write_text("`python` on 2026-01-31, Reverie 0.0.9 at commit `0123abcdef`")
    for changed, problem in ((None, False), (0, False), (100, False), (10**6, True)):
        monkeypatch.setattr(check_figures, "count_changed_lines", lambda commit, n=changed: n)
        assert ("lines of code changed" in check_figures.find_problem(file)) is problem
