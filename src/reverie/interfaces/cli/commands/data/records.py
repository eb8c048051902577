"""The commands on records: save, search, show, list, archive, restore, pin and purge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reverie.domain.change import get_subject
from reverie.domain.conversation import ROLES
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.record import KINDS, LAYERS, ORIGINS
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import (
    Command,
    CommandContext,
    ExitCode,
    as_json,
    as_of,
    combine_options,
    invocation,
    open_scope_of,
)
from reverie.interfaces.cli.prompts import TimeParam, confirm, read_text
from reverie.search.hits import SOURCES

if TYPE_CHECKING:
    from reverie.domain.conversation import Turn
    from reverie.domain.record import Record
    from reverie.reader import MemoryReader
    from reverie.search.hits import Hit, Source

_where = combine_options(
    click.option("--category", multiple=True, metavar="PATH",
                 help="Only this category and those below it; repeatable."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only what has this tag; repeatable."),
    click.option("--kind", multiple=True, type=click.Choice(KINDS), metavar="KIND",
                 help="Only this kind; repeatable."),
    click.option("--layer", multiple=True, type=click.Choice(LAYERS),
                 help="Only this layer; repeatable."),
    click.option("--origin", multiple=True, type=click.Choice(ORIGINS),
                 help="Only what this origin said; repeatable."),
    click.option("--scope", default="", metavar="SCOPE",
                 help="What this scope sees, such as user:alice; '*' for everything."),
    click.option("--since", "created_after", type=TimeParam(back=True), metavar="TIME",
                 help="Only from then on: 2025-01-31, a time, or 7d for the last seven days."),
    click.option("--before", "created_before", type=TimeParam(back=True), metavar="TIME",
                 help="Only before then."),
    click.option("--valid-at", type=TimeParam(), metavar="TIME", help="Only what holds at that time."),
)  # fmt: skip


# -- saving ------------------------------------------------------------------------------------------


@click.command(cls=Command)
@click.argument("text", nargs=-1, required=True)
@click.option("--category", metavar="PATH", help="A slash path, such as user-preferences/style.")
@click.option("--kind", type=click.Choice(KINDS), metavar="KIND", help=f"One of {', '.join(KINDS)}.")
@click.option("--layer", type=click.Choice(LAYERS), help="Taken from the kind when left out.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A label; repeatable.")
@click.option("--importance", type=float, metavar="0..1", help="How much it matters.")
@click.option("--confidence", type=float, metavar="0..1", help="How sure it is.")
@click.option("--source", default="", metavar="TEXT", help="Where it comes from, such as GOAL:deploy.")
@click.option(
    "--reference", "references", multiple=True, metavar="TEXT", help="A file or an address it is about."
)
@click.option(
    "--origin", type=click.Choice(ORIGINS), default="owner", show_default=True, help="Whose word it is."
)
@click.option("--scope", default="", metavar="SCOPE", help="Whose memory it is, such as user:alice.")
@click.option("--pin", "pinned", is_flag=True, help="Keep it from decay and automatic changes.")
@click.option("--ttl", metavar="DURATION", help="Let it leave search after 90s, 10m, 1h30m, 2d, ….")
@click.option("--valid-from", type=TimeParam(), metavar="TIME", help="From when it holds.")
@click.option("--valid-to", type=TimeParam(), metavar="TIME", help="Until when it holds.")
@as_json
@invocation
def remember(
    asked: CommandContext, /, text: tuple[str, ...], scope: str, as_json: bool, **fields: Any
) -> None:
    """Save something for the long term.

    TEXT is what to remember; `-` reads it from standard input. What is there already is not saved twice:
    the record is reinforced instead.

    With --json: {"outcome": "created" | "reinforced", "record": {…}}.
    With --quiet: the id only.
    """
    content = read_text(text, name="content")
    with asked.memory(create=True) as memory:
        given = {name: value for name, value in fields.items() if value is not None}
        saved = memory.scoped(scope).save(content, **given)
    record = saved.record
    if as_json:
        output.print_json({"outcome": saved.outcome, "record": record.to_dict()})
    elif asked.quiet:
        click.echo(record.id)
    else:
        known = f"Known already, now seen {record.seen_count} times"
        where = record.kind if record.category is None else f"{record.kind} in {record.category}"
        click.echo(f"{known if saved.outcome == 'reinforced' else 'Remembered'}: {record.id} ({where})")


# -- finding -----------------------------------------------------------------------------------------


@click.command(cls=Command)
@click.argument("query", nargs=-1)
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many.")
@_where
@click.option("--session", multiple=True, metavar="SESSION", help="Only turns of this session; repeatable.")
@click.option("--role", multiple=True, type=click.Choice(ROLES), help="Only turns of this role; repeatable.")
@click.option(
    "--min-score", type=click.FloatRange(0, 1), default=0.0, metavar="0..1", help="Leave out weaker hits."
)
@click.option("--literal", "mode", flag_value="literal", help="QUERY stands there as it is written.")
@click.option("--regex", "mode", flag_value="regex", help="QUERY is a regular expression.")
@click.option("--records-only", "only", flag_value="records", help="Search records only.")
@click.option("--turns-only", "only", flag_value="turns", help="Search conversations only.")
@click.option("--history-only", "only", flag_value="history", help="Search HISTORY.md only.")
@click.option("--explain", is_flag=True, help="Show the words matched and every part of each score.")
@as_of
@as_json
@invocation
def recall(
    asked: CommandContext,
    /,
    query: tuple[str, ...],
    mode: str | None,
    only: Source | None,
    explain: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Find what is remembered about QUERY, best first.

    Records, turns and HISTORY.md are searched together. `-` reads QUERY from standard input; without a QUERY
    the newest records are listed. Nothing relevant is an answer too: it ends with 1.

    In a pipe, a line for each hit: score, id, kind, category, session or page, time, content, with --explain
    why.

    With --json: {"query": …, "hits": [{"id", "type", "score", "content", "at", "kind", "layer",
    "explanation": {"matched", "parts", "evidence", "note"}, "record", "turn" or "paragraph"}]}.
    """
    question = read_text(query, name="query") if query else None
    with asked.reading() as memory:
        hits = _search(memory, question, only, {**how, "mode": mode or "words"})
    if as_json:
        output.print_json({"query": question, "hits": [hit.to_dict() for hit in hits]})
    elif output.is_terminal() and hits:
        from reverie.interfaces.cli import rich_output

        rich_output.print_hits(hits, question, explain=explain)
    else:
        output.print_rows(_format_hit_cells(hit, question, explain) for hit in hits)
    if not hits:
        if not as_json:
            output.print_message("Nothing relevant." if question else "Nothing there yet.", quiet=asked.quiet)
        raise click.exceptions.Exit(ExitCode.NOTHING)


def _search(
    memory: MemoryReader, question: str | None, only: Source | None, how: dict[str, Any]
) -> list[Hit]:
    """Search the sources that the options name; all of them when they name none."""
    if only == "history":
        if how["session"] or how["role"]:
            raise InvalidInput("--session and --role ask for turns: leave them or --history-only out")
        _refuse_record_options(how, unless="--history-only")
        if how["scope"]:
            raise InvalidInput("--scope: the history is everybody's: leave it or --history-only out")
    elif only == "records" or question is None:
        if only == "turns" or how["session"] or how["role"]:
            said = "add a QUERY" if question is None else "leave --records-only out"
            raise InvalidInput(f"--turns-only, --session and --role ask for turns: {said}")
        only = "records"
    elif only == "turns":
        _refuse_record_options(how, unless="--turns-only")
    reader = memory.scoped(how.pop("scope"))
    return reader.search(question, sources=SOURCES if only is None else only, **how)


def _refuse_record_options(how: dict[str, Any], *, unless: str) -> None:
    """Refuse an option that only records have."""
    for name, option in _RECORD_OPTIONS.items():
        if how[name]:
            raise InvalidInput(f"{option} asks for records: leave it or {unless} out")


_RECORD_OPTIONS = {
    "category": "--category",
    "tags": "--tag",
    "kind": "--kind",
    "layer": "--layer",
    "origin": "--origin",
    "valid_at": "--valid-at",
}


def _format_hit_cells(hit: Hit, question: str | None, explain: bool) -> list[object]:
    where = format_place(hit.turn)
    if hit.record is not None:
        where = hit.record.category or "-"
    elif hit.paragraph is not None:
        where = hit.paragraph.page
    cells: list[object] = [
        f"{hit.score:.2f}",
        hit.id,
        hit.kind,
        where,
        timestamps.format_time(hit.at),
        hit.content,
    ]
    return [*cells, output.explain_hit(hit, question)] if explain else cells


def format_place(turn: Turn | None) -> str:
    """Format the place of a turn: its session, `#` and its position."""
    return "-" if turn is None else f"{turn.session}#{turn.position}"


@click.command(cls=Command)
@click.argument("id")
@as_of
@as_json
@invocation
def show(asked: CommandContext, /, id: str, as_json: bool) -> None:
    """Show a record, a turn or a paragraph with everything known about it.

    With --json: {"type": "record", "record": {…}}, {"type": "turn", "turn": {…}} or
    {"type": "paragraph", "paragraph": {…}}.
    """
    with asked.reading() as memory:
        everything = memory.scoped(EVERY_SCOPE)
        value = everything.get(id) or everything.get_turn(id) or everything.get_paragraph(id)
    if value is None:
        raise _build_not_found(id)
    kind = get_subject(value)
    if as_json:
        output.print_json({"type": kind, kind: value.to_dict()})
        return
    if output.is_terminal():
        from reverie.interfaces.cli import rich_output

        rich_output.print_sheet(kind, value.to_dict())
        return
    for name, field in value.to_dict().items():
        if name != "content" and field not in (None, "", [], {}):
            output.print_row(name, output.format_field(field))
    click.echo(f"\n{output.escape_text(value.content)}")


def _build_not_found(id: str) -> NotFound:
    return NotFound(
        f"no record, turn or paragraph has the id {id!r}: "
        "find it with `reverie recall WORDS` or `reverie list`"
    )


@click.command("list", cls=Command)
@_where
@click.option("--archived", is_flag=True, help="The archived records instead of the live ones.")
@click.option("--pinned", is_flag=True, help="Only pinned records.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@click.option(
    "--offset", type=click.IntRange(min=0), default=0, show_default=True, help="Leave out so many first."
)
@as_of
@as_json
@invocation
def list_records(
    asked: CommandContext, /, scope: str, archived: bool, pinned: bool, as_json: bool, **where: Any
) -> None:  # fmt: skip
    """List records, newest first.

    In a pipe, a line for each: id, kind, category, time of the last change, content.

    With --json: {"records": [{…}]}.
    """
    with asked.reading() as memory:
        records = memory.scoped(scope).list(archived=archived, pinned=True if pinned else None, **where)
    if as_json:
        output.print_json({"records": [record.to_dict() for record in records]})
    elif output.is_terminal() and records:
        from reverie.interfaces.cli import rich_output

        rich_output.print_records(records)
    else:
        output.print_rows(
            (r.id, r.kind, r.category or "-", timestamps.format_time(r.updated_at), r.content)
            for r in records
        )
    if not records and not as_json:
        output.print_message("No records.", quiet=asked.quiet)


@click.command(cls=Command)
@click.option("--scope", default="", metavar="SCOPE", help="What this scope sees; '*' for everything.")
@as_of
@as_json
@invocation
def categories(asked: CommandContext, /, scope: str, as_json: bool) -> None:
    """List the categories in use, with the number of records in each.

    With --json: {"categories": {"name": number}}.
    """
    with asked.reading() as memory:
        found = memory.scoped(scope).categories()
    _tally(asked, "categories", found, as_json)


@click.command(cls=Command)
@click.option("--scope", default="", metavar="SCOPE", help="What this scope sees; '*' for everything.")
@as_of
@as_json
@invocation
def tags(asked: CommandContext, /, scope: str, as_json: bool) -> None:
    """List the tags in use, with the number of records that have each.

    With --json: {"tags": {"name": number}}.
    """
    with asked.reading() as memory:
        found = memory.scoped(scope).tags()
    _tally(asked, "tags", found, as_json)


def _tally(asked: CommandContext, /, name: str, found: dict[str, int], as_json: bool) -> None:
    if as_json:
        output.print_json({name: found})
    elif output.is_terminal() and found:
        from reverie.interfaces.cli import rich_output

        rich_output.tally(found)
    else:
        output.print_rows((number, key or "-") for key, number in found.items())
    if not found and not as_json:
        output.print_message(f"No {name}.", quiet=asked.quiet)


# -- tending -----------------------------------------------------------------------------------------


@click.command(cls=Command)
@click.argument("id")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the journal.")
@as_json
@invocation
def archive(asked: CommandContext, /, id: str, reason: str, as_json: bool) -> None:
    """Take a record out of search; `restore` brings it back.

    With --json: {"record": {…}}.
    """
    with asked.memory() as memory:
        _print_change(asked, "Archived", open_scope_of(memory, id).archive(id, reason=reason), as_json)


@click.command(cls=Command)
@click.argument("id")
@as_json
@invocation
def restore(asked: CommandContext, /, id: str, as_json: bool) -> None:
    """Bring an archived record back into search.

    With --json: {"record": {…}}.
    """
    with asked.memory() as memory:
        _print_change(asked, "Restored", open_scope_of(memory, id).restore(id), as_json)


@click.command(cls=Command)
@click.argument("id")
@as_json
@invocation
def pin(asked: CommandContext, /, id: str, as_json: bool) -> None:
    """Keep a record from decay and automatic changes.

    With --json: {"record": {…}}.
    """
    with asked.memory() as memory:
        _print_change(asked, "Pinned", open_scope_of(memory, id).update(id, pinned=True), as_json)


@click.command(cls=Command)
@click.argument("id")
@as_json
@invocation
def unpin(asked: CommandContext, /, id: str, as_json: bool) -> None:
    """Let a pinned record go its way again.

    With --json: {"record": {…}}.
    """
    with asked.memory() as memory:
        _print_change(asked, "Unpinned", open_scope_of(memory, id).update(id, pinned=False), as_json)


def _print_change(asked: CommandContext, /, what: str, record: Record, as_json: bool) -> None:
    if as_json:
        output.print_json({"record": record.to_dict()})
    elif not asked.quiet:
        click.echo(f"{what} {record.id}.")


@click.command(cls=Command)
@click.option("--older-than", metavar="DURATION", help="Archived longer ago than this, such as 30d.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@invocation
def purge(asked: CommandContext, /, older_than: str | None, yes: bool, as_json: bool) -> None:
    """Remove archived records for good.

    Without --older-than the setting retention_days decides which are old enough; 0 there keeps them all.
    Records whose time is over are archived first.

    With --json: {"purged": number}.
    """
    age = timestamps.parse_duration(older_than, name="--older-than") if older_than else None
    with asked.memory() as memory:
        which = older_than or f"{memory.settings.retention_days:g} days"
        question = f"Remove every record archived more than {which} ago for good?"
        nothing = age is None and memory.settings.retention_days == 0
        if not yes and not nothing and not confirm(question, instead="--yes"):
            output.print_message("Nothing was removed.", quiet=asked.quiet)
            return
        number = memory.admin.purge(older_than=age)
    if as_json:
        output.print_json({"purged": number})
    elif not asked.quiet:
        click.echo(f"Removed {output.count(number, 'record')} for good.")
