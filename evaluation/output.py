"""Output of the evaluations: a table for people and JSON for programs."""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reverie.domain.errors import InvalidInput

SEED = 20_240_601
RESAMPLES = 1_000
_NORMAL_QUANTILE = 1.959964  # leaves 2.5 % on either side


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], remarks: Iterable[str], *, title: str = ""
) -> None:
    """Print a table and the lines below it: in columns on a terminal, with tabs in a pipe.

    Args:
        columns: The names of all columns but the first, which has none.
        rows: The cells.
        remarks: The lines below the table.
        title: A line above the table.
    """
    cells = [("", *columns), *rows]
    if sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        cells = [
            (row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))  # names left, numbers right
            for row in cells
        ]
    between = "  " if sys.stdout.isatty() else "\t"
    for line in [*([title] if title else []), *map(between.join, cells), *remarks]:
        sys.stdout.write(f"{line}\n")


def check_output_file(out: str | Path | None) -> Path | None:
    """Return the file to write, before anything is measured.

    Raises:
        InvalidInput: its folder does not exist.
    """
    if out is None:
        return None
    file = Path(out).expanduser()
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"{file}: there is no such folder to write it to")
    return file


def write_json(file: Path | None, document: Mapping[str, Any]) -> None:
    """Write a document to the file, if there is one.

    Raises:
        InvalidInput: the file cannot be written.
    """
    if file is None:
        return
    try:
        file.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None


def compute_intervals(questions: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Return the 95 % interval of each mean, by the percentile bootstrap over the measures of questions (Efron, 1979).

    The same questions always give the same interval.
    """
    if not questions:
        return {}
    generator = random.Random(SEED)
    count = len(questions)
    columns = {name: [one[name] for one in questions] for name in questions[0]}
    drawn: dict[str, list[float]] = {name: [] for name in columns}
    for _ in range(RESAMPLES):
        sample = generator.choices(range(count), k=count)
        for name, column in columns.items():
            drawn[name].append(sum(map(column.__getitem__, sample)) / count)
    cuts = {name: statistics.quantiles(values, n=40, method="inclusive") for name, values in drawn.items()}
    return {name: (each[0], each[-1]) for name, each in cuts.items()}


def compute_wilson_interval(part: int, whole: int) -> tuple[float, float] | None:
    """Return Wilson's 95 % score interval of `part` of `whole` observations; None for no observations.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212.

    >>> [round(end, 3) for end in compute_wilson_interval(10, 10)]
    [0.722, 1.0]
    """
    if not whole:
        return None
    share, z = part / whole, _NORMAL_QUANTILE
    spread = z * math.sqrt(share * (1 - share) / whole + z * z / (4 * whole * whole))
    middle, scale = share + z * z / (2 * whole), 1 + z * z / whole
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
