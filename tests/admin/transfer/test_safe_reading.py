"""Files of other people are bounded: bombs, names that lead out, endless lines and nesting are refused."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from reverie import InvalidInput, Memory
from reverie.admin.transfer import safe_reading
from reverie.admin.transfer.safe_reading import iter_values, parse_json
from tests.admin.transfer import samples


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def refused(source: Path, says: str) -> None:
    """Importing it raises, and nothing was stored."""
    with Memory.open(":memory:") as memory:
        with pytest.raises(InvalidInput, match=says):
            memory.admin.import_from(source)
        assert memory.history.log() == []


# -- archives ------------------------------------------------------------------------------------------


def test_an_archive_with_names_that_lead_out_is_refused(tmp_path: Path) -> None:
    chats = json.dumps(samples.CHATGPT).encode()
    for name in ("../conversations.json", "/etc/x", "a/../../b", "C:/x", "..\\x", "\\\\host\\x"):
        refused(zipped(tmp_path / "x.zip", {"conversations.json": chats, name: b"x"}), "leads out of it")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.zip"]


def test_a_zip_bomb_is_refused_before_it_fills_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_reading, "_ALWAYS_ALLOWED", 1_000_000)
    bomb = b'[{"mapping": {}, "id": "' + b"a" * 30_000_000 + b'"}]'
    refused(zipped(tmp_path / "x.zip", {"conversations.json": bomb}), "do not trust this archive")


def test_a_bomb_whose_header_lies_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_reading, "_ALWAYS_ALLOWED", 1_000_000)
    file = zipped(tmp_path / "x.zip", {"conversations.json": b'["' + b"a" * 30_000_000 + b'"]'})
    data = bytearray(file.read_bytes())
    for place in (data.index(b"PK\x03\x04") + 22, data.index(b"PK\x01\x02") + 24):
        data[place : place + 4] = struct.pack("<I", 50)  # the size that it claims to unpack to
    file.write_bytes(data)
    refused(file, "do not trust this archive|damaged|ends in the middle")


def test_archives_that_cannot_be_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = zipped(tmp_path / "x.zip", {"conversations.json": json.dumps(samples.CHATGPT).encode()})
    whole = file.read_bytes()
    spoilt = bytearray(whole)
    spoilt[60:90] = b"\x00" * 30
    file.write_bytes(spoilt)
    refused(file, "damaged")
    locked = bytearray(whole)
    for place in (whole.index(b"PK\x03\x04") + 6, whole.index(b"PK\x01\x02") + 8):
        locked[place] |= 1
    file.write_bytes(locked)
    refused(file, "is encrypted")
    file.write_bytes(whole)
    refused(zipped(tmp_path / "y.zip", {"readme.txt": b"x"}), "nothing in it is known")
    backup = {"manifest.json": b"{}", "reverie.db": b""}
    refused(zipped(tmp_path / "z.zip", backup), "reverie recover")
    monkeypatch.setattr(safe_reading, "MOST_MEMBERS", 1)
    refused(tmp_path / "z.zip", "2 files in it: at most 1 are read")


# -- JSON ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [150, 200_000])
def test_absurd_nesting_is_refused_wherever_it_is(tmp_path: Path, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    with pytest.raises(InvalidInput, match="nested"):
        parse_json(nested)
    ((_, value),) = iter_values(io.BytesIO(f'[{{"a": {nested}}}]'.encode()))
    assert "nested" in str(value)
    line = f'{{"type": "entity", "name": "n", "observations": {nested}}}'
    file = samples.text(
        tmp_path / "x.jsonl", json.dumps(samples.MCP[0]) + f"\n{line}\n" + json.dumps(samples.MCP[1])
    )
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(file)
        assert (done.records, samples.whys(done)) == (3, {"empty": 1, "broken": 1})
    file = samples.text(
        tmp_path / "conversations.json", f'[{json.dumps(samples.CHATGPT[0])}, {{"mapping": {nested}}}]'
    )
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(file)
        assert done.turns == 4
        assert "nested" in done.skipped[-1].detail


def test_what_is_no_json_is_said_to_be_none_without_quoting_it() -> None:
    for text in ("{", "", "nul", '{"a": 1e', '"\\ud800', "[1, 2", '{"a" 1}'):
        with pytest.raises(InvalidInput, match="not JSON"):
            parse_json(text)
    with pytest.raises(InvalidInput) as raised:
        parse_json('{"a": "a secret of mine" "b"}')
    assert "secret" not in str(raised.value)
    with pytest.raises(InvalidInput):
        parse_json('{"a": ' + "9" * 5_000 + "}")  # more digits than Python reads
    with pytest.raises(InvalidInput, match="UTF-8"):
        parse_json(b'{"a": "\xff"}')


def test_a_list_is_read_by_its_elements_and_a_cut_one_is_named() -> None:
    chance = random.Random(3)

    def value(depth: int = 0) -> Any:
        which = chance.random()
        if depth > 3 or which < 0.4:
            return "".join(chance.choice('ab"\\{}[],\n é🦊') for _ in range(chance.randrange(12)))
        if which < 0.7:
            return [value(depth + 1) for _ in range(3)]
        return {f'k{n}"': value(depth + 1) for n in range(3)}

    for _ in range(100):
        data = [chance.choice([{"a": value()}, 5, -1.5e-7, None, True, value()]) for _ in range(4)]
        text = json.dumps(data, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))
        read = [each for _, each in iter_values(io.BytesIO(f"\ufeff {text}".encode()))]
        assert read == data
        *read, last = [each for _, each in iter_values(io.BytesIO(text.encode()[:-1]))]
        assert read == data
        assert "ends in the middle" in str(last)


def test_a_list_may_not_be_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_reading, "LARGEST_TEXT", 1_000_000)
    with pytest.raises(InvalidInput, match="over 1,000,000 characters"):
        list(iter_values(io.BytesIO(b"[" + b"1," * 3_000_000)))


# -- lines and files -----------------------------------------------------------------------------------


def test_a_line_that_is_too_long_is_named_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_reading, "LONGEST_LINE", 10_000)
    long = json.dumps({"type": "entity", "name": "n", "observations": ["x" * 3_000_000]})
    lines = [json.dumps(samples.MCP[0]), long, json.dumps(samples.MCP[1])]
    file = samples.text(tmp_path / "x.jsonl", "\n".join(lines))
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(file)
        assert (done.records, samples.told(done, "too large")) == (3, [("line", "x.jsonl, line 2")])


def test_lines_are_read_one_by_one_wherever_a_file_is_cut_into_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = [{"n": n, "text": "x" * (n % 40)} for n in range(400)]
    data = "\n".join(map(json.dumps, values)).encode()
    for size in (64, 65, 1_000, 1 << 20):
        monkeypatch.setattr(safe_reading, "_CHUNK", size)
        assert [value for _, value in iter_values(io.BytesIO(data))] == values, size


def test_pipes_devices_and_links_are_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for source in (tmp_path / "pipe.jsonl", Path("/dev/zero")):
        done = threading.Event()

        def attempt(source: Path = source, done: threading.Event = done) -> None:
            refused(source, "not a regular file|cannot be read")
            done.set()

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        assert done.wait(timeout=20), source
    place = tmp_path / "notes"
    samples.text(place / "MEMORY.md", "- fine\n")
    (place / "HISTORY.md").symlink_to("/etc/passwd")
    (place / "loop").symlink_to(place)
    os.mkfifo(place / "2026-01-01.md")
    with Memory.open(":memory:") as memory:
        done_import = memory.admin.import_from(place)
        assert samples.contents(memory) == {"fine"}
        assert samples.whys(done_import) == {"unsupported": 3}


def test_files_over_the_limit_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_reading, "LARGEST_FILE", 1_000)
    samples.text(tmp_path / "MEMORY.md", "x" * 2_000)
    samples.text(tmp_path / "2026-01-01.md", "[10:00] fine\n")
    with Memory.open(":memory:") as memory:
        done = memory.admin.import_from(tmp_path)
        assert (done.records, samples.told(done, "too large")) == (1, [("page", "MEMORY.md")])


def test_random_bytes_in_place_of_a_source_raise_nothing_else(tmp_path: Path) -> None:
    chance = random.Random(11)
    whole = {
        "x.zip": samples.chatgpt(tmp_path).read_bytes(),
        "memory.jsonl": samples.mcp(tmp_path).read_bytes(),
        "conversations.json": json.dumps(samples.CLAUDE).encode(),
        "MEMORY.md": samples.MEMORY_MD.encode(),
        "semantic.jsonl": json.dumps(samples.GOLEMCORE_FACT).encode(),
        "entry.json": json.dumps(samples.ROCKBOT_TIMEZONE).encode(),
    }
    for name, data in whole.items():
        for _ in range(20):
            spoilt = bytearray(data)
            for _ in range(chance.choice((1, 3, 40))):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            if chance.random() < 0.3:
                del spoilt[chance.randrange(len(spoilt)) :]
            file = tmp_path / "spoilt" / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(spoilt)
            with Memory.open(":memory:") as memory:
                try:
                    memory.admin.import_from(file, origin=chance.choice([None, "owner"]))  # type: ignore[arg-type]
                except InvalidInput:
                    continue
                assert memory.admin.check() == []
