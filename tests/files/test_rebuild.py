"""The database is lost or broken: what the files hold comes back exactly, and nothing is deleted."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reverie.domain.change import Change
from reverie.domain.conversation import ToolCall
from reverie.domain.errors import InvalidInput, NotFound, StoreIncompatible
from reverie.domain.filter import Filter
from reverie.domain.page import Page, Paragraph
from reverie.domain.record import Record
from reverie.domain.secrets.redactor import Redactor
from reverie.files.layout import Layout
from reverie.files.rebuild import RebuildReport, rebuild
from reverie.search.analyzer import analyze
from reverie.stores.protocol import Store
from reverie.stores.redacting import redact_value
from reverie.stores.sqlite import SQLiteStore
from reverie.stores.tombstones import make_key, tombstone_keys
from tests.files.folder_fixture import CHAT, DAY, EditedFolder, build_note_path, make_note, open_edited_folder
from tests.files.test_parsing import RECORDS
from tests.profiles import examples
from tests.support.contract.factories import NOW, make_record, make_session, make_time, make_turn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def everything(store: Store) -> dict[str, Any]:
    """All that the files hold, as values."""
    return {
        "records": sorted(store.find(Filter(archived=None)), key=lambda each: each.id),
        "pages": [(each.name, each.content) for each in store.pages()],
        "logs": {
            name: [(each.content, each.at) for each in store.paragraphs(page=name)] for name in store.logs()
        },
        "sessions": sorted((each.state for each in store.sessions()), key=lambda each: each.id),
        "turns": {each.state.id: store.turns(session=each.state.id) for each in store.sessions()},
    }


def fill(edited_folder: EditedFolder) -> None:
    """A bit of everything that files can hold."""
    edited_folder.add(
        make_note(1, tags=("a", "b"), metadata={"k": "v\nw"}, pinned=True, seen_count=3, importance=0.25),
        make_note(2, archived_at=make_time(9), archive_reason="merged", scope="user:ann", origin="web"),
        make_record(3, layer="episodic", kind="event", moment=NOW - timedelta(days=1)),
        make_record(4, layer="episodic", category="a/b", moment=make_time(1)),
        make_record(5, layer="episodic", moment=make_time(2), archived_at=make_time(3)),
        make_note(
            6,
            valid_from=make_time(1),
            valid_to=make_time(2),
            expires_at=make_time(3),
            references=("x.py",),
            category="a/b-c",
        ),
        Page(name="MEMORY.md", content="# Memory\n\n- one\n", updated_at=make_time(5)),
        Page(name="projects/atlas.md", content="no line end", updated_at=make_time(5)),
        *(
            Paragraph(
                id=f"{n:012x}",
                page="HISTORY.md",
                position=float(n),
                at=NOW.replace(minute=n),
                content=f"[2026-03-01 12:0{n}] Words\nof {n}.",
                source="turn",
            )
            for n in (1, 2)
        ),
        Paragraph(
            id="a" * 12, page="2026-03-01.md", position=1.0, at=NOW, content="[12:00] User: x | Assistant: y"
        ),
        make_session("chat:1", summary="so far", window_start=1, status="paused", metadata={"t": "x"}),
        make_turn(0, speaker="Ann"),
        make_turn(
            1,
            role="assistant",
            content="",
            tool_calls=(ToolCall(id="c1", name="look", arguments='{"a": 1}'),),
        ),
        make_turn(2, role="tool", content="\x1b[31mred", tool_call_id="c1"),
        make_session("Slack:C024/BE~L", scope="user:ann"),
        make_turn(0, "Slack:C024/BE~L", scope="user:ann", content="über\u2028alles"),
        make_session("x" * 190),
    )


def again(folder: Path, **options: bool) -> RebuildReport:
    return rebuild(folder, analyse=analyze, clock=lambda: NOW, **options)


def content_of(folder: Path) -> dict[str, Any]:
    store = SQLiteStore(folder / "reverie.db", analyse=analyze, create=False)
    try:
        assert store.check() == []
        return everything(store)
    finally:
        store.close()


def lose(folder: Path) -> None:
    for path in folder.glob("reverie.db*"):
        path.unlink()


@pytest.mark.parametrize("layout", ["pages", "records"])
def test_everything_that_the_files_hold_comes_back_exactly(folder: Path, layout: Layout) -> None:
    with open_edited_folder(folder, layout) as edited_folder:
        fill(edited_folder)
        before = everything(edited_folder.store)
        files = {name: edited_folder.path(name).read_bytes() for name in edited_folder.files()}
    lose(folder)
    rebuilt = again(folder)
    assert rebuilt == RebuildReport(records=6, archived=2, sessions=3, turns=4, pages=2, paragraphs=3)
    assert content_of(folder) == before
    assert (folder / "reverie.db").stat().st_mode & 0o777 == 0o600
    with open_edited_folder(folder, layout) as edited_folder:
        assert {row.actor for row in edited_folder.store.journal(limit=1000)} == {"rebuild"}
        edited_folder.sync()  # and the files are as they were
        assert {name: edited_folder.path(name).read_bytes() for name in edited_folder.files()} == files
        assert edited_folder.list_hand_edits() == []
        edited_folder.assert_settled()


@given(made=st.lists(RECORDS, min_size=1, max_size=5))
@example(made=[make_record(content="w ")])
@settings(max_examples=examples(25), deadline=None)
def test_records_of_every_kind_come_back(
    made: list[Record], tmp_path_factory: pytest.TempPathFactory
) -> None:
    layout: Layout = "pages" if len(made) % 3 else "records"
    folder = tmp_path_factory.mktemp("memory")
    redactor = Redactor()
    numbered = [
        redact_value(replace(each, id=f"{n:012x}", content=f"{n} {each.content}"), redactor)
        for n, each in enumerate(made)
    ]
    with open_edited_folder(folder, layout) as edited_folder:
        edited_folder.add(*numbered)
        assert everything(edited_folder.store)["records"] == numbered
    lose(folder)
    assert again(folder).broken == []
    assert content_of(folder)["records"] == numbered


def test_twice_gives_the_same_and_keeps_what_was_there(folder: Path) -> None:
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
    lose(folder)
    again(folder)
    first = content_of(folder)
    with pytest.raises(InvalidInput, match="can be read"):
        again(folder)
    rebuilt = again(folder, force=True)
    assert rebuilt.kept == folder / "reverie.db.broken-1"
    assert content_of(folder) == first
    assert again(folder, force=True).kept == folder / "reverie.db.broken-2"
    kept = SQLiteStore(folder / "reverie.db.broken-1", analyse=analyze, create=False)
    assert everything(kept) == first
    kept.close()


@pytest.mark.parametrize("damage", ["garbage", "header", "torn", "definitions"])
def test_a_database_that_cannot_be_read_is_moved_aside_with_its_log(folder: Path, damage: str) -> None:
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
        before = everything(edited_folder.store)
    database = folder / "reverie.db"
    data = database.read_bytes()
    spoilt = {
        "garbage": b"no database at all " * 500,
        "header": b"\0" * 200 + data[200:],
        "torn": data[:4096] + b"\xff" * 8000,
        "definitions": data.replace(b"CREATE TABLE records", b"CR\xff\xfeTE T\xff\xfeBLE rec\xffrd"),
    }[damage]
    database.write_bytes(spoilt)
    (folder / "reverie.db-wal").write_bytes(b"what was in the log")
    rebuilt = again(folder)
    assert rebuilt.kept is not None
    assert rebuilt.kept.read_bytes() == spoilt
    assert content_of(folder) == before


def test_the_log_of_a_lost_database_is_kept_and_not_played_into_the_new_one(folder: Path) -> None:
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
        before = everything(edited_folder.store)
        shutil.copy(folder / "reverie.db-wal", folder / "log")
    lose(folder)
    (folder / "log").rename(folder / "reverie.db-wal")
    rebuilt = again(folder)
    assert rebuilt.kept == folder / "reverie.db.broken-1-wal"
    assert rebuilt.kept.stat().st_size > 0
    assert content_of(folder) == before


def test_broken_files_are_listed_and_left_and_all_others_are_taken(folder: Path) -> None:
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
        edited_folder.write("memory/a/broken.json", '{"content": ')
        edited_folder.write("memory/a/twin.json", json.dumps({"content": make_note(1).content}))
        edited_folder.write("memory/new/hand.json", '{"content": "Written by hand"}')
        edited_folder.write("memory/copy.json", edited_folder.read(build_note_path(1)))
        edited_folder.write(
            "sessions/other.jsonl", edited_folder.read("sessions/chat:1.jsonl").replace("chat:1", "other")
        )
        edited_folder.path("memory/link.json").symlink_to(edited_folder.path(build_note_path(1)))
    lose(folder)
    rebuilt = again(folder)
    assert {broken.path: broken.why.split(":")[0] for broken in rebuilt.broken} == {
        "memory/a/broken.json": "line 1, column 13",
        "memory/copy.json": f"the record '000000000001' is in {build_note_path(1)}",
        "sessions/other.jsonl": "line 2",
        "memory/link.json": "it is a symbolic link, which is not followed",
    }
    assert rebuilt.records == 7
    assert (folder / "memory/a/broken.json").read_text() == '{"content": '
    with open_edited_folder(folder) as edited_folder:
        edited_folder.sync()
        assert (folder / "memory/a/broken.json").read_text() == '{"content": '
        assert {each.path for each in edited_folder.importer.problems()} == {
            broken.path for broken in rebuilt.broken
        }


@pytest.mark.parametrize(
    ("path", "line", "bad"),
    [
        (CHAT, 1, b"{"),
        (CHAT, 2, b"\xff\xfe"),
        (CHAT, 0, b'{"content": 3}'),
        (DAY, 3, b"- x <!-- 000000000014 yesterday -->"),
    ],
)
def test_every_good_line_of_a_file_is_taken_and_the_bad_one_is_named(
    folder: Path, path: str, line: int, bad: bytes
) -> None:
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
        edited_folder.add(*(make_record(n, layer="episodic", moment=make_time(n)) for n in (20, 21)))
        before = everything(edited_folder.store)
        lines = edited_folder.path(path).read_bytes().split(b"\n")
        found = re.search(rb"[0-9a-f]{12}", lines[line])
        lost = found[0].decode() if found else ""
        edited_folder.path(path).write_bytes(b"\n".join([*lines[:line], bad, *lines[line + 1 :]]))
    lose(folder)
    rebuilt = again(folder)
    assert [broken.path.removesuffix(".broken") for broken in rebuilt.broken] == [path]
    assert rebuilt.broken[0].why.startswith(f"line {line + 1}")
    with open_edited_folder(folder) as edited_folder:
        edited_folder.sync()
    assert any(bad in file.read_bytes() for file in (folder / path).parent.glob(f"{Path(path).name}*"))
    after = content_of(folder)
    assert [each.id for each in after["sessions"]] == [each.id for each in before["sessions"]]
    assert [each.id for each in after["records"]] == [
        each.id for each in before["records"] if each.id != lost
    ]
    turns = [each.id for each in before["turns"]["chat:1"] if each.id != lost]
    assert [each.id for each in after["turns"]["chat:1"]] == turns


@pytest.mark.parametrize("readable", [True, False])
def test_what_was_forgotten_does_not_come_back(folder: Path, readable: bool) -> None:
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
        edited_folder.add(make_note(9, content="The code of the safe is four seven one one"))
        trash = edited_folder.read(build_note_path(9))
        gone = edited_folder.record(9)
        marks = tombstone_keys(gone, make_key(edited_folder.store, at=NOW))
        edited_folder.store.erase([Change(before=gone, after=None)], actor="owner", at=NOW, tombstones=marks)
        edited_folder.mirror.write()
        edited_folder.write(build_note_path(9), trash)
        assert [each.path for each in edited_folder.sync().problems] == [build_note_path(9)]
        assert "forgotten on request" in edited_folder.importer.problems()[0].why
        assert edited_folder.store.records([gone.id]) == []
    if not readable:
        database = folder / "reverie.db"
        database.write_bytes(b"garbage" * 1000)
    rebuilt = again(folder, force=True)
    if readable:
        assert (rebuilt.records, rebuilt.notes) == (6, [])
        assert [broken.path for broken in rebuilt.broken] == [build_note_path(9)]
        with open_edited_folder(folder) as edited_folder:
            assert edited_folder.store.tombstones(marks) == set(marks)
            assert edited_folder.store.records([gone.id]) == []
    else:
        assert "does not tell what was forgotten" in rebuilt.notes[0]


def test_what_its_owner_saved_again_after_forgetting_it_comes_back(folder: Path) -> None:
    with open_edited_folder(folder) as edited_folder:
        edited_folder.add(make_note(9, content="The code of the safe is four seven one one"))
        gone = edited_folder.record(9)
        marks = tombstone_keys(gone, make_key(edited_folder.store, at=NOW))
        edited_folder.store.erase([Change(before=gone, after=None)], actor="owner", at=NOW, tombstones=marks)
        edited_folder.add(make_note(10, content=gone.content))
        edited_folder.mirror.write()
    assert again(folder, force=True).records == 1


def test_a_folder_without_files_and_a_newer_database_are_refused(folder: Path) -> None:
    folder.mkdir()
    with pytest.raises(NotFound, match="no readable files"):
        again(folder)
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
    database = folder / "reverie.db"
    data = bytearray(database.read_bytes())
    data[60:64] = (999).to_bytes(4, "big")
    database.write_bytes(data)
    with pytest.raises(StoreIncompatible, match="newer"):
        again(folder, force=True)
    assert database.read_bytes() == data


_KILLED = """
import sys
from pathlib import Path
from reverie.search.analyzer import analyze
from reverie.files.layout import Layout
from reverie.files.rebuild import rebuild
print("begun", flush=True)
rebuild(Path(sys.argv[1]), analyse=analyze, force=True)
"""


@pytest.mark.parametrize("layout", ["pages", "records"])
def test_a_new_database_that_is_begun_beside_the_files_takes_them_all_in(
    folder: Path, layout: Layout
) -> None:
    """Somebody goes on working where the database is lost, and does not rebuild it."""
    with open_edited_folder(folder, layout) as edited_folder:
        fill(edited_folder)
        before = everything(edited_folder.store)
    lose(folder)
    with open_edited_folder(folder, layout) as edited_folder:
        edited_folder.add(make_note(50, content="Said before anybody noticed"))
        edited_folder.sync()
        after = everything(edited_folder.store)
        assert edited_folder.importer.problems() == []
        records = after["records"]
        assert isinstance(records, list)
        assert [each for each in records if each.id != f"{50:012x}"] == before["records"]
        assert (after["sessions"], after["turns"]) == (before["sessions"], before["turns"])
        assert (after["pages"], after["logs"]) == (before["pages"], before["logs"])
        edited_folder.assert_settled()


@pytest.mark.slow
def test_whoever_is_killed_leaves_the_old_database_or_the_new_one(folder: Path) -> None:
    with open_edited_folder(folder) as edited_folder:
        fill(edited_folder)
        edited_folder.add(*(make_note(n) for n in range(100, 400)))
        before = everything(edited_folder.store)
    for number in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", _KILLED, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.03 * number)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert content_of(folder) == before
    again(folder, force=True)
    assert content_of(folder) == before
