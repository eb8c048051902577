"""The server as a process on its pipes: with the real client, with hostile ones, and when it is to end."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from mcp import Client, types
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from reverie import Memory
from reverie.interfaces.mcp import handshake
from reverie.interfaces.mcp.server import TEMPLATES, create_offer
from reverie.tools.toolset import to_mcp
from tests.interfaces.mcp.peers import LEGACY, PROGRAM, STATELESS, Wire, played, started

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


# -- the real client -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "speaks"), [(LEGACY, "2025-11-25"), pytest.param("auto", STATELESS, marks=pytest.mark.slow)]
)
def test_the_real_client_saves_searches_and_reads(folder: Path, mode: str, speaks: str) -> None:
    async def scene() -> None:
        async with Client(started(folder), mode=mode) as client:
            saved = await client.call_tool("save_memory", {"content": "Alice likes tea"})
            found = await client.call_tool("search_memory", {"query": "tea"})
            saved_id = saved.structured_content["text"].removeprefix("Saved as ").rstrip(".")
            assert saved_id in found.content[0].text
            listed = await client.list_resources()
            assert [each.name for each in listed.resources][:1] == ["MEMORY.md"]
            assert client.session.protocol_version == speaks

    played(scene)
    with Memory.open(folder) as memory:
        assert [row.actor for row in memory.history.log()] == ["mcp"]


# -- hostile clients -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the one server that all hostile clients meet."""
    return tmp_path_factory.mktemp("hostile") / "memory"


@pytest.fixture(scope="module")
def wire(hostile: Path) -> Iterator[Wire]:
    """That server; it goes on from test to test."""
    with Wire(hostile) as wire:
        wire.shake_hands()
        yield wire
        assert wire.end()[0] == 0


def still_serves(wire: Wire) -> None:
    wire.call("save_memory", {"content": "Alice likes tea"}, id="still")
    assert wire.answer("still")["result"]["isError"] is False


def test_a_line_that_is_no_message_is_answered_and_the_server_goes_on(wire: Wire) -> None:
    lines: list[tuple[bytes, int, Any]] = [
        (b"{nonsense", PARSE_ERROR, None),
        (b"\xff\xfe\x00", PARSE_ERROR, None),
        (b"[" * 100_000, PARSE_ERROR, None),
        (b'"text"', INVALID_REQUEST, None),
        (b"[]", INVALID_REQUEST, None),
        (b'{"id": 7, "method": "ping"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc": "1.0", "id": "x", "method": "ping"}', INVALID_REQUEST, "x"),
        (b'{"jsonrpc": "2.0", "id": true, "method": 5}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 8, "method": "ping", "params": [1]}', INVALID_REQUEST, 8),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', INVALID_REQUEST, None),
        (rb'{"jsonrpc": "2.0", "id": 10, "method": "ping", "params": {"\udc00": 1}}', INVALID_REQUEST, 10),
        (rb'{"jsonrpc": "2.0", "id": "\ud800", "method": "ping"}', INVALID_REQUEST, None),
    ]
    for line, code, name in lines:
        wire.raw(line + b"\n")
        assert wire.answer(name)["error"]["code"] == code, line
    for _ in range(40):  # a message that is too long is not kept
        wire.raw(b"x" * (1 << 20))
    wire.raw(b"\n")
    assert wire.answer(None)["error"]["code"] == INVALID_REQUEST
    still_serves(wire)


def test_wrong_requests_get_protocol_errors_and_the_server_goes_on(wire: Wire) -> None:
    for number, (method, params, code) in enumerate(
        [
            ("no/such/method", {}, METHOD_NOT_FOUND),
            ("tools/call", {"arguments": {}}, INVALID_PARAMS),
            ("tools/call", {"name": "save_memory", "arguments": "text"}, INVALID_PARAMS),
            ("tools/call", {"name": "\u0000", "arguments": {}}, INVALID_PARAMS),
            ("resources/read", {"uri": 5}, INVALID_PARAMS),
            ("prompts/get", {"name": "x"}, METHOD_NOT_FOUND),
        ]
    ):
        wire.say(method, params, id=number)
        assert wire.answer(number)["error"]["code"] == code, method
    still_serves(wire)


def test_answers_nobody_asked_for_and_blank_lines_are_passed_over(wire: Wire) -> None:
    wire.raw(b'\n\r\n{"jsonrpc": "2.0", "id": 99, "result": {}}\n{"id": 98, "result": 5}\n')
    wire.say("notifications/nonsense", {"x": 1})
    wire.say("notifications/cancelled", {"requestId": "never"})
    still_serves(wire)


def test_a_cancelled_call_gets_no_answer_and_holds_up_nothing(wire: Wire, hostile: Path) -> None:
    other = sqlite3.connect(hostile / "reverie.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        wire.call("save_memory", {"content": "Bob likes coffee"}, id="slow")
        wire.say("notifications/cancelled", {"requestId": "slow"})
        wire.say("ping", id="after")
        assert wire.hear_answer()["id"] == "after"
    finally:
        other.rollback()
        other.close()
    for number in range(3):
        wire.say("ping", id=f"later {number}")
        assert wire.hear_answer()["id"] == f"later {number}"  # and not the answer to the call
    still_serves(wire)


# -- the early answer to `initialize` --------------------------------------------------------------------


@pytest.mark.slow
def test_the_early_answer_is_the_servers_own(folder: Path) -> None:
    assert handshake.VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    }
    early = handshake.build_greeting(
        {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}
    )
    with Wire(folder) as wire:
        wire.raw(b"\n")  # the server itself answers whatever is not first
        own = wire.shake_hands()
        own["result"]["capabilities"].pop(
            "experimental", None
        )  # earlier releases of the SDK name it without one
        assert own == early
        still_serves(wire)


def test_initialize_is_answered_while_the_database_is_locked(folder: Path) -> None:
    Memory.open(folder).close()
    locking = sqlite3.connect(folder / "reverie.db", isolation_level=None)
    locking.execute("PRAGMA locking_mode = EXCLUSIVE")
    locking.execute("BEGIN EXCLUSIVE")
    with Wire(folder) as wire:
        assert wire.shake_hands()["result"]["protocolVersion"] == "2025-11-25"
        wire.call("save_memory", {"content": "Alice likes tea"}, id="saved")
        assert locking.in_transaction
        locking.close()
        assert wire.answer("saved")["result"]["isError"] is False
        wire.say("ping", id="hello")  # the id of the handshake, used once more
        assert wire.answer("hello")["result"] == {}
        assert wire.end()[0] == 0


@pytest.mark.slow
def test_the_tools_that_are_listed_early_are_those_of_the_server(folder: Path) -> None:
    with Memory.open(folder) as memory:
        memory.session("s").add("user", "Hello")
    cases: list[tuple[list[str], dict[str, Any]]] = [
        ([], {}),
        (["--session", "s"], {"session": "s"}),
        (["--read-only"], {"read_only": True}),
        (["--groups", "memory, fil,scratchpad"], {"groups": ["memory", "fil", "scratchpad"]}),
    ]
    for options, how in cases:
        with Memory.open(folder) as memory:
            offer = create_offer(memory, **how)
            expected = [types.Tool.model_validate(to_mcp(tool)) for tool in offer.tools]
        locking = sqlite3.connect(folder / "reverie.db", isolation_level=None)
        locking.execute("PRAGMA locking_mode = EXCLUSIVE")
        locking.execute("BEGIN EXCLUSIVE")  # the server cannot open the memory, so these answers come early
        with Wire(folder, *options) as wire:
            wire.shake_hands()
            for number, method in enumerate(("ping", "tools/list", "resources/templates/list")):
                wire.say(method, id=number)
            results = [wire.answer(number)["result"] for number in range(3)]
            assert locking.in_transaction
            locking.close()
            shown = [each.model_dump(mode="json", by_alias=True, exclude_unset=True) for each in expected]
            assert (results[0], results[1]["tools"]) == ({}, shown), options
            (template,) = results[2]["resourceTemplates"]
            assert template["uriTemplate"] == TEMPLATES[0].uri_template
            wire.say("resources/list", id="opened")  # the server itself answers from here on
            assert wire.answer("opened")["result"]["resources"]
            wire.say("tools/list", {}, id="later")
            assert wire.answer("later")["result"]["tools"] == shown


def test_a_memory_that_cannot_be_opened_is_told_by_the_first_call(folder: Path) -> None:
    folder.mkdir()
    (folder / "reverie.db").write_bytes(b"not a database at all, but long enough to be read as one")
    with Wire(folder) as wire:
        assert "result" in wire.shake_hands()
        wire.say("tools/list", id=1)
        assert wire.answer(1)["result"]["tools"]
        wire.call("search_memory", {"query": "tea"}, id=2)
        result = wire.answer(2)["result"]
        assert result["isError"] is True
        assert "Cannot open the memory" in result["content"][0]["text"]
        wire.say("resources/list", id=3)
        assert "reverie.db" in wire.answer(3)["error"]["message"]
        code, said, log = wire.end()
    assert (code, said) == (5, b"")
    assert "reverie.db" in log


def test_the_early_answer_needs_neither_the_package_nor_the_memory() -> None:
    program = (
        "import sys\n"
        "import reverie.interfaces.mcp.handshake\n"
        "import reverie.interfaces.cli.commands.mcp\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} & {'mcp', 'mcp_types', 'pydantic', "
        "'anyio', 'starlette', 'tantivy'}), *(name for name in sys.modules if name.startswith(("
        "'reverie.memory', 'reverie.stores', 'reverie.search', 'reverie.llm', 'reverie.tools'))))"
    )
    done = subprocess.run([PROGRAM[0], "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [], done.stderr


# -- ending ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_everything_asked_before_the_end_of_input_is_answered_and_kept(folder: Path) -> None:
    with Wire(folder) as wire:
        wire.shake_hands()
        for n in range(20):
            wire.call("save_memory", {"content": f"The train number {n} leaves at {n} o'clock"}, id=n)
        code, said, log = wire.end()
    answers = [json.loads(line) for line in said.splitlines()]
    assert sorted(each["id"] for each in answers) == list(range(20))
    assert not any(each["result"]["isError"] for each in answers)
    assert (code, log) == (0, f"New memory in {folder}\n")
    with Memory.open(folder) as memory:
        assert len(memory.list()) == 20


@pytest.mark.slow
def test_a_signal_ends_it_at_once_and_quietly(folder: Path) -> None:
    Memory.open(folder).close()  # of a new memory the server says so on standard error
    for number in (signal.SIGTERM, signal.SIGINT):
        with Wire(folder) as wire:
            wire.shake_hands()
            still_serves(wire)
            assert wire.end(number) == (0, b"", "")


@pytest.mark.slow
def test_a_client_that_disappears_leaves_nothing_locked(folder: Path) -> None:
    with Wire(folder) as wire:
        wire.shake_hands()
        for n in range(50):
            wire.call("save_memory", {"content": f"The train number {n} leaves at {n} o'clock"}, id=n)
        assert wire.process.stdin is not None
        assert wire.process.stdout is not None
        wire.process.stdout.close()
        wire.process.stdin.close()
        assert wire.process.wait(30) == 0
    with Memory.open(folder) as memory:
        memory.save("Alice likes tea")
        assert memory.admin.check() == []


@pytest.mark.slow
def test_a_client_that_does_not_read_cannot_keep_it_from_ending(folder: Path) -> None:
    with Wire(folder) as wire:
        wire.shake_hands()
        still_serves(wire)  # from here on the server itself answers
        for n in range(300):
            wire.say("tools/list", {}, id=n)
        wire.wait_until_unread(1 << 15)
        wire.process.send_signal(signal.SIGTERM)
        assert wire.process.wait(20) == 0


@pytest.mark.slow
def test_only_the_protocol_is_on_standard_output(folder: Path) -> None:
    program = (
        "import os\n"
        "import reverie.interfaces.mcp.stdio as stdio\n"
        "open_streams = stdio.open_streams\n"
        "def open_noisy_streams(*args, **how):\n"
        "    streams = open_streams(*args, **how)\n"
        "    class Noisy:\n"
        "        async def __aenter__(self):\n"
        "            entered = await streams.__aenter__()\n"
        "            print('noise', flush=True); os.write(1, b'more noise\\n')\n"
        "            return entered\n"
        "        async def __aexit__(self, *error): return await streams.__aexit__(*error)\n"
        "    return Noisy()\n"
        "stdio.open_streams = open_noisy_streams\n"
        "from reverie.interfaces.cli.main import main; main()"
    )
    hello = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": {}}}
    done = subprocess.run(
        [PROGRAM[0], "-c", program, "mcp", "--store", str(folder)],
        input=json.dumps(hello).encode() + b"\n",
        capture_output=True,
        timeout=60,
    )
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert done.stderr.count(b"noise") == 2


def test_what_cannot_start_says_so_and_writes_nothing_to_standard_output(
    call: Callable[..., Result], folder: Path
) -> None:
    for options, code, says in (
        (["--read-only"], 3, "no memory"),
        (["--groups", "nothing"], 2, "group"),
        (["--scope", "*"], 2, "scope"),
        (["--session", ""], 2, "session"),
        (["nonsense"], 2, "no arguments"),
    ):
        result = call("mcp", *options)
        assert (result.exit_code, result.stdout) == (code, ""), result.stderr
        assert says in result.stderr
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "reverie.db").write_bytes(b"not a database at all, but long enough to be read as one")
    result = call("mcp")
    assert (result.exit_code, result.stdout, "reverie.db" in result.stderr) == (5, "", True)
    assert gc.isenabled()


def test_without_the_package_it_says_what_to_install(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for missing in ("mcp", "mcp_types"):
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, missing, None)
            result = call("mcp")
        assert (result.exit_code, "'reverie[mcp]" in result.stderr) == (2, True)
