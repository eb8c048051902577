"""Publication of benchmark runs: `python -m benchmarks.publish results.json ...`.

Writes the figures of speed in README.md, the page docs/explanation/speed.md and its plot. Of several runs, each
size is taken from the last one that measured it. A run of code that differs from its commit is refused, since
nobody could repeat it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.engines import BARE, FTS5, REVERIE, TANTIVY
from benchmarks.report import ROOT, Results, compute_ratio, draw, format_number, read_results, render_markdown

README, PAGE, PLOT = ROOT / "README.md", ROOT / "docs/explanation/speed.md", ROOT / "docs/images/speed.png"

_BLOCK = re.compile(r"(?<=<!-- figures: speed -->\n).*?(?=<!-- end -->)", re.DOTALL)
_RATIOS = (
    ("search, SQLite FTS5", "search_p50_ms", FTS5),
    ("search, raw tantivy", "search_p50_ms", TANTIVY),
    ("save, a bare durable SQLite insert", "save_p50_ms", BARE),
    ("disk, the bare table", "disk_mb", BARE),
)
_FIGURES = (
    ("search", "search_p50_ms", "ms"),
    ("`context()`", "context_p50_ms", "ms"),
    ("save", "save_p50_ms", "ms"),
    ("loading, processor time", "load_cpu_s", "s"),
    ("memory while loading", "load_memory_mb", "MiB"),
)


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
def main(files: tuple[Path, ...]) -> None:
    """Write the figures of runs, each a `results.json`, into README.md and docs/explanation/speed.md."""
    runs = []
    for file in files:
        try:
            run = read_results(file)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise click.UsageError(
                f"{file}: not the results of a run ({type(error).__name__}: {error})"
            ) from None
        runs.append(run)
        if "with changes" in run.origin or "unknown" in run.origin:
            raise click.UsageError(f"{file}: commit what is measured, and measure again ({run.origin})")
    for written in publish_results(runs):
        click.echo(f"written: {written}")


def publish_results(runs: Sequence[Results]) -> list[Path]:
    """Write the figures of runs into README and documentation; return the files."""
    sizes = {size: run for run in runs for size in run.sizes}
    origins = [
        f"{run.origin} ({', '.join(f'{size:,}' for size in sorted(run.sizes) if sizes[size] is run)} texts)"
        for run in runs
    ]
    merged = replace(
        runs[0],
        sizes={size: sizes[size].sizes[size] for size in sorted(sizes)},
        origin="; ".join(origins),
    )
    page = [
        *render_markdown(merged),
        "",
        f"![Time of a search by number of texts](../images/{PLOT.name})",
        "",
    ]
    PAGE.write_text("\n".join(page), encoding="utf-8")
    draw(merged.sizes, PLOT)
    block = "\n".join(_render_block(merged)) + "\n"
    text = _BLOCK.sub(lambda _: block, README.read_text(encoding="utf-8"), count=1)
    README.write_text(text, encoding="utf-8")
    return [PAGE, PLOT, README]


def _render_block(results: Results) -> Iterator[str]:
    sizes = sorted(results.sizes)
    yield "| median, relative to | " + " | ".join(f"{size:,} texts" for size in sizes) + " |"
    yield "|---" * (len(sizes) + 1) + "|"
    for title, figure, peer in _RATIOS:
        ratios = (compute_ratio(results.sizes[size], figure, peer) for size in sizes)
        yield f"| {title} | " + " | ".join(map(_format_ratio, ratios)) + " |"
    for title, figure, unit in _FIGURES:
        values = (results.sizes[size].get(REVERIE, {}).get(figure) for size in sizes)
        cells = ("-" if value is None else f"{format_number(value)} {unit}" for value in values)
        yield f"| {title} | " + " | ".join(cells) + " |"
    yield ""
    yield textwrap.fill(
        f"Measured by {results.origin}, without an embedder. The first rows are ratios within one run; times depend "
        f"on the machine. [All figures]({PAGE.relative_to(ROOT)}), without files, and beside other processes too.",
        width=130,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _format_ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.1f} ×" if ratio >= 1 else f"1/{1 / ratio:.1f}"


if __name__ == "__main__":
    main()
