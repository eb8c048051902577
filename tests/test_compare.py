"""The comparison with other memories judges answers rightly, and its adapter of Reverie does what it asks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.compare import adapters


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
