"""Fit the models of sentences that `reverie.domain.intake` applies.

Two softmax regressions over the same hashed features: of the classes of sentences, and of whether a sentence of a
conversation is worth keeping. The weights are found by gradient descent (Adam, Kingma and Ba 2015) with a penalty on
their squares, and rounded to 8 bits. A sentence whose class is known in part only, such as a fact of the people of
`evaluation/training`, allows several classes: the sum of their probabilities is fitted. The result depends on the
inputs only.

Then the gates of what is said are fitted to `said.jsonl`, by the same regression over a few signs that the models
give; they are printed, for `GATES` of `reverie.domain.intake`.

Usage: python scripts/fit_intake.py OUTPUT [--data FOLDER]

Needs the package numpy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reverie.domain.intake import CLASSES, HEAD, PLACES, find_places, list_signs, rate_classes

ROOT = Path(__file__).parents[1]
ROUNDS = 120
STEP = 0.08
"""Of Adam, in units of a weight."""
PENALTY = 0.02
"""Weight of the squares of the weights."""

LEAST = {"conversation": 0.33, "reply": 0.4}
"""Least probability of a sentence that is kept, by its door."""

SHARE = 0.25
"""Weight of a statement that is not worth keeping, and of a fact of the people, among the classes: there are many."""

NOT_KEPT = frozenset({"request", "other", "correction"})
_KEPT = tuple(name for name in CLASSES if name not in NOT_KEPT)
_PASSING = ("request", "other")
_OF_KIND = {
    "preference": ("rule",),
    "constraint": ("rule", "health"),
    "decision": ("decision",),
    "fix": ("fix",),
    "lesson": ("lesson",),
    "fact": ("fact", "profile"),
    None: ("profile", "fact"),
}
"""Classes of a fact of the people in the training data, by its kind: what they call a preference is a rule."""
_OF_STATEMENT = {"constraint": ("rule",), "preference": ("rule", "preference")}


class Labelled(NamedTuple):
    """A sentence with its label.

    Attributes:
        classes: Classes that it may have; empty if its class is not fitted to.
        is_kept: Whether it is worth keeping; None if that is not fitted to.
    """

    text: str
    classes: Collection[str]
    is_kept: bool | None


def read_sentences(folder: Path) -> Iterator[Labelled]:
    """Yield the labelled sentences of the evaluation's folder; none of a sealed file."""
    for file in sorted((folder / "training/intake").glob("*.jsonl")):
        for item in _read_lines(file):
            yield Labelled(item["text"], (item["kind"],), item["kind"] not in NOT_KEPT)
    for file in sorted((folder / "training").glob("*.json")):
        for fact in json.loads(file.read_text("utf-8"))["facts"]:
            yield Labelled(fact["text"], _OF_KIND[fact.get("kind")], None)
    for item in _read_lines(folder / "sentences.jsonl"):
        stated = [name for each in item["states"] for name in _OF_STATEMENT.get(each, (each,))]
        others = ("profile", "fact", "request", "other")
        yield Labelled(item["text"], stated or others, True if set(stated) - NOT_KEPT else None)
    for file in sorted((folder / "training/statements").glob("*.jsonl")):
        for item in _read_lines(file):
            label = item.get("states")
            named = _OF_STATEMENT.get(label, (label,)) if label else () if item["keep"] else _PASSING
            yield Labelled(item["text"], named, bool(item["keep"]))


def _read_lines(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text("utf-8").splitlines())


def fit(features: Sequence[Sequence[int]], allowed: Any, shares: Any) -> tuple[Any, Any]:
    """Return the constants and the weights of a softmax regression.

    Args:
        features: The places of the weights of each sentence.
        allowed: For each sentence and class, whether it may have it.
        shares: Weight of each sentence.
    """
    counts = np.asarray([len(each) for each in features])
    rows: Any = np.repeat(np.arange(len(features)), counts)
    columns: Any = np.concatenate([np.asarray(each, np.int32) for each in features])
    values: Any = np.repeat(1 / np.sqrt(counts), counts)
    classes = allowed.shape[1]
    weights: Any = np.zeros((PLACES + 1, classes))  # the last are the constants
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for number in range(1, ROUNDS + 1):
        scores = [np.bincount(rows, weights[columns, k] * values, len(features)) for k in range(classes)]
        chances = _softmax(np.stack(scores, 1) + weights[PLACES])
        wanted = np.where(allowed, chances, 0)
        error = (chances - wanted / (wanted.sum(1, keepdims=True) + 1e-12)) * shares[:, None]
        slope = np.empty_like(weights)
        for k in range(classes):
            slope[:PLACES, k] = np.bincount(columns, error[rows, k] * values, PLACES)
        slope[PLACES] = error.sum(0)
        slope[:PLACES] += PENALTY * weights[:PLACES]
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope**2
        weights -= STEP * (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.999**number)) + 1e-8)
    return weights[PLACES], weights[:PLACES]


def _softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def fit_gates(folder: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield the weights of the signs for each door of a conversation; a sentence above `LEAST` is kept."""
    items = list(_read_lines(folder / "training/said.jsonl"))
    for opens, (door, least) in enumerate(LEAST.items()):
        rows = [each for each in items if each["opens"] != opens]
        signs = np.asarray([list_signs(each["text"], rate_classes(each["text"])) for each in rows])
        wanted = np.asarray([each["keep"] for each in rows])
        spread: Any = np.append(1, signs[:, 1:].std(0))
        penalty: Any = np.append(0, np.ones(len(spread) - 1))
        weights: Any = np.zeros(len(spread))
        for _ in range(50):  # Newton's method
            chances = 1 / (1 + np.exp(-signs / spread @ weights))
            slope = (signs / spread).T @ (chances - wanted) + penalty * weights
            curve = (signs / spread).T @ (signs / spread * (chances * (1 - chances))[:, None])
            weights -= np.linalg.solve(curve + np.diag(penalty), slope)
        weights /= spread
        weights[0] -= np.log(least / (1 - least))
        yield door, [round(float(each), 2) for each in weights]


def main() -> None:
    """Fit, and write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation")
    options = parser.parse_args()
    sentences = list(read_sentences(options.data))
    features = [sorted(find_places(item.text)) for item in sentences]
    of_class = [number for number, item in enumerate(sentences) if item.classes]
    of_worth = [number for number, item in enumerate(sentences) if item.is_kept is not None]
    allowed = np.asarray([[name in sentences[number].classes for name in CLASSES] for number in of_class])
    is_kept = np.asarray([[not sentences[number].is_kept, sentences[number].is_kept] for number in of_worth])
    many = (_PASSING, _OF_KIND[None])
    shares = np.asarray(
        [SHARE if any(sentences[k].classes is each for each in many) else 1.0 for k in of_class]
    )
    constants, weights = fit([features[number] for number in of_class], allowed, shares)
    two, of_two = fit([features[number] for number in of_worth], is_kept, np.ones(len(of_worth)))
    constants = np.append(constants, two[1] - two[0])
    weights = np.column_stack([weights, of_two[:, 1] - of_two[:, 0]])
    scales = np.abs(weights).max(0) / 127
    rounded = (np.rint(weights / scales) + 128).astype(np.uint8)
    options.output.write_bytes(HEAD.pack(*constants, *scales) + rounded.tobytes())
    for door, gate in fit_gates(options.data):
        sys.stdout.write(f"{door}: {tuple(gate)}\n")


if __name__ == "__main__":
    main()
