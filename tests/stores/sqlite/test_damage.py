"""A damaged file is reported, names what is damaged, and gives everything else."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reverie.domain.errors import Conflict, StoreCorrupt
from reverie.domain.filter import Filter
from reverie.domain.passage import Searchable
from reverie.domain.record import Record
from reverie.stores.protocol import iterate_rows
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.sqlite.rewriting import SQLiteCopyTarget
from tests.support.contract.factories import (
    NOW,
    add,
    analyse,
    change,
    make_additions,
    make_change,
    make_entry,
    make_page,
    make_paragraph,
    make_record,
    make_session,
    make_time,
    make_turn,
)

SEARCHABLE: tuple[Searchable, ...] = ("record", "turn", "paragraph")


def spoil(path: Path, sql: str, *values: object) -> None:
    """Change the file behind the store's back."""
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(sql, values)


UNREADABLE = (
    "tags = '[\"x'",
    "tags = '{}'",
    "metadata = '[]'",
    "metadata = '{\"a\": 1}'",
    "created_at = 'yesterday'",
    "created_at = 9000000000000000000",
    "kind = 'gossip'",
    "confidence = 'high'",
    "content = x'414243'",
    "content = CAST(x'41ff' AS TEXT)",
    "category = x'00'",
    "seen_count = 'often'",
)


def test_a_row_that_cannot_be_read_is_named_and_spoils_no_other(
    path: Path, store: SQLiteStore, caplog: pytest.LogCaptureFixture
) -> None:
    known = [make_record(number, moment=make_time(number), tags=("x",)) for number in range(1, 4)]
    add(store, *known)
    for number, assignment in enumerate(UNREADABLE):
        copy = path.with_name(f"{number}.db")
        store.backup(copy)
        spoil(copy, f"UPDATE records SET {assignment} WHERE key = 2")
        caplog.clear()
        with contextlib.closing(SQLiteStore(copy, analyse=analyse)) as spoilt:
            assert_only_the_second_is_left_out(spoilt, known, caplog)


def assert_only_the_second_is_left_out(
    store: SQLiteStore, known: list[Record], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StoreCorrupt):
        store.records([known[0].id, known[1].id])
    assert store.records([known[0].id, 3]) == [known[0], known[2]]
    assert list(store.find(Filter())) == [known[2], known[0]]
    assert known[1].id in caplog.text
    assert "run check()" in caplog.text
    assert [value for _, value in store.live("record")] == [known[0], known[2]]
    assert known[1].id in " ".join(problem.what for problem in store.check())
    assert store.tally("tag", Filter())["x"] >= 2


FOUND = (
    ("UPDATE records SET fingerprint = 'x' WHERE key = 1", "another fingerprint"),
    (
        "UPDATE records SET content = 'Changed by hand' WHERE key = 1",
        "(key 1) has another checksum than its columns",
    ),
    ("DELETE FROM records WHERE key = 1", "in the journal and not in the store"),
    ("UPDATE journal SET after = '{' WHERE sequence = 1", "cannot be read"),
    (
        'UPDATE journal SET after = \'{"id":"000000000001","kind":[1]}\' WHERE sequence = 1',
        "change 1 in the journal cannot be read: its kind is unknown",
    ),
    ("UPDATE journal SET before = after WHERE sequence = 10", "does not follow"),
    ("UPDATE turns SET content = 'y' WHERE position = 1", "has another checksum than its columns"),
    ("DELETE FROM turns WHERE position = 0", "1 turns in 2 positions"),
    ("DELETE FROM sessions", "belongs to none of sessions"),
    ("UPDATE sessions SET status = 'asleep'", "cannot be read"),
    ("UPDATE entries SET tags = '1'", "entry 'note'"),
    ("UPDATE records SET source = 'a' || char(0) WHERE key = 1", "not of its form"),
    (
        "UPDATE pages SET content = 'Changed by hand'",
        "page 'MEMORY.md' (key 6) is not what the journal says",
    ),
    ("UPDATE pages SET updated_at = 'today'", "page 'MEMORY.md' (key 6) cannot be read"),
    (
        "UPDATE pages SET id = '../a.md'",
        "page '../a.md' (key 6) cannot be read: a field is not of its form",
    ),
    ("DELETE FROM pages", "page of key 6 is in the journal and not in the store"),
    ("UPDATE paragraphs SET position = 'last' WHERE key = 7", "its position is no number"),
    (
        "UPDATE journal SET before = NULL, after = NULL WHERE sequence = 7",
        "(key 7) is not what the journal",
    ),
    ("UPDATE journal SET before = NULL, after = NULL WHERE sequence = 2", "does not follow"),
    ("UPDATE counters SET value = 'many'", "the counter 'n' is not a number"),
    ("UPDATE tombstones SET mark = x'41'", "1 tombstones are no text"),
)


def test_check_finds(path: Path, store: SQLiteStore) -> None:
    one, two = make_record(1), make_record(2)
    note, line = make_page(content="Old"), make_paragraph(2, page="2026-03-01.md")
    add(store, one, two, make_session(), make_turn(0), make_turn(1), note, make_paragraph(1), line)
    pinned = replace(two, pinned=True)
    store.commit(make_change(two, pinned), actor="test", at=NOW, counts={"n": 1})
    change(store, pinned, replace(pinned, importance=0.9))
    store.erase(make_change(note, make_page()), actor="test", at=NOW, tombstones=["mark"])
    store.put_entry(make_entry(), capacity=None, now=NOW)
    assert store.check() == []
    for number, (sql, told) in enumerate(FOUND):
        copy = path.with_name(f"{number}.db")
        store.backup(copy)
        spoil(copy, sql)
        with contextlib.closing(SQLiteStore(copy, analyse=analyse)) as spoilt:
            assert told in "\n".join(problem.what for problem in spoilt.check()), sql


def test_the_log_of_a_store_that_is_gone_is_not_taken_for_that_of_a_new_one(
    path: Path, store: SQLiteStore
) -> None:
    add(store, *(make_record(number) for number in range(50)))
    log = Path(f"{path}-wal").read_bytes()
    store.close()
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)
    with pytest.raises(StoreCorrupt, match="bring back the database"):
        SQLiteStore(path, analyse=analyse)
    assert Path(f"{path}-wal").read_bytes() == log


def fill(store: SQLiteStore) -> None:
    session, lines = make_session(), [make_turn(number) for number in range(3)]
    paragraphs = [make_paragraph(number) for number in range(1, 4)]
    records = [make_record(number, tags=("x",)) for number in range(1, 4)]
    things = make_additions(*records, session, *lines, make_page(), *paragraphs)
    store.commit(things, actor="test", at=NOW, counts={"n": 1}, cursors={"c": "here"})
    store.erase(
        make_change(records[0], replace(records[0], pinned=True)), actor="test", at=NOW, tombstones=["mark"]
    )
    store.put_entry(make_entry(), capacity=None, now=NOW)


def read_everything(store: SQLiteStore) -> Iterator[object]:
    """Call all methods that read; an error other than `StoreCorrupt` is raised."""
    keys, ids = range(1, 12), [make_record(number).id for number in range(1, 4)]
    reads: list[Callable[[], object]] = [
        lambda: store.records([*ids, *keys]),
        lambda: list(store.find(Filter(archived=None))),
        lambda: list(store.find(Filter(), order="created", containing="a")),
        lambda: [store.tally(what, Filter()) for what in ("category", "tag", "kind", "scope")],
        lambda: store.turns(session="chat:1", start=-2),
        lambda: store.turns([make_turn(0).id, *keys]),
        lambda: list(store.scan_turns(Filter())),
        lambda: (store.session("chat:1"), store.sessions()),
        lambda: (store.pages(), store.logs()),
        lambda: (store.paragraphs(page="HISTORY.md"), store.latest_paragraphs(["HISTORY.md"], limit=2)),
        *(lambda kind=kind: store.passages(kind, keys, around=1) for kind in SEARCHABLE),
        *(lambda kind=kind: store.live(kind) for kind in SEARCHABLE),
        *(lambda kind=kind: (store.measure(kind, None), store.measure(kind, [""])) for kind in SEARCHABLE),
        lambda: store.entries(None, now=NOW),
        lambda: (store.journal(), store.journal(id=ids[0]), store.sequence()),
        lambda: (store.cursor("c"), store.count("n"), store.tombstones(["mark"])),
        store.check,
        lambda: change(store, make_turn(1), replace(make_turn(1), content="other")),
        lambda: add(store, make_turn(3)),
        store.repair,
    ]
    for read in reads:
        with contextlib.suppress(StoreCorrupt, Conflict):
            yield read()


def list_columns(path: Path) -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        tables = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return [
            (table, column)
            for (table,) in tables
            for _, column, *_ in file.execute(f"PRAGMA table_info({table})")
        ]


@pytest.mark.parametrize(
    ("value", "every"),
    [("'x7'", 8), *(pytest.param(each, 1, marks=pytest.mark.slow) for each in ("'x7'", "x'fffe'", "-1"))],
)
def test_a_value_of_a_wrong_type_raises_nothing_but_store_corrupt(
    tmp_path: Path, value: str, every: int
) -> None:
    whole, path = tmp_path / "whole.db", tmp_path / "reverie.db"
    with contextlib.closing(SQLiteStore(whole, analyse=analyse)) as store:
        fill(store)
    for table, column in list_columns(whole)[::every]:
        shutil.copy(whole, path)
        with contextlib.suppress(sqlite3.IntegrityError):  # a key can only be a number
            spoil(path, f"UPDATE OR IGNORE {table} SET {column} = {value}")
        with contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
            for _ in read_everything(store):
                pass


@pytest.mark.parametrize(
    "sql",
    [
        *(f"UPDATE journal SET after = '{text}' WHERE sequence = 1" for text in ("{", "{}", "[1]")),
        "UPDATE entries SET tags = '1'",
    ],
)
def test_a_copy_of_a_damaged_file_raises_nothing_but_store_corrupt(
    path: Path, store: SQLiteStore, sql: str
) -> None:
    fill(store)
    spoil(path, sql)
    target = SQLiteCopyTarget(path.with_name("copy.db"))

    def copy() -> None:
        for rows in iterate_rows(store):
            target.write_rows(rows)
        target.finish(store.read_unjournaled())

    with contextlib.closing(target), pytest.raises(StoreCorrupt, match="reverie doctor"):
        copy()


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_pages_in_each_others_place_raise_nothing_but_store_corrupt(tmp_path: Path, every: int) -> None:
    whole, path = tmp_path / "whole.db", tmp_path / "reverie.db"
    with contextlib.closing(SQLiteStore(whole, analyse=analyse)) as store:
        fill(store)
    content = whole.read_bytes()
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    for number in range(1, len(pages) - 1, every):
        swapped = [*pages[:number], pages[number + 1], pages[number], *pages[number + 2 :]]
        path.write_bytes(b"".join(swapped))
        with (
            contextlib.suppress(StoreCorrupt),
            contextlib.closing(SQLiteStore(path, analyse=analyse)) as store,
        ):
            for _ in read_everything(store):
                pass
