"""A memory that is exported with its history and imported again is the same memory, to the last change."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings

from reverie.admin.transfer.copying import copy_memory, is_history_file, open_source, write_history
from reverie.domain.errors import InvalidInput
from reverie.memory import Memory
from tests.admin.transfer.samples import TEXTS, fill
from tests.interfaces.conftest import run_cli


def export(folder: Path, file: Path) -> int:
    with closing(open_source(str(folder))) as source:
        return write_history(source, file, overwrite=True)


def everything(folder: Path) -> object:
    with closing(open_source(str(folder))) as source:
        rest = source.read_unjournaled()
        entries = {(entry.namespace, entry.key): entry for entry in rest.entries}
        return source.read_rows(0, 10_000), entries, rest.cursors, rest.counters, set(rest.tombstones)


@settings(max_examples=8, deadline=None)
@given(texts=TEXTS)
def test_everything_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    place = tmp_path_factory.mktemp("history")
    with Memory.open(place / "memory") as memory:
        fill(memory, texts)
    file = place / "all.jsonl"
    changes = export(place / "memory", file)
    assert is_history_file(file)
    report = copy_memory(str(file), str(place / "again"))
    assert report.changes == changes
    assert everything(place / "again") == everything(place / "memory")
    assert b"Zanzibar" not in file.read_bytes()
    with Memory.open(place / "memory") as ours, Memory.open(place / "again") as theirs:
        assert theirs.admin.check() == []
        assert ours.scoped("*").list(limit=None, archived=None) == theirs.scoped("*").list(
            limit=None, archived=None
        )
        assert ours.pages.read() == theirs.pages.read()
        assert ours.history.log(limit=10_000) == theirs.history.log(limit=10_000)


def test_the_command_line_exports_and_imports_everything(tmp_path: Path) -> None:
    folder, file, again = tmp_path / "memory", tmp_path / "all.jsonl", tmp_path / "again"
    run_cli("remember", "Staging runs on port 5432", "--store", folder)
    run_cli("remember", "Staging moved to port 5433", "--store", folder)
    assert b"everything, 2 changes" in run_cli("export", "--history", file, "--store", folder).stdout
    assert run_cli("export", "--history", file, "--store", folder).returncode == 2, "it is there"
    refused = run_cli("export", "--history", file, "--overwrite", "--scope=a", "--store", folder)
    assert b"leave out --scope" in refused.stderr
    assert b"without other options" in run_cli("import", file, "--dry-run", "--store", again).stderr
    done = run_cli("import", file, "--store", again)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Copied and compared: 2 records, 2 changes" in done.stdout
    assert everything(again) == everything(folder)
    assert run_cli("import", file, "--store", again).returncode == 2, "it has a memory"


def test_a_cut_or_broken_file_is_refused_and_leaves_no_memory(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory") as memory:
        memory.save("Staging runs on port 5432")
    file = tmp_path / "all.jsonl"
    export(tmp_path / "memory", file)
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    for text in ("".join(lines[:-1]), "".join([lines[0], *lines[2:]]), "".join([lines[0], "{", *lines[1:]])):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInput, match=r"all\.jsonl"):
            copy_memory(str(file), str(tmp_path / "again"))
        assert not (tmp_path / "again" / "reverie.db").exists()
