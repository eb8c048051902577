"""An evaluation of small collections, worked out by hand: every figure is the one it has to be."""

from __future__ import annotations

import math

import pytest
from evaluation.boards.datasets import (
    Dialogue,
    Dialogues,
    DocumentCollection,
    EvalDocument,
    EvalQuestion,
    ImportedConversation,
)
from evaluation.boards.run import evaluate

from reverie.admin.transfer.batch import SOURCE_ID

GARDEN = {
    "g1": "The zucchini seedlings froze overnight.",
    "g2": "Our neighbour Ottoline repaired the greenhouse thermostat.",
    "g3": "Raspberries ripened beside the compost heap.",
    "g4": "Slugs devoured every lettuce.",
}
MUSIC = {
    "m1": "The accordion lesson moved to Thursday.",
    "m2": "Bartholomew tuned the harpsichord.",
    "m3": "A cello string snapped during rehearsal.",
    "m4": "The orchestra cancelled its matinee.",
}


def talk(name: str, said: dict[str, str], *questions: EvalQuestion) -> Dialogue:
    """Two sessions of two turns each."""
    turns = [
        {"role": "user", "content": text, "metadata": {SOURCE_ID: source}} for source, text in said.items()
    ]
    sessions = tuple(
        ImportedConversation(session=f"{name}-{n}", turns=turns[2 * n : 2 * n + 2])
        for n in range(len(turns) // 2)
    )
    return Dialogue(name=name, sessions=sessions, questions=questions)


def ask(text: str, *evidence: str, category: str = "plain") -> EvalQuestion:
    return EvalQuestion(id=text, text=text, evidence=dict.fromkeys(evidence, 1.0), category=category)


NOBODY_KNOWS = EvalQuestion(id="u", text="xylophone quixotic?", answerable=False, category="abstention")


def collection() -> Dialogues:
    return Dialogues(
        name="small",
        dialogues=(
            talk(
                "garden",
                GARDEN,
                ask("zucchini froze?", "g1", category="easy"),
                ask("greenhouse thermostat?", "g2", category="easy"),
                # The second piece of evidence has no word of the question.
                ask("lettuce devoured?", "g4", "g1", category="hard"),
                ask("unmeasured?"),
                NOBODY_KNOWS,
            ),
            talk("music", MUSIC, ask("harpsichord tuned?", "m2", category="easy")),
        ),
        dropped={"evidence naming an unknown turn": 3},
    )


def test_every_figure_of_a_small_collection() -> None:
    report = evaluate(collection(), ks=(1, 5))
    figures = report.metrics
    assert figures["questions"] == 4
    # The unanswerable one; and asked elsewhere: one about music, three about the garden.
    assert figures["unanswerable"] == 5
    assert figures["recall@1"] == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    assert figures["any@1"] == 1.0
    assert figures["all@1"] == pytest.approx(3 / 4)
    assert figures["mrr"] == 1.0
    assert figures["recall@1/category/easy"] == 1.0
    assert figures["recall@1/category/hard"] == 0.5
    assert figures["recall@1/category-mean"] == 0.75
    assert figures["questions/category/easy"] == 3
    assert figures["abstain_recall"] == pytest.approx(4 / 5)
    assert figures["abstain_precision"] == 1.0
    assert figures["answerable_empty"] == 0.0
    assert report.sizes == {"conversations": 2, "turns": 8, "unmeasured": 1}
    low, high = report.intervals["recall@1"]
    assert low <= 0.875 <= high


def test_sessions_can_be_looked_for() -> None:
    report = evaluate(collection(), unit="session", ks=(1,))
    # Evidence in two sessions: the first session found is half of it.
    assert report.metrics["recall@1"] == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    found = next(row for row in report.questions if row["id"] == "zucchini froze?" and row["answerable"])
    assert (found["found"][0], list(found["evidence"])) == ("garden-0", ["garden-0"])


def documents() -> DocumentCollection:
    return DocumentCollection(
        name="plain",
        documents=(
            *(EvalDocument(id=name, text=text) for name, text in {**GARDEN, **MUSIC}.items()),
            EvalDocument(id="m2-again", text=MUSIC["m2"]),
        ),
        questions=(
            EvalQuestion(id="1", text="zucchini froze?", evidence={"g1": 4.0}),
            EvalQuestion(id="2", text="harpsichord tuned?", evidence={"m2-again": 2.0}),
            EvalQuestion(id="3", text="unjudged"),
        ),
    )


def test_documents_share_a_memory_and_keep_their_names_when_two_say_the_same() -> None:
    report = evaluate(documents(), ks=(1, 2))
    assert report.metrics["questions"] == 2
    assert report.metrics["recall@1"] == 0.5  # the first of the two that say the same comes first
    assert report.metrics["recall@2"] == 1.0
    # Both are found, one of them in the second place, which counts 1/log2(3) whatever its grade.
    assert report.metrics["ndcg@10"] == pytest.approx((1 + 1 / math.log2(3)) / 2)
    assert report.sizes == {"documents": 9, "folded": 1, "unmeasured": 1}
    assert report.metrics["abstain_recall"] is None
