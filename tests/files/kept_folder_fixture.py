"""A memory's folder that is kept by a `MemoryFolder`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reverie.domain.change import Change, JournalEntry
from reverie.files import folder
from reverie.files.folder import MemoryFolder
from reverie.stores.writer import StoreWriter
from tests.files.mirror_fixture import (
    MirroredFolder,
)
from tests.support.contract.factories import (
    NOW,
)


class KeptFolder(MirroredFolder):
    """A memory's folder that is kept by a `MemoryFolder`."""

    def open(self) -> None:
        super().open()
        self.told: list[JournalEntry] = []
        self.folder = MemoryFolder(
            self.root,
            StoreWriter(store=self.store, clock=lambda: NOW, publish=self.told.extend),
            layout=self.layout,
        )

    def commit_and_mirror(self, edits: Sequence[Change]) -> None:  # type: ignore[override]
        """Change the store and have the files written now."""
        self.change_store(edits)
        self.folder.flush()

    def change_store(self, edits: Sequence[Change]) -> None:
        """Change the store; the files follow."""
        self.folder.notice(self.commit(edits))

    def turn(self) -> None:
        """Do what happens at a turn, and wait for the background."""
        self.folder.refresh()
        self.folder.flush()

    def close(self) -> None:
        self.folder.close()
        super().close()

    def edit(self, path: str, old: str, new: str) -> None:
        """As an editor that saves by renaming."""
        file = self.root / path
        text = file.read_text()
        assert old in text
        other = file.with_name(f".{file.name}.swp")
        other.write_text(text.replace(old, new))
        other.rename(file)

    def content(self, number: int) -> str:
        (found,) = self.store.records([f"{number:012x}"])
        return found.content


def small(patch: pytest.MonkeyPatch) -> None:
    """All files are looked at at every turn."""
    patch.setattr(folder, "FREE_S", 60.0)
    patch.setattr(folder, "QUICK_S", 60.0)


def large(patch: pytest.MonkeyPatch) -> None:
    """As with very many files: all of them are looked at in the background only."""
    patch.setattr(folder, "FREE_S", -1.0)
    patch.setattr(folder, "QUICK_S", -1.0)
    patch.setattr(folder, "SHARE", 1e6)
