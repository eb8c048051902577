"""How often are the rules over sentences right? Measured on sentences labelled by meaning.

Each sentence goes the way of a turn: it is split, and `reverie.consolidation.rules` says what it states. A
correction is one that follows an answer of the assistant's. Two sets come with the package: the sentences,
with which the rules were written, and a smaller set held out, written afterwards, which has changed no rule.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reverie.consolidation import rules
from reverie.consolidation.rules import RULES, Rule, Speaker
from reverie.domain.errors import InvalidInput
from reverie.evals.recall import metrics

SETS: Mapping[str, str] = {"sentences": "sentences.jsonl", "held out": "sentences-heldout.jsonl"}
"""The sets in the package, by name."""

_FIELDS = ("id", "said", "states", "text")
_COLUMNS = ("sentences", "state it", "found", "wrong", "precision", "95 %", "recall", "95 %")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSentence:
    """A sentence of a conversation and what a reader says that it states.

    Attributes:
        id: Its name, such as `s017`.
        said: Who says it: `user`, after an answer of the assistant's, or `store_assistant`.
        states: What it states; empty for nothing.
        text: The sentence.
    """

    id: str
    said: Speaker
    states: frozenset[Rule]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceVerdict:
    """A sentence and what the rules made of it."""

    sentence: LabelledSentence
    found: frozenset[Rule]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFigures:
    """How one rule did.

    Attributes:
        sentences: How many sentences there were.
        stating: How many of them state it.
        found: How many it was found in.
        right: In how many of these rightly.
    """

    sentences: int
    stating: int
    found: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share of what was found that is so; None where nothing was found."""
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """The share of what is so that was found; None where there is none."""
        return self.right / self.stating if self.stating else None

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON has them, with their intervals."""
        return {
            "sentences": self.sentences,
            "stating": self.stating,
            "found": self.found,
            "wrong": self.found - self.right,
            "precision": self.precision,
            "precision_interval": metrics.compute_wilson_interval(self.right, self.found),
            "recall": self.recall,
            "recall_interval": metrics.compute_wilson_interval(self.right, self.stating),
        }


def load_shipped(name: str) -> tuple[LabelledSentence, ...]:
    """A set that comes with the package.

    Args:
        name: `sentences` or `held out`.
    """
    file = resources.files("reverie.evals") / "data" / SETS[name]
    return _parse_sentences(file.read_text(encoding="utf-8"), name=SETS[name])


def read_sentences(path: str | Path) -> tuple[LabelledSentence, ...]:
    """The sentences of a file of your own: one JSON object a line, with the fields of `LabelledSentence`.

    Raises:
        InvalidInput: it cannot be read, or a line is not a sentence; the message says which.
    """
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"{str(path)!r} cannot be read: {why}") from None
    return _parse_sentences(text, name=str(path))


def _parse_sentences(text: str, *, name: str) -> tuple[LabelledSentence, ...]:
    found = [
        _parse_sentence(line, at=f"{name}, line {number}")
        for number, line in enumerate(text.split("\n"), start=1)
        if line.strip()
    ]
    if not found:
        raise InvalidInput(f"{name} has no sentences: write one JSON object a line")
    often, count = Counter(each.id for each in found).most_common(1)[0]
    if count > 1:
        raise InvalidInput(f"{name} has {count} sentences {often!r}: give each an id of its own")
    return tuple(found)


def _parse_sentence(line: str, *, at: str) -> LabelledSentence:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{at} is not JSON: {error.msg}") from None
    if not isinstance(fields, dict) or sorted(fields) != sorted(_FIELDS):
        raise InvalidInput(f"{at} is no sentence: it needs {', '.join(_FIELDS)} and nothing else")
    states = fields["states"]
    if not isinstance(states, list) or not set(states) <= set(RULES):
        raise InvalidInput(f"{at} states {states!r}: pass a list of {', '.join(RULES)}")
    if fields["said"] not in {"user", "assistant"}:
        raise InvalidInput(f"{at} is said by {fields['said']!r}: it is user or assistant")
    if not all(isinstance(fields[name], str) and fields[name].strip() for name in ("id", "text")):
        raise InvalidInput(f"{at} is no sentence: id and text are texts that are not empty")
    return LabelledSentence(
        id=fields["id"], said=fields["said"], states=frozenset(states), text=fields["text"]
    )


def judge_sentence(sentence: LabelledSentence) -> SentenceVerdict:
    """What the rules make of a sentence."""
    parts = rules.split_sentences(sentence.text)
    found = frozenset(rule for part in parts for rule in rules.match_rules(part, speaker=sentence.said))
    return SentenceVerdict(sentence=sentence, found=found)


def compute_figures(results: Iterable[SentenceVerdict], rule: Rule) -> RuleFigures:
    """How a rule did, in numbers."""
    results = list(results)
    return RuleFigures(
        sentences=len(results),
        stating=sum(rule in each.sentence.states for each in results),
        found=sum(rule in each.found for each in results),
        right=sum(rule in each.found & each.sentence.states for each in results),
    )


# -- the report ------------------------------------------------------------------------------------------


def main_sentences(
    path: str | Path | None = None,
    *,
    show_errors: bool = False,
    out: str | Path | None = None,
    console: Console | None = None,
) -> int:
    """Judge sentences, print how each rule did and, if asked to, write it as JSON.

    Args:
        path: A file of your own sentences; None for the sets that come with the package.
        show_errors: Also print every sentence in which something was found wrongly, or was missed.
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
    sets = {name: load_shipped(name) for name in SETS} if path is None else {str(path): read_sentences(path)}
    results = {name: [judge_sentence(each) for each in found] for name, found in sets.items()}
    _render(results, console, show_errors=show_errors)
    if file is not None:
        text = json.dumps(to_json(results), ensure_ascii=False, indent=1)
        try:
            file.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{file}: cannot be written ({error.strerror})") from None
    return 0


def to_json(results: Mapping[str, Sequence[SentenceVerdict]]) -> dict[str, Any]:
    """The figures of each set and rule, and what was found in every sentence."""
    return {
        "versions": {"reverie": version("reverie")},
        "sets": {
            name: {rule: compute_figures(found, rule).to_dict() for rule in RULES}
            for name, found in results.items()
        },
        "sentences": [
            {
                "id": each.sentence.id,
                "set": name,
                "states": sorted(each.sentence.states),
                "found": sorted(each.found),
            }
            for name, found in results.items()
            for each in found
        ],
    }


def _render(results: Mapping[str, Sequence[SentenceVerdict]], console: Console, *, show_errors: bool) -> None:
    """Print the figures: a table on a terminal, plain lines with tabs where the output is piped."""
    rows = list(_iterate_rows(results))
    remarks = list(_iterate_remarks(results, show_errors=show_errors))
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


def _iterate_rows(results: Mapping[str, Sequence[SentenceVerdict]]) -> Iterator[tuple[str, ...]]:
    for name, found in results.items():
        yield (name, str(len(found)), *[""] * (len(_COLUMNS) - 1))
        for rule in RULES:
            how = compute_figures(found, rule)
            counts = ("", str(how.stating), str(how.found), str(how.found - how.right))
            yield (
                f" {rule}",
                *counts,
                *_format_share(how.right, how.found),
                *_format_share(how.right, how.stating),
            )


def _format_share(part: int, whole: int) -> tuple[str, str]:
    ends = metrics.compute_wilson_interval(part, whole)
    return ("-", "-") if ends is None else (f"{part / whole:.3f}", f"{ends[0]:.2f}–{ends[1]:.2f}")


def _iterate_remarks(results: Mapping[str, Sequence[SentenceVerdict]], *, show_errors: bool) -> Iterator[str]:
    for name, found in results.items():
        silent = [each for each in found if not each.sentence.states]
        wrong = sum(bool(each.found) for each in silent)
        yield f"{name}: {len(silent)} state nothing; something was found in {wrong} of them"
    if not show_errors:
        return
    for what in ("found wrongly", "missed"):
        for found in results.values():
            for each in found:
                states = each.sentence.states
                these = each.found - states if what == "found wrongly" else states - each.found
                for rule in sorted(these):
                    yield f"{what}: {rule} ({each.sentence.id}, {each.sentence.said}): {each.sentence.text}"
