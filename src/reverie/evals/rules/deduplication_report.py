"""What came out of `reverie eval merge`? The figures, as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reverie.domain.errors import InvalidInput
from reverie.evals.recall import metrics
from reverie.evals.rules.deduplication import (
    SETS,
    Label,
    MergePair,
    PairFigures,
    PairVerdict,
    compute_figures,
    group_figures,
    judge_pair,
    load_shipped,
    read_pairs,
)

_COLUMNS = ("pairs", "may", "fold", "wrong", "precision", "95 %", "recall", "95 %")
_MAY_FOLD: tuple[Label, Label] = ("repeats", "extends")
_LONGEST_SHOWN = 300

Judged = Mapping[str, Sequence[PairVerdict]]
"""Verdicts by the name of their set."""


def main_merge(
    path: str | Path | None = None,
    *,
    group: str | None = None,
    show_errors: bool = False,
    out: str | Path | None = None,
    console: Console | None = None,
) -> int:
    """Judge pairs, print how saving did and, if asked to, write it as JSON.

    Args:
        path: A file of your own pairs; None for the sets that come with the package.
        group: Only pairs of this group.
        show_errors: Also print every pair that was folded wrongly, and every one that might have been folded.
        out: Where to write the figures as JSON; None for nowhere.
        console: Where to print.

    Returns:
        The exit code, 0.

    Raises:
        InvalidInput: something given is wrong; nothing was measured.
    """
    console = console or Console()
    file = None if out is None else Path(out).expanduser()
    if file is not None and not file.absolute().parent.is_dir():
        raise InvalidInput(f"{file}: there is no such folder to write it to")
    sets = {name: load_shipped(name) for name in SETS} if path is None else {str(path): read_pairs(path)}
    results = {
        name: [judge_pair(pair) for pair in chosen]
        for name, pairs in sets.items()
        if (chosen := _select_group(pairs, group))
    }
    if not results:
        names = dict.fromkeys(pair.group for pairs in sets.values() for pair in pairs)
        raise InvalidInput(f"there is no group {group!r}: it is one of {', '.join(names)}")
    render(results, console, show_errors=show_errors)
    if file is not None:
        text = json.dumps(to_json(results), ensure_ascii=False, indent=1)
        try:
            file.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None
    return 0


def _select_group(pairs: Sequence[MergePair], group: str | None) -> list[MergePair]:
    return [pair for pair in pairs if group is None or pair.group == group]


def to_json(results: Judged) -> dict[str, Any]:
    """The figures of each set and each of its groups, and what became of every pair."""
    return {
        "versions": {"reverie": version("reverie")},
        "sets": {
            name: {
                "all": compute_figures(verdicts).to_dict(),
                "groups": {group: found.to_dict() for group, found in group_figures(verdicts).items()},
            }
            for name, verdicts in results.items()
        },
        "pairs": [
            {
                "id": each.pair.id,
                "set": name,
                "group": each.pair.group,
                "label": each.pair.label,
                "outcome": each.outcome,
                "right": each.right if each.folded else not each.may_fold,
            }
            for name, verdicts in results.items()
            for each in verdicts
        ],
    }


def render(results: Judged, console: Console, *, show_errors: bool) -> None:
    """Print the figures: a table on a terminal, plain lines with tabs where the output is piped."""
    rows = list(_iterate_rows(results))
    remarks = list(_iterate_remarks(results))
    if show_errors:
        remarks += _iterate_errors(results)
    if not console.is_terminal:
        lines = ["\t".join(("", *_COLUMNS)), *("\t".join(row) for row in rows), *remarks]
        console.file.write("\n".join(lines) + "\n")  # past the console, which would make spaces of the tabs
        return
    table = Table(box=None, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for line in remarks:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _iterate_rows(results: Judged) -> Iterator[tuple[str, ...]]:
    for name, verdicts in results.items():
        yield _format_row(name, compute_figures(verdicts))
    first = next(iter(results.values()))
    groups = group_figures(first)
    if len(groups) > 1:
        for group, found in groups.items():
            yield _format_row(f" {group}", found)


def _format_row(name: str, found: PairFigures) -> tuple[str, ...]:
    return (
        name,
        *(str(count) for count in (found.pairs, found.may_fold, found.folded, found.wrong)),
        *_format_share(found.right, found.folded),
        *_format_share(found.right, found.may_fold),
    )


def _format_share(part: int, whole: int) -> tuple[str, str]:
    ends = metrics.compute_wilson_interval(part, whole)
    return ("-", "-") if ends is None else (f"{part / whole:.3f}", f"{ends[0]:.2f}–{ends[1]:.2f}")


def _iterate_remarks(results: Judged) -> Iterator[str]:
    for name, verdicts in results.items():
        found = compute_figures(verdicts)
        repeats, extends = (_format_folded(verdicts, label) for label in _MAY_FOLD)
        yield (
            f"{name}: folded {repeats} that repeat, {extends} that extend; "
            f"of these the longer text stayed in {found.extended} of {found.extending}"
        )


def _format_folded(verdicts: Sequence[PairVerdict], label: Label) -> str:
    those = [each for each in verdicts if each.pair.label == label]
    return f"{sum(each.folded for each in those)} of {len(those)}"


def _iterate_errors(results: Judged) -> Iterator[str]:
    """Every pair that was folded wrongly, then every one that might have been folded and was not."""
    everything = [each for verdicts in results.values() for each in verdicts]
    for each in everything:
        if each.folded and not each.right:
            yield from _format_verdict("folded wrongly", each)
    for each in everything:
        if each.may_fold and not each.folded:
            yield from _format_verdict("not folded", each)


def _format_verdict(what: str, verdict: PairVerdict) -> tuple[str, str, str]:
    pair = verdict.pair
    old, new = (" ".join(text.split())[:_LONGEST_SHOWN] for text in (pair.old, pair.new))
    return f"{what}: {pair.id} ({pair.label})", f"  old: {old}", f"  new: {new}"
