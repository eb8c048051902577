"""Fit the models of sentences that `reverie.domain.intake` applies.

A softmax regression of the classes of sentences, and a logistic one of whether a sentence of a conversation
is worth keeping, over the same hashed features. The weights are found by gradient descent (Adam, Kingma and
Ba 2015) with a penalty on their squares, and rounded to 4 bits. A sentence whose class is known in part only,
such as a fact of the people of `evaluation/training`, allows several classes: the sum of their probabilities
is fitted. The result depends on the inputs only.

Then the gates of what is said are fitted, to sentences of conversations and with little weight to those that stand
alone, by the same regression over signs that the models give: those of models that have not seen the person. The curves
to choose `LEAST` from are printed.

Usage: python scripts/fit_intake.py OUTPUT [--data FOLDER]

Needs the packages numpy and scipy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from reverie.domain.intake import (
    CLASSES,
    GATED,
    HEAD,
    MODELS,
    PLACES,
    ZERO,
    Chances,
    find_places,
    list_signs,
)

ROOT = Path(__file__).parents[1]
ROUNDS = 120
STEP = 0.08
"""Of Adam, in units of a weight."""
PENALTY = 0.03
"""Weight of the squares of the weights."""

LARGEST = 0.5
"""Share of the largest weight of a model from which on weights are rounded to the same number."""

LEAST = {"conversation": 0.62, "reply": 0.5}
"""Least probability of a sentence that is kept, by its door."""

LEAST_RULE = 0.7
"""Least probability of a rule in a conversation."""

KEPT_ALONE, RULES_ALONE = 0.05, 0.5
"""Weights in the gates of a sentence that stands alone, of what is kept and of rules."""

CLASS_SAID, WORTH_SAID = 0.5, 2
"""Weights in the models of a sentence that was said."""

PARTS = 5
"""Parts of the people; the signs of each are those of models that are fitted to the others."""

SHARE = 0.25
"""Weight of a statement that is not worth keeping, and of a fact of the people, among the classes: there are many."""

NOT_KEPT = frozenset({"request", "other", "correction"})
_KEPT = tuple(name for name in CLASSES if name not in NOT_KEPT)
_PASSING = ("request", "other")
_RULES = ("rule", "health", "preference")
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
        share: Its weight among the classes.
        group: What is kept whole when the gates are fitted; empty for a sentence that they are not fitted to.
        person: Who said it in a conversation; empty for a sentence that stands alone.
        opens: Whether it opened the conversation.
        is_rule: Whether it is a rule, a preference or about health; None if that is not known.
    """

    text: str
    classes: Collection[str]
    is_kept: bool | None
    share: float = 1
    group: str = ""
    person: str = ""
    opens: bool = True
    is_rule: bool | None = None


def read_sentences(folder: Path) -> Iterator[Labelled]:
    """Yield the labelled sentences of the evaluation's folder; none of a sealed file."""
    for file in sorted((folder / "training/intake").glob("*.jsonl")):
        for number, item in enumerate(_read_lines(file)):
            is_kept, is_rule = item["kind"] not in NOT_KEPT, item["kind"] in _RULES
            group = f"alone {number % 97}"
            yield Labelled(item["text"], (item["kind"],), is_kept, group=group, is_rule=is_rule)
    for file in sorted((folder / "training").glob("*.json")):
        for fact in json.loads(file.read_text("utf-8"))["facts"]:
            names = _OF_KIND[fact.get("kind")]
            yield Labelled(fact["text"], names, None, SHARE if fact.get("kind") is None else 1)
    for item in _read_lines(folder / "training/stores.jsonl"):
        for fact in item["facts"]:
            yield Labelled(fact["text"], _KEPT, True, SHARE, f"store {item['store']}")
    for item in _read_lines(folder / "sentences.jsonl"):
        stated = [name for each in item["states"] for name in _OF_STATEMENT.get(each, (each,))]
        others = ("profile", "fact", "request", "other")
        yield Labelled(item["text"], stated or others, True if set(stated) - NOT_KEPT else None)
    for file in sorted((folder / "training/statements").glob("*.jsonl")):
        for item in _read_lines(file):
            label = item.get("states")
            named = _OF_STATEMENT.get(label, (label,)) if label else () if item["keep"] else _PASSING
            yield Labelled(item["text"], named, bool(item["keep"]), SHARE if named is _PASSING else 1)
    for file in (folder / "training/said.jsonl", *sorted((folder / "training/chats").glob("*.jsonl"))):
        for number, item in enumerate(_read_lines(file)):
            kind, is_kept = item.get("kind"), bool(item["keep"])
            names = (kind,) if kind else _KEPT if is_kept else _PASSING
            rules = is_kept and kind in _RULES if kind else None
            person = item.get("person") or f"said {number // 40}"
            opens = bool(item["opens"])
            yield Labelled(item["text"], names, is_kept, CLASS_SAID, person, person, opens, rules)


def _read_lines(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text("utf-8").splitlines())


def fit(sentences: Sequence[Labelled]) -> tuple[Any, Any, Any]:
    """Return the constants, the weights and their scales, of the classes and of whether a sentence is worth keeping.

    A weight is a whole number of 4 bits, in units of its model's scale.
    """
    features = _count_features(sentences)
    across = features.T.tocsr()
    allowed = np.asarray([[name in item.classes for name in CLASSES] for item in sentences])
    shares = np.asarray([item.share if item.classes else 0 for item in sentences], np.float32)[:, None]
    is_kept = np.asarray([bool(item.is_kept) for item in sentences], np.float32)
    worths = np.asarray(
        [0 if item.is_kept is None else WORTH_SAID if item.person else 1 for item in sentences], np.float32
    )
    weights: Any = np.zeros((PLACES + 1, MODELS), np.float32)  # the last are the constants
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for number in range(1, ROUNDS + 1):
        scores = features @ weights[:PLACES] + weights[PLACES]
        chances = _softmax(scores[:, :-1])
        wanted = np.where(allowed, chances, 0)
        error = np.empty_like(scores)
        error[:, :-1] = (chances - wanted / (wanted.sum(1, keepdims=True) + 1e-12)) * shares
        error[:, -1] = (1 / (1 + np.exp(-scores[:, -1])) - is_kept) * worths
        slope = np.concatenate([across @ error + PENALTY * weights[:PLACES], [error.sum(0)]])
        mean *= 0.9
        mean += 0.1 * slope
        square *= 0.999
        square += 0.001 * slope**2
        weights -= STEP * (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.999**number)) + 1e-8)
    scales = LARGEST * np.abs(weights[:PLACES]).max(0) / (ZERO - 1)
    return weights[PLACES], np.clip(np.rint(weights[:PLACES] / scales), -ZERO, ZERO - 1), scales


def _softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _count_features(sentences: Sequence[Labelled]) -> Any:
    places = [sorted(find_places(item.text)) for item in sentences]
    counts = np.asarray([len(each) for each in places])
    values: Any = np.repeat(1 / np.sqrt(counts), counts).astype(np.float32)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return csr_matrix((values, np.concatenate(places), starts), shape=(len(places), PLACES))


def rate_unseen(sentences: Sequence[Labelled]) -> Any:
    """Return the signs of the sentences that have a group, by models that are not fitted to their groups."""
    groups = sorted({item.group for item in sentences if item.group})
    parts = {group: number % PARTS for number, group in enumerate(groups)}
    signs: dict[int, tuple[float, ...]] = {}
    for part in range(PARTS):
        others = [item for item in sentences if parts.get(item.group) != part]
        constants, weights, scales = fit(others)
        own = [number for number, item in enumerate(sentences) if parts.get(item.group) == part]
        scores = _count_features([sentences[number] for number in own]) @ (weights * scales) + constants
        classes, worths = _softmax(scores[:, :-1]), 1 / (1 + np.exp(-scores[:, -1]))
        for number, row, worth in zip(own, classes.tolist(), worths.tolist(), strict=True):
            text = sentences[number].text
            chances = Chances(dict(zip(CLASSES, row, strict=True)), worth, len(find_places(text)))
            signs[number] = list_signs(text, chances)
    return np.asarray([signs[number] for number in sorted(signs)])


def fit_gates(sentences: Sequence[Labelled]) -> Iterator[list[float]]:
    """Yield the weights of the signs for each door, of what is kept and of rules, and print the curves."""
    signs = rate_unseen(sentences)
    known = [item for item in sentences if item.group]
    for door in GATED:
        opens = door == "conversation"
        for name, least, share in (("kept", LEAST[door], KEPT_ALONE), ("rules", LEAST_RULE, RULES_ALONE)):
            wanted = np.asarray([item.is_kept if name == "kept" else item.is_rule for item in known])
            ways = [share if not item.person else float(item.opens is opens) for item in known]
            shares = np.asarray([0 if each is None else way for each, way in zip(wanted, ways, strict=True)])
            weights = _fit_logistic(signs[shares > 0], wanted[shares > 0].astype(float), shares[shares > 0])
            said = np.asarray([bool(item.person) for item in known]) & (shares > 0)
            _print_curve(f"{door}, {name}", signs[said] @ weights, wanted[said].astype(bool))
            weights[0] -= np.log(least / (1 - least))
            yield [float(each) for each in weights]


def _fit_logistic(signs: Any, wanted: Any, shares: Any) -> Any:
    spread: Any = np.append(1, signs[:, 1:].std(0))
    penalty: Any = np.append(0, np.ones(len(spread) - 1))
    scaled = signs / spread
    weights: Any = np.zeros(len(spread))
    for _ in range(50):  # Newton's method
        chances = 1 / (1 + np.exp(-scaled @ weights))
        slope = scaled.T @ (shares * (chances - wanted)) + penalty * weights
        curve = scaled.T @ (scaled * (shares * chances * (1 - chances))[:, None])
        weights -= np.linalg.solve(curve + np.diag(penalty), slope)
    return weights / spread


def _print_curve(name: str, scores: Any, wanted: Any) -> None:
    """Print for some least probabilities what is found, and what of 800 sentences is found wrongly."""
    for least in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
        found = scores >= np.log(least / (1 - least))
        wrong = 800 * (found & ~wanted).sum() / len(wanted)
        right = (found & wanted).sum()
        shares = f"recall {right / wanted.sum():.2f}, precision {right / max(1, found.sum()):.2f}"
        sys.stdout.write(f"{name}, least {least}: {shares}, false of 800 {wrong:.1f}\n")


def main() -> None:
    """Fit, and write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation")
    options = parser.parse_args()
    sentences = list(read_sentences(options.data))
    constants, weights, scales = fit(sentences)
    halves = np.pad(weights + ZERO, ((0, 0), (0, MODELS % 2))).astype(np.uint8)
    packed = halves[:, ::2] << 4 | halves[:, 1::2]
    gates = np.concatenate(list(fit_gates(sentences)))
    options.output.write_bytes(HEAD.pack(*constants, *scales, *gates) + packed.tobytes())


if __name__ == "__main__":
    main()
