"""A month is played through the public API, and its figures are what stands in the prompts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from evaluation.measures.month import MODES, play, read_months

from reverie.domain.errors import InvalidInput

MONTH = {
    "name": "short",
    "language": "en",
    "start": "2026-03-01",
    "days": [
        {"day": 1, "conversations": [{"turns": [
            {"role": "user", "text": "book a table for two. ruth is vegan, by the way"},
            {"role": "assistant", "text": "Booked."},
        ]}]},
        {"day": 2, "conversations": [{"turns": [
            {"role": "user", "text": "the staging port is 5433 since today"},
            {"role": "assistant", "text": "Noted."},
        ]}]},
    ],
    "facts": [
        {"id": "ruth", "content": "Ruth is vegan.", "day": 1, "conversation": 0, "turns": [0], "ends": None,
         "kind": "fact"},
        {"id": "port", "content": "The staging port is 5433.", "day": 2, "conversation": 0, "turns": [0], "ends": None,
         "kind": "fact"},
    ],
    "headlines": [{"id": "h", "parts": ["ruth", "port"], "text": "Ruth is vegan; the staging port is 5433."}],
    "hostile": [{"id": "x", "parts": ["ruth", "port"], "text": "Ruth is 5433; the staging port is vegan."}],
    "questions": [
        {"id": "q1", "question": "What does Ruth eat?", "answer": ["Ruth", "vegan"], "not": [], "type": "fact"},
        {"id": "q2", "question": "What is the port of staging?", "answer": ["5433"], "not": ["5432"], "type": "fact"},
        {"id": "q3", "question": "Who is Tom?", "answer": ["543"], "not": ["5433"], "type": "fact"},
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "open-short.json").write_text(json.dumps(MONTH), encoding="utf-8")
    (tmp_path / "sealed-short.json").write_text(json.dumps({**MONTH, "name": "sealed"}), encoding="utf-8")
    return tmp_path


def test_sealed_months_are_read_only_when_asked_for(folder: Path) -> None:
    assert [month.name for month in read_months(folder)] == ["short"]
    assert [month.name for month in read_months(folder, sealed=True)] == ["sealed"]
    with pytest.raises(InvalidInput, match="no months"):
        read_months(folder / "none")


@pytest.mark.parametrize("mode", MODES)
def test_a_month_is_played(folder: Path, mode: str) -> None:
    [month] = read_months(folder)
    figures = play(month, mode)
    assert figures.answered == ["q1", "q2"]
    assert len(figures.tokens) == 3
    assert figures.conversations == 2
    assert (figures.calls["read"] > 0) is (mode not in ("no thinking", "no model"))
    assert figures.false_records == []
