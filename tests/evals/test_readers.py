"""Test collections become conversations or documents and questions, and what cannot be used is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from evaluation.boards import beam, cranfield, locomo, trec
from evaluation.boards.datasets import (
    Dialogues,
    DocumentCollection,
    EvalDocument,
    map_turn_sessions,
)
from evaluation.boards.readers import read_dataset

from reverie.domain.errors import InvalidInput


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


TALK = sample()["conversation"]


def read_locomo(path: Path, *samples: Any) -> Dialogues:
    file = path / "talk.json"
    file.write_text(json.dumps(list(samples)), encoding="utf-8")
    return locomo.read(file)


def test_locomo_sessions_have_roles_captions_and_times_in_numeric_order(tmp_path: Path) -> None:
    talk = TALK | {
        "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "Look!", "blip_caption": "a shed"}],
        "session_10_date_time": "12:05 am on 3 March, 2022",
        "session_11_date_time": "2:00 pm on 9 May, 2022",
    }
    (dialogue,) = read_locomo(tmp_path, {"conversation": talk, "qa": []}).dialogues
    assert [each.session for each in dialogue.sessions] == [
        f"locomo:0:session_{k}" for k in (1, 2, 10)
    ]  # fmt: skip
    assert dialogue.sessions[-1].turns == [
        {
            "role": "assistant",
            "content": "Look! [shares a picture: a shed]",
            "speaker": "Ben",
            "metadata": {"source_id": "D10:1"},
            "at": datetime(2022, 3, 3, 0, 5, tzinfo=UTC),
        }
    ]
    assert dialogue.sessions[0].turns[1]["at"] == datetime(2022, 1, 2, 9, 0, 10, tzinfo=UTC)


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


def test_locomo_evidence_may_be_dirty(tmp_path: Path) -> None:
    data = read_locomo(
        tmp_path,
        sample(
            several={"evidence": ["D1:1; D2:1"], "category": 2},
            zeros={"evidence": ["D1:02"], "category": 2},
            twice={"evidence": ["D1:1", "d1:1"], "category": 2},
            cut={"evidence": ["D", "D1:1"], "category": 2},
            unknown={"evidence": ["D9:9"], "category": 2},
            none={"category": 5},
        ),
    )
    evidence = {question.text: list(question.evidence) for question in data.dialogues[0].questions}
    assert evidence == {
        "several": ["D1:1", "D2:1"],
        "zeros": ["D1:2"],
        "twice": ["D1:1"],
        "cut": ["D1:1"],
        "unknown": [],
        "none": [],
    }
    assert dict(data.dropped) == {"evidence that names no turn": 1, "evidence naming an unknown turn": 1}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"conversation": None}, "sample 1: there is no 'conversation'"),
        ({"qa": 7}, "sample 1: 'qa' is no list"),
        ({"qa": [{"evidence": []}]}, "sample 1, question 0: there is no 'question'"),
        ({"qa": [{"question": "q", "evidence": "D1:1"}]}, "question 0: 'evidence' is no list"),
        ({"conversation": TALK | {"session_1": {}}}, "session_1: dict instead of a list"),
        ({"conversation": TALK | {"session_1_date_time": "yesterday"}}, "session_1: the date is 'yesterday'"),
        (
            {"conversation": TALK | {"session_2": [{"speaker": "Ana", "text": "x"}]}},
            "session_2, turn 0: it needs",
        ),
        (
            {"conversation": TALK | {"session_2": [{"speaker": "Cy", "dia_id": "D2:1", "text": "x"}]}},
            "'Cy' is neither",
        ),
    ],
)
def test_a_fault_in_locomo_is_named_with_its_place(tmp_path: Path, broken: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_locomo(tmp_path, sample(), sample() | broken)
    assert str(tmp_path / "talk.json") in str(raised.value)
    assert why in str(raised.value)


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
    assert first.turns[1] == {
        "role": "assistant",
        "content": "Which sort?",
        "metadata": {"source_id": "1"},
        "at": datetime(2023, 3, 5, 9, 0, 10, tzinfo=UTC),
    }
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


def test_beam_chats_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("10", "2", "1"):
        chat(tmp_path, name)
    assert [dialogue.name for dialogue in beam.read(tmp_path).dialogues] == ["1", "2", "10"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"chat": {}}, "chat.json: expected a list of batches"),
        ({"chat": [{"turns": [{}]}]}, "chat.json, batch 1: 'turns' is no list of lists"),
        ({"chat": [{"turns": [[{"role": "user", "content": "x"}]]}]}, "batch 1, message 0: it needs"),
        ({"chat": [{"turns": [[{"role": "king", "id": 1, "content": "x"}]]}]}, "role is 'king'"),
        ({"chat": [{"turns": [], "time_anchor": "soon"}]}, "time_anchor is 'soon'"),
        ({"questions": []}, "probing_questions.json: expected an object"),
        ({"questions": {"a": {}}}, "'a': expected a list"),
        ({"questions": {"a": [{}]}}, "1/a/0: there is no 'question'"),
        ({"questions": {"a": [{"question": "q", "source_chat_ids": 0.5}]}}, "1/a/0: source_chat_ids has 0.5"),
    ],
)
def test_a_fault_in_beam_is_named_with_its_place(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    folder = chat(tmp_path, **change)
    with pytest.raises(InvalidInput) as raised:
        beam.read(folder)
    assert str(folder) in str(raised.value)
    assert why in str(raised.value)


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


def test_cranfield_judgements_in_four_columns_are_grades_already(tmp_path: Path) -> None:
    folder = put(tmp_path, **CRANFIELD | {"cranqrel": "1 0 1 3\n1 0 2 0\n"})
    assert dict(cranfield.read(folder).questions[0].evidence) == {"1": 3.0}


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("cranqrel", "1 1 1\n1 one 1\n", "cranqrel, line 2: expected 'question document code'"),
        ("cranqrel", "1 1\n", "cranqrel, line 1: expected"),
        ("cranqrel", "3 1 1\n", "cranqrel, line 1: there is no question 3"),
        ("cran__qry", "what\n", "cran.qry, line 1: text outside a section"),
        ("cran__all__1400", "", "cran.all.1400: no entry"),
    ],
)
def test_a_fault_in_cranfield_is_named_with_its_place(tmp_path: Path, file: str, text: str, why: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        cranfield.read(put(tmp_path, **CRANFIELD | {file: text}))
    assert why in str(raised.value)


def test_a_missing_cranfield_file_is_named(tmp_path: Path) -> None:
    put(tmp_path, **CRANFIELD)
    (tmp_path / "cranqrel").unlink()
    with pytest.raises(InvalidInput, match="cranqrel: cannot be read"):
        cranfield.read(tmp_path)


# -- TREC and BEIR -----------------------------------------------------------------------------------

BEIR = {
    "corpus__jsonl": '{"_id": "a", "title": "Kites", "text": "fly"}\n'
    '{"_id": "b", "title": "", "text": "Boats sail"}\n',
    "queries__jsonl": '{"_id": "q1", "text": "what flies"}\n{"_id": "q2", "text": "what sails"}\n',
    "qrels___test__tsv": "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\tb\t1\nq9\tb\t1\nq2\tz\t1\n",
}
TREC = {
    "documents__trec": "<DOC>\n<DOCNO> a </DOCNO>\n<HEADLINE>Kites</HEADLINE>\n"
    "<TEXT>fly &amp; <b>soar</b></TEXT>\n<NOISE>no</NOISE></DOC>\n<DOC><DOCNO>b</DOCNO>Boats\nsail</DOC>",
    "topics__trec": "<top>\n<num> Number: 301\n<title> what flies\n<desc> Description:\nlonger\n</top>\n"
    "<top><num>302</num><title></title><desc>what sails</desc></top>",
    "qrels__trec": "301 0 a 2\n301 0 b 0\n302 Q0 b 1\n",
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


def test_trec_folders_are_read(tmp_path: Path) -> None:
    data = trec.read(put(tmp_path, **TREC))
    assert data.documents == (
        EvalDocument(id="a", text="Kites fly & soar"),
        EvalDocument(id="b", text="Boats sail"),
    )
    assert [(q.id, q.text, dict(q.evidence)) for q in data.questions] == [
        ("301", "what flies", {"a": 2.0}),
        ("302", "what sails", {"b": 1.0}),
    ]


def test_older_collections_are_in_latin_1(tmp_path: Path) -> None:
    put(tmp_path, **TREC)
    text = "<DOC><DOCNO>a</DOCNO><TEXT>café</TEXT></DOC>"
    (tmp_path / "documents.trec").write_bytes(text.encode("latin-1"))
    assert trec.read(tmp_path).documents == (EvalDocument(id="a", text="café"),)


def test_documents_may_lie_in_a_folder_in_both_forms(tmp_path: Path) -> None:
    files = {
        "docs___a__jsonl": '{"docno": "a", "text": "one"}\n\n{"id": 7, "text": ""}',
        "docs___deep___b__sgml": "<DOC><DOCNO>b</DOCNO><TEXT>two</TEXT></DOC>",
        "queries__jsonl": BEIR["queries__jsonl"],
        "qrels__txt": "q1 0 a 1\n",
    }
    data = trec.read(put(tmp_path, **files))
    assert data.documents == (EvalDocument(id="a", text="one"), EvalDocument(id="b", text="two"))
    assert dict(data.dropped) == {"documents without any text": 1}


@pytest.mark.parametrize(
    ("files", "file", "text", "why"),
    [
        (BEIR, "corpus__jsonl", '{"_id": "a", "text": "x"}\n{', "corpus.jsonl, line 2: not JSON"),
        (
            BEIR,
            "corpus__jsonl",
            '[]\n{"_id": "a", "text": "x"}',
            "corpus.jsonl, line 1: a list instead of an object",
        ),
        (BEIR, "corpus__jsonl", '{"text": "x"}', "corpus.jsonl, line 1: no id"),
        (BEIR, "corpus__jsonl", '{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}', "'a' is there twice"),
        (BEIR, "corpus__jsonl", "", "no documents"),
        (BEIR, "queries__jsonl", '{"_id": "q"}', "queries.jsonl, line 1: there is no 'text'"),
        (BEIR, "qrels___test__tsv", "q1\ta\tmany\n", "test.tsv, line 1: expected"),
        (BEIR, "qrels___test__tsv", "q1 1\n", "test.tsv, line 1: expected"),
        (TREC, "documents__trec", "<DOC>x</DOC>", "documents.trec, document 1: there is no <DOCNO>"),
        (TREC, "topics__trec", "<top><num>1</num></top>", "topics.trec, topic 1"),
        (TREC, "topics__trec", "nothing", "topics.trec: no questions"),
    ],
)
def test_a_fault_in_trec_is_named_with_its_place(
    tmp_path: Path, files: dict[str, str], file: str, text: str, why: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        trec.read(put(tmp_path, **files | {file: text}))
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        ("corpus.jsonl", "no documents: looked for corpus.jsonl"),
        ("queries.jsonl", "no questions: looked for queries.jsonl"),
        ("qrels/test.tsv", "no judgements: looked for qrels/test.tsv"),
    ],
)
def test_a_missing_trec_file_is_told_with_the_names_looked_for(
    tmp_path: Path, missing: str, why: str
) -> None:
    put(tmp_path, **BEIR)
    (tmp_path / missing).unlink()
    with pytest.raises(InvalidInput) as raised:
        trec.read(tmp_path)
    assert why in str(raised.value)


# -- choosing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: put(path, talk__json=json.dumps([sample()])) / "talk.json", Dialogues),
        (chat, Dialogues),
        (lambda path: chat(path).parent, Dialogues),
        (lambda path: put(path, **CRANFIELD), DocumentCollection),
        (lambda path: put(path, **BEIR), DocumentCollection),
    ],
)
def test_the_reader_is_told_by_the_names_of_the_files(
    tmp_path: Path, make: Callable[[Path], Path], kind: type
) -> None:
    assert isinstance(read_dataset(make(tmp_path)), kind)


def test_a_place_that_is_not_there_and_an_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file or folder"):
        read_dataset(tmp_path / "none")
    with pytest.raises(InvalidInput, match="format is 'xml'"):
        read_dataset(tmp_path, format="xml")  # type: ignore[arg-type]
