"""Claude Code, Codex and Gemini CLI themselves, from an empty home, with scripted models on loopback.

`scripts/install_clients.sh` installs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reverie import Memory
from reverie.domain.conversation import Turn
from tests.system.clients.models import ScriptedModel, Step, list_tools, serve_model

PROGRAMS = Path(sys.prefix) / "share" / "clients" / "node_modules" / ".bin"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAMS.exists(), reason="scripts/install_clients.sh was not run"),
]


class Client(NamedTuple):
    """A client, as it is run once with a prompt.

    Attributes:
        name: Its name for `reverie connect`, and the prefix of its sessions.
        command: Builds its command from a prompt and the address of its model.
        env: Builds its environment from the address of its model.
    """

    name: str
    command: Callable[[str, str], list[str]]
    env: Callable[[str], dict[str, str]]


def run_codex(prompt: str, url: str) -> list[str]:
    provider = f'{{name="scripted",base_url="{url}/v1",wire_api="responses",env_key="OPENAI_API_KEY"}}'
    settings = [f"model_providers.scripted={provider}", 'model_provider="scripted"', 'model="gpt-5.2"']
    options = [each for setting in settings for each in ("-c", setting)]
    return ["exec", *options, "--skip-git-repo-check", "--sandbox", "read-only", prompt]


CLIENTS = [
    Client(
        "claude-code",
        lambda prompt, url: ["claude", "-p", prompt, "--allowedTools", "mcp__reverie,Bash"],
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    Client(
        "codex",
        lambda prompt, url: ["codex", *run_codex(prompt, url)],
        lambda url: {"OPENAI_API_KEY": "scripted"},
    ),
    Client(
        "gemini",
        lambda prompt, url: ["gemini", "-m", "gemini-2.5-flash", "-p", prompt],
        lambda url: {
            "GEMINI_API_KEY": "scripted",
            "GEMINI_DEFAULT_AUTH_TYPE": "gemini-api-key",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
    ),
]


class Desk:
    """A home with one connected client, and its model."""

    def __init__(self, home: Path, client: Client, model: ScriptedModel) -> None:
        self.home, self.client, self.model = home, client, model
        self.folder = home / "memory"
        self.project = home / "atlas"
        self.project.mkdir()
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TMPDIR": str(home)}

    def reverie(self, *arguments: str) -> str:
        program = [sys.executable, "-c", "from reverie.interfaces.cli.entry import main; main()"]
        done = subprocess.run(
            [*program, *arguments], env=self.env, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def ask(self, prompt: str, *steps: Step) -> str:
        """Run the client once; return all that the model reads in its first request."""
        self.model.follow(*steps)
        program, *arguments = self.client.command(prompt, self.model.url)
        done = subprocess.run(
            [str(PROGRAMS / program), *arguments],
            env=self.env | self.client.env(self.model.url),
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert steps[-1].text in done.stdout
        return json.dumps(self.model.requests[0], ensure_ascii=False)

    def read_turns(self) -> list[Turn]:
        with Memory.open(self.folder) as memory:
            sessions = sorted(memory.sessions(), key=lambda each: each.last_at)
            assert all(each.state.id.startswith(f"{self.client.name}:") for each in sessions)
            return [turn for each in sessions for turn in memory.turns(each.state.id)]


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    with serve_model() as model:
        desk = Desk(tmp_path, request.param, model)
        if desk.client.name == "gemini":  # the one choice that its own first start asks for
            (tmp_path / ".gemini").mkdir()
            settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(settings))
        desk.reverie("connect", desk.client.name, "--yes", "--store", str(desk.folder))
        yield desk


def test_after_one_command_a_client_has_the_tools_the_context_and_a_memory(desk: Desk) -> None:
    desk.ask("We decided to deploy from the branch release.", Step("Understood, from release."))
    offered = [name for _, name in list_tools(desk.model.requests[0])]
    assert any(name.endswith("search_memory") for name in offered), offered
    assert any(name.endswith("save_memory") for name in offered), offered
    turns = desk.read_turns()
    assert [(turn.role, turn.content, turn.origin) for turn in turns] == [
        ("user", "We decided to deploy from the branch release.", "owner"),
        ("assistant", "Understood, from release.", "agent"),
    ]
    second = desk.ask(
        "From which branch do we deploy?",
        Step("", "search_memory", {"query": "deploy"}),
        Step("From release."),
    )
    assert second.count("We decided to deploy from the branch release.") == 1, second
    assert "We decided to deploy" in json.dumps(desk.model.requests[1]), "the tool's result"
    turns = desk.read_turns()
    assert [(turn.role, turn.origin) for turn in turns[2:]] == [("user", "owner"), ("assistant", "agent")]
    assert desk.reverie("connect", desk.client.name, "--check", "--store", str(desk.folder)) == ""
