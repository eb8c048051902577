"""The client in TypeScript: on Node.js against a server, and its types."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import generate_typescript

from tests.interfaces.conftest import run_cli
from tests.interfaces.http.test_http_process import serving

CLIENT = generate_typescript.FOLDER
COMPILER = Path(sys.prefix, "share", "typescript", "lib", "tsc.js")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


@needs_node
@pytest.mark.slow
def test_the_client_works_against_a_running_server(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    run_cli("init", "--store", folder)
    rights = [option for right in ("read", "write", "admin") for option in ("--right", right)]
    made = run_cli("token", "create", "test", "--origin", "owner", *rights, "--store", folder)
    with serving(folder) as served:
        url, token = f"http://127.0.0.1:{served.port}", made.stdout.decode().split()[0]
        run = subprocess.run(
            [NODE, CLIENT / "test.js", url, token], capture_output=True, text=True, timeout=100
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "# pass 10" in run.stdout
    assert "# skipped 0" in run.stdout


@needs_node
@pytest.mark.skipif(not COMPILER.exists(), reason="scripts/install_typescript.sh was not run")
@pytest.mark.slow
def test_the_types_accept_the_example_and_refuse_mistakes() -> None:
    options = [
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2022,dom,dom.asynciterable",
    ]
    run = subprocess.run([NODE, COMPILER, *options, CLIENT / "example.ts"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
