"""Fit the coefficients by which `reverie.search.reranking` scores the first candidates anew.

Every question of `evaluation/training` is asked by words. Its candidates, records and messages together, are
examples: those that answer it against the others. The coefficients are found by gradient descent (Adam, Kingma and Ba
2015) on the cross-entropy of the answers among the candidates of a question, with a small penalty on their squares. All
types of questions weigh the same.

Written are the coefficients. Printed is, as the mean over the types, how often an answer stands first and among the
first five: by the scores as they were, and in five-fold cross-validation over people.

Usage: python scripts/fit_reranking.py OUTPUT [--data FOLDER]

Needs numpy. Takes about two minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from fit_fusion import fit_choices

from reverie.search import passage_scorer, reranking
from reverie.search.reranking import Quantities
from reverie.stores.protocol import read_or_none

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evaluation.measures.questions import (  # noqa: E402
    LIMIT,
    Persona,
    PersonaQuestion,
    open_persona,
    read_personas,
)

PARTS = 5
ROUNDS = 400
PENALTY = 1e-3
MESSAGE = Quantities._fields.index("message")
ADDED = 0.75
"""Added to the fitted coefficient of messages, which hold few answers here: then .79 of the questions for
conversations have one among the first five in place of .72, and the others lose .01."""


class Asked(NamedTuple):
    """Candidates of one question, best first.

    Attributes:
        person: Name of the one who asks.
        question: The question.
        quantities: One row for each candidate.
        names: For each the fact or turn that it is, or that it was learned from.
    """

    person: str
    question: PersonaQuestion
    quantities: Any
    names: Sequence[str | None]

    @property
    def answers(self) -> Any:
        """Whether each candidate answers the question."""
        return np.array([name in self.question.answers for name in self.names], bool)


def main(arguments: Sequence[str]) -> int:
    """Write the coefficients that fit the questions, print how well they do, and return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the coefficients of the second scores.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation" / "training")
    options = parser.parse_args(arguments)
    personas = read_personas(options.data)
    asked = [each for persona in personas for each in collect_candidates(persona)]
    people = [persona.name for persona in personas]
    before = np.eye(len(Quantities._fields))[0]
    held_out = []
    for part in range(PARTS):
        others = fit([each for each in asked if each.person not in people[part::PARTS]])
        held_out += [(each, others) for each in asked if each.person in people[part::PARTS]]
    for title, rated in (("before", [(each, before) for each in asked]), ("cross-validation", held_out)):
        first, five = rate(rated)
        sys.stdout.write(f"{title}: first {first:.3f}, among five {five:.3f}\n")
    weights = fit(asked)
    weights[MESSAGE] += ADDED
    old, new = (rank_scores(asked, each) for each in (before, weights))
    scale = (old[0] - old[1]) / (new[0] - new[1])
    settings = {
        "weights": dict(zip(Quantities._fields, weights.round(3).tolist(), strict=True)),
        "constant": round(old[0] - scale * new[0], 3),
        "scale": round(scale, 3),
    }
    options.output.write_text(json.dumps(settings, indent=1) + "\n", "utf-8")
    return 0


def collect_candidates(persona: Persona) -> list[Asked]:
    """Return the candidates of all questions of a person that have an answer."""
    collected = []
    with open_persona(persona) as (memory, names):
        for question in persona.questions:
            rows: list[tuple[Quantities, str | None]] = []
            with collect_rows(rows, names):
                memory.search(question.text, sources=("records", "turns"), limit=LIMIT)
            if question.answers and rows:
                rows.sort(key=lambda row: -row[0].score)
                quantities, found = zip(*rows, strict=True)
                collected.append(Asked(persona.name, question, np.array(quantities, float), found))
    return collected


@contextmanager
def collect_rows(rows: list[tuple[Quantities, str | None]], names: dict[str, str]) -> Iterator[None]:
    """Add the quantities and the name of each candidate of a search until the block ends."""
    score, measure = passage_scorer.PassageScorer.score, reranking.measure_candidates
    kinds = set()

    def score_and_collect(self: Any, subject: Any, *args: Any) -> Any:
        def remember(candidates: Any) -> Any:
            measured = measure(candidates)
            if subject not in kinds:  # not again with more candidates
                kinds.add(subject)
                read = self.store.turns if subject == "turn" else self.store.records
                values = read_or_none(read, [ranked.key for ranked, _ in candidates])
                found = [names.get(value.id) if value else None for value in values]
                rows.extend(zip(measured, found, strict=True))
            return measured

        with mock.patch.object(reranking, "measure_candidates", remember):
            return score(self, subject, *args)

    with mock.patch.object(passage_scorer.PassageScorer, "score", score_and_collect):
        yield


def fit(questions: Sequence[Asked]) -> Any:
    """Return the coefficients that fit the questions; all types of questions weigh the same."""
    questions = [asked for asked in questions if asked.answers.any()]
    counts = Counter(asked.question.type for asked in questions)
    weights = np.array([1 / counts[asked.question.type] for asked in questions]) / len(counts)
    rows, answers = [each.quantities for each in questions], [each.answers for each in questions]
    return fit_choices(rows, answers, weights, rounds=ROUNDS, penalty=PENALTY)


def rank_scores(questions: Sequence[Asked], weights: Any) -> tuple[float, float]:
    """Return the mean of the best sums of the questions, and that of the last sums among the first."""
    sums = [np.sort(asked.quantities @ weights)[::-1] for asked in questions if len(asked.names) >= LIMIT]
    best, last = np.mean([(each[0], each[LIMIT - 1]) for each in sums], axis=0)
    return float(best), float(last)


def rate(rated: Sequence[tuple[Asked, Any]]) -> tuple[float, float]:
    """Return the share of answers that stand first and among the first five, as the mean over types of questions."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for asked, weights in rated:
        order = np.argsort(-(asked.quantities @ weights), kind="stable")
        names = [asked.names[place] for place in order if asked.names[place]]
        answers = asked.question.answers
        wanted = len(answers) if asked.question.wants_all else 1
        first, five = (len(answers.intersection(names[:most])) for most in (1, LIMIT))
        found[asked.question.type].append((min(1.0, first / wanted), min(1.0, five / wanted)))
    first, five = np.mean([np.mean(each, axis=0) for each in found.values()], axis=0)
    return float(first), float(five)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
