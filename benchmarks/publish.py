"""Publication of measurements: `python -m benchmarks.publish [results.json ...]`.

Writes the speed of runs into `benchmarks/published/speed.md`, and joins all files of that folder to the page
docs/project/benchmarks.md. Of several runs, each size is taken from the last one that measured it. A run of code that
differs from its commit is refused, since nobody could repeat it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from benchmarks.report import ROOT, Results, draw, read_results, render_markdown

PUBLISHED = ROOT / "benchmarks/published"
PAGE, PLOT = ROOT / "docs/project/benchmarks.md", ROOT / "docs/images/speed.png"
SECTIONS = ("recall", "speed", "safety", "learning", "scale")
MOST_TEXTS = 10_000
"""Texts up to which the page has tables; the bars have figures of more texts."""

LEFT_OUT = ("tantivy_stop", "bm25s", "rank_bm25")
"""Engines that the page does not show: another setting of one that it shows, and those that keep nothing on disk."""

INTRODUCTION = """\
# Benchmarks

<!-- Joined by `python -m benchmarks.publish` from benchmarks/published. Edit nothing here. -->

Every figure of the documentation is on this page, with the command that repeats it. The constants of search and
learning were fitted on invented people and public collections, so expect less on other data. `reverie eval PATH`
measures your own data.
"""


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the page is outdated.")
def main(files: tuple[Path, ...], check: bool) -> None:
    """Write the page of all figures, with the speed of runs, each a `results.json`."""
    if check:
        if PAGE.read_text(encoding="utf-8") != join_sections():
            click.echo(f"{PAGE.name} is outdated: run `make reference`")
            sys.exit(1)
        return
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
    """Write the speed of runs, if there are any, and the page; return the files."""
    if runs:
        sizes = {size: run for run in runs for size in run.sizes}
        origins = [
            f"{run.origin} ({', '.join(f'{size:,}' for size in sorted(run.sizes) if sizes[size] is run)} texts)"
            for run in runs
        ]
        merged = replace(
            runs[0],
            sizes={
                size: {name: each for name, each in sizes[size].sizes[size].items() if name not in LEFT_OUT}
                for size in sorted(sizes)
            },
            absent={name: why for name, why in runs[0].absent.items() if name not in LEFT_OUT},
            origin="; ".join(origins),
        )
        image = f"![Search time by number of texts](../images/{PLOT.name})"
        text = "\n".join([*render_markdown(merged, MOST_TEXTS), "", image, ""])
        text = re.sub(r"^## Targets\n.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)  # for developers
        text = re.sub(r"^\| [^|]* p9[59] \|.*\n|^\* Search: .*\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"\n{3,}", "\n\n", text)
        (PUBLISHED / "speed.md").write_text(re.sub(r"^#", "##", text, flags=re.MULTILINE), encoding="utf-8")
        draw(merged.sizes, PLOT)
    PAGE.write_text(join_sections(), encoding="utf-8")
    return [PAGE, *([PUBLISHED / "speed.md", PLOT] if runs else [])]


def join_sections() -> str:
    """Return the page: the introduction and all sections."""
    texts = [(PUBLISHED / f"{name}.md").read_text(encoding="utf-8") for name in SECTIONS]
    return "\n".join([INTRODUCTION, *texts])


if __name__ == "__main__":
    main()
