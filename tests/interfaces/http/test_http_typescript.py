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


def test_the_client_is_generated_from_the_description_as_it_is() -> None:
    assert generate_typescript.main(["--check"]) == 0


def test_an_outdated_client_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_typescript, "FOLDER", tmp_path)
    assert generate_typescript.main(["--check"]) == 1
    assert "make reference" in capsys.readouterr().out
    assert generate_typescript.main([]) == 0
    assert any(tmp_path.iterdir())


@needs_node
@pytest.mark.slow
def test_the_client_works_against_a_running_server(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    run_cli("init", "--store", folder)
    rights = [option for right in ("read", "write", "admin") for option in ("--right", right)]
    token = (
        run_cli("token", "create", "test", "--origin", "owner", *rights, "--store", folder)
        .stdout.decode()
        .split()[0]
    )
    with serving(folder) as served:
        run = subprocess.run(
            [NODE, CLIENT / "test.js", f"http://127.0.0.1:{served.port}", token],
            capture_output=True,
            text=True,
            timeout=100,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "# pass 11" in run.stdout
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
