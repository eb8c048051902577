"""A message that names an install command names one that works: from an index, a checkout, or a file."""

from __future__ import annotations

import json
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from reverie.domain.errors import MissingExtra

CASES: list[tuple[dict[str, Any] | None, str]] = [
    (None, "pip install 'reverie[server]'"),
    *(
        ({"url": url}, f"pip install 'reverie[server] @ {url}'")
        for url in ("file:///src/re%20verie", "file:///tmp/reverie-1-py3-none-any.whl")
    ),
]


def test_an_install_command_fits_how_reverie_was_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (origin, command) in enumerate(CASES):
        folder = tmp_path / str(number) / "reverie-1.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: reverie\nVersion: 1\n")
        if origin is not None:
            (folder / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(folder.parent)
        invalidate_caches()
        assert (
            str(MissingExtra("It needs fastapi: pip install 'reverie[server]'"))
            == f"It needs fastapi: {command}"
        )
