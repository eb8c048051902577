"""Paths as a caller passes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reverie.domain.errors import InvalidInput
from reverie.files.names import resolve_path


def test_only_a_tilde_at_the_beginning_is_a_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ana")
    assert resolve_path("~/memory") == Path("/home/ana/memory")
    assert resolve_path("./~nobody-at-all/memory") == tmp_path / "~nobody-at-all" / "memory"
    with pytest.raises(InvalidInput, match=r"no such home directory; .* write './~nobody-at-all/memory'"):
        resolve_path("~nobody-at-all/memory")
