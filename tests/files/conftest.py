"""Fixtures of the tests of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.files.folder_fixture import (
    EditedFolder,
    KeptFolder,
    large,
    open_edited_folder,
    small,
    write_samples,
)


@pytest.fixture(params=[small, pytest.param(large, marks=pytest.mark.slow)])
def kept_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KeptFolder]:
    request.param(monkeypatch)
    opened = KeptFolder(tmp_path / "memory")
    write_samples(opened)
    opened.folder.sync()
    assert opened.folder.flush()
    yield opened
    opened.close()


@pytest.fixture
def edited_folder(tmp_path: Path) -> Iterator[EditedFolder]:
    """A folder with a file for each record."""
    with open_edited_folder(tmp_path / "memory") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[EditedFolder]:
    """A folder with pages of records."""
    with open_edited_folder(tmp_path / "memory", "pages") as opened:
        yield opened
