"""Load on a server of this machine: `python -m tests.system.load --seconds 60 --connections 64`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.system.load.load import run_load


def main() -> int:
    """Run the load and print what came of it; return 1 if a request failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument(
        "--requests", type=int, help="so many requests in place of a time: does memory stay flat?"
    )
    parser.add_argument(
        "--pause", type=float, default=0.0, help="mean seconds that each connection waits between requests"
    )
    parser.add_argument("--embedder", default="auto", help="the setting of that name; none for no vectors")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = run_load(
            Path(folder) / "memory",
            seconds=given.seconds,
            connections=given.connections,
            requests=given.requests,
            pause=given.pause,
            embedder=given.embedder,
        )
    print(json.dumps(result.to_dict(), indent=2))
    return 1 if result.errors else 0


if __name__ == "__main__":
    sys.exit(main())
