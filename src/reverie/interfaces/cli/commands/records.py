"""Commands on records: save, find, list, show and change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from reverie.domain.change import get_subject
from reverie.domain.conversation import ROLES
from reverie.domain.errors import NotFound
from reverie.domain.record import KINDS, LAYERS, ORIGINS, STANDING, Record
from reverie.domain.scope import EVERY_SCOPE, validate_scope
from reverie.domain.secrets.redactor import describe_redaction
from reverie.domain.text import timestamps
from reverie.domain.text.escaping import strip_terminal_codes
from reverie.interfaces.cli import options, output
from reverie.interfaces.cli.options import CommandContext, command

if TYPE_CHECKING:
    from reverie.repositories.records import Settlement
    from reverie.scoped import ScopedMemory
    from reverie.search.hits import Hit, SearchMode


_filter_options = options.combine_options(
    options.repeated_option("--category", metavar="PATH", help="Only this category and those below it"),
    options.repeated_option("--tag", "tags", metavar="TAG", help="Only this tag"),
    options.repeated_option("--kind", type=click.Choice(KINDS), metavar="KIND", help="Only this kind"),
    options.repeated_option("--layer", type=click.Choice(LAYERS), help="Only this layer"),
    options.repeated_option("--origin", type=click.Choice(ORIGINS), help="Only this origin"),
    options.scope_option("Search what this scope sees, such as user:alice; '*' for all scopes."),
    click.option("--since", "created_after", type=options.TimeParam(back=True), metavar="TIME",
                 help="Only created since this time: 2025-01-31, a time, yesterday, or 7d for the last seven days."),
    click.option("--before", "created_before", type=options.TimeParam(back=True), metavar="TIME",
                 help="Only created before this time."),
    click.option("--valid-at", type=options.TimeParam(), metavar="TIME", help="Only what is valid at this time."),
)  # fmt: skip
_count_scope = options.scope_option("Count what this scope sees; '*' for all scopes.")


# -- saving ------------------------------------------------------------------------------------------


@command(json=True)
@click.argument("text", nargs=-1, required=True)
@click.option("--category", metavar="PATH", help="Category path, such as user-preferences/style.")
@click.option("--kind", type=click.Choice(KINDS), metavar="KIND", help=f"One of {', '.join(KINDS)}.")
@click.option("--layer", type=click.Choice(LAYERS), help="Layer; default that of the kind.")
@options.repeated_option("--tag", "tags", metavar="TAG", help="Tag")
@click.option("--importance", type=float, metavar="0..1", help="Importance.")
@click.option("--confidence", type=float, metavar="0..1", help="Confidence.")
@click.option("--source", default="", metavar="TEXT", help="Source, such as GOAL:deploy.")
@options.repeated_option("--reference", "references", metavar="TEXT", help="File or address it refers to")
@click.option("--origin", type=click.Choice(ORIGINS), default="owner", show_default=True, help="Origin.")
@options.scope_option("Scope to save in, such as user:alice.")
@click.option("--pin", "pinned", is_flag=True, help="Protect it from decay and automatic changes.")
@click.option("--keep-secret", is_flag=True, help="Store secrets in it, such as a gate code.")
@click.option("--ttl", metavar="DURATION", help="Expire after 90s, 10m, 1h30m, 2d, ….")
@click.option("--valid-from", type=options.TimeParam(), metavar="TIME", help="Start of its validity.")
@click.option("--valid-to", type=options.TimeParam(), metavar="TIME", help="End of its validity.")
def remember(context: CommandContext, /, text: tuple[str, ...], scope: str, **fields: Any) -> None:
    """Save something to long-term memory.

    `-` reads TEXT from standard input; colours of a terminal are removed. If the memory already has it, the
    existing record is reinforced. A text of over 100,000 characters is for `reverie import --format document`.

    With --json: {"outcome": "created" | "reinforced", "kind", "about", "until", "permission", "reason", "record": {…}},
    and "notice" about secrets that were redacted.
    With --quiet: only the id.
    """
    content = strip_terminal_codes(options.read_text(text, name="content"))
    values = {name: value for name, value in fields.items() if value is not None}
    with context.memory(create=True) as memory:
        saved = memory.scoped(validate_scope(scope)).save(content, **values)
    record = saved.record
    where = record.kind if record.category is None else f"{record.kind} in {record.category}"
    where += f", until {saved.until:%Y-%m-%d}" if saved.until else ""
    where += ", ask before acting" if saved.permission else ""
    is_known = saved.outcome == "reinforced"
    done = f"Already known, seen {record.seen_count} times" if is_known else "Remembered"
    message = f"{done}: {record.id} ({where})"
    given = {name: each for name, each in saved.to_dict().items() if name != "notice" or each}
    context.print_result(message, given, brief=record.id)
    if record.kind in STANDING and saved.outcome == "created" and saved.reason:
        context.print_message(f"It is in every prompt: {saved.reason}.")
    if redacted := describe_redaction(content, record.content):
        advice = " To keep it, save it again with `--keep-secret`." if values["origin"] == "owner" else ""
        context.print_message(f"{redacted}{advice}")


# -- finding -----------------------------------------------------------------------------------------


@command(as_of=True, json=True)
@click.argument("query", nargs=-1)
@options.limit_option(10)
@_filter_options
@options.repeated_option("--session", metavar="SESSION", help="Only turns of this session")
@options.repeated_option("--role", type=click.Choice(ROLES), help="Only turns of this role")
@click.option("--min-score", type=click.FloatRange(0, 1), default=0.0, metavar="0..1", help="Minimum score.")
@click.option("--literal", "mode", flag_value="literal", help="Search for QUERY literally.")
@click.option("--regex", "mode", flag_value="regex", help="QUERY is a regular expression.")
@options.repeated_option(
    "--in", "sources", type=click.Choice(["records", "turns", "pages"]), help="Search only these"
)
@click.option("--explain", is_flag=True, help="Show the matched words and the parts of each score.")
def recall(
    context: CommandContext,
    /,
    query: tuple[str, ...],
    scope: str,
    mode: SearchMode | None,
    explain: bool,
    **filters: Any,
) -> None:
    """Find memories about QUERY, best first.

    Records, turns and pages are searched together. `-` reads QUERY from standard input. Without QUERY,
    the newest records are listed; with --in turns, --session or --role the newest turns, and with
    --in pages the newest paragraphs. Exits with 1 if nothing relevant is found.

    In a pipe, one line per hit: score, id, kind, category or session or page, time, content, and with
    --explain the explanation. A record that does not hold now has the reason in one more column.

    With --json: {"query": …, "hits": [{"id", "type", "score", "content", "at", "kind", "layer",
    "explanation": {"matched", "parts", "evidence", "note"}, "record", "turn" or "paragraph"}]}.
    """
    question = options.read_text(query, name="query") if query else None
    with context.reading() as memory:
        if question is not None:
            context.embed_waiting(memory)
        filters["sources"] = filters["sources"] or None
        hits = memory.scoped(scope).search(question, mode=mode or "words", **filters)
    output.print_listing(
        context,
        (_format_hit_cells(hit, explain) for hit in hits),
        {"query": question, "hits": hits},
        blocks=output.render_hits(hits, question, explain=explain),
        empty="Nothing relevant." if question is not None else "Nothing found.",
    )
    if not hits:
        raise click.exceptions.Exit(options.ExitCode.NOTHING)


def _format_hit_cells(hit: Hit, explain: bool) -> Sequence[object]:
    place = "-"
    if hit.turn is not None:
        place = f"{hit.turn.session}#{hit.turn.position}"
    elif hit.record is not None:
        place = hit.record.category or "-"
    elif hit.paragraph is not None:
        place = hit.paragraph.page
    cells = [f"{hit.score:.2f}", hit.id, hit.kind, place, hit.at, output.describe_content(hit)]
    return output.add_state([*cells, hit.explanation] if explain else cells, hit.record)


@command(as_of=True, json=True)
@options.ID
def show(context: CommandContext, /, id: str) -> None:
    """Show a record, a turn or a paragraph with all its fields, or the conversation of a session.

    ID is an id, or the name of a session. In a pipe, a conversation has one line per turn: position, time,
    speaker or role, content.

    A headline is followed by the records that it sums up.

    With --json: {"type": "record", "record": {…}, "parts": [{…}]}, {"type": "turn", "turn": {…}}, {"type": "paragraph",
    "paragraph": {…}} or {"type": "session", "session": {…}, "turns": [{…}]}.
    """
    with context.reading() as memory:
        everything = memory.scoped(EVERY_SCOPE)
        value = everything.get(id) or everything.get_turn(id) or everything.get_paragraph(id)
        session = None if value else next((s.state for s in everything.sessions() if s.state.id == id), None)
        turns = everything.turns(id) if session is not None else []
        names = value.parts if isinstance(value, Record) else ()
        parts = [part for name in names if (part := everything.get(name)) is not None]
    if session is not None:
        rows = (
            (each.position, each.at, each.speaker or each.role, output.describe_turn(each)) for each in turns
        )
        document = {"type": "session", "session": session, "turns": turns}
        output.print_listing(context, rows, document, blocks=output.render_turns(turns), empty="No turns.")
        return
    if value is None:
        hint = "Find one with `reverie recall WORDS`, `reverie list` or `reverie sessions`."
        if id.endswith(".md"):
            hint = f"It is the name of a page; see `reverie page {id}`."
        raise NotFound(f"No record, turn, paragraph or session {id!r}. {hint}")
    kind = get_subject(value)
    if context.as_json:
        output.print_json({"type": kind, kind: value, **({"parts": parts} if kind == "record" else {})})
        return
    fields = {name: field for name, field in value.to_dict().items() if field not in (None, "", [], {})}
    fields.pop("content", None)
    output.print_rows((name, output.format_field(field)) for name, field in fields.items())
    click.echo(f"\n{output.escape_text(value.content)}")
    for part in parts:
        click.echo(f"- {part.id}: {output.escape_text(part.content)}")


@command("list", as_of=True, json=True)
@_filter_options
@click.option("--archived", is_flag=True, help="List archived records instead of live ones.")
@click.option("--pinned", is_flag=True, help="Only pinned records.")
@click.option("--parts", is_flag=True, help="List the records under headlines, and no headlines.")
@options.limit_option(50)
@click.option("--offset", type=click.IntRange(min=0), default=0, help="Number of records to skip.")
def list_records(
    context: CommandContext, /, scope: str, archived: bool, pinned: bool, limit: int, **where: Any
) -> None:
    """List records, newest first. A headline represents the records that it sums up.

    In a pipe, one line per record: id, kind, category, time of the last change, content, and for one that does not
    hold now the reason, such as `held until 2026-05-01`.

    With --json: {"records": [{…}]}.
    """
    with context.reading() as memory:
        where["pinned"] = True if pinned else None
        records = memory.scoped(scope).list(archived=archived, limit=limit + 1, **where)
    output.print_listing(
        context,
        (output.add_state((r.id, r.kind, r.category or "-", r.updated_at, r.content), r) for r in records),
        {"records": records[:limit]},
        blocks=output.render_records(records),
        empty="No records.",
        limit=limit,
    )


@command(as_of=True, json=True)
@_count_scope
def categories(context: CommandContext, /, scope: str) -> None:
    """List the categories in use, with the number of records in each.

    With --json: {"categories": {"name": number}}.
    """
    _tally(context, scope, "categories")


@command(as_of=True, json=True)
@_count_scope
def tags(context: CommandContext, /, scope: str) -> None:
    """List the tags in use, with the number of records with each.

    With --json: {"tags": {"name": number}}.
    """
    _tally(context, scope, "tags")


def _tally(context: CommandContext, scope: str, name: str) -> None:
    with context.reading() as memory:
        counts = getattr(memory.scoped(scope), name)()
    rows = ((number, key or "-") for key, number in counts.items())
    output.print_listing(context, rows, {name: counts}, empty=f"No {name}.")


# -- changing -----------------------------------------------------------------------------------------


@command(json=True)
@options.ID
@options.REASON
def archive(context: CommandContext, /, id: str, reason: str) -> None:
    """Take a record out of search; `reverie restore` brings it back.

    With --json: {"record": {…}}.
    """
    _change(context, id, "Archived", "is archived already", lambda own: own.archive(id, reason=reason))


@command(json=True)
@options.ID
def restore(context: CommandContext, /, id: str) -> None:
    """Bring an archived record back into search.

    With --json: {"record": {…}}.
    """
    _change(context, id, "Restored", "is not archived", lambda own: own.restore(id))


@command(json=True)
@options.ID
def end(context: CommandContext, /, id: str) -> None:
    """Mark a record as no longer true: it leaves prompts and stays searchable.

    With --json: {"record": {…}}.
    """
    _change(context, id, "Ended", "had ended already", lambda own: own.end(id))


@command(json=True)
@options.ID
def pin(context: CommandContext, /, id: str) -> None:
    """Protect a record from decay and automatic changes.

    With --json: {"record": {…}}.
    """
    _change(context, id, "Pinned", "is pinned already", lambda own: own.update(id, pinned=True))


@command(json=True)
@options.ID
def unpin(context: CommandContext, /, id: str) -> None:
    """Allow decay and automatic changes again.

    With --json: {"record": {…}}.
    """
    _change(context, id, "Unpinned", "is not pinned", lambda own: own.update(id, pinned=False))


@command(json=True)
@options.ID
@options.repeated_option("--tag", "tags", required=True, help="Tag to add")
def label(context: CommandContext, /, id: str, tags: tuple[str, ...]) -> None:
    """Add tags to a record.

    With --json: {"record": {…}}.
    """
    _change(context, id, "Labelled", "has them already", lambda own: own.label([id], tags)[0])


@command(json=True)
@options.ID
@options.REASON
def vouch(context: CommandContext, /, id: str, reason: str) -> None:
    """Vouch for a record of a tool, the web or an import, so that it may be in a prompt.

    With --json: {"record": {…}}.
    """
    _change(context, id, "Vouched for", "is your word already", lambda own: own.vouch([id], reason=reason)[0])


@command(json=True)
@click.argument("holds")
@click.argument("other")
@click.option(
    "--verdict",
    type=click.Choice(["ended", "wrong", "both"]),
    default="ended",
    show_default=True,
    help="OTHER held until now, never did, or holds too.",
)
@options.REASON
def settle(context: CommandContext, /, holds: str, other: str, verdict: Settlement, reason: str) -> None:
    """Settle a contradiction of two records: HOLDS is right.

    With --json: {"holds": {…}, "other": {…}}.
    """
    with context.memory() as memory:
        kept, ended = options.open_scope_of(memory, holds).settle(holds, other, verdict, reason=reason)
    context.print_result(f"Settled: {holds} holds.", {"holds": kept, "other": ended})


def _change(
    context: CommandContext, id: str, verb: str, otherwise: str, change: Callable[[ScopedMemory], Record]
) -> None:
    """Change a record, and say so, or why nothing had to be changed."""
    with context.memory() as memory:
        own = options.open_scope_of(memory, id)
        before = own.get(id)
        record = change(own)
    text = f"Nothing changed: {id} {otherwise}." if record == before else f"{verb} {id}."
    context.print_result(text, {"record": record})


@command(json=True)
@click.option("--older-than", metavar="DURATION", help="Minimum time since archiving, such as 30d.")
@options.YES
def purge(context: CommandContext, /, older_than: str | None, yes: bool) -> None:
    """Delete archived records permanently.

    Without --older-than, the setting retention_days applies; 0 keeps all records. Expired records are
    archived first.

    With --json: {"purged": number}.
    """
    age = timestamps.parse_duration(older_than, name="--older-than") if older_than else None
    with context.memory() as memory:
        if not yes and (due := memory.admin.purge(older_than=age, dry_run=True)):
            records = f"{output.count(due, 'record')} that {'was' if due == 1 else 'were'}"
            age_text = older_than or f"{memory.settings.retention_days:g} days"
            question = f"Delete {records} archived more than {age_text} ago permanently?"
            context.confirm(question, refused="Nothing was deleted.")
        number = memory.admin.purge(older_than=age)
    text = f"Deleted {output.count(number, 'record')} permanently."
    context.print_result(text, {"purged": number})
