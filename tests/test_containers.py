"""The container image and its composition, as far as they can be tested without building an image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reverie.interfaces.cli.main import cli

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
CONTAINERFILE = ROOT / "Containerfile"
COMPOSE = ROOT / "compose.yaml"
HADOLINT = Path(sys.executable).parent / "hadolint"


def read_instructions() -> list[tuple[str, str]]:
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def read_command(instruction: str) -> list[str]:
    text = dict(read_instructions())[instruction]
    command: list[str] = json.loads(text[text.index("[") :])
    return command


def read_services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    return services


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint is not installed")
def test_hadolint_accepts_the_containerfile() -> None:
    run = subprocess.run([HADOLINT, CONTAINERFILE], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_composition_is_valid_by_its_specification() -> None:
    specification = pytest.importorskip("compose_spec")
    options = specification.PyOptions()
    options.apply_merge = True
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", COMPOSE.read_text(encoding="utf-8"))
    composition = options.from_yaml(text)
    composition.validate()
    assert set(composition.service_names()) == {"database", "setup", "server", "worker"}


def test_the_image_runs_as_a_user_without_rights() -> None:
    last = dict(read_instructions())
    assert last["USER"] == "10001:10001"
    assert last["VOLUME"] == "/data"
    names = [name for name, _ in read_instructions()]
    assert names.count("FROM") == 2
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in ("RUN", "COPY"))


def test_everything_that_is_copied_is_in_the_context() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    admitted = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        source
        for name, text in read_instructions()
        if name == "COPY" and not text.startswith("--from")
        for source in text.split()[:-1]
    }
    assert lines[0] == "*"
    assert copied == admitted
    assert all((ROOT / each).exists() for each in copied)


def test_services_have_no_rights_that_they_do_not_need() -> None:
    services = read_services()
    for name in ("setup", "server", "worker"):
        assert services[name]["user"] == "10001:10001"
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["server"]["ports"] == ["127.0.0.1:8766:8766"]
    assert "ports" not in services["database"]
    assert "POSTGRES_USER" not in services["database"]["environment"]
    assert (
        "./scripts/create_roles.sh:/docker-entrypoint-initdb.d/create_roles.sh:ro"
        in services["database"]["volumes"]
    )
    assert "ports" not in services["worker"]


def test_no_password_is_in_the_composition() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    composition = yaml.safe_load(text)
    assert not re.search(r"://\w+:", text)
    assert set(composition["secrets"]) == {"database_password"}
    for service in composition["services"].values():
        assert service["secrets"] == ["database_password"]
        given = {name: value for name, value in service["environment"].items() if "PASSWORD" in name}
        assert set(given.values()) == {"/run/secrets/database_password"}


def test_the_entry_reads_the_password_from_its_file_and_passes_arguments_on(tmp_path: Path) -> None:
    program = tmp_path / "reverie"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$PGPASSWORD" "$@"\n')
    program.chmod(0o755)
    secret = tmp_path / "secret"
    secret.write_text('a "quoted" $password\n')
    environment = {"PATH": f"{tmp_path}:{os.defpath}", "PGPASSWORD_FILE": str(secret)}
    command = [*read_command("ENTRYPOINT"), "serve", "--host", "two words"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ['a "quoted" $password', "serve", "--host", "two words"]


@pytest.mark.slow
def test_the_health_check_tells_a_server_from_none(tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    from tests.interfaces.http.test_http_process import serving

    _, *arguments = read_command("HEALTHCHECK")
    with serving(tmp_path / "memory") as served:
        command = [sys.executable, *(each.replace("8766", str(served.port)) for each in arguments)]
        assert subprocess.run(command, capture_output=True).returncode == 0
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_the_first_token_is_created_as_the_guide_of_servers_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "server.md").read_text(encoding="utf-8")
    arguments = re.findall(r"compose run --rm server (token create .*)", page)
    assert len(arguments) == 1
    store = ["--store", str(tmp_path / "memory")]
    for command in (["init"], arguments[0].split()):
        result = CliRunner().invoke(cli, [*command, *store])
        assert result.exit_code == 0, result.output
