"""A memory on a disk without room, and one whose folder may not be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reverie import Memory, StoreUnavailable
from reverie.files.state import FileState, StateUnavailable
from tests.support.disks import fill, small_disk

ADVICE = "the disk is full: free some space and retry"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    with small_disk(tmp_path / "disk", "2m") as folder:
        yield folder


def test_a_memory_on_a_full_disk_says_so_and_is_there_when_there_is_room(disk: Path) -> None:
    with Memory.open(disk / "memory", embedder="none") as memory:
        memory.save("Ana lives in Porto")
    fill(filler := disk / "filler")
    with (  # opening it reads which files it has
        pytest.raises(StoreUnavailable, match=ADVICE),
        Memory.open(disk / "memory", embedder="none") as memory,
    ):
        memory.list()
    state = FileState(disk / "memory")
    with pytest.raises(StateUnavailable, match=ADVICE):
        state.known()
    state.close()
    filler.unlink()
    with Memory.open(disk / "memory", embedder="none") as memory:
        assert [record.content for record in memory.list()] == ["Ana lives in Porto"]


def test_a_backup_onto_a_full_disk_names_the_backup(disk: Path, tmp_path: Path) -> None:
    (disk / "filler").write_bytes(b"x" * 2_000_000)
    with Memory.open(tmp_path / "memory", embedder="none") as memory:
        memory.save("Ana lives in Porto")
        target = disk / "ana.backup"
        with pytest.raises(StoreUnavailable, match=r"ana\.backup' cannot be written .*: free some space"):
            memory.admin.backup(target)
        memory.save("Bo lives in Rome")
    assert [file.name for file in disk.iterdir()] == ["filler"]


def test_an_import_on_a_full_disk_loses_nothing_and_can_be_repeated(disk: Path, tmp_path: Path) -> None:
    source, filler = tmp_path / "chat.jsonl", disk / "filler"
    texts = [f"Message {number} of the talk" for number in range(200)]
    lines = ({"role": "user", "content": text, "session": "old:1"} for text in texts)
    source.write_text("\n".join(map(json.dumps, lines)))
    with Memory.open(disk / "memory", embedder="none") as memory:
        memory.save("Ana lives in Porto")
        memory.flush()
        fill(filler)
        with pytest.raises(StoreUnavailable):
            memory.admin.import_from(source)
        filler.unlink()
        memory.admin.import_from(source)
        assert [turn.content for turn in memory.turns("old:1")] == texts
        assert [record.content for record in memory.list()] == ["Ana lives in Porto"]
        assert memory.admin.check() == []
