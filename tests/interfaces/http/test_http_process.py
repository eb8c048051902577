"""The server as a process: start, stop, kill, and the commands of tokens."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
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
        assert said.startswith("Serving on http://127.0.0.1:"), said + process.stderr.read().decode()
        yield Served(process, int(said.split()[2].rstrip("/;").rpartition(":")[2]))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_stops_the_server_without_a_word(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "memory") as served:
        assert served.ask("GET", "/readyz")[0] == 200
        idle = socket.create_connection(("127.0.0.1", served.port))
        assert served.end(number) == (0, "")
        idle.close()


@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    acknowledged: list[tuple[str, str]] = []
    with serving(folder) as served:

        def write(writer: int) -> None:
            for n in range(10_000):
                body = {"turns": [{"role": "user", "content": f"Turn {n} of writer {writer}"}]}
                key = {"Idempotency-Key": f"{writer}-{n}"}
                try:
                    status, answer = served.ask("POST", f"/v1/sessions/w{writer}/turns", body, key)
                    assert status == 201, answer
                    acknowledged.append((f"w{writer}", answer["items"][0]["id"]))
                    content = f"Fact {writer * 10_000 + n} of writer {writer} is {n * 7919}"
                    status, answer = served.ask("POST", "/v1/records", {"content": content})
                    assert status in (200, 201), answer
                    acknowledged.append(("", answer["record"]["id"]))
                except (OSError, HTTPException):
                    return  # killed

        writers = [threading.Thread(target=write, args=[n]) for n in range(4)]
        for each in writers:
            each.start()
        while len(acknowledged) < 200 and any(each.is_alive() for each in writers):
            time.sleep(0.01)
        served.process.kill()
        for each in writers:
            each.join()
    assert len(acknowledged) >= 200
    with Memory.open(folder) as memory:
        assert memory.admin.check() == []
        for session, name in acknowledged:
            assert (memory.get_turn(name) if session else memory.get(name)) is not None
        last = {session: name for session, name in acknowledged if session}
    with serving(folder) as served:  # the keys are still known
        for writer in range(4):
            count = sum(session == f"w{writer}" for session, _ in acknowledged)
            body = {"turns": [{"role": "user", "content": f"Turn {count - 1} of writer {writer}"}]}
            key = {"Idempotency-Key": f"{writer}-{count - 1}"}
            status, answer = served.ask("POST", f"/v1/sessions/w{writer}/turns", body, key)
            assert (status, answer["items"][0]["id"]) == (201, last[f"w{writer}"])


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


def test_other_machines_are_not_served_without_a_token(tmp_path: Path) -> None:
    run_cli("init", "--store", tmp_path / "memory")
    done = run_cli("serve", "--host", "0.0.0.0", "--port", "0", "--store", tmp_path / "memory")
    assert done.returncode == 2
    assert b"reverie token create" in done.stderr
