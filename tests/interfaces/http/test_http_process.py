"""The server as a process: start, stop, kill, and the commands of tokens."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.conftest import PROGRAM, environment, run_cli


class Served:
    """A server that runs, and where."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            data = None if body is None else json.dumps(body).encode()
            sent = {} if data is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, sent | (headers or {}))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=30)
        return self.process.returncode, log.decode()


@contextmanager
def serving(folder: Path, *options: str, port: int = 0) -> Iterator[Served]:
    run_cli("init", "--store", folder) if not (folder / "reverie.db").exists() else None
    process = subprocess.Popen(
        [*PROGRAM, "serve", "--port", str(port), "--store", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        assert said.startswith("Serving on http://"), said
        yield Served(process, int(said.split()[2].rstrip("/;").rpartition(":")[2]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_signal_stops_the_server_without_a_word(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving(tmp_path / "memory") as served:
            assert served.ask("GET", "/readyz")[0] == 200
            with socket.create_connection(("127.0.0.1", served.port)):
                assert served.end(number) == (0, "")


@pytest.mark.slow
def test_a_stream_hears_of_a_change_by_another_process_and_ends_with_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with serving(folder) as served:
        connection = HTTPConnection("127.0.0.1", served.port, timeout=20)
        connection.request("GET", "/v1/events")
        stream = connection.getresponse()
        assert stream.readline() == b"retry: 3000\n"
        run_cli("remember", "Likes tea", "--store", folder)
        lines = [stream.readline() for _ in range(3)]
        assert lines[1] == b"id: 1\n"
        assert json.loads(lines[2].removeprefix(b"data: "))["actor"] == "owner"
        assert served.end() == (0, "")
        connection.close()


def test_tokens_are_made_listed_and_revoked_by_command_while_the_server_runs(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with serving(folder) as served:
        assert served.ask("GET", "/v1/nothing")[0] == 404
        made = run_cli("token", "create", "root", "--right", "admin", "--right", "read", "--store", folder)
        token = made.stdout.decode().strip()
        assert b"very request to `reverie serve` needs a token" in made.stderr
        bearer = {"Authorization": f"Bearer {token}"}
        assert served.ask("GET", "/v1/nothing", headers=bearer)[0] == 404
        listed = json.loads(run_cli("token", "list", "--json", "--store", folder).stdout)["tokens"]
        assert [(each["label"], each["rights"]) for each in listed] == [("root", ["read", "admin"])]
        assert "digest" not in listed[0]
        assert token.split("_", 2)[2] not in json.dumps(listed)
        run_cli("token", "revoke", listed[0]["id"], "--store", folder)
        assert b"revoked" in run_cli("token", "list", "--store", folder).stdout
    refused = run_cli("token", "revoke", "root", "--store", folder)
    assert refused.returncode == 3
    assert b"no token has the id 'root': `reverie token list` shows the ids" in refused.stderr
