"""Sixty-four connections of mixed requests: none fails, and nothing acknowledged is missing; `make load` for longer."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from reverie import Memory
from tests.interfaces.http.test_http_process import Served, serving

SECONDS = float(os.environ.get("REVERIE_LOAD_SECONDS") or 8)
PAUSE = float(os.environ.get("REVERIE_LOAD_PAUSE") or 0)
"""Mean seconds for which a client waits before a request, so that requests meet as those of independent programs do."""

KINDS = {"save": 2, "turn": 2, "search": 3, "list": 1, "context": 1, "get": 3}
"""Kinds of requests and how often each is sent."""

WARM_S = 2.0
"""Seconds whose times do not count: the server still loads what the first requests need."""


class Client:
    """One connection with requests of its own."""

    def __init__(self, served: Served, number: int) -> None:
        self.number = number
        self.scope = f"user:u{number % 8}"
        self.random = random.Random(number)
        self.connection = HTTPConnection("127.0.0.1", served.port, timeout=60)
        self.seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.records: list[str] = []
        self.turns: list[str] = []
        self.errors: list[str] = []

    def run(self, until: float) -> None:
        """Send requests until a moment; measure those that begin after the first seconds."""
        warm = time.monotonic() + WARM_S
        while time.monotonic() < until and len(self.errors) < 20:
            if PAUSE:
                time.sleep(self.random.expovariate(1 / PAUSE))
            kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
            begun = time.monotonic()
            try:
                self.send(kind if kind != "get" or self.records else "save")
            except Exception as error:  # noqa: BLE001 - whatever fails is counted and shown
                self.errors.append(f"{kind}: {error!r}")
                self.connection.close()
            if begun >= warm:
                self.seconds[kind].append(time.monotonic() - begun)
        self.connection.close()

    def send(self, kind: str) -> None:
        """Send one request of a kind, and keep what was acknowledged."""
        number, session = self.random.randrange(10**9), f"/v1/sessions/s{self.number}"
        text = f"Fact {number} of writer {self.number}"
        if kind == "save":
            self.records.append(self.ask("POST", "/v1/records", {"content": text})["record"]["id"])
        elif kind == "turn":
            added = self.ask("POST", f"{session}/turns", {"turns": [{"role": "user", "content": text}]})
            self.turns.append(added["items"][0]["id"])
        elif kind == "search":
            self.ask("POST", "/v1/search", {"query": f"fact {number % 500} of a writer"})
        elif kind == "context":
            self.ask("POST", f"{session}/context", {"message": "what is fact one?"})
        else:
            known = f"/{self.random.choice(self.records)}" if kind == "get" else ""
            self.ask("GET", f"/v1/records{known}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of a request; raise if it is an error."""
        data = None if body is None else json.dumps(body)
        self.connection.request(
            method, f"{path}?scope={self.scope}", data, {"Content-Type": "application/json"}
        )
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status in (200, 201), f"{answer.status} {text[:200]!r}"
        return json.loads(text)


@pytest.mark.slow
@pytest.mark.timeout(300 + 10 * SECONDS)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
def test_many_connections_at_once_get_right_answers(tmp_path: Path) -> None:
    with serving(tmp_path / "memory") as served:
        clients = [Client(served, number) for number in range(64)]
        until = time.monotonic() + SECONDS
        threads = [threading.Thread(target=client.run, args=[until]) for client in clients]
        for thread in threads:
            thread.start()
        time.sleep(0.3 * SECONDS)
        first = measure_resident(served.process.pid)
        for thread in threads:
            thread.join()
        last = measure_resident(served.process.pid)
        assert served.end() == (0, "")
    for kind in KINDS:
        times = sorted(each for client in clients for each in client.seconds[kind])
        print(
            f"{kind}: {len(times)} requests, 99 of 100 within {times[len(times) * 99 // 100] * 1000:.0f} ms"
        )
    print(f"memory of the server: {first:.0f} MB, then {last:.0f} MB")
    assert [error for client in clients for error in client.errors] == []
    with Memory.open(tmp_path / "memory") as memory:
        assert memory.admin.check() == []
        for client in clients:
            view = memory.scoped(client.scope)
            assert None not in map(view.get, client.records)
            assert None not in map(view.get_turn, client.turns)
    assert last < first * 1.5 + 30


def measure_resident(pid: int) -> float:
    """Return the resident memory of a process without that of files, in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024
