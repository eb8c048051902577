"""Tests of the table of what takes the room on the disk."""

from __future__ import annotations

from pathlib import Path

from reverie import Memory


def test_the_parts_are_the_lengths_of_all_files_while_the_memory_is_open(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "m") as memory:
        for number in range(50):  # pages that are in the log alone so far
            memory.save(f"Text number {number} about topic{number}")
        assert memory.flush()
        parts = {part.name: part for part in memory.admin.disk()}
        files = [file.stat() for file in (tmp_path / "m").rglob("*") if file.is_file()]
        assert parts["database: log"].bytes
        assert sum(part.bytes for part in parts.values()) == sum(status.st_size for status in files)
        assert memory.admin.stats().bytes_on_disk == sum(status.st_size for status in files)
        records = [file.stat() for file in (tmp_path / "m/memory").rglob("*.json")]
        assert parts["memory files"].bytes == sum(status.st_size for status in records)
        assert parts["memory files"].allocated == sum(
            status.st_blocks * 512 or status.st_size for status in records
        )
