"""Command `python -m benchmarks`: run the benchmarks, print the results and write `benchmarks/results`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from benchmarks.engines import ENGINES, Engine, is_installed
from benchmarks.measure import Plan, measure_size, measure_starts
from benchmarks.report import Results, find_origin, render_markdown, write_results

SIZES = (1_000, 10_000, 100_000)
MILLION = 1_000_000


def _parse_sizes(context: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(sorted({int(part.replace("_", "")) for part in text.split(",")}))
    except ValueError:
        raise click.BadParameter("pass numbers such as 1000,10000") from None
    if sizes[0] < 100:
        raise click.BadParameter("at least 100 texts are needed")
    return sizes


def _parse_engines(context: click.Context, option: click.Parameter, text: str | None) -> list[type[Engine]]:
    names = list(ENGINES) if text is None else text.split(",")
    if unknown := [name for name in names if name not in ENGINES]:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(ENGINES)}")
    return [ENGINES[name] for name in names]


@click.command()
@click.option("--sizes", callback=_parse_sizes, default=",".join(map(str, SIZES)), show_default=True)
@click.option("--million", is_flag=True, help="Also measure a million texts, which takes long.")
@click.option("--questions", type=click.IntRange(2), default=200, show_default=True)
@click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="How often to ask each question."
)
@click.option(
    "--engines", callback=_parse_engines, metavar="A,B", help=f"Measure only these of {', '.join(ENGINES)}."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the texts and questions.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(__file__).parent / "results",
    help="Where to write the results.",
)
@click.option(
    "--disk",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder for the engines' data; a durable save is as fast as its disk.",
)
def main(
    sizes: tuple[int, ...],
    million: bool,
    questions: int,
    repeat: int,
    engines: list[type[Engine]],
    seed: int,
    out: Path,
    disk: Path | None,
) -> None:
    """Measure Reverie beside SQLite FTS5, tantivy, bm25s and rank_bm25, in one run, on the same texts."""
    origin = find_origin()
    sizes = tuple(sorted({*sizes, *([MILLION] if million else [])}))
    present = tuple(engine for engine in engines if is_installed(engine))
    absent = {
        engine.name: f"not installed ({engine.needs})" for engine in engines if not is_installed(engine)
    }
    absent |= {
        engine.name: f"measured up to {engine.largest:,} texts only"
        for engine in present
        if engine.largest is not None and engine.largest < sizes[-1]
    }
    with tempfile.TemporaryDirectory(prefix="reverie-bench-", dir=disk) as folder:
        plan = Plan(
            engines=present,
            questions=questions,
            repeat=repeat,
            seed=seed,
            folder=Path(folder),
            say=print,
        )
        results = Results(
            sizes={size: measure_size(plan, size) for size in sizes},
            starts=measure_starts(print),
            absent=absent,
            settings={"questions": questions, "repeat": repeat, "seed": seed},
            origin=origin,
        )
    lines = list(render_markdown(results))
    click.echo("\n".join(lines))
    for file in write_results(results, out):
        click.echo(f"written: {file}")


if __name__ == "__main__":
    main()
