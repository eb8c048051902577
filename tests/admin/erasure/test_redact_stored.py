"""What was stored before it was redacted is found without being quoted, and taken out for good."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner
from evaluation.measures.synthetic_secrets import SECRETS

from reverie import Memory, Settings
from reverie.admin.erasure.eraser import Eraser
from reverie.consolidation.values import Plan, PlanStep
from reverie.domain.change import Change
from reverie.interfaces.cli.main import cli
from tests.support.contract.factories import make_record, make_time

KEYS = [SECRETS["openai_service"](Random(seed)) for seed in range(9)]
OFF = Settings(redact_secrets=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory that holds secrets of every sort, from when nothing was redacted."""
    with Memory.open(tmp_path, settings=OFF) as memory:
        memory.save(f"the key is {KEYS[0]}", metadata={"db_password": "hunter2x"})
        edited = memory.save(f"once {KEYS[1]}").record
        memory.update(edited.id, content="now without")
        gone = memory.save(f"gone {KEYS[2]}").record
        memory.archive(gone.id)
        memory.admin.purge(older_than=0)
        memory.save(KEYS[3])
        memory.save(KEYS[4])
        chat = memory.session("chat:1")
        chat.add("user", f"use {KEYS[0]}")
        chat.add("assistant", f"done with {KEYS[0]}")
        chat.working.set("k", f"token {KEYS[5]}")
        memory.scratchpad.set("expired", f"token {KEYS[6]}", ttl=1e-6)
        memory.pages.write("MEMORY.md", f"# Keys\n\n{KEYS[0]}\n")
        memory.pages.write("TEAM.md", "# Team\n", reason=f"moved from {KEYS[7]}")
        memory.dreams.keep_plan(plan_to_add(f"the other key is {KEYS[8]}"))
        memory.save("Rocky loves rock music")
    return tmp_path


def plan_to_add(content: str) -> Plan:
    step = PlanStep(edit=Change(before=None, after=make_record(1, content=content)), why="said")
    return Plan(id="0123456789ab", name="dream", made_at=make_time(0), steps=(step,))


def left(folder: Path) -> list[str]:
    needles = [*KEYS, "hunter2x", *(key[20:50] for key in KEYS)]
    data = {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return [name for name, content in data.items() if any(each.encode() in content for each in needles)]


def test_the_doctor_names_what_holds_secrets_and_quotes_none(folder: Path) -> None:
    with Memory.open(folder) as memory:
        (finding,) = [each for each in memory.admin.doctor().findings if each.code == "secrets-stored"]
        assert {about.split()[0] for about in finding.about} == {
            "record",
            "turn",
            "page",
            "paragraph",
            "entry",
            "cursor",
        }
        assert "reverie redact" in finding.fix
        assert not any(key[10:30] in f"{finding}" for key in KEYS)
    with Memory.open(folder, settings=OFF) as memory:
        assert [each for each in memory.admin.doctor().findings if each.code == "secrets-stored"] == []


def test_redacting_leaves_no_byte_and_everything_else(folder: Path) -> None:
    assert left(folder)
    with Memory.open(folder) as memory:
        planned = memory.admin.redact(dry_run=True)
        assert not planned.done
        assert left(folder)
        done = memory.admin.redact()
        assert done.done
        assert done.found == planned.found
        assert done.pending == ()
        assert {each.content for each in memory.list()} == {
            "the key is [redacted: openai key]",
            "now without",
            "[redacted: openai key]",
            "Rocky loves rock music",
        }
        assert [turn.content for turn in memory.turns("chat:1")] == [
            "use [redacted: openai key]",
            "done with [redacted: openai key]",
        ]
        assert memory.session("chat:1").turns() == memory.turns("chat:1")
        (archived,) = memory.list(archived=True)
        assert archived.content == "[redacted: openai key]"
        assert archived.archive_reason == "says the same once redacted"
        assert memory.admin.check() == []
        assert memory.admin.redact().found == ()
        assert memory.admin.doctor().sound
    assert left(folder) == []


def test_a_redaction_that_was_interrupted_is_finished_by_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_: Eraser) -> tuple[str, ...]:
        raise KeyboardInterrupt

    with Memory.open(folder) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(Eraser, "finish", die)
            with pytest.raises(KeyboardInterrupt):
                memory.admin.redact()
        assert "forgetting-unfinished" in {each.code for each in memory.admin.doctor().findings}
        again = memory.admin.redact()
        assert (again.found, again.done, again.pending) == ((), True, ())
        assert memory.admin.doctor().sound
        assert left(folder) == []


def test_a_name_cannot_be_redacted_but_what_is_said_in_it_can(tmp_path: Path) -> None:
    with Memory.open(tmp_path, settings=OFF) as memory:
        memory.session(KEYS[0]).add("user", f"hello {KEYS[1]}")
    with Memory.open(tmp_path) as memory:
        assert any(each.code == "secret-name" for each in memory.admin.doctor().findings)
        done = memory.admin.redact()
        assert {each.subject for each in done.left} == {"session", "turn"}
        assert not any(KEYS[0] in each.id for each in done.left)
        assert [turn.content for turn in memory.turns(KEYS[0])] == ["hello [redacted: openai key]"]
        memory.admin.forget(session=KEYS[0])
        assert memory.admin.redact(dry_run=True).found == ()
    assert left(tmp_path) == []


def test_the_command_shows_asks_and_does_it(folder: Path) -> None:
    at = ["--store", str(folder)]
    shown = CliRunner().invoke(cli, ["redact", "--dry-run", *at])
    assert shown.exit_code == 0
    rows = [line.split("\t") for line in shown.output.splitlines() if "\t" in line]
    assert ["page", "MEMORY.md", "openai key"] in rows
    refused = CliRunner().invoke(cli, ["redact", *at])
    assert refused.exit_code != 0 or "Nothing was changed" in refused.output
    assert left(folder)
    done = CliRunner().invoke(cli, ["redact", "--yes", "--json", *at])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["done"] is True
    assert told["pending"] == []
    assert any("backups" in note for note in told["notes"])
    assert left(folder) == []
    again = CliRunner().invoke(cli, ["redact", "--yes", *at])
    assert again.output == "No stored content looks like a secret.\n"
