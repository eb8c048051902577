"""Test collections become conversations or documents and questions, and what cannot be used is counted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evaluation.boards import beam, cranfield, locomo, trec
from evaluation.boards.datasets import Dialogues, EvalDocument, map_turn_sessions


def put(folder: Path, **files: str) -> Path:
    """Files by name; `__` stands for a dot, `___` for a folder."""
    for name, text in files.items():
        file = folder / name.replace("___", "/").replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


# -- LoCoMo ------------------------------------------------------------------------------------------


def sample(**questions: Any) -> dict[str, Any]:
    def turn(speaker: str, number: str, text: str) -> dict[str, str]:
        return {"speaker": speaker, "dia_id": number, "text": text}

    return {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ana",
            "speaker_b": "Ben",
            "session_1_date_time": "9:00 am on 2 January, 2022",
            "session_1": [turn("Ana", "D1:1", "I keep bees."), turn("Ben", "D1:2", "Since when?")],
            "session_2_date_time": "9:00 am on 3 January, 2022",
            "session_2": [turn("Ana", "D2:1", "Since May.")],
        },
        "qa": [{"question": question, **rest} for question, rest in questions.items()],
    }


def read_locomo(path: Path, *samples: Any) -> Dialogues:
    file = path / "talk.json"
    file.write_text(json.dumps(list(samples)), encoding="utf-8")
    return locomo.read(file)


def test_locomo_questions_have_evidence_and_the_names_of_their_categories(tmp_path: Path) -> None:
    data = read_locomo(
        tmp_path,
        sample(
            keeps={"evidence": ["D1:1"], "category": 4},
            since={"evidence": ["D1:1", "D2:1"], "category": 1, "answer": 2022},
        ),
    )
    (dialogue,) = data.dialogues
    assert [(q.id, q.text, q.category, dict(q.evidence)) for q in dialogue.questions] == [
        ("0/0", "keeps", "4 single-hop", {"D1:1": 1.0}),
        ("0/1", "since", "1 multi-hop", {"D1:1": 1.0, "D2:1": 1.0}),
    ]
    assert (data.name, dialogue.name, dict(data.dropped)) == ("talk", "conv-1", {})
    assert map_turn_sessions(dialogue) == {
        "D1:1": "locomo:0:session_1",
        "D1:2": "locomo:0:session_1",
        "D2:1": "locomo:0:session_2",
    }


# -- BEAM --------------------------------------------------------------------------------------------


def chat(path: Path, name: str = "1", **change: Any) -> Path:
    batches = [
        {
            "batch_number": 1,
            "turns": [
                [
                    {"role": "user", "id": 0, "content": "I bake bread.", "time_anchor": "March-05-2023"},
                    {"role": "assistant", "id": 1, "content": "Which sort?"},
                ],
                [{"role": "user", "id": 2, "content": "Rye."}],
            ],
        },
        {"batch_number": 2, "turns": [[{"role": "user", "id": 3, "content": "And cakes."}]]},
    ]
    questions = {
        "abstention": [{"question": "Do I sail?"}],
        "update": [{"question": "What do I bake?", "source_chat_ids": {"old": [0, 2], "new": [3, 3]}}],
        "order": [{"question": "Which bread?", "source_chat_ids": [2, 99]}],
    }
    folder = path / name
    folder.mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(change.get("chat", batches)))
    (folder / "probing_questions.json").write_text(json.dumps(change.get("questions", questions)))
    return folder


def test_beam_chats_have_a_session_for_each_batch(tmp_path: Path) -> None:
    data = beam.read(chat(tmp_path))
    (dialogue,) = data.dialogues
    first, second = dialogue.sessions
    assert (first.session, second.session) == ("beam:1:batch_1", "beam:1:batch_2")
    assert [turn["content"] for turn in first.turns] == ["I bake bread.", "Which sort?", "Rye."]
    said = {"role": "assistant", "content": "Which sort?", "metadata": {"source_id": "1"}}
    assert first.turns[1] == said | {"at": datetime(2023, 3, 5, 9, 0, 10, tzinfo=UTC)}
    assert "at" not in second.turns[0]


def test_beam_questions_have_evidence_in_lists_or_lists_by_name(tmp_path: Path) -> None:
    data = beam.read(chat(tmp_path))
    found = [(q.id, q.category, q.answerable, list(q.evidence)) for q in data.dialogues[0].questions]
    assert found == [
        ("1/abstention/0", "abstention", False, []),
        ("1/update/0", "update", True, ["0", "2", "3"]),
        ("1/order/0", "order", True, ["2"]),
    ]
    assert dict(data.dropped) == {"evidence naming an unknown message": 1}


# -- Cranfield ---------------------------------------------------------------------------------------

CRANFIELD = {
    "cran__all__1400": """.I 1
.T
lift of a
kite .
.A
someone
.B
a journal
.W
lift of a
kite .
  a kite is lifted by wind .
.I 2
.T
drag
.A
.B
.W
.I 3
.T
.A
.B
.W
""",
    "cran__qry": """.I 007
.W
what lifts
a kite
.I 012
.W
what is drag
""",
    "cranqrel": "1 1 1\n1 2 4\n2 2 -1\n2 3 2\n2 1 3 \n",
}


def test_cranfield_numbers_questions_by_their_order_and_takes_texts_as_they_stand(tmp_path: Path) -> None:
    data = cranfield.read(put(tmp_path, **CRANFIELD))
    assert data.documents == (
        EvalDocument(id="1", text="lift of a kite . lift of a kite . a kite is lifted by wind ."),
        EvalDocument(id="2", text="drag"),
    )
    assert [(q.id, q.text, dict(q.evidence)) for q in data.questions] == [
        ("1", "what lifts a kite", {"1": 1.0, "2": 1.0}),
        ("2", "what is drag", {"1": 1.0}),
    ]
    assert dict(data.dropped) == {
        "judgements of no relevance": 1,
        "judgements of documents that are missing or empty": 1,
    }


# -- TREC and BEIR -----------------------------------------------------------------------------------

BEIR = {
    "corpus__jsonl": '{"_id": "a", "title": "Kites", "text": "fly"}\n'
    '{"_id": "b", "title": "", "text": "Boats sail"}\n',
    "queries__jsonl": '{"_id": "q1", "text": "what flies"}\n{"_id": "q2", "text": "what sails"}\n',
    "qrels___test__tsv": "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\tb\t1\nq9\tb\t1\nq2\tz\t1\n",
}


def test_beir_folders_are_read(tmp_path: Path) -> None:
    data = trec.read(put(tmp_path, **BEIR))
    assert data.documents == (
        EvalDocument(id="a", text="Kites\nfly"),
        EvalDocument(id="b", text="Boats sail"),
    )
    assert [(q.id, q.text, dict(q.evidence)) for q in data.questions] == [
        ("q1", "what flies", {"a": 2.0}),
        ("q2", "what sails", {"b": 1.0}),
    ]
    assert dict(data.dropped) == {
        "judgements of no relevance": 1,
        "judgements of questions that are missing": 1,
        "judgements of documents that are missing or empty": 1,
    }
