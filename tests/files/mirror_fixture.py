"""A store whose files are mirrored into a folder, and the files that the folder should hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reverie.domain.change import Change, JournalEntry
from reverie.domain.filter import Filter
from reverie.domain.page import HISTORY, Page, Paragraph
from reverie.domain.text.ids import generate_id
from reverie.files.hand_edits.importer import HandEditImporter
from reverie.files.hand_edits.intake import SAVING_S
from reverie.files.layout import (
    Layout,
    build_path,
    build_stem,
    render_addition,
    render_lines,
    render_record,
    render_session,
    split_numbered_path,
)
from reverie.files.mirror import MirrorReport, MirrorWriter
from reverie.files.state import FileState
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.writer import StoreWriter
from tests.support.contract.factories import (
    NOW,
    analyse,
    make_additions,
    make_record,
    make_session,
    make_time,
    make_turn,
)

HOUR = 3600.0


def make_page(content: str = "# Memory\n", name: str = "MEMORY.md") -> Page:
    return Page(name=name, content=content, updated_at=NOW)


def make_paragraph(number: int, name: str = HISTORY, position: float | None = None) -> Paragraph:
    place = float(number) if position is None else position
    text = f"[2026-03-01 12:00] Paragraph {number}"
    return Paragraph(id=f"9{number:011x}", page=name, position=place, at=NOW, content=text)


class MirroredFolder:
    """A memory's folder with its store, and the mirror writer of one process."""

    def __init__(self, root: Path, layout: Layout = "records") -> None:
        self.layout: Layout = layout
        self.root = root
        self.store = SQLiteStore(root / "reverie.db", analyse=analyse)
        self.open()

    def open(self) -> None:
        """Open the files again, as another process would."""
        self.state = FileState(self.root)
        self.mirror = MirrorWriter(self.root, self.store, self.state, clock=lambda: NOW, layout=self.layout)

    def commit(self, edits: Sequence[Change]) -> list[JournalEntry]:
        """Change the store only."""
        return self.store.commit(edits, actor="owner", at=NOW)

    def commit_and_mirror(self, edits: Sequence[Change]) -> MirrorReport:
        """Change the store and write the files."""
        self.commit(edits)
        return self.mirror.write()

    def settle(self) -> None:
        """Write the files, and see that no file that nobody has edited counts as edited."""
        self.mirror.write()
        writer = StoreWriter(store=self.store, clock=lambda: NOW, new_id=generate_id)
        assert HandEditImporter(writer, self.state, self.root).take_in(wait_s=SAVING_S).taken == []
        assert self.mirror.write().edited == []

    def close(self) -> None:
        self.state.close()
        self.store.close()

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def lose_state(self) -> None:
        """Remove `files.db` while nobody has it open."""
        self.state.close()
        for name in ("files.db", "files.db-wal", "files.db-shm"):
            (self.root / name).unlink(missing_ok=True)
        self.open()


def write_samples(mirrored_folder: MirroredFolder) -> None:
    """Write a file of each form."""
    mirrored_folder.commit_and_mirror(
        make_additions(
            make_record(1, category="a/b", tags=("x",)),
            make_record(2),
            make_record(3, archived_at=NOW, category="a", archive_reason="old"),
            make_record(4, layer="episodic", kind="event"),
            make_record(5, layer="episodic", kind="event", created_at=make_time(5)),
            make_session("telegram:1"),
            make_turn(0, "telegram:1"),
            make_turn(1, "telegram:1"),
            make_page(),
            make_paragraph(1),
            make_paragraph(2),
            replace(make_paragraph(3, "2026-03-01.md"), content="[12:00] User: a | Assistant: b"),
        )
    )


def render_all_files(store: Store, index: FileState) -> dict[str, bytes]:
    """Return what every file should contain, by path; every record is on one page of its own category."""
    found: dict[str, bytes] = {}
    on_pages: dict[str, str] = {}
    for each in store.find(Filter(archived=None)):
        if (stem := build_stem(each, index.layout)) is None:
            found[build_path(each)] = render_record(each)
        else:
            on_pages[each.id] = stem
    placed = [name for names in index.find_pages().values() for name in names]
    assert sorted(placed) == sorted(on_pages)
    for path, names in index.find_pages().items():
        assert {on_pages[name] for name in names} == {split_numbered_path(path)[0]}
        found[path] = render_lines(path, store.records(names))
    for overview in store.sessions():
        state = overview.state
        found[build_path(state)] = render_session(state, store.turns(session=state.id))
    found |= {build_path(each): each.content.encode() for each in store.pages()}
    found |= {
        f"memory/{name}": render_addition(name, store.paragraphs(page=name), to_empty=True)
        for name in store.logs()
    }
    return found


def read_all_files(root: Path) -> dict[str, bytes]:
    """Return what every file contains, by path; drafts count too."""
    found = {}
    for top in ("memory", "sessions"):
        for place, _, names in os.walk(root / top):
            for name in names:
                file = Path(place, name)
                found[file.relative_to(root).as_posix()] = file.read_bytes()
    return found


def assert_files_match(mirrored_folder: MirroredFolder) -> None:
    """Assert that the files and their state are exactly those of the store."""
    index = mirrored_folder.state
    should, there = render_all_files(mirrored_folder.store, index), read_all_files(mirrored_folder.root)
    assert sorted(there) == sorted(should), set(there) ^ set(should)
    other = [path for path in should if there[path] != should[path]]
    assert other == [], other
    known = mirrored_folder.state.known()
    assert sorted(known) == sorted(should)
    for path, written in known.items():
        seen = (mirrored_folder.root / path).stat()
        assert (written.size, written.mtime_ns) == (seen.st_size, seen.st_mtime_ns), path
    assert mirrored_folder.state.due() == []
    assert mirrored_folder.mirror.count_pending_changes() == 0
