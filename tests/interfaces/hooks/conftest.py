"""What tests of hooks share: the command as agents run it, and an environment without variables of agents."""

from __future__ import annotations

import os
import sys

import pytest

ENTRY = [sys.executable, "-W", "error", "-c", "from reverie.interfaces.cli.entry import main; main()"]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("REVERIE_", "CLAUDE_")):
            monkeypatch.delenv(name)
