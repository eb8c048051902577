"""Every way to damage a folder is found, told in plain words without content, and repaired or explained."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory, ReverieError
from reverie.doctor import Diagnosis, unopened
from reverie.edits import Edit
from reverie.filters import Filter
from reverie.pages import HISTORY, MEMORY, Page, Paragraph
from reverie.testing.values import NOW

SECRET = "marzipan"
"""Stands in everything that is remembered here, and in nothing that a doctor may say."""


def filled(folder: Path) -> Path:
    """A folder with some of everything; keys of records are 1 to 6, of the session 9."""
    seconds = itertools.count()
    with Memory.open(folder, clock=lambda: NOW + timedelta(seconds=next(seconds))) as memory:
        one, two, *_ = [
            memory.save(
                f"Crate {n} of {SECRET} stands in hall {n * 3}", tags=["crate"], category="stock"
            ).record
            for n in range(6)
        ]
        memory.update(one.id, source=f"the {SECRET} list")
        memory.archive(two.id, reason=f"no more {SECRET}")
        chat = memory.session("chat:1")
        chat.add("user", f"where is the {SECRET}?")
        chat.add(
            "assistant", f"looking for {SECRET}", tool_calls=[{"id": "c", "name": "find", "arguments": "{}"}]
        )
        chat.add("tool", f"{SECRET} found", tool_call_id="c")
        chat.working.set("note", f"{SECRET}", ttl=None)
        page = Page(name=MEMORY, content=f"# About\n\n{SECRET}\n", updated_at=NOW)
        memory._store.commit([Edit(before=None, after=page)], actor="owner", at=NOW)
        said = [paragraph(n) for n in range(3)]
        memory._store.commit([Edit(before=None, after=each) for each in said], actor="owner", at=NOW)
        later = replace(page, content=f"# About\n\n{SECRET} and more\n")
        memory._store.commit([Edit(before=page, after=later)], actor="owner", at=NOW)
    return folder


def paragraph(number: int) -> Paragraph:
    return Paragraph(
        id=f"{number:012x}",
        page=HISTORY,
        position=float(number),
        at=NOW,
        content=f"[{number}] {SECRET} again",
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("whole") / "memory")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy of a folder with some of everything, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "memory"))


def spoil(folder: Path, *statements: str) -> None:
    """Change the database behind Reverie's back."""
    with contextlib.closing(sqlite3.connect(folder / "reverie.db")) as file, file:
        for sql in statements:
            file.execute(sql)


def doctor(folder: Path, *, fix: bool = False) -> Diagnosis:
    """What `reverie doctor` would find."""
    try:
        with Memory.open(folder, create=False, clock=lambda: NOW) as memory:
            found = memory.doctor(fix=fix)
    except ReverieError as error:
        unopenable = unopened(folder, error)
        if unopenable is None:
            raise
        found = unopenable
    assert SECRET not in repr(found)
    return found


def codes(diagnosis: Diagnosis) -> set[str]:
    return {finding.code for finding in diagnosis.findings if finding.severity != "note"}


def told(diagnosis: Diagnosis) -> str:
    return "\n".join(f"{finding.what}; {finding.fix}" for finding in diagnosis.findings)


def everything(folder: Path) -> list[Any]:
    """All that is remembered, and in which order it changed."""
    with Memory.open(folder, clock=lambda: NOW) as memory:
        store = memory._store
        things: list[Any] = [
            sorted(store.find(Filter(archived=None)), key=lambda record: record.id),
            store.turns(session="chat:1"),
            store.session("chat:1"),
            store.pages(),
            [store.paragraphs(page=name) for name in store.logs()],
            store.journal(limit=10_000),
        ]
        things.append([hit.id for hit in memory.search(f"crate of {SECRET}", limit=50)])
        return things


def test_a_whole_folder_is_sound(folder: Path) -> None:
    diagnosis = doctor(folder)
    assert diagnosis.sound
    assert diagnosis.findings == ()
    assert diagnosis.checked["passages"] == 5 + 3 + 3


def test_a_memory_without_a_folder_is_sound() -> None:
    with Memory.open(":memory:") as memory:
        memory.save("a fact")
        assert memory.doctor(fix=True).sound


# -- the database ------------------------------------------------------------------------------------------

MENDED = {
    "a list cut short": ("UPDATE records SET tags = '[\"x' WHERE key = 3", "cannot be read"),
    "bytes that are no text": (
        "UPDATE records SET content = CAST(x'41ff' AS TEXT) WHERE key = 3",
        "cannot be read",
    ),
    "a number that is none": ("UPDATE records SET seen_count = 'often' WHERE key = 1", "cannot be read"),
    "another fingerprint": ("UPDATE records SET fingerprint = 'x' WHERE key = 1", "another fingerprint"),
    "a record gone": ("DELETE FROM records WHERE key = 3", "not in the store"),
    "an archived record gone": ("DELETE FROM records WHERE key = 2", "not in the store"),
    "all records gone": ("DELETE FROM records", "not in the store"),
    "a turn gone": ("DELETE FROM turns WHERE position = 1", "2 turns in 3 positions"),
    "a turn damaged": ("UPDATE turns SET tool_calls = '[1]' WHERE position = 1", "cannot be read"),
    "a session gone": ("DELETE FROM sessions", "belongs to none of sessions"),
    "a session damaged": ("UPDATE sessions SET status = 'asleep'", "cannot be read"),
    "a page gone": ("DELETE FROM pages", "not in the store"),
    "a page damaged": ("UPDATE pages SET updated_at = 'now'", "cannot be read"),
    "a paragraph gone": ("DELETE FROM paragraphs WHERE position = 1.0", "not in the store"),
    "a paragraph damaged": ("UPDATE paragraphs SET position = 'last' WHERE position = 2.0", "cannot be read"),
    "other words": ("UPDATE records SET terms = ' nothing ' WHERE key = 3", "other words"),
    "other words of a turn": ("UPDATE turns SET cues = 'q' WHERE position = 0", "other words"),
    "other words of a paragraph": ("UPDATE paragraphs SET length = 99", "differ from a recount"),
    "counters wrong": ("UPDATE measures SET tokens = tokens + 1", "differ from a recount"),
    "counters gone": ("DELETE FROM measures", "differ from a recount"),
    "a creation that cannot be read": ("UPDATE journal SET after = '{' WHERE sequence = 3", "cannot be read"),
    "an earlier version that cannot be read": (
        "UPDATE journal SET after = '{' WHERE sequence = 1",
        "cannot be read",
    ),
    "a change that cannot be read": ("UPDATE journal SET after = '{' WHERE sequence = 7", "cannot be read"),
    "what was before cannot be read": (
        "UPDATE journal SET before = '{' WHERE sequence = 7",
        "cannot be read",
    ),
    "a change of two things": (
        "UPDATE journal SET before = (SELECT after FROM journal WHERE sequence = 3) WHERE sequence = 7",
        "two things",
    ),
    "a creation with something before": (
        "UPDATE journal SET before = after WHERE sequence = 3",
        "does not follow",
    ),
}


@pytest.mark.parametrize("how", MENDED)
def test_what_stands_twice_in_the_database_is_put_right(whole: Path, folder: Path, how: str) -> None:
    sql, words = MENDED[how]
    spoil(folder, sql)
    before = doctor(folder)
    assert words in told(before)
    assert not before.sound
    assert all(finding.repairable for finding in before.findings)
    after = doctor(folder, fix=True)
    assert after.sound, told(after)
    assert after.repaired
    assert doctor(folder).findings == ()
    assert everything(folder) == everything(whole)


@pytest.mark.parametrize(
    ("sql", "gone"),
    [
        ("DELETE FROM journal WHERE sequence = 3", None),
        ("DELETE FROM journal WHERE sequence = 1", None),
        ("DELETE FROM journal WHERE sequence = 13", None),
        ("DELETE FROM journal WHERE sequence > 10", None),
        ("DELETE FROM journal WHERE sequence = 7", 7),
        ("UPDATE journal SET at = 'x', reason = x'00' WHERE sequence = 4", None),
    ],
)
def test_what_the_journal_lost_and_the_tables_have_stays(
    whole: Path, folder: Path, sql: str, gone: int | None
) -> None:
    spoil(folder, sql)
    assert "journal" in told(doctor(folder))
    after = doctor(folder, fix=True)
    assert after.sound, told(after)
    assert everything(folder)[:5] == everything(whole)[:5]
    with Memory.open(folder) as memory:
        rows = memory.history(limit=1_000)
        assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
        if gone is not None:
            assert (rows[gone - 1].actor, rows[gone - 1].reason) == ("doctor", "lost")
        memory.save("a fact that is new")
        assert memory.check() == []


def test_a_record_changed_beside_reverie_is_put_back_and_what_was_found_is_kept(
    whole: Path, folder: Path
) -> None:
    spoil(folder, "UPDATE records SET content = 'changed by a tool' WHERE key = 3")
    assert "is not what the journal says" in told(doctor(folder))
    assert doctor(folder, fix=True).sound
    was, now = everything(whole), everything(folder)
    assert now[:5] == was[:5]
    found = [row.edit.after.content for row in now[5][-2:]]
    assert found == ["changed by a tool", f"Crate 2 of {SECRET} stands in hall 6"]


def test_a_change_that_the_journal_lost_is_kept(folder: Path) -> None:
    with Memory.open(folder) as memory:
        sequence = memory.stats().journal
        changed = memory.update(memory.records(limit=1)[0].id, content="a newer text by Reverie itself")
    spoil(folder, f"DELETE FROM journal WHERE sequence > {sequence}")
    assert "is not what the journal says" in told(doctor(folder))
    assert doctor(folder, fix=True).sound
    with Memory.open(folder) as memory:
        assert memory.get(changed.id) == changed
        assert memory.history(changed.id)[-1].edit.after == changed


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("UPDATE entries SET tags = '1'", "drop it with drop_entries"),
        (
            "UPDATE journal SET before = replace(before, 'hall 0', 'hall 5') WHERE sequence = 7",
            "follow",
        ),
        (
            "UPDATE records SET seen_count = 'x' WHERE key = 3; "
            "UPDATE journal SET after = '{' WHERE sequence = 3",
            "3",
        ),
    ],
)
def test_what_stands_nowhere_else_is_explained_and_left_alone(folder: Path, sql: str, words: str) -> None:
    spoil(folder, *sql.split("; "))
    content = dump(folder)
    for fix in (False, True, True):
        diagnosis = doctor(folder, fix=fix)
        assert not diagnosis.sound
        assert words in told(diagnosis)
        assert all(finding.fix for finding in diagnosis.findings)
    assert dump(folder) == content


def dump(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / "reverie.db")) as file:
        file.text_factory = bytes
        names = [
            name.decode() for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return [repr(file.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()) for name in sorted(names)]


def test_an_index_of_the_database_that_does_not_fit_is_made_again(whole: Path, folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "reverie.db", isolation_level=None)) as file:
        file.execute("PRAGMA writable_schema = ON")
        file.execute("CREATE INDEX other ON records (source)")
        (root,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = 'other'").fetchone()
        file.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'records_id'", (root,))
        file.execute("DELETE FROM sqlite_master WHERE name = 'other'")
    assert "records_id" in told(doctor(folder))


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bytes_are_found_or_harmless(whole: Path, folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    file = folder / "reverie.db"
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice((1, 1, 3))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    diagnosis = doctor(folder)
    if diagnosis.sound:
        assert everything(folder)[:5] == everything(whole)[:5]
        return
    assert all(finding.what and finding.fix for finding in diagnosis.findings)
    if doctor(folder, fix=True).sound:
        assert doctor(folder).sound
        assert everything(folder)[:5] == everything(whole)[:5]


# -- a database that cannot be opened -------------------------------------------------------------------


def overwritten(folder: Path) -> None:
    (folder / "reverie.db").write_bytes(b"SQLite format 3\0" + os.urandom(20_000))


def cut_in_half(folder: Path) -> None:
    content = (folder / "reverie.db").read_bytes()
    (folder / "reverie.db").write_bytes(content[: len(content) // 2])


def another_program(folder: Path) -> None:
    spoil(folder, "PRAGMA application_id = 7")


def newer(folder: Path) -> None:
    spoil(folder, "PRAGMA user_version = 99")


def emptied(folder: Path) -> None:
    (folder / "reverie.db").write_bytes(b"")


def removed(folder: Path) -> None:
    (folder / "reverie.db").unlink()
    (folder / "memory").mkdir(exist_ok=True)
    (folder / "memory" / "MEMORY.md").write_text("# kept\n")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (overwritten, ""),
        (cut_in_half, "damaged"),
        (another_program, "another program"),
        (newer, "newer Reverie"),
        (emptied, "empty"),
        (removed, "reverie rebuild"),
    ],
)
def test_a_database_that_cannot_be_opened_is_explained(
    folder: Path, how: Callable[[Path], None], words: str
) -> None:
    how(folder)
    kept = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    diagnosis = doctor(folder, fix=True)
    assert not diagnosis.sound
    assert words in told(diagnosis)
    if how is not cut_in_half:  # that one can be opened
        assert {file: file.read_bytes() for file in kept} == kept


def test_a_log_without_its_database_is_not_given_up(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.save("the latest")
        shutil.copy(folder / "reverie.db-wal", folder / "log")
    (folder / "reverie.db").unlink()
    (folder / "log").rename(folder / "reverie.db-wal")
    assert "latest changes" in told(doctor(folder))
    assert (folder / "reverie.db-wal").stat().st_size > 0


def test_where_no_memory_ever_was_there_is_nothing_to_say(tmp_path: Path) -> None:
    with pytest.raises(ReverieError) as raised:
        Memory.open(tmp_path / "nothing", create=False)
    assert unopened(tmp_path / "nothing", raised.value) is None
