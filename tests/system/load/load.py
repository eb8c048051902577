"""Mixed requests over many connections at once to a server that runs as a process."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from reverie import Memory, Settings
from tests.interfaces.http.test_http_process import Served, serving

_MARKS = (0, 10_000, 50_000)
"""Numbers of answered requests at which memory is measured, besides the end."""

_WARM_SHARE = 0.3
"""Share of the time after which memory is measured too."""

_WARM_S = 2.0
"""Seconds after the first request whose times do not count: the server still loads what the first requests need, and
all clients come at once."""

_STORING = 10_000
"""Requests of a bounded run that store something new; those after them say again what is known, or read."""

_KINDS = ("save", "turn", "search", "list", "context", "get")
_WEIGHTS = (2, 2, 3, 1, 1, 3)


@dataclass
class LoadResult:
    """What came of a load.

    Attributes:
        requests: Answered requests by kind whose times count.
        errors: Answers that no request should have, at most twenty.
        p50_ms: Median time of a request, by kind.
        p99_ms: 99th percentile, by kind.
        server_cpu_ms: Processor time of the server for a request.
        client_cpu_ms: Processor time of the clients for a request.
        resident_mb: Resident memory of the server by the number of requests that were answered: its own, and the
            parts of files that are mapped, which grow with the files and are given back when memory is short.
        acknowledged: Number of records and turns that were acknowledged.
        missing: Those of them that the memory does not hold.
    """

    requests: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    p50_ms: dict[str, float] = field(default_factory=dict)
    p99_ms: dict[str, float] = field(default_factory=dict)
    server_cpu_ms: float = 0.0
    client_cpu_ms: float = 0.0
    resident_mb: dict[int, tuple[float, float]] = field(default_factory=dict)
    acknowledged: int = 0
    missing: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return dict(vars(self))


class Client:
    """One connection with requests of its own.

    Args:
        served: The server.
        number: Number of the client, from 0 on.
        storing: Number of its requests after which nothing new is stored; None for no end.
        pause: Mean seconds between the end of a request and the next; 0 to send at once. Pauses are random
            (exponentially distributed), so that requests meet as those of independent programs do.
    """

    def __init__(self, served: Served, number: int, storing: int | None, pause: float) -> None:
        self.number = number
        self.storing = storing
        self.pause = pause
        self.random = random.Random(number)
        self.connection = HTTPConnection("127.0.0.1", served.port, timeout=60)
        self.seconds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        self.records: list[str] = []
        self.turns: list[str] = []
        self.errors: list[str] = []
        self.count = 0

    def run(self, is_over: Callable[[], bool]) -> None:
        """Send requests until it is over; measure those that begin after the first seconds."""
        warm = time.perf_counter() + _WARM_S
        while not is_over() and len(self.errors) < 20:
            if self.pause:
                time.sleep(self.random.expovariate(1 / self.pause))
            kind = self.random.choices(_KINDS, _WEIGHTS)[0]
            begun = time.perf_counter()
            try:
                self.send(kind if kind != "get" or self.records else "save")
            except Exception as error:  # noqa: BLE001 - whatever fails is counted and shown
                self.errors.append(f"{kind}: {error!r}")
                self.connection.close()
            if begun >= warm:
                self.seconds[kind].append(time.perf_counter() - begun)
            self.count += 1
        self.connection.close()

    def send(self, kind: str) -> None:
        """Send one request of a kind, and keep what was acknowledged."""
        scope, n = f"user:u{self.number % 8}", self.count
        session = f"/v1/sessions/s{self.number}"
        is_storing = self.storing is None or n < self.storing
        if kind == "save":
            fact = f"Fact {n} of writer {self.number} is {self.random.randrange(10**9)}"
            if not is_storing:
                fact = f"The fact of writer {self.number} is known"
            self.records.append(
                self.ask("POST", f"/v1/records?scope={scope}", {"content": fact})["record"]["id"]
            )
        elif kind == "turn" and is_storing:
            turn = {
                "role": "user",
                "content": f"Turn {n} of {self.number} tells of {self.random.randrange(10**6)}",
            }
            added = self.ask("POST", f"{session}/turns?scope={scope}", {"turns": [turn]})
            self.turns.append(added["items"][0]["id"])
        elif kind == "search":
            self.ask(
                "POST",
                f"/v1/search?scope={scope}",
                {"query": f"fact {self.random.randrange(500)} of a writer"},
            )
        elif kind in ("list", "turn"):
            self.ask("GET", f"/v1/records?scope={scope}&limit=20")
        elif kind == "context":
            self.ask("POST", f"{session}/context?scope={scope}", {"message": "what is fact one?"})
        else:
            self.ask("GET", f"/v1/records/{self.random.choice(self.records)}?scope={scope}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of a request; raise if it is an error."""
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status not in (200, 201):
            raise AssertionError(f"{answer.status} {text[:200]!r}")
        return json.loads(text)


def run_load(
    folder: Path,
    *,
    seconds: float,
    connections: int,
    requests: int | None = None,
    pause: float = 0.0,
    embedder: str = "auto",
) -> LoadResult:
    """Load a server of a new memory, and compare what it acknowledged with what it holds.

    Args:
        folder: Where the memory is made.
        seconds: For how long, if `requests` is None.
        connections: How many clients send at once.
        requests: How many requests are sent in place of a time. Only the first tenth stores something new, so that
            memory that grows after them is not that of what is stored.
        pause: Mean seconds for which each client waits before a request. Without a pause, a mean request takes as long
            as all connections' requests together (Little's law), however quick the server is.
        embedder: The setting of that name.
    """
    result = LoadResult()
    settings = folder.with_name("settings.json")
    settings.write_text(json.dumps({"embedder": embedder}), encoding="utf-8")
    with serving(folder, "--settings", str(settings)) as served:
        storing = None if requests is None else _STORING // connections
        clients = [Client(served, number, storing, pause) for number in range(connections)]
        used = _measure_processor(served.process.pid), time.process_time()
        begun = time.monotonic()

        def count() -> int:
            return sum(client.count for client in clients)

        def is_over() -> bool:
            return time.monotonic() >= begun + seconds if requests is None else count() >= requests

        threads = [threading.Thread(target=client.run, args=[is_over]) for client in clients]
        marks = [*_MARKS] if requests is not None else []
        is_warm = requests is not None
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            is_marked = bool(marks) and count() >= marks[0]
            if is_marked or (not is_warm and time.monotonic() >= begun + seconds * _WARM_SHARE):
                result.resident_mb[count()] = _measure_resident(served.process.pid)
                marks, is_warm = marks[1:], True
            time.sleep(0.05)
        done = count()
        result.server_cpu_ms = _round_ms((_measure_processor(served.process.pid) - used[0]) / done)
        result.client_cpu_ms = _round_ms((time.process_time() - used[1]) / done)
        result.resident_mb[done] = _measure_resident(served.process.pid)
        code, log = served.end()
        if code or log:
            result.errors.append(f"the server ended with {code}: {log[-500:]}")
    _note_times(result, clients)
    result.errors += [error for client in clients for error in client.errors][:20]
    with Memory.open(folder, settings=Settings(embedder=embedder)) as memory:
        result.errors += [str(each) for each in memory.admin.check()]
        for client in clients:
            scope = memory.scoped(f"user:u{client.number % 8}")
            result.acknowledged += len(client.records) + len(client.turns)
            result.missing += sum(scope.get(name) is None for name in client.records)
            result.missing += sum(scope.get_turn(name) is None for name in client.turns)
    return result


def _note_times(result: LoadResult, clients: list[Client]) -> None:
    for kind in _KINDS:
        times = sorted(each for client in clients for each in client.seconds[kind])
        result.requests[kind] = len(times)
        if times:
            result.p50_ms[kind] = _round_ms(times[len(times) // 2])
            result.p99_ms[kind] = _round_ms(times[min(len(times) - 1, len(times) * 99 // 100)])


def _measure_resident(pid: int) -> tuple[float, float]:
    """Return the resident memory of a process in MB: its own, and mapped files."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kilobytes = {name: int(value.split()[0]) for name, value in re.findall(r"(Rss\w+):(.*)", status)}
    files = kilobytes["RssFile"] + kilobytes["RssShmem"]  # files of a file system in memory count as shared
    return round(kilobytes["RssAnon"] / 1024, 1), round(files / 1024, 1)


def _measure_processor(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _round_ms(seconds: float) -> float:
    return round(seconds * 1000, 2)
