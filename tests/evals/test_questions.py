"""Natural questions: the collection is well formed, and the figures are computed as they are described."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evaluation.measures.questions import (
    PersonaQuestion,
    QuestionResult,
    ask_fts5,
    ask_questions,
    read_personas,
)

COLLECTION = Path(__file__).parents[2] / "evaluation" / "questions"
TYPES = {
    "conversation", "date", "direct", "instruction", "list", "negation",
    "nothing", "paraphrase", "short_word", "typo_or_sound", "update", "word_form",
}  # fmt: skip


@pytest.mark.parametrize("sealed", [False, True])
def test_every_answer_of_the_collection_is_a_fact_or_a_turn(sealed: bool) -> None:
    personas = read_personas(COLLECTION, sealed=sealed)
    assert len(personas) == 5
    for persona in personas:
        ids: list[str] = []
        for _, event in persona.events:
            ids += [turn["id"] for turn in event["turns"]] if "turns" in event else [event["id"]]
        assert len(ids) == len(set(ids))
        assert {question.type for question in persona.questions} == TYPES
        for question in persona.questions:
            assert (question.answers | question.outdated) <= set(ids), (persona.name, question.id)
            assert bool(question.answers) == (question.type != "nothing"), (persona.name, question.id)


def test_a_persona_is_asked_with_reverie_and_with_fts5(tmp_path: Path) -> None:
    persona = {
        "language": "en",
        "today": "2026-03-01T09:00:00+00:00",
        "facts": [
            {"id": "f1", "text": "Ana drives a grey Skoda", "saved_at": "2026-01-01T09:00:00+00:00"},
            {"id": "f2", "text": "Ana is allergic to peanuts", "saved_at": "2026-01-02T09:00:00+00:00"},
        ],
        "conversations": [
            {
                "id": "c1",
                "started_at": "2026-02-01T09:00:00+00:00",
                "turns": [{"id": "c1.1", "role": "user", "text": "The plumber comes on Thursday."}],
            }
        ],
        "questions": [
            {"id": "q1", "type": "direct", "text": "who drives a Skoda?", "answers": ["f1"]},
            {"id": "q2", "type": "conversation", "text": "when does the plumber come?", "answers": ["c1.1"]},
            {"id": "q3", "type": "nothing", "text": "zebra crossing?", "answers": []},
        ],
    }
    (tmp_path / "ana.json").write_text(json.dumps(persona), "utf-8")
    (read,) = read_personas(tmp_path)
    found = {result.question.id: result for result in ask_questions(read)}
    assert found["q1"].found[0] == "f1"
    assert "f1" in (found["q1"].prompt.is_marked)
    assert found["q2"].found[0] == "c1.1"
    assert found["q3"].found == ()
    by_words = {result.question.id: result for result in ask_fts5(read)}
    assert by_words["q1"].found[0] == "f1"
    assert by_words["q3"].found == ()


def build_result(found: tuple[str, ...], answers: set[str], **more: object) -> QuestionResult:
    question = PersonaQuestion(
        id="q",
        type="x",
        text="?",
        answers=frozenset(answers),
        wants_all=bool(more.get("wants_all")),
        outdated=frozenset(more.get("outdated", ())),  # type: ignore[call-overload]
    )
    return QuestionResult(question=question, persona="p", found=found)


def test_one_of_several_answers_is_enough_and_a_list_wants_all() -> None:
    assert build_result(("a", "b"), {"b", "c"}).recall(5) == 1.0
    assert build_result(("a", "b"), {"b", "c"}).recall(1) == 0.0
    assert build_result(("a", "b"), {"b", "c"}, wants_all=True).recall(5) == 0.5
