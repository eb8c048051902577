"""Every kind of damage to a folder is reported without content, and repaired or explained."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import sqlite3
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import reverie.admin.doctor
from reverie import Memory, ReverieError, Settings
from reverie.admin.doctor import Diagnosis, diagnose_unopened
from reverie.domain.change import Change
from reverie.domain.filter import Filter
from reverie.domain.page import MEMORY, Page, Paragraph
from reverie.interfaces.cli.main import cli
from tests.factories import get_search_index, make_paragraph
from tests.profiles import sample_cases
from tests.support.contract.factories import NOW

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
        memory._store.commit([Change(before=None, after=page)], actor="owner", at=NOW)
        said = [paragraph(n) for n in range(3)]
        memory._store.commit([Change(before=None, after=each) for each in said], actor="owner", at=NOW)
        later = replace(page, content=f"# About\n\n{SECRET} and more\n")
        memory._store.commit([Change(before=page, after=later)], actor="owner", at=NOW)
    return folder


def paragraph(number: int) -> Paragraph:
    return make_paragraph(number, at=NOW, content=f"[{number}] {SECRET} again")


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
            found = memory.admin.doctor(fix=fix)
    except ReverieError as error:
        found = diagnose_unopened(folder, error)
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
    with Memory.open(":memory:") as memory:
        memory.save("a fact")
        assert memory.admin.doctor(fix=True).sound


# -- the database ------------------------------------------------------------------------------------------

TABLES_DAMAGED = (
    (
        "cannot be read",
        "UPDATE records SET tags = '[\"x' WHERE key = 3",
        "UPDATE records SET content = CAST(x'41ff' AS TEXT) WHERE key = 4",
        "UPDATE records SET seen_count = 'often' WHERE key = 1",
        "UPDATE records SET fingerprint = 'x' WHERE key = 5",
        "UPDATE turns SET tool_calls = '[1]' WHERE position = 1",
        "UPDATE sessions SET status = 'asleep'",
        "UPDATE pages SET updated_at = 'now'",
        "UPDATE paragraphs SET position = 'last' WHERE position = 2.0",
    ),
    (
        "2 turns in 3 positions",
        "DELETE FROM turns WHERE position = 1",
        "DELETE FROM records WHERE key IN (2, 3)",
    ),
    (
        "not in the store",
        *(f"DELETE FROM {name}" for name in ("records", "turns", "sessions", "pages", "paragraphs")),
    ),
    ("another checksum", "UPDATE turns SET checksum = 7", "UPDATE records SET checksum = NULL WHERE key = 3"),
)


def test_what_the_tables_lost_is_made_again_from_the_journal_and_the_copies(
    whole: Path, tmp_path: Path
) -> None:
    expected = everything(whole)
    for number, (words, *statements) in enumerate(TABLES_DAMAGED):
        folder = Path(shutil.copytree(whole, tmp_path / str(number)))
        spoil(folder, *statements)
        before = doctor(folder)
        assert words in told(before)
        assert not before.sound
        assert all(finding.remedy for finding in before.findings)
        after = doctor(folder, fix=True)
        assert after.sound, told(after)
        assert after.repaired
        assert doctor(folder).sound
        assert everything(folder) == expected, statements


JOURNAL_DAMAGED = (
    ("cannot be read", "UPDATE journal SET after = '{' WHERE sequence IN (1, 3)"),
    ("cannot be read", "UPDATE journal SET after = '{' WHERE sequence = 7"),
    ("cannot be read", "UPDATE journal SET before = '{' WHERE sequence = 7"),
    ("two ids", """UPDATE journal SET before = replace(before, '{"id":"', '{"id":"f') WHERE sequence = 7"""),
    ("cannot be read", "UPDATE journal SET before = after WHERE sequence = 3"),
    ("change 3 is missing", "DELETE FROM journal WHERE sequence = 3"),
    ("change 7 is missing", "DELETE FROM journal WHERE sequence = 7"),
    ("not what the journal says", "DELETE FROM journal WHERE sequence > 10"),
    (
        "change 4 in the journal cannot be read",
        "UPDATE journal SET at = 'x', note = x'00' WHERE sequence = 4",
    ),
)


def test_what_the_journal_lost_is_made_again_from_the_tables(whole: Path, tmp_path: Path) -> None:
    expected = everything(whole)
    for number, (words, sql) in enumerate(JOURNAL_DAMAGED):
        folder = Path(shutil.copytree(whole, tmp_path / str(number)))
        spoil(folder, sql)
        assert words in told(doctor(folder))
        after = doctor(folder, fix=True)
        wrong = {each.code for each in after.findings if each.severity != "note"}
        assert wrong <= {"content-lost"}, told(after)
        found = everything(folder)
        assert found[:5] == expected[:5], sql
        edits = {row.sequence: row.edit for row in expected[5]}
        assert {row.sequence: row.edit for row in found[5]} == edits or "> 10" in sql


def test_the_damaged_database_is_kept_and_named(folder: Path) -> None:
    spoil(folder, "UPDATE entries SET tags = '1'", "DELETE FROM journal WHERE sequence = 8")
    content = dump(folder)
    diagnosis = doctor(folder, fix=True)
    assert "kept as reverie.db.broken-1" in told(diagnosis)
    assert "could not be read: 1 entries of working memory" in told(diagnosis)
    assert not diagnosis.sound
    assert doctor(folder).sound
    (folder / "reverie.db.broken-1").replace(folder / "reverie.db")
    assert dump(folder) == content


def dump(folder: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(folder / "reverie.db")) as file:
        file.text_factory = bytes
        names = [
            name.decode() for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return [repr(file.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()) for name in sorted(names)]


# -- a database that cannot be opened -------------------------------------------------------------------


def overwritten(folder: Path) -> None:
    (folder / "reverie.db").write_bytes(b"SQLite format 3\0" + os.urandom(20_000))


def removed(folder: Path) -> None:
    (folder / "reverie.db").unlink()
    (folder / "memory").mkdir(exist_ok=True)
    (folder / "memory" / "MEMORY.md").write_text("# kept\n")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (overwritten, ""),
        (lambda folder: spoil(folder, "PRAGMA application_id = 7"), "another program"),
        (lambda folder: spoil(folder, "PRAGMA user_version = 99"), "newer Reverie"),
        (lambda folder: (folder / "reverie.db").write_bytes(b""), "empty"),
        (removed, "reverie rebuild"),
    ],
)
def test_a_database_that_cannot_be_opened_is_explained(
    folder: Path, how: Callable[[Path], None], words: str
) -> None:
    how(folder)
    # Without `.machine`, which tells the time of the last use.
    kept = {file: file.read_bytes() for file in folder.rglob("[!.]*") if file.is_file()}
    diagnosis = doctor(folder, fix=True)
    assert not diagnosis.sound
    assert words in told(diagnosis)
    assert {file: file.read_bytes() for file in kept} == kept


def test_a_log_without_its_database_is_not_given_up(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.save("the latest")
        shutil.copy(folder / "reverie.db-wal", folder / "log")
    (folder / "reverie.db").unlink()
    (folder / "log").rename(folder / "reverie.db-wal")
    assert "latest changes" in told(doctor(folder))
    assert (folder / "reverie.db-wal").stat().st_size > 0


# -- the search index ---------------------------------------------------------------------------------------


def indexed(folder: Path) -> Path:
    """Make a commit of the index; its folder."""
    with Memory.open(folder) as memory:
        get_search_index(memory).fold()
    return next((folder / "index").glob("[0-9]*"))


@pytest.mark.parametrize("how", sample_cases(["flipped", "cut", "emptied", "removed"], every=3))
def test_a_damaged_index_is_named_and_built_again(whole: Path, tmp_path: Path, how: str) -> None:
    expected = everything(whole)[-1]
    for ending in (".idx", ".term", ".fast", ".store", ".pos", ".fieldnorm", "meta.json"):
        folder = Path(shutil.copytree(whole, tmp_path / ending))
        file = max(indexed(folder).glob(f"*{ending}"), key=lambda file: file.stat().st_size)
        content = bytearray(file.read_bytes())
        if how == "flipped":
            for place in range(0, len(content), 7):
                content[place] ^= 0x55
        file.write_bytes({"cut": content[: len(content) // 2], "emptied": b""}.get(how, bytes(content)))
        if how == "removed":
            file.unlink()
        found = doctor(folder)
        if (ending, how) == ("meta.json", "removed"):  # as if there had been none: it is built when needed
            assert found.sound
            continue
        assert codes(found) == {"index-damaged"}
        assert file.name in found.findings[0].about
        assert doctor(folder, fix=True).sound
        assert doctor(folder).findings == ()
        assert everything(folder)[-1] == expected


# -- the folder ---------------------------------------------------------------------------------------------


def test_a_folder_that_others_may_look_into_is_named_and_keeps_its_mode(folder: Path) -> None:
    (folder / "reverie.db").chmod(0o644)
    assert doctor(folder).findings == (), "the folder itself is closed to others"
    folder.chmod(0o755)
    assert codes(doctor(folder, fix=True)) == {"folder-mode"}
    assert folder.stat().st_mode & 0o777 == 0o755
    (folder / "reverie.db").chmod(0o600)
    (finding,) = doctor(folder).findings
    assert (finding.code, finding.severity) == ("folder-mode", "note"), "only names can be seen"


def test_unfinished_databases_are_removed_when_nobody_works_on_them(folder: Path) -> None:
    old, new = folder / ".reverie.db.0123456789ab.new", folder / ".reverie.db.ba9876543210.new"
    for draft in (old, new):
        draft.write_bytes(b"")
    rebuilding = folder / ".rebuilding-0123456789ab"
    rebuilding.mkdir()
    shutil.copy(folder / "reverie.db", rebuilding / "reverie.db")
    for left in (old, rebuilding):
        os.utime(left, (time.time() - 100_000,) * 2)
    assert [finding.about for finding in doctor(folder).findings] == [(rebuilding.name, old.name)]
    assert doctor(folder, fix=True).sound
    assert (old.exists(), rebuilding.exists(), new.exists()) == (False, False, True)


def test_backups_and_indexes_of_other_versions_are_told_of_and_kept(folder: Path) -> None:
    backup, index = folder / "reverie.db.v1.backup", folder / "index" / "0"
    broken, before = folder / "reverie.db.broken-1", folder / "before-recovery-20260301T120000Z"
    shutil.copy(folder / "reverie.db", backup)
    shutil.copy(folder / "reverie.db", broken)
    before.mkdir()
    index.mkdir(parents=True)
    waiting = folder / "hooks" / "00000000000000000001-1.json"
    waiting.parent.mkdir()
    waiting.write_text("{}")
    found = doctor(folder, fix=True)
    told_of = {finding.code for finding in found.findings}
    assert told_of == {"old-backups", "other-index", "moved-aside", "hooks-waiting"}
    assert found.sound
    assert waiting.exists()
    assert backup.exists()
    assert broken.exists()
    assert before.exists()


# -- the files ----------------------------------------------------------------------------------------------


def files(folder: Path) -> dict[str, bytes]:
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for top in ("memory", "sessions")
        for file in (folder / top).rglob("*")
        if file.is_file()
    }


def quiet_edit(file: Path, content: bytes) -> None:
    """Change a file so that neither its size nor its time tells."""
    seen = file.stat()
    assert len(content) == seen.st_size
    file.write_bytes(content)
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def a_page(folder: Path) -> Path:
    return folder / "memory" / "records" / "stock.md"


def a_record(folder: Path) -> str:
    """Return the id of the record of crate 3."""
    return next(re.finditer("Crate 3 .* <!-- ([0-9a-f]{12})", a_page(folder).read_text()))[1]


def test_a_file_that_changed_unnoticed_is_found_and_taken_in(folder: Path) -> None:
    file = a_page(folder)
    quiet_edit(file, re.sub(rb"(Crate 3 .*)hall 9", rb"\1hall 8", file.read_bytes()))
    found = doctor(folder)
    assert codes(found) == {"files-differ"}
    assert found.findings[0].about == (file.relative_to(folder).as_posix(),)
    assert doctor(folder, fix=True).sound
    with Memory.open(folder) as memory:
        record = memory.get(a_record(folder))
        assert record is not None
        assert record.content.endswith("hall 8")
        assert memory.history.log(record.id)[-1].actor == "owner, by hand"


def lose(*names: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for place in (folder / name for name in names):
            shutil.rmtree(place) if place.is_dir() else place.unlink()

    return remove


def lose_unknown(folder: Path) -> None:
    """Remove a file that the list of files does not have."""
    a_page(folder).unlink()
    with contextlib.closing(sqlite3.connect(folder / "files.db")) as state, state:
        state.execute("DELETE FROM files WHERE path LIKE 'memory/records/stock%'")
    assert codes(doctor(folder)) == {"files-missing"}


def leave_draft(folder: Path) -> None:
    file = a_page(folder)
    shutil.copy(file, folder / "memory" / ".reverie" / f"0a1b2c3d-records,_{file.name}")


def test_files_that_were_lost_or_left_by_others_are_put_right(whole: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other")
    content = everything(whole)[:5]
    for number, change in enumerate((
        lose("memory"), lose("sessions"), lose("files.db"), lose("memory", "sessions"),
        lose("memory", "sessions", "files.db"), lose_unknown, leave_draft,
        lambda folder: (folder / "files.db").write_bytes(b""),
        lambda folder: (folder / "files.db").write_bytes(b"garbage" * 1_000),
        lambda folder: shutil.copy(other / "files.db", folder / "files.db"),
    )):  # fmt: skip
        folder = Path(shutil.copytree(whole, tmp_path / str(number)))
        change(folder)
        assert doctor(folder, fix=True).sound, number
        assert doctor(folder).findings == ()
        assert files(folder) == files(whole)
        assert everything(folder)[:5] == content


@pytest.mark.parametrize("text", ["", "\0\0\0", "<<<<<<< mine\n- a\n=======\n- b\n>>>>>>> theirs\n"])
def test_a_broken_file_is_named_and_left_as_it_is(whole: Path, folder: Path, text: str) -> None:
    file = a_page(folder)
    file.write_text(text)
    for fix in (False, True, True):
        found = doctor(folder, fix=fix)
        assert codes(found) == {"file-problem"}
        assert file.name in told(found)
        assert file.read_text() == text
    assert everything(folder)[:5] == everything(whole)[:5]


def test_a_conflict_is_told_until_a_person_settles_it(folder: Path) -> None:
    file, name = a_page(folder), a_record(folder)
    with Memory.open(folder, settings=Settings(files="none")) as memory:
        memory.update(name, content="Crate 3 was lost")
    file.write_text(re.sub("Crate 3 .* <!--", "Crate 3 was sold <!--", file.read_text()))
    found = doctor(folder, fix=True)
    assert codes(found) == {"conflict"}
    (conflict,) = [finding for finding in found.findings if finding.code == "conflict"]
    assert "content" in conflict.what
    (folder / conflict.about[1]).unlink()
    assert doctor(folder).sound


# -- every finding has been seen ----------------------------------------------------------------------------


def test_the_table_of_findings_is_complete() -> None:
    """The how-to names every code that there is, and no other."""
    table = Path(reverie.admin.doctor.__file__).with_name("findings.toml")
    known = set(tomllib.loads(table.read_text()))
    page = Path(__file__).parents[2] / "docs" / "how-to" / "backup.md"
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", page.read_text(), re.MULTILINE)
    assert set(re.findall(r"[a-z-]+", " ".join(rows))) == known


def test_the_command_says_what_is_wrong_and_repairs_it(folder: Path) -> None:
    def run(*options: str) -> Result:
        return CliRunner().invoke(cli, ["doctor", "--store", str(folder), *options])

    spoil(folder, "UPDATE turns SET checksum = 7")
    assert run().stdout.startswith("error\tdatabase\t")
    found = run("--json")
    assert found.exit_code == 1
    assert [finding["code"] for finding in json.loads(found.stdout)["findings"]] == ["database"] * 3
    fixed = run("--json", "--fix")
    assert (fixed.exit_code, json.loads(fixed.stdout)["sound"]) == (0, True)
    assert json.loads(fixed.stdout)["repaired"] == json.loads(found.stdout)["findings"]
    overwritten(folder)
    assert run().exit_code == 5
    shutil.rmtree(folder)
    assert run().exit_code == 3


def test_what_stands_in_the_way_is_named_and_the_rest_works(tmp_path: Path) -> None:
    for name, wanted in (
        ("memory", "file-problem"),
        ("sessions", "file-problem"),
        ("index", "index-in-memory"),
        ("files.db", "files-unread"),
    ):
        with Memory.open(tmp_path) as memory:
            memory.save("Staging listens on port 5433")
            memory.session("cli:1").add("user", "Hello")
            memory.search("Hello")
        place = tmp_path / name
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        place.mkdir() if name == "files.db" else place.touch()
        with Memory.open(tmp_path) as memory:
            found = memory.admin.doctor(fix=True)
            assert any(each.code == wanted and name in each.what for each in found.findings), name
            assert not found.sound
            assert [hit.content for hit in memory.search("staging port")] == ["Staging listens on port 5433"]
        place.rmdir() if place.is_dir() else place.unlink()
        with Memory.open(tmp_path) as memory:
            assert memory.admin.doctor(fix=True).sound
            assert memory.admin.doctor().sound
