"""Publication of a benchmark run: the table of README.md, the page docs/explanation/speed.md and its plot."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

import reverie
from benchmarks.engines import BARE, FTS5, REVERIE, TANTIVY
from benchmarks.report import Results, compute_ratio, draw, format_number, render_markdown

ROOT = Path(__file__).parent.parent
README, PAGE, PLOT = ROOT / "README.md", ROOT / "docs/explanation/speed.md", ROOT / "docs/images/speed.png"

_BLOCK = re.compile(r"(?<=<!-- figures: speed -->\n).*?(?=<!-- end -->)", re.DOTALL)
_ROWS = (
    ("search, SQLite FTS5", "search_p50_ms", FTS5),
    ("search, raw tantivy", "search_p50_ms", TANTIVY),
    ("save, a bare durable SQLite insert", "save_p50_ms", BARE),
    ("disk, the bare table", "disk_mb", BARE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What was measured, when and how.

    Attributes:
        version: The version of Reverie.
        commit: The commit of the code, abbreviated.
        day: The day of the run, as `2026-01-31`.
        command: The command that measured.
    """

    version: str
    commit: str
    day: str
    command: str

    def __str__(self) -> str:
        return f"`{self.command}` on {self.day}, Reverie {self.version} at commit `{self.commit}`"


def find_origin() -> Origin:
    """Return the origin of a run that begins now.

    Raises:
        click.UsageError: the code differs from its commit, so that nobody could repeat the run.
    """
    if _ask_git("status", "--porcelain", "--", "src", "benchmarks"):
        raise click.UsageError("src or benchmarks has changes that are not committed: commit them first")
    return Origin(
        version=reverie.__version__,
        commit=_ask_git("rev-parse", "--short=10", "HEAD"),
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        command=shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
    )


def publish_results(results: Results, origin: Origin) -> list[Path]:
    """Write the figures of a run into README and documentation; return the files."""
    page = ["\n".join(render_markdown(results)), "", f"Measured by {origin}.", ""]
    page += [f"![Time of a search by number of texts](../images/{PLOT.name})", ""]
    PAGE.write_text("\n".join(page), encoding="utf-8")
    draw(results.sizes, PLOT)
    block = "\n".join(_render_block(results, origin)) + "\n"
    README.write_text(
        _BLOCK.sub(lambda _: block, README.read_text(encoding="utf-8"), count=1), encoding="utf-8"
    )
    return [PAGE, PLOT, README]


def _render_block(results: Results, origin: Origin) -> Iterator[str]:
    sizes = sorted(results.sizes)
    yield "| median, relative to | " + " | ".join(f"{size:,} texts" for size in sizes) + " |"
    yield "|---" * (len(sizes) + 1) + "|"
    for title, figure, peer in _ROWS:
        ratios = (compute_ratio(results.sizes[size], figure, peer) for size in sizes)
        yield f"| {title} | " + " | ".join(map(_format_ratio, ratios)) + " |"
    for title, figure, unit in (
        ("`context()`", "context_p50_ms", "ms"),
        ("loading, processor time", "load_cpu_s", "s"),
        ("memory while loading", "load_memory_mb", "MiB"),
    ):
        values = (results.sizes[size].get(REVERIE, {}).get(figure) for size in sizes)
        cells = ("-" if value is None else f"{format_number(value)} {unit}" for value in values)
        yield f"| {title} | " + " | ".join(cells) + " |"
    yield ""
    yield textwrap.fill(
        f"{origin}, without an embedder. The first rows are ratios within one run; times depend on the machine. "
        f"[All figures]({PAGE.relative_to(ROOT)}), with and without files, and beside other processes.",
        width=130,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _format_ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.1f} ×" if ratio >= 1 else f"1/{1 / ratio:.1f}"


def _ask_git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
