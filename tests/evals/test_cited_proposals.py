"""Changes and preferences with citations are judged by the code that the passes use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evaluation.measures.cited_proposals import DIGEST, INFER, REMEMBER

TURNS = [{"role": "user", "text": "Ana has moved to Rome."}, {"role": "assistant", "text": "Nice."}]
DIGESTED = {
    "id": "d1", "language": "en", "lines": ["Ana lives in Oslo."], "turns": TURNS,
    "changes": [
        {"do": "change", "line": 0, "text": "Ana lives in Rome.", "turns": [0], "good": True, "why": "said"},
        {"do": "change", "line": 0, "text": "Ana lives in Porto.", "turns": [0], "good": False, "why": "invented"},
        {"do": "add", "line": None, "text": "Ana plays the cello.", "turns": [0], "good": True, "why": "to be missed"},
    ],
}  # fmt: skip
INFERRED = {
    "id": "i1", "language": "en", "good": False, "why": "invented",
    "turns": TURNS, "preference": {"text": "Likes long answers.", "turns": [0]},
}  # fmt: skip

REMEMBERED = {
    "id": "r1", "language": "en", "turns": TURNS,
    "records": [
        {"content": "Ana has moved to Rome.", "turns": [0], "good": True, "why": "said"},
        {"content": "Ana has moved to Porto.", "turns": [0], "good": False, "why": "invented"},
        {"content": "Ana moved.", "turns": [1], "good": False, "why": "cites the assistant"},
    ],
}  # fmt: skip


def test_good_and_bad_proposals_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes, preferences = tmp_path / "digest.jsonl", tmp_path / "infer.jsonl"
    changes.write_text(json.dumps(DIGESTED), encoding="utf-8")
    preferences.write_text(json.dumps(INFERRED), encoding="utf-8")
    out = tmp_path / "out"
    assert DIGEST.run(changes, out=out, show_errors=True) == 0
    [figures] = json.loads(out.read_text(encoding="utf-8"))["sets"].values()
    assert (figures["good"], figures["good_accepted"], figures["bad"], figures["bad_accepted"]) == (
        2,
        1,
        1,
        0,
    )
    assert "cello" in capsys.readouterr().out
    assert INFER.run(preferences, out=out) == 0
    [figures] = json.loads(out.read_text(encoding="utf-8"))["sets"].values()
    assert (figures["good"], figures["bad"], figures["bad_accepted"]) == (0, 1, 0)


def test_records_are_judged_by_the_pass_that_writes_them(tmp_path: Path) -> None:
    file, out = tmp_path / "remember.jsonl", tmp_path / "out"
    file.write_text(json.dumps(REMEMBERED), encoding="utf-8")
    assert REMEMBER.run(file, out=out) == 0
    [figures] = json.loads(out.read_text(encoding="utf-8"))["sets"].values()
    assert (figures["good_accepted"], figures["bad_accepted_by_code"]) == (1, 0)
    assert figures["precision_by_code"] == [1, 1]
