"""The files say what the store says: after every change, and after whatever went wrong."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import pytest

from reverie.domain.change import Change, JournalEntry, Value
from reverie.domain.page import HISTORY, MEMORY, Page, Paragraph
from reverie.domain.record import Record
from reverie.files import mirror
from reverie.files.layout import build_stem
from tests.files.hand_edit_fixture import EditedFolder, build_note_path, make_note, open_edited_folder
from tests.files.mirror_fixture import (
    MirroredFolder,
    assert_files_match,
    make_page,
    make_paragraph,
    read_all_files,
    write_samples,
)
from tests.profiles import sample_cases
from tests.support.contract.factories import (
    NOW,
    make_additions,
    make_change,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)

BOTH = pytest.mark.parametrize("mirrored_folder", ["pages", "records"], indirect=True)


@pytest.fixture
def mirrored_folder(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[MirroredFolder]:
    opened = MirroredFolder(tmp_path / "memory", getattr(request, "param", "pages"))
    yield opened
    opened.close()


# -- what is written when ----------------------------------------------------------------------------------


@BOTH
def test_everything_is_written_after_the_commit(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    assert_files_match(mirrored_folder)
    of_records = {
        "pages": ["memory/.archive/a.md", "memory/records/(unfiled).md", "memory/records/a/b.md"],
        "records": [
            "memory/.archive/a/000000000003.json",
            "memory/000000000002.json",
            "memory/a/b/000000000001.json",
        ],
    }
    assert sorted(read_all_files(mirrored_folder.root)) == sorted(
        [
            *of_records[mirrored_folder.layout],
            "memory/2026-03-01.md",
            "memory/HISTORY.md",
            "memory/MEMORY.md",
            "memory/episodic/2026-03-01.md",
            "sessions/telegram:1.jsonl",
        ]
    )


@BOTH
def test_a_record_moves_with_its_category_and_into_the_archive(mirrored_folder: MirroredFolder) -> None:
    here = make_record(1, category="a/b")
    mirrored_folder.commit_and_mirror(make_additions(here))
    there = replace(here, category="c")
    mirrored_folder.commit_and_mirror(make_change(here, there))
    assert_files_match(mirrored_folder)
    assert not [*(mirrored_folder.root / "memory").glob("a"), *(mirrored_folder.root / "memory").glob("*/a")]
    archived = replace(there, archived_at=NOW)
    mirrored_folder.commit_and_mirror(make_change(there, archived))
    assert_files_match(mirrored_folder)
    assert not list((mirrored_folder.root / "memory").glob("[!.]*"))
    mirrored_folder.commit_and_mirror(make_change(archived, there))
    mirrored_folder.commit_and_mirror(make_removals(there))
    assert_files_match(mirrored_folder)
    assert not (mirrored_folder.root / "memory/.archive").exists()


def test_a_record_that_becomes_episodic_moves_into_the_file_of_its_day(
    mirrored_folder: MirroredFolder,
) -> None:
    semantic = make_record(1, category="a")
    episodic = replace(semantic, layer="episodic")
    mirrored_folder.commit_and_mirror(make_additions(semantic))
    mirrored_folder.commit_and_mirror(make_change(semantic, episodic))
    assert_files_match(mirrored_folder)
    mirrored_folder.commit_and_mirror(make_change(episodic, semantic))
    assert_files_match(mirrored_folder)


def test_turns_and_paragraphs_are_added_to_their_files(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    paths = ("sessions/telegram:1.jsonl", "memory/HISTORY.md")
    before = {path: (mirrored_folder.root / path).stat().st_ino for path in paths}
    mirrored_folder.commit_and_mirror(make_additions(make_turn(2, "telegram:1"), make_turn(3, "telegram:1")))
    mirrored_folder.commit_and_mirror(make_additions(make_turn(4, "telegram:1")))
    mirrored_folder.commit_and_mirror(make_additions(make_paragraph(4)))
    mirrored_folder.commit_and_mirror(
        make_additions(make_record(6, layer="episodic", created_at=make_time(9)))
    )
    assert {path: (mirrored_folder.root / path).stat().st_ino for path in paths} == before
    assert_files_match(mirrored_folder)


def test_adding_a_turn_costs_what_the_turn_is_long(
    mirrored_folder: MirroredFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored_folder.commit_and_mirror(make_additions(make_session(), *(make_turn(n) for n in range(200))))

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the whole session was read")

    monkeypatch.setattr(mirrored_folder.store, "turns", refuse)
    monkeypatch.setattr(mirror, "render_expected_content", refuse)
    mirrored_folder.commit_and_mirror(make_additions(make_turn(200)))
    monkeypatch.undo()
    assert_files_match(mirrored_folder)


def test_a_change_of_a_session_or_log_that_is_no_addition_writes_it_anew(
    mirrored_folder: MirroredFolder,
) -> None:
    write_samples(mirrored_folder)
    state = make_session("telegram:1")
    mirrored_folder.commit_and_mirror(make_change(state, replace(state, window_start=1, summary="before")))
    assert_files_match(mirrored_folder)
    mirrored_folder.commit_and_mirror(
        make_change(make_turn(0, "telegram:1"), replace(make_turn(0, "telegram:1"), content="said otherwise"))
    )
    assert_files_match(mirrored_folder)
    mirrored_folder.commit_and_mirror(make_additions(make_paragraph(7, position=1.5)))
    assert_files_match(mirrored_folder)
    mirrored_folder.commit_and_mirror(make_removals(make_paragraph(1)))
    assert_files_match(mirrored_folder)
    mirrored_folder.commit_and_mirror(make_removals(make_paragraph(2), make_paragraph(7, position=1.5)))
    assert not (mirrored_folder.root / "memory/HISTORY.md").exists()
    assert_files_match(mirrored_folder)


def test_a_session_and_a_page_that_are_gone_leave_no_file(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    mirrored_folder.commit_and_mirror(
        make_removals(
            make_turn(1, "telegram:1"), make_turn(0, "telegram:1"), make_session("telegram:1"), make_page()
        )
    )
    assert not (mirrored_folder.root / "sessions/telegram:1.jsonl").exists()
    assert not (mirrored_folder.root / "memory/MEMORY.md").exists()
    assert_files_match(mirrored_folder)


def test_names_cannot_lead_out_of_the_folder(mirrored_folder: MirroredFolder) -> None:
    outside = set(mirrored_folder.root.parent.iterdir())
    for name in ("../../x", "/etc/passwd", "..", "a/../../../b", "a\\..\\b", "~root", ".."):
        if mirrored_folder.store.session(name) is None:
            mirrored_folder.commit_and_mirror(
                make_additions(
                    make_session(name), replace(make_turn(0), id=f"{len(name):012x}", session=name)
                )
            )
    assert_files_match(mirrored_folder)
    assert set(mirrored_folder.root.parent.iterdir()) == outside
    assert all(
        path.count("/") == 1 for path in read_all_files(mirrored_folder.root) if path.startswith("sessions/")
    )


def test_sessions_whose_names_differ_in_case_alone_have_files_of_their_own(
    mirrored_folder: MirroredFolder,
) -> None:
    for number, name in enumerate(("Chat:A", "chat:a", "CHAT:A")):
        mirrored_folder.commit_and_mirror(
            make_additions(make_session(name), replace(make_turn(0), id=f"{number:012x}", session=name))
        )
    assert_files_match(mirrored_folder)
    assert len({path.lower() for path in read_all_files(mirrored_folder.root)}) == 3


@BOTH
def test_what_was_forgotten_leaves_the_files(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    gone = [make_record(1, category="a/b", tags=("x",)), make_record(4, layer="episodic", kind="event")]
    last = make_turn(1, "telegram:1")
    mirrored_folder.store.erase(make_removals(*gone, last), actor="owner", at=NOW)
    mirrored_folder.mirror.write()
    assert_files_match(mirrored_folder)
    text = b"".join(read_all_files(mirrored_folder.root).values())
    assert b"record 1" not in text
    assert b"record 4" not in text
    assert b"turn 1" not in text


def test_what_was_forgotten_while_nobody_wrote_files_leaves_them_too(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    mirrored_folder.store.erase(
        make_removals(make_record(2), make_turn(1, "telegram:1")), actor="owner", at=NOW
    )
    mirrored_folder.mirror.write()
    assert_files_match(mirrored_folder)


# -- catching up -------------------------------------------------------------------------------------------


def test_writing_goes_on_where_it_was_left(
    mirrored_folder: MirroredFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_BATCH", 7)
    for number in range(20):
        mirrored_folder.commit(
            make_additions(make_record(number * 2), make_record(number * 2 + 1, layer="episodic"))
        )
        mirrored_folder.commit(
            make_additions(*([make_session("x")] if number == 0 else []), make_turn(number, "x"))
        )
    outcomes = []
    while not (outcome := mirrored_folder.mirror.write(batches=1)).complete:
        outcomes.append(outcome)
        mirrored_folder.open()
    assert len(outcomes) >= 5
    assert_files_match(mirrored_folder)


def test_a_turn_added_between_two_batches_is_written_once(
    mirrored_folder: MirroredFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_BATCH", 3)
    mirrored_folder.commit(make_additions(make_session("x"), make_turn(0, "x"), make_turn(1, "x")))
    mirrored_folder.commit(make_additions(make_turn(2, "x")))
    assert not mirrored_folder.mirror.write(
        batches=1
    ).complete  # the first three changes; the file holds all turns
    mirrored_folder.mirror.write()
    assert_files_match(mirrored_folder)
    assert mirrored_folder.read("sessions/x.jsonl").count(b"\n") == 4


@pytest.mark.slow
@pytest.mark.parametrize("mirrored_folder", ["records", "pages"], indirect=True)
def test_thousands_of_records_are_written_and_found_to_be_written(mirrored_folder: MirroredFolder) -> None:
    records = [make_record(n, category=f"c{n % 30}/d" if n % 3 else None) for n in range(2_000)]
    mirrored_folder.commit(make_additions(*records))
    outcome = mirrored_folder.mirror.write()
    assert outcome.complete
    has_pages = mirrored_folder.layout == "pages"  # a page of many records is written a few times
    assert outcome.written < 200 if has_pages else outcome.written == 2_000
    assert_files_match(mirrored_folder)
    assert mirrored_folder.mirror.write().written == 0


# -- random changes ----------------------------------------------------------------------------------------


class Changes:
    """Random changes of a store, each possible."""

    def __init__(self, mirrored_folder: MirroredFolder, seed: int) -> None:
        self.mirrored_folder = mirrored_folder
        self.random = random.Random(seed)
        self.number = 0

    def one(self) -> list[Change]:
        return self.random.choice(
            [
                *(self.add, self.add, self.alter, self.alter, self.drop, self.many),
                *(self.talk, self.talk, self.state, self.end),
                *(self.tell, self.retell, self.write_page),
            ]
        )()

    def add(self) -> list[Change]:
        return make_additions(self.new_record())

    def many(self) -> list[Change]:
        return make_additions(*(self.new_record() for _ in range(self.random.randrange(2, 9))))

    def new_record(self) -> Record:
        self.number += 1
        moment = make_time(self.random.randrange(-200_000, 200_000))
        layer = self.random.choice(["semantic", "episodic", "episodic"])
        category = self.random.choice([None, "a", "a/b", "a/b/c", "episodic", "D"])
        return make_record(self.number, layer=layer, category=category, created_at=moment)

    def a_record(self) -> Record | None:
        name = f"{self.random.randint(0, self.number):012x}"
        return next(iter(self.mirrored_folder.store.records([name])), None)

    def alter(self) -> list[Change]:
        old = self.a_record()
        if old is None:
            return self.add()
        new = self.random.choice(
            [
                replace(old, seen_count=old.seen_count + 1, metadata=MappingProxyType({"n": "x"})),
                replace(old, category=self.random.choice([None, "a", "a/b", "z"])),
                replace(old, archived_at=None if old.archived else NOW),
                replace(old, layer="semantic" if old.layer == "episodic" else "episodic"),
                replace(old, created_at=old.created_at + timedelta(seconds=self.random.randrange(100_000))),
            ]
        )
        return make_change(old, new)

    def drop(self) -> list[Change]:
        old = self.a_record()
        return make_removals(old) if old else self.add()

    def talk(self) -> list[Change]:
        name = self.random.choice(["telegram:1", "Web:B", "x/y"])
        before: list[Value] = [] if self.mirrored_folder.store.session(name) else [make_session(name)]
        start = len(self.mirrored_folder.store.turns(session=name))
        turns = [make_turn(start + n, name, id=self.new_id()) for n in range(self.random.randrange(1, 4))]
        return make_additions(*before, *turns)

    def new_id(self) -> str:
        return f"{self.random.getrandbits(47) | 1 << 47:012x}"

    def state(self) -> list[Change]:
        states = [overview.state for overview in self.mirrored_folder.store.sessions()]
        if not states:
            return self.talk()
        old = self.random.choice(states)
        return make_change(old, replace(old, summary=old.summary + "x", window_start=old.window_start + 1))

    def end(self) -> list[Change]:
        states = [overview.state for overview in self.mirrored_folder.store.sessions()]
        if not states or self.random.random() < 0.5:
            return self.talk()
        old = self.random.choice(states)
        return make_removals(*reversed(self.mirrored_folder.store.turns(session=old.id)), old)

    def tell(self) -> list[Change]:
        self.number += 1
        name = self.random.choice([HISTORY, HISTORY, "2026-03-01.md", "2026-03-02.md"])
        there = self.mirrored_folder.store.paragraphs(page=name)
        last = there[-1].position if there else 0.0
        place = self.random.choice([last + 1, last + 1, last + 1, last - 0.5])
        return make_additions(make_paragraph(self.number, name, place))

    def retell(self) -> list[Change]:
        there = self.mirrored_folder.store.paragraphs(page=HISTORY)
        if not there:
            return self.tell()
        old = self.random.choice(there)
        return (
            make_removals(old)
            if self.random.random() < 0.5
            else make_change(old, replace(old, content="told anew"))
        )

    def write_page(self) -> list[Change]:
        name = self.random.choice(["MEMORY.md", "projects/atlas.md"])
        old = next(iter(self.mirrored_folder.store.pages([name])), None)
        text = "".join(self.random.choice("abc \n") for _ in range(self.random.randrange(40)))
        if old is not None and self.random.random() < 0.3:
            return make_removals(old)
        new = make_page(text, name)
        return self.write_page() if new == old else [Change(before=old, after=new)]


@BOTH
@pytest.mark.parametrize("seed", sample_cases(range(3)))
def test_after_any_changes_and_mishaps_the_files_say_what_the_store_says(
    mirrored_folder: MirroredFolder, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_BATCH", 5)
    changes = Changes(mirrored_folder, seed)
    for step in range(150):
        mirrored_folder.commit(changes.one())
        match changes.random.randrange(10):
            case 0 | 1 | 2:  # killed before its files were written
                continue
            case 3:
                pending = mirrored_folder.store.journal(after=mirrored_folder.state.progress.sequence)
                if any(is_in_log_or_on_page(row, mirrored_folder.layout) for row in pending):
                    mirrored_folder.mirror.write()  # their earlier versions are known by the state alone
                mirrored_folder.lose_state()
                mirrored_folder.mirror.write()
            case 4:
                shutil.rmtree(
                    mirrored_folder.root / changes.random.choice(["memory", "sessions"]), ignore_errors=True
                )
                mirrored_folder.mirror.write()
            case 5:
                mirrored_folder.mirror.write(batches=1)
            case 6:
                mirrored_folder.state.close()
                mirrored_folder.open()
                mirrored_folder.mirror.write(retry=False)
            case _:
                mirrored_folder.mirror.write(retry=False)
        if step % 10 == 0:
            mirrored_folder.mirror.write()
            assert_files_match(mirrored_folder)
    mirrored_folder.mirror.write()
    assert_files_match(mirrored_folder)


def is_in_log_or_on_page(row: JournalEntry, layout: str) -> bool:
    return any(
        isinstance(value, Paragraph) or (isinstance(value, Record) and build_stem(value, layout) is not None)
        for value in row.values
    )


# -- lost and foreign --------------------------------------------------------------------------------------


@BOTH
def test_without_its_state_only_what_differs_is_written(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    times = {
        path: (mirrored_folder.root / path).stat().st_mtime_ns
        for path in read_all_files(mirrored_folder.root)
    }
    mirrored_folder.lose_state()
    outcome = mirrored_folder.mirror.write()
    assert (outcome.written, outcome.removed, outcome.edited) == (0, 0, [])
    assert {path: (mirrored_folder.root / path).stat().st_mtime_ns for path in times} == times
    assert_files_match(mirrored_folder)


@pytest.mark.parametrize("mirrored_folder", ["records"], indirect=True)
def test_old_versions_are_written_anew_where_the_state_was_lost(mirrored_folder: MirroredFolder) -> None:
    write_samples(mirrored_folder)
    old = read_all_files(mirrored_folder.root)
    mirrored_folder.commit_and_mirror(make_change(make_record(2), replace(make_record(2), content="Newer")))
    mirrored_folder.commit_and_mirror(make_additions(make_turn(2, "telegram:1"), make_paragraph(5)))
    mirrored_folder.commit_and_mirror(make_change(make_page(), make_page("Newer\n")))
    mirrored_folder.commit_and_mirror(
        make_change(make_record(1, category="a/b", tags=("x",)), make_record(1, category="c", tags=("x",)))
    )
    mirrored_folder.lose_state()
    for path, data in old.items():
        (mirrored_folder.root / path).parent.mkdir(parents=True, exist_ok=True)
        (mirrored_folder.root / path).write_bytes(data)
    outcome = mirrored_folder.mirror.write()
    assert outcome.edited == []
    assert_files_match(mirrored_folder)


def test_the_state_of_another_memory_is_not_believed(mirrored_folder: MirroredFolder, tmp_path: Path) -> None:
    other = MirroredFolder(tmp_path / "other", mirrored_folder.layout)
    other.commit_and_mirror(make_additions(*(make_record(n, moment=make_time(n)) for n in range(50))))
    other.store.commit([Change(before=None, after=make_page())], actor="somebody else", at=make_time(1))
    other.mirror.write()
    other.close()
    write_samples(mirrored_folder)
    mirrored_folder.close()
    for name in ("files.db-wal", "files.db-shm"):
        (mirrored_folder.root / name).unlink(missing_ok=True)
    shutil.copy(other.root / "files.db", mirrored_folder.root / "files.db")
    again = MirroredFolder(mirrored_folder.root, mirrored_folder.layout)
    again.mirror.write()
    assert_files_match(again)
    again.close()


def test_a_store_restored_from_a_backup_gets_the_files_of_its_time(
    mirrored_folder: MirroredFolder, tmp_path: Path
) -> None:
    write_samples(mirrored_folder)
    backup = sqlite3.connect(tmp_path / "backup.db")
    source = sqlite3.connect(mirrored_folder.root / "reverie.db")
    source.backup(backup)
    source.close()
    backup.close()
    mirrored_folder.commit_and_mirror(
        make_additions(make_record(50, category="late"), make_turn(2, "telegram:1"))
    )
    mirrored_folder.commit_and_mirror(make_change(make_page(), make_page("late\n")))
    mirrored_folder.close()
    for name in ("reverie.db", "reverie.db-wal", "reverie.db-shm"):
        (mirrored_folder.root / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", mirrored_folder.root / "reverie.db")
    again = MirroredFolder(mirrored_folder.root, mirrored_folder.layout)
    outcome = again.mirror.write()
    # What came after the backup is in no journal any more, so nobody knows that it is not a person's.
    assert sorted(set(outcome.edited)) == ["memory/MEMORY.md"]
    assert (again.root / "memory/records/late.md").exists()
    again.close()


def edit_quietly(folder: EditedFolder, path: str, old: bytes, new: bytes) -> None:
    """Edit a file as `cp -p` and `rsync -a` do: neither its size nor its time shows it."""
    file = folder.path(path)
    before = file.stat()
    file.write_bytes(file.read_bytes().replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size


def test_a_hand_edit_with_the_same_size_and_time_is_imported_and_not_written_over(tmp_path: Path) -> None:
    note = make_note(1, content="It stands in hall 3")
    page = Page(name=MEMORY, content="- kept in hall 3\n", updated_at=NOW)
    with open_edited_folder(tmp_path / "memory") as folder:
        folder.add(note, page)
        edit_quietly(folder, build_note_path(1), b"hall 3", b"hall 8")
        edit_quietly(folder, "memory/MEMORY.md", b"hall 3", b"hall 8")
        folder.change(note, replace(note, importance=0.9))
        folder.change(page, replace(page, content="- kept in hall 3\n- and more\n"))
        assert b"hall 8" in folder.path(build_note_path(1)).read_bytes()
        folder.sync()
        assert (folder.record(1).content, folder.record(1).importance) == ("It stands in hall 8", 0.9)
        assert folder.store.pages()[0].content == "- kept in hall 8\n- and more\n"
        assert folder.read("memory/MEMORY.md") == "- kept in hall 8\n- and more\n"


def test_a_record_edited_quietly_is_not_removed(tmp_path: Path) -> None:
    note = make_note(1, content="It stands in hall 3")
    with open_edited_folder(tmp_path / "memory") as folder:
        folder.add(note)
        edit_quietly(folder, build_note_path(1), b"hall 3", b"hall 8")
        folder.change(note, replace(note, category="elsewhere"))
        folder.sync()
        assert folder.record(1).content == "It stands in hall 8"
