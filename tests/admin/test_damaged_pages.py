"""Every page of a database is zeroed in turn, and the advice of every command leads to a sound memory."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from reverie import Memory, StoreCorrupt, StoreIncompatible
from reverie.domain.filter import Filter
from reverie.interfaces.cli.main import cli

PAGE = 4096
COMMANDS = (
    ["doctor"],
    ["doctor", "--fix"],
    ["rebuild", "--yes"],
    ["check"],
    ["list"],
    ["recall", "boxes"],
    ["remember", "The pumps were serviced in May"],
    ["stats"],
    ["history"],
    ["backup", "{aside}"],
    ["export", "{aside}"],
    ["forget", "--yes", "--match", "oak"],
)
_STEPS = 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of more than a hundred pages."""
    folder = tmp_path_factory.mktemp("whole") / "memory"
    with Memory.open(folder, embedder="none") as memory:
        forgotten = memory.save("The spare key lies under the old oak in the garden").record
        for number in range(34):
            shelves = (f"Shelf {number}-{n} has {n * number + n} boxes of rice. " for n in range(3 * number))
            memory.save(f"Hall {number}. {''.join(shelves)}", tags=[f"hall-{number}"], category="stock")
        chat = memory.session("chat:1")
        messages = (f"The {n} crates of week {n * 3} came by ship {n * 11}. " * 9 for n in range(60))
        chat.add_many({"role": "user", "content": message} for message in messages)
        chat.working.set("note", "until later", ttl=None)
        memory.admin.forget(forgotten.id)
    return folder


def follow_advice(folder: Path, command: list[str]) -> list[str]:
    """Run a command, then the first command that the output names, until the doctor finds nothing.

    Returns:
        The commands, with their exit codes; the last is `doctor=0` if the advice leads to a sound memory.
    """
    taken: list[str] = []
    since_repair: list[list[str]] = []
    for _ in range(_STEPS):
        arguments = [each.format(aside=folder.parent / "aside") for each in command]
        done = CliRunner().invoke(cli, ["--store", str(folder), *arguments])
        taken.append(f"{' '.join(command)}={done.exit_code}")
        if done.exit_code == 70:
            taken.append(done.output)
            break
        if command[0] == "doctor" and done.exit_code == 0:
            return [*taken, "doctor=0"]
        if command[0] == "rebuild" or "--fix" in command:
            since_repair.clear()
        since_repair.append(command)
        advised = [name.split() for name in re.findall(r"`reverie ([^`]+)`", done.output)]
        advised = [[*words, "--yes"] if words[0] == "rebuild" else words for words in advised]
        if done.exit_code == 0 or "nothing has that text" in done.output:
            advised = [["doctor"]]
        command = next((each for each in advised if each not in since_repair and each[0] != "recover"), [])
        if not command:
            taken.append(done.output)
            break
    return taken


def zero_page(whole: Path, folder: Path, number: int) -> Path:
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(whole, folder)
    with (folder / "reverie.db").open("r+b") as file:
        file.seek(number * PAGE)
        file.write(bytes(PAGE))
    return folder


def count_pages(folder: Path) -> int:
    return (folder / "reverie.db").stat().st_size // PAGE


def assert_advice_leads_to_a_sound_memory(whole: Path, folder: Path, number: int, command: list[str]) -> None:
    taken = follow_advice(zero_page(whole, folder, number), command)
    assert taken[-1] == "doctor=0", f"page {number + 1}: {taken}"
    with Memory.open(whole) as before, Memory.open(folder) as memory:
        remembered = {record.id for record in memory._store.find(Filter(archived=None))}
        assert {record.id for record in before._store.find(Filter(archived=None))} <= remembered
        assert memory._store.turns(session="chat:1") == before._store.turns(session="chat:1")


@pytest.mark.slow
def test_after_any_zeroed_page_the_doctor_names_what_is_wrong(whole: Path, tmp_path: Path) -> None:
    codes: set[str] = set()
    for number in range(count_pages(whole)):
        folder = zero_page(whole, tmp_path / "copy" / "memory", number)
        try:
            memory = Memory.open(folder)
        except (StoreCorrupt, StoreIncompatible):
            continue
        with memory:
            diagnosis = memory.admin.doctor()
        assert all(finding.what and finding.fix for finding in diagnosis.findings), number
        codes.update(finding.code for finding in diagnosis.findings)
    assert {"database", "database-damaged"} <= codes


@pytest.mark.parametrize(
    "part", [0, 2, 4, *(pytest.param(part, marks=pytest.mark.slow) for part in (1, 3, 5))]
)
def test_after_a_zeroed_page_the_advice_of_a_command_leads_to_a_sound_memory(
    whole: Path, tmp_path: Path, part: int
) -> None:
    """A sample: the first page, a table of few pages, and pages from all over the file."""
    number = 0 if part == 0 else part * (count_pages(whole) // 6)
    command = COMMANDS[3 + part]
    assert_advice_leads_to_a_sound_memory(whole, tmp_path / "copy" / "memory", number, command)


@pytest.mark.parametrize(
    ("name", "command"),
    [("cursors", ["doctor"]), ("cursors", ["rebuild", "--yes"]), ("tombstones", ["doctor"])],
)
def test_after_a_zeroed_root_page_the_advice_leads_to_a_sound_memory(
    whole: Path, tmp_path: Path, name: str, command: list[str]
) -> None:
    root = find_root(whole, name)
    assert_advice_leads_to_a_sound_memory(whole, tmp_path / "copy" / "memory", root - 1, command)


def find_root(folder: Path, name: str) -> int:
    with contextlib.closing(sqlite3.connect(folder / "reverie.db")) as file:
        (root,) = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return int(root)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
def test_after_any_zeroed_page_the_advice_of_each_repair_leads_to_a_sound_memory(
    whole: Path, tmp_path: Path, command: list[str]
) -> None:
    assert count_pages(whole) > 100
    for number in range(count_pages(whole)):
        assert_advice_leads_to_a_sound_memory(whole, tmp_path / "copy" / "memory", number, command)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_after_any_zeroed_page_the_advice_of_other_commands_leads_to_a_sound_memory(
    whole: Path, tmp_path: Path
) -> None:
    """Each command meets every ninth page, beginning with another one."""
    commands = COMMANDS[3:]
    for number in range(count_pages(whole)):
        command = commands[number % len(commands)]
        assert_advice_leads_to_a_sound_memory(whole, tmp_path / "copy" / "memory", number, command)


def test_a_file_with_much_damage_is_described_in_a_few_words(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged" / "memory"
    shutil.copytree(whole, folder)
    pages = count_pages(folder) + 20
    with (folder / "reverie.db").open("r+b") as file:
        file.truncate(pages * PAGE)
        file.seek(28)  # the header's number of pages: twenty are used by nothing
        file.write(pages.to_bytes(4, "big"))
    done = CliRunner().invoke(cli, ["--store", str(folder), "doctor"])
    assert "the file is damaged: Page" in done.output
    assert "; and 17 more" in done.output
    assert max(map(len, done.output.splitlines())) < 400
