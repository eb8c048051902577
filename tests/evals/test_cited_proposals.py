"""Preferences and facts with citations are judged by the code that the passes use."""

from __future__ import annotations

import json
from pathlib import Path

from evaluation.measures.cited_proposals import PREFERENCES, READ

TURNS = [{"role": "user", "text": "Ana has moved to Rome."}, {"role": "assistant", "text": "Nice."}]
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


def test_bad_proposals_are_counted(tmp_path: Path) -> None:
    file, out = tmp_path / "preferences.jsonl", tmp_path / "out"
    file.write_text(json.dumps(INFERRED), encoding="utf-8")
    assert PREFERENCES.run(file, out=out) == 0
    [figures] = json.loads(out.read_text(encoding="utf-8"))["sets"].values()
    assert (figures["good"], figures["bad"], figures["bad_accepted"]) == (0, 1, 0)


def test_records_are_judged_by_the_pass_that_writes_them(tmp_path: Path) -> None:
    file, out = tmp_path / "read.jsonl", tmp_path / "out"
    file.write_text(json.dumps(REMEMBERED), encoding="utf-8")
    assert READ.run(file, out=out) == 0
    [figures] = json.loads(out.read_text(encoding="utf-8"))["sets"].values()
    assert (figures["good_accepted"], figures["bad_accepted_by_code"]) == (1, 0)
    assert figures["precision_by_code"] == [1, 1]
