"""A backup holds all that was acknowledged and comes back whole or not at all; what was there is not lost."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory, StoreCorrupt, StoreIncompatible
from reverie.admin.transfer.backup import make, recover
from reverie.domain.change import Change
from reverie.search.analyzer import analyze
from reverie.stores.sqlite import SQLiteStore
from tests.admin.transfer.samples import dump
from tests.support.contract.factories import make_record

WRITER = Path(__file__).with_name("writer.py")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

Alteration = Callable[[str, bytes], bytes | None]


def filled(folder: Path, *, count: int = 3) -> Memory:
    """An open memory with something of every sort, and a profile."""
    memory = Memory.open(folder)
    for n in range(count):
        memory.save(f"Fact number {n} of the {'abc'[n % 3] * 5} bridge {n}")
    memory.archive(memory.save("Stale by now").record.id, reason="old")
    memory.session("cli:1").add_many([{"role": "user", "content": f"turn {n}"} for n in range(3)])
    memory.pages.write("MEMORY.md", "- a line\n")
    memory.scratchpad.set("draft", "kept too", ttl=None)
    (folder / "soul.md").write_text("I am careful.\n")
    (folder / "dream.md").write_text("My own prompt.\n")
    return memory


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of a memory in `tmp_path / "memory"`, which is closed."""
    memory = filled(tmp_path / "memory")
    memory.admin.backup(tmp_path / "kept.zip")
    memory.close()
    return tmp_path / "kept.zip"


def prints(folder: Path) -> dict[str, str]:
    """Every file of a folder, by name, with a digest."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


# -- making ----------------------------------------------------------------------------------------------


def test_everything_comes_back(tmp_path: Path) -> None:
    memory = filled(tmp_path / "memory")
    made = memory.admin.backup(tmp_path / "kept.zip")
    assert (made.records, made.sessions, made.turns, made.problems) == (4, 1, 3, 0)
    assert made.profile == ("dream.md", "soul.md")
    assert made.sequence == memory.admin.stats().journal
    assert made.size == (tmp_path / "kept.zip").stat().st_size
    done = recover(tmp_path / "kept.zip", tmp_path / "new")
    assert (done.moved_to, done.forgotten_again, done.notes) == (None, 0, ())
    assert done.backup == made
    with Memory.open(tmp_path / "new") as new:
        assert dump(new._store) == dump(memory._store)
        assert new.history.log(limit=1000) == memory.history.log(limit=1000)
        assert new.scratchpad.get("draft") == "kept too"
        assert new.admin.check() == []
        assert new.admin.doctor().findings == ()
        assert [hit.content for hit in new.search("aaaaa bridge", limit=1)] == [
            "Fact number 0 of the aaaaa bridge 0"
        ]
    assert (tmp_path / "new" / "soul.md").read_text() == "I am careful.\n"
    memory.close()


@contextmanager
def writing(folder: Path, count: int) -> Iterator[tuple[list[str], list[subprocess.Popen[str]]]]:
    """Processes that save and talk: the texts that they have acknowledged, `count` or more by each, and they."""
    lines: list[str] = []

    def listen(process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        lines.extend(line.rstrip("\n") for line in process.stdout)

    command = [sys.executable, str(WRITER), str(folder)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with ExitStack() as stack:
        running = [stack.enter_context(subprocess.Popen([*command, name], **pipes)) for name in "pq"]
        threads = [threading.Thread(target=listen, args=(each,)) for each in running]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 30
        # One that has not opened its folder yet would open a new one, and write there for ever.
        while (
            time.monotonic() < until
            and min(sum(f"{n}n" in line for line in list(lines)) for n in "pq") < count
        ):
            time.sleep(0.01)
        yield lines, running
        for each, thread in zip(running, threads, strict=True):
            each.kill()
            thread.join()


def contents(memory: Memory) -> set[str]:
    turns = {turn.content for each in memory.sessions() for turn in memory.turns(each.state.id)}
    return turns | {record.content for record in memory.list(limit=None)}


@pytest.mark.slow
def test_what_is_acknowledged_before_is_in_it_while_others_write(tmp_path: Path) -> None:
    Memory.open(tmp_path / "memory").close()
    with writing(tmp_path / "memory", 40) as (lines, _), Memory.open(tmp_path / "memory") as memory:
        acknowledged = set(lines)
        memory.admin.backup(tmp_path / "kept.zip")
    recover(tmp_path / "kept.zip", tmp_path / "new")
    with Memory.open(tmp_path / "new") as new:
        assert new.admin.check() == []
        assert acknowledged <= contents(new)


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_when_it_is_replaced_under_writers(
    backup: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "memory"
    with writing(folder, 50) as (lines, running):
        done = recover(backup, folder, replace=True)
        for each in running:
            assert each.wait(timeout=60) != 0  # told that its folder was replaced
            assert each.stderr is not None
            assert "removed, moved or replaced" in each.stderr.read()
    assert done.moved_to is not None
    with Memory.open(done.moved_to) as old:
        assert set(lines) <= contents(old)
        assert old.admin.check() == []
    with Memory.open(folder) as new:
        assert new.admin.check() == []
        assert new.admin.stats().records == 3


def test_a_backup_is_for_its_owner_alone_and_nothing_else_is_left(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        with filled(tmp_path / "memory") as memory:
            memory.admin.backup(tmp_path / "kept.zip")
        recover(tmp_path / "kept.zip", tmp_path / "new")
    finally:
        os.umask(old)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.zip", "memory", "new"]
    assert stat.S_IMODE((tmp_path / "kept.zip").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "new").iterdir()} == {0o600}
    with zipfile.ZipFile(tmp_path / "kept.zip") as archive:
        assert sorted(archive.namelist()) == [
            "manifest.json", "profile/dream.md", "profile/soul.md", "reverie.db",
        ]  # fmt: skip


def test_a_backup_goes_over_no_other_file_unless_told(tmp_path: Path) -> None:
    target = tmp_path / "kept.zip"
    target.write_text("mine")
    with filled(tmp_path / "memory") as memory:
        with pytest.raises(InvalidInput, match="there already"):
            memory.admin.backup(target)
        assert target.read_text() == "mine"
        memory.admin.backup(target, overwrite=True)
        with pytest.raises(InvalidInput, match="there already"):
            memory.admin.backup(tmp_path / "memory", overwrite=True)
        with pytest.raises(InvalidInput, match="no folder"):
            memory.admin.backup(tmp_path / "missing" / "kept.zip")
    assert recover(target, tmp_path / "new").backup.records == 4
    with Memory.open(":memory:") as nowhere:
        nowhere.save("Ana sails")
        nowhere.admin.backup(tmp_path / "other.zip")
    assert recover(tmp_path / "other.zip", tmp_path / "other").backup.records == 1


def test_a_damaged_store_is_not_backed_up_in_silence(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    for n in range(200):
        store.commit(
            [Change(before=None, after=make_record(n, content=f"{n} " * 200))], actor="owner", at=NOW
        )
    store.close()
    content = bytearray((tmp_path / "reverie.db").read_bytes())
    place = content.index(b"77 77 77 77 77")
    content[place // 4096 * 4096 : place // 4096 * 4096 + 64] = b"\xff" * 64
    (tmp_path / "reverie.db").write_bytes(content)
    store = SQLiteStore(tmp_path / "reverie.db", analyse=analyze)
    with pytest.raises(StoreCorrupt, match="damaged"):
        make(store, tmp_path / "kept.zip", profile=None, at=NOW)
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reverie.db"]


def test_profiles_elsewhere_and_linked_are_kept(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.mkdir()
    (tmp_path / "mounted.md").write_text("I am mounted.\n")
    (profile / "soul.md").symlink_to(tmp_path / "mounted.md")
    (profile / "notes.txt").write_text("not mine")
    with Memory.open(tmp_path / "memory", profile=profile) as memory:
        assert memory.admin.backup(tmp_path / "kept.zip").profile == ("soul.md",)
    recover(tmp_path / "kept.zip", tmp_path / "new", profile=tmp_path / "new profile")
    assert (tmp_path / "new profile" / "soul.md").read_text() == "I am mounted.\n"
    assert not (tmp_path / "new" / "soul.md").exists()


# -- refusing --------------------------------------------------------------------------------------------


def test_a_memory_that_is_there_is_left_alone_unless_told(backup: Path, tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    before = prints(folder)
    with pytest.raises(InvalidInput, match="there is a memory in"):
        recover(backup, folder)
    assert prints(folder) == before
    only_files = tmp_path / "only files"
    shutil.copytree(folder / "memory", only_files / "memory")
    with pytest.raises(InvalidInput, match="there is a memory in"):
        recover(backup, only_files)
    other_soul = tmp_path / "other soul"
    other_soul.mkdir()
    (other_soul / "soul.md").write_text("I am another.\n")
    with pytest.raises(InvalidInput, match="differs from the backup's"):
        recover(backup, other_soul)
    assert prints(other_soul) == {"soul.md": hashlib.sha256(b"I am another.\n").hexdigest()}


def rewritten(backup: Path, target: Path, change: Alteration, **more: bytes) -> None:
    """A backup with its files changed, left out (None), or with more of them."""
    with zipfile.ZipFile(backup) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if (data := change(name, old.read(name))) is not None:
                new.writestr(name, data)
        for name, data in more.items():
            new.writestr(name, data)


def on(wanted: str, change: Callable[[bytes], bytes | None]) -> Alteration:
    """One file of the backup changed."""
    return lambda name, data: change(data) if name == wanted else data


def manifest(**changes: Any) -> Alteration:
    return on("manifest.json", lambda data: json.dumps(json.loads(data) | changes).encode())


BAD: dict[str, tuple[Alteration | bytes | str, str]] = {
    "not a zip archive": (b"hello " * 500, "not a sound backup"),
    "an empty file": (b"", "not a sound backup"),
    "a database": (b"SQLite format 3\x00" + b"\x00" * 4080, "not a sound backup"),
    "no manifest": (on("manifest.json", lambda data: None), "manifest.json"),
    "another's manifest": (manifest(format="tarball"), "another program's"),
    "a newer backup": (manifest(version=2), "made by a newer Reverie"),
    "a version that is none": (manifest(version="1"), "another program's"),
    "no counts": (manifest(records=None), "not a sound backup"),
    "a cut manifest": (on("manifest.json", lambda data: data[:40]), "not a sound backup"),
    "a database that is none": (on("reverie.db", lambda data: b"x" * 9000), "cannot be used"),
    "a newer database": (
        on("reverie.db", lambda data: data[:60] + (99).to_bytes(4, "big") + data[64:]), "upgrade Reverie",
    ),
    "no database": (on("reverie.db", lambda data: None), "one database"),
    "one more file": ("more.txt", "which no backup does"),
    "a name that leads out": ("profile/../../x.md", "which no backup does"),
    "a name at the root": ("/etc/x", "which no backup does"),
}  # fmt: skip
"""What each file becomes, all that there is instead of an archive, or the name of one more file; and what is said."""


@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_sound_backup_is_refused_before_anything_is_touched(
    backup: Path, tmp_path: Path, bad: str
) -> None:
    how, says = BAD[bad]
    file, folder = tmp_path / "bad.zip", tmp_path / "memory"
    if isinstance(how, bytes):
        file.write_bytes(how)
    elif isinstance(how, str):
        rewritten(backup, file, lambda _, data: data, **{how: b"x"})
    else:
        rewritten(backup, file, how)
    before = prints(folder)
    for target in (folder, tmp_path / "new"):
        with pytest.raises((StoreCorrupt, StoreIncompatible), match=says):
            recover(file, target, replace=target == folder)
    assert prints(folder) == before
    assert not (tmp_path / "new").exists()


def test_a_flipped_byte_anywhere_is_noticed(backup: Path, tmp_path: Path) -> None:
    whole = backup.read_bytes()
    chance = random.Random(5)
    places = [*range(0, 60, 7), *range(len(whole) - 60, len(whole), 7)]
    for place in [*places, *(chance.randrange(len(whole)) for _ in range(60))]:
        spoilt = bytearray(whole)
        spoilt[place] ^= 0x55
        file = tmp_path / "spoilt.zip"
        file.write_bytes(spoilt)
        target = tmp_path / "target"
        try:
            recover(file, target)
        except (StoreCorrupt, StoreIncompatible):
            assert not target.exists()
        else:  # a byte that says nothing, such as the time of a member: then all must be as it was
            with Memory.open(target) as new, Memory.open(tmp_path / "memory") as old:
                assert dump(new._store) == dump(old._store)
            shutil.rmtree(target)


# -- replacing -------------------------------------------------------------------------------------------


def test_what_was_there_is_moved_aside_and_what_is_derived_is_made_anew(backup: Path, tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with Memory.open(folder) as memory:
        for n in range(300):
            memory.save(f"Later lantern number {n} hangs in the {'xyz'[n % 3] * 4} hall")
        memory.search("lantern")
        (folder / "soul.md").write_text("I was changed.\n")
        (folder / "my notes.txt").write_text("not Reverie's")
        later = dump(memory._store)
    assert (folder / "index").exists()
    done = recover(backup, folder, replace=True)
    assert done.moved_to is not None
    assert done.moved_to.parent == folder
    assert re.fullmatch(r"before-recovery-\d{8}T\d{6}Z", done.moved_to.name)
    assert not (folder / "index").exists()
    assert not (folder / "files.db").exists()
    assert not (folder / "memory").exists()
    assert (folder / "my notes.txt").read_text() == "not Reverie's"
    assert (folder / "soul.md").read_text() == "I am careful.\n"
    assert (done.moved_to / "profile" / "soul.md").read_text() == "I was changed.\n"
    with Memory.open(folder) as memory:
        assert memory.admin.stats().records == 3
        assert memory.search("lantern") == []
        assert len(memory.search("bridge", limit=9)) == 3
        assert {found.code for found in memory.admin.doctor().findings} <= {"moved-aside"}
    with Memory.open(done.moved_to) as old:
        assert dump(old._store) == later
        assert old.admin.check() == []
    again = recover(backup, folder, replace=True)
    assert again.moved_to not in (None, done.moved_to)


KILLED = """
import os, sys, signal
from reverie.admin.transfer import backup as backups
calls = int(sys.argv[3]); count = 0
def counted(act):
    def run(*args, **kwargs):
        global count
        count += 1
        if count > calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return act(*args, **kwargs)
    return run
for name in ("rename", "replace", "link", "unlink", "mkdir"):
    setattr(os, name, counted(getattr(os, name)))
backups.recover(sys.argv[1], sys.argv[2], replace=True)
print("done")
"""


@pytest.mark.slow
def test_a_recovery_that_is_killed_leaves_one_of_the_two_whole(backup: Path, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory") as memory:
        memory.save("Only in the later one")
        later = dump(memory._store)
    recover(backup, tmp_path / "wanted")
    with Memory.open(tmp_path / "wanted") as memory:
        wanted = dump(memory._store)
    outcomes = set()
    for calls in range(60):
        folder = tmp_path / "try"
        shutil.copytree(tmp_path / "memory", folder)
        run = subprocess.run(
            [sys.executable, "-c", KILLED, str(backup), str(folder), str(calls)],
            capture_output=True,
            text=True,
        )
        with Memory.open(folder, create=False) as memory:
            found = dump(memory._store)
            assert memory.admin.check() == []
        assert found in (later, wanted), calls
        if run.returncode == 0:
            outcomes.add("done")
            break
        assert run.returncode == -signal.SIGKILL, run.stderr
        outcomes.add("new" if found == wanted else "old")
        recover(backup, folder, replace=True)
        with Memory.open(folder) as memory:
            assert dump(memory._store) == wanted
        shutil.rmtree(folder)
    assert outcomes >= {"old", "done"}


# -- what was forgotten since ------------------------------------------------------------------------------


def test_what_was_forgotten_since_the_backup_is_forgotten_again(tmp_path: Path) -> None:
    secret = "The vault behind the northern mill opens with nine turns of the key"
    folder = tmp_path / "memory"
    with filled(folder) as memory:
        kept = memory.save(secret).record
        memory.pages.write("MEMORY.md", f"- a line\n- {secret}\n")
        memory.session("cli:2").add("user", secret)
        memory.admin.backup(tmp_path / "kept.zip")
        memory.admin.forget(kept.id, turns=True)
    with pytest.raises(InvalidInput, match="there is a memory"):
        recover(tmp_path / "kept.zip", folder)
    done = recover(tmp_path / "kept.zip", folder, replace=True)
    assert done.forgotten_again >= 2
    with Memory.open(folder) as memory:
        assert memory.get(kept.id) is None
        assert secret not in json.dumps(dump(memory._store))
        assert memory.admin.stats().records == 3
        assert memory.admin.check() == []
    for file in folder.iterdir():
        if file.is_file():
            assert b"northern mill opens with nine" not in file.read_bytes(), file
    elsewhere = recover(tmp_path / "kept.zip", tmp_path / "new")
    assert elsewhere.forgotten_again == 0  # nothing there to know it by
    connection = sqlite3.connect(folder / "reverie.db")
    assert connection.execute("SELECT count(*) FROM tombstones").fetchone()[0] > 0
    connection.close()


def test_earlier_versions_that_were_forgotten_since_the_backup_do_not_come_back(tmp_path: Path) -> None:
    secret = "The vault behind the northern mill opens with nine turns of the key"
    with Memory.open(tmp_path / "memory") as memory:
        edited = memory.save(secret).record
        memory.update(edited.id, content="The mill is closed")
        removed = memory.save(f"{secret}, said Ruth").record
        memory.archive(removed.id)
        memory.admin.purge(older_than=0)
        memory.pages.write("MEMORY.md", f"# Mill\n{secret}\n")
        memory.pages.write("MEMORY.md", "# Mill\n")
        memory.admin.backup(tmp_path / "kept.zip")
        memory.admin.forget(match=secret)
    done = recover(tmp_path / "kept.zip", tmp_path / "memory", replace=True)
    assert done.forgotten_again == 3
    with Memory.open(tmp_path / "memory") as memory:
        assert "nine turns" not in repr(memory.history.log(limit=1_000))
        assert [record.content for record in memory.list()] == ["The mill is closed"]
        assert memory.pages.read("MEMORY.md") == "# Mill\n"
        assert memory.admin.check() == []
    assert b"nine turns" not in (tmp_path / "memory" / "reverie.db").read_bytes()
