"""A folder that a sync program copies is used by one machine at a time."""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from reverie import Memory, StoreUnavailable
from reverie.files import claim, folder


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The number of the machine, and how much later it is."""
    now = {"machine": 1.0, "later": 0.0}
    monkeypatch.setattr(claim, "read_identities", lambda: frozenset({f"machine {now['machine']}"}))
    monkeypatch.setattr(time, "time", lambda: 1_900_000_000 + now["later"])
    return now


def test_two_machines_with_one_synced_folder_are_refused_with_the_way_to_go(
    tmp_path: Path, machines: dict[str, float]
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    with Memory.open(here, embedder="none") as memory:
        memory.save("Ana likes tea", category="food")
        memory.flush()
        shutil.copytree(here, there)  # as a sync program does, while it is in use
        machines["machine"] = 2
        with pytest.raises(StoreUnavailable, match=r"one machine at a time.* delete '.*\.machine'"):
            Memory.open(there, embedder="none")
        machines["later"] = 119
        with pytest.raises(StoreUnavailable, match="119 seconds ago"):
            Memory.open(there, embedder="none")
        machines["machine"] = 1
    shutil.rmtree(there)
    shutil.copytree(here, there)
    machines |= {"machine": 2, "later": 121}  # it was closed, and everything is copied
    with Memory.open(there, embedder="none") as memory:
        assert [record.content for record in memory.list()] == ["Ana likes tea"]
        memory.save("Bo likes coffee", category="food")
    shutil.rmtree(here)
    shutil.copytree(there, here)
    (here / ".machine").unlink()
    machines["machine"] = 1
    with Memory.open(here, embedder="none") as memory:
        assert len(memory.list()) == 2
        assert memory.admin.doctor().sound


def test_a_memory_that_is_open_reports_another_machine(
    tmp_path: Path, machines: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(tmp_path, embedder="none") as memory:
        machines |= {"machine": 2, "later": 130}
        claim.claim_folder(tmp_path)
        machines["machine"] = 1
        monkeypatch.setattr(folder, "RENEW_S", 0.0)
        memory.save("Ana likes tea")
        assert memory.folder is not None
        assert "one machine at a time" in str(memory.folder.problems())
        (tmp_path / ".machine").unlink()
        memory.save("Bo likes tea")
        assert memory.folder.problems() == []


def test_processes_and_containers_of_one_machine_are_not_refused(tmp_path: Path) -> None:
    with Memory.open(tmp_path, embedder="none"), Memory.open(tmp_path, embedder="none"):
        pass
    file = tmp_path / ".machine"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    seen = file.stat()
    claim.claim_folder(tmp_path)
    assert file.stat().st_ino == seen.st_ino, "it is not written again at once"
    for broken in ("", "{", "[]", '{"machine": 7}'):
        file.write_text(broken)
        claim.claim_folder(tmp_path)
    os.utime(file, (time.time(), time.time()))
    assert claim.read_identities() & {*claim._read(file)[0]}
    claim.claim_folder(tmp_path / "nothing there")
    assert not (tmp_path / "nothing there").exists()
