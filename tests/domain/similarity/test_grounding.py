"""A statement is accepted only if its specifics are in its evidence, which does not deny it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from reverie.domain.similarity.grounding import Evidence, find_lost, find_new_specifics, find_unsaid
from reverie.domain.text.specifics import extract_specifics

CASES = json.loads((Path(__file__).parent / "cases.json").read_text(encoding="utf-8"))


def test_each_class_of_specifics_is_recognised_and_spelled_in_one_way() -> None:
    for where, text, expected in CASES["classes"]:
        assert getattr(extract_specifics(text), where) == set(filter(None, expected.split("|"))), text


def _explain(statement: str, said: str) -> str:
    return find_unsaid(statement, [Evidence(text=said, at=datetime(2026, 3, 17, tzinfo=UTC))])


def test_specifics_in_other_forms_are_in_the_evidence() -> None:
    for said, statement in CASES["said"]:
        assert _explain(statement, said) == ""


def test_specifics_that_the_evidence_lacks_or_denies_are_found() -> None:
    for said, statement in CASES["not_said"]:
        assert _explain(statement, said), statement


def test_a_new_name_command_or_time_is_no_rewording() -> None:
    for text in ("Ada and Mallory like tea", "Ada likes `rm`", "Ada likes tea at 17:00"):
        assert find_new_specifics(["Ada likes tea and coffee"], text)
    assert not find_new_specifics(["Ada likes tea", "Ada likes coffee"], "Ada is fond of tea and coffee")


def test_a_merge_names_what_it_lost() -> None:
    for source, merged, missing in CASES["lost"]:
        assert find_lost(source, merged) == list(filter(None, missing.split("|"))), source
        assert not find_lost(source, f"{source}\n{merged}")
