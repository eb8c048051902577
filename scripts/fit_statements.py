"""Fit the classifier of sentences that `reverie.consolidation.rules.facts` applies.

The weights are found by gradient descent (Adam, Kingma and Ba 2015) on the logistic loss with a penalty on their
squares, and rounded to 8 bits. The result depends on the inputs only.

Usage: python scripts/fit_statements.py OUTPUT [--data FOLDER] [--folds N]

Needs the package numpy.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from reverie.consolidation.rules.facts import HEAD, WEIGHTS, hash_feature, list_features

ROOT = Path(__file__).parents[1]
ROUNDS = 600
STEP = 0.01
"""Of Adam, in units of a weight."""
PENALTY = 0.1
"""Weight of the mean square of the weights of a sentence."""


def read_statements(folder: Path) -> tuple[list[list[int]], Any]:
    """Return the places of the weights of each sentence, and whether it is to be kept."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()]
    items = [json.loads(line) for line in lines]
    features = [sorted({hash_feature(each) for each in list_features(item["text"])}) for item in items]
    return features, np.asarray([item["keep"] for item in items], np.float32)


def fit(features: list[list[int]], labels: Any) -> tuple[float, Any]:
    """Return the constant and the weights."""
    rows: Any = np.repeat(np.arange(len(features)), [len(each) for each in features])
    columns = np.concatenate([np.asarray(each) for each in features])
    weights: Any = np.zeros(WEIGHTS + 1, np.float64)  # the last is the constant
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for number in range(1, ROUNDS + 1):
        total = np.bincount(rows, weights[columns], len(features)) + weights[-1]
        error = 1 / (1 + np.exp(-total)) - labels
        slope = np.bincount(columns, error[rows], WEIGHTS + 1)
        slope[-1] = error.sum()
        slope[:-1] += PENALTY * weights[:-1]
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope**2
        weights -= STEP * (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.999**number)) + 1e-8)
    return float(weights[-1]), weights[:-1]


def cross_validate(features: list[list[int]], labels: Any, folds: int) -> None:
    """Print precision and recall at several thresholds, each sentence judged by weights that have not seen it.

    Neighbours in a file are often alike but for the label, so tens of lines stay together.
    """
    place: Any = np.arange(len(features)) // 10 % folds
    rated = np.zeros(len(features))
    for fold in range(folds):
        constant, weights = fit(
            [features[number] for number in np.flatnonzero(place != fold).tolist()], labels[place != fold]
        )
        for number in np.flatnonzero(place == fold).tolist():
            rated[number] = 1 / (1 + np.exp(-constant - weights[features[number]].sum()))
    for threshold in (0.5, 0.7, 0.8, 0.85, 0.9, 0.95):
        found = rated >= threshold
        right = (found & (labels == 1)).sum()
        precision, recall = right / max(1, found.sum()), right / labels.sum()
        sys.stdout.write(f"{threshold:.2f}  precision {precision:.3f}  recall {recall:.3f}\n")
    above = (rated[labels == 1][:, None] > rated[labels == 0][None]).mean()
    sys.stdout.write(f"area under the curve {above:.3f}\n")


def main() -> None:
    """Fit, and write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation/training/statements")
    parser.add_argument("--folds", type=int, default=0, help="Cross-validate in so many parts instead.")
    options = parser.parse_args()
    features, labels = read_statements(options.data)
    if options.folds:
        cross_validate(features, labels, options.folds)
        return
    constant, weights = fit(features, labels)
    scale = float(np.abs(weights).max()) / 127
    options.output.write_bytes(
        HEAD.pack(constant, scale) + np.rint(weights / scale).astype(np.int8).tobytes()
    )


if __name__ == "__main__":
    main()
