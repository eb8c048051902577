"""Specifics of a text are recognised by class and spelled in one way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reverie.domain.text.specifics import Specifics, extract_specifics

CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))


def test_each_class_is_recognised_and_spelled_in_one_way() -> None:
    for where, text, expected in CASES["classes"]:
        assert getattr(extract_specifics(text), where) == set(filter(None, expected.split("|"))), text


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_the_time_is_linear_in_hostile_texts() -> None:
    for piece in ("a~", "-", "`", "a@", "1,", "x\n", "/", "A.", "我 ", "May 3 "):
        assert isinstance(extract_specifics(piece * (100_000 // len(piece))), Specifics)
