"""The command `hook`: the options of each event, and the settings to paste into an agent."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from reverie.interfaces.cli import output
from reverie.interfaces.cli.commands.agent.mcp import find_program
from reverie.interfaces.cli.options import (
    Command,
    CommandContext,
    build_common_options,
    combine_options,
    invocation,
)
from reverie.interfaces.hooks import runner
from reverie.interfaces.hooks.events import EVENTS
from reverie.interfaces.hooks.runner import HookOptions

CLIENTS = ("claude-code",)

_LONGER_S = 5  # the client waits longer than the hook itself, so that it is the hook that gives up

_where = combine_options(
    click.option(
        "--scope",
        metavar="NAME",
        help=f"Remember in this scope, such as user:alice.  [${runner.SCOPE}, or everybody's]",
    ),
    click.option(
        "--per-project", is_flag=True, help="Give each project a scope of its own, within that of --scope."
    ),
    click.option(
        "--agent",
        default="claude-code",
        show_default=True,
        metavar="NAME",
        help="What the ids of its sessions begin with.",
    ),
    click.option(
        "--format",
        type=click.Choice(["json", "text"]),
        default="json",
        show_default=True,
        help="What Claude Code reads, or text for another agent.",
    ),
    click.option(
        "--max-chars",
        type=click.IntRange(0),
        default=runner.MOST_CHARS,
        show_default=True,
        help="Write at most so many characters.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        default=runner.TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="Give up after so long.",
    ),
    click.option(
        "--all", is_flag=True, help="Write at every prompt all that the beginning of a session gets."
    ),
)


class _Group(click.Group):
    """Group of the events with the options that all commands accept."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(build_common_options())


@click.group(cls=_Group, subcommand_metavar="EVENT")
def hook() -> None:
    """Remember for a coding agent that runs commands at its events, such as Claude Code.

    Each event comes as JSON on standard input; what the agent shall read goes to standard output. Nothing
    that fails here stops the agent: it is one line on standard error, and the exit code is 0.
    `reverie hook config --client claude-code` prints what to paste into its settings.
    """


def _build_event_command(name: str, says: str) -> click.Command:
    @combine_options(_where)
    @invocation
    def command(asked: CommandContext, /, **how: Any) -> None:
        called = HookOptions(
            folder=asked.folder, settings=asked.settings, quiet=asked.quiet, debug=asked.debug, **how
        )
        written = runner.try_run(name, called, sys.stdin)
        click.echo(written.decode(), nl=False)

    made: Callable[[Any], click.Command] = click.command(name, cls=Command, help=says)
    return made(command)


_SAYS = {
    "session-start": "A session begins or goes on: write profile, MEMORY.md, notes and the newest records.",
    "user-prompt": "The user says something: store it, and write what is remembered for it.",
    "stop": "The agent has answered: store the answer, and learn from the exchange.",
    "tool-failure": "A tool has failed: store what it was called with and what it said.",
    "session-end": "A session ends: keep what it came to, by rule.",
}
for _name in EVENTS:
    hook.add_command(_build_event_command(_name, _SAYS[_name]))


@hook.command(cls=Command)
@click.option(
    "--client", type=click.Choice(CLIENTS), required=True, help="The program that shall run the hooks."
)
@_where
@invocation
def config(asked: CommandContext, /, client: str, **how: Any) -> None:
    """Print what to paste into a client's settings, so that it runs the hooks.

    The folder and the program stand in it with their absolute paths, and the options that are given here.
    """
    del client
    from reverie.memory import resolve_folder

    given = ["--folder", str(resolve_folder(asked.place()))]
    if asked.settings is not None:
        given += ["--settings", str(Path(asked.settings).expanduser().absolute())]
    usual = HookOptions()
    for name, value in how.items():
        if value == getattr(usual, name):
            continue
        option = f"--{name.replace('_', '-')}"
        given += [option] if value is True else [option, f"{value:g}" if name == "timeout" else str(value)]
    click.echo(json.dumps({"hooks": _build_hooks(given, wait=round(how["timeout"]) + _LONGER_S)}, indent=2))
    output.print_message(
        "Paste it into ~/.claude/settings.json, or .claude/settings.json in a project.", quiet=asked.quiet
    )


def _build_hooks(given: list[str], *, wait: int) -> dict[str, Any]:
    return {
        client_calls_it: [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": shlex.join([*find_program(), "hook", name, *given]),
                        "timeout": wait,
                    }
                ]
            }
        ]
        for name, client_calls_it in EVENTS.items()
    }
