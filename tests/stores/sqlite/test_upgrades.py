"""A file that an older program made is brought up to date with everything in it."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from reverie.domain.change import Change
from reverie.domain.conversation import ToolCall
from reverie.domain.errors import StoreUnavailable
from reverie.domain.filter import Filter
from reverie.domain.passage import CollectionStats
from reverie.domain.record import Record
from reverie.stores.codec import RECORDS, RowCodec, to_document
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.sqlite.database_file import VERSION
from tests.support.contract.factories import (
    NOW,
    analyse,
    make_additions,
    make_change,
    make_entry,
    make_record,
    make_removals,
    make_session,
    make_time,
    make_turn,
)
from tests.support.contract.replay import is_journal_consistent
from tests.support.disks import small_disk

ONE = make_record(
    1,
    content='Grüße, 東京 — it’s "quoted"',
    category="a/b",
    tags=("x", "y"),
    scope="user:a",
    metadata=MappingProxyType({"k": "v"}),
    importance=1 / 3,
)
TWO = make_record(2, content="Was it the deploy?", moment=make_time(1))
TWO_LATER = replace(TWO, pinned=True, seen_count=2)
GONE = make_record(3, content="Not for long", moment=make_time(2))
BACK = replace(GONE, archived_at=make_time(4), archive_reason="old")
SAID = [
    make_turn(0),
    make_turn(
        1,
        role="assistant",
        content="",
        tool_calls=(ToolCall(id="c1", name="read", arguments='{"path": "a"}'),),
    ),
]
EDITS: list[Change] = [
    *make_additions(ONE, TWO, GONE, make_session(summary="So far"), *SAID),
    *make_change(TWO, TWO_LATER),
    *make_removals(GONE),
    *make_additions(BACK),
]
"""What had been done with the file of `version-1.sql`."""


ADDED = frozenset(
    [
        *("draft", "keep_secret", "item_key", "resolved_dates"),
        *("replaced_by", "replaces", "promoted_from", "perhaps_replaced_by"),
        *("about", "until", "permission"),
    ]
)
"""Columns of records that version 10 added."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of version 1 with something of everything in it."""
    return make_file(tmp_path / "agent" / "reverie.db", 1)


def make_file(path: Path, version: int) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.executescript(Path(__file__).with_name(f"version-{version}.sql").read_text(encoding="utf-8"))
    return path


def tables_of(path: Path) -> list[tuple[str, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()


def version_of(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as file:
        return int(file.execute("PRAGMA user_version").fetchone()[0])


def test_a_file_of_version_1_keeps_everything(path: Path) -> None:
    assert version_of(path) == 1
    with contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
        assert store.check() == []
        assert list(store.find(Filter(archived=None))) == [BACK, TWO_LATER, ONE]
        assert store.turns(session="chat:1") == SAID
        assert store.session("chat:1") == make_session(summary="So far")
        rows = store.journal()
        assert [row.edit for row in rows] == EDITS
        assert [(row.sequence, row.batch, row.key) for row in rows] == [
            (1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 4, 4), (5, 4, 5), (6, 4, 6), (7, 7, 2), (8, 8, 3), (9, 9, 9),
        ]  # fmt: skip
        assert [(row.actor, row.note, row.at, row.subject) for row in rows[2:7:4]] == [
            ("owner", "said so", NOW, "record"),
            ("dream", "tidy", make_time(2), "record"),
        ]
        assert [row.sequence for row in store.journal(id=GONE.id)] == [3, 8, 9]
        assert store.measure("record", None) == CollectionStats(passages=2, tokens=13)
        assert store.cursor("seen") == "1"
        assert store.entries("agent", now=NOW) == [replace(make_entry(), tags=("t",))]
        assert is_journal_consistent(store)


def test_a_file_of_version_1_becomes_what_a_new_file_is_and_is_backed_up(path: Path, tmp_path: Path) -> None:
    for each in (path, tmp_path / "new.db"):
        SQLiteStore(each, analyse=analyse).close()
    assert tables_of(path) == tables_of(tmp_path / "new.db")
    assert version_of(path) == VERSION
    backup = path.with_name("reverie.db.v1.backup")
    assert version_of(backup) == 1
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with contextlib.closing(sqlite3.connect(backup)) as file:
        assert file.execute("SELECT count(*), max(sequence) FROM journal").fetchone() == (9, 9)
        with pytest.raises(sqlite3.IntegrityError):
            file.execute("INSERT INTO journal VALUES (10, 10, 10, 'page', 0, '', '', NULL, '')")


def test_an_upgrade_that_finds_no_room_changes_nothing(path: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, "512k"):
        shutil.copy(path, disk / "reverie.db")
        (disk / "filler").write_bytes(b"x" * (512 * 1024 - path.stat().st_size - 96 * 1024))
        with pytest.raises(StoreUnavailable, match="free some space and retry"):
            SQLiteStore(disk / "reverie.db", analyse=analyse)
        assert [file.name for file in disk.glob("*backup*")] == []
        (disk / "filler").unlink()
        with contextlib.closing(SQLiteStore(disk / "reverie.db", analyse=analyse)) as store:
            assert store.check() == []
            assert (disk / "reverie.db.v1.backup").exists()


def test_several_that_open_a_file_upgrade_it_once_and_replace_no_backup(path: Path) -> None:
    backup = path.with_name("reverie.db.v1.backup")
    backup.write_bytes(b"of before")

    def open_it(_: int) -> list[Record]:
        with contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
            return list(store.find(Filter(archived=None)))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(open_it, range(4))) == [[BACK, TWO_LATER, ONE]] * 4
    assert {each.name for each in path.parent.glob("*.backup*")} == {
        f"{backup.name}{end}" for end in ("", "-1")
    }
    assert backup.read_bytes() == b"of before"


def test_facts_in_the_metadata_become_fields_and_records_with_the_same_text_become_one(
    tmp_path: Path,
) -> None:
    path = make_file(tmp_path / "reverie.db", 8)
    linked = make_record(9).id
    before = {
        "superseded_by": linked,
        "supersedes": linked,
        "promoted_from": linked,
        "dates": "today = 2025-01-01",
    }
    internal = make_record(1, metadata=MappingProxyType({**before, "rough": "true", "own": "x"}))
    proposal = make_record(2, archived_at=NOW, metadata=MappingProxyType({"proposal": "open"}))
    forged = make_record(3, metadata=MappingProxyType({"proposal": "open", "superseded_by": "nobody"}))
    item = make_record(4, metadata=MappingProxyType({"kept": '["store", [], "key"]'}))
    web = make_record(5, content="Likes tea.", origin="web", seen_count=3)
    mine = make_record(6, content="likes tea", kind="preference", references=("r",), moment=make_time(1))
    headline = make_record(7, content="Both", parts=(internal.id, forged.id))
    records = [internal, proposal, forged, item, web, mine, headline]
    former = RowCodec(Record, tuple(column for column in RECORDS.columns if column.name not in ADDED))
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        for key, record in enumerate(records, 1):
            row = dict(zip(former.names, former.encode(record), strict=True))
            row |= {"key": key, "fingerprint": f"f{key}"}
            row |= {"length": 1, "voice": "", "cues": "", "dates": "", "terms": "x"}
            columns = ", ".join(row)
            file.execute(
                f"INSERT INTO records ({columns}) VALUES ({', '.join('?' * len(row))})", [*row.values()]
            )
            document = to_document(RECORDS, RECORDS.encode(record))
            file.execute(
                "INSERT INTO journal (sequence, batch, key, subject, at, actor, reason, after) "
                "VALUES (?, ?, ?, 'record', 0, 'owner', 'save', ?)",
                (key, key, key, document),
            )
    with contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
        assert store.check() == []
        found = {record.id: record for record in store.find(Filter(archived=None))}
        moved = found[internal.id]
        assert (moved.replaced_by, moved.replaces, moved.promoted_from) == (linked, (linked,), linked)
        assert (moved.draft, moved.metadata) == (True, {"own": "x"})
        assert moved.resolved_dates == "today = 2025-01-01"
        assert found[proposal.id] == proposal
        assert found[forged.id] == forged
        assert (found[item.id].item_key, found[item.id].metadata) == ('["store", [], "key"]', {})
        assert found[headline.id] == headline
        kept = store.record_like("", mine.fingerprint)
        assert kept is not None
        assert (kept.id, kept.seen_count, kept.kind, kept.references) == (mine.id, 4, "preference", ("r",))
        assert found[web.id].archive_reason == f"the same text as {mine.id}"
        assert is_journal_consistent(store)


def test_usual_columns_of_a_file_of_version_17_are_left_out(path: Path) -> None:
    with contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
        before = list(store.find(Filter(archived=None))), store.journal()
    full = ", ".join(f"{name} = {sql.replace('it.', '')}" for name, sql in RECORDS.expressions.items())
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE records SET fingerprint = 'earlier ' || key, {full}")
        file.execute("UPDATE journal SET subject = ifnull(subject, 'record'), actor = ifnull(actor, 'owner')")
        file.execute("PRAGMA user_version = 17")
    with contextlib.closing(SQLiteStore(path, analyse=analyse)) as store:
        assert (store.check(), (list(store.find(Filter(archived=None))), store.journal())) == ([], before)
        usual = "layer, refs, last_seen_at, tags, subject, actor FROM records JOIN journal ON sequence = records.key"
        assert (None,) * 6 in store._connections.rows(f"SELECT {usual}")
    assert version_of(path.with_name("reverie.db.v17.backup")) == 17
