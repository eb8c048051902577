"""The files say what the store says: after every change, and after whatever went wrong."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

import pytest

from reverie.edits import Edit, JournalRow, Value
from reverie.files import mirror as mirror_module
from reverie.files.layout import path_of, render_episodic, render_record
from reverie.files.mirror import FILES_FAILED, patched
from reverie.files.state import Written, checksum
from reverie.pages import HISTORY
from reverie.records import Record
from reverie.testing.values import NOW, added, at, changed, record, removed, session, turn

from .house import House, agree, expected, on_disk, page, paragraph, some_of_everything

WORKER = Path(__file__).with_name("worker.py")
STRIDE = "1" if os.environ.get("REVERIE_TORTURE_SECONDS") else "5"
"""Every how many steps on the disk a process is killed."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    opened = House(tmp_path / "memory")
    yield opened
    opened.close()


# -- what is written when ----------------------------------------------------------------------------------


def test_everything_is_written_after_the_commit(house: House) -> None:
    some_of_everything(house)
    agree(house)
    assert sorted(on_disk(house.root)) == [
        "memory/.archive/a/000000000003.json",
        "memory/000000000002.json",
        "memory/2026-03-01.md",
        "memory/HISTORY.md",
        "memory/MEMORY.md",
        "memory/a/b/000000000001.json",
        "memory/episodic/2026-03-01.jsonl",
        "sessions/telegram:1.jsonl",
    ]


@pytest.mark.parametrize("umask", [0, 0o077, 0o277])
def test_files_are_for_their_owner_alone_whatever_the_umask(house: House, umask: int) -> None:
    before = os.umask(umask)
    try:
        some_of_everything(house)
    finally:
        os.umask(before)
    for place in [
        house.root / "files.db",
        *house.root.glob("memory/**/*"),
        *house.root.glob("sessions/**/*"),
    ]:
        assert stat.S_IMODE(place.stat().st_mode) == (0o700 if place.is_dir() else 0o600), place


def test_a_record_moves_with_its_category_and_into_the_archive(house: House) -> None:
    here = record(1, category="a/b")
    house.make(added(here))
    there = replace(here, category="c")
    house.make(changed(here, there))
    agree(house)
    assert not (house.root / "memory/a").exists()
    archived = replace(there, archived_at=NOW)
    house.make(changed(there, archived))
    agree(house)
    assert not (house.root / "memory/c").exists()
    house.make(changed(archived, there))
    house.make(removed(there))
    agree(house)
    assert not (house.root / "memory/.archive").exists()


def test_a_record_that_becomes_episodic_moves_into_the_file_of_its_day(house: House) -> None:
    semantic = record(1, category="a")
    episodic = replace(semantic, layer="episodic")
    house.make(added(semantic))
    house.make(changed(semantic, episodic))
    agree(house)
    house.make(changed(episodic, semantic))
    agree(house)


def test_turns_and_paragraphs_are_added_to_their_files(house: House) -> None:
    some_of_everything(house)
    paths = ("sessions/telegram:1.jsonl", "memory/HISTORY.md", "memory/episodic/2026-03-01.jsonl")
    before = {path: (house.root / path).stat().st_ino for path in paths}
    house.make(added(turn(2, "telegram:1"), turn(3, "telegram:1")))
    house.make(added(turn(4, "telegram:1")))
    house.make(added(paragraph(4)))
    house.make(added(record(6, layer="episodic", created_at=at(9))))
    assert {path: (house.root / path).stat().st_ino for path in paths} == before
    agree(house)


def test_adding_a_turn_costs_what_the_turn_is_long(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.make(added(session(), *(turn(n) for n in range(200))))

    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("the whole session was read")

    monkeypatch.setattr(house.store, "turns", refuse)
    monkeypatch.setattr(mirror_module, "present", refuse)
    house.make(added(turn(200)))
    monkeypatch.undo()
    agree(house)


def test_a_change_of_a_session_or_log_that_is_no_addition_writes_it_anew(house: House) -> None:
    some_of_everything(house)
    state = session("telegram:1")
    house.make(changed(state, replace(state, window_start=1, summary="before")))
    agree(house)
    house.make(changed(turn(0, "telegram:1"), replace(turn(0, "telegram:1"), content="said otherwise")))
    agree(house)
    house.make(added(paragraph(7, position=1.5)))
    agree(house)
    house.make(removed(paragraph(1)))
    agree(house)
    house.make(removed(paragraph(2), paragraph(7, position=1.5)))
    assert not (house.root / "memory/HISTORY.md").exists()
    agree(house)


def test_a_session_and_a_page_that_are_gone_leave_no_file(house: House) -> None:
    some_of_everything(house)
    house.make(removed(turn(1, "telegram:1"), turn(0, "telegram:1"), session("telegram:1"), page()))
    assert not (house.root / "sessions/telegram:1.jsonl").exists()
    assert not (house.root / "memory/MEMORY.md").exists()
    agree(house)


def test_names_cannot_lead_out_of_the_folder(house: House) -> None:
    outside = set(house.root.parent.iterdir())
    for name in ("../../x", "/etc/passwd", "..", "a/../../../b", "a\\..\\b", "~root", ".."):
        if house.store.session(name) is None:
            house.make(added(session(name), replace(turn(0), id=f"{len(name):012x}", session=name)))
    agree(house)
    assert set(house.root.parent.iterdir()) == outside
    assert all(path.count("/") == 1 for path in on_disk(house.root) if path.startswith("sessions/"))


def test_sessions_whose_names_differ_in_case_alone_have_files_of_their_own(house: House) -> None:
    for number, name in enumerate(("Chat:A", "chat:a", "CHAT:A")):
        house.make(added(session(name), replace(turn(0), id=f"{number:012x}", session=name)))
    agree(house)
    assert len({path.lower() for path in on_disk(house.root)}) == 3


def test_lines_of_a_day_change_in_their_place() -> None:
    first, second, third = (record(n, layer="episodic", created_at=at(n)) for n in (1, 2, 3))
    old = render_episodic([first, third])
    assert patched(old, {second.id: second}) == render_episodic([first, second, third])
    assert patched(old, {first.id: None}) == render_episodic([third])
    again = replace(third, seen_count=2)
    assert patched(old, {third.id: again, second.id: second}) == render_episodic([first, second, again])
    earlier = replace(third, created_at=at(0))
    assert patched(old, {third.id: earlier}) == render_episodic([earlier, first])
    assert patched(b"", {}) == b""


def test_what_was_forgotten_leaves_the_files(house: House) -> None:
    some_of_everything(house)
    gone = [record(1, category="a/b", tags=("x",)), record(4, layer="episodic", kind="event")]
    last = turn(1, "telegram:1")
    rows = house.store.erase(removed(*gone, last), actor="owner", at=NOW)
    house.mirror.notice(rows)
    agree(house)
    text = b"".join(on_disk(house.root).values())
    assert b"record 1" not in text
    assert b"record 4" not in text
    assert b"turn 1" not in text


def test_what_was_forgotten_while_nobody_wrote_files_leaves_them_too(house: House) -> None:
    some_of_everything(house)
    house.store.erase(removed(record(2), turn(1, "telegram:1")), actor="owner", at=NOW)
    house.mirror.write()
    agree(house)


# -- catching up -------------------------------------------------------------------------------------------


def test_what_another_process_committed_and_did_not_write_is_made_good(house: House) -> None:
    house.make(added(record(1, category="a")))
    house.commit(changed(record(1, category="a"), record(1, category="b")))
    house.commit(added(record(2), session("x"), turn(0, "x")))
    house.commit(removed(record(2)))
    assert house.mirror.behind() == 5
    house.make(added(record(3)))  # the next one writes them all
    agree(house)


def test_much_that_is_to_be_made_good_is_left_to_the_background(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "AT_ONCE", 10)
    house.make(added(record(1)))
    house.commit(added(*(record(n) for n in range(100, 120))))
    assert not house.make(added(record(2))).complete
    assert not (house.root / "memory/000000000002.json").exists()
    house.mirror.write()
    agree(house)


def test_writing_goes_on_where_it_was_left(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "_BATCH", 7)
    for number in range(20):
        house.commit(added(record(number * 2), record(number * 2 + 1, layer="episodic")))
        house.commit(added(*([session("x")] if number == 0 else []), turn(number, "x")))
    outcomes = []
    while not (outcome := house.mirror.write(batches=1)).complete:
        outcomes.append(outcome)
        house.open()
    assert len(outcomes) >= 5
    agree(house)


def test_a_turn_added_between_two_batches_is_written_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "_BATCH", 3)
    house.commit(added(session("x"), turn(0, "x"), turn(1, "x")))
    rows = house.commit(added(turn(2, "x")))
    assert not house.mirror.write(batches=1).complete  # the first three changes; the file holds all turns
    house.mirror.notice(rows)
    agree(house)
    assert house.read("sessions/x.jsonl").count(b"\n") == 4


def test_ten_thousand_records_are_written_and_found_to_be_written(house: House) -> None:
    values = [record(n, category=f"c{n % 30}/d" if n % 3 else None) for n in range(10_000)]
    for start in range(0, 10_000, 1_000):
        house.commit(added(*values[start : start + 1_000]))
    outcome = house.mirror.write()
    assert (outcome.written, outcome.complete) == (10_000, True)
    agree(house)
    assert house.mirror.write().written == 0


# -- random changes ----------------------------------------------------------------------------------------


class Changes:
    """Random changes of a store, each possible."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.random = random.Random(seed)
        self.number = 0

    def one(self) -> list[Edit]:
        return self.random.choice(
            [
                *(self.add, self.add, self.alter, self.alter, self.drop, self.many),
                *(self.talk, self.talk, self.state, self.end),
                *(self.tell, self.retell, self.write_page),
            ]
        )()

    def add(self) -> list[Edit]:
        return added(self.new_record())

    def many(self) -> list[Edit]:
        return added(*(self.new_record() for _ in range(self.random.randrange(2, 9))))

    def new_record(self) -> Record:
        self.number += 1
        moment = at(self.random.randrange(-200_000, 200_000))
        layer = self.random.choice(["semantic", "episodic", "episodic"])
        category = self.random.choice([None, "a", "a/b", "a/b/c", "episodic", "D"])
        return record(self.number, layer=layer, category=category, created_at=moment)

    def a_record(self) -> Record | None:
        name = f"{self.random.randint(0, self.number):012x}"
        return next(iter(self.house.store.records([name])), None)

    def alter(self) -> list[Edit]:
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
        return changed(old, new)

    def drop(self) -> list[Edit]:
        old = self.a_record()
        return removed(old) if old else self.add()

    def talk(self) -> list[Edit]:
        name = self.random.choice(["telegram:1", "Web:B", "x/y"])
        before: list[Value] = [] if self.house.store.session(name) else [session(name)]
        start = len(self.house.store.turns(session=name))
        turns = [turn(start + n, name, id=self.new_id()) for n in range(self.random.randrange(1, 4))]
        return added(*before, *turns)

    def new_id(self) -> str:
        return f"{self.random.getrandbits(47) | 1 << 47:012x}"

    def state(self) -> list[Edit]:
        states = [overview.state for overview in self.house.store.sessions()]
        if not states:
            return self.talk()
        old = self.random.choice(states)
        return changed(old, replace(old, summary=old.summary + "x", window_start=old.window_start + 1))

    def end(self) -> list[Edit]:
        states = [overview.state for overview in self.house.store.sessions()]
        if not states or self.random.random() < 0.5:
            return self.talk()
        old = self.random.choice(states)
        return removed(*reversed(self.house.store.turns(session=old.id)), old)

    def tell(self) -> list[Edit]:
        self.number += 1
        name = self.random.choice([HISTORY, HISTORY, "2026-03-01.md", "2026-03-02.md"])
        there = self.house.store.paragraphs(page=name)
        last = there[-1].position if there else 0.0
        place = self.random.choice([last + 1, last + 1, last + 1, last - 0.5])
        return added(paragraph(self.number, name, place))

    def retell(self) -> list[Edit]:
        there = self.house.store.paragraphs(page=HISTORY)
        if not there:
            return self.tell()
        old = self.random.choice(there)
        return removed(old) if self.random.random() < 0.5 else changed(old, replace(old, content="told anew"))

    def write_page(self) -> list[Edit]:
        name = self.random.choice(["MEMORY.md", "projects/atlas.md"])
        old = next(iter(self.house.store.pages([name])), None)
        text = "".join(self.random.choice("abc \n") for _ in range(self.random.randrange(40)))
        if old is not None and self.random.random() < 0.3:
            return removed(old)
        new = page(text, name)
        return self.write_page() if new == old else [Edit(before=old, after=new)]


@pytest.mark.parametrize("seed", range(3))
def test_after_any_changes_the_files_say_what_the_store_says(house: House, seed: int) -> None:
    changes = Changes(house, seed)
    for step in range(150):
        assert house.make(changes.one()) is not None
        if step % 25 == 0:
            agree(house)
    agree(house)


@pytest.mark.parametrize("seed", range(3))
def test_after_any_changes_and_mishaps_the_files_say_what_the_store_says(
    house: House, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_module, "_BATCH", 5)
    changes = Changes(house, seed)
    for step in range(150):
        rows = house.commit(changes.one())
        match changes.random.randrange(10):
            case 0 | 1 | 2:  # killed before its files were written
                continue
            case 3:
                if any(map(is_told, house.store.journal(after=house.state.progress().sequence))):
                    house.mirror.write()  # earlier versions of a log are known by the state alone
                house.lose_state()
                house.mirror.write()
            case 4:
                shutil.rmtree(house.root / changes.random.choice(["memory", "sessions"]), ignore_errors=True)
                house.mirror.write()
            case 5:
                house.mirror.write(batches=1)
            case 6:
                house.state.close()
                house.open()
                house.mirror.notice(rows)
            case _:
                house.mirror.notice(rows)
        if step % 10 == 0:
            house.mirror.write()
            agree(house)
    house.mirror.write()
    agree(house)


def is_told(row: JournalRow) -> bool:
    return row.subject == "paragraph"


# -- lost and foreign --------------------------------------------------------------------------------------


@pytest.mark.parametrize("top", ["memory", "sessions"])
def test_a_folder_that_was_lost_is_written_again(house: House, top: str) -> None:
    some_of_everything(house)
    shutil.rmtree(house.root / top)
    house.make(added(record(8)))
    agree(house)


def test_without_its_state_only_what_differs_is_written(house: House) -> None:
    some_of_everything(house)
    times = {path: (house.root / path).stat().st_mtime_ns for path in on_disk(house.root)}
    house.lose_state()
    outcome = house.mirror.write()
    assert (outcome.written, outcome.removed, outcome.edited) == (0, 0, [])
    assert {path: (house.root / path).stat().st_mtime_ns for path in times} == times
    agree(house)


def test_old_versions_are_written_anew_where_the_state_was_lost(house: House) -> None:
    some_of_everything(house)
    old = on_disk(house.root)
    house.make(changed(record(2), replace(record(2), content="Newer")))
    house.make(added(turn(2, "telegram:1"), paragraph(5)))
    house.make(changed(page(), page("Newer\n")))
    house.make(changed(record(1, category="a/b", tags=("x",)), record(1, category="c", tags=("x",))))
    event = record(4, layer="episodic", kind="event")
    house.make(changed(event, replace(event, seen_count=2)))
    house.lose_state()
    for path, data in old.items():
        (house.root / path).parent.mkdir(parents=True, exist_ok=True)
        (house.root / path).write_bytes(data)
    outcome = house.mirror.write()
    assert outcome.edited == []
    agree(house)


def test_the_state_of_another_memory_is_not_believed(house: House, tmp_path: Path) -> None:
    other = House(tmp_path / "other")
    other.make(added(*(record(n, moment=at(n)) for n in range(50))))
    other.store.commit([Edit(before=None, after=page())], actor="somebody else", at=at(1))
    other.mirror.write()
    other.close()
    some_of_everything(house)
    house.close()
    for name in ("files.db-wal", "files.db-shm"):
        (house.root / name).unlink(missing_ok=True)
    shutil.copy(other.root / "files.db", house.root / "files.db")
    again = House(house.root)
    again.mirror.write()
    agree(again)
    again.close()


def test_a_store_restored_from_a_backup_gets_the_files_of_its_time(house: House, tmp_path: Path) -> None:
    some_of_everything(house)
    backup = sqlite3.connect(tmp_path / "backup.db")
    source = sqlite3.connect(house.root / "reverie.db")
    source.backup(backup)
    source.close()
    backup.close()
    house.make(added(record(50, category="late"), turn(2, "telegram:1")))
    house.make(changed(page(), page("late\n")))
    house.close()
    for name in ("reverie.db", "reverie.db-wal", "reverie.db-shm"):
        (house.root / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", house.root / "reverie.db")
    again = House(house.root)
    outcome = again.mirror.write()
    # What came after the backup is in no journal any more, so nobody knows that it is not a person's.
    assert sorted(set(outcome.edited)) == ["memory/MEMORY.md", "sessions/telegram:1.jsonl"]
    assert (again.root / "memory/late/000000000032.json").exists()
    again.close()


# -- hand edits --------------------------------------------------------------------------------------------

EDITS: list[tuple[str, Callable[[House], object]]] = [
    (
        "memory/000000000002.json",
        lambda house: house.make(changed(record(2), replace(record(2), content="By the program"))),
    ),
    ("memory/000000000002.json", lambda house: house.make(removed(record(2)))),
    ("memory/000000000002.json", lambda house: house.make(changed(record(2), record(2, category="else")))),
    ("memory/MEMORY.md", lambda house: house.make(changed(page(), page("By the program\n")))),
    ("memory/HISTORY.md", lambda house: house.make(added(paragraph(9)))),
    ("memory/2026-03-01.md", lambda house: house.make(added(paragraph(9, "2026-03-01.md")))),
    ("sessions/telegram:1.jsonl", lambda house: house.make(added(turn(2, "telegram:1")))),
    (
        "memory/episodic/2026-03-01.jsonl",
        lambda house: house.make(added(record(7, layer="episodic", created_at=at(7)))),
    ),
    (
        "memory/episodic/2026-03-01.jsonl",
        lambda house: house.make(removed(record(4, layer="episodic", kind="event"))),
    ),
]


@pytest.mark.parametrize(("path", "change"), EDITS)
def test_what_a_person_edited_is_left_until_it_was_taken_in(
    house: House, path: str, change: Callable[[House], object]
) -> None:
    some_of_everything(house)
    file = house.root / path
    edited = file.read_bytes().replace(b"1", b"one", 1) + b"By hand\n"
    file.write_bytes(edited)
    change(house)
    assert file.read_bytes() == edited
    assert house.state.due() == [path]
    house.lose_state()
    house.mirror.write()
    assert file.read_bytes() == edited
    seen = file.stat()
    with house.state.locked() as ledger:  # as `handedits` does when its content is in the store
        ledger.put([Written(path, seen.st_size, seen.st_mtime_ns, checksum(edited))])
        ledger.owe([path])
    house.mirror.write()
    agree(house)


@pytest.mark.parametrize(("path", "change"), EDITS)
def test_what_a_person_deleted_is_not_written_again(
    house: House, path: str, change: Callable[[House], object]
) -> None:
    some_of_everything(house)
    (house.root / path).unlink()
    change(house)
    assert not (house.root / path).exists()
    with house.state.locked() as ledger:
        ledger.drop([path])
        ledger.owe([path])
    house.mirror.write()
    agree(house)


@pytest.mark.parametrize(("path", "change"), EDITS)
def test_a_file_that_was_only_touched_is_written(
    house: House, path: str, change: Callable[[House], object]
) -> None:
    some_of_everything(house)
    os.utime(house.root / path, ns=(1, 1))
    change(house)
    house.mirror.write()
    agree(house)


def test_a_file_that_a_person_added_is_left(house: House) -> None:
    some_of_everything(house)
    mine = house.root / "memory/a/b/00000000abcd.json"
    mine.write_bytes(render_record(record(0xABCD, content="By hand")))
    house.make(added(record(0xABCD, category="a/b", content="By the program")))
    assert b"By hand" in mine.read_bytes()
    house.lose_state()
    house.mirror.write()
    assert b"By hand" in mine.read_bytes()


def test_a_line_that_a_person_took_out_is_not_taken_for_an_old_version(house: House) -> None:
    some_of_everything(house)
    for path, keep in (("memory/episodic/2026-03-01.jsonl", 1), ("sessions/telegram:1.jsonl", 2)):
        lines = (house.root / path).read_bytes().splitlines(keepends=True)
        shortened = b"".join([*lines[: keep - 1], *lines[keep:]])
        (house.root / path).write_bytes(shortened)
        house.lose_state()
        house.mirror.write()
        assert (house.root / path).read_bytes() == shortened


def test_an_edit_that_slips_in_while_a_file_is_replaced_is_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_of_everything(house)
    file = house.root / "memory/MEMORY.md"
    real = house.mirror.disk.replace

    def late(*args: object, **options: object) -> object:
        file.write_bytes(b"By hand\n")
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(house.mirror.disk, "replace", late)
    outcome = house.make(changed(page(), page("By the program\n")))
    assert outcome.edited == ["memory/MEMORY.md"]
    assert file.read_bytes() == b"By hand\n"
    assert house.state.due() == ["memory/MEMORY.md"]


# -- interrupted -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["sessions/telegram:1.jsonl", "memory/HISTORY.md"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_torn_addition_is_made_whole(house: House, path: str, lost: bool) -> None:
    some_of_everything(house)
    before = house.read(path)
    house.commit(added(turn(2, "telegram:1"), turn(3, "telegram:1"), paragraph(8), paragraph(9)))
    whole = expected(house.store)[path]
    for cut in range(len(before) + 1, len(whole) + 1, 17):
        (house.root / path).write_bytes(whole[:cut])
        if lost:
            house.lose_state()
        outcome = house.mirror.write()
        assert outcome.edited == []
        agree(house)
        with house.state.locked() as ledger:  # as if it had not been written
            ledger.put([Written(path, len(before), 1, checksum(before))])
            ledger.owe([path])


@pytest.mark.parametrize("way", ["exchange", "link", "rename"])
def test_a_process_may_be_killed_at_any_step(tmp_path: Path, way: str) -> None:
    """A child is killed before its first, second, … step on the disk, each time in a folder of its own."""
    folder = tmp_path / way
    command = [sys.executable, "-W", "error", str(WORKER), "steps", str(folder), way, STRIDE]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert ran.returncode == 0, ran.stderr
    ends = sorted(folder.iterdir())
    assert len(ends) > 100 / int(STRIDE)
    for end in ends:
        house = House(end)
        outcome = house.mirror.write()
        assert (outcome.edited, outcome.failed) == ([], {}), end
        agree(house)
        house.close()


def test_processes_that_write_one_folder_at_once_agree(tmp_path: Path) -> None:
    house = House(tmp_path / "memory")
    house.make(added(session("shared")))
    command = [sys.executable, "-W", "error", str(WORKER), "busy", str(house.root)]
    running = [subprocess.Popen([*command, str(number), "150"]) for number in range(4)]
    assert [process.wait(110) for process in running] == [0] * 4
    house.mirror.write()
    agree(house)
    assert len(house.store.turns(session="shared")) == 4 * 50
    house.close()


def test_processes_killed_at_random_leave_nothing_that_the_next_does_not_make_good(tmp_path: Path) -> None:
    house = House(tmp_path / "memory")
    house.make(added(session("shared")))
    command = [sys.executable, "-W", "error", str(WORKER), "busy", str(house.root)]
    chance = random.Random(7)
    for round_ in range(4):
        running = [subprocess.Popen([*command, f"{round_}{number}", "100000"]) for number in range(3)]
        for process in running:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.5, 1.0))
            process.send_signal(signal.SIGKILL)
            process.wait(60)
        outcome = house.mirror.write()
        assert (outcome.edited, outcome.failed, outcome.complete) == ([], {}, True)
        agree(house)
    house.close()


# -- failures ----------------------------------------------------------------------------------------------


def failing_below(folder: Path, number: int) -> Callable[..., int]:
    """`os.open` as on a disk that is read-only, or full, below a folder."""
    real = os.open

    def refuse(path: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_CREAT and os.fspath(path).startswith(os.fspath(folder)):
            raise OSError(number, os.strerror(number), path)
        return real(path, flags, *args, **options)

    return refuse


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failed_write_is_a_warning_and_a_counter_and_is_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    some_of_everything(house)
    monkeypatch.setattr(os, "open", failing_below(house.root / "memory", number))
    outcome = house.make(added(record(20), session("y")))
    assert outcome.failed == {"memory/000000000014.json": os.strerror(number)}
    assert house.mirror.failed == outcome.failed
    assert house.store.count(FILES_FAILED) == 1
    assert (house.root / "sessions/y.jsonl").exists()
    assert [message for message in caplog.messages if "memory/000000000014.json" in message]
    house.make(added(record(21)))
    assert house.store.count(FILES_FAILED) == 2
    monkeypatch.undo()
    house.make(added(record(22)))
    assert house.mirror.failed == {}
    house.mirror.write()
    agree(house)


def test_a_failed_write_is_made_good_by_another_process(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "open", failing_below(house.root / "memory", errno.EROFS))
    house.make(added(record(20)))
    monkeypatch.undo()
    house.state.close()
    house.open()
    house.mirror.write()
    agree(house)


def test_a_full_disk_costs_no_exception_and_nothing_that_was_written(tmp_path: Path) -> None:
    """In a process whose files may not grow: as a full disk, for the files, `files.db` and the database."""
    command = [sys.executable, "-W", "error", str(WORKER), "full", str(tmp_path / "memory")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert "not written" in ran.stderr
    house = House(tmp_path / "memory")
    house.mirror.write()
    agree(house)
    assert len(house.store.turns(session="long")) > 3
    house.close()


def test_a_state_that_cannot_be_kept_costs_no_exception(house: House) -> None:
    (house.root / "files.db").mkdir()
    outcome = house.make(added(record(1)))
    assert not outcome.complete
    assert list(house.mirror.failed) == [""]
    (house.root / "files.db").rmdir()
    house.make(added(record(2)))
    assert house.mirror.failed == {}
    agree(house)


def test_a_link_is_refused_and_everything_else_is_written(house: House, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (house.root / "memory").mkdir()
    (house.root / "memory/a").symlink_to(outside)
    (tmp_path / "notes.md").write_text("precious")
    (house.root / "memory/MEMORY.md").symlink_to(tmp_path / "notes.md")
    house.make(added(record(1, category="a"), record(2, category="b"), page("ours")))
    assert sorted(house.mirror.failed) == ["memory/MEMORY.md", "memory/a/000000000001.json"]
    assert list(outside.iterdir()) == []
    assert (tmp_path / "notes.md").read_text() == "precious"
    assert (house.root / "memory/b/000000000002.json").exists()
    (house.root / "memory/a").unlink()
    (house.root / "memory/MEMORY.md").unlink()
    house.mirror.write()
    agree(house)


def test_a_record_that_cannot_be_read_costs_the_others_nothing(house: House) -> None:
    house.make(added(*(record(n) for n in range(3))))
    with sqlite3.connect(house.root / "reverie.db") as file:
        file.execute("UPDATE records SET kind = 'nonsense' WHERE id = ?", (record(1).id,))
    file.close()
    house.commit(changed(record(0), replace(record(0), seen_count=2)))
    house.commit(added(record(3)))
    with house.state.locked() as ledger:
        ledger.owe([path_of(record(1))])
    outcome = house.mirror.write()
    assert list(outcome.failed) == [path_of(record(1))]
    assert house.read(path_of(record(1))) == render_record(record(1))
    assert b'"seen_count": 2' in house.read(path_of(record(0)))
    assert (house.root / path_of(record(3))).exists()
