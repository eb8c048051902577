"""The main job: conversations are read in, killed and read in again while others ask, add and save.

Nothing is lost, doubled or out of order, and the answers in the end are those of a folder that nobody
disturbed.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory

SECONDS = float(os.environ.get("REVERIE_TORTURE_SECONDS", "0")) or 5.0
PROGRAM = [sys.executable, "-W", "error", "-c", "from reverie.interfaces.cli.main import main; main()"]
ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith("REVERIE_")}
NOW = datetime(2040, 1, 1, tzinfo=UTC)
DAMAGES = ("none", "none", "deleted", "emptied", "torn", "garbage", "no list")

_THINGS = [
    "kayak",
    "lantern",
    "trumpet",
    "quilt",
    "compass",
    "violin",
    "teapot",
    "ladder",
    "sextant",
    "telescope",
    "anvil",
    "hammock",
]
_PLACES = ["Lisbon", "Oslo", "Kyoto", "Quito", "Dakar", "Perth", "Tallinn", "Ghent", "Cusco", "Hanoi"]


def made(path: Path) -> Path:
    """A file of messages in 36 sessions of 20 turns each; beside it, questions about them."""
    chance = random.Random(5)
    messages, asked = [], []
    for n, k in itertools.product(range(3), range(1, 13)):
        for t in range(20):
            thing, place, count = chance.choice(_THINGS), chance.choice(_PLACES), chance.randrange(2, 90)
            lot = f"{n}{k:02}{t:02}"
            role, speaker = ("user", f"Ana{n}") if t % 2 == 0 else ("assistant", f"Bo{n}")
            text = f"I bought {count} parts for the {thing} in {place}, lot {lot}."
            messages.append(
                {
                    "session": f"talk:{n}:{k}",
                    "role": role,
                    "speaker": speaker,
                    "at": f"2023-05-{k:02}T{k:02}:30:{t:02}Z",
                    "content": text,
                }
            )
            asked.append(f"Where came lot {lot} for the {thing} from?")
    path.write_text("\n".join(map(json.dumps, messages)), encoding="utf-8")
    path.with_suffix(".questions").write_text(json.dumps(asked), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("talk") / "talk.jsonl")


def expected(file: Path) -> dict[str, list[tuple[str, str, str]]]:
    """What each session says when the file has been read in."""
    there: dict[str, list[tuple[str, str, str]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        turn = json.loads(line)
        there.setdefault(turn["session"], []).append((turn["role"], turn["speaker"], turn["content"]))
    return there


def stored(memory: Memory, sessions: dict[str, Any]) -> dict[str, list[tuple[str, str, str]]]:
    return {name: [(t.role, t.speaker, t.content) for t in memory.turns(name)] for name in sessions}


def questions(file: Path) -> list[str]:
    asked: list[str] = json.loads(file.with_suffix(".questions").read_text(encoding="utf-8"))
    return asked


def damage(folder: Path, how: str) -> None:
    """Do to the index what people and disks do, while nobody or somebody uses it.

    A file is replaced, not cut where it lies: what a process has mapped into its memory cannot be taken
    away from it without ending it.
    """
    index = folder / "index"
    files = [path for path in index.glob("*/*") if path.is_file()]
    if how == "deleted":
        shutil.rmtree(index, ignore_errors=True)
    for path in files if how in ("emptied", "torn", "garbage") else ():
        try:
            whole = path.read_bytes()
            replaced = {"emptied": b"", "torn": whole[: len(whole) // 2], "garbage": os.urandom(len(whole))}[
                how
            ]
            path.with_suffix(".damage").write_bytes(replaced)
            path.with_suffix(".damage").replace(path)
        except FileNotFoundError:  # merged away meanwhile
            continue
    if how == "no list":
        for path in index.glob("*/meta.json"):
            path.unlink(missing_ok=True)


@dataclass
class Others:
    """Processes that ask, pack, save and add while the file is read in, and what they were told."""

    folder: Path
    asked: list[str]
    chance: random.Random
    running: list[tuple[str, str, subprocess.Popen[bytes]]] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    answered: int = 0
    count: int = 0

    def start(self, session: str) -> None:
        """One more of them."""
        self.count += 1
        what = self.chance.choice(["recall", "context", "remember", "say"])
        question = self.chance.choice(self.asked)
        text = f"Note {self.count} about box {self.chance.randrange(10**9)}"
        args = {
            "recall": ["recall", question, "--json"],
            "context": ["context", session, question, "--json"],
            "remember": ["remember", text, "--quiet"],
            "say": ["say", "other:1", text, "--quiet"],
        }[what]
        pipe = subprocess.PIPE
        command = [*PROGRAM, *args, "--store", str(self.folder)]
        started = subprocess.Popen(command, stdout=pipe, stderr=pipe, env=ENVIRONMENT)
        self.running.append((what, text, started))

    def finish(self) -> None:
        """Wait for all of them; each must have done what it was asked to."""
        for what, text, process in self.running:
            out, err = process.communicate(timeout=60)
            assert b"Traceback" not in err, err.decode()
            # Nothing is found before anything was read in, nor a folder before it is made.
            allowed = (0, 1, 3) if what in ("recall", "context") else (0,)
            assert process.returncode in allowed, (what, process.returncode, err.decode())
            if what == "remember":
                self.saved.append(text)
            elif what == "say":
                self.said.append(text)
            elif process.returncode == 0:
                json.loads(out)
                self.answered += 1
        self.running.clear()


def read_in(file: Path, folder: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [*PROGRAM, "import", str(file), "--store", str(folder), "--json"]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, env=ENVIRONMENT)


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What is started is ended."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.timeout(SECONDS * 3 + 120)
def test_reading_in_survives_kills_damage_and_company(
    file: Path, tmp_path: Path, ended: list[subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "memory"
    whole, asked = expected(file), questions(file)
    chance = random.Random(29)
    others = Others(folder, asked, chance)
    end = time.monotonic() + SECONDS
    kills = 0
    while kills < 3 or time.monotonic() < end:
        readers = [read_in(file, folder) for _ in range(chance.choice([1, 1, 2]))]
        ended += readers
        for _ in range(2):
            others.start(chance.choice(list(whole)))
        time.sleep(chance.uniform(0.05, 0.6))
        damage(folder, chance.choice(DAMAGES))
        for reader in readers:
            reader.send_signal(signal.SIGKILL)
            _, err = reader.communicate(timeout=60)
            kills += reader.returncode == -signal.SIGKILL
            assert b"Traceback" not in err, err.decode()
        others.finish()
        with Memory.open(folder) as memory:
            assert memory.admin.check() == []
            for name, turns in stored(memory, whole).items():
                assert turns == whole[name][: len(turns)], f"{name} is not a beginning of what it shall be"
        if chance.random() < 0.15:
            shutil.rmtree(folder)
            others = Others(folder, asked, chance, answered=others.answered)
    both = [read_in(file, folder) for _ in range(2)]
    ended += both
    for reader in both:
        _, err = reader.communicate(timeout=60)
        assert reader.returncode == 0, err.decode()
    with Memory.open(folder) as memory:
        assert memory.admin.check() == []
        assert stored(memory, whole) == whole
        assert sorted(turn.content for turn in memory.turns("other:1")) == sorted(others.said)
        there = [record.content for record in memory.list(limit=None)]
        assert sorted(others.saved) == sorted(there)
        assert memory.admin.stats().turns == sum(map(len, whole.values())) + len(others.said)
    print(f"{kills} kills; meanwhile {others.answered} answers, {len(others.saved + others.said)} writes")


def test_the_answers_are_those_of_a_folder_that_nobody_disturbed(file: Path, tmp_path: Path) -> None:
    disturbed, calm = tmp_path / "disturbed", tmp_path / "calm"
    chance = random.Random(31)
    for n in range(3):
        running = read_in(file, disturbed)
        time.sleep(0.15 + 0.1 * n)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        damage(disturbed, DAMAGES[2 + n])
    for folder in (disturbed, calm):
        done = read_in(file, folder)
        _, err = done.communicate(timeout=60)
        assert done.returncode == 0, err.decode()
    asked = chance.sample(questions(file), k=30)
    assert answers(disturbed, asked) == answers(calm, asked)


def answers(folder: Path, asked: list[str]) -> list[list[tuple[str, float]]]:
    with Memory.open(folder, clock=lambda: NOW) as memory:
        found = [memory.search(question, sources="turns") for question in asked]
        return [[(hit.content, round(hit.score, 9)) for hit in hits] for hits in found]
