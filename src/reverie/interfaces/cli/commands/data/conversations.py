"""The commands on conversations: `say`, `context` and `sessions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reverie.domain.conversation import ROLES
from reverie.domain.errors import InvalidInput, NotFound
from reverie.domain.scope import EVERY_SCOPE
from reverie.domain.text import timestamps
from reverie.interfaces.cli import output
from reverie.interfaces.cli.options import (
    Command,
    CommandContext,
    as_json,
    as_of,
    invocation,
    open_session,
)
from reverie.interfaces.cli.prompts import TimeParam, read_text

if TYPE_CHECKING:
    from reverie.domain.conversation import SessionOverview


@click.command(cls=Command)
@click.option("--scope", default="", metavar="SCOPE", help="What this scope sees; '*' for everything.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@as_of
@as_json
@invocation
def sessions(asked: CommandContext, /, scope: str, limit: int, as_json: bool) -> None:
    """List sessions, the latest active first.

    In a pipe, a line for each: id, status, number of turns, time of the last.

    With --json: {"sessions": [{"id", "status", "scope", "turns", "created_at", "last_at", "window_start",
    "summary", "metadata"}]}.
    """
    with asked.reading() as memory:
        found = memory.scoped(scope).sessions(limit=limit)
    if as_json:
        output.print_json({"sessions": [_serialize_overview(each) for each in found]})
    elif output.is_terminal() and found:
        from reverie.interfaces.cli import rich_output

        rich_output.print_sessions(found)
    else:
        output.print_rows(
            (s.state.id, s.state.status, s.turns, timestamps.format_time(s.last_at)) for s in found
        )
    if not found and not as_json:
        output.print_message("No sessions.", quiet=asked.quiet)


def _serialize_overview(session: SessionOverview) -> dict[str, Any]:
    last = timestamps.format_time(session.last_at)
    return session.state.to_dict() | {"turns": session.turns, "last_at": last}


@click.command("say", cls=Command)
@click.argument("session")
@click.argument("text", nargs=-1, required=True)
@click.option("--role", type=click.Choice(ROLES), default="user", show_default=True, help="Whose turn it is.")
@click.option("--speaker", default="", metavar="NAME", help="Who says it, by name.")
@click.option("--at", type=TimeParam(), metavar="TIME", help="When it was said; now when left out.")
@as_json
@invocation
def add_turn(
    asked: CommandContext, /, session: str, text: tuple[str, ...], as_json: bool, **how: Any
) -> None:  # fmt: skip
    """Add a turn to SESSION, which begins with its first.

    TEXT is what was said; `-` reads it from standard input.

    With --json: {"turn": {…}}.
    With --quiet: the id only.
    """
    content = read_text(text, name="content")
    with asked.memory(create=True) as memory:
        turn = open_session(memory, session).add(how.pop("role"), content, **how)
    if as_json:
        output.print_json({"turn": turn.to_dict()})
    elif asked.quiet:
        click.echo(turn.id)
    else:
        click.echo(f"Turn {turn.position} of {output.one_line(turn.session)}: {turn.id}")


@click.command(cls=Command)
@click.argument("session")
@click.argument("message", nargs=-1)
@click.option("--soft-tokens", type=click.IntRange(min=0), metavar="N", help="Aim for so many tokens.")
@click.option("--hard-tokens", type=click.IntRange(min=0), metavar="N", help="Never more tokens than this.")
@click.option("--mark", is_flag=True, help="Note what is in it as shown, as an agent's own turn does.")
@click.option("--explain", is_flag=True, help="Add what was left out, what it costs, and why.")
@as_of
@as_json
@invocation
def context(
    asked: CommandContext,
    /,
    session: str,
    message: tuple[str, ...],
    mark: bool,
    explain: bool,
    as_json: bool,
    **budget: Any,
) -> None:
    """Print the pack for SESSION: what would go into the prompt for MESSAGE.

    Without a MESSAGE it is the pack for the session's last user turn. `-` reads MESSAGE from standard input.
    It is a preview and changes nothing, unless --mark says so.

    With --json: the pack's own fields, "text" and "tokens" among them.
    """
    question = read_text(message, name="message") if message else None
    if mark and asked.as_of is not None:
        raise InvalidInput("--mark changes the memory as it is: leave it or --as-of out")
    with asked.reading() as memory:
        if question is None and not memory.scoped(EVERY_SCOPE).turns(session, start=-1):
            raise NotFound(f"no session {session!r}: see `reverie sessions`, or say what to recall for")
        pack = open_session(memory, session).context(question, record_shown=mark, **budget)
    if as_json:
        output.print_json(pack.to_dict())
        return
    if pack.text:
        click.echo(output.escape_text(pack.text))
    else:
        found = pack.diagnostics.candidates
        why = "nothing relevant is remembered" if not found else "see --explain for what was left out"
        output.print_message(f"The pack is empty: {why}.", quiet=asked.quiet)
    if explain:
        click.echo(f"\n{output.escape_text(pack.explain())}")
