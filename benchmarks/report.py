"""Report of a benchmark run: tables, targets and a plot, as Markdown, JSON and PNG."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import platform
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.engines import BARE, REVERIE, TANTIVY
from benchmarks.measure import LARGEST_CONTEXT, Figures
from reverie import __version__

ROOT = Path(__file__).parent.parent
Sizes = dict[int, dict[str, Figures]]

TITLES = {
    "reverie": "Reverie",
    "reverie_no_files": "without files",
    "reverie_vectors": "with vectors",
    "fts5": "SQLite FTS5",
    "tantivy": "raw tantivy",
    "tantivy_stop": "tantivy with a stop list",
    "bm25s": "bm25s",
    "rank_bm25": "rank_bm25",
    "bare": "bare SQLite insert",
}
COLUMNS = {
    "load_s": "load, s",
    "load_cpu_s": "load, processor time, s",
    "search_p50_ms": "search p50",
    "search_p95_ms": "p95",
    "search_p99_ms": "p99",
    "scope_p50_ms": "in a scope (1 %) p50",
    "scope_p95_ms": "p95",
    "area_p50_ms": "in a category p50",
    "area_p95_ms": "p95",
    "save_p50_ms": "save p50",
    "save_p95_ms": "p95",
    "save_cpu_ms": "save, processor time",
    "shared_search_p50_ms": "search beside two processes p50",
    "shared_search_p95_ms": "p95",
    "shared_save_p50_ms": "save beside two processes p50",
    "shared_save_p95_ms": "p95",
    "context_p50_ms": "`context()` p50",
    "context_p95_ms": "p95",
    "found_ms": "save to found",
    "found_elsewhere_ms": "found by another process",
    "open_ms": "open",
    "first_ms": "first search",
    "load_memory_mb": "memory loading, MiB",
    "memory_mb": "memory searching, MiB",
    "start_cpu_ms": "import and open, processor time",
    "first_context_ms": "first `context()` of a new process, processor time",
    "forget_ratio": "forget beside a save, processor time",
    "disk_mb": "disk, MiB",
    "disk_blocks_mb": "disk by blocks, MiB",
}
_PACKAGES = ("reverie", "tantivy", "bm25s", "rank-bm25", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Measurements of one run.

    Attributes:
        sizes: Figures by number of texts, engine and name.
        starts: Of starting processes.
        absent: Engines that took no part, and why.
        settings: What the run was asked for.
        origin: Which code was measured, when and by which command.
    """

    sizes: Sizes
    starts: Figures
    absent: dict[str, str]
    settings: dict[str, Any]
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bar and a goal for one figure.

    Attributes:
        what: In words.
        measured: The figure it is about; None where this run did not measure it.
        bar: What it may be at most.
        goal: What it should be at most.
        unit: Behind the figure.
    """

    what: str
    measured: float | None
    bar: float
    goal: float
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """Return `goal met`, `bar met`, `missed` or `not run`."""
        if self.measured is None:
            return "not run"
        if self.measured <= self.goal:
            return "goal met"
        return "bar met" if self.measured <= self.bar else "missed"


def list_targets(results: Results) -> list[Target]:
    """Return bars and goals with the measured figures; a smaller size stands for one that was not measured."""
    targets = []
    for size, bar, goal in (
        (1_000, 5.0, 3.5),
        (10_000, 5.0, 3.5),
        (100_000, 2.5, 1.5),
        (1_000_000, 1.0, 0.8),
    ):
        ratio = compute_ratio(results.sizes.get(size), "search_p50_ms", TANTIVY)
        what = f"search p50 beside raw tantivy, {size:,} texts"
        targets.append(Target(what=what, measured=ratio, bar=bar, goal=goal))
    for what, most, compute, bar, goal, unit in _TARGETS:
        largest = max((size for size in results.sizes if size <= most), default=min(results.sizes))
        measured, what = compute(results.sizes[largest]), f"{what}, {largest:,} texts"
        if all(target.what != what for target in targets):
            targets.append(Target(what=what, measured=measured, bar=bar, goal=goal, unit=unit))
    for what, name, bar, goal, unit in _STARTS:
        targets.append(Target(what=what, measured=results.starts.get(name), bar=bar, goal=goal, unit=unit))
    return targets


def compute_ratio(figures: dict[str, Figures] | None, name: str, peer: str) -> float | None:
    """Return Reverie's figure as a multiple of a peer's."""
    mine = (figures or {}).get(REVERIE, {}).get(name)
    theirs = (figures or {}).get(peer, {}).get(name)
    return mine / theirs if mine is not None and theirs else None


def _divide(name: str, by: str) -> Callable[[dict[str, Figures]], float | None]:
    """Return a function that divides two of Reverie's figures."""

    def divide(figures: dict[str, Figures]) -> float | None:
        own = figures.get(REVERIE, {})
        return own[name] / own[by] if name in own and own.get(by) else None

    return divide


def _beside_bare(name: str) -> Callable[[dict[str, Figures]], float | None]:
    return lambda figures: compute_ratio(figures, name, BARE)


def _own(name: str) -> Callable[[dict[str, Figures]], float | None]:
    return lambda figures: figures.get(REVERIE, {}).get(name)


_TARGETS = (
    ("save beside a bare insert, by the clock", 10_000, _beside_bare("save_p50_ms"), 2.5, 1.5, "x"),
    ("save beside a bare insert, by processor time", 10_000, _beside_bare("save_cpu_ms"), 5.0, 2.5, "x"),
    ("`save_many`, processor time a text", 10_000, _own("load_each_ms"), 0.35, 0.2, "ms"),
    ("`context()` p50", 10_000, _own("context_p50_ms"), 8.0, 4.0, "ms"),
    (
        "`context()` p50 beside a search",
        10_000,
        _divide("context_p50_ms", "beside_context_p50_ms"),
        3.0,
        2.0,
        "x",
    ),
    ("disk beside the bare table, bytes", 10_000, _beside_bare("disk_mb"), 5.0, 4.0, "x"),
    ("disk beside the bare table, blocks", 10_000, _beside_bare("disk_blocks_mb"), 6.0, 5.0, "x"),
    ("memory while loading", 100_000, _own("load_memory_mb"), 150.0, 120.0, "MiB"),
    ("first `context()` of a process, processor time", 10_000, _own("first_context_ms"), 70.0, 50.0, "ms"),
    ("import and open, processor time", 10_000, _own("start_cpu_ms"), 90.0, 70.0, "ms"),
    ("forget a record beside a save", 1_000, _own("forget_ratio"), 10.0, 5.0, "x"),
    ("forget a record beside a save", 100_000, _own("forget_ratio"), 10.0, 5.0, "x"),
)
"""Figures of a size, of the largest one up to the number, with their bars and goals."""

_STARTS = (
    ("`initialize` and `tools/list` of MCP beside the reference server", "mcp_ratio", 1.2, 1.0, "x"),
    ("hook `user-prompt` alone, processor time", "hook_alone_ms", 100.0, 80.0, "ms"),
    ("hook `user-prompt` beside a serving process, processor time", "hook_beside_ms", 60.0, 40.0, "ms"),
)
"""Figures of starting processes, with their bars and goals."""


# -- writing -----------------------------------------------------------------------------------------


def write_results(results: Results, folder: Path) -> list[Path]:
    """Write RESULTS.md, results.json and, if matplotlib is installed, results.png; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    document, data, plot = folder / "RESULTS.md", folder / "results.json", folder / "results.png"
    data.write_text(json.dumps(to_json(results), indent=1) + "\n", encoding="utf-8")
    plotted = importlib.util.find_spec("matplotlib") is not None
    if plotted:
        draw(results.sizes, plot)
    picture = ["", "![Search time by number of texts](results.png)"] if plotted else []
    document.write_text("\n".join([*render_markdown(results), *picture]) + "\n", encoding="utf-8")
    return [document, data, *([plot] if plotted else [])]


def read_results(file: Path) -> Results:
    """Return the results of an earlier run from its `results.json`."""
    values = json.loads(file.read_text(encoding="utf-8"))
    return Results(
        sizes={int(size): figures for size, figures in values["sizes"].items()},
        starts=values["starts"],
        absent=values["absent"],
        settings=values["settings"],
        origin=values["origin"],
    )


def find_origin() -> str:
    """Return a description of a run that begins now: its command, its day, and the version and commit of the code."""

    def ask_git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    commit = ask_git("rev-parse", "--short=10", "HEAD")
    if ask_git("status", "--porcelain", "--", "src", "benchmarks"):
        commit += " with changes"
    options = sys.argv[1:]
    if "--out" in options:  # says nothing about the figures
        place = options.index("--out")
        del options[place : place + 2]
    command = shlex.join(["python", "-m", "benchmarks", *options])
    return f"`{command}` on {datetime.now(UTC):%Y-%m-%d}, Reverie {__version__} at commit `{commit}`"


def to_json(results: Results) -> dict[str, Any]:
    """Return the results as JSON values."""
    return {
        "machine": describe_machine(),
        "origin": results.origin,
        "settings": results.settings,
        "sizes": {str(size): figures for size, figures in results.sizes.items()},
        "starts": results.starts,
        "absent": results.absent,
        "targets": [
            {
                "what": target.what,
                "measured": target.measured,
                "bar": target.bar,
                "goal": target.goal,
                "unit": target.unit,
                "verdict": target.verdict,
            }
            for target in list_targets(results)
        ],
    }


def describe_machine() -> dict[str, str]:
    """Describe the machine."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(cores),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **versions,
    }


def render_markdown(results: Results, most: float = math.inf) -> Iterator[str]:
    """Return the lines of RESULTS.md, with tables of sizes up to `most` texts."""
    yield "# Speed"
    yield ""
    parts = [f"{name} {value}" for name, value in describe_machine().items()]
    yield f"{', '.join(parts[:4])}. Packages: {', '.join(parts[4:])}."
    yield ""
    yield f"Measured by {results.origin}."
    yield ""
    yield (
        "Times are milliseconds where nothing else is said. All engines hold the same texts and take turns "
        f"at {results.settings['questions']} questions; a search returns the texts of the eight best. "
        "How texts and questions are made: `benchmarks/texts.py`; what each engine does: "
        "`benchmarks/engines.py`. Loading is without the time it takes to make the texts."
    )
    yield ""
    yield "## Bars and goals"
    yield ""
    yield from _table(
        ["", "measured", "bar", "goal", ""], (_target_row(target) for target in list_targets(results))
    )
    for size, figures in results.sizes.items():
        if size > most:
            continue
        yield ""
        yield f"## {size:,} texts"
        yield ""
        names = list(figures)
        yield from _table(
            ["", *(TITLES[name] for name in names)],
            (
                [title, *(format_number(figures[name].get(column)) for name in names)]
                for column, title in _titled_columns()
            ),
        )
        if "turns" in (own := figures.get(REVERIE, {})):
            yield ""
            yield (
                f"`context()` is that of a memory whose {size:,} records a session sees, with "
                f"{own['turns']:,.0f} turns; a search of it took {format_number(own['beside_context_p50_ms'])}."
            )
        elif REVERIE in figures and size > LARGEST_CONTEXT:
            yield ""
            yield f"`context()` and forgetting are measured with up to {LARGEST_CONTEXT:,} texts only."
        yield ""
        yield from _ratios(figures)
    yield ""
    yield (
        f"`import reverie`: {format_number(results.starts['import_ms'])} ms more than the "
        f"{format_number(results.starts['interpreter_ms'])} ms of an interpreter that does nothing."
    )
    for name, why in results.absent.items():
        yield ""
        yield f"{TITLES.get(name, name)}: {why}."


def _titled_columns() -> Iterator[tuple[str, str]]:
    before = ""
    for column, title in COLUMNS.items():
        yield column, f"{before} {title}" if title in ("p95", "p99") else title
        before = before if title in ("p95", "p99") else title.removesuffix(" p50")


def _target_row(target: Target) -> list[str]:
    measured = "-" if target.measured is None else f"{format_number(target.measured)} {target.unit}"
    bar, goal = (f"{format_number(limit)} {target.unit}" for limit in (target.bar, target.goal))
    return [target.what, measured, bar, goal, target.verdict]


def _ratios(figures: dict[str, Figures]) -> Iterator[str]:
    """Describe Reverie's figures relative to each peer."""
    for peer in figures:
        ratio = compute_ratio(figures, "search_p50_ms", peer)
        if peer == REVERIE or ratio is None:
            continue
        words = f"{1 / ratio:.1f} times as fast as" if ratio < 1 else f"{ratio:.1f} times the time of"
        yield f"* Search: {words} {TITLES[peer]}."


def _table(heading: list[str], rows: Iterator[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heading) + " |"
    yield "|" + "|".join(" --- " if n == 0 else " ---: " for n in range(len(heading))) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def format_number(value: float | None) -> str:
    """Format with three significant digits."""
    if value is None:
        return "-"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def draw(sizes: Sizes, file: Path) -> None:
    """Plot search time over the number of texts, one line an engine, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    names = [name for name in TITLES if any("search_p50_ms" in f.get(name, {}) for f in sizes.values())]
    for name in names:
        points = [(size, f[name]) for size, f in sorted(sizes.items()) if "search_p50_ms" in f.get(name, {})]
        places = [size for size, _ in points]
        line = axes.plot(
            places,
            [found["search_p50_ms"] for _, found in points],
            marker="o",
            linewidth=2.5 if name == REVERIE else 1.2,
            label=f"{TITLES[name]}{_beside(points[-1][0], sizes, name)}",
        )
        axes.fill_between(
            places,
            [found["search_p50_ms"] for _, found in points],
            [found["search_p95_ms"] for _, found in points],
            alpha=0.12,
            color=line[0].get_color(),
        )
    axes.set(xscale="log", yscale="log", xlabel="texts", ylabel="milliseconds a search, p50 to p95")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _beside(size: int, sizes: Sizes, name: str) -> str:
    ratio = compute_ratio(sizes[size], "search_p50_ms", name)
    if name == REVERIE or not ratio:
        return ""
    return f" ({1 / ratio:.2g} times Reverie's time at {size:,})"
