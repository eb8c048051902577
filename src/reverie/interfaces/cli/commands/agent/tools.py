"""The command `tools`: list the tools of a model and their schemas for each provider."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, invocation

if TYPE_CHECKING:
    from reverie.tools import Tool, Toolset

_FORMATS = ("text", "openai", "openai-responses", "anthropic", "mcp")
_WIDEST = 100


@click.command(cls=Command)
@click.option(
    "--format",
    "shape",
    type=click.Choice(_FORMATS),
    default="text",
    help="text to read; a provider's for JSON to pass to it.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Only this group, such as long_term; can be given again.  [the usual ones]",
)
@invocation
def tools(asked: CommandContext, /, shape: str, groups: Sequence[str]) -> None:
    """List the tools that a model gets, with what they take.

    In a pipe, a line for each: group, name, arguments, what it does. Any other format than text is one JSON
    document: the list of tools as that provider takes it.
    """
    from reverie.memory import Memory
    from reverie.tools import DEFAULT_GROUPS

    with Memory.open(":memory:") as memory:
        wanted = tuple(groups) or DEFAULT_GROUPS
        if shape != "text":
            made = memory.tools(session="cli", groups=wanted)
            output.print_json(getattr(made, shape.replace("-", "_"))())
            return
        sets = {group: memory.tools(session="cli", groups=[group]) for group in dict.fromkeys(wanted)}
    if output.is_terminal():
        click.echo("\n\n".join(_format_section(group, found) for group, found in sets.items()))
    else:
        output.print_rows(
            (group, tool.name, _format_arguments(tool), tool.spec.description)
            for group, found in sets.items()
            for tool in found
        )


def _format_section(group: str, found: Toolset) -> str:
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    said = [group]
    for tool in found:
        said.append(f"  {tool.name}({_format_arguments(tool)})")
        said.append(
            click.formatting.wrap_text(
                tool.spec.description, width=width, initial_indent="      ", subsequent_indent="      "
            )
        )
    return "\n".join(said)


def _format_arguments(tool: Tool) -> str:
    """Format the arguments of a tool; optional ones have a question mark."""
    required = tool.spec.parameters["required"]
    names = tool.spec.parameters["properties"]
    return ", ".join(name if name in required else f"{name}?" for name in names)
