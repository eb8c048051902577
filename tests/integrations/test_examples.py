"""Every file under examples/ runs as it stands, with nothing but this machine to talk to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARED = {"scripted_server.py"}
ELSEWHERE = {
    "agent_framework_agent": "agent_framework",
    "claude_agent": "claude_agent_sdk",
    "google_adk_agent": "google.adk",
    "llama_index_agent": "llama_index",
    "strands_agent": "strands",
}
"""Examples with frameworks that are in environments of their own (scripts/check_versions.sh), where they run too."""

CUT_OFF = """
import ipaddress
import socket


def _refuse_others(name):
    plain = getattr(socket.socket, name)

    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            if not ipaddress.ip_address(address[0]).is_loopback:
                raise OSError(f"cut off: {address[0]} is not this machine")
        return plain(self, address)

    setattr(socket.socket, name, connect)


_resolve = socket.getaddrinfo


def _resolve_loopback(host, *given, **more):
    try:
        is_here = host in (None, "", "localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise OSError(f"cut off: {host} is not this machine")
    return _resolve(host, *given, **more)


_refuse_others("connect")
_refuse_others("connect_ex")
socket.getaddrinfo = _resolve_loopback
"""


def run(file: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The file, run in an empty home folder with the network cut off, and without any key."""
    cut = folder / "cut-off"
    cut.mkdir()
    (cut / "sitecustomize.py").write_text(CUT_OFF)
    env = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    env |= {"PYTHONPATH": str(cut), "HOME": str(folder), "TMPDIR": str(folder), "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, str(file)], cwd=folder, env=env, capture_output=True, text=True, timeout=100
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "file",
    sorted(set(EXAMPLES.glob("*.py")) - {EXAMPLES / name for name in SHARED}),
    ids=lambda file: file.stem,
)
def test_the_example_runs_as_it_stands(file: Path, tmp_path: Path) -> None:
    if file.stem in ELSEWHERE:
        pytest.importorskip(ELSEWHERE[file.stem])
    done = run(file, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
    assert "cut off" not in done.stdout + done.stderr
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("tmp")] == []
