"""Write the generated parts of docs/reference/cli.md and docs/reference/settings.md.

Usage: python scripts/generate_cli_reference.py [--check]

What is above the line `MARKER` of a page is written by hand, what is below it comes from the commands and from the
docstring of `Settings`. With `--check` nothing is written, and the script ends with 1 if a page is outdated.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from reverie.interfaces.cli.main import COMMANDS, cli
from reverie.interfaces.cli.options import ExitCode, build_common_options
from reverie.settings import _FORMS, Settings

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
MARKER = "<!-- Generated below by scripts/generate_cli_reference.py: run `make docs`. -->"
_UNITS = {"int": "whole number", "patterns": "list of texts"}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them; return an exit code."""
    outdated = False
    for name, lines in {"cli.md": render_cli(), "settings.md": render_settings()}.items():
        file = REFERENCE / name
        present = file.read_text(encoding="utf-8")
        text = present.partition(MARKER)[0] + MARKER + "\n\n" + "\n".join(lines).rstrip() + "\n"
        if "--check" not in arguments:
            file.write_text(text, encoding="utf-8")
        elif present != text:
            sys.stdout.write(f"{name} is outdated: run `make docs`\n")
            outdated = True
    return int(outdated)


# -- commands ----------------------------------------------------------------------------------------


def render_cli() -> Iterator[str]:
    """Yield the lines of the generated part of cli.md."""
    yield from ("## Options of every command", "", "| option | meaning |", "|---|---|")
    for option in build_common_options():
        if isinstance(option, click.Option):
            yield render_option(option)
    yield "| `-h`, `--help` | Show the help of the command and exit. |"
    yield "| `--version` | Show the version and exit. Only before a command. |"
    yield from ("", "## Exit codes", "", "| code | meaning |", "|---|---|")
    yield from (f"| {int(code)} | {code.meaning} |" for code in ExitCode)
    for section in COMMANDS.values():
        for name in section:
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            yield from render_command(command, f"reverie {name}", "##")


def render_command(command: click.Command, path: str, level: str) -> Iterator[str]:
    """Yield the lines about a command and its subcommands."""
    context = click.Context(command, info_name=path)
    yield from (
        "",
        f"{level} `{path}`",
        "",
        "```text",
        " ".join([path, *command.collect_usage_pieces(context)]),
        "```",
        "",
    )
    yield from render_help(command.help or "")
    common = {name for option in build_common_options() for name in option.opts}
    options = [
        each
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden and not common.intersection(each.opts)
    ]
    if options:
        yield from ("| option | meaning |", "|---|---|", *map(render_option, options))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from render_command(inner, f"{path} {name}", "###")


def render_help(text: str) -> Iterator[str]:
    """Yield a help text as paragraphs; one that begins with a backspace keeps its lines."""
    for paragraph in inspect.cleandoc(text.partition("\f")[0]).split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("```text", *paragraph.split("\n")[1:], "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")


def render_option(option: click.Option) -> str:
    """Return the row of an option."""
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    if not option.is_flag and not option.count:
        names += f" {_escape(f'`{option.make_metavar(click.Context(cli))}`')}"
    shown = (
        isinstance(option.default, str | int | float)
        and not option.is_flag
        and option.show_default is not False
    )
    default = f" Default {option.default}." if shown and option.default != "" else ""
    return f"| {names} | {_escape((option.help or '').strip())}{_escape(default)} |"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


# -- settings ----------------------------------------------------------------------------------------


def render_settings() -> Iterator[str]:
    """Yield the lines of the generated part of settings.md."""
    yield from ("## Every setting", "")
    yield "The environment variable of a setting is its name in capitals after `REVERIE_`."
    yield from ("", "| setting | meaning | values | default | also called |", "|---|---|---|---|---|")
    meanings = parse_attributes(Settings.__doc__ or "")
    for field in dataclasses.fields(Settings):
        form = _FORMS[field.name]
        also = ", ".join(f"`{name}`" for name in form.also)
        cells = (
            f"`{field.name}`",
            meanings[field.name],
            render_values(form),
            render_default(field.default),
            also,
        )
        yield f"| {' | '.join(map(_escape, cells))} |"


def parse_attributes(docstring: str) -> dict[str, str]:
    """Return the text of each attribute of a docstring."""
    section = inspect.cleandoc(docstring).partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}


def render_values(form: Any) -> str:
    """Return the valid values of a setting."""
    if form.kind == "flag":
        return "yes, no"
    if form.kind in ("text", "patterns"):
        return str(_UNITS.get(form.kind, form.kind))
    low = "over 0" if form.kind == "minutes" and form.low == 0 else f"{form.low:g}"
    return f"{_UNITS.get(form.kind, form.kind)}, {low} to {form.high:,.0f}" + (
        ", or none" if form.optional else ""
    )


def render_default(value: Any) -> str:
    """Return the default of a setting as a file would have it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{value}`" if isinstance(value, str) else f"{value:g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
