"""The commands on pages and logs: `pages`, `page`, `edit` and `append`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.page import MEMORY, is_log, validate_page_name
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import Command, CommandContext, as_json, as_of, invocation
from reverie.interfaces.cli.prompts import TimeParam, read_text

if TYPE_CHECKING:
    from reverie.domain.page import Page, Paragraph
    from reverie.repositories.pages import PageOverview


@click.command(cls=Command)
@as_of
@as_json
@invocation
def pages(asked: CommandContext, /, as_json: bool) -> None:
    """List pages and logs: MEMORY.md, HISTORY.md, the daily notes, and whatever else there is.

    In a pipe, a line for each: name, characters or paragraphs, when it changed last.

    With --json: {"pages": [{"name", "paragraphs", "characters", "updated_at"}]}; a page has no number of
    paragraphs, a log none of characters.
    """
    with asked.reading() as memory:
        found = memory.pages.overview()
    if as_json:
        output.print_json({"pages": [_serialize_overview(each) for each in found]})
    elif output.is_terminal() and found:
        from reverie.interfaces.cli import rich_output

        rich_output.print_pages(found)
    else:
        output.print_rows((page.name, page.size, timestamps.format_time(page.updated_at)) for page in found)
    if not found and not as_json:
        output.print_message("No pages.", quiet=asked.quiet)


def _serialize_overview(page: PageOverview) -> dict[str, Any]:
    return {
        "name": page.name,
        "paragraphs": page.paragraphs,
        "characters": page.characters,
        "updated_at": timestamps.format_time(page.updated_at),
    }


@click.command(cls=Command)
@click.argument("name", default=MEMORY)
@as_of
@as_json
@invocation
def page(asked: CommandContext, /, name: str, as_json: bool) -> None:
    """Print the page or log of that NAME; MEMORY.md when left out.

    With --json: {"name": …, "text": …, "paragraphs": [{…}] for a log, null for a page}.
    """
    validate_page_name(name)
    with asked.reading() as memory:
        there = name in memory.pages.names()
        text = memory.pages.read(name)
        paragraphs = [one.to_dict() for one in memory.pages.paragraphs(name)] if is_log(name) else None
    if not there:
        raise NotFound(f"there is no page {name!r}: `reverie pages` lists them")
    if as_json:
        output.print_json({"name": name, "text": text, "paragraphs": paragraphs})
    else:
        click.echo(output.escape_text(text), nl=not text.endswith("\n"))


@click.command(cls=Command)
@click.argument("name", default=MEMORY)
@click.option("--from", "file", metavar="FILE", help="Take the whole text from there; - is standard input.")
@click.option(
    "--replace", nargs=2, metavar="OLD NEW", help="Put NEW in the place of OLD, which stands there once."
)
@click.option("--reason", default="", metavar="TEXT", help="Why, for the journal.")
@as_json
@invocation
def edit(
    asked: CommandContext,
    /,
    name: str,
    file: str | None,
    replace: tuple[str, str] | None,
    reason: str,
    as_json: bool,
) -> None:
    """Edit the page of that NAME (MEMORY.md when left out) in your editor, and make it if there is none.

    The editor is the one that $VISUAL or $EDITOR names. What somebody else changes meanwhile stays too. A
    log (HISTORY.md, a daily note) only grows: see `reverie append`.

    With --json: {"outcome": "created" | "changed" | "unchanged", "merged": true or false, "page": {…}}.
    """
    if is_log(validate_page_name(name)):
        raise InvalidInput(f"{name!r} only grows: add to it with `reverie append`, or edit its file by hand")
    if file is not None and replace is not None:
        raise InvalidInput("--from and --replace both say what is to change: leave one of them out")
    with asked.memory(create=True) as memory:
        before = memory.pages.read(name)
        if replace is not None:
            written = memory.pages.replace(*replace, name=name, reason=reason)
        else:
            text = _edit_text(before) if file is None else _load_text(file)
            written = memory.pages.write(name, text, expected=before, reason=reason)
    if as_json:
        changed = {"outcome": written.outcome, "merged": written.merged, "page": written.page.to_dict()}
        output.print_json(changed)
        return
    size = output.count(len(written.page.content), "character")
    click.echo(f"{written.outcome.capitalize()}: {output.one_line(name)} ({size})")
    if written.merged:
        output.print_message(
            "It had been changed meanwhile: the changes of both sides are in it.", quiet=asked.quiet
        )


def _edit_text(text: str) -> str:
    """Return the text as the person edited it; the same text if nothing was saved."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput("nobody is there to edit it: pass the text with --from FILE, or --from -")
    try:
        edited = click.edit(text, extension=".md")
    except click.ClickException as error:
        raise InvalidInput(f"{error.format_message()}: name another with $EDITOR, or use --from") from None
    return text if edited is None else edited


def _load_text(file: str) -> str:
    """Load the text of a file, or of standard input for `-`."""
    if file == "-":
        text = read_text(("-",), name="--from")
        return f"{text}\n" if text else text
    try:
        return Path(file).expanduser().read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{file}: not UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None


class _TakesBullets(Command):
    """Command whose text may begin with a list item, `- like this`, which is not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; list items are text."""
        mark = "\0"  # which no argument can hold
        rest = super().parse_args(ctx, [mark + arg if arg.startswith(("- ", "-\t")) else arg for arg in args])
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix(mark)
            elif isinstance(value, tuple):
                ctx.params[name] = tuple(word.removeprefix(mark) for word in value)
        return rest


@click.command(cls=_TakesBullets)
@click.argument("name")
@click.argument("text", nargs=-1, required=True)
@click.option("--at", type=TimeParam(), metavar="TIME", help="Which time it tells of; now when left out.")
@click.option("--source", default="", metavar="TEXT", help="Where it comes from; for logs.")
@as_json
@invocation
def append(
    asked: CommandContext, /, name: str, text: tuple[str, ...], as_json: bool, **how: Any
) -> None:  # fmt: skip
    """Add a paragraph to a log, or a line to a page; either begins with its first.

    NAME is MEMORY.md, HISTORY.md, a daily note such as 2026-02-07.md, or any other page. TEXT is what to add;
    `-` reads it from standard input.

    With --json: {"paragraph": {…}} for a log, {"page": {…}} for a page.
    """
    said = read_text(text, name="text")
    with asked.memory(create=True) as memory:
        added: Page | Paragraph = memory.pages.append(name, said, **how)
    if as_json:
        output.print_json({"paragraph" if is_log(name) else "page": added.to_dict()})
    elif asked.quiet:
        click.echo(added.id)
    else:
        click.echo(f"Added to {output.one_line(name)}")
