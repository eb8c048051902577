"""The benchmark runs from beginning to end on few texts, without the engines that must be installed first."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import publish
from benchmarks.folder import ROWS
from benchmarks.report import Results, list_targets
from benchmarks.texts import AREAS, LONGEST, SCOPES, Texts
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


def test_texts_and_questions_are_what_is_promised() -> None:
    texts = Texts()
    made = list(texts.first(2_000))
    lengths = [len(text.content.split()) for text in made]
    assert 10 <= min(lengths) <= max(lengths) <= LONGEST
    assert len({text.content for text in made}) == 2_000
    assert len({text.scope for text in made}) == SCOPES
    assert len({text.area for text in made}) == AREAS
    for number in range(500):
        question = texts.question(number)
        words = question.rstrip("?").split()
        assert 8 <= len(words) <= 15
        assert question.endswith("?")
        known = set(made[number].content.lower().rstrip(".").split())
        assert len(known & set(words)) >= 4


def test_bars_and_goals_are_met_missed_or_not_run() -> None:
    figures = {
        "reverie": {
            "search_p50_ms": 0.2, "save_p50_ms": 3.0, "save_cpu_ms": 4.0, "disk_mb": 8.0, "disk_blocks_mb": 10.0,
            "context_p50_ms": 4.0, "beside_context_p50_ms": 1.5, "load_cpu_s": 50.0, "start_cpu_ms": 80.0,
        },
        "tantivy": {"search_p50_ms": 0.1},
        "bare": {"save_p50_ms": 1.0, "save_cpu_ms": 1.0, "disk_mb": 2.0, "disk_blocks_mb": 2.0},
    }  # fmt: skip
    results = Results(
        sizes={100_000: figures}, imports={"import_ms": 99.0}, absent={}, settings={}, origin=""
    )
    found = {target.what.removesuffix(", 100,000 texts"): target.verdict for target in list_targets(results)}
    assert found == {
        "search p50 beside raw tantivy, 1,000 texts": "not run",
        "search p50 beside raw tantivy, 10,000 texts": "not run",
        "search p50 beside raw tantivy": "bar met",
        "search p50 beside raw tantivy, 1,000,000 texts": "not run",
        "save beside a bare insert, by the clock": "missed",
        "save beside a bare insert, by processor time": "bar met",
        "disk beside the bare table, bytes": "goal met",
        "disk beside the bare table, blocks": "goal met",
        "`context()` p50 beside a search of the same memory": "bar met",
        "forget a record beside a save": "not run",
        "`save_many`, processor time a text": "missed",
        "`context()` p50": "goal met",
        "memory while loading": "not run",
        "first `context()` of a new process, processor time": "not run",
        "import and open, processor time": "bar met",
    }


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


def test_figures_are_published_with_their_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in publish.SECTIONS:
        (tmp_path / f"{name}.md").write_text(f"## Old {name}\n")
    page = tmp_path / "page.md"
    for name, value in (("PUBLISHED", tmp_path), ("PAGE", page)):
        monkeypatch.setattr(publish, name, value)
    monkeypatch.setattr(publish, "draw", lambda sizes, file: None)
    figures = {
        "reverie": {"search_p50_ms": 1.0, "save_p50_ms": 3.0, "load_memory_mb": 120.0},
        "fts5": {"search_p50_ms": 4.0},
        "bare": {"save_p50_ms": 2.0},
    }
    results = Results(
        sizes={1_000: figures},
        imports={"import_ms": 9.0, "interpreter_ms": 10.0},
        absent={},
        settings={"questions": 5},
        origin="`python -m benchmarks` on 2026-01-31, Reverie 1.2.3 at commit `0123abcdef`",
    )
    larger = replace(results, sizes={20_000: {"reverie": {"search_p50_ms": 2.0}}}, origin="another run")
    assert page in publish.publish_results([results, larger])
    text = page.read_text()
    assert "Old speed" not in text
    assert all(f"## Old {name}" in text for name in publish.SECTIONS if name != "speed")
    assert "### 20,000 texts" in text
    origin = "Reverie 1.2.3 at commit `0123abcdef` (1,000 texts); another run (20,000 texts)"
    assert origin in " ".join(text.split())


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
