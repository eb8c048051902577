"""The command `hook`: options of each event, and settings for an agent."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import click

from reverie.interfaces.cli.commands.agent.mcp import find_program
from reverie.interfaces.cli.options import CommandContext, CommandGroup, combine_options
from reverie.interfaces.hooks import runner
from reverie.interfaces.hooks.events import EVENTS
from reverie.interfaces.hooks.runner import HookOptions

CLIENTS = ("claude-code",)

_EXTRA_TIMEOUT_S = 5  # the client waits longer, so that the hook times out first

_event_options = combine_options(
    click.option(
        "--scope",
        metavar="NAME",
        help=f"Scope of the memories, such as user:alice.  [${runner.SCOPE}, or the common scope]",
    ),
    click.option(
        "--per-project", is_flag=True, help="Use a separate scope for each project, within that of --scope."
    ),
    click.option(
        "--agent",
        default="claude-code",
        show_default=True,
        metavar="NAME",
        help="Prefix of the session ids.",
    ),
    click.option(
        "--format",
        type=click.Choice(runner.FORMATS),
        default="json",
        show_default=True,
        help="Output format: json for Claude Code, text for other agents.",
    ),
    click.option(
        "--max-chars",
        type=click.IntRange(0),
        default=runner.MOST_CHARS,
        show_default=True,
        help="Maximum number of characters to write.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, runner.LONGEST_TIMEOUT_S, min_open=True),
        default=runner.TIMEOUT_S,
        show_default=True,
        metavar="SECONDS",
        help="Give up after this time.",
    ),
    click.option(
        "--all", is_flag=True, help="Write the full context at every prompt, as at the start of a session."
    ),
)


@click.group(cls=CommandGroup, subcommand_metavar="EVENT")
def hook() -> None:
    """Handle the events of a coding agent that runs hooks, such as Claude Code.

    Each event is read as JSON from standard input; the context for the agent is written to standard output.
    A failure never stops the agent: it is reported in one line on standard error, and the exit code is 0.
    `reverie hook config --client claude-code` prints the settings for the agent.
    """


_HELP = {
    "session-start": "Start of a session: write the profile, MEMORY.md, rules, notes and the newest records.",
    "user-prompt": "Prompt of the user: store it, and write the memories that match.",
    "stop": "Answer of the agent: store it, and learn from the exchange.",
    "tool-failure": "Failure of a tool: store its arguments and the error.",
    "session-end": "End of a session: save its insights.",
}


def _add_event_command(name: str, text: str) -> None:
    @hook.command(name, help=text)
    @_event_options
    def run_event(context: CommandContext, /, **values: Any) -> None:
        options = HookOptions(
            store=context.store,
            settings=context.settings,
            quiet=context.quiet,
            debug=context.debug,
            **values,
        )
        click.echo(runner.try_run(name, options, sys.stdin).decode(), nl=False)


for _name in EVENTS:
    _add_event_command(_name, _HELP[_name])


@hook.command()
@click.option("--client", type=click.Choice(CLIENTS), required=True, help="Agent that runs the hooks.")
@_event_options
def config(context: CommandContext, /, client: str, **values: Any) -> None:
    """Print the settings with which an agent runs the hooks.

    They contain the absolute paths of the folder and the program, and the options given here.
    """
    usual = HookOptions()
    changed = {name: value for name, value in values.items() if value != getattr(usual, name)}
    timeout = round(values["timeout"]) + _EXTRA_TIMEOUT_S
    hooks = _build_hooks(context.build_arguments(changed), timeout=timeout)
    click.echo(json.dumps({"hooks": hooks}, indent=2))
    context.print_message("Paste it into ~/.claude/settings.json, or .claude/settings.json in a project.")


def _build_hooks(arguments: list[str], *, timeout: int) -> dict[str, Any]:
    return {
        client_name: [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": shlex.join([*find_program(), "hook", name, *arguments]),
                        "timeout": timeout,
                    }
                ]
            }
        ]
        for name, client_name in EVENTS.items()
    }
