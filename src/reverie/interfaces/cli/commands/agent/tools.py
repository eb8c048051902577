"""The command `tools`: list the tools for a model, or their schemas for a provider."""

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
    "form",
    type=click.Choice(_FORMATS),
    default="text",
    help="Output format: text, or the JSON of a provider.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Only this group, such as long_term; repeatable.  [the default groups]",
)
@invocation
def tools(context: CommandContext, /, form: str, groups: Sequence[str]) -> None:
    """List the tools for a model, with their arguments.

    In a pipe, one line per tool: group, name, arguments, description. The formats other than text are one
    JSON document: the list of tools as the provider expects it.
    """
    from reverie.memory import Memory
    from reverie.tools import DEFAULT_GROUPS

    with Memory.open(":memory:") as memory:
        wanted = tuple(groups) or DEFAULT_GROUPS
        if form != "text":
            toolset = memory.tools(session="cli", groups=wanted)
            output.print_json(getattr(toolset, form.replace("-", "_"))())
            return
        toolsets = {group: memory.tools(session="cli", groups=[group]) for group in dict.fromkeys(wanted)}
    if output.is_terminal():
        click.echo("\n\n".join(_format_section(group, toolset) for group, toolset in toolsets.items()))
    else:
        output.print_rows(
            (group, tool.name, _format_arguments(tool), tool.spec.description)
            for group, toolset in toolsets.items()
            for tool in toolset
        )


def _format_section(group: str, toolset: Toolset) -> str:
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    lines = [group]
    for tool in toolset:
        lines.append(f"  {tool.name}({_format_arguments(tool)})")
        lines.append(
            click.formatting.wrap_text(
                tool.spec.description, width=width, initial_indent="      ", subsequent_indent="      "
            )
        )
    return "\n".join(lines)


def _format_arguments(tool: Tool) -> str:
    """Format the arguments of a tool; optional ones have a question mark."""
    required = tool.spec.parameters["required"]
    names = tool.spec.parameters["properties"]
    return ", ".join(name if name in required else f"{name}?" for name in names)
