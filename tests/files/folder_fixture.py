"""A memory's folder with a real database and real files, and a person who edits the files."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reverie.domain.change import Change, JournalEntry, Value
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.files import folder
from reverie.files.atomic import _escape_path
from reverie.files.folder import MemoryFolder
from reverie.files.hand_edits.importer import HandEditImporter
from reverie.files.layout import (
    DRAFTS,
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
from reverie.files.scan import SAVING_S, HandEditReport
from reverie.files.state import FileState
from reverie.search.analyzer import analyze
from reverie.stores.protocol import Store
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.writer import StoreWriter
from tests.factories import MovableClock
from tests.support.contract.factories import NOW, make_record, make_session, make_time, make_turn

DAY = "memory/episodic/2026-03-01.md"
CHAT = "sessions/chat:1.jsonl"


class EditedFolder:
    """A memory's folder with its store, mirror writer and importer of hand edits.

    Attributes:
        root: The memory's folder.
        store: Its store.
        importer: Imports the hand edits.
        published: The journal entries that the importer has published.
    """

    def __init__(self, root: Path, layout: Layout = "records") -> None:
        self.layout: Layout = layout
        self.root = root
        self.store = SQLiteStore(root / "reverie.db", analyse=analyze)
        self.clock = MovableClock()
        self.clock.now = NOW
        self.published: list[JournalEntry] = []
        self._numbers = itertools.count(1)
        self.reopen()

    def reopen(self) -> None:
        """Open the files again, as another process would."""
        self.state = FileState(self.root)
        self.mirror = MirrorWriter(self.root, self.store, self.state, clock=self.clock, layout=self.layout)
        self.writer = StoreWriter(
            store=self.store,
            clock=self.clock,
            new_id=lambda: f"{next(self._numbers):012x}"[::-1],
            publish=self.published.extend,
        )
        self.importer = HandEditImporter(self.writer, self.state, self.root)

    def lose_state(self) -> None:
        """Remove `files.db`, and open the files again."""
        self.state.close()
        for file in self.root.glob("files.db*"):
            file.unlink()
        self.reopen()

    def close(self) -> None:
        self.state.close()
        self.store.close()

    # -- the program -------------------------------------------------------------------------------------

    def commit(self, *edits: Change, mirrored: bool = True) -> MirrorReport:
        """Make a change as the program; `mirrored` is False for a process that is killed before it writes."""
        self.store.commit(edits, actor="agent", at=self.clock())
        return self.mirror.write() if mirrored else MirrorReport()

    def settle(self) -> None:
        """Write the files, and see that no file that nobody has edited counts as edited."""
        self.mirror.write()
        assert self.importer.take_in(wait_s=SAVING_S).taken == []
        assert self.mirror.write().edited == []

    def add(self, *values: Value, mirrored: bool = True) -> MirrorReport:
        return self.commit(*(Change(before=None, after=value) for value in values), mirrored=mirrored)

    def change(self, before: Value, after: Value, *, mirrored: bool = True) -> None:
        self.commit(Change(before=before, after=after), mirrored=mirrored)

    def record(self, number: int) -> Record:
        (found,) = self.store.records([f"{number:012x}"])
        return found

    def sync(self) -> HandEditReport:
        """Do what happens at a turn: import hand edits, then write the files that are due."""
        self.mirror.prepare()
        if not self.state.progress.sequence:
            self.mirror.write()  # first find out which files are as they should be
        taken = self.importer.take_in(wait_s=SAVING_S)
        self.mirror.write()
        return taken

    # -- the person --------------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> str:
        return self.path(name).read_text()

    def write(self, name: str, text: str | bytes) -> None:
        """Save a file as a person does, later than it was written."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.touch(name)

    def slip_in(self, name: str, text: str) -> None:
        """Save a file in the moment in which it is replaced."""
        top, rest = name.split("/", 1)
        self.write(f"{top}/{DRAFTS}/00000000-{_escape_path(rest)}", text)

    def move(self, old: str, new: str) -> None:
        """Give a file another name or folder."""
        self.path(new).parent.mkdir(parents=True, exist_ok=True)
        self.path(old).rename(self.path(new))

    def touch(self, name: str) -> None:
        """Give a file a modification time of its own."""
        self._saved = getattr(self, "_saved", 1_900_000_000_000_000_000) + 1_000_000
        os.utime(self.path(name), ns=(self._saved, self._saved))

    def load_json(self, name: str) -> dict[str, Any]:
        found = json.loads(self.read(name))
        assert isinstance(found, dict)
        return found

    def edit(self, name: str, **fields: Any) -> None:
        """Change fields in the file of a record."""
        self.write(name, json.dumps(self.load_json(name) | fields, indent=2, ensure_ascii=False) + "\n")

    def edit_line(self, name: str, number: int, **fields: Any) -> None:
        """Change fields of a line of a file of lines, counted from 0."""
        lines = self.read(name).split("\n")
        lines[number] = json.dumps(json.loads(lines[number]) | fields, ensure_ascii=False)
        self.write(name, "\n".join(lines))

    def files(self, *, drafts: bool = False) -> list[str]:
        """Return the paths of all files, with or without drafts."""
        return sorted(
            path.relative_to(self.root).as_posix()
            for top in ("memory", "sessions")
            for path in self.path(top).rglob("*")
            if path.is_file() and (drafts or DRAFTS not in path.parts)
        )

    # -- what must hold ----------------------------------------------------------------------------------

    def list_hand_edits(self) -> list[JournalEntry]:
        """Return the journal entries of hand edits."""
        return [row for row in self.store.journal(limit=100_000) if row.actor == "owner, by hand"]

    def assert_settled(self) -> None:
        """Assert that nothing is left to import or to write."""
        before = self.store.sequence()
        assert not self.sync()
        assert self.store.sequence() == before
        with self.state.lock() as ledger:
            assert [path for path in ledger.due() if path not in self._problem_paths()] == []
        assert self.store.check() == []

    def _problem_paths(self) -> set[str]:
        return {broken.path for broken in self.importer.problems()}


class KeptFolder(EditedFolder):
    """A memory's folder that is kept by a `MemoryFolder`."""

    def reopen(self) -> None:
        super().reopen()
        self.folder = MemoryFolder(self.root, self.writer, layout=self.layout)

    def commit(self, *edits: Change, mirrored: bool = True) -> MirrorReport:
        """Change the store; the files follow, at once if `mirrored`."""
        self.folder.notice(self.store.commit(edits, actor="agent", at=self.clock()))
        if mirrored:
            self.folder.flush()
        return MirrorReport()

    def turn(self) -> None:
        """Do what happens at a turn, and wait for the background."""
        self.folder.refresh()
        self.folder.flush()

    def close(self) -> None:
        self.folder.close()
        super().close()

    def save(self, path: str, old: str, new: str) -> None:
        """As an editor that saves by renaming."""
        file = self.root / path
        text = file.read_text()
        assert old in text
        other = file.with_name(f".{file.name}.swp")
        other.write_text(text.replace(old, new))
        other.rename(file)


def failing_below(folder: Path, number: int) -> Callable[..., int]:
    """`os.open` as on a disk that is read-only, or full, below a folder."""
    real = os.open

    def refuse(path: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_CREAT and os.fspath(path).startswith(os.fspath(folder)):
            raise OSError(number, os.strerror(number), path)
        return real(path, flags, *args, **options)

    return refuse


def small(patch: pytest.MonkeyPatch) -> None:
    """All files are looked at at every turn."""
    patch.setattr(folder, "FREE_S", 60.0)
    patch.setattr(folder, "QUICK_S", 60.0)


def large(patch: pytest.MonkeyPatch) -> None:
    """As with very many files: all of them are looked at in the background only."""
    patch.setattr(folder, "FREE_S", -1.0)
    patch.setattr(folder, "QUICK_S", -1.0)
    patch.setattr(folder, "SHARE", 1e6)


@contextmanager
def open_edited_folder(folder: Path, layout: Layout = "records") -> Iterator[EditedFolder]:
    """Open the memory in a folder, and close it at the end."""
    folder.mkdir(mode=0o700, exist_ok=True)
    edited_folder = EditedFolder(folder, layout)
    try:
        yield edited_folder
    finally:
        edited_folder.close()


def make_note(number: int = 1, **fields: Any) -> Record:
    """Return a record in the category `notes`, whose file is `memory/notes/{number as an id}.json`."""
    return make_record(number, **({"category": "notes"} | fields))


def build_note_path(number: int, category: str = "notes") -> str:
    return f"memory/{category}/{number:012x}.json"


def make_page(content: str = "# Memory\n", name: str = "MEMORY.md") -> Page:
    return Page(name=name, content=content, updated_at=NOW)


def make_paragraph(number: int, content: str = "", name: str = "HISTORY.md", **fields: object) -> Paragraph:
    values = {"id": f"{number:012x}", "page": name, "position": float(number), "at": make_time(number)}
    said = {"content": content or f"[2026-03-01 12:00] Paragraph {number}"}
    return Paragraph(**(values | said | fields))  # type: ignore[arg-type]


def list_paragraph_texts(edited_folder: EditedFolder, name: str = "HISTORY.md") -> list[str]:
    return [each.content for each in edited_folder.store.paragraphs(page=name)]


# -- what the files should hold ---


def write_samples(mirrored_folder: EditedFolder) -> None:
    """Write a file of each form."""
    mirrored_folder.add(
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
        make_paragraph(3, "[12:00] User: a | Assistant: b", "2026-03-01.md"),
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


def assert_files_match(mirrored_folder: EditedFolder) -> None:
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
