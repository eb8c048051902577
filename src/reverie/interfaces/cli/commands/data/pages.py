"""Commands on pages and logs: `pages`, `page`, `edit` and `append`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.page import LONGEST_PAGE, MEMORY, is_log, validate_page_name
from reverie.domain.text.validation import strip_terminal_codes
from reverie.files.expected import is_id
from reverie.interfaces.cli import listing, output
from reverie.interfaces.cli.options import Command, CommandContext, command
from reverie.interfaces.cli.prompts import TimeParam, read_text

if TYPE_CHECKING:
    from reverie.domain.page import Page, Paragraph


@command(as_of=True, json=True)
def pages(context: CommandContext, /) -> None:
    """List pages and logs: MEMORY.md, HISTORY.md, daily notes and others.

    In a pipe, one line per page: name, characters or paragraphs, time of the last change.

    With --json: {"pages": [{"name", "paragraphs", "characters", "updated_at"}]}; "paragraphs" is
    null for a page, "characters" for a log.
    """
    with context.reading() as memory:
        overviews = memory.pages.overview()
    listing.print_listing(
        context,
        ((each.name, each.size, each.updated_at) for each in overviews),
        {"pages": overviews},
        empty="No pages.",
    )


@command(as_of=True, json=True)
@click.argument("name", default=MEMORY)
def page(context: CommandContext, /, name: str) -> None:
    """Print MEMORY.md, or the page or log NAME.

    With --json: {"name": …, "text": …, "paragraphs": [{…}] for a log, null for a page}.
    """
    validate_page_name(name)
    with context.reading() as memory:
        exists = name in memory.pages.names()
        text = memory.pages.read(name)
        paragraphs = memory.pages.paragraphs(name) if is_log(name) else None
    if not exists:
        hint = "the first entry makes it" if is_log(name) else f"`reverie edit {name}` makes it"
        raise NotFound(f"there is no page {name!r}: {hint}; `reverie pages` lists those that exist")
    if context.as_json:
        output.print_json({"name": name, "text": text, "paragraphs": paragraphs})
    else:
        click.echo(output.escape_text(text), nl=not text.endswith("\n"))


@command(json=True)
@click.argument("name", default=MEMORY)
@click.option("--from", "file", metavar="FILE", help="Read the new text from a file; - for standard input.")
@click.option(
    "--replace", nargs=2, metavar="OLD NEW", help="Replace OLD, which must occur exactly once, with NEW."
)
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the journal.")
def edit(
    context: CommandContext, /, name: str, file: str | None, replace: tuple[str, str] | None, reason: str
) -> None:
    """Edit MEMORY.md, or the page NAME, in your editor; create a missing page.

    NAME may be the id of a record, too: what it says is edited. The editor is that of $VISUAL or $EDITOR.
    Concurrent changes of a page by others are merged. A log (HISTORY.md, a daily note) can only be appended to:
    see `reverie append`.

    With --json: {"outcome": "created" | "changed" | "unchanged", "merged": true or false, "page": {…}}, for a
    record {"outcome", "record": {…}}.
    """
    if file is not None and replace is not None:
        raise InvalidInput("--from cannot be combined with --replace")
    if is_id(name):
        if reason:
            raise InvalidInput("--reason is for pages: a change of a record has none")
        _edit_record(context, name, file, replace)
        return
    if is_log(validate_page_name(name)):
        raise InvalidInput(f"{name!r} is a log: use `reverie append`, or edit its file by hand")
    with context.memory() as memory:
        before = memory.pages.read(name)
        if replace is not None:
            result = memory.pages.replace(*replace, name=name, reason=reason)
        else:
            text = _edit_text(before) if file is None else _load_text(file)
            result = memory.pages.write(name, text, expected=before, reason=reason)
    size = output.count(len(result.page.content), "character")
    context.print_result(
        f"{result.outcome.capitalize()}: {output.one_line(name)} ({size})",
        {"outcome": result.outcome, "merged": result.merged, "page": result.page},
    )
    if result.merged and not context.as_json:
        context.print_message("The page was changed concurrently; both changes were merged.")


def _edit_record(context: CommandContext, id: str, file: str | None, replace: tuple[str, str] | None) -> None:
    """Change what a record says."""
    with context.memory() as memory:
        before = memory.get(id)
        if before is None:
            raise NotFound(f"no record {id}: see `reverie list`")
        if replace is None:
            text = _edit_text(before.content) if file is None else _load_text(file)
        elif before.content.count(replace[0]) == 1:
            text = before.content.replace(*replace)
        else:
            raise InvalidInput(f"the text to be replaced must occur exactly once: see `reverie show {id}`")
        record = memory.update(id, expected=before, content=text.strip())
    outcome = "unchanged" if record.content == before.content else "changed"
    context.print_result(f"{outcome.capitalize()}: {id}", {"outcome": outcome, "record": record})


def _edit_text(text: str) -> str:
    """Open the text in an editor; return the edited text."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput("cannot open an editor without a terminal: use --from FILE, or --from -")
    try:
        edited = click.edit(text, extension=".md")
    except click.ClickException as error:
        raise InvalidInput(f"{error.format_message()}: set another $EDITOR, or use --from") from None
    return text if edited is None else edited


def _load_text(file: str) -> str:
    """Load the text of a file, or of standard input for `-`."""
    if file == "-":
        text = read_text(("-",), name="--from")
        return f"{text}\n" if text else text
    try:
        with Path(file).expanduser().open(encoding="utf-8-sig") as opened:
            text = opened.read(LONGEST_PAGE + 1)
    except UnicodeDecodeError:
        raise InvalidInput(f"{file}: not UTF-8 text: convert it first") from None
    except OSError as error:
        raise InvalidInput(f"{file}: cannot be read ({error.strerror})") from None
    if len(text) > LONGEST_PAGE:
        raise InvalidInput(f"{file}: over {LONGEST_PAGE:,} characters, more than a page may have: shorten it")
    return text


class _BulletCommand(Command):
    """Command whose text may begin with a list item, `- like this`, which is not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; list items are text."""
        mark = "\0"  # cannot occur in an argument
        extra = super().parse_args(
            ctx, [mark + arg if arg.startswith(("- ", "-\t")) else arg for arg in args]
        )
        for name, value in ctx.params.items():
            if isinstance(value, str):
                ctx.params[name] = value.removeprefix(mark)
            elif isinstance(value, tuple):
                ctx.params[name] = tuple(word.removeprefix(mark) for word in value)
        return extra


@command(cls=_BulletCommand, json=True)
@click.argument("name")
@click.argument("text", nargs=-1, required=True)
@click.option("--at", type=TimeParam(), metavar="TIME", help="Time of the paragraph; default now.")
@click.option("--source", default="", metavar="TEXT", help="Source of the paragraph; for logs.")
def append(context: CommandContext, /, name: str, text: tuple[str, ...], **fields: Any) -> None:
    """Append a paragraph to a log, or a line to a page; create a missing one.

    NAME is MEMORY.md, HISTORY.md, a daily note such as 2026-02-07.md, or any other page. `-` reads TEXT from
    standard input.

    With --json: {"paragraph": {…}} for a log, {"page": {…}} for a page.
    """
    content = strip_terminal_codes(read_text(text, name="text"))
    with context.memory() as memory:
        added: Page | Paragraph = memory.pages.append(name, content, **fields)
    message = f"Added to {output.one_line(name)}"
    context.print_result(message, {"paragraph" if is_log(name) else "page": added}, brief=added.id)
