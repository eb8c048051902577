"""Time from starting the MCP server to its answer to `initialize`.

python -m benchmarks.mcp_start [--times 10] [--records 0]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reverie import Memory

PROGRAM = [sys.executable, "-c", "from reverie.interfaces.cli.main import main; main()"]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}


def time_start(folder: Path) -> float:
    """Start the server once and return the seconds until it answers."""
    began = time.perf_counter()
    with subprocess.Popen(
        [*PROGRAM, "mcp", "--store", str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        took = time.perf_counter() - began
        process.stdin.close()
    assert answer["result"]["serverInfo"]["name"] == "reverie"
    return took


def main() -> None:
    """Measure and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="how often")
    parser.add_argument("--records", type=int, default=0, help="records in the memory")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Memory.open(folder) as memory:
            memory.save_many(
                {"content": f"The train number {n} leaves at {n} o'clock"} for n in range(asked.records)
            )
        took = [time_start(folder) for _ in range(asked.times)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"from start to the answer to initialize, {asked.records} records, {asked.times} times:")
    print(f"best {min(took):.2f} s, median {statistics.median(took):.2f} s; ", end="")
    print(f"{(used.ru_utime + used.ru_stime) / asked.times:.2f} s of processor time each, including shutdown")


if __name__ == "__main__":
    main()
