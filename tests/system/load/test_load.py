"""Sixty-four connections of mixed requests: none fails, and nothing acknowledged is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.system.load.load import run_load


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
def test_many_connections_at_once_get_right_answers(tmp_path: Path) -> None:
    result = run_load(tmp_path / "memory", seconds=8, connections=64)
    assert result.errors == []
    assert (result.missing, min(result.requests.values()) > 0) == (0, True)
    assert result.acknowledged > 64
    assert 0 < result.client_cpu_ms < result.server_cpu_ms  # the clients are not what is measured
    first, last = (own for own, _ in result.resident_mb.values())
    assert last < first * 1.5 + 30
