"""`reverie eval PATH`: the figures of small collections, worked out by hand, and errors that name the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from reverie.domain.errors import InvalidInput
from reverie.evals.command import eval_command, measure_recall, read_collection

TEXTS = [
    {"_id": "d1", "title": "Staging", "text": "The staging database listens on port 5433."},
    {"_id": "d2", "text": "The launch moved to Thursday, 10 April."},
    {"_id": "d3", "text": "Ines wants the command first."},
]
TURNS = [
    {
        "_id": "t1",
        "text": "The harpsichord is tuned.",
        "session": "music",
        "speaker": "Ana",
        "at": "2025-03-01T10:00:00Z",
    },
    {"_id": "t2", "text": "Our zucchini froze.", "session": "garden", "role": "assistant"},
]


def write(
    folder: Path,
    texts: list[dict[str, str]],
    questions: dict[str, str],
    judgements: list[tuple[str, str, str]],
) -> Path:
    (folder / "qrels").mkdir(exist_ok=True)
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(each) for each in judgements)]
    (folder / "qrels/test.tsv").write_text("\n".join(lines))
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, texts)))
    (folder / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": name, "text": text}) for name, text in questions.items())
    )
    return folder


def test_documents_are_found_and_an_unjudged_question_is_not_asked(tmp_path: Path) -> None:
    questions = {"q1": "which port is staging on?", "q2": "xylophone quixotic?", "q3": "not judged"}
    judgements = [("q1", "d1", "1"), ("q1", "d3", "1"), ("q2", "d1", "0")]
    collection = read_collection(write(tmp_path, TEXTS, questions, judgements))
    assert collection.answers == {"q1": {"d1": 1.0, "d3": 1.0}, "q2": {}}
    figures = measure_recall(collection, ks=[1])
    assert (figures["recall@1"], figures["any@1"], figures["all@1"], figures["mrr"]) == (0.5, 1.0, 0.0, 1.0)
    assert (figures["abstain_precision"], figures["abstain_recall"], figures["answerable_empty"]) == (
        1.0,
        1.0,
        0.0,
    )


def test_texts_of_a_session_are_turns(tmp_path: Path) -> None:
    folder = write(tmp_path, TURNS, {"q": "who tuned the harpsichord?"}, [("q", "t1", "1")])
    result = CliRunner().invoke(eval_command, [str(folder), "--k", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["recall@1"] == 1.0


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    def read_error() -> str:
        with pytest.raises(InvalidInput) as raised:
            read_collection(tmp_path)
        return str(raised.value)

    assert "corpus.jsonl" in read_error()
    write(tmp_path, TEXTS, {"q": "?"}, [("q", "nowhere", "1")])
    assert "test.tsv', line 2" in read_error()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "b"}\n{"_id": "a", "text": "c"}')
    assert "line 2" in read_error()
    (tmp_path / "corpus.jsonl").write_text("{")
    assert "Invalid JSON" in read_error()
    result = CliRunner().invoke(eval_command, [str(tmp_path), "--k", "none"])
    assert result.exit_code == 1
    assert "Invalid depths" in result.output
