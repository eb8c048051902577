"""A process killed between a commit and its file, or between a file and its record, leaves nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reverie import Memory
from tests.system.torture import crash_points
from tests.system.torture.harness import Account, Worker, torn_files, wrongs

CASES = [name for name, _, _ in crash_points.list_cases()]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each crash point, in which a process was killed there."""
    folder = tmp_path_factory.mktemp("crash-points")
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.torture.crash_points", str(folder)],
        cwd=root,
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder


def read_account(reports: Path) -> Account:
    lines: list[Any] = [json.loads(line) for line in reports.read_bytes().split(b"\n") if line.endswith(b"]")]
    return Account([cast(Worker, SimpleNamespace(lines=lines, errors=b""))])


def test_the_next_process_makes_good_what_a_killed_one_left(killed: Path) -> None:
    for name in CASES:
        folder, account = killed / name, read_account(killed / f"{name}.reported")
        with Memory.open(folder) as memory:
            memory.folder.sync()
            diagnosis = memory.admin.doctor()
            assert [each.what for each in diagnosis.findings if each.severity != "note"] == [], name
            assert list(wrongs(memory, account)) == [], name
            assert list(torn_files(memory, folder)) == [], name
            assert not list(folder.rglob(".reverie/*")), name


def test_every_crash_point_is_reached(killed: Path) -> None:
    """Otherwise nothing is tested: the step was renamed, or is no longer run."""
    died = {name.rpartition(".")[0] for name in CASES if not has_finished(killed, name)}
    assert died == {name.rpartition(".")[0] for name in CASES}


def has_finished(killed: Path, name: str) -> bool:
    return (killed / f"{name}.finished").exists()
