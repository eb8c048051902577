"""Time from starting the MCP server to its list of tools, beside the reference server for memories.

python -m benchmarks.mcp_start [--times 10] [--records 0] [--reference PROGRAM]

`scripts/install_clients.sh` installs the reference server as `.venv/share/clients/node_modules/.bin/mcp-server-memory`.
Both are started in turns, asked `initialize` and `tools/list`, and stopped then.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from reverie import Memory

PROGRAM = [sys.executable, "-c", "from reverie.interfaces.cli.entry import main; main()"]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Start(NamedTuple):
    """Seconds of one start.

    Attributes:
        greeted: Until the answer to `initialize`.
        listed: Until the answer to `tools/list`.
        processor: Processor time until the answer to `tools/list`.
    """

    greeted: float
    listed: float
    processor: float


def time_start(command: Sequence[str], env: dict[str, str]) -> Start:
    """Start a server once, and stop it when it has listed its tools."""
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(**message: object) -> dict[str, object]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()
            return dict(json.loads(process.stdout.readline())) if "id" in message else {}

        ask(id=1, method="initialize", params=HELLO)
        greeted = time.perf_counter() - began
        ask(method="notifications/initialized")
        answer = ask(id=2, method="tools/list", params={})
        listed = time.perf_counter() - began
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        assert "result" in answer, answer
        process.kill()
    return Start(greeted, listed, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def measure(reference: str, times: int, records: int) -> dict[str, list[Start]]:
    """Measure the starts of Reverie's server, and of a reference server in turns with it if one is named."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "memory")
        with Memory.open(folder) as memory:
            memory.save_many(
                {"content": f"The train number {n} leaves at {n} o'clock"} for n in range(records)
            )
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        env["MEMORY_FILE_PATH"] = str(Path(name, "reference.json"))
        servers = {"reverie": [*PROGRAM, "mcp", "--store", str(folder)]}
        if reference:
            servers["reference"] = [reference]
        starts: dict[str, list[Start]] = {server: [] for server in servers}
        for _ in range(times + 1):
            for server, command in servers.items():
                starts[server].append(time_start(command, env))
    return {server: measured[1:] for server, measured in starts.items()}  # the first start compiles


def compare_medians(starts: dict[str, list[Start]]) -> float:
    """Return the median time until the list of tools, divided by that of the reference server."""
    ours, theirs = (
        statistics.median(each.listed for each in starts[name]) for name in ("reverie", "reference")
    )
    return ours / theirs


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="how often")
    parser.add_argument("--records", type=int, default=0, help="records in the memory")
    parser.add_argument("--reference", default="", help="program of the reference server")
    asked = parser.parse_args()
    starts = measure(asked.reference, asked.times, asked.records)
    print(f"{asked.records:,} records, {asked.times} times each; best and median:")
    for server, measured in starts.items():
        greeted, listed, processor = zip(*measured, strict=True)
        print(
            f"{server:>10}: initialize {format_seconds(greeted)}, tools/list {format_seconds(listed)}", end=""
        )
        print(f"; processor time until then {format_seconds(processor)}")
    if asked.reference:
        print(
            f"median until tools/list, divided by that of the reference server: {compare_medians(starts):.2f}"
        )


def format_seconds(seconds: Sequence[float]) -> str:
    """Return the best and the median in milliseconds."""
    return f"{min(seconds) * 1000:.0f} / {statistics.median(seconds) * 1000:.0f} ms"


if __name__ == "__main__":
    main()
