"""Sixty-four connections of mixed requests: none fails, and nothing acknowledged is missing; `make load` for longer."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.system.load.load import run_load

SECONDS = float(os.environ.get("REVERIE_LOAD_SECONDS") or 8)
REQUESTS = int(os.environ.get("REVERIE_LOAD_REQUESTS") or 0) or None
PAUSE = float(os.environ.get("REVERIE_LOAD_PAUSE") or 0)


@pytest.mark.slow
@pytest.mark.timeout(300 + 10 * SECONDS + (REQUESTS or 0))
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
def test_many_connections_at_once_get_right_answers(tmp_path: Path) -> None:
    result = run_load(tmp_path / "memory", seconds=SECONDS, connections=64, requests=REQUESTS, pause=PAUSE)
    print(json.dumps(result.to_dict(), indent=2))
    assert result.errors == []
    assert (result.missing, min(result.requests.values()) > 0) == (0, True)
    assert result.acknowledged > 64
    assert 0 < result.client_cpu_ms < result.server_cpu_ms  # the clients are not what is measured
    first, *_, last = (own for own, _ in result.resident_mb.values())
    assert last < first * 1.5 + 30
