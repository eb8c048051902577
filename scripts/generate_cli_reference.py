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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from reverie.interfaces.cli.main import COMMANDS, cli
from reverie.interfaces.cli.options import ExitCode, build_common_options
from reverie.settings import _FORMS, Settings

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
MARKER = "<!-- Generated below by scripts/generate_cli_reference.py: run `make reference`. -->"
_UNITS = {"patterns": "list of texts"}


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
            sys.stdout.write(f"{name} is outdated: run `make reference`\n")
            outdated = True
    return int(outdated)


# -- commands ----------------------------------------------------------------------------------------

MIN_COMMANDS = 2
"""Number of commands with an equal option from which it is described once for all of them: the longest of each name."""

EXAMPLES = {
    "remember": 'reverie remember "Prefers short answers" --category user-preferences/style',
    "recall": 'reverie recall "which port is staging on?" --limit 3 --explain',
    "show": "reverie show 3f9a0c41d7be",
    "list": "reverie list --kind decision --tag deploy",
    "categories": "reverie categories --scope user:alice",
    "tags": "reverie tags",
    "archive": 'reverie archive 3f9a0c41d7be --reason "out of date"',
    "restore": "reverie restore 3f9a0c41d7be",
    "pin": "reverie pin 3f9a0c41d7be",
    "unpin": "reverie unpin 3f9a0c41d7be",
    "label": "reverie label 3f9a0c41d7be --tag billing",
    "vouch": "reverie vouch 3f9a0c41d7be",
    "settle": "reverie settle 3f9a0c41d7be 14c9172d64e9",
    "purge": "reverie purge",
    "forget": 'reverie forget --match "555 0199" --dry-run',
    "redact": "reverie redact --dry-run",
    "history": "reverie history --since 2h",
    "blame": "reverie blame 3f9a0c41d7be",
    "diff": "reverie diff --since yesterday",
    "undo": "reverie undo --last",
    "chat": "reverie chat --model ollama:qwen3:8b",
    "say": 'reverie say cli:1 "When can I deploy?"',
    "context": "reverie context cli:1 --explain",
    "sessions": "reverie sessions --limit 5",
    "pages": "reverie pages",
    "page": "reverie page HISTORY.md",
    "edit": "reverie edit MEMORY.md",
    "append": 'reverie append HISTORY.md "Moved staging to port 5433."',
    "dream": "reverie dream --dry-run",
    "model": "reverie model check",
    "review": "reverie review --accept 3f9a0c41d7be",
    "worker": "reverie worker",
    "rebuild": "reverie rebuild --yes",
    "backup": "reverie backup ~/monday.zip",
    "recover": "reverie recover ~/monday.zip --store ~/other",
    "copy": "reverie copy ~/agent ~/copy",
    "export": "reverie export ~/memory.jsonl",
    "import": "reverie import conversations.json --dry-run",
    "init": "reverie init --store ~/agent",
    "check": "reverie check",
    "doctor": "reverie doctor --fix",
    "embed": "reverie embed",
    "stats": "reverie stats --json",
    "demo": "reverie demo",
    "eval": "reverie eval mine --k 1,5",
    "end": "reverie end 3f9a0c41d7be",
    "prompt": "reverie prompt cli:1",
    "files": "reverie files push",
    "store": "reverie store create postgresql://reverie@db.example/agents",
    "connect": "reverie connect cursor",
    "mcp": "reverie mcp --read-only",
    "serve": "reverie serve --port 8767",
    "hook": "reverie hook user-prompt",
}
"""One example of each command that has no subcommands of its own. A test parses them."""


def render_cli() -> Iterator[str]:
    """Yield the lines of the generated part of cli.md."""
    commands = dict(iterate_commands())
    common = {name for option in build_common_options() for name in option.opts}
    rows = Counter(
        row for command in commands.values() for row in map(render_option, list_options(command, common))
    )
    frequent = sorted((row for row, number in rows.items() if number >= MIN_COMMANDS), key=len)
    shared = {*{row.split(" ")[1]: row for row in frequent}.values()}
    without = [path for path, command in commands.items() if _is_without_json(command)]
    yield from ("## Options of every command", "")
    yield from (render_option(each) for each in build_common_options() if isinstance(each, click.Option))
    yield "* `-h`, `--help`: Show the help of the command and exit."
    yield "* `--version`: Show the version and exit. Only before a command."
    yield from ("", "## Options of several commands", "", *sorted(shared))
    yield f"\nEvery command has `--json`, except {', '.join(f'`{each[8:]}`' for each in without)}."
    yield from ("", "## Exit codes", "")
    yield from (f"* {int(code)}: {code.meaning}" for code in ExitCode)
    for path, command in commands.items():
        yield from render_command(command, path, shared, common)


def iterate_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield each command and subcommand by the words that call it."""
    for section in COMMANDS.values():
        for name in section:
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            yield f"reverie {name}", command
            if isinstance(command, click.Group):
                for inner in command.list_commands(click.Context(command)):
                    below = command.get_command(click.Context(command), inner)
                    assert below is not None
                    yield f"reverie {name} {inner}", below


def list_options(command: click.Command, common: set[str]) -> list[click.Option]:
    """Return the visible options of a command that not every command has."""
    return [
        each
        for each in command.params
        if isinstance(each, click.Option) and not each.hidden and not common.intersection(each.opts)
    ]


def render_command(command: click.Command, path: str, shared: set[str], common: set[str]) -> Iterator[str]:
    """Yield the lines about a command: usage with an example, help, and options."""
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)]).replace(" [OPTIONS]", "")
    example = EXAMPLES.get(path.removeprefix("reverie "))
    level = "##" if path.count(" ") == 1 else "###"
    yield from (
        "",
        f"{level} `{path}`",
        "",
        "```sh",
        usage,
        *([example] if example and example != usage else []),
        "```",
        "",
    )
    yield from render_help(command.help or "")
    options = list_options(command, common)
    rows = [render_option(option) for option in options]
    yield from (row for row in rows if row not in shared)
    also = [option.opts[0] for option, row in zip(options, rows, strict=True) if row in shared]
    if names := [f"`{name}`" for name in also if name != "--json"]:
        yield from ("", f"Also {', '.join(names)}.")


def _is_without_json(command: click.Command) -> bool:
    has_json = any("--json" in each.opts for each in command.params)
    return not has_json and not isinstance(command, click.Group)


def render_help(text: str) -> Iterator[str]:
    """Yield a help text as paragraphs, without the forms for programs; after a backspace, lines stay."""
    for paragraph in inspect.cleandoc(text.partition("\f")[0]).split("\n\n"):
        if paragraph.startswith(("With --json", "In a pipe")):
            continue
        if paragraph.startswith("\b"):
            yield from ("```text", *paragraph.split("\n")[1:], "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")


def render_option(option: click.Option) -> str:
    """Return the line of an option."""
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    if not option.is_flag and not option.count:
        names += f" `{option.make_metavar(click.Context(cli))}`"
    shown = (
        isinstance(option.default, str | int | float)
        and not option.is_flag
        and option.show_default is not False
    )
    default = f" Default {option.default}." if shown and option.default != "" else ""
    return f"* {names}: {(option.help or '').strip()}{default}"


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


# -- settings ----------------------------------------------------------------------------------------


def render_settings() -> Iterator[str]:
    """Yield the lines of the generated part of settings.md."""
    yield from ("## Every setting", "")
    yield "The environment variable of a setting is its name in capitals after `REVERIE_`."
    yield ""
    meanings = parse_attributes(Settings.__doc__ or "")
    for field in dataclasses.fields(Settings):
        form = _FORMS[field.name]
        also = f"; also {', '.join(f'`{name}`' for name in form.also)}" if form.also else ""
        default = render_default(field.default)
        values = "" if form.kind == "flag" else f"{render_values(form)}; "
        yield f"* `{field.name}` ({values}default {default}{also}): {cut_meaning(meanings[field.name])}"


def cut_meaning(text: str) -> str:
    """Return the first sentence of a description, without the range and the default that its line has anyway."""
    sentence = re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]
    sentence = re.sub(r"[;,] (default|from|over|\d[\d,.]* (to|and))\b[^;:]*?(?=[;:]|\.?$)", "", sentence)
    return sentence.rstrip(".") + "."


def parse_attributes(docstring: str) -> dict[str, str]:
    """Return the text of each attribute of a docstring."""
    section = inspect.cleandoc(docstring).partition("Attributes:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^    (\w+): ", section, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}


def render_values(form: Any) -> str:
    """Return the valid values of a setting."""
    if form.kind == "choice":
        return ", ".join(form.choices)
    if form.kind in ("text", "patterns", "language", "categories"):
        return str(_UNITS.get(form.kind, form.kind))
    low = "over 0" if form.kind == "minutes" and form.low == 0 else f"{form.low:g}"
    unit = "" if form.kind in ("int", "number") else f"{form.kind}, "
    return f"{unit}{low} to {form.high:,.0f}{', or none' if form.optional else ''}"


def render_default(value: Any) -> str:
    """Return the default of a setting as a file would have it."""
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{value}`" if isinstance(value, str) else f"{value:g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
