"""Whoever dies between a commit and its file, or between a file and what is known of it, is made good."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reverie import Memory
from tests.system.torture import seams
from tests.system.torture.harness import Account, Worker, torn_files, wrongs

CASES = [name for name, _, _ in seams.cases()]


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each seam, in which a process died there."""
    folder = tmp_path_factory.mktemp("seams")
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.torture.seams", str(folder)],
        cwd=root,
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder


def account(told: Path) -> Account:
    lines: list[Any] = [json.loads(line) for line in told.read_bytes().split(b"\n") if line.endswith(b"]")]
    return Account([cast(Worker, SimpleNamespace(lines=lines, errors=b""))])


@pytest.mark.parametrize("name", CASES)
def test_the_next_process_makes_good_what_a_killed_one_left(dead: Path, name: str) -> None:
    folder, said = dead / name, account(dead / f"{name}.told")
    with Memory.open(folder) as memory:
        memory.folder.sync()
        diagnosis = memory.admin.doctor()
        assert [finding.what for finding in diagnosis.findings if finding.severity != "note"] == []
        assert list(wrongs(memory, said)) == []
        assert list(torn_files(memory, folder)) == []
        assert not list(folder.rglob(".reverie/*"))


def test_they_all_came_to_their_seam(dead: Path) -> None:
    """Otherwise nothing was tried: a seam was renamed, or nobody comes there any more."""
    died = {name.rpartition(".")[0] for name in CASES if not finished(dead, name)}
    assert died == {name.rpartition(".")[0] for name in CASES}


def finished(dead: Path, name: str) -> bool:
    return (dead / f"{name}.finished").exists()
