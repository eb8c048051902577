"""Report of an evaluation: its figures, as a table and as JSON."""

from __future__ import annotations

import platform
import sqlite3
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from evaluation.boards.datasets import Dataset, EvalQuestion
from evaluation.output import compute_intervals, print_table
from reverie.evals import command
from reverie.search.hits import Unit

CATEGORY_MEAN = "category-mean"
_PACKAGES = ("reverie", "tantivy", "PyStemmer")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSetup:
    """Arguments of an evaluation.

    Attributes:
        unit: `turn` or `session`.
        ks: Depths of the rankings, ascending.
        conversations: Numbers of the conversations; None for all.
        min_score: Least score of a hit.
        embedder: The embedder of the memories.
    """

    unit: Unit
    ks: tuple[int, ...]
    conversations: tuple[int, ...] | None = None
    min_score: float = 0.0
    embedder: str = "none"

    @property
    def depth(self) -> int:
        """Number of hits of a search; nDCG needs ten."""
        return max(10, *self.ks)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalAnswer:
    """The hits for one question.

    Attributes:
        question: The question.
        answerable: Whether this memory has an answer.
        evidence: Ids of the turns, sessions or documents to find, with grades.
        ranking: Ids of the hits, best first.
        top: The score of the best hit; 0 for none.
        milliseconds: Duration of the search.
    """

    question: EvalQuestion
    answerable: bool
    evidence: Mapping[str, float]
    ranking: tuple[str, ...]
    top: float
    milliseconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """Figures of one evaluation.

    Attributes:
        dataset: The collection's name.
        setup: Arguments of the evaluation.
        sizes: Number of conversations, turns, documents, …, by name.
        dropped: Number of unusable items of the collection, by description.
        metrics: Every figure by name; `recall@10/category/2 temporal` for that category alone. None if there is
            nothing to measure.
        intervals: 95 % confidence intervals of the figures that are means over questions.
        questions: The figures of each question, without its text.
        versions: Versions of Reverie, Python and the main libraries.
    """

    dataset: str
    setup: EvalSetup
    sizes: Mapping[str, int]
    dropped: Mapping[str, int]
    metrics: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]]
    questions: tuple[Mapping[str, Any], ...]
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "dataset": {"name": self.dataset, **self.sizes, "dropped": dict(self.dropped)},
            "settings": asdict(self.setup),
            "versions": dict(self.versions),
            "metrics": {name: _round_value(value) for name, value in self.metrics.items()},
            "intervals": {name: [_round_value(end) for end in ends] for name, ends in self.intervals.items()},
            "questions": list(self.questions),
        }


def summarize_answers(
    dataset: Dataset,
    answers: Sequence[EvalAnswer],
    setup: EvalSetup,
    *,
    sizes: Mapping[str, int],
    filling: float,
) -> EvalReport:
    """Compute the figures of all answers.

    Args:
        dataset: The collection.
        answers: The answer to every question.
        setup: Arguments of the evaluation.
        sizes: Number of conversations, turns, documents, …, by name.
        filling: Seconds for filling the memories.
    """
    measured = [
        (answer, command.compute_measures(answer.ranking, answer.evidence, setup.ks))
        for answer in answers
        if answer.answerable
    ]
    figures: dict[str, float | None] = {}
    ends: dict[str, tuple[float, float]] = {}
    by_category = _group_by_category(measured)
    overall = [measures for _, measures in measured]
    for suffix, group in {"": overall, **by_category}.items():
        figures |= {f"{name}{suffix}": value for name, value in command.compute_means(group).items()}
        ends |= {f"{name}{suffix}": value for name, value in compute_intervals(group).items()}
        figures[f"questions{suffix}"] = len(group)
    if by_category:
        averages = command.compute_means([command.compute_means(group) for group in by_category.values()])
        figures |= {f"{name}/{CATEGORY_MEAN}": value for name, value in averages.items()}
    figures |= command.measure_abstention(
        [answer.answerable for answer in answers], [not answer.ranking for answer in answers]
    )
    times = [answer.milliseconds for answer in answers]
    figures |= {
        "search_p50_ms": statistics.median(times or [0.0]),
        "search_p95_ms": statistics.quantiles(times, n=20, method="inclusive")[-1] if times[1:] else 0.0,
        "fill_seconds": filling,
        "unanswerable": len(answers) - len(overall),
    }
    return EvalReport(
        dataset=dataset.name,
        setup=setup,
        sizes=sizes,
        dropped=dataset.dropped,
        metrics=figures,
        intervals=ends,
        questions=tuple(_build_row(answer, setup) for answer in answers),
        versions={
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            **{name.lower(): version(name) for name in _PACKAGES},
        },
    )


def _group_by_category(
    measured: Sequence[tuple[EvalAnswer, dict[str, float]]],
) -> dict[str, list[dict[str, float]]]:
    """Return the measures of each category, by the suffix of its figures."""
    groups: dict[str, list[dict[str, float]]] = {}
    for answer, measures in measured:
        if answer.question.category:
            groups.setdefault(f"/category/{answer.question.category}", []).append(measures)
    return dict(sorted(groups.items()))


def _build_row(answer: EvalAnswer, setup: EvalSetup) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": answer.question.id,
        "category": answer.question.category,
        "answerable": answer.answerable,
        "top": _round_value(answer.top),
        "found": list(answer.ranking),
        "evidence": dict(answer.evidence),
        "ms": _round_value(answer.milliseconds),
    }
    if answer.answerable:
        measures = command.compute_measures(answer.ranking, answer.evidence, setup.ks)
        row["measures"] = {name: _round_value(value) for name, value in measures.items()}
    return row


def _round_value(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, 6)


# -- table -------------------------------------------------------------------------------------------


def render(report: EvalReport) -> None:
    """Print the report."""
    columns = _list_columns(report.setup)
    rows, remarks = _iterate_rows(report, columns), _iterate_remarks(report)
    print_table(columns, rows, remarks, title=_format_title(report))


def _list_columns(setup: EvalSetup) -> list[str]:
    last = max((k for k in setup.ks if k <= 10), default=setup.ks[0])
    return [
        "questions",
        *(f"recall@{k}" for k in setup.ks),
        f"any@{setup.ks[0]}",
        f"all@{last}",
        "ndcg@10",
        "mrr",
    ]


def _iterate_rows(report: EvalReport, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    yield ("all", *(_format_cell(report.metrics.get(name)) for name in columns))
    suffixes = [name.removeprefix("questions") for name in report.metrics if name.startswith("questions/")]
    for suffix in suffixes:
        yield (
            suffix.removeprefix("/category/"),
            *(_format_cell(report.metrics.get(f"{name}{suffix}")) for name in columns),
        )
    if suffixes:
        mean = [_format_cell(report.metrics.get(f"{name}/{CATEGORY_MEAN}")) for name in columns]
        yield ("mean of categories", *("" if cell == "-" else cell for cell in mean))


def _format_title(report: EvalReport) -> str:
    sizes = ", ".join(f"{count:,} {name}" for name, count in report.sizes.items() if count)
    return f"{report.dataset}: {sizes}; unit {report.setup.unit}"


def _iterate_remarks(report: EvalReport) -> Iterator[str]:
    figures = report.metrics
    means = [name for name in _list_columns(report.setup) if name in report.intervals]
    yield "95 %: " + ", ".join(f"{name} {_format_interval(report.intervals[name])}" for name in means)
    yield (
        f"nothing relevant: {figures['unanswerable']:.0f} questions nobody can answer; "
        f"precision {_format_cell(figures['abstain_precision'])}, "
        f"recall {_format_cell(figures['abstain_recall'])}; "
        f"answerable but empty {_format_cell(figures['answerable_empty'])}"
    )
    yield (
        f"search p50 {figures['search_p50_ms']:.2f} ms, p95 {figures['search_p95_ms']:.2f} ms; "
        f"filled in {figures['fill_seconds']:.1f} s"
    )
    for what, count in report.dropped.items():
        yield f"not used: {count:,} {what}"


def _format_cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _format_interval(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f}–{ends[1]:.3f}"
